"""A restart is watched for as long as it says, and its exit code is what was seen."""

from __future__ import annotations

import pytest

from exporter.cli.restart_watch import watch_tasks
from exporter.errors import Unreachable
from exporter.model.connectors import Task
from tests.changed import replace
from tests.fakes.clock import VirtualClock
from tests.unit.state.worlds import source


class Worker:
    """Tells the states of one task, one each second; the last one stays."""

    def __init__(self, *states: str, connector: str = "running") -> None:
        self.clock, self.states, self.connector = VirtualClock(), states, connector
        self.reads = 0

    def read(self):
        state = self.states[min(self.reads, len(self.states) - 1)]
        self.reads += 1
        if state == "gone":
            raise Unreachable("cc", "Connection refused")
        return replace(source("c", tasks=(Task(0, state),)), state=self.connector)

    def watched(self, seconds: float) -> int:
        return watch_tasks(self.read, seconds, self.clock, self.clock.advance)


@pytest.mark.parametrize(
    ("states", "code", "said", "reads"),
    [
        (("running",), 0, "watched for 10 s: running, tasks: 0 running", 11),
        (("running", "failed"), 1, "watched for 1 s: FAILED, tasks: 0 FAILED", 2),
        ((*["running"] * 10, "failed"), 1, "watched for 10 s: FAILED, tasks: 0 FAILED", 11),
        (("unassigned", "running"), 0, "watched for 10 s: running, tasks: 0 running", 11),
        (("restarting",), 1, "watched for 10 s: restarting, tasks: 0 restarting", 11),
    ],
)
def test_what_is_seen_in_the_time_is_the_exit_code(capsys, states, code, said, reads):
    worker = Worker(*states)
    assert worker.watched(10.0) == code
    assert capsys.readouterr().err.splitlines()[0] == said
    assert worker.reads == reads


@pytest.mark.parametrize("states", [("running", "failed"), ("running",), ("restarting",)])
def test_a_task_that_fails_again_names_the_command_that_shows_why(capsys, states):
    Worker(*states).watched(10.0)
    assert ("offsetwatch explain c" in capsys.readouterr().err) == ("failed" in states)


def test_a_paused_connector_stays_paused(capsys):
    assert Worker("paused", connector="paused").watched(2.0) == 0
    assert "watched for 2 s: paused" in capsys.readouterr().err


def test_a_worker_that_does_not_answer_is_no_success():
    with pytest.raises(Unreachable):
        Worker("running", "gone").watched(10.0)


def test_a_watch_of_no_time_is_one_look(capsys):
    worker = Worker("running", "failed")
    assert worker.watched(0.0) == 0
    assert worker.reads == 1
    assert "watched for 0 s" in capsys.readouterr().err
