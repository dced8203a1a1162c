"""What the pictures of the boards are drawn from: an incident in virtual time, with remedies and a
history that are made up. `python -m tests.artefacts.board_incident docs/boards` draws them anew.

MirrorMaker stops copying after twenty minutes and claims to run; the daemon is the real one of
tests/scenarios.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from dashboards.pictures import main
from offsetwatch.serve.metrics.exposition import OPENMETRICS_1_0_0, Exposition
from offsetwatch.state.snapshot import Snapshot
from tests.changed import replace
from tests.scenarios.daemon import Daemon
from tests.scenarios.script import BEGINNING
from tests.scenarios.world import World
from tests.unit.serve.worlds import BUILD, RELOADED, full

from .backfill import INTERVAL_S, serving
from .boards import build_snapshot

STORY = """
about: MirrorMaker reads nothing any more, and every state says running.
lasts: 40m
topics:
  west/orders: {partitions: 2, load: 20/s}
  east/shop: {load: 5/s}
groups:
  billing: {reads: orders, speed: 100/s}
connectors:
  mirror: {copies: [orders], tasks: 2}
  mirror-checkpoint: {checkpoints: mirror, groups: [billing]}
  files: {reads: {filename: /data/in.txt}, counts: position, step: 120, every: 3s}
  lake: {writes: [shop], speed: 100/s}
happens:
  - {at: 20m, hang: mirror}
"""
TARGET = 'job="offsetwatch",instance="a:9640"'
CHOSEN = ("connect_cluster=lab", "connector=mirror", "source=west", "target=east")


def iterate_snapshots() -> Iterator[Snapshot]:
    """One for each scrape."""
    story = World(yaml.safe_load(STORY))
    daemon, next_at = Daemon(story), 0.0
    made_up, pipeline = build_snapshot().remedies, full().pipeline
    assert made_up is not None
    assert pipeline.status is not None
    while story.now - BEGINNING < story.lasts_s:
        story.step()
        snapshot = daemon.step()
        if snapshot.at < next_at:
            continue
        next_at = snapshot.at + INTERVAL_S
        tables = (("bronze", snapshot.at - 20), ("gold", snapshot.at - 50))
        status = replace(pipeline.status, batch_at=snapshot.at - 20, tables=tables)
        yield replace(
            snapshot,
            remedies=replace(made_up, at=snapshot.at, stopped_by_us=()),
            pipeline=replace(pipeline, status=status),
            saved_at=snapshot.at - snapshot.at % 30,
        )


def scrapes() -> tuple[str, int]:
    """All of them as one text of OpenMetrics, family by family, and the time of the newest."""
    families: dict[str, dict[str, list[str]]] = {}
    offset, read = 0, replace(RELOADED, at=BEGINNING)
    for snapshot in iterate_snapshots():
        offset = int(snapshot.at)
        family: dict[str, list[str]] = {}
        text = Exposition(BUILD, lambda: read).render(snapshot, OPENMETRICS_1_0_0).decode()
        for line in text.replace("# EOF\n", "# TYPE up gauge\nup 1\n").splitlines():
            if line.startswith("#"):
                kind, name, _ = line[2:].split(" ", 2)
                family = families.setdefault(name, {})
                family[kind] = [line]
                continue
            series, value = line.rsplit(" ", 1)
            name, _, labels = series.rstrip("}").partition("{")
            every = ",".join(filter(None, (TARGET, labels)))
            family.setdefault(series, []).append(f"{name}{{{every}}} {value} {offset}")
    lines = [line for family in families.values() for part in family.values() for line in part]
    return "\n".join([*lines, "# EOF"]) + "\n", offset


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        openmetrics, newest = scrapes()
        with serving(Path(temporary), openmetrics, newest) as running:
            chosen = [f"--set={name}" for name in CHOSEN]
            sys.exit(
                main(["--prometheus", running.url, "--at", str(newest), *chosen, *sys.argv[1:]])
            )
