"""The boards: the rules of Grafana's dashboard linter, and every query put to a real Prometheus."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards.build import boards, main
from exporter.serve.exposition import Exposition
from exporter.serve.negotiate import OPENMETRICS_1_0_0
from tests.unit.serve.worlds import BUILD, RELOADED, full
from tools.promtool import check_rules

from .backfill import Prometheus, serving
from .promql import known_metrics, misused_counters, plain_regexes, read, unknown_names

BOARDS = {path.name: json.loads(text) for path, text in boards().items()}
FOLDER = next(iter(boards())).parent
SUBSTITUTES = {
    "$__rate_interval": "1m",
    "$job": ".+",
    "$connect_cluster": ".+",
    "$connector": ".+",
}
UNITS = {"short", "s", "cps", "bytes", "percentunit", "none"}

# What is told by its age, and the age of what the tests feed in depends on the day they run.
OLD = {"input silent", "history stands still"}
every_board = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS.keys())


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def targets(board: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for panel in panels(board):
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target


def substituted(expr: str) -> str:
    for name, value in SUBSTITUTES.items():
        expr = expr.replace(name, value)
    return expr


every_query = pytest.mark.parametrize(
    "target",
    [target for board in BOARDS.values() for _, target in targets(board)],
    ids=[f"{name}-{title}" for name, board in BOARDS.items() for title, _ in targets(board)],
)


# --- the files -----------------------------------------------------------------------------------


def test_the_committed_files_are_what_the_builder_makes():
    assert main(["--check"]) == 0
    assert {path.name for path in FOLDER.glob("*.json")} == BOARDS.keys()


def test_a_file_that_is_out_of_date_is_noticed_and_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("dashboards.build.FOLDER", tmp_path)
    assert main(["--check"]) == 1
    assert not any(tmp_path.iterdir())
    assert main([]) == 0
    assert main(["--check"]) == 0
    assert capsys.readouterr().out == "fleet.json: out of date\nfleet.json: written\n"


# --- the board -----------------------------------------------------------------------------------


@every_board
def test_a_board_is_of_a_model_that_grafana_10_to_13_read(board):
    assert 39 <= board["schemaVersion"] <= 42
    assert "__inputs" not in board
    assert "id" not in board


@every_board
def test_a_board_has_a_stable_name_and_is_changed_in_the_repository_only(board):
    assert re.fullmatch(r"offsetwatch-[a-z0-9-]{1,28}", board["uid"])
    assert board["title"]
    assert board["description"]
    assert board["editable"] is False
    assert board["timezone"] in {"", "utc"}
    assert board["graphTooltip"] == 1


@every_board
def test_boards_share_a_tag_and_link_to_each_other_by_it(board):
    (link,) = board["links"]
    assert link["type"] == "dashboards"
    assert set(link["tags"]) <= set(board["tags"])
    assert link["keepTime"]
    assert link["includeVars"]


@every_board
def test_there_is_one_data_source_variable_and_everything_uses_it(board):
    found = [at for at in board["templating"]["list"] if at["type"] == "datasource"]
    assert [(at["name"], at["query"], at["label"]) for at in found] == [
        ("datasource", "prometheus", "Data source")
    ]
    expected = {"type": "prometheus", "uid": "${datasource}"}
    for panel in panels(board):
        assert panel["datasource"] == expected
    for title, target in targets(board):
        assert target["datasource"] == expected, title


@every_board
def test_the_other_variables_are_chained_and_mean_everything_at_first(board):
    names = [at["name"] for at in board["templating"]["list"]]
    assert names == ["datasource", "job", "connect_cluster", "connector"]
    for at, before in zip(board["templating"]["list"][1:], names, strict=False):
        assert at["multi"]
        assert at["includeAll"]
        assert at["allValue"] == ".+"
        assert at["current"]["value"] == ["$__all"]
        assert at["refresh"] == 2  # when the time range changes
        query = at["query"]["query"]
        assert before == "datasource" or f'{before}=~"${before}"' in query
        selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", query).groups()
        assert unknown_names(selector) == []
        (metric,) = read(selector).metrics
        assert label == at["name"]
        assert label in known_metrics()[metric] | {"job"}


@every_board
def test_panels_have_their_own_ids_and_places(board):
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in board["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


@every_board
def test_a_panel_says_what_it_shows_and_in_which_unit(board):
    titles = [panel["title"] for panel in panels(board)]
    assert len(set(titles)) == len(titles)
    for panel in panels(board):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        assert panel["targets"], panel["title"]


@every_board
def test_targets_of_a_panel_have_different_names_and_series_a_legend(board):
    for panel in panels(board):
        names = [target["refId"] for target in panel["targets"]]
        assert len(set(names)) == len(names)
        if panel["type"] == "timeseries":
            legends = [target["legendFormat"] for target in panel["targets"]]
            assert all(legends), panel["title"]
            assert len(set(legends)) == len(legends), panel["title"]


@every_board
def test_what_is_wrong_now_comes_first(board):
    first = panels(board)[:9]
    assert [panel["type"] for panel in first] == ["stat"] * 8 + ["table"]


# --- the queries ---------------------------------------------------------------------------------


def test_every_query_is_valid_promql(tmp_path):
    rules = [
        {"record": f"query:{number}", "expr": substituted(target["expr"])}
        for number, (_, target) in enumerate(
            itertools.chain.from_iterable(map(targets, BOARDS.values()))
        )
    ]
    path = tmp_path / "queries.rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    assert check_rules(path) == []


@every_query
def test_a_query_names_metrics_and_labels_that_exist(target):
    assert unknown_names(target["expr"]) == []


@every_query
def test_a_query_rates_counters_and_nothing_else_over_the_interval_grafana_chooses(target):
    expr = target["expr"]
    assert misused_counters(expr) == []
    for window in re.findall(r"\b(?:rate|irate|increase)\([^\[]*\[([^\]]*)\]", expr):
        assert window == "$__rate_interval"


@every_query
def test_a_query_looks_at_what_the_variables_choose(target):
    known = known_metrics()
    for name, matchers in read(target["expr"]).selectors:
        for label in ("job", "connect_cluster", "connector"):
            if label == "job" or label in known[name]:
                assert (label, "=~", f"${label}") in matchers


@every_query
def test_a_query_matches_by_equality_where_it_can(target):
    assert plain_regexes(substituted(target["expr"])) == []


def test_exceptions_from_the_linter_are_written_down_with_their_reasons():
    exclusions = yaml.safe_load((FOLDER / ".lint").read_text(encoding="utf-8"))["exclusions"]
    assert set(exclusions) == {"template-instance-rule", "target-instance-rule"}
    assert all(at["reason"] for at in exclusions.values())


# --- asked of a real Prometheus ------------------------------------------------------------------


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Ten minutes of a made-up world, seen by two replicas of the exporter."""
    text = Exposition(BUILD, lambda: RELOADED).render(full(), OPENMETRICS_1_0_0).decode()
    replicas = [{"job": "offsetwatch", "instance": f"{name}:9640", "pod": name} for name in "ab"]
    folder: Path = tmp_path_factory.mktemp("prometheus")
    with serving(folder, text, replicas) as running:
        yield running


@every_query
def test_a_query_has_an_answer_with_every_label_of_its_legend(prometheus, target):
    series = prometheus.query(substituted(target["expr"]))
    assert series
    wanted = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
    for labels, _ in series:
        assert wanted <= labels.keys()


@every_query
def test_a_series_is_told_from_the_others_by_its_legend(prometheus, target):
    if not target["legendFormat"]:
        return
    series = prometheus.query(substituted(target["expr"]))
    wanted = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
    legends = [tuple(labels[name] for name in wanted) for labels, _ in series]
    assert len(set(legends)) == len(legends)


def test_two_replicas_of_the_exporter_count_nothing_twice(prometheus):
    stats = {
        panel["title"]: prometheus.query(substituted(panel["targets"][0]["expr"]))
        for panel in panels(BOARDS["fleet.json"])
        if panel["type"] == "stat"
    }
    assert {title: value for title, ((_, value),) in stats.items()} == {
        "Connectors failed": 0,
        "Tasks failed": 1,
        "Inputs down": 1,
        "Tails not caught up": 1,
        "MM2 lag": 379,
        "MM2 beyond the log end": 1,
        "Sink lag": 15,
        "Exporters": 2,
    }


def test_the_table_lists_every_problem_once_and_only_in_columns_that_it_orders(prometheus):
    (table,) = (at for at in panels(BOARDS["fleet.json"]) if at["type"] == "table")
    series = prometheus.query(substituted(table["targets"][0]["expr"]))
    problems = sorted(labels["problem"] for labels, _ in series)
    assert [name for name in problems if name not in OLD] == [
        "beyond the log end",
        "input down",
        "paused or stopped",
        "tail not caught up",
        "task failed",
    ]
    columns = table["transformations"][0]["options"]["indexByName"].keys()
    for labels, _ in series:
        assert labels.keys() <= columns
