"""Offsets written in transactions: only what is committed counts, and it counts in full."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

from lab import Lab
from lab.check import compare
from lab.cluster.connector_configs import FILE_SOURCE
from lab.cluster.kafka_client import settings
from lab.http import NO_AUTHORITIES
from lab.json_text import text
from lab.product.offsetwatch import Product
from lab.waiting import NotYet, until
from tests.real.daemon_series import WAIT_S_MAX, becomes, eventually, samples, total

pytestmark = [pytest.mark.real, pytest.mark.full]

TOPIC = "connect-offsets"
OFFSETS = {"kafka": "east", "topic": TOPIC}
TAIL = {"kind": "tail", **OFFSETS}
POSITION = {"connector": FILE_SOURCE, "connect_cluster": "lab"}
NEVER = 999_999_999
TRANSACTION_S_MAX = 30.0


def entry(product: Product) -> dict[str, Any]:
    """The one source partition of `file-source` in the exactly-once cluster."""
    (result,) = (
        partition
        for connector in product.get("/api/v1/connectors")["connectors"]
        if (connector["name"], connector["connect_cluster"]) == (FILE_SOURCE, "lab")
        for partition in connector["source_partitions"]
    )
    assert isinstance(result, dict)
    return result


def tail(product: Product) -> dict[str, Any]:
    inputs = product.get("/api/v1/connectors")["inputs"]
    (result,) = (view for view in inputs if view["input"] == f"east/{TOPIC}")
    assert isinstance(result, dict)
    return result


@pytest.fixture
def kafka_partition(exact: Lab, exact_product: Product) -> int:
    """Where Connect keeps the position of `file-source`, after a commit of it."""
    exact.append_lines(3)
    size = exact.lines_path.stat().st_size
    becomes(exact_product, size, "source_offset_position", **POSITION)
    partition = entry(exact_product)["kafka_partition"]
    assert isinstance(partition, int)
    return partition


@contextmanager
def transaction(lab: Lab, kafka_partition: int, name: str) -> Iterator[Producer]:
    """An open one, with a new position for `file-source` in the log; aborted if it is still open.

    The key is the one that Connect itself writes.
    """
    key = text([FILE_SOURCE, {"filename": str(lab.lines_path)}])
    producer = Producer(settings(lab.east, **{"transactional.id": f"offsetwatch-{name}"}))
    producer.init_transactions(TRANSACTION_S_MAX)
    producer.begin_transaction()
    value = text({"position": NEVER})
    producer.produce(TOPIC, key=key, value=value, partition=kafka_partition)
    assert producer.flush(TRANSACTION_S_MAX) == 0
    try:
        yield producer
    finally:
        producer.abort_transaction(TRANSACTION_S_MAX)


def expect_hidden(product: Product, holds: Callable[[], object]) -> None:
    """Wait until it holds; the aborted position must not be in any answer on the way."""

    def probe() -> None:
        position = total(product, "source_offset_position", **POSITION)
        offset = entry(product)["offset"]
        assert position != NEVER
        assert offset != {"position": NEVER}
        if not holds():
            raise NotYet(f"position {position}, offset {offset}, tail {tail(product)}")

    until("what comes after it", probe, timeout_s=WAIT_S_MAX, evidence=product.evidence)


def passed(product: Product, kafka_partition: int, end: int) -> bool:
    """Has the tail read this partition up to this log end?"""
    return bool(tail(product)["tail"]["positions"][str(kafka_partition)] >= end)


def test_an_aborted_position_is_never_shown(
    exact: Lab, exact_product: Product, kafka_partition: int
) -> None:
    before = entry(exact_product)["offset"]
    with transaction(exact, kafka_partition, "aborted"):
        pass
    where = (TOPIC, kafka_partition)
    end = compare.log_ends(exact, "east", [where])[where]
    expect_hidden(exact_product, partial(passed, exact_product, kafka_partition, end))
    assert entry(exact_product)["offset"] == before
    # What is committed after it is shown.
    exact.append_lines(2)
    size = exact.lines_path.stat().st_size
    expect_hidden(exact_product, lambda: entry(exact_product)["offset"] == {"position": size})


def test_transaction_markers_at_the_end_of_the_topic_do_not_make_the_tail_look_behind(
    exact: Lab, exact_product: Product, kafka_partition: int
) -> None:
    where = (TOPIC, kafka_partition)
    last = max(
        partition["log_offset"]
        for connector in exact_product.get("/api/v1/connectors")["connectors"]
        if connector["connect_cluster"] == "lab"
        for partition in connector["source_partitions"]
        if partition["kafka_partition"] == kafka_partition
    )
    assert compare.log_ends(exact, "east", [where])[where] > last + 1
    becomes(exact_product, 0, "tail_behind_records", **OFFSETS)
    becomes(exact_product, 1, "input_up", **TAIL)
    assert (
        httpx.get(
            f"{exact_product.url}/-/ready", trust_env=False, verify=NO_AUTHORITIES
        ).status_code
        == httpx.codes.OK
    )


def test_an_open_transaction_shows_nothing_that_is_not_committed(
    exact: Lab, exact_product: Product, kafka_partition: int
) -> None:
    before = entry(exact_product)["offset"]
    with transaction(exact, kafka_partition, "open"):
        # Connect commits behind it, where no read_committed reader can get.
        exact.append_lines(2)
        size = exact.lines_path.stat().st_size
        where = (TOPIC, kafka_partition)
        end = compare.log_ends(exact, "east", [where])[where]
        eventually(
            exact_product,
            "a commit behind it",
            lambda: compare.log_ends(exact, "east", [where])[where] > end,
        )
        expect_hidden(exact_product, lambda: entry(exact_product)["offset"] in (before, None))
    becomes(exact_product, size, "source_offset_position", **POSITION)
    becomes(exact_product, 0, "tail_behind_records", **OFFSETS)
    becomes(exact_product, 1, "input_up", **TAIL)


def test_an_open_transaction_is_named_and_takes_down_what_lies_behind_it_and_nothing_else(
    exact: Lab, exact_product: Product, kafka_partition: int
) -> None:
    elsewhere = {
        (connector["connect_cluster"], connector["name"])
        for connector in exact_product.get("/api/v1/connectors")["connectors"]
        for partition in connector["source_partitions"]
        if partition["kafka_partition"] != kafka_partition
    }
    assert elsewhere
    with transaction(exact, kafka_partition, "named"):
        exact.append_lines(2)
        size = exact.lines_path.stat().st_size
        becomes(exact_product, 0, "input_up", **TAIL)
        becomes(exact_product, None, "source_offset_position", **POSITION)
        assert (
            total(exact_product, "input_errors_total", **TAIL, reason="open_transaction") or 0
        ) > 0
        assert f"{TOPIC} partition {kafka_partition}:" in tail(exact_product)["last_error"]
        for cluster, connector in elsewhere:
            labels = {"connect_cluster": cluster, "connector": connector}
            assert samples(exact_product, "source_offset_position", **labels)
    becomes(exact_product, 1, "input_up", **TAIL)
    becomes(exact_product, size, "source_offset_position", **POSITION)
