"""
Plants bugs one at a time and reports which test catches each.

    python -m tests.planted                      every bug; hours
    python -m tests.planted --area decode        those of one area
    python -m tests.planted --only "The start of a finding moves with every poll"
    python -m tests.planted --selection first    with each bug's own tests alone

A bug that its own tests do not catch is tried against all tests without Kafka (`fast`, the
default), and against those with Kafka as well (`full`). The table is in results.md beside this.
"""

from __future__ import annotations

import sys

import click

from tests.planted import simulation
from tests.planted.catalogue import AREAS, read_bugs
from tests.planted.results import Row, write_rows
from tests.planted.trial import NOT_CAUGHT, SELECTIONS, Measurement, measure
from tests.sim.bugs import BUGS


@click.command(help=__doc__)
@click.option("--only", default=None, help="The name of one bug.")
@click.option("--area", type=click.Choice([*AREAS, simulation.AREA]), default=None)
@click.option("--selection", type=click.Choice(list(SELECTIONS)), default="fast")
def main(only: str | None, area: str | None, selection: str) -> None:
    bugs = [bug for bug in read_bugs() if only in {None, bug.name} and area in {None, bug.area}]
    simulated = [
        bug
        for bug, name in zip(BUGS, simulation.SENTENCES, strict=True)
        if only in {None, name} and area in {None, simulation.AREA}
    ]
    if not bugs and not simulated:
        raise click.UsageError("no such bug")
    order = (*(bug.name for bug in read_bugs()), *simulation.SENTENCES)
    rows = []
    for bug in bugs:
        measurement = measure(bug, selection)
        rows.append(_row(measurement))
        click.echo(f"{_sentence(rows[-1])}, {measurement.seconds:.0f} s")
        write_rows(rows, order)
    for planted in simulated:
        rows.append(simulation.simulate(planted))
        click.echo(_sentence(rows[-1]))
    write_rows(rows, order)
    missed = [row for row in rows if row.tier == NOT_CAUGHT]
    click.echo(f"planted bugs caught: {len(rows) - len(missed)} of {len(rows)}")
    sys.exit(1 if missed else 0)


def _row(measurement: Measurement) -> Row:
    bug, failure = measurement.bug, measurement.failure
    if failure is None:
        return Row(bug.name, bug.area, NOT_CAUGHT, "")
    ending = "" if failure.ended else " did not end"
    return Row(bug.name, bug.area, failure.tier, f"`{failure.nodeid}`{ending}")


def _sentence(row: Row) -> str:
    where = row.tier if row.tier == NOT_CAUGHT else f"{row.tier}: {row.test}"
    return f"{row.area}: {row.name}\n    {where}"


if __name__ == "__main__":
    main()
