"""Every query of every board, put to a real Prometheus."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dashboards import pictures
from offsetwatch.serve.metrics.exposition import OPENMETRICS_1_0_0, Exposition
from offsetwatch.serve.metrics.metric import INPUT
from offsetwatch.state.snapshot import Snapshot
from tests.changed import replace
from tests.unit.serve.worlds import BUILD, RELOADED, full

from .backfill import Prometheus, Series, repeated, serving
from .boards import (
    BOARDS,
    CHOSEN,
    LABEL,
    build_snapshot,
    panels,
    queries,
    rows,
    select_queried,
    substituted,
)

# What has no answer in this world, and why that is right.
UNANSWERED = {
    ("fleet", "Replication lag A"): "one partition's lag is not known, so there is no sum",
    ("fleet", "Problems B"): "nothing is too old",
}
DOCS = Path(__file__).parents[2] / "docs" / "boards"
REPLICAS = [{"job": "offsetwatch", "instance": f"{name}:9640", "pod": name} for name in "ab"]

Ask = Callable[[str, str], float | None]

every_query = pytest.mark.parametrize(
    ("name", "title", "target"),
    [pytest.param(*query, id=f"{query[0]}-{query[1]}") for query in queries()],
)


def scraped(folder: Path, snapshot: Snapshot) -> Iterator[Prometheus]:
    """Ten minutes of a made-up world, seen by two replicas of the exporter."""
    text = Exposition(BUILD, lambda: RELOADED).render(snapshot, OPENMETRICS_1_0_0).decode()
    offset = int(snapshot.at)
    with serving(folder, repeated(text, REPLICAS, offset), offset) as running:
        yield running


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    yield from scraped(tmp_path_factory.mktemp("prometheus"), build_snapshot())


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A world in which nothing is found, all lag is known, and no plan is open."""
    snapshot = full()
    known = tuple(
        partition
        for partition in snapshot.mirror_partitions
        if partition.lag is not None
        and (partition.connector, partition.topic) != ("wide", "payments")
    )
    nothing = replace(
        snapshot,
        findings=(),
        topic_problems=(),
        mirror_partitions=known,
        remedies=replace(build_snapshot().remedies, stopped_by_us=()),
    )
    yield from scraped(tmp_path_factory.mktemp("quiet"), nothing)


def answers(running: Prometheus, name: str, expr: str) -> list[list[Series]]:
    """One for each thing that the board can be of."""
    return [running.query(substituted(expr, chosen)) for chosen in CHOSEN[name]]


def query_stat(running: Prometheus, name: str, title: str) -> float | None:
    """The number of a stat, on a board of everything."""
    (panel,) = (entry for entry in select_queried(BOARDS[name]) if entry["title"] == title)
    ((series),) = answers(running, name, panel["targets"][0]["expr"])
    return series[0][1] if series else None


def rows_of(running: Prometheus, name: str, title: str) -> list[Series]:
    (panel,) = (entry for entry in select_queried(BOARDS[name]) if entry["title"] == title)
    (series,) = answers(running, name, panel["targets"][0]["expr"])
    return series


@every_query
def test_a_query_has_an_answer_with_every_label_of_its_legend(prometheus, name, title, target):
    results = [series for series in answers(prometheus, name, target["expr"]) if series]
    assert bool(results) == ((name, title) not in UNANSWERED)
    expected = set(LABEL.findall(target["legendFormat"]))
    if "kind" in expected:  # which of the others an input has depends on its kind
        expected -= set(INPUT) - {"kind"}
    for series in results:
        for labels, _ in series:
            assert expected <= labels.keys()


def test_what_may_be_without_an_answer_is_on_a_board():
    assert UNANSWERED.keys() <= {(name, title) for name, title, _ in queries()}


@every_query
def test_a_series_is_distinguished_from_the_others_by_its_legend(prometheus, name, title, target):
    expected = LABEL.findall(target["legendFormat"])
    for series in answers(prometheus, name, target["expr"]) if target["legendFormat"] else ():
        legends = [tuple(labels.get(item, "") for item in expected) for labels, _ in series]
        assert len(set(legends)) == len(legends)


@pytest.mark.parametrize("name", BOARDS)
def test_a_panel_of_one_number_has_one(prometheus, name):
    for panel in select_queried(BOARDS[name]):
        if panel["type"] == "stat":
            for series in answers(prometheus, name, panel["targets"][0]["expr"]):
                assert len(series) <= 1, panel["title"]


@pytest.mark.parametrize("name", BOARDS)
def test_a_table_has_rows_of_their_own_and_only_columns_that_it_orders(prometheus, name):
    for panel in select_queried(BOARDS[name]):
        if panel["type"] != "table":
            continue
        columns = panel["transformations"][-1]["options"]["indexByName"].keys()
        for target in panel["targets"]:
            for series in answers(prometheus, name, target["expr"]):
                for labels, _ in series:
                    assert labels.keys() <= columns, panel["title"]


@pytest.mark.parametrize("name", BOARDS)
def test_a_line_that_leads_to_a_board_has_the_labels_that_it_takes_along(prometheus, name):
    for panel in select_queried(BOARDS[name]):
        for link in panel["fieldConfig"]["defaults"].get("links", ()):
            expected = set(re.findall(r"__field\.labels\.(\w+)", link["url"]))
            assert expected
            for target in panel["targets"]:
                for series in answers(prometheus, name, target["expr"]):
                    for labels, _ in series:
                        assert expected <= labels.keys(), panel["title"]


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_can_be_drawn_from_its_answers(prometheus, name):
    chosen = {"connect_cluster": "lab", "connector": "files", "source": "west", "target": "east"}
    source = pictures.Source(prometheus.url, prometheus.at, 600, chosen, prometheus.client)
    drawn = pictures.draw_board(BOARDS[name], source)
    words = {
        element.text for element in ET.fromstring(drawn).iter() if element.tag.endswith("text")
    }
    assert pictures.LABEL in words
    assert {panel["title"] for panel in panels(BOARDS[name])} <= words
    assert {row["title"] for row in rows(BOARDS[name])} <= {
        item.removeprefix("\u25b8 ") for item in words if item
    }


@pytest.mark.parametrize("name", BOARDS)
def test_the_committed_picture_is_of_the_panels_that_the_board_has(name):
    drawn = (DOCS / f"{name}.svg").read_text(encoding="utf-8")
    words = {
        element.text for element in ET.fromstring(drawn).iter() if element.tag.endswith("text")
    }
    assert pictures.LABEL in words
    assert {panel["title"] for panel in panels(BOARDS[name])} <= words
    assert f"]({DOCS.name}/{name}.svg)" in DOCS.with_suffix(".md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("value", "unit", "answer"),
    [
        (0, "s", "0"),
        (90, "s", "1.5 min"),
        (-90, "s", "-1.5 min"),
        (0.25, "s", "250 ms"),
        (0.5, "cps", "0.5/s"),
        (47_800, "short", "47.8 K"),
        (999, "short", "999"),
        (47_800, "none", "47800"),
        (2**21, "bytes", "2 MiB"),
    ],
)
def test_a_number_is_drawn_as_operators_read_it(value, unit, answer):
    assert pictures.format_value(value, unit) == answer


def test_two_replicas_of_the_exporter_count_nothing_twice(prometheus):
    numbers = {
        panel["title"]: query_stat(prometheus, "fleet", panel["title"])
        for panel in select_queried(BOARDS["fleet"])
        if panel["type"] == "stat"
    }
    assert numbers == {
        "Critical findings": 4,
        "Warnings": 1,
        "Connectors silent or stalled": 2,
        "Connectors failed": 0,
        "Tasks failed": 1,
        "Inputs down": 1,
        "Internal topics not caught up": 1,
        "Replication lag": None,
        "Replication lag in time": 100,
        "Sink lag in time": 10,
        "Plans waiting": 3,
        "Exporters up": 2,
    }


def test_a_stat_panel_without_matching_series_shows_0(quiet):
    assert query_stat(quiet, "fleet", "Critical findings") == 0
    assert query_stat(quiet, "fleet", "Warnings") == 0
    assert query_stat(quiet, "failover", "Stale checkpoints") == 0
    assert query_stat(quiet, "remediation", "Connectors stopped") == 0
    assert query_stat(quiet, "health", "Internal topics with a problem") == 0


def test_a_sum_is_reported_once_every_part_of_it_is_known(prometheus, quiet):
    assert query_stat(prometheus, "fleet", "Replication lag") is None
    assert query_stat(quiet, "fleet", "Replication lag") == 379 + 0 + 3 + 4
    lags = {
        (labels["connector"], labels["source"]): value
        for labels, value in rows_of(prometheus, "fleet", "Replication lag by flow")
    }
    assert lags == {("whole", "south"): 5}


def test_the_overview_lists_every_problem_once(prometheus):
    problems = sorted(labels["problem"] for labels, _ in rows_of(prometheus, "fleet", "Problems"))
    assert problems == [
        "below the log start",
        "beyond the log end",
        "input down",
        "internal topic",
        "paused or stopped",
        "plan parked",
        "running without a task",
        "tail not caught up",
        "task failed",
        "topic lag not known",
        "topic lag not known",
        "verdict not ok",
        "verdict not ok",
    ]


def test_readiness_is_reported_of_every_group(prometheus):
    assert query_stat(prometheus, "failover", "Groups that would skip records") == 1
    assert query_stat(prometheus, "failover", "Records skipped") == 4
    assert query_stat(prometheus, "failover", "Groups with unknown position") == 0
    lost = rows_of(prometheus, "failover", "Partitions that would skip records")
    assert [(labels["group"], value) for labels, value in lost] == [("audit", 4)]
