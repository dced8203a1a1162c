"""The daemon against real Kafka, Connect and MirrorMaker 2: what issue reports will be about."""

from __future__ import annotations

import json
import os
import signal
from functools import partial

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from lab import Lab, Load
from lab.check import compare
from lab.cluster.connector_configs import file_source
from lab.product.offsetwatch import Product
from tests.real.daemon_series import (
    MIRRORED,
    await_replicated,
    becomes,
    eventually,
    samples,
    scraped,
    total,
)
from tools.promtool import check_metrics

pytestmark = pytest.mark.real


def moved_on(product: Product, text: str) -> bool:
    """Has anything changed since this scrape?"""
    return product.metrics() != text


def test_positions_lags_and_sinks_equal_rest_and_brokers(lab: Lab, product: Product) -> None:
    lab.append_lines(57)
    lab.produce("west", "orders", 301)
    lab.produce("west", "payments", 40)
    eventually(
        product,
        "the new records seen",
        lambda: (
            (total(product, "mm2_source_log_end_offset") or 0) >= 341
            and total(product, "sink_lag_records") is not None
        ),
    )
    await_replicated(lab, product)
    for tally in (compare.with_rest(product, lab), compare.with_brokers(product, lab)):
        assert tally.mismatches == []
        assert tally.compared >= 7


def test_caught_up_is_lag_0_a_stopped_mm2_lags_by_n_and_grows_and_returns_to_0(
    lab: Lab, product: Product
) -> None:
    lab.produce("west", "orders", 30)
    await_replicated(lab, product)
    lab.stop_connector("mm2-source")
    lab.produce("west", "orders", 7, partitions=[1])
    labels = {"topic": "orders", "partition": "1", "connector": "mm2-source"}
    becomes(product, 7, "mm2_replication_lag_records", **labels)
    lab.produce("west", "orders", 5, partitions=[1])
    becomes(product, 12, "mm2_replication_lag_records", **labels)
    assert total(product, "mm2_replication_lag_records", topic="orders", partition="0") == 0
    # No tasks are left, and still there is a state.
    becomes(product, 1, "connector_state", connector="mm2-source", state="stopped")
    assert total(product, "connector_tasks", connector="mm2-source") == 0
    lab.resume("mm2-source")
    becomes(product, 0, "mm2_replication_lag_records")
    becomes(product, 0, "mm2_ahead_records")


def test_position_log_end_and_lag_add_up_in_every_scrape_under_load(
    lab: Lab, product: Product
) -> None:
    await_replicated(lab, product)
    checked = 0
    with Load(lab, rate_per_s=200.0):
        for _ in range(15):
            text = product.metrics()
            ends = scraped(text, "mm2_source_log_end_offset")
            positions = scraped(text, "mm2_replicated_offset")
            for item, lag in scraped(text, "mm2_replication_lag_records").items():
                assert ends[item] - positions[item] - 1 == lag
                checked += 1
            eventually(product, "another answer", partial(moved_on, product, text))
    assert checked == 15 * len(MIRRORED)
    assert set(scraped(product.metrics(), "mm2_ahead_records").values()) == {0}


def test_a_rewind_by_hand_shows_the_old_offset_although_the_syncs_are_ahead(
    lab: Lab, product: Product
) -> None:
    lab.produce("west", "payments", 60)
    await_replicated(lab, product)
    labels = {"topic": "payments", "partition": "0", "connector": "mm2-source"}
    before = total(product, "mm2_replicated_offset", **labels)
    assert before is not None
    lab.stop_connector("mm2-source")
    lab.alter_offsets(
        "mm2-source",
        [
            {
                "partition": {"cluster": "west", "topic": "payments", "partition": 0},
                "offset": {"offset": int(before) - 10},
            }
        ],
    )
    becomes(product, before - 10, "mm2_replicated_offset", **labels)
    becomes(product, 10, "mm2_replication_lag_records", **labels)
    partition = "cluster=west,partition=0,topic=payments"
    becomes(product, 1, "source_offset_rewinds_total", source_partition=partition)
    lab.resume("mm2-source")
    becomes(product, 0, "mm2_replication_lag_records")


def test_a_deleted_connector_leaves_no_series_although_its_offsets_stay_in_the_topic(
    lab: Lab, product: Product
) -> None:
    path = lab.directory / "short-lived.in"
    path.write_text("one\ntwo\n")
    lab.create("short-lived", file_source(path))
    eventually(
        product,
        "its position",
        lambda: total(product, "source_offset_position", connector="short-lived") == 8,
    )
    lab.delete("short-lived")
    eventually(product, "its end", lambda: 'connector="short-lived"' not in product.metrics())


def test_a_reset_takes_the_position_away_and_counts(lab: Lab, product: Product) -> None:
    path = lab.directory / "reset.in"
    path.write_text("one\n")
    lab.create("reset-me", file_source(path))
    becomes(product, 4, "source_offset_position", connector="reset-me")
    lab.stop_connector("reset-me")
    lab.reset_offsets("reset-me")
    becomes(product, None, "source_offset_position", connector="reset-me")
    becomes(product, 1, "source_offset_resets_total", connector="reset-me")
    becomes(product, None, "source_offset_last_commit_timestamp_seconds", connector="reset-me")
    lab.delete("reset-me")


@pytest.mark.full
def test_a_dead_worker_takes_its_series_down_and_the_topics_stay(
    lab: Lab, product: Product
) -> None:
    await_replicated(lab, product)
    lab.kill("connect-1")
    try:
        becomes(product, 0, "input_up", kind="connect_rest", connect_cluster="lab")
        becomes(product, None, "connector_state")
        # The offsets topic and the upstream log are still read: these are true.
        assert total(product, "mm2_replication_lag_records") == 0
        assert samples(product, "source_offset_position")
    finally:
        lab.start_process("connect-1")
    becomes(product, 1, "input_up", kind="connect_rest", connect_cluster="lab")
    lab.wait_running("mm2-source")
    lab.wait_running("file-sink")


@pytest.mark.full
def test_a_dead_upstream_broker_takes_lag_down_and_what_does_not_depend_on_it_stays(
    lab: Lab, product: Product
) -> None:
    await_replicated(lab, product)
    lab.kill("west")
    try:
        becomes(product, 0, "input_up", kind="log_ends", kafka="west")
        syncs = {"kafka": "west", "topic": "mm2-offset-syncs.east.internal"}
        becomes(product, 0, "input_up", kind="tail", **syncs)
        becomes(product, None, "mm2_replication_lag_records")
        becomes(product, None, "mm2_source_log_end_offset")
        becomes(product, None, "mm2_offset_sync_upstream_offset")
        becomes(product, None, "mm2_replicated_offset")
        assert samples(product, "source_offset_position")
        assert total(product, "sink_lag_records") == 0
    finally:
        lab.start_process("west")
    becomes(product, 1, "input_up", kind="log_ends", kafka="west")
    becomes(product, 0, "mm2_replication_lag_records")


@pytest.mark.full
@pytest.mark.parametrize("reading", [(), ("--direct",)], ids=["daemon", "direct"])
def test_one_frozen_cluster_is_named_and_the_other_is_shown_whole(
    lab: Lab, product: Product, reading: tuple[str, ...]
) -> None:
    lab.append_lines(3)
    lab.produce("west", "orders", 3)
    position = {"connector": "file-source"}
    eventually(
        product, "its position", lambda: samples(product, "source_offset_position", **position)
    )
    await_replicated(lab, product)
    os.kill(lab.pids["west"], signal.SIGSTOP)
    try:
        becomes(product, 0, "input_up", kind="log_ends", kafka="west")
        status = json.loads(product.cli("status", "--json", *reading, status=1))
        assert {unread["cluster"] for unread in status["unread"]} == {"west"}
        assert status["unread"][0]["address"] == lab.west
        served = product.get("/api/v1/connectors")["connectors"]
        names = {entry["name"] for entry in served}
        assert {entry["name"] for entry in status["connectors"]["connectors"]} == names
        healthy = json.loads(product.cli("explain", "file-source", "--json", *reading))
        assert (healthy["unread"], healthy["problems"]) == ([], [])
        assert healthy["source_partitions"]
    finally:
        os.kill(lab.pids["west"], signal.SIGCONT)
    becomes(product, 1, "input_up", kind="log_ends", kafka="west")


@pytest.mark.full
@pytest.mark.parametrize("reading", [(), ("--direct",)], ids=["daemon", "direct"])
def test_positions_are_listed_while_connect_is_down(
    lab: Lab, product: Product, reading: tuple[str, ...]
) -> None:
    lab.append_lines(3)
    lab.produce("west", "orders", 3)
    position = {"connector": "file-source"}
    eventually(
        product, "its position", lambda: samples(product, "source_offset_position", **position)
    )
    await_replicated(lab, product)
    expected = json.loads(product.cli("offsets", "list", "--json"))["lab"]
    lab.kill("connect-1")
    try:
        becomes(product, 0, "input_up", kind="connect_rest", connect_cluster="lab")
        listed = json.loads(product.cli("offsets", "list", "--json", *reading, status=1))["lab"]
        for name in ("mm2-source", "file-source"):
            assert sorted(map(json.dumps, listed[name])) == sorted(map(json.dumps, expected[name]))
    finally:
        lab.start_process("connect-1")
    becomes(product, 1, "input_up", kind="connect_rest", connect_cluster="lab")
    lab.wait_running("mm2-source")
    lab.wait_running("file-sink")


def test_the_output_parses_in_both_formats(product: Product) -> None:
    text = list(text_string_to_metric_families(product.metrics()))
    openmetrics = list(
        openmetrics_families(product.metrics("application/openmetrics-text; version=1.0.0"))
    )
    assert {family.name for family in text} == {family.name for family in openmetrics}
    assert len(text) > 20


def test_promtool_finds_nothing_to_say_of_the_output(product: Product) -> None:
    assert check_metrics(product.metrics()) == []


@pytest.mark.full
def test_the_verbs_say_what_the_daemon_says(lab: Lab, product: Product) -> None:
    await_replicated(lab, product)
    status = json.loads(product.cli("status", "--json"))
    assert status["problems"] == []
    served = product.get("/api/v1/connectors")
    names = {entry["name"] for entry in served["connectors"]}
    assert {entry["name"] for entry in status["connectors"]["connectors"]} == names
    states = json.loads(product.cli("connectors", "status", "--json"))
    assert {entry["name"]: entry["state"] for entry in states} == {
        entry["name"]: entry["state"] for entry in served["connectors"]
    }
    offsets = json.loads(product.cli("offsets", "list", "--json"))["lab"]
    for name in ("mm2-source", "file-source", "file-sink"):
        expected = {json.dumps(entry, sort_keys=True) for entry in lab.offsets(name)}
        assert {json.dumps(entry, sort_keys=True) for entry in offsets[name]} == expected
    assert "mm2-source" in product.cli("status")
    product.cli("healthcheck")
    product.cli("check")


@pytest.mark.full
def test_the_pipeline_and_the_daemon_agree_at_one_log_end_under_load(
    lab: Lab, product: Product
) -> None:
    lab.append_lines(20)
    lab.produce("west", "orders", 200)
    lab.produce("west", "payments", 20)
    eventually(
        product,
        "a commit of every partition",
        lambda: len(samples(product, "mm2_replicated_offset")) == len(MIRRORED),
    )
    tally = compare.with_pipeline(product)
    assert tally.mismatches == []
    assert tally.compared >= 10
    # A second run reads only what is new, and the tables say the same.
    again = compare.with_pipeline(product)
    assert again.mismatches == []
    assert again.compared >= tally.compared
