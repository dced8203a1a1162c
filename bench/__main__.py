"""`make bench`: every figure, one after the other, as ratios against a named baseline."""

from __future__ import annotations

import platform
import subprocess

from bench import cold_start, render, upstream


def _commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def main() -> None:
    """Machine facts first: a ratio without them is an anecdote."""
    print(f"Python {platform.python_version()}, {platform.machine()}, commit {_commit()}")
    render.main()
    print(cold_start.measure(commits=2_000_000, sources=20_000, rounds=5))
    upstream.measure()


if __name__ == "__main__":
    main()
