"""Tables of `status` and `connectors status`: the state first, the verdict beside it."""

from __future__ import annotations

import re

import msgspec
import pytest

from exporter.cli import verbs
from exporter.model.connectors import Task
from exporter.model.findings import Judgement, Scope, Verdict
from exporter.serve.status import status
from tests.changed import replace
from tests.unit.serve.worlds import full


def printed(capsys, states, verdicts) -> str:
    seen = full()
    one = seen.connectors[0]
    shown = replace(
        seen,
        connectors=tuple(
            replace(one, name=name, state=state, tasks=tasks) for name, state, tasks in states
        ),
        judgements=tuple(
            Judgement(Scope.CONNECTOR, one.connect_cluster, name, "", verdict, 1, "So it is.", 0.0)
            for name, verdict in verdicts
        ),
        findings=(),
    )
    document = msgspec.json.decode(status(shown), type=verbs.StatusDocument)
    verbs._print_status(document)
    return capsys.readouterr().out


def test_the_state_comes_first_and_the_worst_on_top(capsys):
    said = printed(
        capsys,
        (
            ("a-well", "running", (Task(0, "running"),)),
            ("b-halted", "paused", (Task(0, "paused"),)),
            ("c-broken", "running", (Task(0, "failed"),)),
        ),
        (
            ("a-well", Verdict.OK),
            ("b-halted", Verdict.IDLE),
            ("c-broken", Verdict.UNKNOWN),
        ),
    )
    lines = [line for line in said.splitlines() if re.search("[abc]-(well|halted|broken)", line)]
    cells = [re.split(r"\s{2,}", line.strip())[1:4] for line in lines[:3]]
    assert cells == [
        ["c-broken", "FAILED", "unknown"],
        ["b-halted", "paused", "idle"],
        ["a-well", "running", "ok"],
    ]


@pytest.mark.parametrize(("state", "word"), [("failed", "FAILED"), ("stopped", "stopped")])
def test_partitions_stand_under_the_state_of_their_connector(capsys, state, word):
    seen = full()
    names = {at.connector for at in seen.source_partitions}
    said = printed(capsys, [(name, state, ()) for name in names], ())
    offsets = said[said.index("Source offsets") : said.index("Replication")]
    assert offsets.count(word) == len(seen.source_partitions)
