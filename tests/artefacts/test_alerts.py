"""The alerts: do they name what exists, are they written as the house writes, do they fire?"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards import thresholds
from offsetwatch.judge.findings.advice import RUNBOOKS, build_next_command
from offsetwatch.model.findings import Finding, FindingName, Severity, Verdict
from offsetwatch.state import internal_topics
from tools.alertmanager import render
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
RULE_FILES = sorted(ALERTS.glob("*.rules.yaml"))
OPTIONAL_FILES = sorted(ALERTS.glob("optional/*.rules.yaml"))
TEST_FILES = sorted((ALERTS / "tests").glob("*.test.yaml"))
RUNBOOKS_URL = (
    "https://docs.example.com/offsetwatch/runbooks"  # nothing is published: a base to change
)
FLUSH_S = 60  # Connect's default offset.flush.interval.ms


@cache  # each file is needed by some hundred tests, and takes 30 ms to parse
def document(path: Path) -> dict[str, Any]:
    return dict(yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader))


def groups(path: Path) -> list[dict[str, Any]]:
    return list(document(path)["groups"])


def rules(*paths: Path) -> list[dict[str, Any]]:
    return [rule for path in paths for group in groups(path) for rule in group["rules"]]


def alerts(*paths: Path) -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules(*paths) if "alert" in rule}


ALERT_RULES = alerts(*RULE_FILES)
OPTIONAL_ALERTS = alerts(*OPTIONAL_FILES)
EVERY_ALERT = ALERT_RULES | OPTIONAL_ALERTS
RECORDED = {
    rule["record"]: rule["expr"] for rule in rules(*RULE_FILES, *OPTIONAL_FILES) if "record" in rule
}
THRESHOLDS = {rule["record"]: rule["expr"] for rule in rules(ALERTS / "thresholds.rules.yaml")}
FIRES, QUIET = True, False
FIRED = [  # what the promtool tests have each alert fire with
    pytest.param(case["alertname"], alert, id=f"{path.stem}-{case['alertname']}-{number}")
    for path in TEST_FILES
    for test in document(path)["tests"]
    for case in test.get("alert_rule_test", ())
    for number, alert in enumerate(case["exp_alerts"])
]
# Labels that say what an alert is of. Where it has none of them, its job does.
SUBJECT = {
    "connector",
    "connect_cluster",
    "source",
    "target",
    "topic",
    "group",
    "kafka",
    "table",
    "listener",
}
# The name of a connector may begin with a dash.
EMPTY_NAME = re.compile(r"<no value>|\(\W*\)|  | [:,.)/]|/[ :.,]|(?<!\w)->|->(?!\w)|^[^\w-]|''")
# Commands for what is no finding of the daemon: a connector without tasks, a daemon that is down.
OF_NO_FINDING = {
    ("ConnectorOrTaskFailed", "offsetwatch explain hollow --connect lab"),
    ("OffsetwatchBlind", "offsetwatch healthcheck"),
}

every_alert = pytest.mark.parametrize("name", sorted(ALERT_RULES))
every_test_file = pytest.mark.parametrize("path", TEST_FILES, ids=lambda path: path.stem)


def seconds(duration: str) -> int:
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600}[duration[-1]]


def windows(rule: dict[str, Any]) -> list[int]:
    return [seconds(window) for window in re.findall(r"\[(\w+)\]", rule["expr"])]


def sentence(name: str) -> str:
    """Return the summary of an alert as a template, without the subject that it begins with."""
    return str(EVERY_ALERT[name]["annotations"]["summary"].partition(": ")[2])


def actions(text: str) -> list[str]:
    """Return what a template has between braces."""
    return re.findall(r"\{\{-? *(.*?) *-?\}\}", text)


def begins_branch(action: str) -> bool:
    return action.startswith(("if ", "with ", "else if "))


def always_used(text: str) -> set[str]:
    """Return the labels that a template uses whatever the alert is, outside of `if` and `with`."""
    depth, used = 0, set[str]()
    for action in actions(text):
        if depth == 0 and not begins_branch(action):
            used.update(re.findall(r"\$labels\.(\w+)", action))
        depth += action.startswith(("if ", "with "))
        depth -= action == "end"
    return used


def build_finding(name: FindingName, labels: dict[str, str]) -> Finding:
    """Return a finding of the connector or cluster that labels name."""
    return Finding(
        name=name,
        severity=Severity.WARNING,
        connect_cluster=labels.get("connect_cluster", ""),
        connector=labels.get("connector"),
        subject="",
        summary="",
        since=0.0,
    )


def cases() -> set[tuple[str, bool]]:
    """Each alert name with each kind of case that the promtool tests hold for it."""
    return {
        (case["alertname"], bool(case["exp_alerts"]))
        for path in TEST_FILES
        for test in document(path)["tests"]
        for case in test.get("alert_rule_test", ())
    }


def test_promtool_finds_nothing_to_complain_about():
    assert check_rules(*RULE_FILES, *OPTIONAL_FILES) == []


@every_test_file
def test_the_rules_do_what_their_tests_say(path):
    assert run_rule_tests(path) == []


@every_alert
def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_must_not(name):
    assert {(name, FIRES), (name, QUIET)} <= cases()


def test_no_case_is_about_an_alert_that_does_not_exist():
    assert {name for name, _ in cases()} <= (ALERT_RULES | OPTIONAL_ALERTS).keys()


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


@pytest.mark.parametrize("name", sorted(EVERY_ALERT))
def test_an_alert_says_what_is_wrong_what_to_run_and_where_to_read(name):
    annotations = EVERY_ALERT[name]["annotations"]
    assert annotations.keys() == {"summary", "description", "next", "runbook_url"}
    assert annotations["summary"].endswith(".")
    for branch in re.split(r"\{\{-? *(?:else|end)", sentence(name)):
        assert ". " not in branch
    # A number would change the text at each evaluation. It may decide between two texts.
    for text in (annotations["summary"], annotations["next"]):
        assert not re.search(r"\$value", re.sub(r"\{\{-? if gt \$value 0\.0 -?\}\}", "", text))


@pytest.mark.parametrize(("name", "alert"), FIRED)
def test_the_summary_of_what_fires_begins_with_its_subject(name, alert):
    labels = alert["exp_labels"]
    subject, _, wrong = alert["exp_annotations"]["summary"].partition(": ")
    parts = SUBJECT & labels.keys() or {"job"} & labels.keys()
    for label in parts:
        assert re.search(rf"(?<!\w){re.escape(labels[label])}(?!\w)", subject), label
    assert parts or subject == "offsetwatch"  # nothing is scraped
    assert wrong


@pytest.mark.parametrize(("name", "alert"), FIRED)
def test_what_fires_has_every_label_that_its_texts_use(name, alert):
    for text in EVERY_ALERT[name]["annotations"].values():
        assert always_used(text) <= alert["exp_labels"].keys()
    for text in alert["exp_annotations"].values():
        assert not EMPTY_NAME.search(text), text


@pytest.mark.parametrize(("name", "alert"), FIRED)
def test_the_command_is_the_one_that_the_daemon_gives_for_the_finding(name, alert):
    labels, command = alert["exp_labels"], alert["exp_annotations"]["next"]
    inputs = {
        build_next_command(build_finding(finding, labels), has_rest=True)
        for finding, page in RUNBOOKS.items()
        if page == name and labels.get("finding", finding.value) == finding.value
    }
    assert command in inputs or not inputs or (name, command) in OF_NO_FINDING


def test_commands_quote_names_as_the_daemon_does(tmp_path):
    labels = {"connector": "it's $(reboot), \\ and more", "connect_cluster": "a lab"}
    data, no_templates = tmp_path / "data.json", tmp_path / "none.tmpl"
    data.write_text(json.dumps({"commonLabels": labels}))
    no_templates.touch()
    commands = {
        name: render(f"{{{{ $labels := .CommonLabels }}}}{text}", data, no_templates)
        for name, text in {
            "explain": ALERT_RULES["ConnectorSilent"]["annotations"]["next"],
            "list": ALERT_RULES["SourceOffsetsSuspect"]["annotations"]["next"],
            "restart": "{{ $value := 1.0 }}"
            + ALERT_RULES["ConnectorOrTaskFailed"]["annotations"]["next"],
        }.items()
    }
    assert commands == {
        "explain": build_next_command(
            build_finding(FindingName.CONNECTOR_SILENT, labels), has_rest=True
        ),
        "list": build_next_command(build_finding(FindingName.HALF_RESET, labels), has_rest=True),
        "restart": build_next_command(
            build_finding(FindingName.TASK_FAILED, labels), has_rest=True
        ),
    }


def test_every_command_quotes_the_names_in_it():
    def definitions(name: str) -> set[str]:
        result = actions(EVERY_ALERT[name]["annotations"]["next"])
        return {action for action in result if "$labels" in action and not begins_branch(action)}

    quoting = definitions("ConnectorSilent") | definitions("SourceOffsetsSuspect")
    assert all(":=" in action for action in quoting)
    for name in EVERY_ALERT:
        assert definitions(name) <= quoting, name


@every_alert
def test_the_texts_use_labels_that_the_alert_has(name):
    used = set(re.findall(r"\$labels\.(\w+)", str(ALERT_RULES[name]["annotations"])))
    known = known_metrics()
    expression = read(ALERT_RULES[name]["expr"])
    have = {"job"}.union(*(known.get(metric, frozenset()) for metric in expression.metrics))
    assert used
    assert used <= have - (TARGET - {"job"})


@every_alert
def test_an_alert_leads_to_its_runbook(name):
    url = ALERT_RULES[name]["annotations"]["runbook_url"]
    assert url == f"{RUNBOOKS_URL}/{name}.md"
    assert (ALERTS / "runbooks" / f"{name}.md").is_file()


@every_alert
def test_an_alert_waits_before_it_fires_and_outlives_a_missed_scrape(name):
    rule = ALERT_RULES[name]
    assert seconds(rule["for"]) >= 2 * FLUSH_S
    assert seconds(rule["keep_firing_for"]) >= 2 * FLUSH_S
    assert min(windows(rule)) >= 2 * FLUSH_S  # two scrapes, at the slowest that we support


@pytest.mark.parametrize(
    "name",
    [
        "MirrorMaker2ReplicationLagHigh",
        "MirrorMaker2ReplicationLagUnusual",
        "MirrorMaker2DataLate",
        "SinkLagHigh",
        "SinkDataLate",
    ],
)
def test_lag_has_to_last_for_three_flushes(name):
    rule = ALERT_RULES[name]
    assert seconds(rule["for"]) >= 3 * FLUSH_S
    assert min(windows(rule)) >= 3 * FLUSH_S


@every_alert
def test_offsetwatch_blind_fires_before_an_alert_without_input_resolves(name):
    def after_the_last_sample(rule: dict[str, Any], last: str) -> int:
        return max(windows(rule)) + seconds(rule[last])

    unavailable = after_the_last_sample(ALERT_RULES["OffsetwatchBlind"], "for")
    if name != "OffsetwatchBlind":
        assert after_the_last_sample(ALERT_RULES[name], "keep_firing_for") > unavailable


def test_no_alert_has_a_number_of_its_own_and_none_needs_another_recording_rule():
    for name, rule in ALERT_RULES.items():
        expression = read(rule["expr"])
        assert expression.numbers <= {0, 1}, name
        assert {metric for metric in expression.metrics if ":" in metric} <= THRESHOLDS.keys(), name


def test_the_tests_evaluate_thresholds_before_what_uses_them():
    for path in TEST_FILES:
        test = document(path)
        files = [(path.parent / name).resolve() for name in test["rule_files"]]
        assert test["group_eval_order"] == [
            group["name"] for file in files for group in groups(file)
        ]


def test_every_threshold_is_a_number_that_some_alert_uses():
    used = frozenset[str]().union(*(read(rule["expr"]).metrics for rule in ALERT_RULES.values()))
    assert set(THRESHOLDS) <= used
    for name, expr in THRESHOLDS.items():
        assert re.fullmatch(r"offsetwatch:\w+:threshold", name)
        assert re.fullmatch(r"vector\(\d+\)", expr), name


def test_a_threshold_that_several_rulers_record_is_still_one_number():
    # scalar() of two series is NaN, and nothing is greater than NaN: the alert would be silent.
    text = "".join(path.read_text(encoding="utf-8") for path in RULE_FILES)
    for name in THRESHOLDS:
        assert text.count(name) == 1 + text.count(f"scalar(max({name}))")


def test_the_boards_and_the_alerts_have_the_same_thresholds():
    on_the_boards = {name: at for name, at in vars(thresholds).items() if name.isupper()}
    assert on_the_boards
    recorded = {
        f"offsetwatch:{name.lower()}:threshold": f"vector({number})"
        for name, number in on_the_boards.items()
    }
    assert recorded.items() <= THRESHOLDS.items()


# --- what is recorded, and what is optional ------------------------------------------------------


@pytest.mark.parametrize("name", sorted(RECORDED.keys() - THRESHOLDS.keys()))
def test_a_recording_rule_names_metrics_and_labels_that_exist(name):
    expr = RECORDED[name]
    problems = unknown_names(expr, recorded=RECORDED)
    if read(expr).metrics & RECORDED.keys():  # the labels of what is recorded are not known here
        problems = [problem for problem in problems if problem.startswith("no metric")]
    assert problems == []
    assert misused_counters(expr) == []


def values() -> str:
    """Each expression that some case gives a value."""
    return "\n".join(
        case["expr"]
        for path in TEST_FILES
        for test in document(path)["tests"]
        for case in test.get("promql_expr_test", ())
        if case["exp_samples"]
    )


@pytest.mark.parametrize(
    "path",
    [path for path in (*RULE_FILES, *OPTIONAL_FILES) if path.stem.startswith(("recor", "compat"))],
    ids=lambda path: path.stem,
)
def test_every_sum_and_every_name_of_others_has_a_case_with_its_value(path):
    result = values()
    for rule in rules(path):
        assert re.search(rf"(?<![\w:]){rule['record']}(?![\w:])", result), rule["record"]


def test_default_recording_rules_have_names_with_offsetwatch_and_a_colon():
    recorded = [rule["record"] for rule in rules(*RULE_FILES) if "record" in rule]
    assert all("offsetwatch" in name and ":" in name for name in recorded)


@pytest.mark.parametrize("name", sorted(OPTIONAL_ALERTS))
def test_an_optional_alert_is_written_like_the_others(name):
    rule = OPTIONAL_ALERTS[name]
    assert name not in ALERT_RULES
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"]["runbook_url"] == f"{RUNBOOKS_URL}/{name}.md"
    assert (ALERTS / "runbooks" / f"{name}.md").is_file()
    assert seconds(rule["for"]) >= 2 * FLUSH_S
    assert seconds(rule["keep_firing_for"]) >= 2 * FLUSH_S
    assert read(rule["expr"]).metrics <= RECORDED.keys()


# --- what the daemon finds -----------------------------------------------------------------------

REPORTING_ALERTS = {  # those that are told by a state, a verdict or a metric of their own
    FindingName.CONNECTOR_FAILED: "ConnectorOrTaskFailed",
    FindingName.TASK_FAILED: "ConnectorOrTaskFailed",
    FindingName.CONNECTOR_STALLED: "ConnectorStalled",
    FindingName.MM2_STALLED: "ConnectorStalled",
    FindingName.SINK_STUCK: "ConnectorStalled",
    FindingName.CONNECTOR_SILENT: "ConnectorSilent",
    FindingName.MM2_SILENT_STALL: "ConnectorSilent",
    FindingName.MM2_LAG_UNUSUAL: "MirrorMaker2ReplicationLagUnusual",
    FindingName.INTERNAL_TOPIC_PROBLEM: "InternalTopicEndangered",
    FindingName.HANGING_TRANSACTION: "OffsetwatchBlind",
    FindingName.INPUT_DOWN: "OffsetwatchBlind",
    FindingName.SERIES_DROPPED: "OffsetwatchSeriesDropped",
}


# Their findings have no connector.
OF_A_CLUSTER = {"SourceDown", "ConnectClusterChanged", "MirrorMaker2CheckpointsStale"}


def list_label_values(metric: str, label: str) -> dict[str, list[str]]:
    """The values of a label that alerts ask a metric for, and which alerts do."""
    results: dict[str, set[str]] = {}
    for name, rule in ALERT_RULES.items():
        for selected, matchers in read(rule["expr"]).selectors:
            for text, _, values in matchers if selected == metric else ():
                for value in values.split("|") if text == label else ():
                    results.setdefault(value, set()).add(name)
    return {value: sorted(names) for value, names in results.items()}


@pytest.mark.parametrize("finding", FindingName)
def test_whatever_can_be_found_is_reported_by_one_alert(finding):
    by_name = list_label_values("offsetwatch_findings", "finding").get(finding.value, [])
    assert len(by_name) == (finding not in REPORTING_ALERTS)
    assert REPORTING_ALERTS.get(finding, *by_name) in ALERT_RULES


@pytest.mark.parametrize("finding", sorted(list_label_values("offsetwatch_findings", "finding")))
def test_each_finding_that_alerts_ask_for_fires_in_a_test(finding):
    (name,) = list_label_values("offsetwatch_findings", "finding")[finding]
    shown = {
        path.stem
        for path in TEST_FILES
        for test in document(path)["tests"]
        if any(case["exp_alerts"] for case in test.get("alert_rule_test", ()))
        if any(f'finding="{finding}"' in row["series"] for row in test["input_series"])
    }
    assert f"{name}.test" in shown


@pytest.mark.parametrize(
    "name",
    [
        alert_rule
        for alert_rule in sorted(ALERT_RULES)
        if "offsetwatch_findings" in ALERT_RULES[alert_rule]["expr"]
    ],
)
def test_an_alert_on_a_finding_names_its_connector_first(name):
    summary = ALERT_RULES[name]["annotations"]["summary"]
    if name in OF_A_CLUSTER:
        assert summary.startswith("Connect cluster {{ $labels.connect_cluster }}: ")
    else:
        subject = "{{ $labels.connector }} ({{ $labels.connect_cluster }})"
        assert summary.removeprefix("{{ if $labels.connector }}").startswith(subject)


def test_alerts_request_findings_verdicts_and_problems_that_exist():
    findings = list_label_values("offsetwatch_findings", "finding")
    assert findings.keys() <= {finding_name.value for finding_name in FindingName}
    verdicts = list_label_values("offsetwatch_connector_progress", "verdict")
    assert (
        {"silent", "stalled", "slow"} == verdicts.keys() <= {verdict.value for verdict in Verdict}
    )
    problems = list_label_values("offsetwatch_internal_topic_problem", "problem")
    assert problems.keys() == {problem for problem, _ in internal_topics.RULES} | {
        internal_topics.SHARED
    }
    assert all(len(names) == 1 for names in problems.values())


def test_the_readme_has_every_alert_with_its_severity_and_its_summary():
    text = (ALERTS / "README.md").read_text(encoding="utf-8")
    for name, rule in ALERT_RULES.items():
        answer = re.sub(
            r"\{\{ if .*? \}\}(.*?) \{\{- else \}\}.*?\{\{- end \}\}", r"\1", sentence(name)
        )
        answer = answer[0].upper() + answer[1:]
        if "offsetwatch_findings" in rule["expr"]:
            answer += " *finding*"
        assert f"| [{name}](runbooks/{name}.md) | {rule['labels']['severity']} | {answer} |" in text
    for path in (*RULE_FILES, *OPTIONAL_FILES):
        assert f"`{path.name}`" in text
