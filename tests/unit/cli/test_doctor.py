from pathlib import Path

import pytest

from exporter.cli.doctor import Doctor, exit_code
from exporter.config import load
from lab.ports import free_port
from tests.unit.cli.test_verbs import offsetwatch


@pytest.fixture
def nobody(tmp_path: Path) -> Path:
    """A configuration in which nothing answers."""
    path = tmp_path / "offsetwatch.yaml"
    path.write_text(
        f"""\
kafka:
  east: {{bootstrap: "127.0.0.1:{free_port()}", properties: {{socket.timeout.ms: "1000"}}}}
connect:
  - {{name: lab, kafka: east, url: "http://127.0.0.1:{free_port()}"}}
  - {{name: mm2, kafka: east, offsets_topic: mm2-offsets.west.internal}}
history: {{path: "{tmp_path}/a/b"}}
"""
    )
    return path


def test_doctor_where_nothing_answers_exits_7_and_still_reports_the_rest(
    nobody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("kafka", "kafka_facts"):
        monkeypatch.setattr(f"exporter.clients.{module}.REQUEST_TIMEOUT_S", 0.5)
    monkeypatch.setattr("exporter.daemon.edge.STOP_TIMEOUT_S", 0.5)
    lines = Doctor(load(nobody), timeout_s=0.5).lines()
    verdicts = {(at.about, at.check): at.verdict for at in lines}
    assert exit_code(lines) == 7
    assert verdicts["kafka east", "reachable"] == "fail"
    assert verdicts["connect lab", "connectors"] == "fail"
    assert verdicts["connect mm2", "REST"] == "ok"
    assert verdicts["clock", "records"] == "unknown"
    assert verdicts["disk", "history.path"] == "ok"
    assert ("history", "extra") in verdicts
    assert not (nobody.parent / "a").exists()


def test_a_wrong_file_is_a_mistake_and_no_examination(tmp_path: Path) -> None:
    assert offsetwatch("doctor", "--config", str(tmp_path / "none.yaml")).returncode == 2


def test_a_question_that_takes_too_long_does_not_hide_the_others(
    nobody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    monkeypatch.setattr("exporter.cli.doctor.ANSWER_S_MAX", 0.1)
    release = threading.Event()
    doctor = Doctor(load(nobody), timeout_s=0.1)

    def hangs():
        release.wait(30)
        yield from ()

    try:
        lines = list(doctor._all([("kafka slow", hangs), ("kafka east", lambda: iter(()))]))
    finally:
        release.set()
    (line,) = lines
    assert (line.about, line.verdict, line.unreachable) == ("kafka slow", "fail", True)
