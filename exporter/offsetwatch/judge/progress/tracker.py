"""Tracker of verdicts over time: judges partitions, and sums them up by connector and flow.

A full pass over all partitions runs once an interval, when patience with a partition ends, and when
an input becomes unavailable or available. Between full passes a partial pass covers partitions in
trouble, so that they recover in the verdicts at once, and connectors that failed, paused or
resumed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import is_
from sys import intern
from typing import Final

import msgspec

from offsetwatch.formatting import format_moment
from offsetwatch.judge.input_visibility import InputVisibility, pause_state_of
from offsetwatch.judge.progress.cases import (
    build_case,
    build_partition_evidence,
    build_summary_evidence,
    compute_patience_end_w,
    compute_valid_until_w,
)
from offsetwatch.judge.progress.observation_window import ClockMark, ObservationWindow, Stopwatch
from offsetwatch.judge.progress.subjects import (
    JudgedConnector,
    JudgedPartition,
    JudgedPartitionKey,
    JudgedPartitionRegistry,
    VerdictState,
    build_judgement,
    describe_failure,
    describe_states,
    describe_trouble,
    is_fully_running,
)
from offsetwatch.judge.progress.verdict_rules import (
    FAILED_CONNECTOR_RULE,
    NO_FIRST_COMMIT_RULE,
    STALL_VERDICTS,
    UNAVAILABLE_INPUT_RULE,
    Decision,
    VerdictCase,
    decide_verdict,
    find_worst_verdict,
    match_failed_connector,
    match_no_first_commit,
)
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.model.connectors import UNKNOWN_STATE, StateHistory
from offsetwatch.model.findings import Judgement, Scope, Verdict
from offsetwatch.state.connect.state_history import find_changes_since
from offsetwatch.state.snapshot import ConnectorView, Snapshot
from offsetwatch.state.snapshot_index import ConnectorKey

JUDGED_PER_TICK_MAX: Final = 10_000  # partitions; more would hold up the tails
# A pass that has time judges so many in a tick, or this part of all.
JUDGED_PER_TICK_MIN: Final = 1_000
FULL_PASS_TICKS: Final = 16
TROUBLED_PER_INTERVAL_MAX: Final = 60_000  # partitions in one interval, beside the full pass


@dataclass(slots=True)
class JudgingPass:
    """Pass over partitions that may take several ticks; all it observes is of its first tick.

    whole     over all partitions, not over those in trouble alone
    pending   partitions still to judge
    share     number of partitions that one tick judges
    next_w    when the next full pass is due, as far as it is known
    touched   connectors with a partition that was judged, or with another state
    """

    visibility: InputVisibility
    w: float
    whole: bool
    pending: deque[JudgedPartition]
    share: int
    next_w: float
    touched: set[ConnectorKey] = field(default_factory=set)

    @property
    def at(self) -> float:
        """Return the time (Unix seconds) of its snapshot."""
        return self.visibility.snapshot.at

    def hurry(self) -> None:
        """Judge as many partitions in a tick as one can take."""
        self.share = JUDGED_PER_TICK_MAX

    def take(self) -> Iterator[JudgedPartition]:
        """Yield the partitions that this tick judges."""
        for _ in range(min(len(self.pending), self.share)):
            yield self.pending.popleft()


@dataclass(slots=True)
class PassSchedule:
    """Times of the next passes: over all partitions, and over those in trouble."""

    full_w: float = 0.0
    partial_w: float = 0.0

    def end(self, judging_pass: JudgingPass, troubled: int, interval_s: float) -> None:
        """Schedule the passes after this one; `troubled` partitions are in trouble."""
        next_w = judging_pass.next_w
        self.full_w = next_w if judging_pass.whole else min(self.full_w, next_w)
        # A partial pass over five thousand costs what a tick may cost: of more there are fewer.
        share = troubled / TROUBLED_PER_INTERVAL_MAX
        self.partial_w = judging_pass.w + share * interval_s


def compute_tick_share(partitions: int, *, leisurely: bool) -> int:
    """Return how many partitions of a pass one tick judges."""
    if not leisurely:
        return JUDGED_PER_TICK_MAX
    return min(max(JUDGED_PER_TICK_MIN, -(-partitions // FULL_PASS_TICKS)), JUDGED_PER_TICK_MAX)


_TROUBLE_VERDICTS: Final = frozenset(
    {Verdict.SILENT, Verdict.STALLED, Verdict.REWOUND, Verdict.SLOW}
)

_GOOD_VERDICTS: Final = frozenset({Verdict.OK, Verdict.IDLE})

_SummaryKey = tuple[str, str, str, str]  # Connect cluster, connector, scope, subject


class _PartitionRecord(msgspec.Struct, array_like=True, gc=False):
    """State of one partition as it is stored on disk."""

    key: JudgedPartitionKey
    label: str
    sink: bool
    verdict_state: VerdictState
    window: ObservationWindow


class ProgressState(msgspec.Struct, frozen=True):
    """State of the tracker as it is stored on disk."""

    at: float
    watched: float
    subjects: list[_PartitionRecord]
    wholes: list[tuple[_SummaryKey, VerdictState]]
    tracks: list[tuple[str, str, bool, float, float | None, float | None, float]]
    marks: tuple[ClockMark, ...] = ()


class ProgressTracker:
    """Tracker of verdicts. `urgent` is True until a connector's new verdict has been persisted."""

    def __init__(self, settings: JudgeSettings) -> None:
        self._settings = settings
        self._stopwatch = Stopwatch(settings.interval_s)
        self._schedule = PassSchedule()
        self._pass: JudgingPass | None = None
        self._number = 0  # of the newest pass
        self._registry = JudgedPartitionRegistry()
        # What was processed last. Held, as the ids of what is gone are given to others.
        self._inputs: object = None
        self._views: tuple[object, ...] = ()
        self._connectors: object = None
        self._histories: object = None
        self._followed: Mapping[tuple[str, str, int | None], StateHistory] = {}
        self._failed: list[ConnectorKey] = []
        self._restated: set[ConnectorKey] = set()  # connectors that failed, paused or resumed
        self._troubled: set[JudgedPartitionKey] = set()
        self._summaries: dict[_SummaryKey, VerdictState] = {}
        self._summed: dict[ConnectorKey, tuple[Judgement, ...]] = {}
        self.newest: tuple[Judgement, ...] = ()
        """Every judgement of the newest pass."""
        self._unsaved: tuple[float, float] | None = None  # time and second of the newest pass
        self.urgent = False

    def judgements(self, snapshot: Snapshot) -> tuple[Judgement, ...]:
        """Return every judgement; the same tuple while nothing changes."""
        self._stopwatch.advance(snapshot.at)
        self._track(snapshot)
        inputs = _find_live_inputs(snapshot)
        views = (
            *(snapshot.source_partitions, snapshot.mirror_partitions),
            *(snapshot.sink_partitions, snapshot.source_ends),
        )
        changed = inputs != self._inputs
        if self._pass is not None:
            if changed:
                self._pass.hurry()
            self._continue_pass(self._pass)
            return self.newest
        if self._w >= self._schedule.full_w or changed:
            self._begin_pass(snapshot, None, leisurely=not changed)
        elif self._w < self._schedule.partial_w:
            return self.newest  # what moved since is judged when the partial pass is due
        elif self._restated or (self._troubled and not all(map(is_, views, self._views))):
            self._begin_pass(snapshot, self._troubled)
        self._inputs, self._views = inputs, views
        return self.newest

    @property
    def _w(self) -> float:
        return self._stopwatch.w

    def sees_as_before(self, snapshot: Snapshot) -> bool:
        """Check whether the same inputs are available as at the last judgement."""
        return _find_live_inputs(snapshot) == self._inputs

    # --- what outlives the process ---------------------------------------------------------------

    def remembered(self) -> ProgressState | None:
        """Return the state to persist across restarts; None if nothing is new."""
        if self._unsaved is None:
            return None
        (moment, w), self._unsaved, self.urgent = self._unsaved, None, False
        return ProgressState(
            at=moment,
            watched=w,
            subjects=[
                _PartitionRecord(
                    subject.key, subject.label, subject.sink, subject.verdict_state, subject.window
                )
                for subject in self._registry.subjects.values()
                if subject.window is not None
            ],
            wholes=list(self._summaries.items()),
            tracks=[
                (
                    *key,
                    track.why is not None,
                    track.why_w,
                    track.restarted_w,
                    track.failed_w,
                    track.failed_at,
                )
                for key, track in self._registry.tracks.items()
            ],
            marks=self._stopwatch.marks,
        )

    def recall(self, progress: ProgressState) -> None:
        """Restore a persisted state."""
        self._stopwatch.recall(progress.at, progress.watched, progress.marks)
        self._schedule.full_w = progress.watched
        self._summaries = dict(progress.wholes)
        for record in progress.subjects:
            record.window.commits = None
            subject = JudgedPartition(key=record.key, label=record.label, sink=record.sink)
            subject.verdict_state, subject.window = record.verdict_state, record.window
            self._registry.add(subject)
        for cluster, connector, broken, why_w, *more in progress.tracks:
            track = self._registry.track((cluster, connector))
            track.why = "it could not work when it was last seen" if broken else None
            track.why_w = why_w
            track.restarted_w, track.failed_w, failed_at = more
            track.failed_at = failed_at or 0.0

    # --- at every tick ---------------------------------------------------------------------------

    def _track(self, snapshot: Snapshot) -> None:
        """Update the tracks of connectors: a failure may be over before the next pass."""
        now = snapshot.at
        if snapshot.connectors is not self._connectors:  # while it is the same, so are all states
            self._connectors = snapshot.connectors
            self._failed = self._update_states(snapshot.connectors)
        for key in self._failed:
            self._registry.track(key).fail(now, now, self._w)
        if snapshot.histories is self._histories:
            return
        self._histories = snapshot.histories  # they know of failures between two polls
        before, self._followed = self._followed, snapshot.index.histories
        for (cluster, connector, task), history in self._followed.items():
            known = before.get((cluster, connector, task))
            if known is None or known is history:
                continue  # of one that was not followed nothing orders its past and our passes
            last = known.changes[-1]
            changes = find_changes_since(history.changes, last.at, last.state)
            if any(change.state == "failed" for change in changes):
                self._registry.track((cluster, connector)).fail(now, now, self._w)

    def _update_states(self, connectors: tuple[ConnectorView, ...]) -> list[ConnectorKey]:
        """Update the tracks from the states of connectors; return the connectors that have failed.

        A connector counts as failed if it or one of its tasks has failed.
        """
        states = []
        for view in connectors:
            if view.state == UNKNOWN_STATE:
                continue  # it is as it was, for all that anybody knows
            why, why_all = describe_trouble(view)
            key = (view.connect_cluster, view.name)
            track = self._registry.track(key)
            before = (track.rests, track.failed)
            track.see(pause_state_of(view), why, why_all=why_all, w=self._w)
            track.stand(describe_failure(view), runs=is_fully_running(view), w=self._w)
            if (track.rests, track.failed) != before:
                self._restated.add(key)
            if track.failed is not None:
                states.append(key)
        return states

    # --- a pass ----------------------------------------------------------------------------------

    def _begin_pass(
        self, snapshot: Snapshot, only: set[JudgedPartitionKey] | None, *, leisurely: bool = False
    ) -> None:
        """Start a pass over all partitions, or over those in `only` and of changed connectors."""
        self._number += 1
        visibility, tracks = InputVisibility(snapshot), self._registry.tracks
        restated, self._restated = self._restated, set()
        if only is not None:
            only = only.union(*(tracks[key].subjects for key in restated & tracks.keys()))
        judged = self._registry.list_judged(snapshot, only, self._number)
        for key, track in tracks.items():
            track.update(
                describe_states(visibility.connectors.get(key)),
                visibility.explain_unknown_state(key),
                visibility.explain_unusual_pause(key),
            )
        pending = deque(self._registry.subjects.values() if only is None else judged)
        self._pass = JudgingPass(
            visibility=visibility,
            w=self._w,
            whole=only is None,
            pending=pending,
            share=compute_tick_share(len(pending), leisurely=leisurely),
            next_w=self._w + self._settings.interval_s,
            touched=restated & tracks.keys(),
        )
        self._continue_pass(self._pass)

    def _continue_pass(self, judging_pass: JudgingPass) -> None:
        """Judge as many partitions of a pass as one tick allows."""
        for subject in judging_pass.take():
            self._judge(subject, judging_pass)
            judging_pass.touched.add(subject.key[:2])
            due = compute_patience_end_w(subject, judging_pass.w, self._settings)
            if due is not None:
                judging_pass.next_w = min(judging_pass.next_w, due)
            if subject.verdict_state.verdict in _TROUBLE_VERDICTS:
                self._troubled.add(subject.key)
            else:
                self._troubled.discard(subject.key)
        if not judging_pass.pending:
            self._end_pass(judging_pass)

    def _end_pass(self, judging_pass: JudgingPass) -> None:
        self._pass = None
        if judging_pass.whole:
            self._troubled -= self._registry.forget(
                self._number, judging_pass.w, self._settings.patience_s
            )
            self._registry.drop_tracks(judging_pass.visibility.connectors.keys())
            self._connectors = None  # one that came after the pass began is to be seen again
            judging_pass.touched = set(self._registry.tracks)
        self._schedule.end(judging_pass, len(self._troubled), self._settings.interval_s)
        self._sum_up(judging_pass)
        self._unsaved = (judging_pass.at, judging_pass.w)

    def _judge(self, subject: JudgedPartition, judging_pass: JudgingPass) -> None:
        """Update one partition from the snapshot, decide its verdict, and build its evidence."""
        track = self._registry.tracks[subject.key[:2]]
        is_judged = subject.number == self._number
        if is_judged and subject.window is not None and not subject.changed(track, judging_pass.w):
            subject.window.pass_by(judging_pass.w, self._settings)
            return
        case = build_case(
            subject,
            track,
            judging_pass.visibility,
            self._settings,
            number=self._number,
            w=judging_pass.w,
            at=judging_pass.at,
            clock=self._stopwatch.clock,
        )
        if case is None:  # gone: it says nothing more, and may come back
            subject.judgement = None
            return
        decided = decide_verdict(case)
        subject.verdict_state.settle(decided, judging_pass.at)
        if decided is not None:
            subject.reason = intern(decided.reason)  # that of 100,000 is seldom more than a few
        rule = 0 if decided is None else decided.rule
        subject.until_w = compute_valid_until_w(subject, case, rule)
        subject.judged(build_partition_evidence(subject, track.states))

    # --- the sum ---------------------------------------------------------------------------------

    def _sum_up(self, judging_pass: JudgingPass) -> None:
        """Update the verdict of each connector and flow: the worst of its partitions."""
        if judging_pass.whole:
            self._summed = {}
        for key in judging_pass.touched:
            self._summed[key] = tuple(
                self._sum_up_connector(key, judging_pass.visibility, judging_pass.at)
            )
        if judging_pass.whole:
            known = {
                (*key, judgement.scope.value, judgement.subject)
                for key, sums in self._summed.items()
                for judgement in sums
            }
            self._summaries = {
                key: verdict for key, verdict in self._summaries.items() if key in known
            }
        self.newest = (
            *(judgement for _, sums in sorted(self._summed.items()) for judgement in sums),
            *(
                subject.judgement
                for subject in self._registry.subjects.values()
                if subject.judgement is not None and not subject.sink
            ),
        )

    def _sum_up_connector(
        self, key: ConnectorKey, visibility: InputVisibility, moment: float
    ) -> Iterator[Judgement]:
        track = self._registry.tracks[key]
        subjects = [subject for subject in track.subjects.values() if subject.judgement is not None]
        if subjects or key in visibility.connectors:
            yield self._sum(Scope.CONNECTOR, key, "", subjects, visibility, moment)
        flow = visibility.flows.get(key)
        if flow is not None:
            aliases = (flow.source, flow.target)
            in_flow = [subject for subject in subjects if subject.flow == aliases]
            name = f"{flow.source}->{flow.target}"
            yield self._sum(Scope.FLOW, key, name, in_flow, visibility, moment)

    def _sum(
        self,
        scope: Scope,
        key: ConnectorKey,
        name: str,
        subjects: list[JudgedPartition],
        visibility: InputVisibility,
        moment: float,
    ) -> Judgement:
        track = self._registry.tracks[key]
        counts = Counter(subject.verdict_state.verdict for subject in subjects)
        verdict = find_worst_verdict(counts)
        speaks = [subject for subject in subjects if subject.verdict_state.verdict is verdict]
        if verdict not in _TROUBLE_VERDICTS:
            # What was wrong and cannot be seen now must not look well by that.
            hidden = [
                subject
                for subject in subjects
                if (held_verdict := subject.verdict_state.held) is not None
                and held_verdict[0] in _TROUBLE_VERDICTS
            ]
            verdict, speaks = (Verdict.UNKNOWN, hidden) if hidden else (verdict, speaks)
        instance = min(
            speaks, key=lambda subject: (subject.verdict_state.since, subject.key), default=None
        )
        if instance is None:
            decision = self._decide_without_partitions(key, track, visibility)
        else:
            decision = Decision(verdict, instance.verdict_state.rule, instance.reason)
        if (
            decision.verdict in _GOOD_VERDICTS
            and (why := visibility.explain_outdated_assignment(key)) is not None
        ):
            decision = Decision(Verdict.UNKNOWN, UNAVAILABLE_INPUT_RULE, why)
        failed = None if track.unavailable is not None else match_failed_connector(track.failed)
        if failed is not None and decision.verdict not in STALL_VERDICTS:
            decision = Decision(Verdict.FAILED, FAILED_CONNECTOR_RULE, failed)
        state = self._summaries.setdefault((*key, scope.value, name), VerdictState(since=moment))
        was = state.verdict
        if state.settle(decision, moment):
            self.urgent |= bool({was, state.verdict} & _TROUBLE_VERDICTS)
        worst = None
        if instance is not None and instance.judgement is not None:
            worst = (instance.label, instance.judgement.evidence)
        evidence = build_summary_evidence(counts, worst)
        return build_judgement(scope, key, name, state, decision.reason, evidence)

    def _decide_without_partitions(
        self, key: ConnectorKey, track: JudgedConnector, visibility: InputVisibility
    ) -> Decision:
        patience_s = self._settings.patience_s
        if track.unavailable is None and track.rests is not None:
            rests = decide_verdict(VerdictCase(patience_s=patience_s, rests=track.rests))
            assert rests is not None  # each of the two has a rule of its own
            return rests
        if (
            track.unavailable is None
            and track.runs_w is not None
            and visibility.has_no_commits(key)
        ):
            since = format_moment(self._stopwatch.clock(track.runs_w))
            reason = match_no_first_commit(self._w - track.runs_w, patience_s, since)
            if reason is not None:
                return Decision(Verdict.UNKNOWN, NO_FIRST_COMMIT_RULE, reason)
        hidden = visibility.explain_hidden_progress(key)
        if hidden is not None:
            return Decision(Verdict.UNKNOWN, UNAVAILABLE_INPUT_RULE, hidden)
        reason = visibility.explain_missing_topics(key) or "it has nothing to judge it by"
        return Decision(Verdict.UNKNOWN, 0, reason)


def _find_live_inputs(snapshot: Snapshot) -> tuple[object, ...]:
    """Return which inputs have not been read since the start, and which are available."""
    return (
        snapshot.awaited,
        frozenset(view.id for view in snapshot.inputs if view.live),
        frozenset(snapshot.outdated_assignments),
    )
