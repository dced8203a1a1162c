"""
Forced failovers of two replicas that share a journal, while plans are carried out: is anything done
twice, or by one that was followed?

    python -m tests.failovers --seed 7 --failovers 500

The journal is a topic of a real broker; each replica is a process, and reaches the broker through
a relay of its own. A sink in a model of Connect, over HTTP, meets bad records one after the other,
and whoever leads has them skipped. At moments that the seed draws the leader is killed, frozen
(SIGSTOP) or cut off from the broker, and comes back some time after another one leads. Every
request that changes something is held against the intents in the journal.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from lab.kills import seeded_kills
from tests.failovers.run import Report, run


@click.command(help=__doc__)
@click.option("--failovers", type=click.IntRange(1, 10_000), default=500, show_default=True)
@seeded_kills.seeded
def main(*, failovers: int, seed: int | None) -> None:
    def once(seed: int) -> Report:
        with tempfile.TemporaryDirectory(prefix="offsetwatch-failovers-") as directory:
            return run(Path(directory), seed=seed, failovers=failovers)

    seeded_kills.report(f"{failovers} failovers", seed, once)


if __name__ == "__main__":
    main()
