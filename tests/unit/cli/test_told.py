"""Where the verdicts of a verb come from, and that it says so."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from exporter.cli import told
from exporter.config import Config, load
from exporter.model.connectors import ConnectorKind
from exporter.model.findings import Severity
from exporter.serve.families import Reload
from exporter.serve.http import Pulse, ReadServer
from exporter.state.snapshot import ConnectorView, Snapshot
from lab.ports import free_port
from tests.changed import replace
from tests.unit.serve.test_findings import FOUND, JUDGED, SNAPSHOT

MM2 = ConnectorView("lab", "mm2", ConnectorKind.MIRROR, "", "", "running", ())
SEEN = replace(SNAPSHOT, at=SNAPSHOT.at + 1, findings=(), judgements=(), connectors=(MM2,))


def config(folder: Path, port: int) -> Config:
    path = folder / "offsetwatch.yaml"
    path.write_text(
        'kafka: {east: {bootstrap: "127.0.0.1:1"}}\n'
        'connect: [{name: lab, kafka: east, url: "http://127.0.0.1:1"}]\n'
        f'listen: "127.0.0.1:{port}"\n'
        f'state_dir: "{folder}/state"\n'
    )
    return load(path, {})


@pytest.fixture
def answers() -> Iterator[tuple[int, list[Snapshot]]]:
    """A daemon's listener: its port, and in a list of one what it shows."""
    shown = [SNAPSHOT]
    server = ReadServer(
        "127.0.0.1:0",
        snapshot=lambda: shown[0],
        pulse=Pulse(lambda: True),
        reload=Future,
        reloaded=lambda: Reload(successful=True, at=0.0),
    )
    server.start()
    yield server.port, shown
    server.stop()


def test_the_daemon_that_answers_is_believed_and_named(tmp_path, answers):
    judged = told.judged(config(tmp_path, answers[0]), SEEN)
    assert judged.snapshot == replace(
        SEEN, findings=SNAPSHOT.findings, judgements=SNAPSHOT.judgements
    )
    assert judged.by.startswith(f"the daemon on 127.0.0.1:{answers[0]}, as of 2025-11-21")
    assert judged.document.at == SNAPSHOT.at
    assert judged.loud


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(replace(SNAPSHOT, ready=False), id="not ready"),
        pytest.param(
            replace(SNAPSHOT, judgements=(replace(JUDGED, connect_cluster="other"),)),
            id="of another estate",
        ),
    ],
)
def test_a_daemon_that_cannot_tell_is_not_believed(tmp_path, answers, shown):
    answers[1][0] = shown
    judged = told.judged(config(tmp_path, answers[0]), SEEN)
    assert judged.snapshot == SEEN
    assert judged.by.startswith("this look alone")


def test_without_a_daemon_what_it_remembered_counts(tmp_path):
    own = replace(SEEN, judgements=(JUDGED,))
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "judge.json").write_text("{}")
    judged = told.judged(config(tmp_path, free_port()), own)
    assert judged.snapshot == own
    assert judged.by == f"this look, going on from what a daemon remembered in {tmp_path}/state"
    assert judged.document.judged() == (JUDGED,)


def test_a_look_alone_says_that_a_verdict_needs_three_intervals(tmp_path):
    judged = told.judged(config(tmp_path, free_port()), SEEN)
    assert "A verdict needs three intervals of watching" in judged.by
    assert not judged.loud


def test_what_is_only_worth_knowing_is_not_loud(tmp_path):
    quiet = replace(SEEN, findings=(replace(FOUND, severity=Severity.INFO),))
    assert not told.judged(config(tmp_path, free_port()), quiet).loud


def test_findings_and_verdicts_are_printed_with_their_evidence(capsys):
    told.print_findings((FOUND,), "the daemon")
    told.print_verdicts((JUDGED,), "the daemon")
    printed = " ".join(capsys.readouterr().out.split())
    for part in (
        "critical mm2_silent_stall lab/mm2 west->east 2025-11-21 08:00:00Z",
        "lag: 300 records; states: connector running",
        "west->east silent 2025-11-21 07:43:20Z 5 work waits partitions: 1 silent",
        "Law 5: something waits and nothing moves for three intervals",
    ):
        assert part in printed, printed


def test_nothing_wrong_is_said_too(capsys):
    told.print_findings((), "the daemon")
    assert "Nothing is found wrong, by the daemon" in capsys.readouterr().out
