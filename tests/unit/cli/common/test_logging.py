"""Logs are set up by whichever verb runs, also a second one in the same process."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import structlog

from offsetwatch.cli.common.logging import configure_logging

log = structlog.get_logger()


def test_a_logger_that_was_used_before_follows_what_is_set_up_now(
    capsys: pytest.CaptureFixture[str],
):
    configure_logging("warning", "json")
    log.info("not_this")
    log.warning("this")
    configure_logging("info", "json")
    log.info("now_this")
    reports = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [event["event"] for event in reports] == ["this", "now_this"]


HOSTILE = "a\x1b[2Jb\x9b31m\u202ec\r\nlevel=info forged"


@pytest.mark.parametrize("style", ["console", "json"])
def test_what_others_wrote_moves_no_cursor_and_forges_no_line_of_the_log(
    style: str, capsys: pytest.CaptureFixture[str]
):
    configure_logging("info", style)
    log.info("tail_started", topic=HOSTILE, beside=[HOSTILE], how={"a": HOSTILE})
    line = capsys.readouterr().err
    assert line.count("[2J") == 3
    assert line.count("\n") == 1
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        log.exception("failed")
    trace = capsys.readouterr().err
    assert "[2J" in trace
    assert (line + trace).replace("\n", "").isprintable()


def test_the_colours_are_ours_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    configure_logging("info", "console")
    log.info("tail_started", topic="\x1b[2J")
    assert "\x1b[2J" not in (err := capsys.readouterr().err)
    assert "\x1b[" in err


def test_a_log_on_a_full_disk_raises_nothing_and_goes_on_when_there_is_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    with Path("/dev/full").open("w", buffering=1) as full, (tmp_path / "log").open("w") as roomy:
        monkeypatch.setattr("sys.stderr", full)
        configure_logging("info", "json")
        for number in range(100):
            log.error("memory_not_saved", number=number)
        # The last lines still wait in it, and would be missed when it is closed.
        os.dup2(roomy.fileno(), full.fileno())
        log.info("room_again")
    assert "room_again" in (tmp_path / "log").read_text()
