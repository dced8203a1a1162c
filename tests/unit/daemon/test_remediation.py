"""Whoever may act: one at a time, whatever is reloaded meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from offsetwatch.config import Config
from offsetwatch.daemon import remediation
from offsetwatch.daemon.remediation import Remediation
from tests.fakes.clock import VirtualClock

WAIT_S = 120.0


class Watched(Remediation):
    """What each turn does is told; a turn ends when it is let go, not when it is told to."""

    def __init__(self, folder: Path) -> None:
        super().__init__(lambda: None, lambda _: None, folder, VirtualClock())
        self.began: dict[str, threading.Event] = {}
        self.let_go: dict[str, threading.Event] = {}
        self.at_work: list[str] = []
        self.together: list[list[str]] = []

    def _work(self, config: Config, transaction: remediation._RemediationRun) -> None:
        mode = config.remedy.mode
        self.at_work.append(mode)
        self.together.append(list(self.at_work))
        self.began.setdefault(mode, threading.Event()).set()
        assert transaction.stop.wait(WAIT_S)
        assert self.let_go.setdefault(mode, threading.Event()).wait(WAIT_S)
        self.at_work.remove(mode)


def config(mode: str) -> Config:
    return Config.model_validate(
        {
            "kafka": {"k": {"bootstrap": "b:1"}},
            "connect": [{"name": "lab", "kafka": "k", "url": "http://c:8083"}],
            "remedy": {"mode": mode},
        }
    )


@pytest.fixture
def watched(tmp_path, monkeypatch):
    monkeypatch.setattr(remediation, "STOP_S", 0.01)
    built = Watched(tmp_path)
    for mode in ("observe", "propose", "auto"):
        built.began[mode], built.let_go[mode] = threading.Event(), threading.Event()
    yield built
    for event in built.let_go.values():
        event.set()
    built.stop()


def test_who_still_waits_for_an_answer_is_waited_for_before_the_next_one_acts(watched):
    watched.follow(config("observe"))
    assert watched.began["observe"].wait(WAIT_S)
    watched.follow(config("propose"))
    watched.follow(config("auto"))
    assert watched.at_work == ["observe"]
    watched.let_go["observe"].set()
    assert watched.began["auto"].wait(WAIT_S)
    assert watched.together == [["observe"], ["auto"]]  # the one between never began


def test_remediation_with_an_unchanged_configuration_goes_on(watched):
    watched.follow(config("observe"))
    assert watched.began["observe"].wait(WAIT_S)
    watched.follow(config("observe"))
    assert watched.together == [["observe"]]


def test_a_turn_that_ends_late_keeps_its_own_deadline(watched):
    watched.follow(config("observe"))
    assert watched.began["observe"].wait(WAIT_S)
    first = watched._current_run
    watched.follow(config("propose"))
    assert first.deadline is not None
    assert watched._current_run.deadline is None
