"""`make bench`: every figure, one after the other, as ratios against a named baseline.

What is printed is also written to bench/results.md, with what it was measured on. `--only NAME`
measures some of them and writes nothing.
"""

from __future__ import annotations

import argparse
import io
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from pathlib import Path

from bench import cold_start, commits, edge, log_ends, render, rest_sweep, upstream, visible
from lab.options import KAFKA_VERSION

RESULTS = Path(__file__).with_name("results.md")


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)


FIGURES: Mapping[str, Callable[[], object]] = {
    "render": lambda: render.show(100_000),
    "million": lambda: render.show(1_000_000),
    "cold_start": lambda: _print(
        line.text for line in cold_start.measure(commits=2_000_000, sources=20_000, rounds=5)
    ),
    "edge": edge.measure,
    "rest_sweep": lambda: _print(rest_sweep.measure()),
    "log_ends": lambda: _print(log_ends.measure()),
    "upstream": upstream.measure,
    "visible": lambda: _print((visible.measure().line(),)),
}


class _Both(io.StringIO):
    """Keeps what is printed, and prints it."""

    def write(self, text: str) -> int:
        sys.__stdout__.write(text)  # type: ignore[union-attr]
        return super().write(text)

    def flush(self) -> None:
        sys.__stdout__.flush()  # type: ignore[union-attr]


def facts() -> list[str]:
    """What it was measured on: a ratio without it is an anecdote."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return [
        f"{os.cpu_count()} processors ({model}), {memory:.0f} GiB, Linux {platform.release()}",
        f"Python {platform.python_version()}, Kafka {KAFKA_VERSION}",
        f"commit {_commit()}, seed {commits.SEED}",
    ]


def _commit() -> str:
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or "unknown"


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=FIGURES, action="append")
    wanted = parser.parse_args().only
    told = facts()
    both = _Both()
    with redirect_stdout(both):
        print("\n".join(told), flush=True)
        for name, measure in FIGURES.items():
            if wanted is None or name in wanted:
                measure()
    if wanted is None:
        said = both.getvalue().removeprefix("\n".join(told)).strip()
        lines = "\n".join(f"- {fact}" for fact in told)
        RESULTS.write_text(
            f"# Figures\n\nWritten by `make bench`.\n\n{lines}\n\n```text\n{said}\n```\n"
        )


if __name__ == "__main__":
    main()
