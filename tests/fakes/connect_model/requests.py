"""What the herder thread does for each request, in the order in which Connect checks things.

Each is a process of that thread. It raises Refusal, or returns what the request is answered with,
or None where somebody else completes the callback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fakes.connect_model import configs, jobs
from tests.fakes.connect_model.answers import FENCING, NOT_STOPPED, Callback, NotHere, Refusal
from tests.fakes.connect_model.configs import STARTED, STOPPED
from tests.fakes.connect_model.timeline import Steps

if TYPE_CHECKING:
    from tests.fakes.connect_model.worker import Worker

OffsetPairs = list[tuple[Any, Any]] | None


def stop(worker: Worker, name: str, by: str) -> Steps:
    """Two writes: no tasks, then the state. A crash between them leaves a connector that runs with
    no tasks.
    """
    if name not in worker.state.configs:
        raise Refusal(404, f"Unknown connector {name}")
    _as_leader(worker)
    yield from worker.write_tasks(name, [], by)
    half = worker.connect.half_stops.pop(name, None)
    if half == "crash":
        worker.kill()
        yield 0.0
    if half == "fail":
        raise Refusal(500, "Error writing target state to Kafka")
    yield from worker.write([configs.of_target(name, STOPPED)], by, read_back=False)
    worker.refresh()
    return ()


def delete(worker: Worker, name: str, by: str) -> Steps:
    _as_leader(worker)
    if name not in worker.state.configs:
        raise Refusal(404, f"Connector {name} not found")
    gone = [(f"connector-{name}", None), (f"target-state-{name}", None)]
    yield from worker.write(gone, by)
    return ()


def put_config(
    worker: Worker, name: str, config: dict[str, str], state: str | None, by: str, *, replace: bool
) -> Steps:
    """Create or change; (created, info). The tasks it tells of are those from before."""
    worker.connect.plugin_of(config).check(config)
    _as_leader(worker)
    exists = name in worker.state.configs
    if exists and not replace:
        raise Refusal(409, f"Connector {name} already exists")
    records: list[tuple[str, Any]] = []
    if state is not None and not exists and state != STARTED:
        records.append(configs.of_target(name, state))
    records.append((f"connector-{name}", {"properties": config}))
    yield from worker.write(records, by)
    return not exists, info_of(worker, name, config)


def read_config(worker: Worker, name: str) -> Steps:
    worker.check_rebalance()
    yield from ()
    if name not in worker.state.configs:
        raise Refusal(404, f"Connector {name} not found")
    return info_of(worker, name, worker.state.configs[name])


def read_tasks(worker: Worker, name: str) -> Steps:
    worker.check_rebalance()
    yield from ()
    if name not in worker.state.configs:
        raise Refusal(404, f"Connector {name} not found")
    return [
        {"id": {"connector": name, "task": number}, "config": config}
        for number, config in enumerate(worker.state.tasks.get(name, []))
    ]


def read_offsets(worker: Worker, name: str, callback: Callback) -> Steps:
    """No check for a rebalance, and never forwarded."""
    yield from ()
    if name not in worker.state.configs:
        raise Refusal(404, f"Connector {name} not found")
    job = jobs.read_offsets(worker, name, worker.state.configs[name], callback)
    worker.spawn(job, f"offsets of {name}")


def restart_connector(worker: Worker, name: str) -> Steps:
    worker.check_rebalance()
    yield from ()
    if name not in worker.state.configs:
        raise Refusal(404, f"Unknown connector: {name}")
    if name not in worker.connectors:
        _refuse_foreign(
            worker, next((member for member in _others(worker) if name in member.connectors), None)
        )
    worker.start_connector(name)
    return ()


def restart_task(worker: Worker, name: str, number: int) -> Steps:
    """Of a stopped connector Connect still knows the task, and looks for its owner in vain."""
    worker.check_rebalance()
    if name not in worker.state.configs:
        raise Refusal(404, f"Unknown connector: {name}")
    if number >= worker.state.known.get(name, 0):
        raise Refusal(404, f"Unknown task: {name}-{number}")
    item = (name, number)
    if item not in worker.tasks:
        _refuse_foreign(
            worker, next((each for each in _others(worker) if item in each.tasks), None)
        )
    yield from worker.restart_task(item)
    return ()


def restart_all(
    worker: Worker, name: str, by: str, *, include_tasks: bool, only_failed: bool
) -> Steps:
    """A request in the config topic, which every worker hears of; what it would do is answered."""
    worker.check_rebalance()
    if name not in worker.state.configs:
        raise Refusal(404, f"Unknown connector: {name}")
    _as_leader(worker)
    flags = {"include-tasks": include_tasks, "only-failed": only_failed}
    yield from worker.write([(f"restart-connector-{name}", flags)], by, read_back=False)
    if name not in worker.connect.statuses:
        raise Refusal(404, f"Status for connector {name} not found")
    output = worker.connect.status_of(name)
    parts = [output["connector"], *(output["tasks"] if include_tasks else ())]
    for part in parts:
        if not only_failed or part["state"] == "FAILED":
            part["state"] = "RESTARTING"
            part.pop("trace", None)
    return output


def modify_offsets(
    worker: Worker, name: str, expected: OffsetPairs, callback: Callback, by: str
) -> Steps:
    """Checks, with exactly-once a fencing and the checks once more, then a job of the executor."""
    _modifiable(worker, name)
    source = worker.connect.plugin_of(worker.state.configs[name]).kind == "source"
    if not (source and worker.connect.exactly_once):
        worker.spawn(jobs.modify(worker, name, expected, callback, by), f"modify {name}")
        return
    if name in worker.connect.unfenceable:
        raise Refusal(500, FENCING)
    worker.connect.fence(name)
    if name in worker.state.unfenced:
        count = {"task-count": worker.state.task_count(name)}
        yield from worker.write([(f"tasks-fencing-{name}", count)], by)

    def again() -> Steps:
        _modifiable(worker, name)
        worker.spawn(jobs.modify(worker, name, expected, callback, by), f"modify {name}")
        yield from ()

    worker.add_request(again, callback)


def _modifiable(worker: Worker, name: str) -> None:
    worker.check_rebalance()
    _as_leader(worker)
    worker.refresh()
    if name not in worker.state.configs:
        raise Refusal(404, f"Connector {name} not found")
    if worker.state.target(name) != STOPPED or worker.state.task_count(name):
        raise Refusal(400, NOT_STOPPED.format(name))


def info_of(worker: Worker, name: str, config: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "config": config,
        "tasks": [
            {"connector": name, "task": number} for number in range(worker.state.task_count(name))
        ],
        "type": worker.connect.plugin_of(config).kind,
    }


def _as_leader(worker: Worker) -> None:
    if not worker.leads:
        raise NotHere(worker.connect.membership.leader)


def _refuse_foreign(worker: Worker, owner: Worker | None) -> None:
    raise NotHere(owner if worker.leads else worker.connect.membership.leader)


def _others(worker: Worker) -> list[Worker]:
    return [member for member in worker.connect.membership.workers if member is not worker]
