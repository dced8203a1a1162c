"""Sequences of requests, drawn from a seed: played on the model, whose answers and states are then
what a real cluster has to show.

Where a connector starts to work, the next request waits until the work is done and committed. The
others follow each other at once as often as not; then Connect may say that it cannot just now, and
is asked again. What it says in the end, what state it ends in, which offsets it has, and which
records came out in which order, is compared.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from lab.waiting import NotYet
from tests.contract import acts
from tests.contract.clusters import FLUSH_S, ContractCluster, ModelCluster, Work

LENGTH_MAX: Final = 12
# What comes of these does not depend on whether a task has noticed yet what went before.
_AT_ONCE: Final = frozenset(
    {"stop", "pause", "resume", "alter", "past", "null", "wrong", "reset", "read", "delete"}
)
# After these nothing is to be done: a following request need not wait.
_QUIET: Final = frozenset({"stop", "pause", "alter", "null", "reset", "wrong", "read"})
OPS: Final = {
    "create": 3,
    "stop": 6,
    "resume": 5,
    "pause": 2,
    "restart": 2,
    "restart_failed": 1,
    "restart_task": 1,
    "alter": 6,
    "past": 1,
    "null": 1,
    "wrong": 1,
    "reset": 2,
    "grow": 4,
    "config": 1,
    "read": 1,
    "delete": 1,
}


@dataclass(frozen=True)
class Op:
    """`number` is how far, where that makes sense; `waits` whether the next one does."""

    what: str
    number: int
    waits: bool


class OperationResult(NamedTuple):
    """What is seen after one op. None where nobody looked: the next op came at once."""

    op: Op
    status: int
    said: str
    state: tuple[str, list[str]] | None
    offsets: list[Any] | None
    came: list[str] | None


def drawn(seed: int) -> tuple[str, list[Op]]:
    """A kind of connector, and what is done with one."""
    chance = random.Random(seed)
    kind = chance.choice(["source", "source", "sink", "sink", "mirror"])
    state = chance.choice(["create", "create", "create_stopped", "create_paused"])
    ops = [Op(state, 0, waits=True)]
    names, weights = list(OPS), list(OPS.values())
    for _ in range(chance.randrange(4, LENGTH_MAX)):
        (what,) = chance.choices(names, weights)
        if what == "past" and kind == "source":
            what = "alter"  # it would spin for ever
        if what not in _AT_ONCE:
            ops[-1] = replace(ops[-1], waits=True)
        waits = what not in _QUIET or chance.random() < 0.5
        ops.append(Op(what, chance.randrange(4), waits))
    ops[-1] = replace(ops[-1], waits=True)
    return kind, ops


def expected(seed: int, name: str, version: str) -> list[OperationResult]:
    """On the model."""
    cluster = ModelCluster(version)
    kind, ops = drawn(seed)
    with getattr(cluster, kind)(name) as work:
        work.grow(2)
        rows = []
        for op in ops:
            answer = _done(cluster, work, op)
            if op.waits:
                # Twice what a task needs to start, to do its work and to commit it.
                cluster.connect.advance(4 * FLUSH_S)
                rows.append(OperationResult(op, *answer, *_observe(cluster, work)))
            else:
                rows.append(OperationResult(op, *answer, None, None, None))
        return rows


def play(cluster: ContractCluster, seed: int, name: str, version: str) -> None:
    """On another site: what it shows has to become what the model has shown."""
    kind, _ = drawn(seed)
    with getattr(cluster, kind)(name) as work:
        work.grow(2)
        for number, required in enumerate(expected(seed, name, version)):
            where = f"seed {seed}, {kind}, step {number}: {required.op}"
            status, answer = _done(cluster, work, required.op)
            assert (status, answer) == (required.status, required.said), where
            if required.op.waits:
                cluster.until(where, lambda wanted=required: _compare(cluster, work, wanted))


def _compare(cluster: ContractCluster, work: Work, required: OperationResult) -> None:
    state, offsets, result = _observe(cluster, work)
    assert required.came is not None
    assert len(result) <= len(required.came), f"more came than {required.came}: {result}"
    if (state, offsets, result) != (required.state, required.offsets, required.came):
        raise NotYet(f"{state} {offsets} {result}, not {required}")


# Method, path, and body (of the work and a number).
_REQUESTS: Final[dict[str, tuple[str, str, Callable[[Work, int], Any]]]] = {
    "stop": ("PUT", "/stop", lambda _work, _at: None),
    "resume": ("PUT", "/resume", lambda _work, _at: None),
    "pause": ("PUT", "/pause", lambda _work, _at: None),
    "restart": ("POST", "/restart?includeTasks=true", lambda _work, _at: None),
    "restart_failed": (
        "POST",
        "/restart?includeTasks=true&onlyFailed=true",
        lambda _work, _at: None,
    ),
    "restart_task": ("POST", "/tasks/0/restart", lambda _work, _at: None),
    "alter": ("PATCH", "/offsets", lambda work, offset: {"offsets": [work.pair(offset)]}),
    "past": ("PATCH", "/offsets", lambda work, _at: {"offsets": [work.pair(1000)]}),
    "null": ("PATCH", "/offsets", lambda work, _at: {"offsets": [work.pair(None)]}),
    "wrong": ("PATCH", "/offsets", lambda _work, _at: {"offsets": [{"partition": {"x": 1}}, 7]}),
    "reset": ("DELETE", "/offsets", lambda _work, _at: None),
    "read": ("GET", "/offsets", lambda _work, _at: None),
    "delete": ("DELETE", "", lambda _work, _at: None),
}


def _done(cluster: ContractCluster, work: Work, op: Op) -> tuple[int, str]:
    """(status, words) of one op; growing is no request."""
    if op.what in _REQUESTS:
        method, path, built = _REQUESTS[op.what]
        answer = acts.request(cluster, method, work.name, path, built(work, op.number))
        return answer.status, answer.said
    if op.what == "grow":
        work.grow(1 + op.number)
        return 0, ""
    if op.what == "config":
        answer = acts.request(cluster, "GET", work.name, "/config")
        if answer.status == 200:  # else it would be created
            answer = acts.request(cluster, "PUT", work.name, "/config", work.config)
        return answer.status, answer.said
    state = {"create_stopped": "STOPPED", "create_paused": "PAUSED"}.get(op.what, "RUNNING")
    body = {"name": work.name, "config": work.config, "initial_state": state}
    answer = cluster.request("POST", "/connectors", body)
    return answer.status, answer.said


def _observe(
    cluster: ContractCluster, work: Work
) -> tuple[tuple[str, list[str]] | None, list[Any] | None, list[str]]:
    answer = acts.request(cluster, "GET", work.name, "/status")
    state = None
    if answer.status == 200:
        tasks = [task["state"] for task in answer.body["tasks"]]
        state = (answer.body["connector"]["state"], tasks)
    offsets = acts.request(cluster, "GET", work.name, "/offsets")
    result = None
    if offsets.status == 200:
        result = [entry["offset"] for entry in offsets.body["offsets"]]
    return state, result, [text[-6:] for text in work.came()]
