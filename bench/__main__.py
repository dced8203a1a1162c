"""`make bench`: every figure, one after the other, as ratios against a named baseline.

What is printed is also written to bench/results.md, with what it was measured on: all of it, or
with `--only NAME` the part of that figure.
"""

from __future__ import annotations

import argparse
import io
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path

from bench import cold_start, commits, edge, log_ends, render, upstream, visible
from lab.cluster.options import KAFKA_VERSION

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


def parts(document: str) -> dict[str, str]:
    """The parts of results.md by the names of their figures, as `written` puts them together."""
    result = re.split(r"^## (\w+)\n\n", document, flags=re.MULTILINE)
    return {name: text.strip() for name, text in zip(result[1::2], result[2::2], strict=True)}


def part(sequence: Sequence[str], answer: str) -> str:
    """What was printed of one figure, and what it was measured on."""
    return "\n".join(
        (*(f"- {fact}" for fact in sequence), "", "```text", answer.strip("\n"), "```")
    )


def written(of: Mapping[str, str]) -> str:
    """results.md of these parts."""
    head = "# Figures\n\nWritten by `make bench`, each part by the commit that it names."
    return (
        "\n\n".join((head, *(f"## {name}\n\n{of[name]}" for name in FIGURES if name in of))) + "\n"
    )


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
    result = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout.strip() or "unknown"


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=FIGURES, action="append")
    expected = parser.parse_args().only
    report = facts()
    print("\n".join(report), flush=True)
    result = parts(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in FIGURES if expected is None else expected:
        both = _Both()
        with redirect_stdout(both):
            FIGURES[name]()
        result[name] = part(report, both.getvalue())
        RESULTS.write_text(written(result))


if __name__ == "__main__":
    main()
