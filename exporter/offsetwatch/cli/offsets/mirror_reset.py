"""The verb `offsets reset --flow`: move a replication flow back or forward.

The records that are copied again or skipped are counted and shown before anything is changed.
toolbox/mirror/flow_reset.py prepares the change.
"""

from __future__ import annotations

from dataclasses import replace

from offsetwatch.cli.common import output
from offsetwatch.cli.common.time_arguments import parse_span, parse_time
from offsetwatch.cli.offsets import change, execute
from offsetwatch.cli.offsets.arguments import ChangeOptions, FlowResetOptions, OffsetStoreOptions
from offsetwatch.cli.offsets.open_store import (
    load_optional_config,
    open_offset_store,
)
from offsetwatch.clock import SystemClock
from offsetwatch.errors import ConfigError
from offsetwatch.model.connectors import Connector, ConnectorSettings
from offsetwatch.toolbox.change import PreparedChange
from offsetwatch.toolbox.mirror.copy_costs import CopyCost, format_partition_name
from offsetwatch.toolbox.mirror.flow_reset import (
    FlowChange,
    FlowResetRequest,
    FlowResetTarget,
    SyncTopicDeletion,
    find_flow_connectors,
    prepare_flow_reset,
)
from offsetwatch.toolbox.mirror.sync_topic_users import (
    ConnectClusterInventory,
    find_syncs_topic,
    inspect_connect_clusters,
    prepare_sync_deletion,
)
from offsetwatch.toolbox.store.offset_store import OffsetStore
from offsetwatch.toolbox.store.worker_config import has_flows
from offsetwatch.toolbox.store.worker_storage import WorkerOffsetStore
from offsetwatch.toolbox.validation import ValidationProblem


def reset_flow(where: OffsetStoreOptions, options: FlowResetOptions, how: ChangeOptions) -> int:
    """Reset every connector that copies the flow, with one plan each; return the exit code."""
    to = _build_target(options)
    if where.worker_config is not None and not has_flows(where.worker_config):
        where = replace(where, flow=None)  # a worker's storage is one, whatever its connectors copy
    with open_offset_store(where) as store:
        connectors = _find_connectors(store, options)
    wish = FlowResetRequest(
        flow=options.flow,
        to=to,
        topics=options.topics,
        allow_skip=options.allow_skip,
        allow_new=how.allow_new,
        alone=len(connectors) == 1,
    )

    def prepared(store: OffsetStore) -> list[PreparedChange]:
        found = [
            _prepare_connector(store, where, name, wish, clear=options.clear_syncs)
            for name in connectors
        ]
        print_counts([(one.prepared.connector, count) for one in found for count in one.counts])
        return [one.prepared for one in found]

    return change.run_changes(where, connectors, prepared, how, typed=True)


def _build_target(options: FlowResetOptions) -> FlowResetTarget:
    if options.to_time is not None:
        return FlowResetTarget(at=parse_time(options.to_time, SystemClock().now(), "--to-time"))
    if options.by is not None:
        return FlowResetTarget(by_s=parse_span(options.by, "--by"))
    return FlowResetTarget(offset=options.to_offset)


def _find_connectors(store: OffsetStore, options: FlowResetOptions) -> tuple[str, ...]:
    """Return the connectors that copy the flow. Raises ConfigError if there is none."""
    source, target = options.aliases
    listed = {name: store.settings(name) for name in store.connectors()}
    known = {name: connector for name, connector in listed.items() if connector is not None}
    found = find_flow_connectors(source, target, known)
    if isinstance(found, ValidationProblem):
        raise ConfigError((str(found),))
    return found


def _prepare_connector(
    store: OffsetStore,
    where: OffsetStoreOptions,
    connector: str,
    wish: FlowResetRequest,
    *,
    clear: bool,
) -> FlowChange:
    return prepare_flow_reset(
        store,
        connector,
        wish,
        execute.create_author(),
        clearing=_plan_clearing(store, where, connector) if clear else None,
    )


def _plan_clearing(
    store: OffsetStore, where: OffsetStoreOptions, connector: str
) -> SyncTopicDeletion:
    """Plan the deletion of the flow's offset-syncs topic.

    Other users of the topic are searched in all configured Connect clusters and in the storage.
    """
    settings = store.settings(connector)
    assert settings is not None  # it copies the flow
    assert settings.mirror is not None
    config = load_optional_config(where)
    found = (
        ()
        if config is None
        else inspect_connect_clusters(config, store.kafkas, SystemClock().now())
    )
    home = None if where.connect is None else _find_home(found, where.connect)
    name = where.connect or store.name
    if isinstance(store, WorkerOffsetStore):
        found = (
            *(inventory for inventory in found if not _is_same_cluster(store, inventory)),
            _build_own_cluster(store),
        )
    addresses = store.kafkas.addresses()
    topic = find_syncs_topic(settings.mirror, home, addresses)
    return prepare_sync_deletion(topic, found, store.kafkas, besides=(name, connector))


def _find_home(found: tuple[ConnectClusterInventory, ...], connect: str) -> str | None:
    return next(inventory.home for inventory in found if inventory.name == connect)


def _is_same_cluster(store: WorkerOffsetStore, inventory: ConnectClusterInventory) -> bool:
    """Return whether a configured Connect cluster is the one whose storage is written."""
    _, _, topic = store.name.rpartition("/")
    if inventory.offsets_topic != topic or inventory.home is None:
        return False
    identity = store.identity()
    return identity is not None and store.kafkas.at(inventory.home).cluster().cluster_id == identity


def _build_own_cluster(store: WorkerOffsetStore) -> ConnectClusterInventory:
    """Build the Connect cluster of the storage, with every connector stopped.

    None of its processes runs, or nothing is written.
    """
    listed = {name: store.settings(name) for name in store.connectors()}
    return ConnectClusterInventory(
        name=store.name,
        home=None,
        connectors=tuple(
            _build_stopped_connector(name, connector)
            for name, connector in listed.items()
            if connector is not None
        ),
        running="",
    )


def _build_stopped_connector(name: str, connector: ConnectorSettings) -> Connector:
    return Connector(
        name=name,
        kind=connector.kind,
        class_name=connector.class_name,
        version="",
        state="stopped",
        tasks=(),
        mirror=connector.mirror,
        translates=connector.translates,
    )


def print_counts(rows: list[tuple[str, CopyCost]]) -> None:
    """Print the records copied again or skipped, by partition; nothing if there are none."""
    concerned = [
        (name, copy_cost) for name, copy_cost in rows if copy_cost.again or copy_cost.skipped
    ]
    if not concerned:
        return
    output.print_table(
        "Records, at most",
        ("connector", "partition", "next now#", "next then#", "copied again#", "skipped#"),
        (
            (
                name,
                format_partition_name(copy_cost.partition),
                copy_cost.before,
                copy_cost.after,
                copy_cost.again,
                copy_cost.skipped,
            )
            for name, copy_cost in concerned
        ),
    )
