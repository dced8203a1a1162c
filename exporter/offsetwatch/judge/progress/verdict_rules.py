"""Rules of progress verdicts: numbered, over the observations of a partition, as in Burrow.

Each rule is a small pure function: it takes a case and returns a reason, or None if it does not
apply. The first that applies decides; if none does, the verdict stays. There is no threshold: a
long time is three intervals, or is relative to the partition's own commit interval.

A verdict leaves ok only on observations over three intervals. It returns to ok at once. A state
that Connect reports of a connector (failed, paused, stopped) counts at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from offsetwatch.formatting import format_count, format_moment, format_timespan
from offsetwatch.judge.progress.observation_window import ObservationGaps, subtract_gaps
from offsetwatch.model.findings import Verdict

UNAVAILABLE_INPUT_RULE: Final = 1  # by which a verdict is unknown: an input is unavailable
NEW_PARTITION_RULE: Final = 26
OVERDUE_PARTITION_RULE: Final = 27
SNAPSHOT_RULE: Final = 28
UNUSABLE_OFFSET_RULE: Final = 29

# A week and a day: what happens once a week was seen once.
OBSERVED_ENOUGH_S: Final = 8 * 86_400.0
LATE_GAP_FACTOR: Final = 3.0

WORST_FIRST: Final = (
    Verdict.SILENT,
    Verdict.STALLED,
    Verdict.FAILED,
    Verdict.REWOUND,
    Verdict.SLOW,
    Verdict.OK,
    Verdict.PAUSED,
    Verdict.STOPPED,
    Verdict.UNKNOWN,
    Verdict.IDLE,  # "nothing waits" has to hold of every partition
)
STALL_VERDICTS: Final = frozenset({Verdict.STALLED, Verdict.SILENT})


class VerdictCase(NamedTuple):
    """Input of the rules for one partition. Durations are of watching (observation_window.py).

    patience_s      three intervals
    w, clock        second of watching of this pass; conversion of a second of watching to a moment
    gaps            time that was left out of watching meanwhile (observation_window.py)
    before          the verdict so far; unknown if there is none
    unavailable     input that is unavailable, in words; None while all are available
    unavailable_states    the same, of the input that reports the states of connector and tasks
    rests           paused or stopped, if an operator did that to the connector
    copied          the connector works on the partition now
    placed          it has an offset
    unsure          several records may hold its offset, under other raw keys or in other Kafka
                    partitions
    why             what shows that the connector cannot work, in words: its state, its tasks
    why_all         none of the connector can work
    why_s           since when `why` is there, or is not
    failed_s        since the connector or a task of it was last seen failed; None if never
    watched_s       since the first observation
    still_s         since it last moved, or since patience began
    moved_s         since it last moved; None if it has not since it is observed
    waiting_s       since work waits; None if none does, or if there is no log to read
    sure            the waiting records can be read
    headed          there is a log, or a source, whose end shows the remaining work
    sourced         the end of its database or file is read; `headed` if it shows what waits
    unit            what `ahead` counts, in the plural
    poll_s          for how long work may wait by the connector's configuration
    in_snapshot     an initial snapshot is in progress, which the offset says itself
    unusable        why the offset and the source do not fit together, in words
    endless         why no log end can be read where there should be one, in words
    end_still_s     since the log end advanced
    ahead           how far the position lies beyond the log end
    behind          it went back, and has not reached its earlier position again
    falls_behind    the lag grew over the whole window
    repeats         commits of one offset since it last moved; `repeated_s` since the newest
    unassigned      its topic is copied, and it is assigned to no task
    overdue         and it has records, though MirrorMaker should have discovered it by now
    handed_over     it was unassigned when it was last judged
    contradicted    other evidence that its commits are incomplete, in words
    unusual         how its connector's pause exceeds its baseline, in words
    move_interval_s the longest time between two moves of the window; longest_s of all times
    """

    patience_s: float
    w: float = 0.0
    clock: Callable[[float], float] = float
    gaps: ObservationGaps = ()
    before: Verdict = Verdict.UNKNOWN
    unavailable: str | None = None
    unavailable_states: str | None = None
    rests: str | None = None
    copied: bool = True
    placed: bool = True
    unsure: bool = False
    why: str | None = None
    why_all: bool = False
    why_s: float = 0.0
    failed_s: float | None = None
    watched_s: float = 0.0
    still_s: float = 0.0
    moved_s: float | None = None
    waiting_s: float | None = None
    sure: bool = False
    headed: bool = True
    sourced: bool = False
    unit: str = "records"
    poll_s: float = 0.0
    in_snapshot: bool = False
    unusable: str | None = None
    endless: str | None = None
    end_still_s: float = 0.0
    ahead: int = 0
    behind: bool = False
    falls_behind: bool = False
    repeats: int = 0
    repeated_s: float | None = None
    unassigned: bool = False
    overdue: bool = False
    handed_over: bool = False
    contradicted: str | None = None
    unusual: str | None = None
    move_interval_s: float = 0.0
    longest_s: float = 0.0

    def since(self, seconds: float) -> str:
        """Name the moment that lies so many seconds of watching back."""
        return format_moment(round(self.clock(subtract_gaps(self.w - seconds, self.gaps)), 3))

    @property
    def stuck_s(self) -> float | None:
        """Return how long readable work has waited without a move; None if not for long."""
        if self.waiting_s is None or not self.sure:
            return None
        stuck_s = min(self.waiting_s, self.still_s)
        return stuck_s if stuck_s >= self.patience_s + self.poll_s else None

    @property
    def late_s(self) -> float:
        """Return the time without a move after which it is late, by its usual interval of moves."""
        return max(self.patience_s, LATE_GAP_FACTOR * self.move_interval_s)


class Decision(NamedTuple):
    """Verdict, number of the rule that decided, and its reason in words."""

    verdict: Verdict
    rule: int
    reason: str


VerdictRule = Callable[[VerdictCase], str | None]

# --- of all --------------------------------------------------------------------------------------


def match_unavailable_input(case: VerdictCase) -> str | None:
    """Rule 1: unknown while an input is unavailable. The state from before is retained until the
    input is back. No input is needed for what an operator has paused or stopped.
    """
    if case.unavailable is not None:
        return case.unavailable if case.rests is None else None
    if case.unavailable_states is None:
        return None
    moving = case.moved_s is not None and case.moved_s < case.patience_s
    if case.stuck_s is None and (moving or case.before not in STALL_VERDICTS):
        return None
    return f"nothing advances, and the states of its tasks are unknown: {case.unavailable_states}"


def match_paused_connector(case: VerdictCase) -> str | None:
    """Rule 2: no progress is expected of a paused connector."""
    return "the connector is paused" if case.rests == Verdict.PAUSED else None


def match_stopped_connector(case: VerdictCase) -> str | None:
    """Rule 23: no progress is expected of a stopped connector."""
    return "the connector is stopped" if case.rests == Verdict.STOPPED else None


def match_uncopied_partition(case: VerdictCase) -> str | None:
    """Rule 3: no progress is expected of a partition that the connector does not work on (any
    more).
    """
    return None if case.copied else "the connector no longer works on it: its offset is left over"


def match_overdue_partition(case: VerdictCase) -> str | None:
    """Rule 27: records wait in a partition that was added upstream, no task copies it, and
    MirrorMaker should have found it by now.
    """
    return "records wait in it, and no task is to copy it" if case.overdue else None


def match_new_partition(case: VerdictCase) -> str | None:
    """Rule 26: no progress is expected of a partition that was added upstream, until MirrorMaker
    has refreshed its topics, and for three intervals after that.
    """
    if case.unassigned:
        return "it is new, and MirrorMaker has not refreshed its topics since"
    if case.handed_over and case.moved_s is None and case.still_s < case.patience_s:
        return "it is new, and a task is about to copy it"
    return None


def match_rewind(case: VerdictCase) -> str | None:
    """Rule 6: it went back, and is rewound until it reaches its earlier position again."""
    return "it went back and has not reached its earlier position" if case.behind else None


def match_unusable_offset(case: VerdictCase) -> str | None:
    """Rule 29: the source reports that it no longer has what the offset needs, or that it is not
    the one that the offset is of. Then no end shows how much work is left.
    """
    return case.unusable


def match_snapshot(case: VerdictCase) -> str | None:
    """Rule 28: an initial snapshot is in progress, by the offset itself (Debezium). It has no
    position until the snapshot is complete.
    """
    return "an initial snapshot is in progress" if case.in_snapshot else None


# --- with a log or a source whose end says what is left to do -------------------------------------


def match_stall(case: VerdictCase) -> str | None:
    """Rule 4: work waits and nothing advances for three intervals, and a cause is visible. A silent
    partition becomes stalled, or the other way round, only after three intervals: a connector in a
    restart loop would otherwise change its verdict each time.
    """
    if case.stuck_s is None:
        return None
    since = f"work waits and nothing advanced since {case.since(case.stuck_s)}"
    if case.why is not None and (case.before is not Verdict.SILENT or _is_cause_settled(case)):
        return f"{since}: {case.why}"
    if case.before is Verdict.STALLED and not _is_cause_settled(case):
        return f"{since}, and it has run again only since {case.since(case.why_s)}"
    if case.contradicted is not None:
        return f"{since}: {case.contradicted}"
    if case.before is Verdict.SILENT:
        return None
    if case.failed_s is not None and case.failed_s < case.still_s:
        return f"{since}: it failed at {case.since(case.failed_s)}, and runs again"
    if _is_repeating(case) and not case.sourced:  # a heartbeat of its task is no cause
        return f"{since}: it commits the same offset repeatedly"
    return None


def match_silent_stall(case: VerdictCase) -> str | None:
    """Rule 5: work waits and nothing advances for three intervals, and no state shows a
    failure.
    """
    if case.stuck_s is None:
        return None
    done = "nothing advanced" if case.placed else "nothing was ever committed"
    since = case.since(case.stuck_s)
    repeats = (
        "it committed the same offset repeatedly, and " if case.sourced and case.repeats else ""
    )
    return f"work waits and {done} since {since}, and {repeats}no state shows a failure"


def match_growing_lag(case: VerdictCase) -> str | None:
    """Rule 7: it advances, and its lag grew over the whole window all the same."""
    if not case.falls_behind or case.moved_s is None or case.moved_s >= case.patience_s:
        return None
    return "it advances, and its lag grew over the whole window"


def match_recent_advance(case: VerdictCase) -> str | None:
    """Rule 8: it advanced within three intervals."""
    if case.moved_s is None or case.moved_s >= case.patience_s:
        return None
    return "it advances"


def match_finished_work(case: VerdictCase) -> str | None:
    """Rule 9: nothing waits, and the log end advanced within three intervals: the work was just
    done. The end of a database also advances by what others write.
    """
    if case.sourced or case.waiting_s is not None or case.ahead:
        return None
    if case.watched_s < case.patience_s:
        return None
    return "nothing waits" if case.end_still_s < case.patience_s else None


def match_idle_log(case: VerdictCase) -> str | None:
    """Rule 10: nothing waits, and the log end stood still for three intervals; of a source, the
    position did.
    """
    still_s = case.still_s if case.sourced else case.end_still_s
    if case.waiting_s is not None or case.ahead or still_s < case.patience_s:
        return None
    since = case.since(still_s)
    if case.sourced:
        return f"nothing waits at its source, and it has not advanced since {since}"
    return f"nothing waits, and the log end has not advanced since {since}"


def match_position_beyond_end(case: VerdictCase) -> str | None:
    """Rule 11: a position beyond the end of the log or the source does not show how much work is
    left.
    """
    if not case.ahead or case.still_s < case.patience_s:
        return None
    if case.sourced:
        distance = format_count(case.ahead, case.unit.removesuffix("s"))
        return f"its position lies {distance} beyond the end of its source"
    return f"its position lies {format_count(case.ahead, 'record')} beyond the log end"


def match_uncertain_lag(case: VerdictCase) -> str | None:
    """Rule 12: where reading is not allowed, a constant distance to the log end may be transaction
    markers or compacted offsets.
    """
    if case.waiting_s is None or case.sure or min(case.waiting_s, case.still_s) < case.patience_s:
        return None
    return "records may wait: a lag that does not grow may be transaction markers alone"


# --- without such an end --------------------------------------------------------------------------


def match_missing_offset(case: VerdictCase) -> str | None:
    """Rule 13: without an offset there is nothing to compare. The reason is unknown: a connector
    removes the offset of a finished file, JDBC in bulk mode commits none at every poll, and an
    operator resets.
    """
    if case.unsure:
        return (
            "several records may hold its offset, under other raw keys or in other Kafka "
            "partitions, and only its next commit shows which of them counts"
        )
    if case.placed:
        return None
    if _is_repeating(case):
        return "it has no offset, and commits without one"
    return "it has no offset that can be read: its newest record is a tombstone or holds none"


def match_no_running_task(case: VerdictCase) -> str | None:
    """Rule 14: a connector without a running task advances nothing, whatever work there is."""
    if case.why is None or not case.why_all or min(case.still_s, case.why_s) < case.patience_s:
        return None
    return f"nothing advanced since {case.since(case.still_s)}: {case.why}"


def match_stall_by_failed_task(case: VerdictCase) -> str | None:
    """Rule 15: where some tasks have failed, the partitions that used to advance and are late are
    stalled. Which task has the other partitions is unknown.
    """
    if case.why is None or case.moved_s is None or case.moved_s <= case.late_s:
        return None
    if min(case.still_s, case.why_s) < case.patience_s:
        return None
    if _is_repeating(case):
        return None
    return f"it has not advanced since {case.since(case.moved_s)}: {case.why}"


def match_regular_advance(case: VerdictCase) -> str | None:
    """Rule 16: it advanced within three intervals, or within three times the longest gap of its
    window.
    """
    if case.moved_s is None or case.moved_s > case.late_s:
        return None
    return "it advances"


def match_repeated_commits(case: VerdictCase) -> str | None:
    """Rule 17: it commits one offset repeatedly: its task lives. So does a task whose database
    sends nothing any more (heartbeats), or one in a snapshot, so this is no sign of idleness.
    """
    if case.repeated_s is None or case.repeated_s > case.patience_s:
        return None
    return (
        "it commits the same offset repeatedly: its task lives, and whether work waits is unknown"
    )


def match_unprecedented_pause(case: VerdictCase) -> str | None:
    """Rule 18: observed for eight days, it was never quiet for a third of this time."""
    if case.moved_s is None or not case.longest_s or case.watched_s < OBSERVED_ENOUGH_S:
        return None
    if case.moved_s <= max(case.patience_s, LATE_GAP_FACTOR * case.longest_s):
        return None
    return (
        f"nothing advanced since {case.since(case.moved_s)}, and from {case.since(case.watched_s)} "
        f"until then it was never quiet for longer than {format_timespan(case.longest_s)}"
    )


def match_pause_beyond_baseline(case: VerdictCase) -> str | None:
    """Rule 22: its connector as a whole pauses longer than ever in its history, for the hours of
    the week that the pause covers, and no observation is missing for three intervals.
    """
    if case.unusual is None or min(case.watched_s, case.still_s) < case.patience_s:
        return None
    return case.unusual


def match_recovery(case: VerdictCase) -> str | None:
    """Rule 19: what was stalled stays stalled until it advances, or runs for three intervals."""
    if case.before is not Verdict.STALLED or case.why_s >= case.patience_s:
        return None
    return "nothing has advanced since its tasks began to run again"


def match_no_second_signal(case: VerdictCase) -> str | None:
    """Rule 20: nothing is committed, and without a second signal idle and dead look the same."""
    if case.watched_s < case.patience_s:
        return None
    if case.endless is not None:
        return f"it commits nothing, and whether work waits is unknown: {case.endless}"
    return "it commits nothing, and whether work waits is unknown"


def match_failed_connector(failed: str | None) -> str | None:
    """Rule 24: a connector is failed while it, or a task of it, is failed, whatever its partitions
    show. Work that waits without any progress is the worse verdict.
    """
    return failed


def match_no_first_commit(ran_s: float, patience_s: float, since: str) -> str | None:
    """Rule 25: it runs for three intervals and never committed: it has no work, or its work never
    succeeds. Which of the two is unknown.
    """
    if ran_s < patience_s:
        return None
    return (
        f"it has run since {since} and never committed: it has no work, or it cannot read its "
        "source or write its topics; see the worker's log"
    )


def match_short_observation(case: VerdictCase) -> str | None:
    """Rule 21: a verdict needs three intervals of observation."""
    if case.before is not Verdict.UNKNOWN:
        return None
    return f"a verdict needs three intervals ({format_timespan(case.patience_s)}) of observation"


def _is_repeating(case: VerdictCase) -> bool:
    """Check whether it committed the same offset again within three intervals."""
    return case.repeated_s is not None and case.repeated_s < case.patience_s


def _is_cause_settled(case: VerdictCase) -> bool:
    return case.why_s >= case.patience_s


FAILED_CONNECTOR_RULE: Final = 24
NO_FIRST_COMMIT_RULE: Final = 25

_NumberedRules = tuple[tuple[int, Verdict, VerdictRule], ...]

RULES_WITH_LOG_END: Final[_NumberedRules] = (
    (UNAVAILABLE_INPUT_RULE, Verdict.UNKNOWN, match_unavailable_input),
    (2, Verdict.PAUSED, match_paused_connector),
    (23, Verdict.STOPPED, match_stopped_connector),
    (3, Verdict.IDLE, match_uncopied_partition),
    (UNUSABLE_OFFSET_RULE, Verdict.UNKNOWN, match_unusable_offset),
    (OVERDUE_PARTITION_RULE, Verdict.STALLED, match_overdue_partition),
    (NEW_PARTITION_RULE, Verdict.IDLE, match_new_partition),
    (4, Verdict.STALLED, match_stall),
    (5, Verdict.SILENT, match_silent_stall),
    (6, Verdict.REWOUND, match_rewind),
    (7, Verdict.SLOW, match_growing_lag),
    (8, Verdict.OK, match_recent_advance),
    (9, Verdict.OK, match_finished_work),
    (10, Verdict.IDLE, match_idle_log),
    (11, Verdict.UNKNOWN, match_position_beyond_end),
    (12, Verdict.UNKNOWN, match_uncertain_lag),
    (21, Verdict.UNKNOWN, match_short_observation),
)
RULES_WITHOUT_LOG_END: Final[_NumberedRules] = (
    (UNAVAILABLE_INPUT_RULE, Verdict.UNKNOWN, match_unavailable_input),
    (2, Verdict.PAUSED, match_paused_connector),
    (23, Verdict.STOPPED, match_stopped_connector),
    (3, Verdict.IDLE, match_uncopied_partition),
    (UNUSABLE_OFFSET_RULE, Verdict.UNKNOWN, match_unusable_offset),
    (13, Verdict.UNKNOWN, match_missing_offset),
    (14, Verdict.STALLED, match_no_running_task),
    (SNAPSHOT_RULE, Verdict.OK, match_snapshot),
    (15, Verdict.STALLED, match_stall_by_failed_task),
    (6, Verdict.REWOUND, match_rewind),
    (11, Verdict.UNKNOWN, match_position_beyond_end),
    (16, Verdict.OK, match_regular_advance),
    (22, Verdict.SILENT, match_pause_beyond_baseline),
    (18, Verdict.SILENT, match_unprecedented_pause),
    (19, Verdict.STALLED, match_recovery),
    (17, Verdict.UNKNOWN, match_repeated_commits),
    (20, Verdict.UNKNOWN, match_no_second_signal),
    (21, Verdict.UNKNOWN, match_short_observation),
)
RULE_TEXTS: Final = {
    number: " ".join((predicate.__doc__ or "").split())
    for number, predicate in (
        *(
            (number, predicate)
            for rules in (RULES_WITH_LOG_END, RULES_WITHOUT_LOG_END)
            for number, _, predicate in rules
        ),
        (FAILED_CONNECTOR_RULE, match_failed_connector),
        (NO_FIRST_COMMIT_RULE, match_no_first_commit),
    )
}


def decide_verdict(case: VerdictCase) -> Decision | None:
    """Return the decision of the first rule that matches; None: the verdict does not change."""
    for number, verdict, predicate in RULES_WITH_LOG_END if case.headed else RULES_WITHOUT_LOG_END:
        reason = predicate(case)
        if reason is not None:
            return Decision(verdict=verdict, rule=number, reason=reason)
    return None


def find_worst_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of the verdicts of partitions; UNKNOWN without any."""
    distinct = frozenset(verdicts)
    return next((verdict for verdict in WORST_FIRST if verdict in distinct), Verdict.UNKNOWN)
