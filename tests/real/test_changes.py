"""What changes under a running daemon: a topic that is made anew, and its own configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from lab import Lab
from lab.http import NO_AUTHORITIES
from lab.processes.ports import free_port
from lab.product.offsetwatch import Product
from tests.real.conftest import FAST
from tests.real.daemon_series import becomes, eventually, samples, total

pytestmark = [pytest.mark.real, pytest.mark.full]

OFFSETS = "ledger-offsets"
SITE = f"{{name: ledger, kafka: east, offsets_topic: {OFFSETS}}}"


@pytest.fixture(scope="module")
def alone(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """A daemon that watches one topic, which we write."""
    lab.create_topic("east", OFFSETS, partitions=2, config={"cleanup.policy": "compact"})
    directory: Path = tmp_path_factory.mktemp("alone")
    product = Product(lab, directory=directory, port=free_port(), extra=FAST, connects=[SITE])
    commit(lab, "/a", 5)
    commit(lab, "/b", 7)
    product.start_daemon()
    yield product
    product.stop()


def commit(lab: Lab, file: str, position: int) -> None:
    producer = Producer({"bootstrap.servers": lab.east})
    key = json.dumps(["reader", {"filename": file}], separators=(",", ":"))
    producer.produce(OFFSETS, key=key, value=json.dumps({"position": position}))
    assert producer.flush(10) == 0


def positions(product: Product) -> dict[str, float]:
    result = samples(product, "source_offset_position", connect_cluster="ledger")
    return {dict(labels)["source_partition"]: value for labels, value in result.items()}


def reload(product: Product) -> httpx.Response:
    return httpx.post(
        f"{product.url}/-/reload", trust_env=False, timeout=90.0, verify=NO_AUTHORITIES
    )


def test_a_topic_recreated_is_read_again(lab: Lab, alone: Product) -> None:
    assert positions(alone) == {"filename=/a": 5, "filename=/b": 7}
    admin = AdminClient({"bootstrap.servers": lab.east})  # has to outlive its answer
    admin.delete_topics([OFFSETS])[OFFSETS].result(10)
    eventually(alone, "nothing shown of a topic that is gone", lambda: positions(alone) == {})
    becomes(alone, 0, "input_up", kind="tail", kafka="east", topic=OFFSETS)
    lab.create_topic("east", OFFSETS, partitions=1, config={"cleanup.policy": "compact"})
    commit(lab, "/a", 2)
    eventually(alone, "the new topic read", lambda: positions(alone) == {"filename=/a": 2})
    becomes(alone, 1, "input_up", kind="tail", kafka="east", topic=OFFSETS)


def test_a_wrong_file_changes_nothing_and_a_right_one_everything_it_says(
    lab: Lab, alone: Product
) -> None:
    right = alone.config.read_text()
    before = positions(alone)
    assert before
    try:
        alone.config.write_text(right.replace("offsets_topic", "ofsets_topic"))
        answer = reload(alone)
        assert answer.status_code == 400
        assert 'did you mean "offsets_topic"?' in answer.text
        assert positions(alone) == before
        assert total(alone, "config_last_reload_successful") == 0
        alone.config.write_text(
            right.replace("name: ledger,", 'name: ledger, connectors: {exclude: ["read.*"]},')
        )
        assert reload(alone).status_code == 200
        assert positions(alone) == {}
        assert total(alone, "config_last_reload_successful") == 1
    finally:
        alone.config.write_text(right)
    assert reload(alone).status_code == 200
    assert positions(alone) == before
