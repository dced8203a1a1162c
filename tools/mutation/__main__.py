"""
Mutation testing of the pure core: would the tests notice, were the code a little different?

    python -m tools.mutation decode                            all of a package
    python -m tools.mutation decode --only mm2 --tests tests/unit/decode
    python -m tools.mutation state --sample 500 --seed 7       some of its mutants
    python -m tools.mutation state --among out.txt --slow      with slow tests as well

Survivors that docs/mutation.md does not explain are told, and make it fail.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

import click
import pytest

from tools.mutation.mutants import of_files
from tools.mutation.packages import TESTS, files
from tools.mutation.runs import Fate, Runs, Tried

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "mutation.md"
SLOW: Final = "not real and not spark and not proof and not image"
QUICK: Final = f"{SLOW} and not slow"

# What one mutant's tests may compute: measured unchanged, and looked at, which makes it more.
QUICK_S_MAX: Final = 20.0
SLOW_S_MAX: Final = 200.0
TOLD_EVERY: Final = 25


@click.command(help=__doc__)
@click.argument("package", type=click.Choice(list(TESTS)))
@click.option("--only", multiple=True, help="Modules, by name.")
@click.option("--tests", multiple=True, help="Other tests than usual.")
@click.option("--sample", type=int, default=None, help="So many mutants.")
@click.option("--seed", type=int, default=1, help="Which ones.")
@click.option("--among", type=click.Path(path_type=Path, exists=True), default=None)
@click.option("--slow", is_flag=True, help="With the tests that `make check` leaves out.")
@click.option("--jobs", type=int, default=2)
def main(
    *,
    package: str,
    only: tuple[str, ...],
    tests: tuple[str, ...],
    sample: int | None,
    seed: int,
    among: Path | None,
    slow: bool,
    jobs: int,
) -> None:
    """See the module."""
    began = time.monotonic()
    paths = [path for path in files(ROOT, package) if not only or Path(path).stem in only]
    found = of_files(ROOT, paths)
    if among is not None:
        named = among.read_text(encoding="utf-8")
        found = [each for each in found if f"{each.name}\n" in named]
    chosen = found if sample is None else random.Random(seed).sample(found, min(sample, len(found)))  # noqa: S311 - a sample is no secret
    explained = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    count: Counter[str] = Counter()
    surprises = []

    def fates() -> str:
        return ", ".join(f"{count[fate.value]} {fate.value}" for fate in Fate)

    def told(tried: Tried) -> None:
        count[tried.fate.value] += 1
        if tried.fate is Fate.SURVIVED and tried.mutant.name not in explained:
            surprises.append(tried)
            line = tried.mutant.lines.start
            click.echo(f"survived {tried.tests} tests: line {line}: {tried.mutant.name}")
        if not count.total() % TOLD_EVERY:  # so that a run that is broken off has counts
            click.echo(f"tried {count.total()} of {len(chosen)}: {fates()}")

    runs = Runs(
        ROOT, chosen, workers=jobs, told=told, tests_s_max=SLOW_S_MAX if slow else QUICK_S_MAX
    )
    options = [
        "-q",
        "-s",
        "-p",
        "no:cacheprovider",
        "--tb=line",
        "--assert=plain",
        "-m",
        SLOW if slow else QUICK,
    ]
    ended = pytest.main([*options, *(tests or TESTS[package])], plugins=[runs])
    if ended not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        sys.exit("the tests could not be collected")
    for test in runs.passage.failing:
        click.echo(f"not used, as it fails when it is looked at: {test}")
    for path in sorted(runs.left_out):
        click.echo(f"not changed outside of functions, as its tests fail afresh: {path}")
    click.echo(f"{package}: tried {count.total()} of {len(found)}, seed {seed}: {fates()}")
    click.echo(f"{len(surprises)} survived unexplained, {time.monotonic() - began:.0f} s")
    sys.exit(1 if surprises else 0)


if __name__ == "__main__":
    main()
