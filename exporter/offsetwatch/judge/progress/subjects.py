"""State of judged subjects: partitions, connectors, and their verdicts over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

import msgspec

from offsetwatch.decode.dialects import is_measurable
from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.decode.source_offsets import format_partition_label
from offsetwatch.judge.progress.observation_window import ObservationWindow, Sample
from offsetwatch.judge.progress.verdict_rules import UNAVAILABLE_INPUT_RULE, Decision
from offsetwatch.model.connectors import UNKNOWN_STATE, ConnectorKind
from offsetwatch.model.findings import Evidence, Judgement, Scope, Verdict
from offsetwatch.model.offsets import Scalar, SourceOffset
from offsetwatch.state.snapshot import (
    ConnectorView,
    MirrorPartitionView,
    SinkPartitionView,
    Snapshot,
    SourceEndView,
    SourcePartitionView,
)
from offsetwatch.state.snapshot_index import ConnectorKey

FAILED_TASKS_NAMED_MAX: Final = 3  # tasks by number: a reason is a line
_BROKEN_STATES: Final = frozenset({"failed", "unassigned", "restarting"})

JudgedPartitionKey = tuple[str, str, str]  # Connect cluster, connector, partition of its source


class VerdictState(msgspec.Struct, array_like=True, gc=False):
    """Verdict of a subject over time. It is stored on disk as it is.

    since   0.0 until the first decision
    held    (verdict, since) from before an input became unavailable; restored once it is back
    """

    verdict: Verdict = Verdict.UNKNOWN
    since: float = 0.0
    rule: int = 0
    held: tuple[Verdict, float] | None = None

    @property
    def before(self) -> Verdict:
        """Return the newest verdict that was decided with its inputs available."""
        return self.verdict if self.held is None else self.held[0]

    def settle(self, decided: Decision | None, moment: float) -> bool:
        """Apply a decision, or none where the verdict stays; return True if the verdict changed."""
        was = self.verdict
        self.since = self.since or moment  # 0.0 is no moment: nothing was decided yet
        if decided is not None and decided.rule == UNAVAILABLE_INPUT_RULE:
            if self.held is None:
                self.held = (self.verdict, self.since)
                self.since = self.since if was is Verdict.UNKNOWN else moment
            self.verdict, self.rule = Verdict.UNKNOWN, UNAVAILABLE_INPUT_RULE
            return was is not self.verdict
        if self.held is not None:
            self.verdict, self.since = self.held
            self.held = None
        if decided is not None:
            self.rule = decided.rule
            if decided.verdict is not self.verdict:
                self.verdict, self.since = decided.verdict, moment
        return was is not self.verdict


class JudgedPartition(msgspec.Struct, gc=False):
    """State of one partition.

    number    last pass in which a snapshot showed it; the views are those of that pass
    hidden    the input that hides it, in words; None if it is visible, or gone
    end, source_name    the end of its source, and the configured source that it reads, which is
              also known while the end is not
    took_version, took_source, took_mirror, took_read, took_end    version of the track, and the
              views, as of the last decision
    until_w   second of watching until which those decide the same
    """

    key: JudgedPartitionKey
    label: str
    sink: bool = False
    verdict_state: VerdictState = msgspec.field(default_factory=VerdictState)
    reason: str = ""
    window: ObservationWindow | None = None
    source: SourcePartitionView | None = None
    mirror: MirrorPartitionView | None = None
    read: SinkPartitionView | None = None
    end: SourceEndView | None = None
    source_name: str | None = None
    number: int = 0
    hidden: str | None = None
    took_version: int = -1
    took_source: SourcePartitionView | None = None
    took_mirror: MirrorPartitionView | None = None
    took_read: SinkPartitionView | None = None
    took_end: SourceEndView | None = None
    until_w: float = 0.0
    judgement: Judgement | None = None

    @property
    def flow(self) -> tuple[str, str] | None:
        """Return the aliases of its flow; None if it is not replicated."""
        return None if self.mirror is None else (self.mirror.source, self.mirror.target)

    def changed(self, track: JudgedConnector, w: float) -> bool:
        """Check whether a new decision may differ, and if so note what it is based on."""
        if (
            w < self.until_w
            and track.version == self.took_version
            and self.source == self.took_source
            and self.mirror == self.took_mirror
            and self.read == self.took_read
            and self.end == self.took_end
        ):
            return False
        self.took_version, self.took_source = track.version, self.source
        self.took_mirror, self.took_read = self.mirror, self.read
        self.took_end = self.end
        return True

    def sample(self, moment: float) -> Sample:
        """Return its state in the snapshot as a sample."""
        if self.read is not None:
            return _sample_of_sink(self.read, moment)
        if self.mirror is not None:
            return _sample_of_mirror(self.mirror, self.source, moment)
        assert self.source is not None
        return _sample_of_source(self.source, self.end, moment)

    def judged(self, evidence: Evidence) -> None:
        """Build and store its judgement with this evidence."""
        self.judgement = build_judgement(
            Scope.PARTITION, self.key, self.label, self.verdict_state, self.reason, evidence
        )


def build_judgement(
    scope: Scope,
    of: tuple[str, ...],
    subject: str,
    verdict: VerdictState,
    reason: str,
    evidence: Evidence,
) -> Judgement:
    """Build the judgement of a verdict state; `of` begins with Connect cluster and connector."""
    return Judgement(
        scope=scope,
        connect_cluster=of[0],
        connector=of[1],
        subject=subject,
        verdict=verdict.verdict,
        rule=verdict.rule,
        reason=reason,
        since=verdict.since,
        evidence=evidence,
    )


@dataclass(slots=True)
class JudgedConnector:
    """State of a connector between passes.

    rests     "paused" or "stopped"; None if neither
    failed    what of it has failed, in words
    runs_w    since when it runs with all of its tasks, in seconds of watching; None while it does
              not
    why       what shows that it cannot work, in words; `why_all`: none of it can
    why_w     when `why` appeared or disappeared, in seconds of watching
    restarted_w    when it last resumed work, in seconds of watching; None: not since observation
                   began
    failed_w, failed_at    newest failure, in seconds of watching and by our clock
    states    states of connector and tasks, in words; `unavailable` is why they are unavailable
    unusual   how its pause exceeds its baseline, in words
    version   incremented when a value changes that decisions depend on
    """

    rests: str | None = None
    failed: str | None = None
    runs_w: float | None = None
    why: str | None = None
    why_all: bool = False
    why_w: float = 0.0
    restarted_w: float | None = None
    failed_w: float | None = None
    failed_at: float = 0.0
    states: str = "unknown"
    unavailable: str | None = None
    unusual: str | None = None
    version: int = 0
    subjects: dict[JudgedPartitionKey, JudgedPartition] = field(default_factory=dict)

    def see(self, rests: str | None, why: str | None, *, why_all: bool, w: float) -> None:
        """Update its pause state and trouble from the states of one tick."""
        if (why is None) is not (self.why is None):
            self.why_w = w
            if why is None:
                self.restarted_w = w
        if self.rests is not None and rests is None:
            self.restarted_w = w
        self.version += (rests, why, why_all) != (self.rests, self.why, self.why_all)
        self.rests, self.why, self.why_all = rests, why, why_all

    def stand(self, failed: str | None, *, runs: bool, w: float) -> None:
        """Update what of it has failed and whether it runs with all of its tasks."""
        self.failed = failed
        if not runs:
            self.runs_w = None
        elif self.runs_w is None:
            self.runs_w = w

    def fail(self, moment: float, now: float, w: float) -> None:
        """Record a failure of it or of a task at this moment; `now` is of the same clock."""
        if moment > self.failed_at:
            self.failed_at = moment
            self.failed_w = w - max(0.0, now - moment)
            self.version += 1

    def update(self, states: str, unavailable: str | None, unusual: str | None) -> None:
        """Update its states and its unusual pause as of one pass.

        A pause that only lasts longer does not change the version.
        """
        unusual_is_new = (unusual is None) is not (self.unusual is None)
        self.version += (states, unavailable) != (self.states, self.unavailable) or unusual_is_new
        self.states, self.unavailable, self.unusual = states, unavailable, unusual


def _sample_of_sink(view: SinkPartitionView, moment: float) -> Sample:
    return Sample(
        at=moment,
        text=None if view.committed is None else str(view.committed),
        position=view.committed,
        best=view.committed,
        end=view.log_end,
        lag=view.lag,
        caught_up=view.caught_up,
        behind_since=view.behind_since,
    )


def _sample_of_mirror(
    view: MirrorPartitionView, source: SourcePartitionView | None, moment: float
) -> Sample:
    offset = None if source is None else source.offset
    return Sample(
        at=moment,
        text=_text_of_offset(offset),
        position=view.committed,
        best=view.replicated,
        commits=0 if source is None else source.commits or 0,
        end=view.log_end,
        lag=view.lag,
        caught_up=view.caught_up,
        behind_since=view.behind_since,
        changed_at=None if source is None else source.read_at,
    )


def has_source_end(end: SourceEndView | None) -> bool:
    """Check whether the end of a source shows if work waits."""
    return end is not None and end.caught_up is not None


def _sample_of_source(
    view: SourcePartitionView, end: SourceEndView | None, moment: float
) -> Sample:
    known = end if has_source_end(end) else None
    return Sample(
        at=moment,
        text=_text_of_offset(view.offset),
        dialect=view.dialect,
        offset=view.offset,
        commits=view.commits or 0,
        end=None if known is None else known.end_position,
        lag=None if known is None else known.lag,
        caught_up=None if known is None else known.caught_up,
        behind_since=None if known is None else known.behind_since,
        changed_at=view.read_at,
        restarted_from=_find_restart_offset(view),
    )


def _find_restart_offset(view: SourcePartitionView) -> str | None:
    """Return the offset that a restarted task did not load.

    None also where no order could show that the offset is reached again.
    """
    change = view.restarted
    if change is None or not is_measurable(view.dialect, change.offset):
        return None
    return _text_of_offset(change.offset)


def _text_of_offset(offset: SourceOffset | None) -> str | None:
    return None if offset is None else offset.text


def describe_failure(view: ConnectorView) -> str | None:
    """Return in words which part of a connector has failed: itself or tasks; None if none has."""
    if view.state == "failed":
        return "the connector has failed"
    numbers = [task.number for task in view.tasks if task.state == "failed"]
    if not numbers:
        return None
    more = len(numbers) - FAILED_TASKS_NAMED_MAX
    named = (f"task {number} has failed" for number in numbers[:FAILED_TASKS_NAMED_MAX])
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


def is_fully_running(view: ConnectorView) -> bool:
    """Check whether a connector and all of its tasks are running; False without any task."""
    states = {task.state for task in view.tasks}
    return view.state == "running" and states == {"running"}


def describe_trouble(view: ConnectorView) -> tuple[str | None, bool]:
    """Return in words what shows that a connector cannot work, and whether all of it is affected.

    The words are None if nothing shows it.
    """
    if view.state in _BROKEN_STATES:
        return f"the connector {_describe_state(view.state)}", True
    broken = [task for task in view.tasks if task.state in _BROKEN_STATES]
    if broken:
        words = ", ".join(f"task {task.number} {_describe_state(task.state)}" for task in broken)
        return words, len(broken) == len(view.tasks)
    if view.state == "running" and not view.tasks:
        # MM2's connectors have none while there is nothing to copy.
        return "it runs without a single task", view.kind is not ConnectorKind.MIRROR
    if view.state == "running" and {task.state for task in view.tasks} == {UNKNOWN_STATE}:
        return "Connect reports no state of its tasks", True
    return None, False


def describe_states(view: ConnectorView | None) -> str:
    """Return the states of a connector and its tasks in words, for evidence."""
    if view is None:
        return "unknown"
    counts = Counter(task.state for task in view.tasks)
    tasks = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    return f"connector {view.state}, tasks: {tasks or 'none'}"


def _describe_state(state: str) -> str:
    return "has failed" if state == "failed" else f"is {state}"


# A partition that was not shown for a day starts without a history: its rates are outdated.
HIDDEN_RETENTION_S: Final = 86_400.0


class JudgedPartitionRegistry:
    """Registry of judged partitions: by key in `subjects`, by connector in `tracks`."""

    def __init__(self) -> None:
        self.subjects: dict[JudgedPartitionKey, JudgedPartition] = {}
        self.tracks: dict[ConnectorKey, JudgedConnector] = {}
        self._of_mirror: dict[tuple[str, str, str, str, int], JudgedPartition] = {}

    def add(self, subject: JudgedPartition) -> JudgedPartition:
        """Add a partition and return it."""
        self.subjects[subject.key] = subject
        self.track(subject.key[:2]).subjects[subject.key] = subject
        return subject

    def track(self, of: ConnectorKey) -> JudgedConnector:
        """Return the track of a connector; create it on first use."""
        judged = self.tracks.get(of)
        if judged is None:
            judged = self.tracks[of] = JudgedConnector()
        return judged

    def list_judged(
        self, snapshot: Snapshot, only: set[JudgedPartitionKey] | None, number: int
    ) -> list[JudgedPartition]:
        """Return the partitions that the snapshot shows, or those of them in `only`; add new ones.

        Set their `number` to that of the present pass.
        """
        judged: list[JudgedPartition] = []
        ends, names = snapshot.index.source_ends, snapshot.source_names
        for view in snapshot.source_partitions:
            key = (view.connect_cluster, view.connector, view.identity)
            if only is None or key in only:
                subject = self.subjects.get(key) or self.add(
                    JudgedPartition(key=key, label=view.label)
                )
                subject.source, subject.mirror = view, None
                subject.end, subject.source_name = ends.get(key), names.get(key)
                subject.number = number
                judged.append(subject)
        for mirror in snapshot.mirror_partitions:
            subject = self._mirrored(mirror)
            if only is not None and subject.key not in only:
                continue
            if subject.number != number:  # nothing was ever committed for it
                subject.source = None
                subject.number = number
                judged.append(subject)
            subject.mirror = mirror
        judged.extend(self._sinks(snapshot.sink_partitions, only, number))
        return judged

    def _sinks(
        self,
        views: tuple[SinkPartitionView, ...],
        only: set[JudgedPartitionKey] | None,
        number: int,
    ) -> Iterator[JudgedPartition]:
        for view in views:
            label = f"{view.topic}-{view.partition}"
            key = (view.connect_cluster, view.connector, label)
            if only is None or key in only:
                sink = self.subjects.get(key)
                subject = sink or self.add(JudgedPartition(key=key, label=label, sink=True))
                subject.read = view
                subject.number = number
                yield subject

    def _mirrored(self, view: MirrorPartitionView) -> JudgedPartition:
        of = (view.connect_cluster, view.connector, view.source, view.topic, view.partition)
        subject = self._of_mirror.get(of)
        if subject is None:
            partition: dict[str, Scalar] = {
                "cluster": view.source,
                "partition": view.partition,
                "topic": view.topic,
            }
            key = (view.connect_cluster, view.connector, encode_sorted(partition).decode())
            mirrored = self.subjects.get(key)
            subject = mirrored or self.add(
                JudgedPartition(key=key, label=format_partition_label(partition))
            )
            self._of_mirror[of] = subject
        return subject

    def forget(self, number: int, w: float, patience_s: float) -> set[JudgedPartitionKey]:
        """Remove partitions that are no longer in snapshots, and return their keys.

        A partition that is gone is removed after `patience_s`, because a connector may be unlisted
        for a moment. A hidden one is removed after a day (HIDDEN_RETENTION_S).
        """
        over = {
            key
            for key, judged_partition in self.subjects.items()
            if judged_partition.number != number
            and w - _find_last_seen_w(judged_partition)
            >= (patience_s if judged_partition.hidden is None else HIDDEN_RETENTION_S)
        }
        for key in over:
            del self.subjects[key]
            del self.tracks[key[:2]].subjects[key]
        if over:
            self._of_mirror = {
                row_key: of for row_key, of in self._of_mirror.items() if of.key not in over
            }
        return over

    def drop_tracks(self, listed: AbstractSet[ConnectorKey]) -> None:
        """Remove the tracks of connectors that are not listed and have no partitions."""
        for of in [
            of
            for of, judged_connector in self.tracks.items()
            if not judged_connector.subjects and of not in listed
        ]:
            del self.tracks[of]


def _find_last_seen_w(subject: JudgedPartition) -> float:
    return 0.0 if subject.window is None else subject.window.last_w
