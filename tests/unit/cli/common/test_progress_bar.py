"""A progress bar, on a terminal of its own and where there is none."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

from offsetwatch.cli.common.live_output import iterate_with_progress, show_progress

ON_A_TERMINAL = """
import sys
from offsetwatch.cli.common.live_output import iterate_with_progress, show_progress
with show_progress("reading records") as drawn:
    drawn(1, 4)
    drawn(2, None)
    drawn(4, 4)
    sys.stderr.write("asked\\n")
    drawn(1, 4)
print(*iterate_with_progress("asking", "abc"))
sys.stderr.write("left\\n")
"""


def seen_on_a_terminal(code: str) -> bytes:
    own, its = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=its, stdout=its, stderr=its, env=environment
    )
    os.close(its)
    observed = b""
    try:
        while chunk := os.read(own, 4096):
            observed += chunk
    except OSError:
        pass  # the other end is closed: it has ended
    finally:
        os.close(own)
    assert process.wait(30) == 0, observed
    return observed


def test_a_bar_is_drawn_on_a_terminal_and_nothing_of_it_is_left() -> None:
    observed = seen_on_a_terminal(ON_A_TERMINAL)
    assert b"reading records" in observed
    assert b"\x1b[2K" in observed  # erased again
    request, remaining = observed.index(b"asked\r\n"), observed.index(b"left\r\n")
    assert b"reading records" in observed[:request]
    assert b"reading records" in observed[request:remaining]  # a second read draws it again
    assert b"a b c\r\n" in observed
    assert observed.endswith(b"left\r\n")
    assert observed.count(b"\x1b[?25l") == observed.count(b"\x1b[?25h")  # the cursor is there again


def test_where_nobody_sees_it_there_is_none(capsys) -> None:
    with show_progress("reading") as drawn:
        assert drawn is None
    assert [*iterate_with_progress("asking", [1, 2])] == [1, 2]
    assert capsys.readouterr() == ("", "")
