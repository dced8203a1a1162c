"""Clusters that could not be read: name, address, reason, and time of the last read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from offsetwatch.cli.common import output
from offsetwatch.config import Config
from offsetwatch.model.moments import Moment
from offsetwatch.model.observations import CONNECT_REST, GROUPS, LOG_ENDS, REST_OFFSETS, TAIL
from offsetwatch.serve.documents.status import UnreadInput

KAFKA, CONNECT = "Kafka", "Connect"
_INPUT_KINDS: Final = frozenset({CONNECT_REST, GROUPS, LOG_ENDS, REST_OFFSETS, TAIL})


_INPUT_WORDS: Final = {
    CONNECT_REST: "connectors and their states",
    GROUPS: "groups of sinks",
    LOG_ENDS: "log ends",
    REST_OFFSETS: "offsets over REST",
}


class ClusterName(NamedTuple):
    """Kind (KAFKA or CONNECT) and name of a cluster of the configuration."""

    kind: str
    name: str


class UnreadCluster(msgspec.Struct, frozen=True):
    """A cluster that could not be read at all or not completely.

    address    None if no configuration has it
    since      time of the last read; None: never read
    inputs     the inputs that are missing
    """

    kind: str
    cluster: str
    address: str | None
    why: str
    since: Moment | None
    inputs: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return the cluster, reason, last read and missing inputs in one line."""
        where = "" if self.address is None else f" ({self.address})"
        since = (
            "never read" if self.since is None else f"last read {output.format_moment(self.since)}"
        )
        split = (input_name.partition(" ") for input_name in self.inputs)
        names = [_describe_input(kind, name) for kind, _, name in split]
        missing = f"; missing: {', '.join(names)}" if names else ""
        why = self.why.removeprefix(f"{self.cluster}: ")
        return f"not read: {self.kind} cluster {self.cluster}{where}: {why}; {since}{missing}"


def _describe_input(kind: str, name: str) -> str:
    """Return what is missing, with its name if the cluster has several of the kind."""
    if kind == GROUPS and "/" in name:
        return f"groups of {name.partition('/')[2]}"
    if kind == TAIL:
        return f"topic {name}" if "/" in name else f"offsets topic of {name}"
    return _INPUT_WORDS.get(kind, f"{kind} {name}")


def collect_unread_clusters(
    inputs: Iterable[UnreadInput],
    waiting_for: Iterable[str],
    *,
    config: Config | None,
    silent: Mapping[ClusterName, str] | None = None,
) -> tuple[UnreadCluster, ...]:
    """Return the clusters of unread inputs, of lines of `waiting_for`, and those in `silent`."""
    silent = silent or {}
    missing: dict[ClusterName, dict[str, UnreadInput]] = {cluster: {} for cluster in silent}
    for unread_input in (*(_parse_waiting_line(text) for text in waiting_for), *inputs):
        names = find_input_clusters(unread_input.kind, unread_input.input, config)
        cluster = next((name for name in names if name in silent), names[0])
        found = missing.setdefault(cluster, {})
        name = f"{unread_input.kind} {unread_input.input}"
        if name not in found or unread_input.last_error is not None:
            found[name] = unread_input
    return tuple(
        _build_unread_cluster(cluster, found, silent.get(cluster), config)
        for cluster, found in sorted(missing.items())
    )


def _build_unread_cluster(
    cluster: ClusterName,
    found: Mapping[str, UnreadInput],
    silent: str | None,
    config: Config | None,
) -> UnreadCluster:
    errors = (unread_input.last_error for unread_input in found.values())
    read = (unread_input.last_success_at for unread_input in found.values())
    return UnreadCluster(
        kind=cluster.kind,
        cluster=cluster.name,
        address=None if config is None else _find_address(config, cluster),
        why=silent or next(filter(None, errors), "not read to its end yet"),
        since=max((moment for moment in read if moment is not None), default=None),
        inputs=tuple(found),
    )


def find_awaited_clusters(text: str, config: Config) -> frozenset[ClusterName]:
    """Return the clusters that must answer before a line of `waiting_for` disappears."""
    unread_input = _parse_waiting_line(text)
    return frozenset(find_input_clusters(unread_input.kind, unread_input.input, config))


def _parse_waiting_line(text: str) -> UnreadInput:
    """Return the input of a line `KIND INPUT: waiting for WHAT (ERROR)` of state/readiness.py."""
    head, _, said = text.partition(": waiting for ")
    kind, _, name = head.partition(" ")
    if kind not in _INPUT_KINDS:
        return UnreadInput("", head, last_error=said or None)
    _, bracket, error = said.partition(" (")
    return UnreadInput(kind, name, last_error=error.removesuffix(")") if bracket else None)


def find_input_clusters(kind: str, name: str, config: Config | None) -> tuple[ClusterName, ...]:
    """Return the clusters that are asked for an input; the first is the one that it belongs to.

    The groups of a flow are read from both of its clusters. The upstream cluster is not known here,
    so every Kafka cluster is returned.
    """
    cluster, slash, _ = name.partition("/")
    homes = {} if config is None else {connect.name: connect.kafka for connect in config.connect}
    home = homes.get(cluster)
    owner = ClusterName(CONNECT, cluster)
    if kind == LOG_ENDS:
        owner = ClusterName(KAFKA, name)
    elif kind == TAIL and slash:
        owner = ClusterName(KAFKA, cluster)
    elif kind in {TAIL, GROUPS} and home is not None:
        owner = ClusterName(KAFKA, home)
    if kind != GROUPS or not slash or config is None:
        return (owner,)
    return tuple(dict.fromkeys((owner, *(ClusterName(KAFKA, kafka) for kafka in config.kafka))))


def _find_address(config: Config, cluster: ClusterName) -> str | None:
    if cluster.kind == KAFKA:
        kafka = config.kafka.get(cluster.name)
        return None if kafka is None else kafka.bootstrap
    for connect in config.connect:
        if connect.name == cluster.name:
            return ", ".join(connect.worker_urls) or None
    return None
