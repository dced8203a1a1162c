"""alerts/alertmanager: what Slack, PagerDuty, Opsgenie and Microsoft Teams get of our alerts.

The configurations are put to amtool, and every template in them is rendered by Alertmanager's
engine, with a message of the daemon and with alerts of the rules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from offsetwatch.judge.findings.advice import add_advice
from offsetwatch.model.findings import EvidenceItem, Finding, FindingName, Severity
from offsetwatch.notify.delivery_state import Message, NotificationStatus
from offsetwatch.notify.message_bodies import encode_webhook_body
from tests.changed import replace
from tools.alertmanager import check_config, installed_amtool, recent_amtool, render
from tools.debian import ToolError, run

from .test_alerts import ALERTS, RUNBOOKS_URL, TEST_FILES

FOLDER = ALERTS / "alertmanager"
TEMPLATES = FOLDER / "offsetwatch.tmpl"
CONFIGS = {path.stem: path for path in sorted(FOLDER.glob("*.yml"))}
RECENT = {"msteams"}  # Debian's amtool does not know its receiver
PAGE = (ALERTS.parent / "docs" / "receivers.md").read_text(encoding="utf-8")
SINCE = 1_790_000_000.0
FAILED = add_advice(
    Finding(
        name=FindingName.TASK_FAILED,
        severity=Severity.CRITICAL,
        connect_cluster="lab",
        connector="invoices-sink",
        subject="",
        summary="invoices-sink task 0 FAILED: JsonParseException at invoices-0@20.",
        since=SINCE,
        evidence=(
            EvidenceItem("task 0", "JsonParseException in JsonParser._constructReadException"),
        ),
    ),
    RUNBOOKS_URL,
    frozenset(),
)
RULE_TESTS = [
    test
    for path in TEST_FILES
    for test in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]
]
RUNBOOK = f"{RUNBOOKS_URL}/ConnectorOrTaskFailed.md"
NEXT = "offsetwatch connectors restart invoices-sink --only-failed --connect lab"
TEXT = f"""invoices-sink task 0 FAILED: JsonParseException at invoices-0@20.
task 0: JsonParseException in JsonParser._constructReadException
Next: {NEXT}
Runbook: {RUNBOOK}
critical, Connect cluster lab, since 2026-09-21 14:13:20 UTC"""
EXPECTED: dict[str, dict[str, str]] = {
    "slack": {
        "color": "danger",
        "title": FAILED.summary,
        "title_link": "https://offsetwatch.example.com",
        "fallback": FAILED.summary,
        "text": f"""task 0: JsonParseException in JsonParser._constructReadException
*Next:* `{NEXT}`
*Runbook:* <{RUNBOOK}|ConnectorOrTaskFailed>
_critical, Connect cluster lab, since 2026-09-21 14:13:20 UTC_""",
    },
    "pagerduty": {
        "description": FAILED.summary,
        "severity": "critical",
        "source": "lab",
        "component": "invoices-sink",
        "class": "ConnectorOrTaskFailed",
        "client_url": "https://offsetwatch.example.com",
        "details.next": NEXT,
        "details.alerts": TEXT,
        "links.0.href": RUNBOOK,
    },
    "opsgenie": {
        "message": FAILED.summary,
        "description": TEXT,
        "priority": "P1",
        "entity": "invoices-sink",
        "tags": "offsetwatch,critical,ConnectorOrTaskFailed",
        "details.next": NEXT,
        "details.runbook_url": RUNBOOK,
    },
    "msteams": {
        "title": FAILED.summary,
        "text": f"""task 0: JsonParseException in JsonParser._constructReadException

**Next:** {NEXT}

**Runbook:** [ConnectorOrTaskFailed]({RUNBOOK})

critical, Connect cluster lab, since 2026-09-21 14:13:20 UTC""",
    },
}
TITLES = {
    "slack": "title",
    "pagerduty": "description",
    "opsgenie": "message",
    "msteams": "title",
}
TEXTS = {
    "slack": "text",
    "pagerduty": "details.alerts",
    "opsgenie": "description",
    "msteams": "text",
}

every_receiver = pytest.mark.parametrize("name", CONFIGS)


def templated(name: str) -> dict[str, str]:
    """The settings of a receiver that hold templates, by their path."""
    (receiver,) = yaml.safe_load(CONFIGS[name].read_text(encoding="utf-8"))["receivers"]
    ((settings,),) = (value for key, value in receiver.items() if key.endswith("_configs"))
    return {path: text for path, text in leaves(settings) if "{{" in text}


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in inner:
            yield from leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, str):
        yield path, value


def message(finding: Finding = FAILED, ended: float | None = None) -> dict[str, Any]:
    """What the daemon posts: the document that templates are given, as of Alertmanager."""
    status = NotificationStatus.NEW if ended is None else NotificationStatus.RESOLVED
    body = encode_webhook_body(
        Message(finding.key, status, finding, ended),
        receiver="on-call",
        external_url="https://offsetwatch.example.com",
    )
    return dict(json.loads(body))


def of_rule(name: str) -> dict[str, Any]:
    """A notification of the first alert of a rule that its test has fire."""
    alert = next(
        alert
        for test in RULE_TESTS
        for case in test.get("alert_rule_test", ())
        if case["alertname"] == name
        for alert in case["exp_alerts"]
    )
    labels = {"alertname": name, **alert["exp_labels"]}
    sent = message()
    sent["alerts"][0].update(labels=labels, annotations=alert["exp_annotations"], generatorURL="")
    return {**sent, "commonLabels": labels, "commonAnnotations": alert["exp_annotations"]}


@pytest.fixture
def rendered(tmp_path: Path):
    def rendered(text: str, notification: dict[str, Any]) -> str:
        data = tmp_path / "data.json"
        data.write_text(json.dumps(notification))
        return render(text, data, TEMPLATES)

    return rendered


# --- the configurations --------------------------------------------------------------------------


def test_there_is_one_for_each_receiver_that_the_page_names():
    assert CONFIGS.keys() == EXPECTED.keys()
    assert set(re.findall(r"alertmanager/(\w+)\.yml", PAGE)) == CONFIGS.keys()


@pytest.mark.parametrize("name", sorted(CONFIGS.keys() - RECENT))
def test_amtool_finds_nothing_wrong_with_a_configuration(name):
    assert check_config(CONFIGS[name]) == []


@pytest.mark.full
@every_receiver
def test_a_recent_amtool_finds_nothing_wrong_with_a_configuration(name):
    assert check_config(CONFIGS[name], recent_amtool()) == []


@every_receiver
def test_ends_are_sent_and_secrets_are_in_files(name):
    settings = yaml.safe_load(CONFIGS[name].read_text(encoding="utf-8"))
    (receiver,) = settings["receivers"]
    ((receives,),) = (value for key, value in receiver.items() if key.endswith("_configs"))
    assert receives["send_resolved"] is True
    assert any(key.endswith("_file") for key in receives)
    assert "severity" in settings["route"]["group_by"]  # templates read it of all alerts


def test_the_page_drops_what_a_rule_repeats_and_nothing_else(tmp_path: Path):
    (block,) = re.findall(r"^```yaml\n(templates:.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    config = tmp_path / "alertmanager.yml"
    config.write_text(block)

    def receiver(notification: dict[str, Any]) -> str:
        labels = [f"{name}={value}" for name, value in notification["commonLabels"].items()]
        amtool, file = str(installed_amtool()), f"--config.file={config}"
        return run([amtool, "config", "routes", "test", file, *labels]).stdout.strip()

    assert receiver(message()) == "slack"
    assert receiver(of_rule("ConnectorOrTaskFailed")) == "slack"
    assert receiver(of_rule("OffsetwatchBlind")) == "slack"
    assert receiver(of_rule("MirrorMaker2RecordsLost")) == "none"


# --- what people get -----------------------------------------------------------------------------


@every_receiver
def test_a_message_of_the_daemon_says_what_is_wrong_what_to_run_and_where_to_read(name, rendered):
    results = {path: rendered(text, message()) for path, text in templated(name).items()}
    assert results == EXPECTED[name]


def test_the_page_shows_what_arrives(rendered):
    assert TEXT.replace("\n", "\n    ") in PAGE
    alert = json.loads(
        json.dumps(of_rule("ConnectorOrTaskFailed")).replace("dead", "invoices-sink")
    )
    text = rendered('{{ template "offsetwatch.text" . }}', alert)
    assert text.replace("\n", "\n    ") in PAGE


@every_receiver
def test_an_end_says_so_first(name, rendered):
    ended = message(ended=SINCE + 60)
    settings = templated(name)
    assert rendered(settings[TITLES[name]], ended) == f"Resolved: {FAILED.summary}"
    assert "resolved 2026-09-21 14:14:20 UTC" in rendered(settings[TEXTS[name]], ended)


def test_colour_and_urgency_follow_the_severity(rendered):
    color, priority = templated("slack")["color"], templated("opsgenie")["priority"]
    warning = message(replace(FAILED, severity=Severity.WARNING))
    assert (rendered(color, warning), rendered(priority, warning)) == ("warning", "P3")
    info = message(replace(FAILED, severity=Severity.INFO))
    assert (rendered(color, info), rendered(priority, info)) == ("warning", "P5")
    assert rendered(color, message(ended=SINCE + 60)) == "good"


@every_receiver
@pytest.mark.parametrize(
    "rule",
    [
        "ConnectorOrTaskFailed",
        "MirrorMaker2FailoverWouldSkip",
        "OffsetwatchBlind",
        "OffsetwatchStateNotSaved",
    ],
)
def test_an_alert_of_a_rule_has_the_form_of_a_message_of_the_daemon(name, rule, rendered):
    alert = of_rule(rule)
    settings, annotations = templated(name), alert["commonAnnotations"]
    escaped = {key: text.replace(">", "&gt;") for key, text in annotations.items()}
    written = escaped if name == "slack" else annotations
    assert rendered(settings[TITLES[name]], alert) == written["summary"]
    text = rendered(settings[TEXTS[name]], alert)
    for answer in ("description", "next", "runbook_url"):
        assert written[answer] in text


@every_receiver
def test_an_alert_without_a_command_and_a_runbook_has_no_empty_lines_for_them(name, rendered):
    bare = message()
    bare["alerts"][0]["annotations"] = {"summary": "orders: this is a test"}
    text = rendered(templated(name)[TEXTS[name]], bare)
    assert "Next:" not in text
    assert "Runbook:" not in text


@every_receiver
def test_several_alerts_are_reported_one_after_the_other(name, rendered):
    other = replace(FAILED, connector="other", summary="other task 1 FAILED.")
    both = {**message(), "alerts": [*message()["alerts"], *message(other)["alerts"]]}
    settings = templated(name)
    assert rendered(settings[TITLES[name]], both) == f"{FAILED.summary} (and 1 more)"
    text = rendered(settings[TEXTS[name]], both)
    assert text.index(FAILED.summary) < text.index(NEXT) < text.index(other.summary)


def test_an_error_message_mentions_no_channel_of_slack(rendered):
    evil = "<!channel> & <https://evil.example|log in>"
    finding = replace(
        FAILED, summary=evil, evidence=(EvidenceItem("error", evil),), next_command=evil
    )
    safe = "&lt;!channel&gt; &amp; &lt;https://evil.example|log in&gt;"
    settings = templated("slack")
    assert rendered(settings["title"], message(finding)) == safe
    text = rendered(settings["text"], message(finding))
    assert text.count(safe) == 2
    assert "<!" not in text


def test_a_template_that_does_not_exist_is_reported(rendered):
    with pytest.raises(ToolError, match="nowhere"):
        rendered('{{ template "nowhere" . }}', message())
