"""Drawing on a terminal: `--watch`, which repeats a command's output, and bars of progress."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Final, NoReturn, TypeVar

from offsetwatch.cli.common import output
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.clock import SystemClock
from offsetwatch.errors import AccessDenied, ClientError, SettingsRefused
from offsetwatch.formatting import format_duration

OK: Final = 0

DrawFunction = Callable[[], object]


def watch(
    draw: DrawFunction,
    every_s: float,
    output_format: OutputFormat,
    wait: Callable[[float], None] = time.sleep,
) -> int:
    """Print now and at each interval, and return 0 at Ctrl-C.

    Errors of clients are printed, and the next interval tries again. A terminal is redrawn in
    place; elsewhere one output follows the other. Raises the errors that no repetition changes:
    ConfigError, AccessDenied, SettingsRefused.
    """
    try:
        if sys.stdout.isatty():
            _redraw_screen(draw, every_s, wait)
        else:
            _append_outputs(draw, every_s, output_format, wait)
    except KeyboardInterrupt:
        return OK


def _draw_or_print_error(draw: DrawFunction) -> None:
    try:
        draw()
    except (AccessDenied, SettingsRefused):
        raise
    except ClientError as exc:
        output.print_client_error(exc)


def _append_outputs(
    draw: DrawFunction, every_s: float, output_format: OutputFormat, wait: Callable[[float], None]
) -> NoReturn:
    while True:
        if output_format is OutputFormat.YAML:
            sys.stdout.write("---\n")
        _draw_or_print_error(draw)
        sys.stdout.flush()
        wait(every_s)


def _redraw_screen(draw: DrawFunction, every_s: float, wait: Callable[[float], None]) -> NoReturn:
    """Draw on the terminal's alternate screen; the last output stays on the terminal afterwards."""
    from rich.console import Console  # noqa: PLC0415 - a third of a verb's start
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    last = ""
    console = Console()
    drawn = Live(
        console=console,
        screen=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    try:
        with drawn:
            while True:
                frame = _TerminalBuffer()
                with redirect_stdout(frame), redirect_stderr(_ErrorStream(frame)):
                    _draw_or_print_error(draw)
                last = frame.getvalue()
                now = output.format_moment(SystemClock().now())
                head = f"Every {format_duration(every_s)}, {now}"
                lines = last.count("\n")
                if lines >= console.height:
                    head += f", the first of {lines} lines"
                drawn.update(Text.from_ansi(f"{head}; Ctrl-C ends\n{last}"), refresh=True)
                wait(every_s)
    finally:
        sys.stdout.write(last)


class _TerminalBuffer(io.StringIO):
    """Standard output in memory that reports itself as a terminal."""

    def isatty(self) -> bool:
        return True


class _ErrorStream(io.TextIOBase):
    """Standard error in the same buffer, without the progress bars of a terminal."""

    def __init__(self, frame: io.StringIO) -> None:
        self._frame = frame

    def write(self, text: str) -> int:
        return self._frame.write(text)


T = TypeVar("T")


class ProgressBar:
    """A bar that is drawn while work is left; a clients.kafka.whole_topic.ProgressCallback."""

    def __init__(self, what: str) -> None:
        from rich.console import Console  # noqa: PLC0415 - a third of a verb's start
        from rich.progress import Progress  # noqa: PLC0415

        self._drawn = Progress(console=Console(stderr=True), transient=True)
        self._task = self._drawn.add_task(what, total=None)

    def __call__(self, done: int, of: int | None) -> None:
        """Draw the number that is done, and the total if it is known."""
        if of is not None and done >= of:
            self.close()
            return
        self._drawn.start()  # again and again: it starts once
        self._drawn.update(self._task, completed=done, total=of)

    def close(self) -> None:
        """Remove the bar from the terminal, so that the next output begins a line."""
        self._drawn.stop()


@contextmanager
def show_progress(what: str) -> Iterator[ProgressBar | None]:
    """Yield a progress bar; None if standard error is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    drawn = ProgressBar(what)
    try:
        yield drawn
    finally:
        drawn.close()


def iterate_with_progress(what: str, items: Iterable[T]) -> Iterator[T]:
    """Yield the items, and draw a progress bar."""
    listed = tuple(items)
    with show_progress(what) as drawn:
        for number, item in enumerate(listed):
            if drawn is not None:
                drawn(number, len(listed))
            yield item
