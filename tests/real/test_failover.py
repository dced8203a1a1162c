"""What a group would read again or skip at the target, checked by moving it there.

Records are known by their values, which are the same on both sides. Where a group lands is asked of
MirrorMaker's own client library, or left to a consumer of the group itself.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from lab import Lab
from lab.cluster.connector_configs import (
    DOWNSTREAM,
    MM2_CHECKPOINT,
    MM2_SOURCE,
    UPSTREAM,
    mm2_checkpoint,
    mm2_source,
)
from lab.cluster.kafka_client import request_log_bounds, settings
from lab.processes.jars import jars
from lab.processes.java import tool
from lab.product.offsetwatch import Product
from lab.product.program import ROOT
from lab.waiting import NotYet, until
from tests.real.daemon_series import WAIT_S_MAX, samples

pytestmark = pytest.mark.real

PLAIN, TRANSACTED = "orders-moved", "orders-transacted"
RECORDS = 3000
LANDING = ROOT / "lab" / "check" / "Landing.java"


@pytest.fixture(
    scope="module",
    params=["product", pytest.param("exact_product", marks=pytest.mark.proof)],
)
def lab_and_product(request: pytest.FixtureRequest) -> tuple[Lab, Product]:
    """With and without exactly-once support, which leaves markers in what it copies."""
    lab = {"product": "lab", "exact_product": "exact"}[request.param]
    return request.getfixturevalue(lab), request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def copied(lab_and_product: tuple[Lab, Product]) -> dict[str, list[str | None]]:
    """Topics with 3,000 records each, copied whole: the values at each upstream offset.

    They arrive in parts, so that there are syncs; one topic is written in transactions, whose
    markers are not copied.
    """
    written, (lab, _) = {}, lab_and_product
    for topic in (PLAIN, TRANSACTED):
        lab.create_topic("west", topic, 1)
    for topic in (PLAIN, TRANSACTED):
        write(lab, topic, 0, RECORDS // 3)
    until("first copies", lambda: same_count(lab, PLAIN, TRANSACTED), timeout_s=WAIT_S_MAX)
    for topic in (PLAIN, TRANSACTED):
        write(lab, topic, RECORDS // 3, RECORDS)
        written[topic] = log(lab.west, topic)
    until("all copies", lambda: same_count(lab, PLAIN, TRANSACTED), timeout_s=WAIT_S_MAX)
    return written


def coarse(lab: Lab, product: Product, topic: str) -> int:
    """Copy 3,000 records in one go, with a sync at the first and one at the last of them: what a
    group at 2,700 would read again.
    """
    lab.create_topic("west", topic, 1)
    write(lab, topic, 0, RECORDS)
    until(f"{topic} copied", lambda: same_count(lab, topic), timeout_s=WAIT_S_MAX)
    values = log(lab.west, topic)
    group = f"moves-{topic}"
    lab.commit("west", group, topic, {0: 2700})
    view = await_translated(lab, product, group, {topic: 2700})[topic]
    again, skipped = moved(lab, topic, values, 2700, view["start_offset"])
    assert (view["reread_records"], view["skip_records"]) == (again, skipped), view
    return again


def write(lab: Lab, topic: str, first: int, end: int) -> None:
    """Records whose values are numbers; in TRANSACTED, a transaction for every hundred."""
    more = {"transactional.id": f"writes-{topic}"} if topic == TRANSACTED else {}
    producer = Producer(settings(lab.west, acks="all", **more))
    if more:
        producer.init_transactions(30)
    for begin in range(first, end, 100):
        if more:
            producer.begin_transaction()
        for number in range(begin, begin + 100):
            producer.produce(topic, value=str(number), partition=0)
            producer.poll(0)
        if more:
            producer.commit_transaction(30)
    assert producer.flush(30) == 0


def log(bootstrap: str, topic: str) -> list[str | None]:
    """The value at every offset of partition 0; None where there is no record."""
    results: list[str | None] = []
    with closing(reader(bootstrap, "reads-all")) as consumer:
        end, messages = read_to_end(consumer, topic, 0)
    for message in messages:
        results += [None] * (message.offset() - len(results)) + [message.value().decode()]
    return results + [None] * (end - len(results))


def read_to_end(consumer: Consumer, topic: str, start: int) -> tuple[int, list[Message]]:
    """The end of partition 0, and all records from this offset up to it; an error where they do not
    come in time.
    """
    partition = TopicPartition(topic, 0, start)
    consumer.assign([partition])
    _, end = until(
        f"the end of {topic}", lambda: request_log_bounds(consumer, topic, 0), timeout_s=WAIT_S_MAX
    )
    results: list[Message] = []

    def probe() -> None:
        messages = consumer.consume(1000, timeout=0.5)
        assert [str(message.error()) for message in messages if message.error()] == []
        results.extend(messages)
        position = consumer.position([partition])[0].offset
        if position < end:
            raise NotYet(f"at {position} of {end}, {len(results)} records")

    if start < end:
        until(f"{topic} read to its end", probe, timeout_s=WAIT_S_MAX)
    return end, results


def reader(bootstrap: str, group: str) -> Consumer:
    return Consumer(
        settings(
            bootstrap,
            **{
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_uncommitted",
            },
        )
    )


def same_count(lab: Lab, *topics: str) -> None:
    for topic in topics:
        counts = []
        for bootstrap, name in ((lab.west, topic), (lab.east, f"{UPSTREAM}.{topic}")):
            try:
                counts.append(sum(value is not None for value in log(bootstrap, name)))
            except Exception as exc:
                raise NotYet(f"{name}: {exc}") from exc
        if counts[0] != counts[1]:
            raise NotYet(f"{topic}: {counts}")


def start_offsets(lab: Lab, group: str) -> dict[str, int]:
    """Topic on the target -> where translateOffsets puts the group."""
    done = subprocess.run(
        (
            *(tool("java"), "-cp", f"{jars(lab.options.kafka_version)}/*", str(LANDING)),
            *(lab.east, UPSTREAM, group),
        ),
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=True,
    )
    rows = (line.split() for line in done.stdout.splitlines())
    return {topic: int(offset) for topic, _, offset in rows}


def views(product: Product, group: str) -> dict[str, dict[str, Any]]:
    """Topic -> what the API says of the group."""
    (flow,) = (
        mirror_flow
        for mirror_flow in product.get("/api/v1/flows")["flows"]
        if (mirror_flow["connect_cluster"], mirror_flow["source"]) == ("lab", UPSTREAM)
    )
    return {item["topic"]: item for item in flow["groups"] if item["group"] == group}


def known(
    product: Product, group: str, offsets: Mapping[str, int], start_offset_from: str
) -> dict[str, dict[str, Any]]:
    """The same, once the group's offsets and a start offset of every topic are there."""
    results: dict[str, dict[str, Any]] = {}

    def probe() -> None:
        results.clear()
        results.update(views(product, group))
        observed = {
            name: (view["upstream"], view["start_offset_from"]) for name, view in results.items()
        }
        if observed != {name: (offset, start_offset_from) for name, offset in offsets.items()}:
            raise NotYet(str(observed))

    until(f"{group} known", probe, timeout_s=WAIT_S_MAX, evidence=product.evidence)
    return results


def await_translated(
    lab: Lab, product: Product, group: str, offsets: Mapping[str, int]
) -> dict[str, dict[str, Any]]:
    """Once the checkpoint of this offset is there (until then there may be one of an offset before
    it) and we and the library say the same start offset: what we make of it.
    """
    results: dict[str, dict[str, Any]] = {}

    def probe() -> None:
        results.clear()
        results.update(known(product, group, offsets, "checkpoint"))
        for topic, view in results.items():
            if view["translated"] is not None and view["start_offset"] < view["translated"]:
                raise NotYet(f"{topic}: {view}")
        own = {f"{UPSTREAM}.{topic}": view["start_offset"] for topic, view in results.items()}
        theirs = start_offsets(lab, group)
        if own != theirs:
            raise NotYet(f"we say {own}, MirrorMaker's library says {theirs}")

    until(f"where {group} lands", probe, timeout_s=WAIT_S_MAX, evidence=product.evidence)
    return results


def moved(
    lab: Lab, topic: str, upstream: list[str | None], offset: int, index: int
) -> tuple[int, int]:
    """(read again, skipped) by a consumer that starts `at` this downstream offset, while the group
    has read up to `offset` upstream.
    """
    done = {value for value in upstream[:offset] if value is not None}
    with closing(reader(lab.east, "moves")) as consumer:
        _, messages = read_to_end(consumer, f"{UPSTREAM}.{topic}", index)
    read = [message.value().decode() for message in messages]
    rest = {value for value in upstream[offset:] if value is not None}
    again = [value for value in read if value in done]
    return len(again), len(rest - set(read))


def holds(lab: Lab, topic: str, view: dict[str, Any], again: int, skipped: int) -> None:
    """The numbers are those of a real move.

    Where markers of both sides, which are not told apart, cancel each other out, a few of them may
    have been counted as records.
    """
    least, most = sorted((view["start_offset"], view["best"]))
    markers = log(lab.east, f"{UPSTREAM}.{topic}")[least:most].count(None)
    assert markers == 0 or lab.options.exactly_once
    slack = markers if topic == TRANSACTED else 0
    reread, skip = view["reread_records"], view["skip_records"]
    assert again <= reread <= again + slack, view
    assert skipped <= skip <= skipped + slack, view


def test_the_numbers_are_what_happens_when_a_group_moves_by_its_checkpoints(
    lab_and_product: tuple[Lab, Product], copied: dict[str, list[str | None]]
) -> None:
    lab, product = lab_and_product
    offsets = {"early": 40, "late": 2700, "end": RECORDS}
    for name, offset in offsets.items():
        for topic in copied:
            lab.commit("west", f"moves-{name}", topic, {0: offset})
    for name, offset in offsets.items():
        group = f"moves-{name}"
        result = await_translated(lab, product, group, dict.fromkeys(copied, offset))
        for topic, values in copied.items():
            view = result[topic]
            holds(lab, topic, view, *moved(lab, topic, values, offset, view["start_offset"]))
            exported = samples(
                product, "mm2_group_failover_reread_records", group=group, topic=topic
            )
            assert list(exported.values()) == [view["reread_records"]]


def test_the_numbers_are_what_happens_when_a_group_moves_by_the_commits_that_mm2_syncs(
    lab_and_product: tuple[Lab, Product], copied: dict[str, list[str | None]]
) -> None:
    lab, product = lab_and_product
    config = mm2_checkpoint(upstream=lab.west, downstream=lab.east)
    synced = {"sync.group.offsets.enabled": "true", "sync.group.offsets.interval.seconds": "2"}
    lab.create(MM2_CHECKPOINT, {**config, **synced})
    try:
        offset, group = 2345, "moves-synced"
        for topic in copied:
            lab.commit("west", group, topic, {0: offset})
        result = known(product, group, dict.fromkeys(copied, offset), "group")
    finally:
        lab.create(MM2_CHECKPOINT, config)
    for topic, values in copied.items():
        first, again, skipped = own_start(lab, group, topic, values, offset)
        view = result[topic]
        assert view["start_offset"] == first
        holds(lab, topic, view, again, skipped)


def own_start(
    lab: Lab, group: str, topic: str, values: list[str | None], offset: int
) -> tuple[int, int, int]:
    """(first offset read, read again, skipped) of a consumer that only says which group it is."""
    with closing(reader(lab.east, group)) as consumer:
        where = TopicPartition(f"{UPSTREAM}.{topic}", 0)
        consumer.assign([where])  # from the group's own commit
        message = consumer.poll(WAIT_S_MAX)
        assert message is not None
        assert message.error() is None, message.error()
    return (message.offset(), *moved(lab, topic, values, offset, message.offset()))


@pytest.mark.full
def test_a_group_at_2700_that_only_an_early_sync_translates_reads_nearly_everything_again(
    lab: Lab, product: Product
) -> None:
    config = mm2_source(upstream=lab.west, downstream=lab.east)
    lab.create(MM2_SOURCE, {**config, "offset.lag.max": "1000000"})
    try:
        # A flush of offsets in the middle of a copy sends one more sync: not often, and not always.
        result = (coarse(lab, product, f"orders-coarse-{attempt}") for attempt in range(3))
        assert any(again == 2699 for again in result)
    finally:
        lab.create(MM2_SOURCE, config)


def test_a_group_that_is_ahead_at_the_target_skips_what_we_say(
    lab_and_product: tuple[Lab, Product], copied: dict[str, list[str | None]]
) -> None:
    lab, product = lab_and_product
    group, offset, ahead = "moves-ahead", 1500, 1600
    for topic in copied:
        lab.commit("west", group, topic, {0: offset})
        lab.commit("east", group, f"{UPSTREAM}.{topic}", {0: ahead})
    result = known(product, group, dict.fromkeys(copied, offset), "group")
    for topic, values in copied.items():
        again, skipped = moved(lab, topic, values, offset, ahead)
        # A place in the middle of what MirrorMaker wrote: the markers before it are not all known.
        between = log(lab.east, f"{UPSTREAM}.{topic}")[offset:ahead]
        view, markers = result[topic], between.count(None)
        assert view["reread_records"] == again == 0
        assert skipped <= view["skip_records"] <= skipped + markers
        assert markers == 0 or lab.options.exactly_once
        assert skipped > 50


def test_the_newest_checkpoints_and_the_heartbeat_of_the_flow_are_dated(
    lab_and_product: tuple[Lab, Product], copied: dict[str, list[str | None]]
) -> None:
    _, product = lab_and_product
    flow = {"connect_cluster": "lab", "source": UPSTREAM, "target": DOWNSTREAM}
    (beat,) = samples(product, "mm2_heartbeat_last_timestamp_seconds", **flow).values()

    def moves_on() -> None:
        now = samples(product, "mm2_heartbeat_last_timestamp_seconds", **flow)
        if list(now.values()) <= [beat]:
            raise NotYet(str(now))

    until("the next heartbeat", moves_on, timeout_s=WAIT_S_MAX, evidence=product.evidence)
    assert samples(product, "mm2_checkpoint_last_timestamp_seconds", group="moves-late", **flow)
