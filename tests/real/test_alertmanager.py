"""What a real Alertmanager makes of what we tell it: active, then resolved."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from lab.http import NO_AUTHORITIES
from lab.processes.ports import free_port
from lab.waiting import NotYet, until
from offsetwatch.config import NotifyConfig
from offsetwatch.model.findings import Severity
from offsetwatch.notify.delivery_state import Message, NotificationStatus
from offsetwatch.notify.message_bodies import encode_alerts_body, encode_webhook_body
from offsetwatch.notify.notifier import Notifier
from offsetwatch.notify.receivers import build_receivers
from tests.fakes.alertmanager_receiver import take
from tests.fakes.clock import VirtualClock
from tests.fakes.endpoint import Endpoint, endpoint
from tests.unit.notify.findings import ADVISED, LOST, STUCK, snapshot
from tests.unit.serve.control.stage import serving, token
from tools.alertmanager import alertmanager

pytestmark = [pytest.mark.real, pytest.mark.full]

DEADLINE_S = 30.0
EXAMPLES = Path(__file__).parents[2] / "alerts" / "alertmanager"
KNOWN = {"connect_cluster": "lab", "connector": "orders"}
CONFIG = """
route: {{receiver: hook, group_by: [alertname, subject], group_wait: 0s, group_interval: 1s}}
receivers: [{{name: hook, webhook_configs: [{{url: "{url}", send_resolved: true}}]}}]
"""


@pytest.fixture
def receiver() -> Iterator[Endpoint]:
    """Whoever Alertmanager tells in the end."""
    with endpoint() as built:
        yield built


@pytest.fixture
def url(tmp_path: Path, receiver: Endpoint) -> Iterator[str]:
    with alertmanager(tmp_path, free_port(), CONFIG.format(url=receiver.url)) as name:
        until("Alertmanager is up", lambda: up(name), timeout_s=DEADLINE_S)
        yield name


def up(at: str) -> None:
    try:
        httpx.get(f"{at}/-/ready", verify=NO_AUTHORITIES).raise_for_status()
    except httpx.HTTPError as exc:
        raise NotYet(str(exc)) from exc


def test_an_alert_of_a_known_connector_becomes_a_hint_once(tmp_path: Path):
    """By its own webhook, with its own way to show a token."""
    body = json.dumps([{"labels": {"alertname": "SinkStuck", **KNOWN, "partition": "3"}}])
    with serving() as stage:
        hook = CONFIG.format(url=f"{stage.url}/api/v1/hooks/alertmanager")
        auth = f'http_config: {{authorization: {{credentials: "{token("hook")}"}}}}, '
        config = hook.replace('[{url: "', f'[{{{auth}url: "').replace(
            "1s}", "1s, repeat_interval: 1s}"
        )
        with alertmanager(tmp_path, free_port(), config) as name:
            until("Alertmanager is up", lambda: up(name), timeout_s=DEADLINE_S)
            httpx.post(
                f"{name}/api/v2/alerts",
                content=body,
                headers={"Content-Type": "application/json"},
                verify=NO_AUTHORITIES,
            ).raise_for_status()

            def twice() -> None:
                if len(stage.desk.hints) < 2:
                    raise NotYet(str(stage.reported))

            until("it was told twice", twice, timeout_s=DEADLINE_S)
        assert len(set(map(str, stage.desk.hints))) == 1
        (hint, *_) = stage.desk.hints
        assert (hint.connect_cluster, hint.connector, hint.partition) == ("lab", "orders", 3)
        assert hint.firing
        assert not stage.desk.changed


def active(url: str) -> dict[tuple[str, str], dict]:
    """(alertname, severity) -> alert, as its own API tells."""
    document = httpx.get(f"{url}/api/v2/alerts", verify=NO_AUTHORITIES).raise_for_status().json()
    return {(item["labels"]["alertname"], item["labels"]["severity"]): item for item in document}


def awaits(url: str, *names: tuple[str, str]) -> dict[tuple[str, str], dict]:
    def probe() -> dict[tuple[str, str], dict]:
        result = active(url)
        if set(result) != set(names):
            raise NotYet(str(sorted(result)))
        return result

    return until(f"{names} are active", probe, timeout_s=DEADLINE_S)


def expect_notifications(person: Endpoint, *expected: tuple[str, str]) -> None:
    """The person was told (alertname, status) of each alert, in any order and nothing else."""

    def probe() -> None:
        results = {
            (alert["labels"]["alertname"], alert["status"])
            for got in person.got
            for alert in got.body["alerts"]
        }
        if results != set(expected):
            raise NotYet(str(sorted(results)))

    until(f"somebody was told {expected}", probe, timeout_s=DEADLINE_S)


def test_what_alertmanager_posts_of_our_alert_is_what_we_post_of_it(
    tmp_path: Path, receiver: Endpoint
):
    page = "http://offsetwatch.example.com/"
    began = Message((), NotificationStatus.NEW, replace(ADVISED, since=time.time() - 60), None)
    ended = Message((), NotificationStatus.RESOLVED, began.finding, time.time() - 5)

    def posted(message: Message) -> None:
        def probe() -> None:
            if not receiver.got or receiver.got[-1].body["status"] != own["status"]:
                raise NotYet(str(len(receiver.got)))

        own = json.loads(encode_webhook_body(message, receiver="hook", external_url=page))
        until(f"it was posted as {own['status']}", probe, timeout_s=DEADLINE_S)
        theirs = receiver.got[-1].body
        assert {**own, "externalURL": theirs["externalURL"]} == theirs
        assert take(json.dumps(theirs).encode()).group_key == own["groupKey"]

    config = CONFIG.format(url=receiver.url).replace("[alertname, subject]", "['...']")
    with alertmanager(tmp_path, free_port(), config) as name:
        until("Alertmanager is up", lambda: up(name), timeout_s=DEADLINE_S)
        for message in (began, ended):
            body = encode_alerts_body([message], time.time(), lasts_s=3600.0, external_url=page)
            httpx.post(
                f"{name}/api/v2/alerts",
                content=body,
                headers={"Content-Type": "application/json"},
                verify=NO_AUTHORITIES,
            ).raise_for_status()
            posted(message)


@pytest.mark.parametrize(
    ("name", "settings", "title", "text"),
    [
        ("slack", {"api_url": "{url}"}, "attachments.0.title", "attachments.0.text"),
        (
            "pagerduty",
            {"url": "{url}", "routing_key": "k"},
            "payload.summary",
            "payload.custom_details.alerts",
        ),
        ("opsgenie", {"api_url": "{url}", "api_key": "k"}, "message", "description"),
    ],
)
def test_a_receiver_gets_what_our_example_for_it_says(
    tmp_path: Path,
    receiver: Endpoint,
    name: str,
    settings: dict[str, str],
    title: str,
    text: str,
):
    config = yaml.safe_load((EXAMPLES / f"{name}.yml").read_text(encoding="utf-8"))
    config["templates"] = [str(EXAMPLES / "offsetwatch.tmpl")]
    config["route"]["group_wait"] = "0s"
    (receives,) = config["receivers"][0][f"{name}_configs"]
    secret = next(key for key in receives if key.endswith("_file"))
    del receives[secret]
    receives |= {key: value.format(url=receiver.url) for key, value in settings.items()}
    finding = replace(ADVISED, since=time.time() - 60)
    message = Message((), NotificationStatus.NEW, finding, None)

    def arrived() -> None:
        if not receiver.got:
            raise NotYet("nothing arrived")

    with alertmanager(tmp_path, free_port(), yaml.safe_dump(config)) as at:
        until("Alertmanager is up", lambda: up(at), timeout_s=DEADLINE_S)
        body = encode_alerts_body([message], time.time(), lasts_s=3600.0, external_url=None)
        httpx.post(
            f"{at}/api/v2/alerts",
            content=body,
            headers={"Content-Type": "application/json"},
            verify=NO_AUTHORITIES,
        ).raise_for_status()
        until("it arrived", arrived, timeout_s=DEADLINE_S)
    assert value_at(receiver.got[0].body, title) == finding.summary
    assert finding.runbook_url in value_at(receiver.got[0].body, text)
    assert "offsetwatch explain" in value_at(receiver.got[0].body, text)


def value_at(document: Any, path: str) -> Any:
    for key in path.split("."):
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document


def test_a_finding_is_an_active_alert_and_a_fixed_one_is_resolved(url: str, receiver: Endpoint):
    now = time.time() - 60  # an end that lies ahead of its own clock, Alertmanager does not believe
    mild = replace(LOST, severity=Severity.WARNING, since=now - 60)
    rows = [snapshot(mild, replace(STUCK, since=now - 30))]
    notifier = Notifier(
        build_receivers(NotifyConfig.model_validate({"alertmanagers": [{"url": url}]}), 0.0),
        snapshot=lambda: rows[0],
        save=lambda _: True,
        report=lambda counts: pytest.fail(str(counts)) if any(n for _, n in counts) else None,
        clock=VirtualClock(),
        failed={},
    )

    def deliver(moment: float) -> None:
        for _ in range(3):
            notifier.step(moment)
            for queue in notifier._queues:
                if queue._delivery is not None:
                    queue._delivery[0].result(DEADLINE_S)

    deliver(now)
    lost, stuck = ("MirrorMaker2RecordsLost", "warning"), ("ConnectorStalled", "warning")
    result = awaits(url, lost, stuck)
    assert result[lost]["labels"]["subject"] == "orders-3"
    assert result[lost]["annotations"]["summary"] == LOST.summary
    assert result[lost]["annotations"]["description"] == "lost offsets: 100 to 150\nlog start: 151"
    started = result[lost]["startsAt"]

    rows[0] = snapshot(replace(mild, severity=Severity.CRITICAL))
    deliver(now + 1)
    worse = ("MirrorMaker2RecordsLost", "critical")
    assert awaits(url, worse)[worse]["startsAt"] == started
    expect_notifications(
        receiver,
        ("MirrorMaker2RecordsLost", "firing"),
        ("MirrorMaker2RecordsLost", "resolved"),
        ("ConnectorStalled", "firing"),
        ("ConnectorStalled", "resolved"),
    )

    before = len(receiver.got)
    rows[0] = snapshot()
    deliver(now + 2)
    awaits(url)

    def over() -> None:
        last = [alert for got in receiver.got[before:] for alert in got.body["alerts"]]
        if not any(
            (item["labels"]["severity"], item["status"]) == ("critical", "resolved")
            for item in last
        ):
            raise NotYet(str(last))

    until("somebody was told that it is over", over, timeout_s=DEADLINE_S)
    notifier._pool.shutdown(wait=True)
