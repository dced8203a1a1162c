"""Every step of guarded remediation for one connector: over REST, or through the resource of
Strimzi that owns it, and what is read and copied beside it. Called by the daemon and by the command
line, which may recover each other's plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from offsetwatch.clients.write.kubernetes import KubeWriter
from offsetwatch.clock import Clock, SteadyClock
from offsetwatch.config import Config, Connect
from offsetwatch.errors import Refused
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.drivers.probation import NothingAfter, ProofSteps
from offsetwatch.remedy.drivers.quarantine.copy_step import about_of, with_copies
from offsetwatch.remedy.drivers.quarantine.store import quarantine_of
from offsetwatch.remedy.drivers.rest.connect_state import Sight
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.drivers.strimzi.driver import StrimziDriver
from offsetwatch.remedy.drivers.strimzi.ownership import reader_of, seen_of
from offsetwatch.remedy.drivers.strimzi.rest_observed import OperatedDriver
from offsetwatch.remedy.gather.broker_queries import Brokers, KafkaBrokers
from offsetwatch.remedy.model.driver import Answer, Driver, Found, Look, Outcome
from offsetwatch.remedy.model.plan import AnyStep, Frozen, Plan, Prove, RecordAt, State
from offsetwatch.remedy.planner import FAILURE


class WithProofs:
    """A driver that can see whether a skip has helped beside what it could before."""

    def __init__(self, driver: Driver, proofs: ProofSteps) -> None:
        self._driver = driver
        self._proofs = proofs

    def identity(self) -> str | None:
        """See Driver."""
        return self._driver.identity()

    def offsets(self) -> Found:
        """See Driver."""
        return self._driver.offsets()

    def look(self, step: AnyStep, frozen: Frozen | None) -> Look:
        """See Driver."""
        if isinstance(step, Prove):
            return self._proofs.look(step)
        return self._driver.look(step, frozen)

    def carry_out(self, step: AnyStep, frozen: Frozen | None) -> Outcome:
        """See Driver."""
        if isinstance(step, Prove):
            return Outcome(Answer.ACK, "nothing to request")
        return self._driver.carry_out(step, frozen)


@contextmanager
def driver_of(
    plan: Plan,
    config: Config,
    folder: Path,
    clock: Clock | None = None,
    check: Callable[[], None] = lambda: None,
) -> Iterator[Driver]:
    """For a plan of guarded remediation; `check`: see ConnectWriter. Raises Refused where its place
    is not configured.
    """
    at = plan.subject
    connect = connect_of(config, at.place)
    kafka = config.kafka_of(connect)
    steady = SteadyClock() if clock is None else clock
    with (
        closing(RestDriver(connect, at.connector, kafka, clock=steady, check=check)) as rest,
        closing(KafkaBrokers(config.kafka)) as brokers,
        closing(Sight(connect)) as sight,
    ):
        proofs = ProofSteps(sight, at.connector, steady, nothing_after(brokers))
        changing = rest if at.driver == "rest" else _operated(plan, connect, rest, check)
        about = about_of(plan, exception=_exception(plan))
        yield with_copies(
            WithProofs(changing, proofs), config.kafka, quarantine_of(config, folder), about
        )


def _operated(
    plan: Plan, connect: Connect, rest: RestDriver, check: Callable[[], None]
) -> OperatedDriver:
    at = connect.strimzi
    if at is None:
        raise Refused(connect.name, "it is not linked to a resource of Strimzi any more")
    read = reader_of(at)
    _, seen = seen_of(read, at, plan.subject.connector)
    strimzi = StrimziDriver(
        read.access,
        seen.owner,
        stays=plan.final is State.STOPPED,
        reader=read,
        writer=KubeWriter(read.access, check=check),
    )
    return OperatedDriver(rest, strimzi)


def connect_of(config: Config, place: str) -> Connect:
    """The Connect cluster of this name. Raises Refused if none is configured, or none over REST."""
    for connect in config.connect:
        if connect.name == place and connect.worker_urls:
            return connect
    raise Refused(place, "no Connect cluster of this name is configured with its REST API")


def nothing_after(brokers: Brokers) -> NothingAfter:
    """Whether no record that can be read stands after one."""

    def told(record: RecordAt) -> bool:
        at = TopicPartition(record.topic, record.partition)
        return brokers.first(record.kafka, at, record.offset + 1, committed=True).offset is None

    return told


def _exception(plan: Plan) -> str | None:
    """The class of the exception that the plan answers to, as its evidence has it."""
    if plan.remedy is None:
        return None
    told = next((at.value for at in plan.remedy.evidence if at.name == FAILURE), None)
    return None if told is None else str(told).rpartition(": ")[2]
