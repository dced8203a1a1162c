"""Logs are set up by whichever verb runs, also a second one in the same process."""

from __future__ import annotations

import json

import pytest
import structlog

from exporter.cli.logs import configure

log = structlog.get_logger()


def test_a_logger_that_was_used_before_follows_what_is_set_up_now(
    capsys: pytest.CaptureFixture[str],
):
    configure("warning", "json")
    log.info("not_this")
    log.warning("this")
    configure("info", "json")
    log.info("now_this")
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [event["event"] for event in told] == ["this", "now_this"]
