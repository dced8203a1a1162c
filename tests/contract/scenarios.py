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
    asked,
    awaited,
    came,
    create,
    holds,
    offsets,
    path,
    resume,
    stop,
)
from tests.contract.scenarios_trouble import TROUBLE, Scenario
from tests.contract.sites import Answer, Site

# --- states ---------------------------------------------------------------------------------------


def a_connector_can_be_created_once(site: Site, name: str) -> None:
    with site.source(name) as work:
        create(site, work)
        body = {"name": name, "config": work.config}
        again = site.ask("POST", "/connectors", body)
        assert (again.status, again.said) == (409, f"Connector {name} already exists")
        changed = asked(site, "PUT", name, "/config", work.config)
        assert (changed.status, changed.body["type"]) == (200, "source")
        other = site.ask("POST", "/connectors", {"name": name, "config": {"name": "x"}})
        assert other.status == 400


def an_invalid_configuration_is_refused(site: Site, name: str) -> None:
    config = {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector"}
    answer = asked(site, "PUT", name, "/config", config)
    assert answer.status == 400
    assert "Connector configuration is invalid and contains the following 1 error(s)" in answer.said
    assert asked(site, "GET", name, "/status").status == 404


def what_is_not_there_is_not_found(site: Site, name: str) -> None:
    for method, what, said in (
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
        answer = asked(site, method, name, what)
        assert (answer.status, answer.said) == (404, said), (method, what)
    assert asked(site, "POST", name, "/stop").status == 405


def a_connector_can_be_created_stopped_and_given_offsets_first(site: Site, name: str) -> None:
    with site.source(name) as work:
        work.grow(4)
        create(site, work, STOPPED)
        assert offsets(site, name) == []
        assert alter(site, work, work.pair(3)) == Answer(200, {"message": ALTERED})
        resume(site, work)
        came(site, work, [3])


def pausing_keeps_tasks_and_stopping_does_not(site: Site, name: str) -> None:
    with site.source(name) as work:
        create(site, work)
        for _ in range(2):
            assert asked(site, "PUT", name, "/pause") == Answer(202, "")
            awaited(site, name, PAUSED, PAUSED)
        for _ in range(2):
            stop(site, work)
            assert asked(site, "GET", name, "/tasks") == Answer(200, [])
        assert asked(site, "PUT", name, "/pause").status == 202
        awaited(site, name, PAUSED)
        resume(site, work)
        (task,) = asked(site, "GET", name, "/tasks").body
        assert task["id"] == {"connector": name, "task": 0}


def a_restart_changes_no_state_and_says_what_it_does(site: Site, name: str) -> None:
    with site.source(name) as work:
        create(site, work)
        plan = asked(site, "POST", name, "/restart?includeTasks=true&onlyFailed=false")
        assert plan.status == 202
        assert plan.body["connector"]["state"] == "RESTARTING"
        assert [task["state"] for task in plan.body["tasks"]] == ["RESTARTING"]
        awaited(site, name, RUNNING, RUNNING)
        idle = asked(site, "POST", name, "/restart?includeTasks=true&onlyFailed=true")
        assert (idle.status, idle.body["connector"]["state"]) == (202, RUNNING)
        assert asked(site, "POST", name, "/tasks/0/restart") == Answer(204, "")
        awaited(site, name, RUNNING, RUNNING)
        missing = asked(site, "POST", name, "/tasks/7/restart")
        assert (missing.status, missing.said) == (404, f"Unknown task: {name}-7")
        stop(site, work)
        unowned(site, name)
        assert asked(site, "POST", name, "/restart") == Answer(204, "")
        assert asked(site, "POST", name, "/restart?includeTasks=true").status == 202
        awaited(site, name, STOPPED)


def unowned(site: Site, name: str) -> None:
    """Wait until the task that it had belongs to nobody, though it is known."""

    def probe() -> None:
        answer = site.ask("POST", path(name, "/tasks/0/restart"))
        if "no known leader URL" not in answer.said:
            raise NotYet(f"{answer}")

    site.until(f"{name}-0 of nobody", probe)


def a_deleted_connector_leaves_its_offsets_to_a_namesake(site: Site, name: str) -> None:
    with site.source(name) as work:
        work.grow(3)
        create(site, work)
        holds(site, name, work.pair(3))
        assert asked(site, "DELETE", name) == Answer(204, "")

        def gone() -> None:
            if asked(site, "GET", name, "/status").status != 404:
                raise NotYet("there")

        site.until(f"{name} gone", gone)
        work.grow(1)
        create(site, work)
        holds(site, name, work.pair(4))
        came(site, work, [0, 1, 2, 3])


# --- offsets --------------------------------------------------------------------------------------


def offsets_change_only_while_it_is_stopped(site: Site, name: str) -> None:
    with site.source(name) as work:
        create(site, work)
        for verb in ("resume", "pause"):
            asked(site, "PUT", name, f"/{verb}")
            for answer in (
                alter(site, work, work.pair(1)),
                asked(site, "DELETE", name, "/offsets"),
            ):
                assert answer.status == 400
                assert answer.said.startswith("Connectors must be in the STOPPED state before")
        stop(site, work)
        assert alter(site, work, work.pair(1)).status == 200


def a_source_goes_on_where_it_is_set(site: Site, name: str) -> None:
    with site.source(name) as work:
        work.grow(4)
        create(site, work)
        holds(site, name, work.pair(4))
        stop(site, work)
        assert alter(site, work, work.pair(2)) == Answer(200, {"message": ALTERED})
        assert alter(site, work, work.pair(2)).status == 200
        assert offsets(site, name) == [work.pair(2)]
        resume(site, work)
        came(site, work, [0, 1, 2, 3, 2, 3])
        stop(site, work)
        assert asked(site, "DELETE", name, "/offsets") == Answer(200, {"message": RESET})
        assert asked(site, "DELETE", name, "/offsets") == Answer(200, {"message": RESET})
        assert offsets(site, name) == []
        resume(site, work)
        came(site, work, [0, 1, 2, 3, 2, 3, 0, 1, 2, 3])


def a_sink_goes_on_where_it_is_set(site: Site, name: str) -> None:
    with site.sink(name) as work:
        work.grow(4)
        create(site, work)
        holds(site, name, work.pair(4))
        stop(site, work)
        assert alter(site, work, work.pair(2)) == Answer(200, {"message": ALTERED})
        resume(site, work)
        came(site, work, [0, 1, 2, 3, 2, 3])
        stop(site, work)
        assert asked(site, "DELETE", name, "/offsets") == Answer(200, {"message": RESET})
        assert offsets(site, name) == []
        assert asked(site, "DELETE", name, "/offsets") == Answer(200, {"message": RESET})
        nobody = alter(site, work, work.pair(None))  # there is no group any more
        assert nobody.status == 500
        resume(site, work)
        came(site, work, [0, 1, 2, 3, 2, 3, 0, 1, 2, 3])


def a_sink_set_past_the_end_delivers_everything_again(site: Site, name: str) -> None:
    with site.sink(name) as work:
        work.grow(3)
        create(site, work)
        holds(site, name, work.pair(3))
        stop(site, work)
        assert alter(site, work, work.pair(1000)).status == 200
        resume(site, work)
        came(site, work, [0, 1, 2, 0, 1, 2])
        holds(site, name, work.pair(3))


def half_of_a_sinks_alteration_stays_where_the_other_fails(site: Site, name: str) -> None:
    with site.sink(name) as work:
        work.grow(3)
        create(site, work)
        holds(site, name, work.pair(3))
        stop(site, work)
        good, bad = work.pair(1), work.pair(1)
        bad["partition"] = {**bad["partition"], "kafka_partition": 7}
        answer = alter(site, work, good, bad)
        assert answer.status == 500
        assert answer.said == f"Failed to alter consumer group offsets for connector {name}"
        assert offsets(site, name) == [good]


def a_mirror_keeps_the_last_record_and_goes_on_behind_it(site: Site, name: str) -> None:
    with site.mirror(name) as work:
        work.grow(4)
        create(site, work)
        holds(site, name, work.pair(3))
        stop(site, work)
        assert alter(site, work, work.pair(1)).status == 200
        resume(site, work)
        came(site, work, [0, 1, 2, 3, 2, 3])
        holds(site, name, work.pair(3))
        stop(site, work)
        assert alter(site, work, work.pair(None)).status == 200
        resume(site, work)
        came(site, work, [0, 1, 2, 3, 2, 3, 0, 1, 2, 3])


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
