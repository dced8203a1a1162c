"""What Connect does, told once and tried on every site: the model, and real workers.

Each scenario is a function of a site and a name that is its own. It waits for what it wants to see
and says no more than that, so that a slow worker and a quick model both can show it.
"""

from __future__ import annotations

from typing import Final

from lab.waiting import NotYet
from tests.contract.acts import (
    ALTERED,
    PAUSED,
    RESET,
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
from tests.contract.clusters import Answer, ContractCluster
from tests.contract.scenarios_trouble import TROUBLE, Scenario

# --- states ---------------------------------------------------------------------------------------


def a_connector_can_be_created_once(cluster: ContractCluster, name: str) -> None:
    with cluster.source(name) as work:
        create(cluster, work)
        body = {"name": name, "config": work.config}
        again = cluster.request("POST", "/connectors", body)
        assert (again.status, again.said) == (409, f"Connector {name} already exists")
        changed = request(cluster, "PUT", name, "/config", work.config)
        assert (changed.status, changed.body["type"]) == (200, "source")
        other = cluster.request("POST", "/connectors", {"name": name, "config": {"name": "x"}})
        assert other.status == 400


def an_invalid_configuration_is_refused(cluster: ContractCluster, name: str) -> None:
    config = {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector"}
    answer = request(cluster, "PUT", name, "/config", config)
    assert answer.status == 400
    assert "Connector configuration is invalid and contains the following 1 error(s)" in answer.said
    assert request(cluster, "GET", name, "/status").status == 404


def what_is_not_there_is_not_found(cluster: ContractCluster, name: str) -> None:
    for method, what, text in (
        ("GET", "", f"Connector {name} not found"),
        ("GET", "/config", f"Connector {name} not found"),
        ("GET", "/tasks", f"Connector {name} not found"),
        ("GET", "/status", f"No status found for connector {name}"),
        ("GET", "/offsets", f"Connector {name} not found"),
        ("DELETE", "/offsets", f"Connector {name} not found"),
        ("DELETE", "", f"Connector {name} not found"),
        ("PUT", "/stop", f"Unknown connector {name}"),
        ("PUT", "/pause", f"Unknown connector {name}"),
        ("PUT", "/resume", f"Unknown connector {name}"),
        ("POST", "/restart?includeTasks=true", f"Unknown connector: {name}"),
        ("POST", "/restart", f"Unknown connector: {name}"),
        ("POST", "/tasks/0/restart", f"Unknown connector: {name}"),
        ("PUT", "/offsets/stop", "HTTP 404 Not Found"),
    ):
        answer = request(cluster, method, name, what)
        assert (answer.status, answer.said) == (404, text), (method, what)
    assert request(cluster, "POST", name, "/stop").status == 405


def a_connector_can_be_created_stopped_and_given_offsets_first(
    cluster: ContractCluster, name: str
) -> None:
    with cluster.source(name) as work:
        work.grow(4)
        create(cluster, work, STOPPED)
        assert offsets(cluster, name) == []
        assert alter(cluster, work, work.pair(3)) == Answer(200, {"message": ALTERED})
        resume(cluster, work)
        came(cluster, work, [3])


def pausing_keeps_tasks_and_stopping_does_not(cluster: ContractCluster, name: str) -> None:
    with cluster.source(name) as work:
        create(cluster, work)
        for _ in range(2):
            assert request(cluster, "PUT", name, "/pause") == Answer(202, "")
            awaited(cluster, name, PAUSED, PAUSED)
        for _ in range(2):
            stop(cluster, work)
            assert request(cluster, "GET", name, "/tasks") == Answer(200, [])
        assert request(cluster, "PUT", name, "/pause").status == 202
        awaited(cluster, name, PAUSED)
        resume(cluster, work)
        (task,) = request(cluster, "GET", name, "/tasks").body
        assert task["id"] == {"connector": name, "task": 0}


def a_restart_changes_no_state_and_says_what_it_does(cluster: ContractCluster, name: str) -> None:
    with cluster.source(name) as work:
        create(cluster, work)
        plan = request(cluster, "POST", name, "/restart?includeTasks=true&onlyFailed=false")
        assert plan.status == 202
        assert plan.body["connector"]["state"] == "RESTARTING"
        assert [task["state"] for task in plan.body["tasks"]] == ["RESTARTING"]
        awaited(cluster, name, RUNNING, RUNNING)
        idle = request(cluster, "POST", name, "/restart?includeTasks=true&onlyFailed=true")
        assert (idle.status, idle.body["connector"]["state"]) == (202, RUNNING)
        assert request(cluster, "POST", name, "/tasks/0/restart") == Answer(204, "")
        awaited(cluster, name, RUNNING, RUNNING)
        missing = request(cluster, "POST", name, "/tasks/7/restart")
        assert (missing.status, missing.said) == (404, f"Unknown task: {name}-7")
        stop(cluster, work)
        unowned(cluster, name)
        assert request(cluster, "POST", name, "/restart") == Answer(204, "")
        assert request(cluster, "POST", name, "/restart?includeTasks=true").status == 202
        awaited(cluster, name, STOPPED)


def unowned(cluster: ContractCluster, name: str) -> None:
    """Wait until the task that it had belongs to nobody, though it is known."""

    def probe() -> None:
        answer = cluster.request("POST", path(name, "/tasks/0/restart"))
        if "no known leader URL" not in answer.said:
            raise NotYet(f"{answer}")

    cluster.until(f"{name}-0 of nobody", probe)


def a_deleted_connector_leaves_its_offsets_to_a_namesake(
    cluster: ContractCluster, name: str
) -> None:
    with cluster.source(name) as work:
        work.grow(3)
        create(cluster, work)
        holds(cluster, name, work.pair(3))
        assert request(cluster, "DELETE", name) == Answer(204, "")

        def gone() -> None:
            if request(cluster, "GET", name, "/status").status != 404:
                raise NotYet("there")

        cluster.until(f"{name} gone", gone)
        work.grow(1)
        create(cluster, work)
        holds(cluster, name, work.pair(4))
        came(cluster, work, [0, 1, 2, 3])


# --- offsets --------------------------------------------------------------------------------------


def offsets_change_only_while_it_is_stopped(cluster: ContractCluster, name: str) -> None:
    with cluster.source(name) as work:
        create(cluster, work)
        for verb in ("resume", "pause"):
            request(cluster, "PUT", name, f"/{verb}")
            for answer in (
                alter(cluster, work, work.pair(1)),
                request(cluster, "DELETE", name, "/offsets"),
            ):
                assert answer.status == 400
                assert answer.said.startswith("Connectors must be in the STOPPED state before")
        stop(cluster, work)
        assert alter(cluster, work, work.pair(1)).status == 200


def a_source_goes_on_where_it_is_set(cluster: ContractCluster, name: str) -> None:
    with cluster.source(name) as work:
        work.grow(4)
        create(cluster, work)
        holds(cluster, name, work.pair(4))
        stop(cluster, work)
        assert alter(cluster, work, work.pair(2)) == Answer(200, {"message": ALTERED})
        assert alter(cluster, work, work.pair(2)).status == 200
        assert offsets(cluster, name) == [work.pair(2)]
        resume(cluster, work)
        came(cluster, work, [0, 1, 2, 3, 2, 3])
        stop(cluster, work)
        assert request(cluster, "DELETE", name, "/offsets") == Answer(200, {"message": RESET})
        assert request(cluster, "DELETE", name, "/offsets") == Answer(200, {"message": RESET})
        assert offsets(cluster, name) == []
        resume(cluster, work)
        came(cluster, work, [0, 1, 2, 3, 2, 3, 0, 1, 2, 3])


def a_sink_goes_on_where_it_is_set(cluster: ContractCluster, name: str) -> None:
    with cluster.sink(name) as work:
        work.grow(4)
        create(cluster, work)
        holds(cluster, name, work.pair(4))
        stop(cluster, work)
        assert alter(cluster, work, work.pair(2)) == Answer(200, {"message": ALTERED})
        resume(cluster, work)
        came(cluster, work, [0, 1, 2, 3, 2, 3])
        stop(cluster, work)
        assert request(cluster, "DELETE", name, "/offsets") == Answer(200, {"message": RESET})
        assert offsets(cluster, name) == []
        assert request(cluster, "DELETE", name, "/offsets") == Answer(200, {"message": RESET})
        answer = alter(cluster, work, work.pair(None))  # there is no group any more
        assert answer.status == 500
        resume(cluster, work)
        came(cluster, work, [0, 1, 2, 3, 2, 3, 0, 1, 2, 3])


def a_sink_set_past_the_end_delivers_everything_again(cluster: ContractCluster, name: str) -> None:
    with cluster.sink(name) as work:
        work.grow(3)
        create(cluster, work)
        holds(cluster, name, work.pair(3))
        stop(cluster, work)
        assert alter(cluster, work, work.pair(1000)).status == 200
        resume(cluster, work)
        came(cluster, work, [0, 1, 2, 0, 1, 2])
        holds(cluster, name, work.pair(3))


def half_of_a_sinks_alteration_stays_where_the_other_fails(
    cluster: ContractCluster, name: str
) -> None:
    with cluster.sink(name) as work:
        work.grow(3)
        create(cluster, work)
        holds(cluster, name, work.pair(3))
        stop(cluster, work)
        good, bad = work.pair(1), work.pair(1)
        bad["partition"] = {**bad["partition"], "kafka_partition": 7}
        answer = alter(cluster, work, good, bad)
        assert answer.status == 500
        assert answer.said == f"Failed to alter consumer group offsets for connector {name}"
        assert offsets(cluster, name) == [good]


def a_mirror_keeps_the_last_record_and_goes_on_behind_it(
    cluster: ContractCluster, name: str
) -> None:
    with cluster.mirror(name) as work:
        work.grow(4)
        create(cluster, work)
        holds(cluster, name, work.pair(3))
        stop(cluster, work)
        assert alter(cluster, work, work.pair(1)).status == 200
        resume(cluster, work)
        came(cluster, work, [0, 1, 2, 3, 2, 3])
        holds(cluster, name, work.pair(3))
        stop(cluster, work)
        assert alter(cluster, work, work.pair(None)).status == 200
        resume(cluster, work)
        came(cluster, work, [0, 1, 2, 3, 2, 3, 0, 1, 2, 3])


ALL: Final[tuple[Scenario, ...]] = (
    *TROUBLE,
    a_mirror_keeps_the_last_record_and_goes_on_behind_it,
    a_source_goes_on_where_it_is_set,
    a_sink_goes_on_where_it_is_set,
    a_sink_set_past_the_end_delivers_everything_again,
    half_of_a_sinks_alteration_stays_where_the_other_fails,
    a_deleted_connector_leaves_its_offsets_to_a_namesake,
    offsets_change_only_while_it_is_stopped,
    pausing_keeps_tasks_and_stopping_does_not,
    a_restart_changes_no_state_and_says_what_it_does,
    a_connector_can_be_created_stopped_and_given_offsets_first,
    a_connector_can_be_created_once,
    an_invalid_configuration_is_refused,
    what_is_not_there_is_not_found,
)
