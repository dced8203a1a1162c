"""What scenarios do and wait for, on any site: the words that they are told in."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from lab.waiting import NotYet
from tests.contract.sites import Answer, Pair, Site, Work

# Answers that mean: not just now. What was asked for has not happened.
_NOT_NOW: Final = ("rebalance is expected", "stale configuration", "can be safely retried")
STOPPED, RUNNING, PAUSED, FAILED = "STOPPED", "RUNNING", "PAUSED", "FAILED"
ALTERED: Final = "The offsets for this connector have been altered successfully"
RESET: Final = "The offsets for this connector have been reset successfully"


def asked(site: Site, method: str, name: str, what: str = "", body: Any = None) -> Answer:
    """One request, again as long as Connect says not now."""

    def probe() -> Answer:
        answer = site.ask(method, path(name, what), body)
        if not_now(answer):
            raise NotYet(f"{answer}")
        return answer

    return site.until(f"{method} {name}{what}", probe)


def not_now(answer: Answer) -> bool:
    return answer.status in {409, 500} and any(words in answer.said for words in _NOT_NOW)


def alter(site: Site, work: Work, *pairs: Pair) -> Answer:
    return asked(site, "PATCH", work.name, "/offsets", {"offsets": list(pairs)})


def seen(site: Site, name: str) -> tuple[str, list[str]]:
    """The states of a connector and of its tasks."""
    shown = asked(site, "GET", name, "/status")
    if shown.status != 200:
        raise NotYet(str(shown))
    return shown.body["connector"]["state"], [task["state"] for task in shown.body["tasks"]]


def awaited(site: Site, name: str, state: str, *tasks: str) -> None:
    """Wait for these states."""

    def probe() -> None:
        found = seen(site, name)
        if found != (state, list(tasks)):
            raise NotYet(str(found))

    site.until(f"{name} {state} {tasks}", probe)


def offsets(site: Site, name: str) -> list[Pair]:
    answer = asked(site, "GET", name, "/offsets")
    assert answer.status == 200, answer
    found: list[Pair] = answer.body["offsets"]
    return found


def holds(site: Site, name: str, *pairs: Pair) -> None:
    """Wait for exactly these offsets."""

    def probe() -> None:
        found = offsets(site, name)
        if found != list(pairs):
            raise NotYet(f"{found}, not {pairs}")

    site.until(f"{name} at {pairs}", probe)


def came(site: Site, work: Work, numbers: list[int]) -> None:
    """Wait until exactly these have come out, in this order; by their last six digits."""

    def probe() -> None:
        found = [int(text[-6:]) for text in work.came()]
        if found != numbers:
            raise NotYet(str(found))

    site.until(f"{numbers} out of {work.name}", probe)


def create(site: Site, work: Work, state: str = RUNNING, **more: str) -> None:
    config = {**work.config, **{name.replace("_", "."): to for name, to in more.items()}}
    body = {"name": work.name, "config": config, "initial_state": state}
    answer = site.ask("POST", "/connectors", body)
    assert answer.status == 201, answer
    assert answer.body["tasks"] == []
    tasks = {RUNNING: [RUNNING], PAUSED: [], STOPPED: []}[state]
    awaited(site, work.name, state, *tasks)


def stop(site: Site, work: Work) -> None:
    assert asked(site, "PUT", work.name, "/stop").status == 204
    awaited(site, work.name, STOPPED)


def resume(site: Site, work: Work) -> None:
    assert asked(site, "PUT", work.name, "/resume").status == 202
    awaited(site, work.name, RUNNING, RUNNING)


def path(name: str, what: str) -> str:
    return f"/connectors/{quote(name, safe='')}{what}"
