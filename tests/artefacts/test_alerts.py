"""The alerts: do they name what exists, are they written as the house writes, do they fire?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards import build
from tools.promtool import check_rules, run_rule_tests

from .promql import (
    TARGET,
    known_metrics,
    misused_counters,
    plain_regexes,
    read,
    unknown_names,
)

ALERTS = Path(__file__).parents[2] / "alerts"
RULES_FILE = ALERTS / "offsetwatch.rules.yaml"
TEST_FILES = sorted((ALERTS / "tests").glob("*.test.yaml"))
FLUSH_S = 60  # Connect's default offset.flush.interval.ms

RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load(RULES_FILE.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
ALERT_RULES = {rule["alert"]: rule for rule in RULES if "alert" in rule}
THRESHOLDS = {rule["record"]: rule["expr"] for rule in RULES if "record" in rule}
FIRES, QUIET = True, False

every_alert = pytest.mark.parametrize("name", sorted(ALERT_RULES))
every_test_file = pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: path.stem)


def seconds(duration: str) -> int:
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600}[duration[-1]]


def cases() -> set[tuple[str, bool]]:
    """Each alert name with each kind of case that the promtool tests hold for it."""
    return {
        (case["alertname"], bool(case["exp_alerts"]))
        for path in TEST_FILES
        for test in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]
        for case in test.get("alert_rule_test", ())
    }


def test_promtool_finds_nothing_to_complain_about():
    assert check_rules(RULES_FILE) == []


@every_test_file
def test_the_rules_do_what_their_tests_say(path):
    assert run_rule_tests(path) == []


@every_alert
def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_must_not(name):
    assert {(name, FIRES), (name, QUIET)} <= cases()


def test_no_case_is_about_an_alert_that_does_not_exist():
    assert {name for name, _ in cases()} <= ALERT_RULES.keys()


@every_alert
def test_an_alert_names_metrics_and_labels_that_exist(name):
    assert unknown_names(ALERT_RULES[name]["expr"], recorded=THRESHOLDS) == []


@every_alert
def test_an_alert_rates_counters_and_nothing_else(name):
    assert misused_counters(ALERT_RULES[name]["expr"]) == []


@every_alert
def test_an_alert_matches_by_equality_where_it_can(name):
    assert plain_regexes(ALERT_RULES[name]["expr"]) == []


@every_alert
def test_the_name_of_an_alert_is_camel_case(name):
    assert re.fullmatch(r"([A-Z][a-z]+[0-9]*){2,}", name)


@every_alert
def test_an_alert_has_a_severity_and_no_label_that_changes_while_it_fires(name):
    labels = ALERT_RULES[name]["labels"]
    assert labels["severity"] in {"critical", "warning", "info"}
    assert not any("{{" in text for text in labels.values())


@every_alert
def test_the_summary_is_one_sentence_that_is_the_same_for_all_that_group_together(name):
    summary = ALERT_RULES[name]["annotations"]["summary"]
    assert summary[0].isupper()
    assert summary.endswith(".")
    assert "{{" not in summary
    assert ". " not in summary


@every_alert
def test_the_texts_use_labels_that_the_alert_has(name):
    used = set(re.findall(r"\$labels\.(\w+)", str(ALERT_RULES[name]["annotations"])))
    known = known_metrics()
    expression = read(ALERT_RULES[name]["expr"])
    have = {"job"}.union(*(known.get(metric, frozenset()) for metric in expression.metrics))
    assert used
    assert used <= have - (TARGET - {"job"})


@every_alert
def test_the_runbook_lies_where_the_alert_says_seen_from_the_rules(name):
    url = ALERT_RULES[name]["annotations"]["runbook_url"]
    assert url == f"runbooks/{name}.md"
    assert (ALERTS / url).is_file()


@every_alert
def test_an_alert_waits_before_it_fires_and_outlives_a_missed_scrape(name):
    rule = ALERT_RULES[name]
    assert seconds(rule["for"]) >= 2 * FLUSH_S
    assert seconds(rule["keep_firing_for"]) >= 2 * FLUSH_S
    windows = re.findall(r"\[(\w+)\]", rule["expr"])
    assert windows
    assert min(map(seconds, windows)) >= 2 * FLUSH_S  # two scrapes, at the slowest that we support


def test_lag_has_to_last_for_three_flushes():
    rule = ALERT_RULES["MirrorMaker2ReplicationLagHigh"]
    assert seconds(rule["for"]) >= 3 * FLUSH_S
    assert min(map(seconds, re.findall(r"\[(\w+)\]", rule["expr"]))) >= 3 * FLUSH_S


@every_alert
def test_whoever_loses_an_alert_with_its_input_hears_of_blindness_before(name):
    def after_the_last_sample(rule: dict[str, Any], last: str) -> int:
        return max(map(seconds, re.findall(r"\[(\w+)\]", rule["expr"]))) + seconds(rule[last])

    blind = after_the_last_sample(ALERT_RULES["OffsetwatchBlind"], "for")
    if name != "OffsetwatchBlind":
        assert after_the_last_sample(ALERT_RULES[name], "keep_firing_for") > blind


def test_thresholds_are_recorded_on_top_and_nowhere_else():
    kinds = ["record" if "record" in rule else "alert" for rule in RULES]
    assert kinds == sorted(kinds, reverse=True)
    for name, rule in ALERT_RULES.items():
        assert read(rule["expr"]).numbers <= {0, 1}, name


def test_every_threshold_is_a_number_that_some_alert_uses():
    used = frozenset[str]().union(*(read(rule["expr"]).metrics for rule in ALERT_RULES.values()))
    assert set(THRESHOLDS) <= used
    for name, expr in THRESHOLDS.items():
        assert re.fullmatch(r"offsetwatch:\w+:threshold", name)
        assert re.fullmatch(r"vector\(\d+\)", expr), name


def test_a_threshold_that_several_rulers_record_is_still_one_number():
    # scalar() of two series is NaN, and nothing is greater than NaN: the alert would be silent.
    text = RULES_FILE.read_text(encoding="utf-8")
    for name in THRESHOLDS:
        assert text.count(name) == 1 + text.count(f"scalar(max({name}))")


def test_the_board_and_the_alerts_have_the_same_thresholds():
    on_the_board = {
        "mm2_replication_lag_records": build.LAG_RECORDS_HIGH,
        "tail_behind_records": build.BEHIND_RECORDS_HIGH,
        "input_silence_seconds": build.INPUT_SILENCE_S,
        "history_age_seconds": build.HISTORY_AGE_S,
    }
    recorded = {f"offsetwatch:{name}:threshold": f"vector({n})" for name, n in on_the_board.items()}
    assert recorded == THRESHOLDS
