"""
Seeded kills of the pipeline under load: is every record in the tables, and once?

    python -m lab.kills.history --kills 20 --seed 7

`history run --continuous` follows steady commits, with batches so small that it is always in the
middle of one. It is killed (SIGKILL, Python and JVM at once) and started again, at moments that the
seed decides: while it starts, in a batch, or just when Delta has a batch that Spark does not know
to be done; now and then its broker is away for some seconds. Afterwards one more run reads what is
left. Bronze is then held record by record against what a plain consumer reads and what the
producers were told, and everything against the tables that one undisturbed run makes of the same
topics.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable

from lab.check.ground_truth_recorder import Topics
from lab.check.steady_commits import SOURCE, Bytes, Commits, Identity
from lab.cluster.kafka_client import settings
from lab.cluster.lab import Lab
from lab.cluster.options import LabOptions
from lab.errors import LabError
from lab.kills import seeded_kills
from lab.kills.seeded_kills import commit, counts
from lab.processes.ports import free_port
from lab.product.offsetwatch import Product
from offsetwatch.history.tables.schemas import (
    BRONZE_GROUP_OFFSETS,
    BRONZE_LOG_ENDS,
    BRONZE_RECORDS,
    BRONZE_SOURCE_ENDS,
    SILVER_SNAPSHOTS,
    TABLES,
    Table,
)

KAFKA: Final = "east"
RATE_PER_S: Final = 60.0
# A batch takes a second, and there is always another one to read.
BATCH_RECORDS: Final = 60
OUTAGE_EVERY: Final = 10
BATCH_S_MAX: Final = 180.0
POLL_S: Final = 0.002
BUG: Final = "this is a bug"
AT_START, IN_BATCH, AT_WRITE = "while starting", "in a batch", "as a batch was written"
# How often each, and of which span the seed draws how long the pipeline is left alone before.
MOMENTS: Final = {AT_START: (2, (0.5, 15.0)), IN_BATCH: (5, (0.0, 2.5)), AT_WRITE: (3, (0.0, 2.5))}
OUTAGE_S: Final = (2.0, 8.0)

# Snapshots are made when a day is over, which it may be between two runs. Samples are of the moment
# at which a run asked, and of as many runs as came to that.
NOT_COMPARED: Final = (
    SILVER_SNAPSHOTS,
    BRONZE_LOG_ENDS,
    BRONZE_GROUP_OFFSETS,
    BRONZE_SOURCE_ENDS,
)
COMPARED: Final = tuple(table for table in TABLES if table not in NOT_COMPARED)
READ_AT: Final = ("ingest_ts", "first_read_at", "last_read_at")

_CONFIG: Final = """\
kafka:
  east: {{bootstrap: "{east}"}}
  west: {{bootstrap: "{west}"}}
connect:
  - {{name: ledger, kafka: east, offsets_topic: {offsets}}}
flows:
  - source: {source}
    target: east
    upstream: west
    downstream: east
    connect: ledger
    connector: mirror
    offset_syncs: {{kafka: east, topic: {syncs}}}
"""


@dataclass(frozen=True, slots=True)
class Kill:
    """One blow: at which moment, how long after it began, and how long the broker is away before
    that (seconds; None: it is not).
    """

    moment: str
    after_s: float
    outage_s: float | None


def schedule(seed: int, kills: int) -> tuple[Kill, ...]:
    """The same blows for the same seed; the first ones do not depend on how many follow."""
    chance = random.Random(seed)
    results = []
    for number in range(kills):
        (moment,) = chance.choices([*MOMENTS], [weight for weight, _ in MOMENTS.values()])
        after_s, outage_s = chance.uniform(*MOMENTS[moment][1]), chance.uniform(*OUTAGE_S)
        outage = number % OUTAGE_EVERY == OUTAGE_EVERY // 2
        results.append(Kill(moment, after_s, outage_s if outage else None))
    return tuple(results)


@dataclass(slots=True)
class Report:
    """What a run showed.

    in_batch      kills that left a batch planned and not done
    written       how many of those batches were in the table all the same
    outages       what the pipeline did when its broker was away
    records       those that a reader of committed records finds in the topics
    acknowledged  those that producers were told are there
    lost          identities that are missing from bronze
    doubled       rows too many
    strange       rows that are not what the topics hold
    different     tables that are not what one undisturbed run makes of the same topics
    unsound       why the run proves nothing
    """

    seed: int
    commit: str
    kills: Counter[str] = field(default_factory=Counter)
    in_batch: int = 0
    written: int = 0
    outages: Counter[str] = field(default_factory=Counter)
    records: int = 0
    acknowledged: int = 0
    rows: int = 0
    lost: list[Identity] = field(default_factory=list)
    doubled: int = 0
    strange: list[Identity] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    compared: Counter[str] = field(default_factory=Counter)
    unsound: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"seed {self.seed}, commit {self.commit}"
        yield f"kills {self.kills.total()}: {counts(self.kills)}"
        yield f"in mid-batch {self.in_batch}, of which {self.written} in the table already"
        yield f"outages {self.outages.total()}: {counts(self.outages)}"
        yield f"records {self.records}, acknowledged {self.acknowledged}, rows {self.rows}"
        yield f"lost {len(self.lost)}, doubled {self.doubled}, strange {len(self.strange)}"
        yield from (f"  lost: {item}" for item in self.lost[:10])
        yield from (f"  strange: {item}" for item in self.strange[:10])
        yield f"compared with an undisturbed run: {counts(self.compared)}"
        yield from (f"different: {line}" for line in self.different)
        yield from (f"proves nothing: {line}" for line in self.unsound)

    @property
    def sound(self) -> bool:
        """Nothing lost, nothing doubled, nothing invented, and the run proves something."""
        faults = (self.lost, self.doubled, self.strange, self.different, self.unsound)
        return not any(faults) and self.rows > 0


def run(lab: Lab, directory: Path, *, seed: int, kills: int) -> Report:
    """Commit, kill, finish, judge. The lab needs no connectors; outages end and start its east."""
    report = Report(seed=seed, commit=commit())
    name = f"kills-{time.time_ns()}"
    commits = Commits(lab, offsets=f"{name}-offsets", syncs=f"{name}-syncs", rate_per_s=RATE_PER_S)
    config = config_of(lab, commits)
    base = directory / "history"

    def product(name: str, base: Path, more: str = "") -> Product:
        history = f'history: {{path: "{base}", heap: 700m{more}}}\n'
        return Product(
            lab, directory=directory / name, port=free_port(), config=config, extra=history
        )

    hasty = product("hasty", base, f", cadence_s: 1, max_offsets_per_trigger: {BATCH_RECORDS}")
    with commits:
        try:
            for kill in schedule(seed, kills):
                _strike(lab, hasty, base, kill, report)
        finally:
            hasty.stop()
    report.unsound += commits.failures
    report.unsound += [] if report.in_batch else ["no kill met a batch"]
    product("final", base).run_pipeline()
    fresh = directory / "fresh"
    product("fresh", fresh).run_pipeline()
    judge_bronze(report, lab, base, commits)
    for table in COMPARED:
        own, its = _rows(table, base), _rows(table, fresh)
        report.compared[table.path] = len(own)
        if own != its:
            report.different.append(f"{table.path}: {len(own)} rows and {len(its)}")
    return report


def config_of(lab: Lab, commits: Commits) -> str:
    """Of a product that follows what these commits go to."""
    return _CONFIG.format(
        east=lab.east,
        west=lab.west,
        source=SOURCE,
        offsets=commits.offsets,
        syncs=commits.syncs,
    )


# ---- blows --------------------------------------------------------------------------------------

Batch = tuple[int, int]
"""A generation and the number of a batch in it, -1 before the first."""


class _Progress:
    """How far the pipeline is, as the files of its checkpoint and of its table say."""

    def __init__(self, base: Path) -> None:
        self._generations = base / "_ckpt" / KAFKA
        self._bronze = BRONZE_RECORDS.at(base)

    def planned(self) -> Batch:
        """The newest batch that was begun."""
        return self._newest("offsets")

    def done(self) -> Batch:
        """The newest batch that Spark knows to be done."""
        return self._newest("commits")

    def written(self) -> Batch:
        """The newest batch that is in the table."""
        generation = self._generation()
        identity = self._folder(generation) / "metadata"
        if generation < 0 or not identity.exists() or self.version() < 0:
            return (generation, -1)
        query = json.loads(identity.read_text())["id"]
        number = DeltaTable(str(self._bronze)).transaction_version(query)
        return (generation, -1 if number is None else number)

    def version(self) -> int:
        """The newest version of the table."""
        log = self._bronze / "_delta_log"
        return max((int(file.stem) for file in log.glob("*.json")), default=-1)

    def _newest(self, log: str) -> Batch:
        generation = self._generation()
        folder = self._folder(generation) / log
        names = [file.name for file in folder.iterdir()] if folder.is_dir() else []
        return (generation, max((int(name) for name in names if name.isdecimal()), default=-1))

    def _generation(self) -> int:
        files = self._generations.glob("g*.json")
        return max((int(file.stem[1:]) for file in files), default=-1)

    def _folder(self, generation: int) -> Path:
        return self._generations / f"g{generation}"


def _strike(lab: Lab, product: Product, base: Path, kill: Kill, report: Report) -> None:
    """The pauses are drawn, not awaited: what must hold holds at whatever moment they end."""
    progress = _Progress(base)
    _start(product, progress, in_batch=kill.moment != AT_START or kill.outage_s is not None)
    if kill.outage_s is not None:
        outcome = _outage(lab, product, progress, kill.outage_s)
        report.outages[outcome] += 1
        if not product.pipeline_running:
            _start(product, progress, in_batch=True)
    time.sleep(kill.after_s)
    if kill.moment == AT_WRITE:
        version = progress.version()
        _await(product, "a batch written", lambda: progress.version() > version)
    if not product.pipeline_running:
        raise LabError(f"the pipeline ended by itself\n{product.evidence()}")
    product.kill_pipeline()
    report.kills[kill.moment] += 1
    planned = progress.planned()
    report.in_batch += planned > progress.done()
    report.written += progress.written() >= planned > progress.done()


def _start(product: Product, progress: _Progress, *, in_batch: bool) -> None:
    """Start it; with `in_batch`, wait until it has begun a batch, or ended one that lay there."""
    before = (progress.planned(), progress.done())
    product.start_pipeline()
    if in_batch:
        _await(product, "a batch", lambda: (progress.planned(), progress.done()) != before)


def _outage(lab: Lab, product: Product, progress: _Progress, outage_s: float) -> str:
    """Take the broker away and bring it back; what the pipeline did."""
    lab.kill(KAFKA)
    time.sleep(outage_s)
    lab.start_process(KAFKA)
    # The batch that was begun may have had all it needed, so that it proves nothing.
    planned = progress.planned()
    _await(product, "a batch done after the outage", lambda: progress.done() > planned)
    if product.pipeline_running:
        return "went on"
    if BUG in product.evidence():
        raise LabError(f"the pipeline ended without a reason\n{product.evidence()}")
    return "ended with a reason"


def _await(product: Product, what: str, holds: Callable[[], bool]) -> None:
    """Wait as long as the pipeline runs. What is awaited may be over in milliseconds."""
    deadline = time.monotonic() + BATCH_S_MAX
    while product.pipeline_running and not holds():
        if time.monotonic() > deadline:
            raise LabError(f"{what}: not within {BATCH_S_MAX:.0f} s\n{product.evidence()}")
        time.sleep(POLL_S)


# ---- judgement ----------------------------------------------------------------------------------


def judge_bronze(report: Report, lab: Lab, base: Path, commits: Commits) -> None:
    """Bronze against the topics, and the topics against what producers were told."""
    names = (commits.offsets, commits.syncs)
    topics = Topics(lab.east, names)
    try:
        topics.start()
        topics.catch_up()
    finally:
        topics.stop()
    held = {
        (name, record.partition, record.offset): (record.key, record.value)
        for name in names
        for record in topics.records[name]
    }
    missing = [item for item, of in commits.acknowledged.items() if held.get(item) != of]
    report.unsound += [f"the broker lost {item}" for item in missing[:10]]
    report.records, report.acknowledged = len(held), len(commits.acknowledged)
    admin = AdminClient(settings(lab.east))
    described = admin.describe_topics(TopicCollection([*names])).items()
    topic_ids = {name: str(future.result().topic_id) for name, future in described}
    columns = ["kafka", "topic", "topic_id", "kpartition", "koffset", "key", "value"]
    table = DeltaTable(str(BRONZE_RECORDS.at(base))).to_pyarrow_table(columns=columns)
    compare(report, table.to_pylist(), held, topic_ids)


def compare(
    report: Report,
    rows: Iterable[Mapping[str, Any]],
    held: Mapping[Identity, Bytes],
    topic_ids: Mapping[str, str],
) -> None:
    """Rows of bronze against what the topics of these ids hold."""
    observed: Counter[Identity] = Counter()
    for row in rows:
        item = (row["topic"], row["kpartition"], row["koffset"])
        observed[item] += 1
        where = (row["kafka"], row["topic_id"])
        if where != (KAFKA, topic_ids.get(item[0])) or held.get(item) != (row["key"], row["value"]):
            report.strange.append(item)
    report.rows = observed.total()
    report.lost = sorted(held.keys() - observed.keys())
    report.doubled = report.rows - len(observed)


def _rows(table: Table, base: Path) -> list[tuple[str, ...]]:
    """All rows of a table, in order; without the moments at which they were read."""
    columns = [name for name in table.names if name not in READ_AT]
    pyarrow_table = DeltaTable(str(table.at(base))).to_pyarrow_table(columns=columns)
    return sorted(tuple(map(repr, row.values())) for row in pyarrow_table.to_pylist())


def lab_and_folder() -> AbstractContextManager[tuple[Lab, Path]]:
    """A lab and a folder as run() wants them; ended and removed afterwards."""
    return seeded_kills.lab_and_folder("history-kills", LabOptions(connectors=False))


@click.command()
@click.option("--kills", type=click.IntRange(1, 1000), default=20, show_default=True)
@seeded_kills.seeded
def main(*, kills: int, seed: int | None) -> None:
    """Kill the pipeline in the middle of its batches, and hold its tables against the topics."""

    def once(seed: int) -> Report:
        with lab_and_folder() as (lab, directory):
            return run(lab, directory, seed=seed, kills=kills)

    seeded_kills.report(f"{kills} kills of the pipeline", seed, once)


if __name__ == "__main__":
    main()
