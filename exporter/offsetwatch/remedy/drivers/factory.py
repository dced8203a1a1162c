"""Construction of the driver for all steps of guarded remediation of one connector.

The driver works over REST or through the Strimzi resource that owns the connector, and includes
probation, record copies and topic deletion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from offsetwatch.clients.write.kubernetes import KubeWriter
from offsetwatch.clock import SteadyClock, UnixClock
from offsetwatch.config import Config, Connect
from offsetwatch.errors import RemoteRefusal
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.drivers.probation import LastRecordCheck, ProbationChecker
from offsetwatch.remedy.drivers.quarantine.copy_step import add_record_copies, build_copy_context
from offsetwatch.remedy.drivers.quarantine.store import build_configured_quarantine
from offsetwatch.remedy.drivers.rest.connect_state import ConnectClient
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.drivers.strimzi.driver import StrimziDriver
from offsetwatch.remedy.drivers.strimzi.ownership import build_kube_reader, read_owning_resources
from offsetwatch.remedy.drivers.strimzi.rest_observed import RestObservedStrimziDriver
from offsetwatch.remedy.gather.broker_queries import Brokers
from offsetwatch.remedy.model.driver import (
    AttemptResult,
    Driver,
    DriverOffsets,
    Outcome,
    StepInspection,
)
from offsetwatch.remedy.model.plan import (
    AnyStep,
    FrozenOffsets,
    Plan,
    Prove,
    RecordLocation,
    RequestedState,
)
from offsetwatch.remedy.planner import FAILURE_EVIDENCE


class ProbationDriver:
    """A driver that can also inspect probation after a skip."""

    def __init__(self, driver: Driver, proofs: ProbationChecker) -> None:
        self._driver = driver
        self._proofs = proofs

    def identity(self) -> str | None:
        """See Driver."""
        return self._driver.identity()

    def offsets(self) -> DriverOffsets:
        """See Driver."""
        return self._driver.offsets()

    def look(self, step: AnyStep, frozen: FrozenOffsets | None) -> StepInspection:
        """See Driver."""
        if isinstance(step, Prove):
            return self._proofs.look(step)
        return self._driver.look(step, frozen)

    def carry_out(self, step: AnyStep, frozen: FrozenOffsets | None) -> Outcome:
        """See Driver."""
        if isinstance(step, Prove):
            return Outcome(AttemptResult.ACK, "nothing to request")
        return self._driver.carry_out(step, frozen)


@contextmanager
def open_remediation_driver(
    plan: Plan,
    config: Config,
    folder: Path,
    clock: UnixClock | None = None,
    check: Callable[[], None] = lambda: None,
) -> Iterator[Driver]:
    """Open the driver for a plan of guarded remediation.

    `check` is described at ConnectWriter. Raises RemoteRefusal where its Connect cluster is not
    configured.
    """
    subject = plan.subject
    connect = find_connect_cluster(config, subject.place)
    kafka = config.kafka_of(connect)
    steady = SteadyClock() if clock is None else clock
    with (
        closing(RestDriver(connect, subject.connector, kafka, clock=steady, check=check)) as rest,
        closing(Brokers(config.kafka)) as brokers,
        closing(ConnectClient(connect)) as client,
    ):
        proofs = ProbationChecker(
            client, subject.connector, steady, build_last_record_check(brokers)
        )
        changing = (
            rest if subject.driver == "rest" else _build_strimzi_driver(plan, connect, rest, check)
        )
        about = build_copy_context(plan, exception=_find_exception_class(plan))
        yield add_record_copies(
            ProbationDriver(changing, proofs),
            config.kafka,
            build_configured_quarantine(config, folder),
            about,
        )


def _build_strimzi_driver(
    plan: Plan, connect: Connect, rest: RestDriver, check: Callable[[], None]
) -> RestObservedStrimziDriver:
    at = connect.strimzi
    if at is None:
        raise RemoteRefusal(connect.name, "it is not linked to a resource of Strimzi any more")
    read = build_kube_reader(at)
    _, connector_resource = read_owning_resources(read, at, plan.subject.connector)
    strimzi = StrimziDriver(
        read.access,
        connector_resource.owner,
        stays=plan.final is RequestedState.STOPPED,
        reader=read,
        writer=KubeWriter(read.access, check=check),
    )
    return RestObservedStrimziDriver(rest, strimzi)


def find_connect_cluster(config: Config, place: str) -> Connect:
    """Return the Connect cluster of this name.

    Raises RemoteRefusal if none is configured, or none with a REST API.
    """
    for connect in config.connect:
        if connect.name == place and connect.worker_urls:
            return connect
    raise RemoteRefusal(place, "no Connect cluster of this name is configured with its REST API")


def build_last_record_check(brokers: Brokers) -> LastRecordCheck:
    """Build the check of whether no readable record comes after one."""

    def told(record: RecordLocation) -> bool:
        partition = TopicPartition(record.topic, record.partition)
        return (
            brokers.first(record.kafka, partition, record.offset + 1, committed=True).offset is None
        )

    return told


def _find_exception_class(plan: Plan) -> str | None:
    """Return the class of the exception in the plan's evidence; None if there is none."""
    if plan.remedy is None:
        return None
    told = next(
        (item.value for item in plan.remedy.evidence if item.name == FAILURE_EVIDENCE), None
    )
    return None if told is None else str(told).rpartition(": ")[2]
