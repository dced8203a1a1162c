"""`offsets reset --flow`: a replication flow is set back, or on, and what that costs in records is
counted and shown before anything is done. See toolbox/flows.py.
"""

from __future__ import annotations

from dataclasses import replace

from offsetwatch.cli.common import output
from offsetwatch.cli.common.time_arguments import parse_span, parse_time
from offsetwatch.cli.offsets import change, execute
from offsetwatch.cli.offsets.arguments import Changing, FlowAsked, Where
from offsetwatch.cli.offsets.open_store import AnyWay, loaded, way_of
from offsetwatch.clock import SystemClock
from offsetwatch.errors import ConfigError
from offsetwatch.model.connectors import Connector, ConnectorSettings
from offsetwatch.toolbox.change import Prepared
from offsetwatch.toolbox.mirror.connect_clusters import clearing, sites
from offsetwatch.toolbox.mirror.copy_costs import Count
from offsetwatch.toolbox.mirror.flow_request import Target, flow
from offsetwatch.toolbox.mirror.flow_reset import Clearing, FlowChange, Wish, prepare_flow
from offsetwatch.toolbox.mirror.pairs import name_of
from offsetwatch.toolbox.mirror.sync_topic_users import Listed, topic_of
from offsetwatch.toolbox.store.changes import StorageWay
from offsetwatch.toolbox.store.worker_config import has_flows
from offsetwatch.toolbox.validation import Problem


def reset_flow(where: Where, asked: FlowAsked, how: Changing) -> int:
    """Every connector that copies the flow, each its own plan; the exit code."""
    to = _target(asked)
    if where.worker_config is not None and not has_flows(where.worker_config):
        where = replace(where, flow=None)  # a worker's storage is one, whatever its connectors copy
    with way_of(where) as way:
        connectors = _connectors(way, asked)
    wish = Wish(
        flow=asked.flow,
        to=to,
        topics=asked.topics,
        allow_skip=asked.allow_skip,
        allow_new=how.allow_new,
        alone=len(connectors) == 1,
    )

    def prepared(way: AnyWay) -> list[Prepared]:
        found = [_prepared(way, where, name, wish, clear=asked.clear_syncs) for name in connectors]
        print_counts([(one.prepared.connector, at) for one in found for at in one.counts])
        return [one.prepared for one in found]

    return change.changed(where, connectors, prepared, how, typed=True)


def _target(asked: FlowAsked) -> Target:
    if asked.to_time is not None:
        return Target(at=parse_time(asked.to_time, SystemClock().now(), "--to-time"))
    if asked.by is not None:
        return Target(by_s=parse_span(asked.by, "--by"))
    return Target(offset=asked.to_offset)


def _connectors(way: AnyWay, asked: FlowAsked) -> tuple[str, ...]:
    """Raises ConfigError where no connector copies the flow."""
    source, target = asked.aliases
    listed = {name: way.settings(name) for name in way.place.connectors()}
    known = {name: at for name, at in listed.items() if at is not None}
    found = flow(source, target, known)
    if isinstance(found, Problem):
        raise ConfigError((str(found),))
    return found


def _prepared(way: AnyWay, where: Where, connector: str, wish: Wish, *, clear: bool) -> FlowChange:
    return prepare_flow(
        way,
        connector,
        wish,
        execute.author(),
        kafkas=way.kafkas,
        upstream=way.upstream(connector),
        clearing=_clearing(way, where, connector) if clear else None,
    )


def _clearing(way: AnyWay, where: Where, connector: str) -> Clearing:
    """Who else uses its topic is looked for in the whole configuration, and in the storage."""
    settings = way.settings(connector)
    assert settings is not None  # it copies the flow
    assert settings.mirror is not None
    config = loaded(where)
    found = () if config is None else sites(config, way.kafkas, SystemClock().now())
    home = None if where.connect is None else _home(found, where.connect)
    name = where.connect or way.place.name
    if isinstance(way, StorageWay):
        found = (*(site for site in found if not _same(way, site)), _own_site(way))
    addresses = way.kafkas.addresses()
    topic = topic_of(settings.mirror, home, addresses)
    return clearing(topic, found, way.kafkas, besides=(name, connector))


def _home(found: tuple[Listed, ...], connect: str) -> str | None:
    return next(site.home for site in found if site.name == connect)


def _same(way: StorageWay, site: Listed) -> bool:
    """Is this Connect cluster of the configuration the one whose storage is written?"""
    _, _, topic = way.place.name.rpartition("/")
    if site.offsets_topic != topic or site.home is None:
        return False
    identity = way.place.identity()
    return identity is not None and way.kafkas.at(site.home).cluster().cluster_id == identity


def _own_site(way: StorageWay) -> Listed:
    """The processes that keep their offsets there: none of them runs, or nothing is written."""
    listed = {name: way.settings(name) for name in way.place.connectors()}
    return Listed(
        name=way.place.name,
        home=None,
        connectors=tuple(_stopped(name, at) for name, at in listed.items() if at is not None),
        running="",
    )


def _stopped(name: str, at: ConnectorSettings) -> Connector:
    return Connector(
        name=name,
        kind=at.kind,
        class_name=at.class_name,
        version="",
        state="stopped",
        tasks=(),
        mirror=at.mirror,
        translates=at.translates,
    )


def print_counts(rows: list[tuple[str, Count]]) -> None:
    """What is copied again or left out, partition by partition; nothing if nothing is."""
    concerned = [(name, at) for name, at in rows if at.again or at.skipped]
    if not concerned:
        return
    output.table(
        "Records, at most",
        ("connector", "partition", "next now#", "next then#", "copied again#", "skipped#"),
        (
            (name, name_of(at.partition), at.before, at.after, at.again, at.skipped)
            for name, at in concerned
        ),
    )
