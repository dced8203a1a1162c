"""Tracker of verdicts over time: judges partitions, and sums them up by connector and flow.

A full pass over all partitions runs once an interval, when patience with a partition ends, and when
an input becomes unavailable or available. Between full passes a partial pass covers partitions in
trouble, so that they recover in the verdicts at once, and connectors that failed, paused or
resumed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from sys import intern
from typing import Final

import msgspec

from offsetwatch.judge.input_visibility import InputVisibility, pause_state_of
from offsetwatch.judge.progress import evidence
from offsetwatch.judge.progress.cases import (
    build_case,
    compute_patience_end_w,
    compute_valid_until_w,
)
from offsetwatch.judge.progress.judged_subjects import JudgedPartitionRegistry
from offsetwatch.judge.progress.observation_window import ObservationWindow
from offsetwatch.judge.progress.subjects import (
    JudgedConnector,
    JudgedPartition,
    JudgedPartitionKey,
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
    Decision,
    VerdictCase,
    decide_verdict,
    find_worst_verdict,
    match_failed_connector,
    match_no_first_commit,
)
from offsetwatch.judge.progress.watch_time import ClockMark, Stopwatch
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.judge.time_words import format_moment
from offsetwatch.model.connectors import UNKNOWN_STATE, StateHistory
from offsetwatch.model.findings import Judgement, Scope, Verdict
from offsetwatch.model.observations import InputId
from offsetwatch.state.connect.state_history import find_changes_since
from offsetwatch.state.snapshot import ConnectorView, Snapshot

JUDGED_PER_TICK_MAX: Final = 10_000  # partitions in one tick; more would hold up the tails
# The look that comes once an interval has time: in a tick it takes so many, or this part of all.
JUDGED_PER_TICK_MIN: Final = 1_000
FULL_PASS_TICKS: Final = 16
TROUBLED_PER_INTERVAL_MAX: Final = (
    60_000  # partitions in one interval, beside the look at all of them
)
_TROUBLE_VERDICTS: Final = frozenset(
    {Verdict.SILENT, Verdict.STALLED, Verdict.REWOUND, Verdict.SLOW}
)

_SummaryKey = tuple[str, str, str, str]  # Connect cluster, connector, scope, subject


class _PartitionRecord(msgspec.Struct, array_like=True, gc=False):
    """State of one partition as it is stored on disk."""

    key: JudgedPartitionKey
    label: str
    sink: bool
    standing: VerdictState
    window: ObservationWindow


class ProgressState(msgspec.Struct, frozen=True):
    """State of the tracker as it is stored on disk."""

    at: float
    watched: float
    subjects: list[_PartitionRecord]
    wholes: list[tuple[_SummaryKey, VerdictState]]
    tracks: list[tuple[str, str, bool, float, float | None, float | None, float]]
    marks: tuple[ClockMark, ...] = ()


@dataclass(slots=True)
class _JudgingPass:
    """Pass over partitions that may take several ticks; `left` are those still to judge.

    `at_once` is the number of partitions that one tick judges.
    """

    sight: InputVisibility
    at: float
    w: float
    whole: bool
    left: deque[JudgedPartition]
    at_once: int
    next_w: float
    touched: set[tuple[str, str]] = field(default_factory=set)


class ProgressTracker:
    """Tracker of verdicts. `urgent` is True until a connector's new verdict has been persisted."""

    def __init__(self, settings: JudgeSettings) -> None:
        self._settings = settings
        self._stopwatch = Stopwatch(settings.interval_s)
        self._next_w = self._glance_w = 0.0
        self._inputs: object = None
        self._views: object = None
        self._histories: object = None
        self._followed: dict[tuple[str, str, int | None], StateHistory] = {}
        self._connectors: object = None
        self._failed: list[tuple[str, str]] = []
        self._restated: set[tuple[str, str]] = set()
        self._number = 0
        self._under_way: _JudgingPass | None = None
        self._roll = JudgedPartitionRegistry()
        self._wholes: dict[_SummaryKey, VerdictState] = {}
        self._summed: dict[tuple[str, str], tuple[Judgement, ...]] = {}
        self._troubled: set[JudgedPartitionKey] = set()
        self._judgements: tuple[Judgement, ...] = ()
        self._looked = False
        self._looked_at = 0.0
        self._looked_w = 0.0
        self.urgent = False

    def judgements(self, snapshot: Snapshot) -> tuple[Judgement, ...]:
        """Return every judgement; the same tuple while nothing changes."""
        self._stopwatch.advance(snapshot.at)
        self._track(snapshot)
        inputs = _find_live_inputs(snapshot)
        # Held, and not their ids: those of what is gone are given to others.
        views = (snapshot.source_partitions, snapshot.mirror_partitions, snapshot.sink_partitions)
        # What went blind or sees again is not to wait for the end of a leisurely look.
        hurried = inputs != self._inputs
        if self._under_way is not None:
            if hurried:
                self._under_way.at_once = JUDGED_PER_TICK_MAX
            self._go_on(self._under_way)
            return self._judgements
        if self._w >= self._next_w or hurried:
            self._look(snapshot, None, leisurely=not hurried)
        elif self._w < self._glance_w:
            return self._judgements  # what moved since is seen when the glance is due
        elif self._restated or (self._troubled and not _has_same_views(views, self._views)):
            self._look(snapshot, self._troubled)
        self._inputs, self._views = inputs, views
        return self._judgements

    @property
    def _w(self) -> float:
        return self._stopwatch.w

    @property
    def newest(self) -> tuple[Judgement, ...]:
        """Return every judgement of the newest pass."""
        return self._judgements

    def sees_as_before(self, snapshot: Snapshot) -> bool:
        """Check whether the same inputs are available as at the last judgement."""
        return _find_live_inputs(snapshot) == self._inputs

    # --- what outlives the process ---------------------------------------------------------------

    def remembered(self) -> ProgressState | None:
        """Return the state to persist across restarts; None if nothing is new."""
        if not self._looked:
            return None
        self._looked = self.urgent = False
        return ProgressState(
            at=self._looked_at,
            watched=self._looked_w,
            subjects=[
                _PartitionRecord(
                    subject.key, subject.label, subject.sink, subject.standing, subject.window
                )
                for subject in self._roll.subjects.values()
                if subject.window is not None
            ],
            wholes=list(self._wholes.items()),
            tracks=[
                (
                    *of,
                    judged_connector.why is not None,
                    judged_connector.why_w,
                    judged_connector.restarted_w,
                    judged_connector.failed_w,
                    judged_connector.failed_at,
                )
                for of, judged_connector in self._roll.tracks.items()
            ],
            marks=self._stopwatch.marks,
        )

    def recall(self, progress: ProgressState) -> None:
        """Restore a persisted state."""
        self._stopwatch.recall(progress.at, progress.watched, progress.marks)
        self._next_w = progress.watched
        self._wholes = dict(progress.wholes)
        for kept in progress.subjects:
            kept.window.commits = None
            subject = JudgedPartition(key=kept.key, label=kept.label, sink=kept.sink)
            subject.standing, subject.window = kept.standing, kept.window
            self._roll.add(subject)
        for cluster, connector, broken, why_w, *more in progress.tracks:
            track = self._roll.track((cluster, connector))
            track.why = "it could not work when it was last seen" if broken else None
            track.why_w = why_w
            track.restarted_w, track.failed_w, failed_at = more
            track.failed_at = failed_at or 0.0

    # --- at every tick ---------------------------------------------------------------------------

    def _track(self, snapshot: Snapshot) -> None:
        if snapshot.connectors is not self._connectors:  # while it is the same, so are all states
            self._connectors = snapshot.connectors
            self._failed = self._see(snapshot.connectors)
        for of in self._failed:
            self._roll.track(of).fail(snapshot.at, snapshot.at, self._w)
        if snapshot.histories is self._histories:
            return
        self._histories = snapshot.histories  # they know of failures between two polls
        before = self._followed
        self._followed = {
            (history.connect_cluster, history.connector, history.task): history
            for history in snapshot.histories
        }
        for key, history in self._followed.items():
            known = before.get(key)
            if known is None or known is history:
                continue  # of one that was not followed nothing orders its past and our looks
            last = known.changes[-1]
            news = find_changes_since(history.changes, last.at, last.state)
            if any(change.state == "failed" for change in news):
                self._roll.track(key[:2]).fail(snapshot.at, snapshot.at, self._w)

    def _see(self, connectors: tuple[ConnectorView, ...]) -> list[tuple[str, str]]:
        """Update the tracks from the states of connectors; return the connectors that have failed.

        A connector counts as failed if it or one of its tasks has failed.
        """
        found = []
        for view in connectors:
            if view.state == UNKNOWN_STATE:
                continue  # it is as it was, for all that anybody knows
            why, why_all = describe_trouble(view)
            of = (view.connect_cluster, view.name)
            track = self._roll.track(of)
            before = (track.rests, track.failed)
            track.see(pause_state_of(view), why, why_all=why_all, w=self._w)
            track.stand(describe_failure(view), runs=is_fully_running(view), w=self._w)
            if (track.rests, track.failed) != before:
                self._restated.add(of)
            if track.failed is not None:
                found.append(of)
        return found

    # --- a look ----------------------------------------------------------------------------------

    def _look(
        self, snapshot: Snapshot, only: set[JudgedPartitionKey] | None, *, leisurely: bool = False
    ) -> None:
        """Start a pass over all partitions, or over those in `only` and of changed connectors."""
        self._number += 1
        visibility = InputVisibility(snapshot)
        restated, self._restated = self._restated, set()
        if only is not None:
            tracks = (self._roll.tracks[of] for of in restated if of in self._roll.tracks)
            only = only.union(*(track.subjects for track in tracks))
        seen = self._roll.seen(snapshot, only, self._number)
        for of, track in self._roll.tracks.items():
            track.look(
                describe_states(visibility.connectors.get(of)),
                visibility.explain_unknown_state(of),
                visibility.explain_unusual_pause(of),
            )
        left = deque(seen if only is not None else self._roll.subjects.values())
        leisure = max(JUDGED_PER_TICK_MIN, -(-len(left) // FULL_PASS_TICKS))
        self._under_way = _JudgingPass(
            sight=visibility,
            at=snapshot.at,
            w=self._w,
            whole=only is None,
            left=left,
            at_once=min(leisure, JUDGED_PER_TICK_MAX) if leisurely else JUDGED_PER_TICK_MAX,
            next_w=self._w + self._settings.interval_s,
            touched=restated & self._roll.tracks.keys(),
        )
        self._go_on(self._under_way)

    def _go_on(self, judging_pass: _JudgingPass) -> None:
        """Judge as many partitions of a pass as one tick allows.

        The observations of a pass are all of the moment at which it began.
        """
        for _ in range(min(len(judging_pass.left), judging_pass.at_once)):
            subject = judging_pass.left.popleft()
            self._judge(subject, judging_pass)
            judging_pass.touched.add(subject.key[:2])
            due = compute_patience_end_w(subject, judging_pass.w, self._settings)
            judging_pass.next_w = (
                judging_pass.next_w if due is None else min(judging_pass.next_w, due)
            )
            if subject.standing.verdict in _TROUBLE_VERDICTS:
                self._troubled.add(subject.key)
            else:
                self._troubled.discard(subject.key)
        if not judging_pass.left:
            self._under_way = None
            self._finish(judging_pass)

    def _finish(self, judging_pass: _JudgingPass) -> None:
        if judging_pass.whole:
            self._next_w = judging_pass.next_w
            self._troubled -= self._roll.forget(
                self._number, judging_pass.w, self._settings.patience_s
            )
            self._roll.drop_tracks(frozenset(judging_pass.sight.connectors))
            self._connectors = None  # one that came after the look began is to be seen again
            judging_pass.touched = set(self._roll.tracks)
        else:
            self._next_w = min(self._next_w, judging_pass.next_w)
        # A glance at five thousand costs what a tick may cost: of more there are fewer glances.
        share = len(self._troubled) / TROUBLED_PER_INTERVAL_MAX
        self._glance_w = judging_pass.w + share * self._settings.interval_s
        self._sum_up(judging_pass)
        self._looked, self._looked_at, self._looked_w = True, judging_pass.at, judging_pass.w

    def _judge(self, subject: JudgedPartition, judging_pass: _JudgingPass) -> None:
        """Update one partition from the snapshot, decide its verdict, and build its evidence."""
        track = self._roll.tracks[subject.key[:2]]
        seen = subject.number == self._number
        if seen and subject.window is not None and not subject.changed(track, judging_pass.w):
            subject.window.pass_by(judging_pass.w, self._settings)
            return
        case = build_case(
            subject,
            track,
            judging_pass.sight,
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
        subject.standing.settle(decided, judging_pass.at)
        if decided is not None:
            subject.reason = intern(decided.reason)  # that of 100,000 is seldom more than a few
        rule = 0 if decided is None else decided.rule
        subject.until_w = compute_valid_until_w(subject, case, rule)
        subject.judged(evidence.build_partition_evidence(subject, track.states))

    # --- the sum ---------------------------------------------------------------------------------

    def _sum_up(self, judging_pass: _JudgingPass) -> None:
        """Update the verdict of each connector and flow: the worst of its partitions."""
        if judging_pass.whole:
            self._summed = {
                of: told for of, told in self._summed.items() if of in judging_pass.touched
            }
        for of in judging_pass.touched:
            self._summed[of] = tuple(
                self._sums(of, self._roll.tracks[of], judging_pass.sight, judging_pass.at)
            )
        if judging_pass.whole:
            kept = {
                (
                    judgement.connect_cluster,
                    judgement.connector,
                    judgement.scope.value,
                    judgement.subject,
                )
                for sums in self._summed.values()
                for judgement in sums
            }
            self._wholes = {of: verdict for of, verdict in self._wholes.items() if of in kept}
        self._judgements = (
            *(judgement for _, sums in sorted(self._summed.items()) for judgement in sums),
            *(
                subject.judgement
                for subject in self._roll.subjects.values()
                if subject.judgement is not None and not subject.sink
            ),
        )

    def _sums(
        self,
        of: tuple[str, str],
        track: JudgedConnector,
        visibility: InputVisibility,
        moment: float,
    ) -> Iterable[Judgement]:
        subjects = [subject for subject in track.subjects.values() if subject.judgement is not None]
        if subjects or of in visibility.connectors:
            yield self._sum((*of, Scope.CONNECTOR.value, ""), subjects, track, visibility, moment)
        flow = visibility.flows.get(of)
        if flow is not None:
            aliases = (flow.source, flow.target)
            in_flow = [subject for subject in subjects if subject.flow == aliases]
            name = f"{flow.source}->{flow.target}"
            yield self._sum((*of, Scope.FLOW.value, name), in_flow, track, visibility, moment)

    def _sum(
        self,
        of: _SummaryKey,
        subjects: list[JudgedPartition],
        track: JudgedConnector,
        visibility: InputVisibility,
        moment: float,
    ) -> Judgement:
        counts = Counter(subject.standing.verdict for subject in subjects)
        verdict = find_worst_verdict(counts)
        speaks = [subject for subject in subjects if subject.standing.verdict is verdict]
        if verdict not in _TROUBLE_VERDICTS:
            # What was wrong and cannot be seen now must not look well by that.
            hidden = [subject for subject in subjects if _has_earlier_trouble(subject)]
            verdict, speaks = (Verdict.UNKNOWN, hidden) if hidden else (verdict, speaks)
        instance = min(
            speaks, key=lambda subject: (subject.standing.since, subject.key), default=None
        )
        if instance is None:
            decision = self._without_partitions(of[:2], track, visibility)
        else:
            decision = Decision(verdict, instance.standing.rule, instance.reason)
        failed = None if track.blind is not None else match_failed_connector(track.failed)
        if failed is not None and decision.verdict not in STALL_VERDICTS:
            decision = Decision(Verdict.FAILED, FAILED_CONNECTOR_RULE, failed)
        standing = self._wholes.setdefault(of, VerdictState(since=moment))
        was = standing.verdict
        if standing.settle(decision, moment):
            self.urgent |= bool({was, standing.verdict} & _TROUBLE_VERDICTS)
        told = None
        if instance is not None and instance.judgement is not None:
            told = (instance.label, instance.judgement.evidence)
        found = evidence.build_summary_evidence(counts, told)
        return build_judgement(Scope(of[2]), of, of[3], standing, decision.reason, found)

    def _without_partitions(
        self, of: tuple[str, str], track: JudgedConnector, visibility: InputVisibility
    ) -> Decision:
        patience_s = self._settings.patience_s
        if track.blind is None and track.rests is not None:
            rests = decide_verdict(VerdictCase(patience_s=patience_s, rests=track.rests))
            assert rests is not None  # a law of its own for each of the two
            return rests
        if track.blind is None and track.runs_w is not None and visibility.has_no_commits(of):
            since = format_moment(self._stopwatch.clock(track.runs_w))
            reason = match_no_first_commit(self._w - track.runs_w, patience_s, since)
            if reason is not None:
                return Decision(Verdict.UNKNOWN, NO_FIRST_COMMIT_RULE, reason)
        return Decision(Verdict.UNKNOWN, 0, "it has nothing to judge it by")


def _has_earlier_trouble(subject: JudgedPartition) -> bool:
    held = subject.standing.held
    return held is not None and held[0] in _TROUBLE_VERDICTS


def _find_live_inputs(snapshot: Snapshot) -> tuple[bool, frozenset[InputId]]:
    """Return which inputs are available, and whether the first read of all is complete."""
    return (snapshot.ready, frozenset(view.id for view in snapshot.inputs if view.live))


def _has_same_views(views: tuple[object, ...], before: object) -> bool:
    return isinstance(before, tuple) and all(
        new is old for new, old in zip(views, before, strict=True)
    )
