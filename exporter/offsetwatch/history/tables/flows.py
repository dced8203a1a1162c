"""Table of replication flows (gold/flows), as the newest run found them. No Spark.

It lets readers of the tables work without the network, and while a cluster is down.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from offsetwatch.errors import HistoryError
from offsetwatch.history.tables import reader
from offsetwatch.history.tables.schemas import GOLD_FLOWS
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, TopicRouter

_ROUTERS = tuple[TopicRouter, ...]
_COPIES = tuple[tuple[str, str], ...]


def build_rows(flows: Iterable[MirrorFlow]) -> list[tuple[str | bool | None, ...]]:
    """Return a row for each flow, in the order of the table's columns."""
    return [
        (
            *(flow.connect_cluster, flow.connector, flow.source, flow.target),
            *(flow.upstream, flow.downstream),
            None if flow.offset_syncs is None else flow.offset_syncs.kafka,
            None if flow.offset_syncs is None else flow.offset_syncs.topic,
            *(flow.policy, flow.separator, flow.read_committed, flow.from_start),
            msgspec.json.encode(flow.routers).decode() if flow.routers else None,
            msgspec.json.encode(flow.copies).decode() if flow.copies else None,
        )
        for flow in flows
    ]


def read_flows(base: Path) -> tuple[MirrorFlow, ...]:
    """Return every flow, in order. Raises HistoryError if no run has written them."""
    found = []
    for row in reader.read_rows(base, GOLD_FLOWS):
        kafka, topic = row.pop("syncs_kafka"), row.pop("syncs_topic")
        syncs = None if kafka is None or topic is None else KafkaTopic(kafka, topic)
        written, stated = row.pop("routers"), row.pop("copies")
        routers = () if written is None else msgspec.json.decode(written, type=_ROUTERS)
        copies = () if stated is None else msgspec.json.decode(stated, type=_COPIES)
        found.append(MirrorFlow(**row, offset_syncs=syncs, routers=routers, copies=copies))
    return tuple(sorted(found, key=lambda flow: (flow.key, flow.connector)))


def find_flow(base: Path, name: str, connect_cluster: str | None) -> MirrorFlow:
    """Return the flow called `source->target`. Raises HistoryError if there is none, or several."""
    everything = read_flows(base)
    known = sorted({f"{flow.source}->{flow.target}" for flow in everything})
    found = [
        flow
        for flow in everything
        if f"{flow.source}->{flow.target}" == name
        and connect_cluster in {None, flow.connect_cluster}
    ]
    where = "" if connect_cluster is None else f" of {connect_cluster}"
    if not found:
        raise HistoryError(
            f"no flow{where} is called {name}; the newest run found {', '.join(known) or 'none'}"
        )
    if len(found) > 1:
        clusters = " | ".join(sorted({flow.connect_cluster for flow in found}))
        raise HistoryError(
            f"several connectors copy {name}: a checkpoint does not say whose it is; of several "
            f"Connect clusters name one: --connect {clusters}"
        )
    return found[0]
