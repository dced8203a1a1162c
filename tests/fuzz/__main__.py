"""
Seeded fuzzing: whatever bytes arrive, is there a value or the error that is documented?

    python -m tests.fuzz --seed 7                              all of it
    python -m tests.fuzz --seed 7 --records 50000 --bodies 2000
    python -m tests.fuzz --repeat connect_offsets:7:1234       one of them again
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import click

from lab.kills.seeded_kills import commit
from tests.fuzz.campaign import Report, campaign, tried
from tests.fuzz.every import RECORDS, bodies, every, files


@click.command(help=__doc__)
@click.option("--seed", type=int, default=1)
@click.option("--records", type=int, default=5_000_000, help="Through all that reads bytes.")
@click.option("--bodies", "requests", type=int, default=200_000, help="To the control listener.")
@click.option("--configs", type=int, default=20_000, help="Configuration files.")
@click.option("--seconds-max", type=float, default=None, help="End then, whatever was tried.")
@click.option("--jobs", type=int, default=2)
@click.option("--repeat", default=None, help="target:seed:number")
def main(
    *,
    seed: int,
    records: int,
    requests: int,
    configs: int,
    seconds_max: float | None,
    jobs: int,
    repeat: str | None,
) -> None:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        if repeat is not None:
            name, of, number = repeat.split(":")
            report = tried(every(folder)[name], int(of), [int(number)])
        else:
            report = Report()
            # Each has its part of the time, so that none is left out where there is little of it.
            for targets, count, share in (
                (files(folder), configs, 0.15),
                (bodies(folder), requests, 0.35),
                (RECORDS, records, 1.0),
            ):
                until = None if seconds_max is None else began + share * seconds_max
                report.add(campaign(targets, seed, count, jobs=jobs, until=until))
    click.echo(f"fuzz: seed {seed}, commit {commit()}, {time.monotonic() - began:.0f} s")
    for line in report.lines():
        click.echo(line)
    if repeat is None and report.tried.total() < 0.99 * (records + requests + configs):
        click.echo("the time was over before all was tried")
    sys.exit(1 if report.first else 0)


if __name__ == "__main__":
    main()
