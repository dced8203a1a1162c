"""The `offsetwatch` command in this process: its exit code and what it prints."""

from __future__ import annotations

import io
import sys
import threading
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest.mock import patch

import pytest

from offsetwatch.cli import main

THREAD_DEADLINE_S = 30.0


class Invocation(NamedTuple):
    """What a command has come to. Fields are named as those of subprocess.CompletedProcess."""

    returncode: int
    stdout: str
    stderr: str


def invoke(*arguments: str) -> Invocation:
    """Run the command as the entry point does, without the second of a process that starts.

    A command that leaves threads behind, which only the end of a process ends, fails here.
    """
    before = {*threading.enumerate()}
    stdout, stderr = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    with (
        patch.object(sys, "argv", ["offsetwatch", *arguments]),
        redirect_stdout(stdout),
        redirect_stderr(stderr),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    for thread in {*threading.enumerate()} - before:
        thread.join(THREAD_DEADLINE_S)
        assert not thread.is_alive(), f"{thread.name} outlives the command"
    printed = []
    for stream in (stdout, stderr):
        stream.seek(0)
        printed.append(stream.read())
    return Invocation(int(ended.value.code or 0), *printed)
