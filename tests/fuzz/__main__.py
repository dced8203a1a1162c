"""
Seeded fuzzing: whatever bytes arrive, is there a value or the error that is documented?

    python -m tests.fuzz --seed 7                              all of it
    python -m tests.fuzz --seed 7 --records 50000 --bodies 2000
    python -m tests.fuzz --repeat connect_offsets:7:1234       one of them again
"""

from __future__ import annotations

import sys
import time

import click

from lab.killing import commit
from tests.fuzz.campaign import campaign, tried
from tests.fuzz.every import TARGETS


@click.command(help=__doc__)
@click.option("--seed", type=int, default=1)
@click.option("--records", type=int, default=5_000_000, help="Through the decoders.")
@click.option("--seconds-max", type=float, default=None, help="End then, whatever was tried.")
@click.option("--jobs", type=int, default=2)
@click.option("--repeat", default=None, help="target:seed:number")
def main(seed: int, records: int, seconds_max: float | None, jobs: int, repeat: str | None) -> None:
    if repeat is not None:
        name, of, number = repeat.split(":")
        report = tried(TARGETS[name], int(of), [int(number)])
        for line in report.lines():
            click.echo(line)
        sys.exit(1 if report.first else 0)
    began = time.monotonic()
    until = None if seconds_max is None else began + seconds_max
    report = campaign(TARGETS, seed, records, jobs=jobs, until=until)
    click.echo(f"fuzz: seed {seed}, commit {commit()}, {time.monotonic() - began:.0f} s")
    for line in report.lines():
        click.echo(line)
    sys.exit(1 if report.first else 0)


if __name__ == "__main__":
    main()
