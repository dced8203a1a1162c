"""A progress bar on standard error for long reads, shown on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

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
