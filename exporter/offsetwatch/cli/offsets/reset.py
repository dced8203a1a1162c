"""The verbs `offsets reset` and `rewind`: back to the start, into a flow, or to a past moment.

The records that are copied again or skipped are counted and shown before anything is changed.
toolbox/mirror/flow_reset.py and toolbox/rewind.py prepare the changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from offsetwatch.cli.common import output
from offsetwatch.cli.common.options import add_config_option, parse_span, parse_time
from offsetwatch.cli.offsets import change, execute
from offsetwatch.cli.offsets.change import take_change_options
from offsetwatch.cli.offsets.execute import ChangeOptions
from offsetwatch.cli.offsets.offset_rows import parse_names
from offsetwatch.cli.offsets.offset_store import (
    load_optional_config,
    open_offset_store,
    require_connector,
)
from offsetwatch.cli.offsets.store_options import (
    OffsetStoreOptions,
    parse_aliases,
    take_store_options,
)
from offsetwatch.clock import SystemClock
from offsetwatch.errors import ConfigError
from offsetwatch.formatting import format_command
from offsetwatch.model.connectors import Connector, ConnectorSettings
from offsetwatch.toolbox.change import ConnectorChangeRequest, PreparedChange
from offsetwatch.toolbox.documents import OffsetsDocument, parse_document
from offsetwatch.toolbox.mirror.copy_costs import CopyCost, format_partition_name
from offsetwatch.toolbox.mirror.flow_reset import (
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
from offsetwatch.toolbox.offset_locations import StoredPairsLocation
from offsetwatch.toolbox.rewind import prepare_rewind
from offsetwatch.toolbox.store.offset_store import OffsetStore
from offsetwatch.toolbox.store.worker_config import has_flows
from offsetwatch.toolbox.store.worker_storage import WorkerOffsetStore
from offsetwatch.toolbox.validation import OffsetsRequest, ValidationProblem

_TARGETS = ("to_offset", "to_time", "by")


def reset_offsets(connector: str | None, **options: Any) -> int:
    """Reset a connector or a flow; return the exit code."""
    where, changing = take_store_options(options), take_change_options(options)
    options["topics"] = parse_names(options["topics"])
    typed = [
        f"--{name.replace('_', '-')}"
        for name in (*_TARGETS, "topics", "clear_syncs", "allow_skip")
        if options[name] is not None and options[name] is not False
    ]
    targets = [name for name in typed if name[2:].replace("-", "_") in _TARGETS]
    if len(targets) > 1:
        raise click.UsageError(f"{' or '.join(targets)}, not both")
    if typed and where.flow is None:
        raise click.UsageError(f"{typed[0]} goes with --flow")
    if connector is None:
        if where.flow is None:
            raise click.UsageError("which CONNECTOR, or which --flow?")
        return _reset_flow(where, where.flow, changing, **options)
    if where.flow is not None and where.connect is not None:
        raise click.UsageError("a CONNECTOR or --flow, not both")
    if typed:
        raise click.UsageError(f"{typed[0]} goes with --flow, and without a CONNECTOR")
    request = OffsetsRequest(
        connector, (), StoredPairsLocation(connector), allow_new=changing.allow_new
    )
    whole = ConnectorChangeRequest(
        request, f"reset offsets of {connector}", whole=True, watch_s=changing.watch_s
    )
    return change.change_offsets(where, (whole,), changing, typed=True)


def _reset_flow(
    where: OffsetStoreOptions,
    flow: str,
    changing: ChangeOptions,
    *,
    topics: frozenset[str] | None,
    clear_syncs: bool,
    allow_skip: bool,
    **target: Any,
) -> int:
    """Reset every connector that copies the flow, with one plan each; return the exit code."""
    to = _parse_target(**target)
    if where.worker_config is not None and not has_flows(where.worker_config):
        where = replace(where, flow=None)  # a worker's storage is one, whatever its connectors copy
    with open_offset_store(where) as store:
        connectors = _find_connectors(store, *parse_aliases(flow))
    request = FlowResetRequest(
        flow=flow,
        to=to,
        topics=topics,
        allow_skip=allow_skip,
        allow_new=changing.allow_new,
        alone=len(connectors) == 1,
        watch_s=changing.watch_s,
    )

    def prepare(store: OffsetStore) -> list[PreparedChange]:
        flow_changes = [
            prepare_flow_reset(
                store,
                name,
                request,
                execute.create_author(),
                clearing=_plan_clearing(store, where, name) if clear_syncs else None,
            )
            for name in connectors
        ]
        print_counts(
            [(one.prepared.connector, count) for one in flow_changes for count in one.counts]
        )
        return [one.prepared for one in flow_changes]

    return change.run_changes(where, connectors, prepare, changing, typed=True)


def _parse_target(to_offset: int | None, to_time: str | None, by: str | None) -> FlowResetTarget:
    return FlowResetTarget(
        offset=to_offset,
        at=None if to_time is None else parse_time(to_time, SystemClock().now(), "--to-time"),
        by_s=None if by is None else parse_span(by, "--by"),
    )


def _find_connectors(store: OffsetStore, source: str, target: str) -> tuple[str, ...]:
    """Return the connectors that copy the flow. Raises ConfigError if there is none."""
    connectors = find_flow_connectors(source, target, _list_settings(store))
    if isinstance(connectors, ValidationProblem):
        raise ConfigError((str(connectors),))
    return connectors


def _list_settings(store: OffsetStore) -> dict[str, ConnectorSettings]:
    listed = {name: store.settings(name) for name in store.connectors()}
    return {name: settings for name, settings in listed.items() if settings is not None}


def _plan_clearing(
    store: OffsetStore, where: OffsetStoreOptions, connector: str
) -> SyncTopicDeletion:
    """Plan the deletion of the flow's offset-syncs topic.

    Other users of the topic are searched in all configured Connect clusters and in the storage.
    """
    settings = store.settings(connector)
    assert settings is not None  # it copies the flow
    assert settings.mirror is not None
    inventories: tuple[ConnectClusterInventory, ...] = ()
    config = load_optional_config(where)
    if config is not None:
        inventories = inspect_connect_clusters(config, store.kafkas, SystemClock().now())
    homes = {inventory.name: inventory.home for inventory in inventories}
    home = None if where.connect is None else homes[where.connect]
    if isinstance(store, WorkerOffsetStore):
        others = (inventory for inventory in inventories if not _is_same_cluster(store, inventory))
        inventories = (*others, _build_own_cluster(store))
    topic = find_syncs_topic(settings.mirror, home, store.kafkas.addresses())
    besides = (where.connect or store.name, connector)
    return prepare_sync_deletion(topic, inventories, store.kafkas, besides=besides)


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
    return ConnectClusterInventory(
        name=store.name,
        home=None,
        connectors=tuple(
            Connector(
                name=name,
                kind=settings.kind,
                class_name=settings.class_name,
                version="",
                state="stopped",
                tasks=(),
                mirror=settings.mirror,
                translates=settings.translates,
            )
            for name, settings in _list_settings(store).items()
        ),
        running="",
    )


def print_counts(rows: list[tuple[str, CopyCost]]) -> None:
    """Print the records copied again or skipped, by partition; nothing if there are none."""
    concerned = [(name, cost) for name, cost in rows if cost.again or cost.skipped]
    if concerned:
        output.print_table(
            "Records, at most",
            ("connector", "partition", "next now#", "next then#", "copied again#", "skipped#"),
            (
                (
                    name,
                    format_partition_name(cost.partition),
                    cost.before,
                    cost.after,
                    cost.again,
                    cost.skipped,
                )
                for name, cost in concerned
            ),
        )


# --- rewind --------------------------------------------------------------------------------------


def rewind_offsets(connector: str, moment: str, *, allow_skip: bool, **options: Any) -> int:
    """Set a connector back to its offsets at a moment; return the exit code."""
    where, changing = take_store_options(options), take_change_options(options)
    if where.connect is None:
        raise click.UsageError("--connect is missing: the Connect cluster of --config")
    if where.flow is not None:
        raise click.UsageError("--flow goes with `offsets reset`")
    from offsetwatch.cli.history.queries import asof  # noqa: PLC0415 - needs the extra `history`

    config = load_optional_config(where)
    assert config is not None  # take_store_options sees to it
    with open_offset_store(where) as store:
        require_connector(store, connector)
    body = asof.build_restoring_patch(config, moment, where.connect, connector)
    if body is None:
        command = format_command(
            *("history", "as-of", "--time", moment, "--connector", connector),
            *("--connect", where.connect),
        )
        output.print_error(
            "the tables do not contain all of it: nothing was changed; "
            f"{add_config_option(command)} prints what is missing"
        )
        return execute.DENIED
    document = parse_document(body, patch_of=connector)
    assert isinstance(document, OffsetsDocument)  # of what Connect itself once wrote
    (section,) = document.sections
    request = OffsetsRequest(
        connector, section.pairs, StoredPairsLocation(connector), allow_new=changing.allow_new
    )

    def prepare(store: OffsetStore) -> list[PreparedChange]:
        flow_change = prepare_rewind(
            store,
            request,
            moment,
            execute.create_author(),
            allow_skip=allow_skip,
            watch_s=changing.watch_s,
        )
        print_counts([(connector, count) for count in flow_change.counts])
        return [flow_change.prepared]

    return change.run_changes(where, (connector,), prepare, changing, typed=True)
