"""What `status` says in words beside the findings: nothing twice."""

from __future__ import annotations

import pytest

from offsetwatch.model.connectors import Task
from offsetwatch.model.findings import Finding, FindingName, Severity
from offsetwatch.serve.documents.status import find_problems
from offsetwatch.state.snapshot import Snapshot
from tests.changed import replace
from tests.unit.state.worlds import World, files, mirrors, orders, source


def found(name: FindingName, connector: str | None, subject: str = "") -> Finding:
    cluster = "" if connector is None else "lab"
    return Finding(name, Severity.WARNING, cluster, connector, subject, "So it is.", 0.0)


def failed() -> World:
    world = files()
    world.listed(source("files", tasks=(Task(0, "failed"),)))
    return world


def ahead() -> World:
    world = mirrors()
    world.commit("mm2", orders(), {"offset": 500})
    world.ends(100)
    return world


@pytest.mark.parametrize(
    ("built", "finding", "problem"),
    [
        (failed, found(FindingName.RESTART_LOOP, "files"), "task lab/files-0 has failed"),
        (ahead, found(FindingName.MM2_POSITION_AHEAD, "mm2"), "is 401 records beyond the log end"),
    ],
)
def test_what_a_finding_says_is_not_said_again(built, finding, problem):
    snapshot: Snapshot = built().snapshot()
    (answer,) = [item for item in find_problems(snapshot) if "log_ends" not in item]
    assert problem in answer
    assert [
        item for item in find_problems(replace(snapshot, findings=(finding,))) if item == answer
    ] == []
    others = replace(finding, connector="other", subject="another")
    assert answer in find_problems(replace(snapshot, findings=(others,)))
