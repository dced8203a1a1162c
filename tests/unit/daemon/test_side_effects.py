"""The thread that tells people, from one configuration to the next."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.processes.ports import free_port
from lab.waiting import NotYet, until
from offsetwatch.config import Config, parse
from offsetwatch.daemon.side_effects import NotificationThread, resolve_external_url
from offsetwatch.daemon.state_dir import StateDir
from offsetwatch.daemon.supervisor import JobFailures
from offsetwatch.model.observations import NotificationsFailed
from offsetwatch.notify import notifier
from tests.fakes.clock import VirtualClock
from tests.fakes.endpoint import Endpoint, endpoint
from tests.unit.notify.findings import LOST, snapshot

DEADLINE_S = 20.0


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "POLL_INTERVAL_S", 0.01)


@pytest.fixture
def hook() -> Iterator[Endpoint]:
    with endpoint() as built:
        yield built


class Running:
    """Notices, what they look at and what they report."""

    def __init__(self, folder: Path) -> None:
        self.shown = snapshot(LOST)
        self.reported: list[Any] = []
        self.state = StateDir(folder)
        self.notices = NotificationThread(
            lambda: self.shown, self.reported.append, self.state, VirtualClock()
        )

    def stop(self) -> None:
        self.notices.stop()
        self.state.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    built = Running(tmp_path)
    yield built
    built.stop()


def config(**notify: Any) -> Config:
    document = {
        "kafka": {"east": {"bootstrap": "127.0.0.1:1"}},
        "connect": [{"name": "lab", "kafka": "east", "url": "http://127.0.0.1:1"}],
        "notify": notify,
    }
    return parse(document, {})


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("127.0.0.1:9640", "http://127.0.0.1:9640/"),
        ("mirrors.example.com:9640", "http://mirrors.example.com:9640/"),
        ("[::1]:9640", "http://[::1]:9640/"),
        ("0.0.0.0:9640", None),
        ("[::]:9640", None),
        (":9640", None),
    ],
)
def test_messages_link_to_the_listener_unless_it_is_a_wildcard_or_an_address_is_configured(
    listen, address
):
    built = config()
    assert resolve_external_url(built.model_copy(update={"listen": listen})) == address
    named = config(external_url="https://offsetwatch.example.com")
    assert resolve_external_url(named) == "https://offsetwatch.example.com"


def webhook(url: str, name: str = "on-call") -> Config:
    return config(webhooks=[{"name": name, "url": url}])


def await_messages(hook: Endpoint, times: int = 1) -> None:
    def probe() -> None:
        if len(hook.got) < times:
            raise NotYet(str(len(hook.got)))

    until("somebody is told", probe, timeout_s=DEADLINE_S)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("notify")]


def test_without_a_webhook_no_notifier_thread_is_started(running):
    running.notices.follow(config())
    assert threads() == []


def test_those_who_are_named_are_reported_and_the_thread_ends_with_the_daemon(running, hook):
    running.notices.follow(webhook(hook.url))
    await_messages(hook)
    running.notices.stop()
    assert threads() == []


def test_another_process_reports_nothing_twice(tmp_path, hook):
    with endpoint() as other:
        for _ in range(2):
            running = Running(tmp_path)
            running.notices.follow(webhook(hook.url))
            await_messages(hook)
            # Whoever is told beside it is told after a whole look of the second process.
            running.notices.follow(webhook(hook.url))
            running.notices.follow(
                config(
                    webhooks=[
                        {"name": "on-call", "url": hook.url},
                        {"name": "other", "url": other.url},
                    ]
                )
            )
            await_messages(other)
            running.stop()
        assert len(hook.got) == len(other.got) == 1


def test_a_configuration_that_says_the_same_changes_nothing(running, hook):
    running.notices.follow(webhook(hook.url))
    thread = running.notices._thread
    running.notices.follow(webhook(hook.url))
    assert running.notices._thread is thread


def test_failures_are_reported_and_counted_on_through_a_reload(running, hook):
    gone = f"http://127.0.0.1:{free_port()}"
    running.notices.follow(webhook(gone))

    def unreachable(times: int) -> None:
        def probe() -> None:
            counts = [dict(item.counts)["unreachable"] for item in tuple(running.reported)]
            if times not in counts:
                raise NotYet(str(counts[-1:]))

        until(f"{times} failures are reported", probe, timeout_s=DEADLINE_S)

    unreachable(1)
    assert isinstance(running.reported[0], NotificationsFailed)
    running.notices.follow(webhook(gone, name="another"))
    unreachable(2)


def test_a_reload_without_the_webhook_ends_the_notifier_thread(running, hook):
    running.notices.follow(webhook(hook.url))
    await_messages(hook)
    running.notices.follow(config())
    assert threads() == []


def test_after_a_bug_in_the_thread_operators_are_notified_all_the_same(running, hook, monkeypatch):
    result, running.shown = running.shown, None
    failed = threading.Event()
    monkeypatch.setattr(JobFailures, "add", lambda self, error: failed.set() or "a bug")
    running.notices.follow(webhook(hook.url))
    assert failed.wait(DEADLINE_S)
    running.shown = result
    await_messages(hook)
