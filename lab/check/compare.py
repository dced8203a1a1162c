"""
Does everybody say the same? The daemon against the pipeline, Connect's REST API and the brokers.

A comparison is of one moment, and each kind of evidence has its own way to one:

* pipeline: the daemon's snapshot names the log end it had read (its tails' positions); the pipeline
  computes gold at exactly that log end, while traffic goes on;
* REST, brokers and console consumers: read, then the daemon, then read again. What was the same
  before and after must be what the daemon said in between; what moved is not compared.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import Consumer

from lab.check import console_consumer
from lab.cluster.connect_client import ConnectApi
from lab.cluster.kafka_client import request_log_bounds, settings
from lab.cluster.lab import ClusterName, Lab
from lab.json_text import text
from lab.product.offsetwatch import Product, not_read_since
from lab.waiting import NotYet, until
from offsetwatch.history.tables import reader

FRESH_S_MAX = 90.0
ENDS_S_MAX = 30.0
MISMATCHES_PRINTED_MAX = 10


@dataclass(slots=True)
class Tally:
    """What was compared. `mismatches` are sentences; `moved` counts what changed meanwhile."""

    what: str
    compared: int = 0
    moved: int = 0
    mismatches: list[str] = field(default_factory=list)

    def expect(self, subject: str, own: object, theirs: object) -> None:
        """Count one comparison."""
        self.compared += 1
        if own != theirs:
            self.mismatches.append(f"{subject}: the daemon says {own}, {self.what} {theirs}")

    @property
    def line(self) -> str:
        """For people."""
        line = f"{self.what}: compared {self.compared}, mismatched {len(self.mismatches)}"
        return line + (f", moved meanwhile {self.moved}" if self.moved else "")


def log_end(connectors: dict[str, Any]) -> dict[str, dict[str, int]]:
    """The log end that a snapshot of the daemon had read: {"kafka/topic": {"partition": next}}.

    Of the topics that the pipeline reads too.
    """
    tails = {
        f"{tail['kafka']}/{tail['topic']}": tail["positions"]
        for tail in (entry["tail"] for entry in connectors["inputs"])
        if tail is not None
    }
    return {topic: tails[topic] for topic in connectors["recorded"] if topic in tails}


def with_pipeline(product: Product) -> Tally:
    """Every source partition and every mirrored partition, at one captured log end."""
    connectors, flows = _same_snapshot(product)
    product.run_pipeline(up_to=log_end(connectors))
    tally = Tally("the pipeline")
    _compare_progress(tally, product, connectors)
    _compare_flows(tally, product, flows)
    return tally


def _same_snapshot(product: Product) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both documents of one snapshot; a tick between the two requests costs another try."""

    def both() -> tuple[dict[str, Any], dict[str, Any]]:
        connectors = product.get("/api/v1/connectors")
        flows = product.get("/api/v1/flows")
        if connectors["at"] != flows["at"]:
            raise NotYet("two snapshots")
        return connectors, flows

    return until("one snapshot", both, timeout_s=FRESH_S_MAX, evidence=product.evidence)


def _compare_progress(tally: Tally, product: Product, connectors: dict[str, Any]) -> None:
    gold = {
        (row.connect_cluster, row.connector, row.source_partition): (
            row.source_offset,
            row.koffset,
        )
        for row in reader.read_progress(product.history)
    }
    for connector in connectors["connectors"]:
        for entry in connector["source_partitions"]:
            identity = text(entry["source_partition"])
            key = (connector["connect_cluster"], connector["name"], identity)
            offset = None if entry["offset"] is None else text(entry["offset"])
            own = (offset, entry["log_offset"])
            tally.expect(f"{connector['name']} {identity}", own, gold.pop(key, "nothing"))
    listed = {any_connector["name"] for any_connector in connectors["connectors"]}
    for (_, name, identity), (offset, _) in gold.items():
        # Gold also keeps the offsets of deleted connectors; the daemon rightly hides those.
        if name in listed and offset is not None:
            tally.expect(f"{name} {identity}", "nothing", offset)


def _compare_flows(tally: Tally, product: Product, flows: dict[str, Any]) -> None:
    gold = {
        (row.connect_cluster, row.connector, row.topic, row.partition): (
            row.committed,
            row.synced,
        )
        for row in reader.read_flow_progress(product.history)
    }
    for flow in flows["flows"]:
        for partition in flow["partitions"]:
            if partition["committed"] is None:
                continue  # copied, and nothing of it yet: gold holds what was committed
            key = (
                flow["connect_cluster"],
                flow["connector"],
                partition["topic"],
                partition["partition"],
            )
            own = (partition["committed"], partition["synced"])
            subject = f"{flow['connector']} {partition['topic']}-{partition['partition']}"
            tally.expect(subject, own, gold.pop(key, "nothing"))
            # What it says beyond the commit, which is all that gold counts, is what a sync showed.
            if partition["replicated"] not in own:
                tally.expect(f"{subject} replicated", partition["replicated"], own)
    for key, theirs in gold.items():
        tally.expect(f"{key[1]} {key[2]}-{key[3]}", "nothing", theirs)


def with_rest(product: Product, lab: Lab, others: Mapping[str, ConnectApi] | None = None) -> Tally:
    """
    Offsets of every connector, source and sink.

    `others` answer for Connect clusters beside the lab's first one, by the names they are watched
    under.
    """
    result = product.get("/api/v1/connectors")["connectors"]
    names = [(item["connect_cluster"], item["name"]) for item in result]
    requests: dict[str, Callable[[str], list[dict[str, Any]]]] = {
        cluster: api.offsets for cluster, api in (others or {}).items()
    }
    before = {item: _rest_offsets(requests.get(item[0], lab.offsets), item[1]) for item in names}
    connectors = _after_now(product)
    after = {item: _rest_offsets(requests.get(item[0], lab.offsets), item[1]) for item in names}
    tally = Tally("REST")
    for connector in connectors["connectors"]:
        name = (connector["connect_cluster"], connector["name"])
        own = _daemon_offsets(connector)
        for identity in sorted(before[name].keys() | after[name].keys() | own.keys()):
            first, last = before[name].get(identity), after[name].get(identity)
            if first != last:
                tally.moved += 1
            else:
                tally.expect(f"{name[1]} {identity}", own.get(identity), first)
    return tally


def _rest_offsets(offsets: Callable[[str], list[dict[str, Any]]], connector: str) -> dict[str, str]:
    return {
        text(entry["partition"]): text(entry["offset"])
        for entry in offsets(connector)
        if entry["offset"] is not None
    }


def _daemon_offsets(connector: dict[str, Any]) -> dict[str, str]:
    results = {
        text(entry["source_partition"]): text(entry["offset"])
        for entry in connector["source_partitions"]
        if entry["offset"] is not None
    }
    for entry in connector["sink_partitions"]:
        if entry["committed"] is None:
            continue  # REST lists what was committed
        partition = {"kafka_partition": entry["partition"], "kafka_topic": entry["topic"]}
        results[text(partition)] = text({"kafka_offset": entry["committed"]})
    return results


def with_brokers(product: Product, lab: Lab) -> Tally:
    """Log ends, upstream and of the sinks' topics, and the lag that follows from them."""
    tally = Tally("the brokers")
    known = product.get("/api/v1/flows"), product.get("/api/v1/connectors")
    mirrored = {
        (item["topic"], item["partition"])
        for flow in known[0]["flows"]
        for item in flow["partitions"]
    }
    sunk = {
        (item["topic"], item["partition"])
        for connector in known[1]["connectors"]
        for item in connector["sink_partitions"]
    }
    before = {"west": log_ends(lab, "west", mirrored), "east": log_ends(lab, "east", sunk)}
    connectors = _after_now(product)
    flows = product.get("/api/v1/flows")
    after = {"west": log_ends(lab, "west", mirrored), "east": log_ends(lab, "east", sunk)}
    for flow in flows["flows"]:
        for partition in flow["partitions"]:
            where = (partition["topic"], partition["partition"])
            _expect_end(tally, flow["connector"], partition, (before["west"], after["west"]), where)
    for connector in connectors["connectors"]:
        for partition in connector["sink_partitions"]:
            where = (partition["topic"], partition["partition"])
            _expect_end(tally, connector["name"], partition, (before["east"], after["east"]), where)
    return tally


def _expect_end(
    tally: Tally,
    connector: str,
    own: dict[str, Any],
    ends: tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]],
    where: tuple[str, int],
) -> None:
    subject = f"{connector} {where[0]}-{where[1]}"
    first, last = ends[0].get(where), ends[1].get(where)
    if first != last or first is None:
        tally.moved += 1
        return
    tally.expect(f"{subject} log end", own["log_end"], first)
    # A mirror's position is the last record, a sink's the next one; without one all is to be done.
    if "lag_position" not in own:
        following = own["committed"]
    elif own["lag_position"] is None:
        following = own["log_start"]
    else:
        following = own["lag_position"] + 1
    tally.expect(f"{subject} lag", own["lag_records"], first - following)


@dataclass(frozen=True, slots=True)
class OffsetLocation:
    """Where a Connect cluster, or one of its connectors, keeps source offsets."""

    kafka: ClusterName
    topic: str


def with_consoles(
    product: Product,
    lab: Lab,
    clusters: Mapping[str, OffsetLocation],
    dedicated: Mapping[tuple[str, str], OffsetLocation] | None = None,
) -> Tally:
    """
    Offsets and syncs as Kafka's and MirrorMaker's own tools print them, log offsets included.

    `clusters` names the offsets topic of each Connect cluster; `dedicated` that of each
    (Connect cluster, connector) that has one of its own, where nothing else then counts.
    """
    own = dedicated or {}
    locations = frozenset((*clusters.values(), *own.values()))
    synced = _sync_topics(product)
    before = {
        entry: console_consumer.newest_offsets(lab, entry.kafka, entry.topic) for entry in locations
    }
    syncs_before = {
        entry: console_consumer.newest_syncs(lab, entry.kafka, entry.topic) for entry in synced
    }
    connectors = _after_now(product)
    flows = product.get("/api/v1/flows")
    after = {
        entry: console_consumer.newest_offsets(lab, entry.kafka, entry.topic) for entry in locations
    }
    syncs_after = {
        entry: console_consumer.newest_syncs(lab, entry.kafka, entry.topic) for entry in synced
    }
    tally = Tally("the console consumer")
    for connector in connectors["connectors"]:
        key = (connector["connect_cluster"], connector["name"])
        item = own.get(key) or clusters[key[0]]
        _expect_positions(tally, connector, before[item], after[item])
    for flow in flows["flows"]:
        for item in synced:
            if flow["offset_syncs"] == f"{item.kafka}/{item.topic}":
                _expect_syncs(tally, flow, syncs_before[item], syncs_after[item])
    return tally


def _sync_topics(product: Product) -> frozenset[OffsetLocation]:
    """The offset-syncs topics of all flows."""
    named = [flow["offset_syncs"] for flow in product.get("/api/v1/flows")["flows"]]
    results = [name.split("/", 1) for name in named if name is not None]
    return frozenset(
        OffsetLocation("west" if kafka == "west" else "east", topic=topic)
        for kafka, topic in results
    )


def _expect_positions(
    tally: Tally,
    connector: dict[str, Any],
    before: Mapping[tuple[str, str], console_consumer.CommittedRecord],
    after: Mapping[tuple[str, str], console_consumer.CommittedRecord],
) -> None:
    name = connector["name"]
    own = {
        text(entry["source_partition"]): console_consumer.CommittedRecord(
            kafka_partition=entry["kafka_partition"],
            log_offset=entry["log_offset"],
            value=None if entry["offset"] is None else text(entry["offset"]),
        )
        for entry in connector["source_partitions"]
        # What stands in no topic that counts for this connector claims nothing.
        if entry["log_offset"] is not None
    }
    theirs = {identity for owner, identity in (*before, *after) if owner == name}
    for identity in sorted(own.keys() | theirs):
        first, last = before.get((name, identity)), after.get((name, identity))
        if first != last:
            tally.moved += 1
        else:
            tally.expect(f"{name} {identity}", own.get(identity), first)


def _expect_syncs(
    tally: Tally,
    flow: dict[str, Any],
    before: Mapping[tuple[str, int], tuple[int, int]],
    after: Mapping[tuple[str, int], tuple[int, int]],
) -> None:
    own = {
        (sync["topic"], sync["partition"]): (sync["upstream_offset"], sync["downstream_offset"])
        for sync in flow["syncs"]
    }
    for where in sorted(own.keys() | before.keys() | after.keys()):
        first, last = before.get(where), after.get(where)
        if first != last:
            tally.moved += 1
        else:
            tally.expect(f"{flow['connector']} sync of {where}", own.get(where), first)


def log_ends(
    lab: Lab, cluster: ClusterName, expected: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    """Return high watermarks, asked for as a consumer does: another way than the daemon's."""
    bootstrap = lab.west if cluster == "west" else lab.east
    # A consumer of committed records would be given the last stable offset.
    more = {"group.id": "offsetwatch-compare", "isolation.level": "read_uncommitted"}
    consumer = Consumer(settings(bootstrap, **more))
    try:
        return {
            (topic, partition): until(
                f"log end of {topic}-{partition}",
                partial(request_log_bounds, consumer, topic, partition),
                timeout_s=ENDS_S_MAX,
            )[1]
            for topic, partition in expected
        }
    finally:
        consumer.close()


def _after_now(product: Product) -> dict[str, Any]:
    """A snapshot in which every input has been read since this call."""
    now = time.time()

    def fresh() -> dict[str, Any]:
        document = product.get("/api/v1/connectors")
        old = not_read_since(document, now)
        if old:
            named = (f"{entry['kind']} {entry['input']}" for entry in old)
            raise NotYet(f"not read since: {', '.join(named)}")
        return document

    return until("fresh inputs", fresh, timeout_s=FRESH_S_MAX, evidence=product.evidence)
