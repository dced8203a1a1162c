"""Snapshots that are made by hand, and what Progress says to them."""

from __future__ import annotations

from offsetwatch.judge.progress.tracker import ProgressState, ProgressTracker
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.model.connectors import ConnectorKind, StateChange, StateHistory, Task
from offsetwatch.model.findings import Judgement, Scope, Verdict
from offsetwatch.model.observations import LOG_ENDS, InputId
from offsetwatch.model.topology import Topology
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, ConnectorView, SinkPartitionView, Snapshot
from tests.changed import replace
from tests.unit.judge.test_input_visibility import GROUPS_INPUT, REST, heard

from .observed_rewinds import BEGAN, FLOW, copied

INTERVAL_S = 60.0
SETTINGS = JudgeSettings(interval_s=INTERVAL_S)


def connector(name: str, kind: ConnectorKind = ConnectorKind.SINK, **changes) -> ConnectorView:
    fields = {"state": "running", "tasks": (Task(0, "running"),), **changes}
    return ConnectorView("lab", name, kind, "", "", **fields)


def read(name: str, committed: int, log_end: int | None = 1000, number: int = 0):
    """A partition that a sink reads; what lies after its position can be read."""
    lag = None if log_end is None else log_end - committed
    done = None if lag is None else not lag
    return SinkPartitionView("lab", name, "orders", number, committed, log_end, lag, caught_up=done)


class JudgedSnapshots:
    """Snapshots by hand, one after the other; what is given stays so."""

    def __init__(self, *reads: SinkPartitionView, **changes) -> None:
        self.progress = ProgressTracker(SETTINGS)
        names = dict.fromkeys(partition.connector for partition in reads)
        self.snapshot: Snapshot = replace(
            EMPTY_SNAPSHOT,
            at=BEGAN,
            ready=True,
            inputs=(REST, GROUPS_INPUT),
            connectors=tuple(connector(name) for name in names),
            sink_partitions=reads,
        )
        self.tick(0.0, **changes)

    def tick(self, after_s: float, *reads: SinkPartitionView, **changes) -> JudgedSnapshots:
        if reads:
            changes["sink_partitions"] = reads
        self.snapshot = replace(self.snapshot, at=self.snapshot.at + after_s, **changes)
        self.judgements: tuple[Judgement, ...] = self.progress.judgements(self.snapshot)
        return self

    def judge(self, times: int, **changes) -> JudgedSnapshots:
        for _ in range(times):
            self.tick(INTERVAL_S, **changes)
        return self

    @property
    def now(self) -> float:
        return self.snapshot.at

    def of(self, name: str, scope: Scope = Scope.CONNECTOR) -> Judgement:
        (judgement,) = (
            item for item in self.judgements if (item.connector, item.scope) == (name, scope)
        )
        return judgement

    def verdict(self, name: str) -> Verdict:
        return self.of(name).verdict

    def has_judged(self) -> bool:
        """Since this was asked the last time."""
        return self.progress.remembered() is not None

    def restart(self, progress: ProgressState | None = None) -> JudgedSnapshots:
        progress = progress or self.progress.remembered()
        assert progress is not None
        self.progress = ProgressTracker(SETTINGS)
        self.progress.recall(progress)
        return self


def silent(*others: SinkPartitionView) -> JudgedSnapshots:
    """Something waits for `lake` and nothing moves, for three intervals by now."""
    judge = JudgedSnapshots(read("lake", 10), *others).judge(3)
    assert judge.verdict("lake") is Verdict.SILENT
    return judge


def mirrored(**changes) -> JudgedSnapshots:
    inputs = (
        REST,
        heard(InputId(LOG_ENDS, kafka="west")),
        heard(InputId.of_tail(FLOW.offset_syncs)),
    )
    fields = {
        "inputs": inputs,
        "connectors": (connector("mm2", ConnectorKind.MIRROR),),
        "topology": Topology((), (FLOW,)),
        "mirror_partitions": (copied(10),),
    }
    return JudgedSnapshots(**{**fields, **changes})


def fails(*item: float, name: str = "lake", task: int | None = 0) -> StateHistory:
    """It ran in between, and runs now."""
    changes = [
        (moment, state)
        for when in item
        for moment, state in ((when, "failed"), (when + 1, "running"))
    ]
    return StateHistory("lab", name, task, tuple(StateChange(*each, None) for each in changes))
