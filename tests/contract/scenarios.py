"""What Connect does, told once and tried on every site: the model, and real workers.

Each scenario is a function of a site and a name that is its own. It waits for what it wants to see
and says no more than that, so that a slow worker and a quick model both can show it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from lab.waiting import NotYet
from tests.contract.sites import Answer, Pair, Site, Work

Scenario = Callable[[Site, str], None]

# Answers that mean: not just now. What was asked for has not happened.
_NOT_NOW: Final = ("rebalance is expected", "stale configuration", "can be safely retried")
PIPEFUL: Final = 60  # large records: more than twice what a pipe holds
STOPPED, RUNNING, PAUSED, FAILED = "STOPPED", "RUNNING", "PAUSED", "FAILED"
ALTERED: Final = "The offsets for this connector have been altered successfully"
RESET: Final = "The offsets for this connector have been reset successfully"


def asked(site: Site, method: str, name: str, what: str = "", body: Any = None) -> Answer:
    """One request, again as long as Connect says not now."""

    def probe() -> Answer:
        answer = site.ask(method, _path(name, what), body)
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


def _path(name: str, what: str) -> str:
    return f"/connectors/{quote(name, safe='')}{what}"


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
        answer = site.ask("POST", _path(name, "/tasks/0/restart"))
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


# --- poison ---------------------------------------------------------------------------------------


def failure(site: Site, name: str) -> list[str]:
    """The classes of a failed task's exceptions, outermost first."""

    def probe() -> str:
        shown = asked(site, "GET", name, "/status")
        if shown.status != 200 or not shown.body["tasks"]:
            raise NotYet(str(shown))
        task = shown.body["tasks"][0]
        if task["state"] != FAILED:
            raise NotYet(str(task))
        return str(task["trace"])

    lines = site.until(f"{name} fails", probe).split("\n")
    causes = [at.removeprefix("Caused by: ") for at in lines if at.startswith("Caused by: ")]
    return [text.split(":")[0] for text in (lines[0], *causes)]


def a_sink_fails_at_the_start_of_the_batch_and_skips_exactly_from_there(
    site: Site, name: str
) -> None:
    with site.sink(name) as work:
        create(site, work, STOPPED)
        work.grow(3, bad=True)
        work.grow(2)
        resume_and_fail(site, work)
        assert failure(site, name)[:2] == [
            "org.apache.kafka.connect.errors.ConnectException",
            "org.apache.kafka.connect.errors.DataException",
        ]
        # All of it was one batch, and nothing of it is committed.
        assert (offsets(site, name), work.came()) == ([], [])
        one = {**work.config, "consumer.override.max.poll.records": "1"}
        assert asked(site, "PUT", name, "/config", one).status == 200
        holds(site, name, work.pair(2))
        assert failure(site, name)
        stop(site, work)
        assert offsets(site, name) == [work.pair(2)]
        assert alter(site, work, work.pair(3)).status == 200
        resume(site, work)
        came(site, work, [0, 1, 3, 4])
        holds(site, name, work.pair(5))


def resume_and_fail(site: Site, work: Work) -> None:
    assert asked(site, "PUT", work.name, "/resume").status == 202
    awaited(site, work.name, RUNNING, FAILED)


def a_mirror_fails_at_a_large_record_and_goes_on_behind_it(site: Site, name: str) -> None:
    with site.mirror(name) as work:
        work.grow(3)
        create(site, work)
        holds(site, name, work.pair(2))
        work.grow(1, bad=True)
        work.grow(2)
        awaited(site, name, RUNNING, FAILED)
        assert failure(site, name)[-1] == ("org.apache.kafka.common.errors.RecordTooLargeException")
        holds(site, name, work.pair(2))
        stop(site, work)
        assert alter(site, work, work.pair(3)).status == 200
        resume(site, work)
        came(site, work, [0, 1, 2, 4, 5])
        holds(site, name, work.pair(5))


def a_failed_connector_can_be_restarted_for_nothing(site: Site, name: str) -> None:
    with site.sink(name) as work:
        create(site, work)
        work.grow(1, bad=True)
        awaited(site, name, RUNNING, FAILED)
        plan = asked(site, "POST", name, "/restart?includeTasks=true&onlyFailed=true")
        assert (plan.status, plan.body["connector"]["state"]) == (202, RUNNING)
        assert plan.body["tasks"][0]["state"] == "RESTARTING"
        awaited(site, name, RUNNING, FAILED)
        assert offsets(site, name) == []
        stop(site, work)


# --- zombies --------------------------------------------------------------------------------------


def a_sink_that_never_joined_its_group_is_altered_under_its_zombie(site: Site, name: str) -> None:
    with site.sink(name) as work:
        work.grow(2)
        work.jam("start")
        create_jammed(site, work)
        stop(site, work)
        assert alter(site, work, work.pair(1)).status == 200
        assert offsets(site, name) == [work.pair(1)]
        work.free()
        resume(site, work)
        came(site, work, [1])


def a_sink_that_hangs_as_it_delivers_cannot_be_altered_until_its_zombie_ends(
    site: Site, name: str
) -> None:
    with site.sink(name) as work:
        work.jam("put")
        create(site, work)
        work.fill(PIPEFUL)
        hangs(site, work)
        stop(site, work)
        path = _path(name, "/offsets")
        for method, body in (("PATCH", {"offsets": [work.pair(1)]}), ("DELETE", None)):
            answer = site.ask(method, path, body)
            assert answer.status == 500
            assert "get rid of the zombie sink tasks" in answer.said
        work.free()
        assert alter(site, work, work.pair(PIPEFUL - 1)).status == 200  # asked again until it ends
        resume(site, work)
        # It delivered what it had begun with, and committed nothing of it.
        came(site, work, [*range(PIPEFUL), PIPEFUL - 1])


def create_jammed(site: Site, work: Work) -> None:
    """Its task does not come to say that it runs."""
    answer = site.ask("POST", "/connectors", {"name": work.name, "config": work.config})
    assert answer.status == 201, answer

    def has_a_task() -> None:
        if len(asked(site, "GET", work.name, "/tasks").body) != 1:
            raise NotYet("no task yet")

    site.until(f"{work.name} has a task", has_a_task)
    awaited(site, work.name, RUNNING)


def hangs(site: Site, work: Work) -> None:
    """Wait until it has begun to deliver; what a pipe does not hold does not come out."""

    def begun() -> None:
        if not work.hangs():
            raise NotYet("it does not deliver yet")

    site.until(f"{work.name} hangs", begun)


ZOMBIES: Final[tuple[Scenario, ...]] = (
    a_sink_that_never_joined_its_group_is_altered_under_its_zombie,
    a_sink_that_hangs_as_it_delivers_cannot_be_altered_until_its_zombie_ends,
)
ALL: Final[tuple[Scenario, ...]] = (
    a_sink_fails_at_the_start_of_the_batch_and_skips_exactly_from_there,
    a_mirror_fails_at_a_large_record_and_goes_on_behind_it,
    a_mirror_keeps_the_last_record_and_goes_on_behind_it,
    a_source_goes_on_where_it_is_set,
    a_sink_goes_on_where_it_is_set,
    a_sink_set_past_the_end_delivers_everything_again,
    half_of_a_sinks_alteration_stays_where_the_other_fails,
    a_failed_connector_can_be_restarted_for_nothing,
    a_deleted_connector_leaves_its_offsets_to_a_namesake,
    offsets_change_only_while_it_is_stopped,
    pausing_keeps_tasks_and_stopping_does_not,
    a_restart_changes_no_state_and_says_what_it_does,
    a_connector_can_be_created_stopped_and_given_offsets_first,
    a_connector_can_be_created_once,
    an_invalid_configuration_is_refused,
    what_is_not_there_is_not_found,
)
