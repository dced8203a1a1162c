"""The verbs of a person on call, against real Kafka, Connect and MirrorMaker 2."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import Lab
from lab.processes.ports import free_port
from lab.product.offsetwatch import Product
from lab.product.read_only_daemon import unchanged
from tests.real.daemon_series import await_replicated, becomes, eventually, total

pytestmark = [pytest.mark.real, pytest.mark.full]

ROLES = {"connect-offsets", "connect-configs", "connect-status", "west.checkpoints.internal"}


@pytest.fixture
def other(lab: Lab, tmp_path: Path) -> Iterator[Product]:
    """A second configuration for the same lab; a test changes it before anything reads it."""
    product = Product(lab, directory=tmp_path, port=free_port(), extra="tick_s: 0.2\n")
    yield product
    product.stop()


def change(product: Product, old: str, new: str) -> None:
    text = product.config.read_text()
    assert text.count(old) == 1
    product.config.write_text(text.replace(old, new))


def examined(product: Product, *, status: int, timeout_s: str = "20") -> list[dict[str, Any]]:
    document = json.loads(product.cli("doctor", "--json", "--timeout", timeout_s, status=status))
    checks: list[dict[str, Any]] = document["checks"]
    return checks


def line(checks: list[dict[str, Any]], about: str, check: str) -> dict[str, Any]:
    (result,) = [item for item in checks if item["about"] == about and item["check"] == check]
    return result


def all_committed(lab: Lab, product: Product) -> None:
    """Every kind of connector has an offset."""
    lab.append_lines(3)
    lab.produce("west", "orders", 30)
    eventually(
        product,
        "a commit of each connector",
        lambda: (
            total(product, "mm2_replicated_offset", topic="orders") is not None
            and total(product, "source_offset_position", connector="file-source") is not None
            and total(product, "sink_lag_records", connector="file-sink") is not None
        ),
    )


def test_doctor_finds_nothing_wrong_with_a_sound_lab(lab: Lab, product: Product) -> None:
    all_committed(lab, product)
    checks = examined(product, status=0)
    worker = f"worker {product.connect_url}"
    assert [check for check in checks if check["verdict"] != "ok"] == []
    assert "Kafka 4.1 or newer" in line(checks, "kafka east", "version")["found"]
    assert line(checks, worker, "reachable")["found"] == "Connect 4.3.1"
    assert line(checks, worker, "kafka")["found"] == "its Kafka cluster is east"
    assert "west" in line(checks, "connect lab", "mm2-source")["found"]
    looked_at = line(checks, "kafka east", "internal topics")["found"]
    assert all(name in looked_at for name in ROLES)
    assert "east/connect-offsets, found" in line(checks, "connect lab", "offsets topic")["found"]
    assert "nothing wrong with" in product.cli("doctor")


def test_doctor_finds_a_wrong_mapping(other: Product, lab: Lab) -> None:
    change(other, "name: lab, kafka: east", "name: lab, kafka: west")
    result = line(examined(other, status=1, timeout_s="8"), f"worker {other.connect_url}", "kafka")
    assert result["verdict"] == "fail"
    assert result["found"] == "its Kafka cluster is east, not west"
    assert "kafka: east" in result["advice"]


def test_doctor_names_the_addresses_that_matched_nothing(other: Product, lab: Lab) -> None:
    change(other, f'  west: {{bootstrap: "{lab.west}"}}\n', "")
    result = line(examined(other, status=1, timeout_s="8"), "connect lab", "mm2-source")
    assert result["verdict"] == "fail"
    assert lab.west in result["found"]


def test_doctor_without_a_worker_exits_7_and_reports_the_rest(other: Product, lab: Lab) -> None:
    lab.kill("connect-1")
    try:
        checks = examined(other, status=7, timeout_s="5")
    finally:
        lab.start_process("connect-1")
    lab.wait_running("mm2-source")
    lab.wait_running("file-sink")
    away = line(checks, f"worker {other.connect_url}", "reachable")
    assert (away["verdict"], away["unreachable"]) == ("fail", True)
    for kafka in ("kafka east", "kafka west"):
        assert line(checks, kafka, "reachable")["verdict"] == "ok"
    assert line(checks, "disk", "history.path")["verdict"] == "ok"


def test_an_offsets_topic_that_retention_empties_is_not_compacted(other: Product, lab: Lab) -> None:
    lab.create_topic("east", "wiped-offsets", 2, {"cleanup.policy": "delete"})
    change(other, "kafka: east, url", "kafka: east, offsets_topic: wiped-offsets, url")
    checks = examined(other, status=1)
    (check,) = [
        item for item in checks if item["check"] == "internal topics" and item["verdict"] == "fail"
    ]
    assert check["found"].startswith("wiped-offsets: not_compacted")
    with unchanged(other.connect_url) as (recorder,):
        change(other, other.connect_url, recorder.url)
        other.start_daemon()
        labels = {"kafka": "east", "topic": "wiped-offsets"}
        becomes(other, 1, "internal_topic_problem", problem="not_compacted", **labels)
        assert total(other, "internal_topic_problem", **labels) == 1
        other.stop()


def test_explain_says_what_the_daemon_says_and_where_from(lab: Lab, product: Product) -> None:
    all_committed(lab, product)
    await_replicated(lab, product)
    document = json.loads(product.cli("explain", "mm2-source", "--json"))
    assert document["problems"] == []
    flow = document["flow"]
    assert (flow["source"], flow["target"], flow["upstream"]) == ("west", "east", "west")
    assert document["offsets_topic"] == "east/connect-offsets"
    lags = {
        f"{partition['topic']}-{partition['partition']}": partition["lag_records"]
        for partition in flow["partitions"]
    }
    assert lags["orders-0"] == 0
    ends = [partition["log_end"]["offset"] for partition in flow["partitions"]]
    assert sum(ends) == total(product, "mm2_source_log_end_offset")
    assert all(view["live"] for view in document["inputs"])
    assert "Replication" in product.cli("explain", "mm2-source")
    sink = json.loads(product.cli("explain", "file-sink", "--json"))
    assert sink["group"]["group"] == "connect-file-sink"
    product.cli("explain", "mm2-sourse", status=2)
