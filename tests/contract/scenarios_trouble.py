"""The scenarios of the contract in which something goes wrong: records that cannot be got past, and
tasks that hang.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from lab.waiting import NotYet
from tests.contract.acts import (
    FAILED,
    RUNNING,
    STOPPED,
    alter,
    awaited,
    came,
    create,
    holds,
    offsets,
    path,
    request,
    resume,
    stop,
)
from tests.contract.clusters import ContractCluster, Work

Scenario = Callable[[ContractCluster, str], None]

PIPEFUL: Final = 60  # large records: more than twice what a pipe holds


# --- poison ---------------------------------------------------------------------------------------


def failure(cluster: ContractCluster, name: str) -> list[str]:
    """The classes of a failed task's exceptions, outermost first."""

    def probe() -> str:
        answer = request(cluster, "GET", name, "/status")
        if answer.status != 200 or not answer.body["tasks"]:
            raise NotYet(str(answer))
        task = answer.body["tasks"][0]
        if task["state"] != FAILED:
            raise NotYet(str(task))
        return str(task["trace"])

    lines = cluster.until(f"{name} fails", probe).split("\n")
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return [text.split(":")[0] for text in (lines[0], *causes)]


def a_sink_fails_at_the_start_of_the_batch_and_skips_exactly_from_there(
    cluster: ContractCluster, name: str
) -> None:
    with cluster.sink(name) as work:
        create(cluster, work, STOPPED)
        work.grow(3, bad=True)
        work.grow(2)
        resume_and_fail(cluster, work)
        assert failure(cluster, name)[:2] == [
            "org.apache.kafka.connect.errors.ConnectException",
            "org.apache.kafka.connect.errors.DataException",
        ]
        # All of it was one batch, and nothing of it is committed.
        assert (offsets(cluster, name), work.came()) == ([], [])
        one = {**work.config, "consumer.override.max.poll.records": "1"}
        assert request(cluster, "PUT", name, "/config", one).status == 200
        holds(cluster, name, work.pair(2))
        assert failure(cluster, name)
        stop(cluster, work)
        assert offsets(cluster, name) == [work.pair(2)]
        assert alter(cluster, work, work.pair(3)).status == 200
        resume(cluster, work)
        came(cluster, work, [0, 1, 3, 4])
        holds(cluster, name, work.pair(5))


def resume_and_fail(cluster: ContractCluster, work: Work) -> None:
    assert request(cluster, "PUT", work.name, "/resume").status == 202
    awaited(cluster, work.name, RUNNING, FAILED)


def a_mirror_fails_at_a_large_record_and_goes_on_behind_it(
    cluster: ContractCluster, name: str
) -> None:
    with cluster.mirror(name) as work:
        work.grow(3)
        create(cluster, work)
        holds(cluster, name, work.pair(2))
        work.grow(1, bad=True)
        work.grow(2)
        awaited(cluster, name, RUNNING, FAILED)
        assert failure(cluster, name)[-1] == (
            "org.apache.kafka.common.errors.RecordTooLargeException"
        )
        holds(cluster, name, work.pair(2))
        stop(cluster, work)
        assert alter(cluster, work, work.pair(3)).status == 200
        resume(cluster, work)
        came(cluster, work, [0, 1, 2, 4, 5])
        holds(cluster, name, work.pair(5))


def a_failed_connector_can_be_restarted_for_nothing(cluster: ContractCluster, name: str) -> None:
    with cluster.sink(name) as work:
        create(cluster, work)
        work.grow(1, bad=True)
        awaited(cluster, name, RUNNING, FAILED)
        plan = request(cluster, "POST", name, "/restart?includeTasks=true&onlyFailed=true")
        assert (plan.status, plan.body["connector"]["state"]) == (202, RUNNING)
        assert plan.body["tasks"][0]["state"] == "RESTARTING"
        awaited(cluster, name, RUNNING, FAILED)
        assert offsets(cluster, name) == []
        stop(cluster, work)


# --- zombies --------------------------------------------------------------------------------------


def a_sink_that_never_joined_its_group_is_altered_under_its_zombie(
    cluster: ContractCluster, name: str
) -> None:
    with cluster.sink(name) as work:
        work.grow(2)
        work.jam("start")
        create_jammed(cluster, work)
        stop(cluster, work)
        assert alter(cluster, work, work.pair(1)).status == 200
        assert offsets(cluster, name) == [work.pair(1)]
        work.free()
        resume(cluster, work)
        came(cluster, work, [1])


def a_sink_that_hangs_as_it_delivers_cannot_be_altered_until_its_zombie_ends(
    cluster: ContractCluster, name: str
) -> None:
    with cluster.sink(name) as work:
        work.jam("put")
        create(cluster, work)
        work.fill(PIPEFUL)
        hangs(cluster, work)
        stop(cluster, work)
        for method, body in (("PATCH", {"offsets": [work.pair(1)]}), ("DELETE", None)):
            expect_zombie_refusal(cluster, work, method, body)
        work.free()
        assert (
            alter(cluster, work, work.pair(PIPEFUL - 1)).status == 200
        )  # asked again until it ends
        resume(cluster, work)
        # It delivered what it had begun with, and committed nothing of it.
        came(cluster, work, [*range(PIPEFUL), PIPEFUL - 1])


def expect_zombie_refusal(cluster: ContractCluster, work: Work, method: str, body: Any) -> None:
    """Refused because of it, and not because others rebalance."""

    def probe() -> str:
        answer = cluster.request(method, path(work.name, "/offsets"), body)
        if answer.status == 409:
            raise NotYet(str(answer))
        assert answer.status == 500, answer
        return answer.said

    text = cluster.until(f"{method} of {work.name} is refused", probe)
    assert "get rid of the zombie sink tasks" in text


def create_jammed(cluster: ContractCluster, work: Work) -> None:
    """Its task does not come to say that it runs."""
    answer = cluster.request("POST", "/connectors", {"name": work.name, "config": work.config})
    assert answer.status == 201, answer

    def has_a_task() -> None:
        if len(request(cluster, "GET", work.name, "/tasks").body) != 1:
            raise NotYet("no task yet")

    cluster.until(f"{work.name} has a task", has_a_task)
    awaited(cluster, work.name, RUNNING)


def hangs(cluster: ContractCluster, work: Work) -> None:
    """Wait until it has begun to deliver; what a pipe does not hold does not come out."""

    def begun() -> None:
        if not work.hangs():
            raise NotYet("it does not deliver yet")

    cluster.until(f"{work.name} hangs", begun)


ZOMBIES: Final[tuple[Scenario, ...]] = (
    a_sink_that_never_joined_its_group_is_altered_under_its_zombie,
    a_sink_that_hangs_as_it_delivers_cannot_be_altered_until_its_zombie_ends,
)
TROUBLE: Final[tuple[Scenario, ...]] = (
    a_sink_fails_at_the_start_of_the_batch_and_skips_exactly_from_there,
    a_mirror_fails_at_a_large_record_and_goes_on_behind_it,
    a_failed_connector_can_be_restarted_for_nothing,
)
