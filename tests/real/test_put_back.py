"""From a position that Kafka itself has forgotten, into a real connector, by a person's hands."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from lab import Lab
from lab.cluster.connector_configs import file_source
from lab.processes.ports import free_port
from lab.product.offsetwatch import Product
from lab.stories.cluster_actions import records
from lab.waiting import NotYet, until

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.proof]

CONNECTOR = "put-back"
LINES = "put-back-lines"
OFFSETS = "put-back-offsets"
COMMIT_S_MAX = 150.0
# The cleaner looks for work every fifteen seconds.
CLEAN_S_MAX = 120.0
# A segment is closed by the next record, and what is closed is cleaned.
COMPACT_NOW = {"segment.ms": "100", "min.cleanable.dirty.ratio": "0.0", "delete.retention.ms": "0"}


@pytest.fixture
def source(lab: Lab) -> Iterator[Path]:
    """The file of a connector that keeps its offsets in a topic of its own (KIP-618), so that no
    other connector's topic need be compacted.
    """
    path = lab.directory / "put-back.in"
    path.touch()
    lab.create_topic("east", LINES)
    lab.create_topic("east", OFFSETS, config={"cleanup.policy": "compact"})
    lab.create(CONNECTOR, {**file_source(path, topic=LINES), "offsets.storage.topic": OFFSETS})
    lab.wait_running(CONNECTOR)
    yield path
    lab.delete(CONNECTOR)


@pytest.fixture
def history(lab: Lab, tmp_path: Path) -> Product:
    extra = "history: {heap: 700m}\n"
    return Product(lab, directory=tmp_path / "history", port=free_port(), extra=extra)


def committed(lab: Lab, source: Path, name: str) -> int:
    """Five more lines of this name, and the position behind them once Connect has committed it."""
    with source.open("a") as handle:
        handle.writelines(f"{name} {number}\n" for number in range(5))
    end = source.stat().st_size
    position_is(lab, source, end)
    return end


def position_is(lab: Lab, source: Path, position: int) -> None:
    """Wait until Connect's REST API says so."""
    expected = [{"partition": {"filename": str(source)}, "offset": {"position": position}}]

    def probe() -> None:
        observed = lab.offsets(CONNECTOR)
        if observed != expected:
            raise NotYet(str(observed))

    until(f"position {position}", probe, timeout_s=COMMIT_S_MAX)


def compact(lab: Lab) -> None:
    admin = AdminClient({"bootstrap.servers": lab.east})
    changes = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in COMPACT_NOW.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, OFFSETS, incremental_configs=changes)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()


def positions(lab: Lab) -> list[int]:
    """What the offsets topic still holds."""
    values = [record.value for record in records(lab.east, OFFSETS)]
    return [json.loads(value)["position"] for value in values if value is not None]


def lines(lab: Lab) -> list[str]:
    """What the connector has written, in order."""
    return [
        record.value.decode() for record in records(lab.east, LINES) if record.value is not None
    ]


def put_back(lab: Lab, body: str) -> None:
    """What a person does with curl: PATCH a stopped connector with exactly these bytes."""
    lab.stop_connector(CONNECTOR)
    answer = httpx.patch(
        f"{lab.connect_urls[0]}/connectors/{CONNECTOR}/offsets",
        content=body,
        headers={"Content-Type": "application/json"},
        timeout=60.0,
        trust_env=False,
    )
    assert answer.status_code == httpx.codes.OK, answer.text


def test_a_connector_continues_from_a_position_whose_record_compaction_has_taken(
    lab: Lab, source: Path, history: Product
) -> None:
    then = committed(lab, source, "before")
    moment = time.time()
    committed(lab, source, "after")
    history.run_pipeline()
    assert then in positions(lab)

    compact(lab)
    end = committed(lab, source, "later")

    def gone() -> None:
        if then in positions(lab):
            raise NotYet(f"{OFFSETS} holds {positions(lab)}")

    until(f"position {then} compacted away", gone, timeout_s=CLEAN_S_MAX)

    requests = ("history", "as-of", "--time", str(moment), "--connector", CONNECTOR)
    body = history.cli(*requests, "--format", "patch")
    pair = {"partition": {"filename": str(source)}, "offset": {"position": then}}
    assert json.loads(body) == {"offsets": [pair]}

    before = lines(lab)
    assert before == source.read_text().splitlines()
    put_back(lab, body)
    position_is(lab, source, then)
    lab.resume(CONNECTOR)
    position_is(lab, source, end)
    assert lines(lab) == [*before, *source.read_text()[then:].splitlines()]
    assert before[5:] == source.read_text()[then:].splitlines() != []
