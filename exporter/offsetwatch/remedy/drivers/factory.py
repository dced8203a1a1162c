"""Construction of the driver for all steps of guarded remediation of one connector.

The driver works over REST or through the Strimzi resource that owns the connector, and includes
probation and record copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from offsetwatch.clients.write.kubernetes import KubeWriter
from offsetwatch.clock import SteadyClock, UnixClock
from offsetwatch.config import Config, Connect
from offsetwatch.errors import RemoteRefusal
from offsetwatch.remedy.drivers.common_steps import (
    ProbationChecker,
    StepDispatcher,
    build_copy_context,
    build_last_record_check,
    build_record_copier,
)
from offsetwatch.remedy.drivers.quarantine.stores import build_configured_quarantine
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.drivers.strimzi.driver import RestObservedStrimziDriver, StrimziDriver
from offsetwatch.remedy.drivers.strimzi.operator import StrimziOperatorClient
from offsetwatch.remedy.drivers.strimzi.resources import build_kube_reader, read_owning_resources
from offsetwatch.remedy.gather.live_queries import Brokers, ConnectClient
from offsetwatch.remedy.model.driver import Driver
from offsetwatch.remedy.model.plan import Copy, Plan, Prove, RequestedState
from offsetwatch.remedy.model.plan_templates import FAILURE_EVIDENCE


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
    connector = plan.subject.connector
    connect = find_connect_cluster(config, plan.subject.store)
    steady = SteadyClock() if clock is None else clock
    with (
        closing(
            RestDriver(connect, connector, config.kafka_of(connect), clock=steady, check=check)
        ) as rest,
        closing(Brokers(config.kafka, sources=config.sources)) as brokers,
        closing(ConnectClient(connect)) as client,
    ):
        driver = (
            rest
            if plan.subject.driver == "rest"
            else _build_strimzi_driver(plan, connect, rest, check)
        )
        probation = ProbationChecker(client, connector, steady, build_last_record_check(brokers))
        copier = build_record_copier(
            config.kafka,
            build_configured_quarantine(config, folder),
            build_copy_context(plan, exception=_find_exception_class(plan)),
            config.sources,
        )
        yield StepDispatcher(driver, {Prove: probation, Copy: copier})


def find_connect_cluster(config: Config, store_name: str) -> Connect:
    """Return the Connect cluster of this name.

    Raises RemoteRefusal if none is configured, or none with a REST API.
    """
    for connect in config.connect:
        if connect.name == store_name and connect.worker_urls:
            return connect
    raise RemoteRefusal(
        store_name, "no Connect cluster of this name is configured with its REST API"
    )


def _build_strimzi_driver(
    plan: Plan, connect: Connect, rest: RestDriver, check: Callable[[], None]
) -> RestObservedStrimziDriver:
    if connect.strimzi is None:
        raise RemoteRefusal(connect.name, "it is not linked to a resource of Strimzi any more")
    reader = build_kube_reader(connect.strimzi)
    _, resource = read_owning_resources(reader, connect.strimzi, plan.subject.connector)
    writer = KubeWriter(reader.access, check=check)
    operator = StrimziOperatorClient(reader, writer, resource.owner)
    stays = plan.final is RequestedState.STOPPED
    return RestObservedStrimziDriver(rest, StrimziDriver(operator, stays=stays))


def _find_exception_class(plan: Plan) -> str | None:
    evidence = () if plan.remedy is None else plan.remedy.evidence
    failure = next((item.value for item in evidence if item.name == FAILURE_EVIDENCE), None)
    return None if failure is None else str(failure).rpartition(": ")[2]
