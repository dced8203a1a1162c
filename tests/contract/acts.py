"""What scenarios do and wait for, on any site: the words that they are told in."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from lab.waiting import NotYet
from tests.contract.clusters import Answer, ContractCluster, Pair, Work

# Answers that mean: not just now. What was asked for has not happened.
_NOT_NOW: Final = ("rebalance is expected", "stale configuration", "can be safely retried")
STOPPED, RUNNING, PAUSED, FAILED = "STOPPED", "RUNNING", "PAUSED", "FAILED"
ALTERED: Final = "The offsets for this connector have been altered successfully"
RESET: Final = "The offsets for this connector have been reset successfully"


def request(
    cluster: ContractCluster, method: str, name: str, what: str = "", body: Any = None
) -> Answer:
    """One request, again as long as Connect says not now."""

    def probe() -> Answer:
        answer = cluster.request(method, path(name, what), body)
        if not_now(answer):
            raise NotYet(f"{answer}")
        return answer

    return cluster.until(f"{method} {name}{what}", probe)


def not_now(answer: Answer) -> bool:
    return answer.status in {409, 500} and any(words in answer.said for words in _NOT_NOW)


def alter(cluster: ContractCluster, work: Work, *pairs: Pair) -> Answer:
    return request(cluster, "PATCH", work.name, "/offsets", {"offsets": list(pairs)})


def read_states(cluster: ContractCluster, name: str) -> tuple[str, list[str]]:
    """The states of a connector and of its tasks."""
    answer = request(cluster, "GET", name, "/status")
    if answer.status != 200:
        raise NotYet(str(answer))
    return answer.body["connector"]["state"], [task["state"] for task in answer.body["tasks"]]


def awaited(cluster: ContractCluster, name: str, state: str, *tasks: str) -> None:
    """Wait for these states."""

    def probe() -> None:
        results = read_states(cluster, name)
        if results != (state, list(tasks)):
            raise NotYet(str(results))

    cluster.until(f"{name} {state} {tasks}", probe)


def offsets(cluster: ContractCluster, name: str) -> list[Pair]:
    answer = request(cluster, "GET", name, "/offsets")
    assert answer.status == 200, answer
    result: list[Pair] = answer.body["offsets"]
    return result


def holds(cluster: ContractCluster, name: str, *pairs: Pair) -> None:
    """Wait for exactly these offsets."""

    def probe() -> None:
        result = offsets(cluster, name)
        if result != list(pairs):
            raise NotYet(f"{result}, not {pairs}")

    cluster.until(f"{name} at {pairs}", probe)


def came(cluster: ContractCluster, work: Work, numbers: list[int]) -> None:
    """Wait until exactly these have come out, in this order; by their last six digits."""

    def probe() -> None:
        results = [int(text[-6:]) for text in work.came()]
        if results != numbers:
            raise NotYet(str(results))

    cluster.until(f"{numbers} out of {work.name}", probe)


def create(cluster: ContractCluster, work: Work, state: str = RUNNING, **more: str) -> None:
    config = {**work.config, **{name.replace("_", "."): to for name, to in more.items()}}
    body = {"name": work.name, "config": config, "initial_state": state}
    answer = cluster.request("POST", "/connectors", body)
    assert answer.status == 201, answer
    assert answer.body["tasks"] == []
    tasks = {RUNNING: [RUNNING], PAUSED: [], STOPPED: []}[state]
    awaited(cluster, work.name, state, *tasks)


def stop(cluster: ContractCluster, work: Work) -> None:
    assert request(cluster, "PUT", work.name, "/stop").status == 204
    awaited(cluster, work.name, STOPPED)


def resume(cluster: ContractCluster, work: Work) -> None:
    assert request(cluster, "PUT", work.name, "/resume").status == 202
    awaited(cluster, work.name, RUNNING, RUNNING)


def path(name: str, what: str) -> str:
    return f"/connectors/{quote(name, safe='')}{what}"
