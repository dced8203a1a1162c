"""
Seeded simulation of guarded remediation: whatever ends, breaks or is late, is anything lost?

    python -m tests.sim --seed 7                  all crashes, 20,000 random schedules, all bugs
    python -m tests.sim --seed 7 --share 10 --schedules 2000
                                                  a tenth of it
    python -m tests.sim --repeat random:7000012   one of them again, with all that happened
"""

from __future__ import annotations

import sys
import time

import click

from lab.kills.seeded_kills import commit
from tests.sim.bugs import BUGS, hunted
from tests.sim.campaign import at_random, crashes
from tests.sim.schedule_runner import describe_run
from tests.sim.schedules import named


@click.command(help=__doc__)
@click.option("--seed", type=int, default=1)
@click.option("--schedules", type=int, default=20_000, help="How many random ones.")
@click.option("--share", type=int, default=1, help="One in so many crash points.")
@click.option("--jobs", type=int, default=2)
@click.option("--repeat", default=None, help="The name of one schedule.")
def main(seed: int, schedules: int, share: int, jobs: int, repeat: str | None) -> None:
    if repeat is not None:
        for line in describe_run(named(repeat)):
            click.echo(line)
        return
    began = time.monotonic()
    report = crashes(seed, share, jobs)
    report.add(at_random(seed, schedules, jobs))
    click.echo(f"simulation: seed {seed}, commit {commit()}, {time.monotonic() - began:.0f} s")
    for line in report.lines():
        click.echo(line)
    sys.exit(0 if _bugs() and not report.broken else 1)


def _bugs() -> bool:
    """Whether each is caught."""
    results = [hunted(bug) for bug in BUGS]
    caught = [entry for entry in results if entry.by is not None]
    click.echo(f"planted bugs caught: {len(caught)} of {len(results)}")
    for item in results:
        click.echo(f"  {item.by or 'NOT CAUGHT'} in schedule {item.after}: {item.bug}")
    return len(caught) == len(results)


if __name__ == "__main__":
    main()
