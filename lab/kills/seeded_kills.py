"""Options, seed and exit code that all seeded kills share."""

import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import click

from lab.cluster.lab import Lab
from lab.cluster.options import LabOptions
from lab.errors import LabError

seeded: Final = click.option(
    "--seed", type=int, default=None, help="Drawn and printed when not given."
)


class Report(Protocol):
    """What a run showed."""

    def lines(self) -> Iterator[str]:
        """For people."""

    @property
    def sound(self) -> bool:
        """Nothing wrong was found, and the run was one that could have found it."""


@contextmanager
def lab_and_folder(name: str, options: LabOptions) -> Iterator[tuple[Lab, Path]]:
    """A lab and a folder; ended and removed afterwards."""
    folder = tempfile.TemporaryDirectory(prefix=f"offsetwatch-{name}-")
    with folder as directory, Lab(options) as lab:
        yield lab, Path(directory)


def report(what: str, seed: int | None, run: Callable[[int], Report]) -> None:
    """Run it with this seed or a drawn one, print what it showed, and end the process by it."""
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}, {what}")
    try:
        result = run(seed)
    except LabError as exc:
        raise click.ClickException(str(exc)) from exc
    for line in result.lines():
        click.echo(line)
    sys.exit(0 if result.sound else 1)


def counts(result: Mapping[str, object]) -> str:
    """So many of each, in one line."""
    return ", ".join(f"{what} {count}" for what, count in sorted(result.items())) or "none"


def commit() -> str:
    """The commit this runs from, with a mark when files differ from it."""
    command = ("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, check=False, text=True)
    return done.stdout.strip() or "unknown"
