"""The loop of remediation on a Connect cluster in memory: all is real but the other side, and
whoever finds records, which is tried elsewhere.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from offsetwatch.config import Connect
from offsetwatch.decode.rest_answers import decode_connectors
from offsetwatch.errors import NotFound
from offsetwatch.judge.findings.failure_history import FailureTracker
from offsetwatch.model.connectors import StateHistory
from offsetwatch.model.findings import FailureRun, Finding, FindingName, Severity
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.records import LogWindow, RawRecord
from offsetwatch.model.topology import SinkGroup, Topology
from offsetwatch.remedy.drivers.common_steps import (
    ProbationChecker,
    RecordCopier,
    StepDispatcher,
    build_copy_context,
    build_last_record_check,
)
from offsetwatch.remedy.drivers.quarantine.stores import FileQuarantine
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.drivers.strimzi.resources import find_resource_problem
from offsetwatch.remedy.execute.approved_plans import PlanExecutor, ProcessLifetime
from offsetwatch.remedy.gather.facts_collector import FactsCollector, TimeSources
from offsetwatch.remedy.gather.live_queries import ConnectClient
from offsetwatch.remedy.gather.snapshot_queries import LiveConnectorState, RemediationCase
from offsetwatch.remedy.journal.index import JournalIndex
from offsetwatch.remedy.locate.search import IdentifiedRecord, NoIdentification
from offsetwatch.remedy.loop import RemediationLoop
from offsetwatch.remedy.model import approval
from offsetwatch.remedy.model.approval import PlanHistory
from offsetwatch.remedy.model.fleet_state import ConnectorKey
from offsetwatch.remedy.model.journal_records import ActionRefused
from offsetwatch.remedy.model.plan import (
    Copy,
    PartitionOffset,
    Plan,
    Prove,
    RecordLocation,
    parse_position,
)
from offsetwatch.remedy.model.policy import Policy
from offsetwatch.remedy.model.service_api import Mode
from offsetwatch.remedy.planner import Planner
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, ConnectorView, SinkPartitionView, Snapshot
from tests.contract.worlds import SINK_NAME, TOPIC, with_sink
from tests.fakes.clock import SetClock
from tests.fakes.connect_model import FILE_SINK, SINK, FakeConnect, OutsideClient, Trouble

POLICY = Policy(
    mode=Mode.PROPOSE,
    skip_safe=(SINK, FILE_SINK),
    failures=2,
    failures_span_s=0.0,
    restarts=0,
    alert_before_s=0.0,
    start_grace_s=0.0,
    cool_down_s=0.0,
    probation_s=5.0,
    stop_on=("recopy",),
)


@dataclass
class ModelBrokers:
    """What is asked of Kafka, of the model."""

    connect: FakeConnect

    def cluster_id(self, kafka: str) -> str | None:
        return kafka

    def topic_id(self, kafka: str, topic: str) -> str | None:
        answer = self.connect.broker.topics.get(topic)
        if answer is None:
            raise NotFound(kafka, topic)
        return answer.id

    def bounds(self, kafka: str, at) -> LogBounds:
        log = self.connect.broker.log(at.topic, at.partition)
        return LogBounds(start=log.start, end=log.end, stable_end=log.end)

    def ends(self, kafka: str, topic: str) -> dict[int, int]:
        logs = self.connect.broker.topics[topic].logs
        return {number: log.end for number, log in enumerate(logs)}

    def first(self, kafka: str, at, offset: int, *, committed: bool) -> int | None:
        log = self.connect.broker.log(at.topic, at.partition)
        result = log.read(offset, 1)
        return result[0].at.offset if result else None

    def committed(self, kafka: str, group: str, at) -> int | None:
        return self.connect.broker.group(group).offsets.get((at.topic, at.partition))

    def members(self, kafka: str, group: str) -> int:
        return len(self.connect.broker.group(group).members)

    def message_bytes_max(self, kafka: str, topic: str) -> int | None:
        return None

    def cluster(self) -> None:
        return None


@dataclass
class ModelSource:
    """The log that a record is copied from."""

    connect: FakeConnect

    def cluster_id(self) -> str | None:
        return "east"

    def topic_id(self, topic: str) -> str | None:
        return ModelBrokers(self.connect).topic_id("east", topic)

    def window(self, at, start: int, until: int) -> LogWindow:
        log = self.connect.broker.log(at.topic, at.partition)
        results = [raw(record) for record in log.read(start, 1) if record.at.offset < until]
        return LogWindow(tuple(results), until, log.end, log.start)

    def close(self) -> None:
        """Nothing to leave."""


def raw(record) -> RawRecord:
    return RawRecord(
        topic=record.at.topic,
        partition=record.at.partition,
        offset=record.at.offset,
        leader_epoch=None,
        timestamp_ms=record.timestamp_ms,
        timestamp_type="create",
        key=record.key,
        value=record.value,
        headers=record.headers,
    )


class OnTime(ConnectClient):
    """Workers in memory send no Date."""

    @property
    def server_time(self) -> float:
        return self.line.now()


@dataclass
class FirstRecord:
    """A Finder that knows which records spoil a sink: names one if it is the very next.

    observed    the connector and the number of its failures, of each configuration that was read
    """

    connect: FakeConnect
    observed: list[tuple[str | None, int]] = field(default_factory=list)

    def find(
        self, case: RemediationCase, now: LiveConnectorState, snapshot: Snapshot
    ) -> IdentifiedRecord | NoIdentification:
        (pair,) = now.pairs or (None,)
        offset = parse_position(pair)
        assert pair is not None
        assert offset is not None
        result = self.connect.broker.log(TOPIC, 0).read(offset, 1)
        if not result or not result[0].troubles:
            return NoIdentification("committed_before_poison", "what comes next is sound")
        record = raw(result[0])
        topic_id = self.connect.broker.topics[TOPIC].id
        return IdentifiedRecord(
            record=RecordLocation("east", TOPIC, topic_id, 0, offset),
            frm=pair,
            to=PartitionOffset(pair.partition, f'{{"kafka_offset":{offset + 1}}}'),
            method="decode",
            sha256=record.sha256,
            size_bytes=record.size_bytes,
        )

    def observe(self, case: RemediationCase, now: LiveConnectorState, snapshot: Snapshot) -> None:
        """A sink's log keeps the order of its records."""

    def observe_config(
        self, key: ConnectorKey, config: dict[str, str | None], run: FailureRun
    ) -> None:
        self.observed.append((config["name"], run.count))

    def forget_config(self, key: ConnectorKey) -> None:
        """It names records whatever the configuration is."""

    def named(
        self,
        case: RemediationCase,
        now: LiveConnectorState,
        snapshot: Snapshot,
        to: PartitionOffset,
    ) -> NoIdentification:
        return NoIdentification("not_here", "no person asks in these tests")


ENDED, VOID = "ended", "void"


def phase_of(history: PlanHistory) -> str:
    """Its status; of one that has ended, however it did, and of one that is void, just that."""
    if history.ended is not None:
        return ENDED
    return VOID if history.void else history.status


@dataclass
class Agency:
    """See the module. `found` are findings beside the failures that are judged here."""

    folder: Path
    policy: Policy = POLICY
    connect: FakeConnect = field(default_factory=lambda: with_sink(records=5))
    found: tuple[Finding, ...] = ()
    histories: tuple[StateHistory, ...] = ()
    killed: bool = False

    def __post_init__(self) -> None:
        self.failures = FailureTracker()
        self.snapshot = EMPTY_SNAPSHOT
        self.wall = SetClock(self.connect.line)
        self.hired()

    def hired(self) -> None:
        """A process that has the folder and nothing else."""
        self.door = self.connect.door()
        self.site = Connect(name="lab", kafka="east", urls=list(self.connect.urls))
        self.ledger = JournalIndex(self.folder)
        steady, clock, brokers = self.connect.line, self.wall, ModelBrokers(self.connect)
        on_time = OnTime(self.site, transport=self.door)
        on_time.line = steady
        collector = FactsCollector(
            client_of=lambda _: on_time,
            brokers=brokers,
            snapshot=lambda: self.snapshot,
            fleet=self.ledger.fleet,
            policy=self.policy,
            state_dir=self.folder,
            time=TimeSources(clock, steady, self.wait),
            find_resource_problem=partial(find_resource_problem, {}),
        )
        self.locator = FirstRecord(self.connect)
        self.planner = Planner(
            client_of=lambda _: on_time,
            collector=collector,
            locator=self.locator,
            snapshot=lambda: self.snapshot,
            policy=self.policy,
            quarantine=FileQuarantine(self.folder, clock).name,
            state_dir=self.folder,
            clock=clock.now,
        )
        executor = PlanExecutor(
            ledger=self.ledger,
            planner=self.planner,
            open_driver=self.driver,
            clock=clock,
            lifetime=ProcessLifetime(steady, self.wait),
        )
        self.agent = RemediationLoop(
            ledger=self.ledger,
            planner=self.planner,
            executor=executor,
            policy=self.policy,
            snapshot=lambda: self.snapshot,
            clock=clock,
        )

    @contextmanager
    def driver(self, plan: Plan):
        clock = self.connect.line
        rest = RestDriver(self.site, SINK_NAME, None, clock=clock, transport=self.door)
        client = ConnectClient(self.site, transport=self.door)
        proofs = ProbationChecker(
            client, SINK_NAME, clock, build_last_record_check(ModelBrokers(self.connect))
        )
        copies = RecordCopier(
            lambda _: ModelSource(self.connect),
            FileQuarantine(self.folder, clock),
            build_copy_context(plan),
        )
        yield StepDispatcher(rest, {Prove: proofs, Copy: copies})

    # --- the world goes on -----------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Time passes, and is looked at."""
        self.connect.advance(seconds)
        self.take_snapshot()

    def take_snapshot(self) -> None:
        """What the daemon would show."""
        listed = decode_connectors(
            self.connect.door("daemon")
            .request("GET", "/connectors?expand=status&expand=info", b"")
            .body
        )
        now, sink = self.connect.line.now(), f"connect-{SINK_NAME}"
        log = self.connect.broker.log(TOPIC, 0)
        committed = self.connect.broker.group(sink).offsets.get((TOPIC, 0), 0)
        view = SinkPartitionView(
            "lab", SINK_NAME, TOPIC, 0, committed, log.end, log.end - committed
        )
        snapshot = replace(
            EMPTY_SNAPSHOT,
            at=now,
            ready=True,
            connectors=tuple(
                ConnectorView(
                    "lab",
                    item.name,
                    item.kind,
                    item.class_name,
                    item.version,
                    item.state,
                    item.tasks,
                    failure=item.failure,
                )
                for item in listed
            ),
            sink_partitions=(view,),
            histories=self.histories,
            topology=Topology((), (), sinks=(SinkGroup("lab", SINK_NAME, sink, "east"),)),
        )
        self._judge(snapshot)
        self.snapshot = replace(
            snapshot,
            failure_runs=self.failures.runs(),
            findings=(*self.found, *_failed(snapshot)),
        )

    def go_on(self, seconds: int) -> None:
        """So many rounds of the loop, a second apart."""
        for _ in range(seconds):
            self.wait(1.0)
            self.agent.step()

    def restart(self) -> None:
        """By a person. That it ran for a moment is what a status topic tells."""
        OutsideClient(self.connect).restart(SINK_NAME)
        running = tuple(
            replace(
                connector, tasks=tuple(replace(task, state="running") for task in connector.tasks)
            )
            for connector in self.snapshot.connectors
        )
        self._judge(replace(self.snapshot, connectors=running))
        self.wait(5.0)

    def _judge(self, snapshot: Snapshot) -> None:
        names = {"lab": frozenset(connector.name for connector in snapshot.connectors)}
        (view,) = snapshot.sink_partitions
        positions = {("lab", SINK_NAME): {f"{TOPIC}-0": str(view.committed)}}
        self.failures.observe(snapshot, names, positions, 60.0)

    # --- people ----------------------------------------------------------------------------------

    def approve(self, plan_id: str, by: str = "ada") -> None:
        now = self.connect.line.now()
        sha256 = self.dossier(plan_id).plan.sha256
        result = self.ledger.journal.decide(
            plan_id,
            lambda written: approval.approve_plan(
                written, by=by, sha256=sha256, because="looked", now=now
            ),
        )
        assert not isinstance(result, approval.DecisionRefusal)

    # --- what there is ---------------------------------------------------------------------------

    def dossiers(self, status: str | None = None) -> list[PlanHistory]:
        self.ledger.read_on()
        return [history for history in self.ledger.newest() if status in {None, phase_of(history)}][
            ::-1
        ]

    def dossier(self, plan_id: str) -> PlanHistory:
        self.ledger.read_on()
        history = self.ledger.dossier(plan_id)
        assert history is not None
        return history

    def refused(self) -> list[ActionRefused]:
        self.ledger.read_on()
        return list(self.ledger.fleet.refused.values())

    def changes(self) -> list[str]:
        """Every request of ours that could change something."""
        return [
            f"{request.method} {request.path}"
            for request in self.connect.requests
            if request.who == "us" and request.method != "GET"
        ]

    def bad(self, stage: str = "value_converter", cause: str = "data", *, good: int = 3) -> int:
        """A record that spoils the sink, the first of its batch, and good ones behind it."""
        self.connect.advance(61.0)
        offset = self.connect.broker.log(TOPIC, 0).end
        self.connect.broker.produce(TOPIC, b"bad", troubles=(Trouble(stage, cause),))
        for number in range(good):
            self.connect.broker.produce(TOPIC, b"good %d" % number)
        return offset


def _failed(snapshot: Snapshot) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            FindingName.TASK_FAILED, Severity.CRITICAL, "lab", connector.name, "", "", snapshot.at
        )
        for connector in snapshot.connectors
        if any(task.state == "failed" for task in connector.tasks)
    )
