"""Failures of connectors and tasks in order, with their causes and the positions at each failure.

They come from status topics where those are followed, else from polled states. Polls miss a failure
that is restarted between two of them. A run is a number of failures of one kind with a restart
before each. A status that is deleted, or unknown for a while, and then there again is no second
failure: that takes another start, shown by a state in between, another worker or another trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec.structs import replace

from offsetwatch.decode.stack_trace import parse_exception_class
from offsetwatch.judge.input_visibility import InputVisibility
from offsetwatch.model.connectors import DELETED, UNKNOWN_STATE, StateChange
from offsetwatch.model.findings import FailureRun
from offsetwatch.state.clock_skew import SKEW_S_MAX
from offsetwatch.state.connect.state_history import find_changes_since
from offsetwatch.state.snapshot import Snapshot
from offsetwatch.state.snapshot_index import ConnectorKey

FAILURES_MIN: Final = 3  # once is an accident, twice may be the same one, three times is a rule
RESTARTS_MAX: Final = 32
POSITIONS_MAX: Final = 1_000  # of one run; beyond it a connector has other places to be stuck at
HISTORIES_MAX: Final = 1_000
CONNECTOR_TASK_NUMBER: Final = -1  # stands for a task's number where the connector itself failed

_RESTART_STATES: Final = frozenset({"restarting", "unassigned", "running"})
_HEALTHY_STATES: Final = frozenset({"running", "paused", "stopped"})
_ABSENT_STATES: Final = frozenset({DELETED, UNKNOWN_STATE})

# Where a connector that has committed nothing begins, every time.
_NO_POSITIONS: Final[Mapping[str, str]] = {"": ""}

TaskKey = tuple[str, str, int]  # Connect cluster, connector, task
Positions = Mapping[str, str]


class FailureRunState(msgspec.Struct):
    """Run of failures of one kind.

    kind      exception class; the method that throws it may differ from one failure to the next
    failure   the newest failure in full
    same      positions at the first failure that have not changed since, by partition
    moved     True if other positions have changed
    read_at   when the newest failure was read, by our clock; `begun_by` when the first was
    lasted_s  lower bound of the time from the first to the newest failure, by our clock
    restarts  number of restarts between the first and the newest failure, by the order of the
              reports: their clocks are of several workers
    """

    kind: str
    failure: str
    first_at: float
    last_at: float
    count: int
    same: Positions
    moved: bool = False
    read_at: float | None = None
    restarts: int = 0
    begun_by: float | None = None
    lasted_s: float = 0.0


class TaskFailureRecord(msgspec.Struct, frozen=True, rename={"task": "whose"}):
    """History of one task's failures as it is stored on disk.

    before_polls   the history before polled states replaced changes of the status topic
    """

    task: TaskKey
    state: str
    state_at: float
    restarts: tuple[float, ...]
    last: tuple[float, str]
    run: FailureRunState | None
    seen_at: float = 0.0
    unsettled: str | None = None
    failure: StateChange | None = None
    starts: int = 0
    followed_at: float = 0.0
    before_polls: TaskFailureRecord | None = None


_PERSISTED_FIELDS: Final = tuple(
    name for name in TaskFailureRecord.__struct_fields__ if name not in {"task", "followed_at"}
)


@dataclass(slots=True)
class TaskFailureHistory:
    """Failures and restarts of one task.

    state_at   when it entered its state, by the reporter's clock; `seen_at` by ours
    restarts   when it was restarted after failures, by our clock; where its history was not
               followed then, the earliest time that is possible
    last       newest change of the status topic that was applied
    unsettled  failure with which it was listed as failed, until it has recovered: it may run for a
               few seconds between two failures, or be unassigned in a rebalance
    gone_at    since when its connector is listed without it
    failure    its last failure, unless it was restarted since
    starts     number of restarts since the last failure that counts
    followed_at  when its history was last read, by our clock
    before_polls  the history before polled states replaced changes of the status topic: once that
                  is followed again, it has the same changes in full
    """

    state: str = ""
    state_at: float = 0.0
    restarts: tuple[float, ...] = ()
    last: tuple[float, str] = (0.0, "")
    run: FailureRunState | None = None
    seen_at: float = 0.0
    unsettled: str | None = None
    gone_at: float | None = None
    failure: StateChange | None = None
    starts: int = 0
    followed_at: float = 0.0
    before_polls: TaskFailureRecord | None = None

    def empty(self) -> bool:
        """Check whether there is nothing to persist."""
        return self.run is None and not self.restarts and self.unsettled is None

    def copy(self, key: TaskKey, followed_at: float) -> TaskFailureRecord:
        """Return a copy as a record; later changes of the run do not change it."""
        fields = {name: getattr(self, name) for name in _PERSISTED_FIELDS}
        fields["run"] = None if self.run is None else replace(self.run)
        return TaskFailureRecord(task=key, **fields, followed_at=followed_at)

    def restore(self, record: TaskFailureRecord) -> None:
        """Replace everything but `followed_at` with the fields of a record."""
        for name in _PERSISTED_FIELDS:
            setattr(self, name, getattr(record, name))
        self.restarts = record.restarts[-RESTARTS_MAX:]
        self.seen_at = record.seen_at or record.state_at

    def settled_s(self, now: float) -> float:
        """Return for how many seconds it has certainly not failed; 0.0 if it may have.

        It runs, is paused or stopped since then, or is no longer listed.
        """
        if self.gone_at is not None:
            return now - self.gone_at
        return now - self.seen_at if self.state in _HEALTHY_STATES else 0.0


class FailureTracker:
    """Tracker of failures by task.

    `urgent` is True until a change of a polled state and every counted failure have been persisted.
    No topic holds the former for the next process to read; and what is made of the latter (the
    identity of an incident, which operators approve plans for) must not change with a restart.
    """

    def __init__(self) -> None:
        self.of: dict[TaskKey, TaskFailureHistory] = {}
        self.urgent = False
        self._observed_inputs: tuple[object, object] = (None, None)
        self._followed: frozenset[TaskKey] = frozenset()  # whose history the last snapshot had
        self._observed_at = 0.0
        self._failing: frozenset[ConnectorKey] = frozenset()
        self._runs: tuple[FailureRun, ...] = ()

    def observe(
        self,
        snapshot: Snapshot,
        listed: Mapping[str, frozenset[str]],
        positions: Mapping[ConnectorKey, Positions],
        patience_s: float,
    ) -> None:
        """Apply the changes of state since the last call.

        A run ends once its task has run for `patience_s` without failing.

        listed      connectors of each Connect cluster that lists them now
        positions   committed positions of each connector now, by partition; connectors whose
                    positions are unavailable are missing
        """
        if not self._saw(snapshot):
            self._apply_states(snapshot, positions)
            self._list(snapshot)
            self._observed_inputs = (snapshot.connectors, snapshot.histories)
        self._observed_at = snapshot.at
        # Tasks of a stopped connector are retained: it resumes where it was.
        for key in [key for key in self.of if key[0] in listed and key[1] not in listed[key[0]]]:
            del self.of[key]
        for key, history in self.of.items():
            if history.unsettled is not None and history.settled_s(snapshot.at) >= patience_s:
                history.unsettled = None
            if history.run is None:
                continue
            if key[:2] in positions:
                history.run = _update_run(history, history.run, positions[key[:2]])
            if history.state == "running" and snapshot.at - history.seen_at >= patience_s:
                history.run = None

    def _saw(self, snapshot: Snapshot) -> bool:
        """Check whether the states of a snapshot are those that were applied last."""
        connectors, histories = self._observed_inputs
        return snapshot.connectors is connectors and snapshot.histories is histories

    def _apply_states(
        self, snapshot: Snapshot, positions: Mapping[ConnectorKey, Positions]
    ) -> None:
        now, followed = snapshot.at, set()
        for key in self._followed & self.of.keys():
            self.of[key].followed_at = self._observed_at
        for states in snapshot.histories:
            task = CONNECTOR_TASK_NUMBER if states.task is None else states.task
            key = (states.connect_cluster, states.connector, task)
            followed.add(key)
            history = self.of.setdefault(key, TaskFailureHistory())
            # Of a new history only the newest change counts.
            new = history.last == (0.0, "")
            changes = (
                states.changes[-1:] if new else find_changes_since(states.changes, *history.last)
            )
            if changes and history.before_polls is not None:
                history.restore(history.before_polls)
            for change in changes:
                history.last = (change.at, change.state)
                # When it happened, by our clock: after its history was last read; where the last
                # snapshot did not have that, the earliest time that the change's timestamp allows.
                skew_s = 0.0 if key in self._followed else SKEW_S_MAX
                moment = min(now, max(history.followed_at, change.at - skew_s))
                self._apply_change(key, change, positions, now, moment)
        self._followed = frozenset(followed)
        shared: dict[tuple[str, str | None], StateChange] = {}  # tasks mostly fail alike
        for key, state, failure in _list_polled_states(snapshot):
            # Of who runs and never failed nothing is to be written: there may be 240,000 tasks.
            if key not in followed and (state == "failed" or key in self.of):
                history = self.of.setdefault(key, TaskFailureHistory())
                before, record = (history.state, history.failure), history.before_polls
                if record is None and history.last != (0.0, ""):
                    record = history.copy(key, history.followed_at)
                if (state, failure) not in shared:
                    shared[state, failure] = StateChange(now, state, failure)
                self._apply_change(key, shared[state, failure], positions, now, now)
                if (history.state, history.failure) != before:
                    self.urgent, history.before_polls = True, record

    def _list(self, snapshot: Snapshot) -> None:
        """Record which tasks are listed as failed, and which are missing from their connector.

        A stopped connector has no tasks, so none of them can fail any more.
        """
        names = {
            (view.connect_cluster, view.name): view.state
            for view in snapshot.connectors
            if view.state != UNKNOWN_STATE
        }
        listed = set()
        for key, state, failure in _list_polled_states(snapshot):
            listed.add(key)
            if state == "failed":
                self.of.setdefault(key, TaskFailureHistory()).unsettled = failure or ""
        for key, history in self.of.items():
            if history.unsettled is None or key in listed:
                history.gone_at = None
            elif key[:2] in names:
                history.gone_at = snapshot.at if history.gone_at is None else history.gone_at
                if names[key[:2]] == "stopped":
                    history.unsettled = history.gone_at = None

    def unsettled(self) -> dict[ConnectorKey, dict[int, str]]:
        """Return the failures that are not over, by connector and task number."""
        unsettled: dict[ConnectorKey, dict[int, str]] = {}
        for (cluster, connector, number), history in sorted(self.of.items()):
            if history.unsettled is not None:
                unsettled.setdefault((cluster, connector), {})[number] = history.unsettled
        return unsettled

    def list_failing(self, snapshot: Snapshot) -> frozenset[ConnectorKey]:
        """Return the connectors whose positions `observe` needs: those that fail, or did lately."""
        if not self._saw(snapshot):
            polled = (
                key[:2] for key, state, _ in _list_polled_states(snapshot) if state == "failed"
            )
            self._failing = frozenset(polled) | frozenset(
                (history.connect_cluster, history.connector)
                for history in snapshot.histories
                if any(change.state == "failed" for change in history.changes)
            )
        return self._failing | {key[:2] for key, history in self.of.items() if history.run}

    def _apply_change(
        self,
        key: TaskKey,
        change: StateChange,
        positions: Mapping[ConnectorKey, Positions],
        now: float,
        moment: float,
    ) -> None:
        history = self.of.setdefault(key, TaskFailureHistory())
        before, history.state = history.state, change.state
        failed = change.state == "failed"
        if change.state == before and not (failed and _is_other_failure(history.failure, change)):
            return
        history.state_at, history.seen_at = change.at, now
        if change.state in _ABSENT_STATES:
            return
        last, history.failure = history.failure, None
        if not failed:
            if last is not None and change.state in _RESTART_STATES:
                history.restarts = (*history.restarts, moment)[-RESTARTS_MAX:]
                history.starts += 1
            return
        history.failure = change
        if last is None or _is_other_failure(last, change):
            _record_failure(history, change, positions.get(key[:2], {}))
            assert history.run is not None
            run, history.starts = history.run, 0
            self.urgent = True
            run.read_at = now
            run.begun_by = now if run.begun_by is None else run.begun_by
            run.lasted_s = max(run.lasted_s, moment - run.begun_by)
        else:  # it has failed since then
            history.failure, history.state_at = last, last.at

    def runs(self) -> tuple[FailureRun, ...]:
        """Return all runs of failures, sorted by task; the same objects while they are equal."""
        same: dict[int, tuple[tuple[str, str], ...]] = {}  # by the identity of the positions
        runs: list[FailureRun] = []
        for key, history in sorted(self.of.items()):
            if history.run is not None:
                run, index = _build_failure_run(key, history.run, same), len(runs)
                # There may be 240,000, and the last snapshot has them, too.
                is_known = index < len(self._runs) and self._runs[index] == run
                runs.append(self._runs[index] if is_known else run)
        self._runs = tuple(runs)
        return self._runs

    def remembered(self) -> tuple[TaskFailureRecord, ...]:
        """Return the histories to persist, without empty ones; at most the last HISTORIES_MAX."""
        self.urgent = False
        histories = [
            (key, history) for key, history in sorted(self.of.items()) if not history.empty()
        ]
        return tuple(
            history.copy(key, self._observed_at if key in self._followed else history.followed_at)
            for key, history in histories[-HISTORIES_MAX:]
        )

    def recall(self, records: tuple[TaskFailureRecord, ...]) -> None:
        """Restore persisted histories."""
        self._observed_inputs, self._followed = (None, None), frozenset()
        self.of = {}
        for record in records:
            history = self.of[record.task] = TaskFailureHistory(followed_at=record.followed_at)
            history.restore(record)


def find_positions(
    visibility: InputVisibility, keys: Iterable[ConnectorKey]
) -> dict[ConnectorKey, Positions]:
    """Return the committed positions of these connectors, by partition.

    Connectors whose positions cannot be read now are left out.
    """
    return {
        key: _find_positions(visibility, key)
        for key in keys
        if visibility.explain_hidden_progress(key) is None
    }


def _find_positions(visibility: InputVisibility, key: ConnectorKey) -> Positions:
    index = visibility.index
    if visibility.is_sink(key):
        return {
            f"{sink.topic}-{sink.partition}": _format_offset(sink.committed)
            for sink in index.sink_partitions.get(key, ())
        }
    mirrors = index.mirror_partitions.get(key)
    if mirrors is not None:
        return {
            f"{mirror.topic}-{mirror.partition}": _format_offset(mirror.replicated)
            for mirror in sorted(mirrors, key=lambda partition: -(partition.lag or 0))
        }
    return {
        source.label: source.offset.text
        for source in index.source_partitions.get(key, ())
        if source.offset is not None
    }


def _format_offset(offset: int | None) -> str:
    """Return an offset as a position; "" for a partition without a commit."""
    return "" if offset is None else str(offset)


def _build_failure_run(
    key: TaskKey, run: FailureRunState, same: dict[int, tuple[tuple[str, str], ...]]
) -> FailureRun:
    cluster, connector, task = key
    of = id(run.same)
    if of not in same:
        same[of] = tuple(sorted(run.same.items()))
    return FailureRun(
        connect_cluster=cluster,
        connector=connector,
        task=None if task == CONNECTOR_TASK_NUMBER else task,
        kind=run.kind,
        failure=run.failure,
        count=run.count,
        first_at=run.first_at,
        last_at=run.last_at,
        restarts=run.restarts,
        same=same[of],
        moved=run.moved,
        read_at=run.read_at,
        begun_by=run.begun_by,
        lasted_s=run.lasted_s,
    )


def _list_polled_states(snapshot: Snapshot) -> Iterator[tuple[TaskKey, str, str | None]]:
    for view in snapshot.connectors:
        if view.state == UNKNOWN_STATE:
            continue  # no failure, and no end of one
        yield (view.connect_cluster, view.name, CONNECTOR_TASK_NUMBER), view.state, view.failure
        for task in view.tasks:
            yield (view.connect_cluster, view.name, task.number), task.state, task.failure


def _is_other_failure(last: StateChange | None, failure: StateChange) -> bool:
    """Check whether a failure is known to differ from the last one, by worker or trace."""
    if last is None:
        return False
    worker = last.worker and failure.worker and last.worker != failure.worker
    trace = last.failure and failure.failure and last.failure != failure.failure
    return bool(worker or trace)


def _record_failure(history: TaskFailureHistory, change: StateChange, positions: Positions) -> None:
    failure = change.failure or ""
    run = history.run
    if run is not None and run.kind == parse_exception_class(failure):
        _drop_moved_positions(run, positions)
        if run.same:
            run.count += 1
            run.restarts += history.starts
            run.failure, run.last_at = failure, change.at
            return
    history.run = _start_run(failure, change.at, positions)


def _start_run(failure: str, moment: float, positions: Positions) -> FailureRunState:
    bounded = _bound_positions(positions)
    return FailureRunState(parse_exception_class(failure), failure, moment, moment, 1, bounded)


def _bound_positions(positions: Positions) -> Positions:
    """Return the positions of a run: the same object for all tasks of a connector, as a rule."""
    if len(positions) > POSITIONS_MAX:
        return dict(list(positions.items())[:POSITIONS_MAX])
    return positions or _NO_POSITIONS


def _restart_run(run: FailureRunState, positions: Positions) -> FailureRunState:
    if run.same == _bound_positions(positions) and not run.moved:
        return run
    run_state = _start_run(run.failure, run.last_at, positions)
    run_state.read_at = run_state.begun_by = run.read_at
    return run_state


def _update_run(
    history: TaskFailureHistory, run: FailureRunState, positions: Positions
) -> FailureRunState | None:
    """Return the run as updated by the connector's positions now; None once it is over.

    A task commits once more as it ends, and positions are read later than states. So the positions
    at its failure are known only from reads made while it is still failed.
    """
    failed = history.state == "failed"
    if failed and run.count == 1:
        return _restart_run(run, positions)
    unmoved = not run.moved
    _drop_moved_positions(run, positions)
    if run.same:
        return run
    if unmoved and run.count >= FAILURES_MIN:
        history.restarts = ()  # they were one trouble, and it got past it
    return _restart_run(run, positions) if failed else None


def _drop_moved_positions(run: FailureRunState, positions: Positions) -> None:
    now = positions or _NO_POSITIONS
    same = {of: text for of, text in run.same.items() if now.get(of) == text}
    if len(same) < len(run.same):
        run.moved, run.same = True, same
