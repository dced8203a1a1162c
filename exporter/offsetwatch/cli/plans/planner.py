"""The planner for plans that are requested on the daemon's host, with an own inspection.

A remote daemon plans by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from offsetwatch.cli.common import output
from offsetwatch.cli.common.logging import configure_logging
from offsetwatch.cli.common.own_inspection import inspect_for_connector
from offsetwatch.cli.offsets import execute
from offsetwatch.cli.plans.service_access import ServiceAccess
from offsetwatch.clock import SystemClock
from offsetwatch.daemon.control import ControlRequestPlanner
from offsetwatch.errors import ConfigError
from offsetwatch.remedy.service import ServiceCallbacks
from offsetwatch.state.snapshot import ConnectorKey


@contextmanager
def open_plan_inputs(
    access: ServiceAccess, timeout_s: float, key: ConnectorKey
) -> Iterator[ServiceCallbacks | None]:
    """Yield the inputs of a plan for a connector; None if a remote daemon plans.

    Silent clusters that the plan does not depend on are named on standard error. Raises
    ConfigError, and ResponseTimeout that names what is missing.
    """
    if access.listener is not None:
        yield None
        return
    loaded = access.loaded
    if loaded is None:
        raise ConfigError(("--config: a plan is made of what it names",))
    execute.require_journal_folder(access.folder)
    configure_logging("error", "console")
    with inspect_for_connector(loaded, timeout_s, key) as inspection:
        snapshot = inspection.snapshot
        for cluster in inspection.unread:
            output.print_error(cluster.text)
        wishes = ControlRequestPlanner(loaded, lambda: snapshot, access.folder, SystemClock())
        known = frozenset(
            (connector.connect_cluster, connector.name) for connector in snapshot.connectors
        )
        yield ServiceCallbacks(
            plan_for=wishes.plan_for, wake=lambda _hint: None, inventory=lambda: known
        )
