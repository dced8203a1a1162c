"""Other versions, modes and layouts of Connect and MirrorMaker 2: the values are the same truth.

Each is held against Connect's REST API, the brokers, and Kafka's own console consumer; the last
alone where there is no REST API.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import Lab
from lab.check import compare
from lab.check.compare import OffsetLocation, Tally
from lab.cluster.connect_client import ConnectApi
from lab.cluster.connector_configs import (
    FILE_SOURCE,
    SOLO_SINK,
    SOLO_SOURCE,
    file_source,
    mm2_source,
)
from lab.processes.ports import free_port
from lab.product.offsetwatch import Product
from lab.product.read_only_daemon import onlooker
from tests.real.conftest import FAST, FAST_CONNECT, SITES
from tests.real.daemon_series import MIRRORED, await_replicated, becomes, eventually, total

pytestmark = [pytest.mark.real, pytest.mark.full]

OFFSETS = {"lab": OffsetLocation("east", "connect-offsets")}


@pytest.fixture(scope="module")
def older_product(older: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    directory = tmp_path_factory.mktemp("older-product")
    with onlooker(older, directory, extra=FAST, connect_extra=FAST_CONNECT) as (product, _):
        yield product


@pytest.fixture(scope="module")
def other(exact: Lab) -> Iterator[ConnectApi]:
    """The second Connect cluster, with a connector whose name the first one has too."""
    api = ConnectApi((exact.other_url,))
    lines(exact.directory / "other.in", 3)
    api.create(FILE_SOURCE, file_source(exact.directory / "other.in"))
    yield api
    api.close()


def lines(path: Path, n: int) -> int:
    """Append lines; return the size of the file, which is the position at its end."""
    with path.open("a") as handle:
        handle.writelines(f"line {number}\n" for number in range(n))
    return path.stat().st_size


def offsets(product: Product, connector: str) -> list[object]:
    """Of every source partition that is shown of a connector, in the first Connect cluster."""
    return [
        partition["offset"]
        for entry in product.get("/api/v1/connectors")["connectors"]
        if (entry["name"], entry["connect_cluster"]) == (connector, "lab")
        for partition in entry["source_partitions"]
    ]


def agrees(tally: Tally, *, at_least: int) -> None:
    assert tally.mismatches == []
    assert tally.compared >= at_least, tally.line


def produced(lab: Lab, product: Product, *, sink_lag_max: int = 0) -> None:
    """Traffic through everything a lab begins with, all of it seen."""
    lab.append_lines(25)
    lab.produce("west", "orders", 120)
    lab.produce("west", "payments", 30)
    await_replicated(lab, product, sink_lag_max=sink_lag_max)
    size = lab.lines_path.stat().st_size
    becomes(product, size, "source_offset_position", connector=FILE_SOURCE, connect_cluster="lab")


def test_kafka_3_9_gives_the_values_of_rest_brokers_and_consoles(
    older: Lab, older_product: Product
) -> None:
    produced(older, older_product)
    agrees(compare.with_rest(older_product, older), at_least=7)
    agrees(compare.with_brokers(older_product, older), at_least=2 * len(MIRRORED))
    # Five commits and as many syncs, and the file; the heartbeat's commits never rest.
    agrees(compare.with_consoles(older_product, older, OFFSETS), at_least=11)


def test_syncs_on_the_target_under_another_separator_are_found_and_right(
    older: Lab, older_product: Product
) -> None:
    older.create(
        "mm2-elsewhere",
        {
            **mm2_source(upstream=older.west, downstream=older.east, topics="orders"),
            "source.cluster.alias": "w3",
            "target.cluster.alias": "e3",
            "offset-syncs.topic.location": "target",
            "replication.policy.separator": "_",
        },
    )
    older.produce("west", "orders", 31)
    here = {"connector": "mm2-elsewhere"}
    ends = compare.log_ends(older, "west", MIRRORED[:3])
    becomes(older_product, sum(ends.values()), "mm2_source_log_end_offset", **here)
    becomes(older_product, 0, "mm2_replication_lag_records", **here)
    await_replicated(older, older_product)
    (flow,) = (
        flow
        for flow in older_product.get("/api/v1/flows")["flows"]
        if flow["connector"] == "mm2-elsewhere"
    )
    assert flow["offset_syncs"] == "east/mm2-offset-syncs_w3_internal"
    assert len(flow["syncs"]) == 3
    tally = compare.with_consoles(older_product, older, OFFSETS)
    agrees(tally, at_least=17)
    older.delete("mm2-elsewhere")


def test_exactly_once_gives_the_values_of_rest_brokers_and_consoles(
    exact: Lab, exact_product: Product, other: ConnectApi
) -> None:
    produced(exact, exact_product, sink_lag_max=1)
    agrees(compare.with_rest(exact_product, exact, {"other": other}), at_least=7)
    agrees(compare.with_brokers(exact_product, exact), at_least=2 * len(MIRRORED))
    retained = {**OFFSETS, "other": OffsetLocation("east", "other-offsets")}
    agrees(compare.with_consoles(exact_product, exact, retained), at_least=11)


def test_two_connect_clusters_with_connectors_of_one_name_are_kept_apart(
    exact: Lab, exact_product: Product, other: ConnectApi
) -> None:
    here = lines(exact.lines_path, 4)
    there = lines(exact.directory / "other.in", 5)
    position = "source_offset_position"
    becomes(exact_product, here, position, connect_cluster="lab", connector=FILE_SOURCE)
    becomes(exact_product, there, position, connect_cluster="other", connector=FILE_SOURCE)
    names = {
        name: {
            entry["name"]
            for entry in exact_product.get("/api/v1/connectors")["connectors"]
            if entry["connect_cluster"] == name
        }
        for name in ("lab", "other")
    }
    assert "mm2-source" in names["lab"]
    assert "mm2-source" not in names["other"]


def test_a_connectors_own_offsets_topic_counts_alone_with_and_without_exactly_once(
    exact: Lab, exact_product: Product, other: ConnectApi
) -> None:
    built = {name: exact.directory / f"{name}.in" for name in ("own-exact", "own-plain", "moved")}
    sizes = {name: lines(path, 7) for name, path in built.items()}
    config = {
        name: {**file_source(path), "offsets.storage.topic": f"{name}-offsets"}
        for name, path in built.items()
    }
    exact.create("own-exact", config["own-exact"])
    other.create("own-plain", config["own-plain"])
    exact.create("moved", file_source(built["moved"]))
    for name, size in sizes.items():
        becomes(exact_product, size, "source_offset_position", connector=name)

    # Connect does not fall back on the cluster's topic, whatever its documentation says.
    exact.stop_connector("moved")
    exact.create("moved", config["moved"])
    (entry,) = exact.offsets("moved")
    assert entry["offset"] is None
    eventually(exact_product, "no position", lambda: offsets(exact_product, "moved") == [None])
    assert total(exact_product, "source_offset_position", connector="moved") is None

    agrees(compare.with_rest(exact_product, exact, {"other": other}), at_least=9)
    tally = compare.with_consoles(
        exact_product,
        exact,
        {**OFFSETS, "other": OffsetLocation("east", "other-offsets")},
        {
            ("lab", "own-exact"): OffsetLocation("east", "own-exact-offsets"),
            ("lab", "moved"): OffsetLocation("east", "moved-offsets"),
            ("other", "own-plain"): OffsetLocation("east", "own-plain-offsets"),
        },
    )
    agrees(tally, at_least=13)
    # It starts again from the beginning of the file, and that is what is shown then.
    exact.resume("moved")
    becomes(exact_product, sizes["moved"], "source_offset_position", connector="moved")
    exact.delete("moved")
    exact.delete("own-exact")
    other.delete("own-plain")


FLOWS = """\
flows:
  - source: w2
    target: e2
    upstream: west
    downstream: east
    offset_syncs: {kafka: west, topic: mm2-offset-syncs.e2.internal}
"""


@pytest.fixture
def dedicated(exact: Lab, tmp_path: Path) -> Iterator[Product]:
    """A daemon that knows of a dedicated MirrorMaker only what its configuration names."""
    product = Product(
        exact,
        directory=tmp_path,
        port=free_port(),
        extra=FAST + FLOWS,
        connects=["{name: mm2, kafka: east, offsets_topic: mm2-offsets.w2.internal}"],
    )
    product.start_daemon()
    yield product
    product.stop()


def test_a_dedicated_mirrormaker_without_rest_gives_the_values_of_brokers_and_consoles(
    exact: Lab, dedicated: Product
) -> None:
    exact.produce("west", "ledger", 43)
    here = {"topic": "ledger", "source": "w2", "target": "e2"}
    ledger = "cluster=w2,partition=0,topic=ledger"
    becomes(dedicated, 43, "mm2_source_log_end_offset", **here)
    becomes(dedicated, 0, "mm2_replication_lag_records", **here)
    eventually(
        dedicated,
        "the last commit",
        lambda: total(dedicated, "source_offset_position", source_partition=ledger) == 42,
    )
    retained = {"mm2": OffsetLocation("east", "mm2-offsets.w2.internal")}
    # The commit and the sync of `ledger`; heartbeats never rest.
    agrees(compare.with_consoles(dedicated, exact, retained), at_least=2)
    running = {"connector": "MirrorSourceConnector", "state": "running"}
    becomes(dedicated, 1, "connector_state", **running)


def test_a_standalone_worker_is_read_over_rest_beside_a_distributed_one(
    exact: Lab, tmp_path: Path
) -> None:
    # Another Connect cluster has connectors of the same names, so its topic has to be named.
    baseline = (
        f'{{name: lab, kafka: east, url: "{exact.connect_urls[0]}", '
        f"offsets_topic: {SITES['lab']}, {FAST_CONNECT}}}"
    )
    alone = f'{{name: solo, url: "{exact.solo.url}", poll: {{state_s: 1, rest_offsets_s: 5}}}}'
    product = Product(
        exact, directory=tmp_path, port=free_port(), extra=FAST, connects=[baseline, alone]
    )
    try:
        product.start_daemon()
        size = lines(exact.solo.lines, 40)
        source = {"connect_cluster": "solo", "connector": SOLO_SOURCE}
        becomes(product, size, "source_offset_position", **source)
        becomes(product, 1, "connector_offsets_from_rest", **source)
        becomes(product, 1, "connector_state", **source, state="running")
        sinks = {"connect_cluster": "solo", "connector": SOLO_SINK}
        becomes(product, 1, "connector_state", **sinks, state="running")
        # What has topics is read from them, once they were read to their end.
        becomes(product, None, "connector_offsets_from_rest", connect_cluster="lab")
        size = lines(exact.lines_path, 5)
        usual_source = {"connect_cluster": "lab", "connector": FILE_SOURCE}
        becomes(product, size, "source_offset_position", **usual_source)
        assert total(product, "connector_offsets_from_rest", **usual_source) is None
        rows = [row.split() for row in product.cli("status").splitlines() if SOLO_SOURCE in row]
        assert rows[-1][-1] == "rest", rows
    finally:
        product.stop()
