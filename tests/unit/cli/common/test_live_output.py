"""`--watch`: what is drawn again, where, and how it ends."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout

import pytest
from click.testing import CliRunner

from offsetwatch.cli import cli
from offsetwatch.cli.common import output
from offsetwatch.cli.common.live_output import iterate_with_progress, show_progress, watch
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.errors import AccessDenied, ConfigError, TargetUnreachable
from tests.changed import replace
from tests.unit.cli.common.test_document_source import (
    build_snapshot,
    clusters,
    config,
    daemon,
    stamps,
)
from tests.unit.serve.documents.test_findings import JUDGED
from tests.unit.state.worlds import FILE, files

__all__ = ["clusters", "daemon", "stamps"]  # fixtures


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Waits:
    """Ctrl-C after so many intervals."""

    def __init__(self, count: int) -> None:
        self.remaining = count
        self.waited: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.remaining -= 1
        if not self.remaining:
            raise KeyboardInterrupt


def counter(fail: Callable[[int], None] = lambda _number: None) -> Callable[[], int]:
    drawn: list[int] = []

    def draw() -> int:
        drawn.append(len(drawn) + 1)
        fail(drawn[-1])
        output.print_table("Things", ("number",), [(f"drawing-{drawn[-1]}",)])
        output.print_error(f"beside-{drawn[-1]}")
        return 1

    return draw


@pytest.mark.parametrize(
    ("form", "before"), [(OutputFormat.TABLE, ""), (OutputFormat.YAML, "---\n")]
)
def test_where_no_terminal_is_one_output_follows_the_other(capsys, form, before):
    waits = Waits(3)
    assert watch(counter(), 1.5, form, waits) == 0
    printed = capsys.readouterr()
    assert printed.out.count(f"{before}Things") == 3
    assert [item for item in printed.err.split() if item.startswith("beside")] == [
        "beside-1",
        "beside-2",
        "beside-3",
    ]
    assert waits.waited == [1.5, 1.5, 1.5]
    assert "\x1b" not in printed.out


def test_a_terminal_is_redrawn_in_place_and_keeps_the_last_output(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stdout(Terminal()) as terminal:
        assert watch(counter(), 90.0, OutputFormat.TABLE, Waits(2)) == 0
    text = terminal.getvalue()
    screen, remaining, after = text.partition("\x1b[?1049l")
    assert "\x1b[?1049h" in screen
    assert remaining
    assert "\x1b[2J" not in screen  # a cleared screen flickers
    assert screen.index("drawing-1") < screen.index("drawing-2")
    assert "Every 1m30s, " in screen
    assert "beside-2" in screen
    assert "drawing-1" not in after
    assert "drawing-2" in after
    assert capsys.readouterr().err == ""


def test_an_output_longer_than_the_terminal_is_said_to_be(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LINES", "10")

    def draw() -> None:
        output.print_lines("Lines", (f"line-{number}" for number in range(30)))

    with redirect_stdout(Terminal()) as terminal:
        watch(draw, 2.0, OutputFormat.TABLE, Waits(1))
    screen = terminal.getvalue().partition("\x1b[?1049l")[0]
    assert "the first of 31 lines" in screen
    assert "line-29" not in screen


def test_what_does_not_answer_is_said_and_queried_again(capsys):
    def fail(number: int) -> None:
        if number == 1:
            raise TargetUnreachable("west", "no answer", advice="start it")

    assert watch(counter(fail), 1.0, OutputFormat.TABLE, Waits(2)) == 0
    printed = capsys.readouterr()
    assert "unreachable: west" in printed.err
    assert "; start it" in printed.err
    assert "drawing-2" in printed.out


@pytest.mark.parametrize(
    "error", [ConfigError(("no connector x",)), AccessDenied("west", "not us")]
)
def test_what_no_repetition_changes_ends_it(error):
    def fail(_number: int) -> None:
        raise error

    with pytest.raises(type(error)):
        watch(counter(fail), 1.0, OutputFormat.TABLE, Waits(2))


@pytest.mark.parametrize(
    "verb",
    [
        ("status",),
        ("explain", "mm2"),
        ("connectors", "status"),
        ("offsets", "list", "--connect", "lab"),
    ],
    ids=" ".join,
)
def test_verbs_are_drawn_again_until_ctrl_c_and_end_with_0(tmp_path, daemon, monkeypatch, verb):
    world = files()
    world.commit("files", FILE, {"position": 9})
    more = {"source_partitions": world.snapshot().source_partitions}
    daemon[1][0] = build_snapshot(**more, judgements=(replace(JUDGED),))
    waits = Waits(2)
    monkeypatch.setattr(watch, "__defaults__", (waits,))
    where = ("-c", str(config(tmp_path, daemon[0])))
    once = CliRunner().invoke(cli, [*verb, *where])
    again = CliRunner().invoke(cli, [*verb, *where, "--watch", "--interval", "500ms"])
    assert again.exit_code == 0
    assert waits.waited == [0.5, 0.5]
    heading = once.stdout.strip().split(", by")[0]
    assert again.stdout.count(heading) == 2 * once.stdout.count(heading) > 0


@pytest.fixture
def _ctrl_c():
    """Let processes take Ctrl-C: a shell that starts tests in the background has all ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_ctrl_c")
def test_a_process_ends_with_0_at_ctrl_c(tmp_path, daemon):
    words = ("status", "--watch", "--interval", "500ms", "-c", str(config(tmp_path, daemon[0])))
    with subprocess.Popen(
        [sys.executable, "-m", "offsetwatch", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        drawn = 0
        for line in process.stdout:
            drawn += line.startswith("Findings (")
            if drawn == 2:
                process.send_signal(signal.SIGINT)
                break
        try:
            _, complaints = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 0
        assert "Traceback" not in complaints


def test_an_interval_goes_with_watch(tmp_path, daemon):
    done = CliRunner().invoke(
        cli, ["status", "--interval", "5s", "-c", str(config(tmp_path, daemon[0]))]
    )
    assert done.exit_code == 2
    assert "--interval goes with --watch" in done.stderr


# --- progress bar --------------------------------------------------------------------------------

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


def run_on_terminal(code: str) -> bytes:
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
    observed = run_on_terminal(ON_A_TERMINAL)
    assert b"reading records" in observed
    assert b"\x1b[2K" in observed  # erased again
    request, remaining = observed.index(b"asked\r\n"), observed.index(b"left\r\n")
    assert b"reading records" in observed[:request]
    assert b"reading records" in observed[request:remaining]  # a second read draws it again
    assert b"a b c\r\n" in observed
    assert observed.endswith(b"left\r\n")
    assert observed.count(b"\x1b[?25l") == observed.count(b"\x1b[?25h")  # the cursor is there again


def test_without_a_terminal_no_progress_is_drawn(capsys) -> None:
    with show_progress("reading") as drawn:
        assert drawn is None
    assert [*iterate_with_progress("asking", [1, 2])] == [1, 2]
    assert capsys.readouterr() == ("", "")
