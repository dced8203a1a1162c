"""Tables of `status` and `connectors status`: the state first, the verdict beside it."""

from __future__ import annotations

import re

import pytest

from offsetwatch import documents
from offsetwatch.cli.common.document_source import ReadOptions
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.inspect import status
from offsetwatch.cli.offsets import list as listing
from offsetwatch.cli.offsets.export import OK, UNREAD
from offsetwatch.errors import ConfigError
from offsetwatch.model.connectors import Task
from offsetwatch.model.findings import Judgement, Scope, Verdict
from offsetwatch.serve.documents.status import encode_status
from tests.changed import replace
from tests.unit.serve.worlds import full


def printed(capsys, states, verdicts) -> str:
    snapshot = full()
    one = snapshot.connectors[0]
    output = replace(
        snapshot,
        connectors=tuple(
            replace(one, name=name, state=state, tasks=tasks) for name, state, tasks in states
        ),
        judgements=tuple(
            Judgement(Scope.CONNECTOR, one.connect_cluster, name, "", verdict, 1, "So it is.", 0.0)
            for name, verdict in verdicts
        ),
        findings=(),
    )
    document = documents.decode(encode_status(output), status.StatusDocument)
    status._print_tables(document)
    return capsys.readouterr().out


def test_the_state_comes_first_and_the_worst_on_top(capsys):
    answer = printed(
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
    lines = [line for line in answer.splitlines() if re.search("[abc]-(well|halted|broken)", line)]
    cells = [re.split(r"\s{2,}", line.strip())[1:4] for line in lines[:3]]
    assert cells == [
        ["c-broken", "FAILED", "unknown"],
        ["b-halted", "paused", "idle"],
        ["a-well", "running", "ok"],
    ]


@pytest.mark.parametrize(("state", "word"), [("failed", "FAILED"), ("stopped", "stopped")])
def test_partitions_stand_under_the_state_of_their_connector(capsys, state, word):
    snapshot = full()
    names = {partition.connector for partition in snapshot.source_partitions}
    answer = printed(capsys, [(name, state, ()) for name in names], ())
    offsets = answer[answer.index("Source offsets") : answer.index("Replication")]
    assert offsets.count(word) == len(snapshot.source_partitions)


def test_the_state_of_an_unknown_connector_names_the_one_that_was_meant(monkeypatch):
    known = [status.ConnectorRow("lab", "orders-source", "source")]
    monkeypatch.setattr(status, "_read_states", lambda _reading: (known, "the daemon", ()))
    with pytest.raises(ConfigError, match="did you mean orders-source"):
        status.print_connectors_status(
            ReadOptions(None), "order-source", output_format=OutputFormat.TABLE
        )


@pytest.mark.parametrize(
    ("name", "answer"), [("filse", "no connector filse (did you mean files?)"), ("files", "")]
)
def test_offsets_of_an_unknown_connector_are_not_just_no_rows(capsys, name, answer):
    output = listing._OffsetListing(None, frozenset({name}))
    document = documents.decode(encode_status(full()), status.StatusDocument)
    output.take(document, (), None)
    output.by.append("the daemon")
    assert output.print(output_format=OutputFormat.TABLE) == (UNREAD if answer else OK)
    unknown = [line for line in capsys.readouterr().err.splitlines() if "no connector" in line]
    assert unknown == ([answer] if answer else [])


def test_a_state_that_was_not_read_is_not_known_and_not_inapplicable():
    row = status.ConnectorRow("lab", "orders", "source")
    assert (row.state_in_words, row.tasks_in_words) == ("not known", "not known")
    running = status.ConnectorRow("lab", "orders", "source", state="running")
    assert (running.state_in_words, running.tasks_in_words) == ("running", "none")
