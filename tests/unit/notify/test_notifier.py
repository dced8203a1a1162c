"""Findings on their way to endpoints that answer, that do not, and over a crash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import wait
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from structlog.testing import capture_logs

from lab.processes.ports import free_port
from offsetwatch.config import NotifyConfig
from offsetwatch.model.findings import FINDINGS_MAX, Severity
from offsetwatch.model.observations import CONNECT_REST, InputId
from offsetwatch.notify.notifier import Notifier
from offsetwatch.notify.receivers import build_receivers
from tests.changed import replace
from tests.fakes.alertmanager_receiver import take
from tests.fakes.clock import VirtualClock
from tests.fakes.endpoint import Endpoint, endpoint
from tests.unit.notify.findings import LOST, NOW, REST, STUCK, snapshot

SETTLE_S = 180.0
WAIT_S = 20.0
SECRET = "hunter2"


class Killed(BaseException):
    """The process ended here."""


@pytest.fixture(autouse=True)
def started() -> Iterator[list[Notifier]]:
    """Every notifier of a test, so that none of its threads is left."""
    World.started = []
    yield World.started
    for notifier in World.started:
        notifier._pool.shutdown(wait=True)


class World:
    """A notifier, what it was shown and what it wrote down; `restart` is another process."""

    started: ClassVar[list[Notifier]] = []

    def __init__(self, **settings: Any) -> None:
        self.settings = NotifyConfig.model_validate(settings)
        self.now = NOW
        self.shown = snapshot()
        self.memory: bytes | None = None
        self.saves = 0
        self.die_at: str | None = None
        self.reported: tuple = ()
        self.notifier = self._started()

    def _started(self) -> Notifier:
        notifier = Notifier(
            build_receivers(self.settings, SETTLE_S),
            snapshot=lambda: replace(self.shown, notifications_failed=self.reported),
            save=self._save,
            report=self._report,
            clock=VirtualClock(),
            failed={},
        )
        World.started.append(notifier)
        if self.memory is not None:
            notifier.restore(self.memory)
        return notifier

    def _save(self, document: bytes) -> bool:
        if self.die_at == f"before save {self.saves}":
            raise Killed
        self.memory = document
        self.saves += 1
        if self.die_at == f"after save {self.saves - 1}":
            raise Killed
        return True

    def _report(self, counts) -> None:
        self.reported = counts

    def restart(self, later: float = 0.0) -> None:
        self.notifier._pool.shutdown(wait=True)
        self.now += later
        self.notifier = self._started()

    def publish(self, *findings, later: float = 1.0, rounds: int = 3, **how: Any) -> None:
        """Let this be seen from now on, until there is nothing left to tell."""
        self.shown = snapshot(*findings, **how)
        self.now += later
        for _ in range(rounds):
            self.notifier.step(self.now)
            self.arrived()
        self.notifier.step(self.now)

    def arrived(self) -> None:
        under_way = [
            item._delivery[0] for item in self.notifier._queues if item._delivery is not None
        ]
        assert not wait(under_way, WAIT_S).not_done

    def failed(self) -> dict[str, int]:
        return {reason: count for reason, count in self.reported if count}


@pytest.fixture
def hook():
    with endpoint() as built:
        yield built


def webhooks(*hooks: Endpoint, **settings: Any) -> World:
    named = [{"name": f"hook-{number}", "url": at.url} for number, at in enumerate(hooks)]
    return World(webhooks=named, **settings)


def said(hook: Endpoint) -> list[tuple[str, str]]:
    return [(finding["status"], finding["name"]) for finding in hook.findings()]


LOST_NEW, LOST_OVER = ("new", "mm2_records_lost"), ("resolved", "mm2_records_lost")
STUCK_NEW = ("new", "sink_stuck")


def test_a_webhook_is_notified_once_of_what_is_new_and_once_of_its_end(hook):
    world = webhooks(hook)
    world.publish(LOST)
    world.publish(LOST, STUCK)
    world.publish(STUCK, later=SETTLE_S)
    world.publish(STUCK, later=1000.0)
    assert said(hook) == [LOST_NEW, STUCK_NEW, LOST_OVER]
    assert hook.got[0].headers["Content-Type"] == "application/json"


def test_what_a_document_does_not_list_is_reported_and_over_like_the_rest(hook):
    world = webhooks(hook)
    many = [replace(LOST, subject=f"orders-{number}") for number in range(FINDINGS_MAX + 1)]
    world.publish(*many, rounds=10)
    assert said(hook) == [LOST_NEW] * (FINDINGS_MAX + 1)
    world.publish(later=SETTLE_S)
    world.publish(later=1000.0, rounds=10)
    assert said(hook)[len(many) :] == [LOST_OVER] * len(many)


def test_every_alertmanager_of_a_cluster_is_reported_and_reported_again(hook):
    with endpoint() as other:
        world = World(alertmanagers=[{"url": hook.url}, {"url": f"{other.url}/prefix/"}])
        world.publish(LOST)
        world.publish(LOST, later=60.0)
        world.publish(later=SETTLE_S)
        paths = {got.path for got in hook.got} | {got.path for got in other.got}
        assert paths == {"/api/v2/alerts", "/prefix/api/v2/alerts"}
        for report in (hook.alerts(), other.alerts()):
            assert [item["endsAt"] for item in report] == [
                "2026-09-21T15:13:21Z",
                "2026-09-21T15:14:21Z",
                "2026-09-21T14:17:21Z",
            ]
            assert {item["startsAt"] for item in report} == {"2026-09-21T14:13:14.750000Z"}


def test_nothing_is_over_while_the_daemon_is_not_ready_or_its_inputs_are_blind(hook):
    world = webhooks(hook)
    world.publish(LOST)
    world.publish(later=10_000.0, ready=False)
    world.publish(later=10_000.0, unavailable=(REST,))
    assert said(hook) == [LOST_NEW]
    world.publish()
    world.publish(later=SETTLE_S)
    assert said(hook) == [LOST_NEW, LOST_OVER]


def test_an_input_of_another_cluster_that_was_never_read_keeps_no_end_back(hook):
    world = webhooks(hook)
    far = frozenset({InputId(CONNECT_REST, connect_cluster="far")})
    world.publish(LOST)
    world.publish(later=10_000.0, ready=False, awaited=frozenset({REST}))
    assert said(hook) == [LOST_NEW]
    world.publish(ready=False, awaited=far)
    world.publish(later=SETTLE_S, ready=False, awaited=far)
    assert said(hook) == [LOST_NEW, LOST_OVER]


def test_what_is_wrong_before_everything_was_read_is_reported(hook):
    world = webhooks(hook)
    world.publish(LOST, ready=False)
    assert said(hook) == [LOST_NEW]


def test_a_restart_in_the_middle_of_an_incident_reports_nothing_twice(hook):
    world = webhooks(hook)
    world.publish(LOST)
    world.restart(later=1000.0)
    world.publish(ready=False)
    world.publish(LOST, later=1000.0)
    assert said(hook) == [LOST_NEW]


def test_what_was_fixed_while_the_daemon_was_down_is_over(hook):
    world = webhooks(hook)
    world.publish(LOST)
    world.restart(later=1000.0)
    world.publish()
    world.publish(later=SETTLE_S)
    assert said(hook) == [LOST_NEW, LOST_OVER]


DEATHS = [f"{when} save {number}" for when in ("before", "after") for number in range(4)]


@pytest.mark.parametrize("mended", [True, False], ids=["mended meanwhile", "still wrong"])
@pytest.mark.parametrize("death", [*DEATHS, None])
def test_a_kill_at_any_point_repeats_one_message_at_most_and_loses_none(hook, death, mended):
    world = webhooks(hook)
    world.die_at = death
    try:
        world.publish(LOST)
        world.publish(later=SETTLE_S)
    except Killed:
        world.arrived()  # what was under way may have arrived
    assert (world.die_at is None) == (world.saves == 4 and death != "after save 3")
    world.die_at = None
    world.restart()
    if not mended:
        world.publish(LOST)
        assert said(hook)[-1] == LOST_NEW
    world.publish()
    world.publish(later=2 * SETTLE_S)
    reports = [status for status, _ in said(hook)]
    assert reports.count("new") <= 2
    assert reports.count("resolved") <= 2
    assert reports[-1:] == (["resolved"] if reports else [])
    assert reports or (death == "before save 0" and mended)


def test_what_one_does_not_take_is_retained_for_it_in_its_newest_state(hook):
    hook.status = 503
    world = webhooks(hook)
    world.publish(replace(LOST, severity=Severity.WARNING))
    assert len(hook.got) == 1
    assert world.failed() == {"server_error": 1}
    hook.status = 200
    world.publish(LOST, later=1.0)
    assert len(hook.got) == 1  # not yet: it is given a moment
    world.publish(LOST, later=5.0)
    assert [finding["severity"] for finding in hook.findings()] == ["warning", "critical"]
    assert said(hook)[-1] == LOST_NEW


def test_the_pause_doubles_to_five_minutes_and_a_success_ends_it(hook):
    hook.status = 500
    world = webhooks(hook)
    tried: list[float] = []
    for _ in range(1000):
        before = len(hook.got)
        world.publish(LOST, later=1.0, rounds=1)
        tried += [world.now] * (len(hook.got) - before)
    pauses = [later - sooner for sooner, later in pairwise(tried)]
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300]
    hook.status = 200
    world.publish(LOST, later=300.0)
    hook.status = 500
    world.publish(STUCK, later=1.0)
    assert len(hook.got) == len(tried) + 2


def test_a_hanging_webhook_holds_up_no_other_and_takes_one_delivery_at_a_time(hook):
    with endpoint() as stuck:
        stuck.go.clear()
        world = webhooks(stuck, hook)
        world.shown = snapshot(LOST)
        for _ in range(20):
            world.now += 1
            world.notifier.step(world.now)
            wait(
                [item._delivery[0] for item in world.notifier._queues[1:] if item._delivery], WAIT_S
            )
        assert said(hook) == [LOST_NEW]
        stuck.go.set()
        world.arrived()
        assert len(stuck.got) == 1


def test_one_that_is_not_there_is_counted_as_unreachable():
    world = World(webhooks=[{"name": "gone", "url": f"http://127.0.0.1:{free_port()}"}])
    world.publish(LOST)
    assert world.failed() == {"unreachable": 1}


def test_one_finding_that_is_refused_does_not_hold_up_the_others(hook):
    hook.choose = lambda body: (
        400 if any(finding["subject"] == "bad" for finding in body["findings"]) else 200
    )
    world = webhooks(hook)
    others = [replace(STUCK, subject=str(number)) for number in range(3)]
    world.publish(replace(LOST, subject="bad"), *others, rounds=8)
    taken = [
        finding["subject"]
        for got in hook.got
        if len(got.body["findings"]) == 1
        for finding in got.body["findings"]
    ]
    assert taken == ["bad", "0", "1", "2"]
    count = len(hook.got)
    world.publish(replace(LOST, subject="bad"), *others, later=100.0)
    assert len(hook.got) == count
    world.publish(replace(LOST, subject="bad"), *others, later=300.0)
    assert len(hook.got) == count + 1
    assert world.failed() == {"refused": 3}


def test_a_delivery_state_that_cannot_be_written_holds_up_no_delivery(hook):
    world = webhooks(hook)
    world.notifier._save = lambda _: False
    world.publish(LOST)
    assert said(hook) == [LOST_NEW]


def test_an_entry_that_cannot_be_read_is_left_out_and_the_others_are_not(hook):
    world = webhooks(hook)
    world.publish(LOST, STUCK)
    assert world.memory is not None
    world.memory = world.memory.replace(b'"sink_stuck"', b'"never_heard_of"')
    with capture_logs() as logs:
        world.restart()
    assert [log["event"] for log in logs] == ["notice_forgotten"]
    world.publish(LOST, STUCK)
    assert said(hook)[2:] == [STUCK_NEW]


def test_an_unreadable_entry_is_forgotten_alone(hook):
    world = webhooks(hook)
    world.publish(LOST, STUCK)
    assert world.memory is not None
    world.memory = world.memory.replace(b'"sink_stuck"', b'"\xff"')
    with capture_logs() as logs:
        world.restart()
    assert [log["event"] for log in logs] == ["notice_forgotten"]


@pytest.mark.parametrize(
    "document",
    [b"", b"{}", b'{"version":2,"receivers":{}}', b"[1]", b'{"x":' + b"[" * 100_000],
    ids=["nothing", "empty", "another version", "a list", "deep"],
)
def test_a_memory_that_is_none_is_refused(hook, document):
    with pytest.raises(ValueError, match=r".*"):
        webhooks(hook).notifier.restore(document)


def test_what_one_receiver_was_notified_is_not_forgotten_when_another_is_named(hook):
    world = webhooks(hook)
    world.publish(LOST)
    with endpoint() as other:
        both = [{"name": "hook-0", "url": hook.url}, {"name": "hook-1", "url": other.url}]
        world.settings = NotifyConfig.model_validate({"webhooks": both})
        world.restart()
        world.publish(LOST)
        assert said(hook) == [LOST_NEW]
        assert said(other) == [LOST_NEW]


def test_what_may_go_wrong_is_a_series_before_it_has(hook):
    world = webhooks(hook)
    world.publish()
    assert {"unreachable", "timeout", "server_error", "denied", "too_many"} <= {
        reason for reason, _ in world.reported
    }


def test_trouble_is_logged_once_and_without_the_address_or_a_secret(hook, tmp_path):
    hook.status = 401
    (tmp_path / "hook").write_text(f"{hook.url}/{SECRET}\n")
    (tmp_path / "token").write_text(f"{SECRET}-token")
    settings = {
        "name": "on-call",
        "url_file": tmp_path / "hook",
        "auth": {"bearer_token_file": tmp_path / "token"},
    }
    world = World(webhooks=[settings])
    with capture_logs() as logs:
        world.publish(LOST)
        world.publish(LOST, later=5.0)
        hook.status = 200
        world.publish(LOST, later=10.0)
    assert [log["event"] for log in logs] == [
        "notification_failed",
        "notifications_delivered_again",
    ]
    assert logs[0]["receiver"] == "on-call"
    assert hook.got[0].path == f"/{SECRET}"
    assert hook.got[0].headers["Authorization"] == f"Bearer {SECRET}-token"
    for text in (str(logs), str(world.memory), repr(world.notifier.__dict__)):
        assert SECRET not in text
        assert hook.url not in text


@pytest.mark.parametrize(
    ("auth", "output"),
    [({}, "Bearer second"), ({"username": "ada"}, "Basic YWRhOnNlY29uZA==")],
    ids=["token", "password"],
)
def test_a_secret_that_was_renewed_in_its_file_is_sent_without_a_restart(
    hook, tmp_path, auth, output
):
    url, secret = tmp_path / "hook", tmp_path / "secret"
    url.write_text(f"{hook.url}/before")
    secret.write_text("first")
    named = "password_file" if auth else "bearer_token_file"
    world = World(webhooks=[{"name": "on-call", "url_file": url, "auth": {**auth, named: secret}}])
    hook.status = 401
    world.publish(LOST)
    assert world.failed() == {"denied": 1}
    url.write_text(f"{hook.url}/after")
    secret.write_text("second")
    hook.status = 200
    world.publish(LOST, later=10.0)
    assert [item.path for item in hook.got] == ["/before", "/after"]
    assert hook.got[1].headers["Authorization"] == output
    assert hook.got[0].headers["Authorization"] != output


def test_a_secret_that_cannot_be_read_is_reported_as_such_and_not_by_its_path(hook, tmp_path):
    missing = tmp_path / "gone"
    missing.write_text(SECRET)
    auth = {"bearer_token_file": missing}
    world = World(webhooks=[{"name": "on-call", "url": hook.url, "auth": auth}])
    missing.unlink()
    with capture_logs() as logs:
        world.publish(LOST)
    assert hook.got == []
    assert (logs[0]["event"], logs[0]["reason"]) == ("notification_failed", "unreachable")
    assert "bearer_token_file" in logs[0]["detail"]
    assert str(missing) not in str(logs)


# --- webhooks in Alertmanager's format -----------------------------------------------------------


def as_alerts(hook: Endpoint) -> World:
    return World(webhooks=[{"name": "on-call", "url": hook.url, "format": "alertmanager"}])


def posted(hook: Endpoint) -> list[tuple[str, str, str]]:
    """(status, finding, severity) of each alert, in order. No receiver would have refused one."""
    taken = [take(json.dumps(got.body).encode()) for got in hook.got]
    assert {message.receiver for message in taken} <= {"on-call"}
    assert [len(message.alerts) for message in taken] == [1] * len(taken)
    return [
        (alert.status, alert.labels["finding"], alert.labels["severity"])
        for message in taken
        for alert in message.alerts
    ]


def test_each_alert_is_posted_once_by_itself_and_so_is_its_end(hook):
    world = as_alerts(hook)
    world.publish(LOST, STUCK)
    world.publish(STUCK, later=SETTLE_S)
    world.publish(STUCK, later=1000.0)
    assert posted(hook) == [
        ("firing", "mm2_records_lost", "critical"),
        ("firing", "sink_stuck", "warning"),
        ("resolved", "mm2_records_lost", "critical"),
    ]


def test_an_alert_of_another_severity_comes_before_the_end_of_the_one_it_takes_over_from(hook):
    world = as_alerts(hook)
    world.publish(LOST)
    world.publish(replace(LOST, severity=Severity.WARNING))
    assert posted(hook) == [
        ("firing", "mm2_records_lost", "critical"),
        ("firing", "mm2_records_lost", "warning"),
        ("resolved", "mm2_records_lost", "critical"),
    ]


def test_an_alert_that_was_not_taken_is_posted_again_under_the_same_fingerprint(hook):
    hook.status = 503
    world = as_alerts(hook)
    world.publish(LOST)
    hook.status = 200
    world.publish(LOST, later=5.0)
    world.restart(later=1000.0)
    world.publish(LOST)
    assert posted(hook) == [("firing", "mm2_records_lost", "critical")] * 2
    assert len({got.body["alerts"][0]["fingerprint"] for got in hook.got}) == 1


def test_an_alert_says_once_an_hour_that_its_text_has_changed(hook):
    world = as_alerts(hook)
    world.publish(LOST)
    worse = replace(LOST, summary="60 records were deleted.")
    world.publish(worse, later=10.0)
    assert len(hook.got) == 1
    world.publish(worse, later=3600.0)
    assert [got.body["commonAnnotations"]["summary"] for got in hook.got] == [
        LOST.summary,
        "60 records were deleted.",
    ]
    assert len({got.body["groupKey"] for got in hook.got}) == 1
