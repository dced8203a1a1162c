"""
Worlds that we did not build, acted out in virtual time against what is true in them: the real
polls, decoders, state, rules and notifications, under answers, clocks, names and strangers by
chance. No exit, no end that is none, no wrong value, 256 MiB at most.

    python -m tests.worlds --seed 7 --minutes 60
    python -m tests.worlds --seed 7 --worlds 50    with --minutes: whichever is over first
    python -m tests.worlds --repeat 7000012        one of them again
    python -m tests.worlds --play FILE             a world from what was printed
"""

from __future__ import annotations

import sys
import time
from itertools import count, islice
from pathlib import Path

import click
import yaml

from lab.kills.seeded_kills import commit
from tests.worlds.campaign import MEMORY_BYTES_MAX, campaign, faults_of, quiet, tried


@click.command(help=__doc__)
@click.option("--seed", type=int, default=1)
@click.option("--minutes", type=float, default=None, help="For how long; or say how many worlds.")
@click.option("--worlds", type=int, default=None)
@click.option("--jobs", type=int, default=2)
@click.option("--repeat", type=int, default=None, help="The seed of one world.")
@click.option("--play", type=click.Path(exists=True, path_type=Path), default=None)
def main(
    seed: int,
    minutes: float | None,
    worlds: int | None,
    jobs: int,
    repeat: int | None,
    play: Path | None,
) -> None:
    quiet()
    if play is not None:
        faults = faults_of(yaml.safe_load(play.read_text()))
        click.echo("\n".join(map(str, faults.values())) or "no fault")
        sys.exit(1 if faults else 0)
    if repeat is not None:
        report = tried(repeat)
    else:
        began = time.monotonic()
        until = None if minutes is None else began + 60 * minutes
        seeds = count(seed * 1_000_000)
        chosen = islice(seeds, worlds or (50 if minutes is None else None))
        report = campaign(chosen, jobs=jobs, until=until)
        click.echo(f"worlds: seed {seed}, commit {commit()}, {time.monotonic() - began:.0f} s")
    for line in report.lines():
        click.echo(line)
    sys.exit(1 if report.faults or report.peak_bytes > MEMORY_BYTES_MAX else 0)


if __name__ == "__main__":
    main()
