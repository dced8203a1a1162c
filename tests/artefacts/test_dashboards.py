"""The boards as files: the rules of Grafana's dashboard linter, links, and what queries name.

test_board_queries.py puts the queries to a real Prometheus.
"""

from __future__ import annotations

import json
import re

import pytest
import yaml

from dashboards import build, remediation
from dashboards.build import boards, main
from dashboards.words import BLUE_GREY, MODES, PLANS, STATES, UNWELL, VERDICTS
from offsetwatch.model import connectors
from offsetwatch.model.findings import FindingName, Verdict
from offsetwatch.remedy.guards import GUARDS
from offsetwatch.remedy.model.plan import PlanStatus
from offsetwatch.remedy.model.service_api import Mode
from offsetwatch.serve.metrics.catalog import CATALOG
from tools.promtool import check_rules

from .boards import (
    ALERT_RULES,
    BOARDS,
    open_panels,
    panels,
    queries,
    rows,
    select_queried,
    substituted,
    targets,
)
from .promql import known_metrics, misused_counters, plain_regexes, read, unknown_names
from .test_plain_words import WORDS

FOLDER = build.FOLDER
UNITS = {"short", "s", "cps", "bytes", "percentunit", "none"}
EVERYWHERE = {"job", "instance"}  # labels of every series that is scraped
CHOICES = {
    "fleet": ["connect_cluster", "connector"],
    "connector": ["connect_cluster", "connector"],
    "flow": ["connect_cluster", "source", "target", "topic"],
    "failover": ["connect_cluster", "source", "target", "group"],
    "remediation": ["connect_cluster", "connector"],
    "health": ["instance"],
}
OF_ONE = {
    "connector": {"connect_cluster", "connector"},
    "flow": {"connect_cluster", "source", "target"},
}

LINES = 14  # of Grafana's grid, at 1080 pixels with the browser's and Grafana's own bars

# Panels whose numbers are neither good nor bad: amounts, ages that are long for what is idle, and
# tables that are empty while all is well.
NEITHER = {
    "fleet": {
        "Age of the last offset advance",
        "Age of the last offset commit",
        "Lag behind the source in time",
        "Offset commits",
        "Records produced upstream and replicated",
    },
    "connector": {
        "Age of the last change read at the source",
        "Age of the last offset advance",
        "Age of the last offset commit",
        "Class and version",
        "End of the source",
        "Lag behind the source in bytes",
        "Lag behind the source in time",
        "Lag behind the source in transactions or rows",
        "Offset commits and advances",
        "Refusals by guard",
        "Replication lag and baseline",
        "Retention headroom at the source",
        "Source offset",
    },
    "flow": {
        "Offset syncs",
        "Partitions not caught up",
        "Records produced upstream and replicated",
        "Records replicated since the last offset sync",
        "Topics with unknown lag",
    },
    "failover": {
        "Age of the last checkpoint",
        "Age of the last offset sync",
        "Groups with a checkpoint",
        "Records read again",
        "Records read again by group",
    },
    "remediation": {
        "Alerts received",
        "Findings that remediation handles",
        "Journal lag of replicas",
        "Plans approved or running",
        "Plans completed by result",
        "Refusals by connector",
        "Refusals by guard",
        "Refusals by halting guards",
    },
    "health": {
        "Age of the last configuration reload",
        "Connectors with baselines",
        "History lag",
        "Internal topic problems",
        "Memory",
        "Open file descriptors",
        "Probe reads",
        "Probe reads skipped",
        "Records read from internal topics",
        "Records stored in bronze",
        "Requests refused by the read listener",
        "Series exported",
        "Versions",
    },
}
# Panels that can be bad and that no one alert is for.
METRIC = re.compile(r"offsetwatch_\w+")
WITHOUT_RUNBOOK = {
    "fleet": {"Critical findings", "Warnings", "Findings", "Findings by severity", "Problems"},
    "remediation": {"Mode", "Mode over time"},
}

every_board = pytest.mark.parametrize("name", BOARDS)
every_query = pytest.mark.parametrize(
    ("name", "target"),
    [pytest.param(name, target, id=f"{name}-{title}") for name, title, target in queries()],
)


# --- the files -----------------------------------------------------------------------------------


def test_the_committed_files_are_what_the_builder_makes():
    assert main(["--check"]) == 0
    assert {path.stem for path in FOLDER.glob("*.json")} == BOARDS.keys() == CHOICES.keys()


def test_a_file_that_is_out_of_date_is_noticed_and_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("dashboards.build.FOLDER", tmp_path)
    assert main(["--check"]) == 1
    assert not any(tmp_path.iterdir())
    assert main([]) == 0
    assert main(["--check"]) == 0
    out = capsys.readouterr().out
    assert out.count("out of date\n") == out.count("written\n") == len(BOARDS)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in boards()}


# --- a board -------------------------------------------------------------------------------------


@every_board
def test_a_board_is_of_a_model_that_grafana_10_to_13_read(name):
    assert 39 <= BOARDS[name]["schemaVersion"] <= 42
    assert "__inputs" not in BOARDS[name]
    assert "id" not in BOARDS[name]


@every_board
def test_a_board_has_a_stable_name_and_is_changed_in_the_repository_only(name):
    board = BOARDS[name]
    assert board["uid"] == f"offsetwatch-{name}"
    assert len(board["uid"]) <= 40
    assert name.capitalize() in board["title"]
    assert board["description"].endswith(".")
    assert board["editable"] is False
    assert board["timezone"] in {"", "utc"}
    assert board["graphTooltip"] == 1


@every_board
def test_boards_share_a_tag_and_link_to_each_other_by_it(name):
    (link,) = BOARDS[name]["links"]
    assert link["type"] == "dashboards"
    assert set(link["tags"]) <= set(BOARDS[name]["tags"])
    assert link["keepTime"]
    assert link["includeVars"]


@every_board
def test_there_is_one_data_source_variable_and_everything_uses_it(name):
    board = BOARDS[name]
    lists = [item for item in board["templating"]["list"] if item["type"] == "datasource"]
    assert [(item["name"], item["query"], item["label"]) for item in lists] == [
        ("datasource", "prometheus", "Data source")
    ]
    expected = {"type": "prometheus", "uid": "${datasource}"}
    for panel in select_queried(board):
        assert panel["datasource"] == expected
    for title, target in targets(board):
        assert target["datasource"] == expected, title


@every_board
def test_the_other_variables_are_chained_and_mean_everything_or_one_thing(name):
    variables = BOARDS[name]["templating"]["list"][1:]
    assert [item["name"] for item in variables] == ["job", *CHOICES[name]]
    before: dict[str, str] = {}
    for variable in variables:
        many = variable["name"] not in OF_ONE.get(name, set())
        assert variable["multi"] == variable["includeAll"] == many
        assert variable.get("allValue") == (".+" if many else None)
        assert variable["current"] == (
            {"selected": True, "text": ["All"], "value": ["$__all"]} if many else {}
        )
        assert variable["refresh"] == 2  # when the time range changes
        selector, label = re.fullmatch(
            r"label_values\((.*), (\w+)\)", variable["query"]["query"]
        ).groups()
        assert label == variable["name"]
        assert unknown_names(selector) == []
        ((metric, matchers),) = read(selector).selectors
        labels = known_metrics()[metric] | EVERYWHERE
        assert label in labels
        assert set(matchers) == {
            (known, operator, f"${known}") for known, operator in before.items() if known in labels
        }
        # In a regular expression a dot of a single name would match any letter.
        before[label] = "=~" if many else "="


@every_board
def test_panels_have_their_own_ids_and_places(name):
    board = BOARDS[name]
    ids = [panel["id"] for panel in (*rows(board), *panels(board))]
    assert len(set(ids)) == len(ids)
    # A row that is opened pushes those below it down.
    for together in (board["panels"], *(row["panels"] for row in rows(board)[1:])):
        cells = [
            (x, y)
            for location in (panel["gridPos"] for panel in together)
            for x in range(location["x"], location["x"] + location["w"])
            for y in range(location["y"], location["y"] + location["h"])
        ]
        assert len(set(cells)) == len(cells)
        assert max(x for x, _ in cells) < 24
    for row in rows(board)[1:]:
        assert min(panel["gridPos"]["y"] for panel in row["panels"]) == row["gridPos"]["y"] + 1


@every_board
def test_at_most_eight_panels_are_observed_before_the_first_click_and_fit_a_screen(name):
    first, *others = rows(BOARDS[name])
    assert (first["title"], first["collapsed"], first["panels"]) == ("Now", False, [])
    output = open_panels(BOARDS[name])
    assert 4 <= len(output) <= 8
    assert max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in output) <= LINES
    for row in others:
        assert row["collapsed"], row["title"]
        assert row["panels"], row["title"]


def test_panels_of_one_kind_of_connector_are_in_rows_that_say_so_and_are_closed():
    """Grafana 10 to 13 cannot hide a row by a variable: a closed one asks nothing."""
    of_kind = {
        "MirrorMaker 2": ("mm2_",),
        "sink connectors": ("sink_",),
        "source connectors and MirrorMaker 2": ("source_offset_", "source_position_"),
        "configured sources": (
            *("source_end_", "source_lag_", "source_retention_", "source_caught_up"),
            *("source_slot_", "source_snapshot_", "source_ahead"),
        ),
    }
    headings = {row["title"]: row for row in rows(BOARDS["connector"])}
    kinds = {
        kind: row
        for kind in of_kind
        for title, row in headings.items()
        if f"({kind} only)" in title
    }
    assert kinds.keys() == of_kind.keys()
    for kind, prefixes in of_kind.items():
        inside = {panel["id"] for panel in kinds[kind]["panels"]}
        for panel in select_queried(BOARDS["connector"]):
            metrics = set[str]().union(
                *(read(target["expr"]).metrics for target in panel["targets"])
            )
            metrics -= {"offsetwatch_build_info"}
            if all(name.removeprefix("offsetwatch_").startswith(prefixes) for name in metrics):
                assert panel["id"] in inside, panel["title"]


@every_board
def test_a_panel_is_of_good_and_bad_or_is_said_to_be_of_neither(name):
    neither = {panel["title"] for panel in select_queried(BOARDS[name]) if not judges(panel)}
    assert neither == NEITHER[name]


def judges(panel) -> bool:
    """Does it colour what is bad: by thresholds, or by the fixed colours of states and verdicts?"""
    config = panel["fieldConfig"]
    properties = [field for over in config["overrides"] for field in over["properties"]]
    limits = [
        config["defaults"].get("thresholds"),
        *(field["value"] for field in properties if field["id"] == "thresholds"),
    ]
    return any(limit is not None and len(limit["steps"]) > 1 for limit in limits) or any(
        field["id"] in {"color", "mappings"} for field in properties
    )


@every_board
def test_thresholds_rise_and_what_is_not_bad_is_green(name):
    for panel in select_queried(BOARDS[name]):
        steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", ())
        values = [step["value"] for step in steps]
        assert values[:1] in ([], [None]), panel["title"]
        assert values[1:] == sorted(values[1:]), panel["title"]
        colours = {step["color"] for step in steps}
        if len(steps) > 1:
            assert "green" in colours, panel["title"]
            assert colours <= {"green", "orange", "red"}, panel["title"]
        else:
            assert colours <= {"blue"}, panel["title"]


@every_board
def test_a_panel_that_can_be_bad_links_to_the_runbook_of_an_alert(name):
    without = set()
    for panel in select_queried(BOARDS[name]):
        links = panel.get("links", [])
        if judges(panel) and not links:
            without.add(panel["title"])
        for link in links:
            alert = link["title"].removeprefix("Runbook: ")
            rule = ALERT_RULES[alert]
            assert link["url"] == rule["annotations"]["runbook_url"], panel["title"]
            assert link["type"] == "link"
            assert link["targetBlank"]
    assert without == WITHOUT_RUNBOOK.get(name, set())


def test_a_metric_that_an_alert_judges_is_drawn_beside_the_runbook_of_that_alert():
    drawn = [
        (METRIC.findall(json.dumps(panel["targets"])), {link["title"] for link in panel["links"]})
        for board in BOARDS.values()
        for panel in select_queried(board)
        if panel.get("links")
    ]
    for alert, rule in ALERT_RULES.items():
        judged = set(METRIC.findall(rule["expr"])) - {"offsetwatch_findings"}  # of many causes
        panels_of = [links for metrics, links in drawn if judged & set(metrics)]
        assert not judged or any(f"Runbook: {alert}" in links for links in panels_of), alert


@every_board
def test_alerts_that_fired_are_marked_in_the_colour_of_their_severity(name):
    marks = BOARDS[name]["annotations"]["list"]
    assert [(item["name"], item["iconColor"]) for item in marks] == [
        ("Alerts: critical", "red"),
        ("Alerts: warning", "orange"),
    ]
    for mark in marks:
        assert mark["enable"]
        ((metric, matchers),) = read(mark["expr"]).selectors
        chosen = {(label, "=~", f"${label}|") for label in CHOICES[name]}
        severity = mark["name"].removeprefix("Alerts: ")
        assert metric == "ALERTS"
        assert set(matchers) == chosen | {
            ("job", "=~", "$job"),
            ("severity", "=", severity),
            ("alertstate", "=", "firing"),
        }


@every_board
def test_a_panel_says_what_it_shows_and_in_which_unit(name):
    titles = [panel["title"] for panel in panels(BOARDS[name])]
    assert len(set(titles)) == len(titles)
    assert not any("," in title for title in titles)  # the page of metrics lists them with commas
    for panel in panels(BOARDS[name]):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        words = f"{panel['title']} {panel['description']}"
        assert WORDS.findall(words) == [], panel["title"]
    for panel in select_queried(BOARDS[name]):
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        assert panel["targets"], panel["title"]
        for override in panel["fieldConfig"]["overrides"]:
            units = [field["value"] for field in override["properties"] if field["id"] == "unit"]
            assert set(units) <= UNITS, panel["title"]


@every_board
def test_targets_of_a_panel_have_different_names_and_series_a_legend(name):
    for panel in select_queried(BOARDS[name]):
        names = [target["refId"] for target in panel["targets"]]
        assert len(set(names)) == len(names)
        if panel["type"] in {"timeseries", "state-timeline"}:
            legends = [target["legendFormat"] for target in panel["targets"]]
            assert all(legends), panel["title"]
            assert len(set(legends)) == len(legends), panel["title"]


@every_board
def test_what_is_to_be_known_first_comes_first(name):
    assert {panel["type"] for panel in open_panels(BOARDS[name])[:5]} == {"stat"}


def test_the_overview_begins_with_numbers_and_lists_of_what_is_wrong():
    kinds = [panel["type"] for panel in open_panels(BOARDS["fleet"])]
    assert kinds == ["stat"] * 6 + ["table"] * 2


# --- links ---------------------------------------------------------------------------------------


def linked():
    """(board, panel, column or "", link) of every link of a panel."""
    for name, board in BOARDS.items():
        for panel in select_queried(board):
            config = panel["fieldConfig"]
            for link in config["defaults"].get("links", ()):
                yield name, panel, "", link
            for override in config["overrides"]:
                for field in override["properties"]:
                    for link in field["value"] if field["id"] == "links" else ():
                        yield name, panel, override["matcher"]["options"], link


@pytest.mark.parametrize(
    ("name", "panel", "column", "link"),
    [pytest.param(*item, id=f"{item[0]}-{item[1]['title']}-{item[2]}") for item in linked()],
)
def test_a_link_leads_to_a_board_and_takes_along_what_was_clicked(name, panel, column, link):
    board, query = re.fullmatch(r"/d/offsetwatch-(\w+)\?(.*)", link["url"]).groups()
    retained, chosen = query.split("&")[:3], query.split("&")[3:]
    assert retained == ["${__url_time_range}", "${datasource:queryparam}", "${job:queryparam}"]
    field = "__data.fields" if column else "__field.labels"
    results = [re.fullmatch(rf"var-(\w+)=\${{{field}\.(\w+)}}", value).groups() for value in chosen]
    assert {variable for variable, _ in results} == OF_ONE[board]
    assert all(variable == label for variable, label in results)
    if column:
        have = panel["transformations"][-1]["options"]["indexByName"].keys()
        assert {column, *OF_ONE[board]} <= have


def test_the_overview_leads_to_the_connector_and_to_the_flow():
    boards_linked = {re.search(r"/d/([\w-]+)", link["url"])[1] for *_, link in linked()}
    assert boards_linked == {"offsetwatch-connector", "offsetwatch-flow"}
    assert {"offsetwatch-connector", "offsetwatch-flow"} <= {
        board["uid"] for board in BOARDS.values()
    }


# --- the queries ---------------------------------------------------------------------------------


def test_every_query_is_valid_promql(tmp_path):
    rules = [
        {"record": f"query:{number}", "expr": substituted(target["expr"])}
        for number, (_, _, target) in enumerate(queries())
    ]
    path = tmp_path / "queries.rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    assert check_rules(path) == []


@every_query
def test_a_query_names_metrics_and_labels_that_exist(name, target):
    assert unknown_names(target["expr"]) == []


@every_query
def test_a_query_rates_counters_and_nothing_else_over_the_interval_grafana_chooses(name, target):
    expr = target["expr"]
    assert misused_counters(expr) == []
    for window in re.findall(r"\b(?:rate|irate|increase)\([^\[]*\[([^\]]*)\]", expr):
        assert window == "$__rate_interval"


@every_query
def test_a_query_inspects_what_the_variables_choose(name, target):
    known = known_metrics()
    one = OF_ONE.get(name, set())
    optional = {spec.name: spec.optional for spec in CATALOG}
    for metric, matchers in read(target["expr"]).selectors:
        for label in ("job", *CHOICES[name]):
            if label in known[metric] | EVERYWHERE:
                chosen = f"${label}|" if label in optional.get(metric, ()) else f"${label}"
                assert (label, "=" if label in one else "=~", chosen) in matchers


@every_query
def test_a_query_matches_by_equality_where_it_can(name, target):
    assert plain_regexes(substituted(target["expr"])) == []


def test_every_metric_is_on_a_board():
    output = frozenset[str]().union(*(read(entry["expr"]).metrics for *_, entry in queries()))
    assert {spec.name for spec in CATALOG} - output == set()


def test_words_on_the_boards_are_those_of_the_code():
    assert VERDICTS.keys() == {verdict.value for verdict in Verdict}
    assert STATES.keys() == set(connectors.STATES)
    assert MODES.keys() == {mode.value for mode in Mode}
    assert PLANS.keys() < {status.value for status in PlanStatus}
    assert set(UNWELL.split("|")) < VERDICTS.keys()
    guards = {guard.name for guard in GUARDS}
    assert {*remediation.HALTS.split("|"), *remediation.SAFETY.split("|")} <= guards
    assert set(remediation.INCIDENTS.split("|")) <= {
        finding_name.value for finding_name in FindingName
    }


def test_exceptions_from_the_linter_are_written_down_with_their_reasons():
    exclusions = yaml.safe_load((FOLDER / ".lint").read_text(encoding="utf-8"))["exclusions"]
    assert all(item["reason"] for item in exclusions.values())
    without = {name for name, choices in CHOICES.items() if "instance" not in choices}
    assert set(exclusions) == {"template-instance-rule", "target-instance-rule"}
    for exclusion in exclusions.values():
        assert {entry["dashboard"] for entry in exclusion["entries"]} == {
            BOARDS[name]["title"] for name in without
        }


def test_ages_among_the_problems_have_a_column_of_their_own():
    (panel,) = (panel for panel in panels(BOARDS["fleet"]) if panel["title"] == "Problems")
    numbers, ages = (target["expr"] for target in panel["targets"])
    assert set(re.findall('"problem", "([^"]*)"', ages)) == {
        "history does not advance",
        "input silent",
        "replication late",
        "sink data late",
    }
    assert "lag_seconds" not in numbers
    units = [
        (override["matcher"]["options"], property_["value"])
        for override in panel["fieldConfig"]["overrides"]
        for property_ in override["properties"]
        if property_["id"] == "unit"
    ]
    assert units == [("value", "short"), ("age", "s")]


def test_states_and_verdicts_have_the_same_colour_on_every_board():
    expected = {**VERDICTS, **STATES}
    output = 0
    for board in BOARDS.values():
        for panel in panels(board):
            legends = {target.get("legendFormat") for target in panel.get("targets", ())}
            if not legends & {"{{verdict}}", "{{state}}"} or "plans" in panel["title"].lower():
                continue
            output += 1
            colours = {
                override["matcher"]["options"]: override["properties"][0]["value"]["fixedColor"]
                for override in panel["fieldConfig"]["overrides"]
            }
            assert colours, panel["title"]
            assert {key: expected[key] for key in colours} == colours
    assert output > 4


def test_what_has_failed_is_red_and_what_an_operator_halted_is_not():
    assert {VERDICTS[value] for value in ("failed", "silent")} == {STATES["failed"]} == {"red"}
    assert VERDICTS["ok"] == STATES["running"] == "green"
    halted = {VERDICTS[value] for value in ("paused", "stopped")}
    assert halted == {STATES[value] for value in ("paused", "stopped")} == {BLUE_GREY}
