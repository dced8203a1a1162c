"""As-of over a long past: how soon the offsets of one connector at a moment are there, and from how
many files.

Silver is generated: a month of commits of 40 connectors, laid out as runs and maintenance leave it,
sorted by connector, with a snapshot of each day. The question goes through the command line, as
people ask it, start of the interpreter included. The baseline is the same question without
snapshots, which opens every day until then. The answer is held against what was generated; more
than two seconds, or a wrong answer, fails the run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offsetwatch.history.pipeline import commits
from offsetwatch.history.tables.parquet import ORDERED_PREFIX
from offsetwatch.history.tables.schemas import (
    ARROW,
    BRONZE_RECORDS,
    CONNECT_OFFSETS,
    SILVER_COMMITS,
    SILVER_LOGS,
    SILVER_NEWEST,
    SILVER_SNAPSHOTS,
    Table,
)

SECONDS_MAX = 2.0
DAYS, CONNECTORS, SOURCES = 30, 40, 50
FIRST = date(2026, 10, 1)
DAY_S = 86_400
BATCH_ROWS = 10_000  # as Spark hands them over
ROUNDS = 5
CONNECTOR_NUMBER = 17  # the connector


@dataclass(frozen=True, slots=True)
class Past:
    """Every source partition commits `steps` times a day, evenly; its offset counts the commits."""

    base: Path
    steps: int

    @property
    def interval_s(self) -> float:
        """Between two commits."""
        return DAY_S / self.steps

    def generate(self) -> int:
        """Make the tables; how many commits there are."""
        at_once = max(1, commits.FILE_ROWS_MAX // (SOURCES * self.steps))
        for number in range(DAYS):
            for first in range(0, CONNECTORS, at_once):
                of = range(first, min(first + at_once, CONNECTORS))
                self.write(SILVER_COMMITS, self._commits(number, of, range(self.steps)))
            last = range(self.steps - 1, self.steps)
            self.write(SILVER_SNAPSHOTS, self._commits(number, range(CONNECTORS), last))
        self.write(SILVER_LOGS, self._logs())
        self.write(SILVER_NEWEST, _named(SILVER_NEWEST, {}, 0))
        self.write(BRONZE_RECORDS, _named(BRONZE_RECORDS, {}, 0))
        return DAYS * CONNECTORS * SOURCES * self.steps

    def offset(self, moment: datetime) -> int:
        """Of every source partition at this moment."""
        return int((moment - _midnight(FIRST)).total_seconds() // self.interval_s)

    def _commits(self, number: int, connectors: range, steps: range) -> pa.Table:
        day = FIRST + timedelta(days=number)
        shape = (len(connectors), SOURCES, len(steps))
        connector, source, step = (
            part.reshape(-1) for part in np.broadcast_arrays(*np.ogrid[tuple(map(slice, shape))])
        )
        counted = pa.array(number * self.steps + step + steps.start)
        micros = round(_midnight(day).timestamp()) * 1_000_000 + np.round(
            (step + steps.start) * self.interval_s * 1_000_000
        ).astype(np.int64)
        at = pa.array(micros).cast(ARROW["TIMESTAMP"])
        names = pa.array([f"mirror-{any_connector:02d}" for any_connector in connectors])
        partitions = pa.array(
            sorted(
                f'{{"cluster":"west","partition":{index},"topic":"orders"}}'
                for index in range(SOURCES)
            )
        )
        offsets = pc.binary_join_element_wise('{"offset":', counted.cast(pa.string()), "}", "")
        order = (counted.to_numpy() * SOURCES + source) * CONNECTORS + connectors.start + connector
        return _named(
            SILVER_COMMITS if len(steps) > 1 else SILVER_SNAPSHOTS,
            {
                "connect_cluster": "lab",
                "connector": names.take(pa.array(connector)),
                "source_partition": partitions.take(pa.array(source)),
                "at": at,
                "koffset": pa.array(order),
                "kafka": "east",
                "topic": "connect-offsets",
                "topic_id": "id",
                "kpartition": pa.array((connectors.start + connector) % 25),
                "kts": at,
                "ingest_ts": at,
                "dialect": "mirror_source",
                "source_offset": offsets,
                "tombstone": False,
                "pos": counted,
                "change": "ahead",
                "step": 1,
                "pause_s": self.interval_s,
                "day": day,
            },
            len(counted),
        )

    def _logs(self) -> pa.Table:
        first, last = _midnight(FIRST), _midnight(FIRST + timedelta(days=DAYS))
        row = {
            "kind": CONNECT_OFFSETS,
            "connect_cluster": "lab",
            "kafka": "east",
            "topic": "connect-offsets",
            "topic_id": "id",
            "kpartition": 0,
            **dict.fromkeys(("first_offset", "next_offset", "records", "holes", "undecodable"), 0),
            **dict.fromkeys(("first_at", "first_read_at"), first),
            **dict.fromkeys(("last_at", "last_read_at"), last),
        }
        return _named(SILVER_LOGS, row, 1)

    def write(self, table: Table, rows: pa.Table) -> None:
        """Add to a table, as maintenance would have left it."""
        commits.create(self.base, table)
        batches = rows.to_batches(max_chunksize=BATCH_ROWS)
        commits.append(
            commits.write_batches(batches, self.base, table, ORDERED_PREFIX), self.base, table
        )


def _named(table: Table, columns: dict[str, object], rows: int) -> pa.Table:
    arrays = []
    for column in table.columns:
        kind, value = ARROW[column.type], columns.get(column.name)
        whole = isinstance(value, pa.Array | pa.ChunkedArray)
        arrays.append(value.cast(kind) if whole else pa.repeat(pa.scalar(value, kind), rows))  # type: ignore[attr-defined]
    return pa.table(arrays, names=list(table.names))


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _ask(past: Past, moment: datetime) -> tuple[float, list[str], bool]:
    """(seconds, what it said of files, whether the answer is right)"""
    config = past.base.parent / "bench.yaml"
    config.write_text(
        "kafka: {east: {bootstrap: '127.0.0.1:1'}}\n"
        "connect: [{name: lab, kafka: east, url: 'http://127.0.0.1:1'}]\n"
        f"history: {{path: {json.dumps(str(past.base))}}}\n"
    )
    name = f"mirror-{CONNECTOR_NUMBER:02d}"
    command = [sys.executable, "-m", "offsetwatch", "history", "as-of", "--config", str(config)]
    command += ["--time", moment.isoformat(), "--connector", name, "--format", "kip199", "-v"]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"as-of failed: {done.stderr or done.stdout}")
    opened = [line for line in done.stderr.splitlines() if "opened" in line]
    expected = {"offset": past.offset(moment)}
    answer = json.loads(done.stdout or "{}").get(name, [])
    right = len(answer) == SOURCES and all(pair["offset"] == expected for pair in answer)
    return seconds, opened, right


def main() -> None:
    """Generate, ask, print; exit 1 if it took too long or was wrong."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=100_000_000)
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="offsetwatch-bench-") as folder:
        past = Past(
            Path(folder) / "history", max(1, arguments.rows // (DAYS * CONNECTORS * SOURCES))
        )
        began = time.perf_counter()
        rows = past.generate()
        size = sum(file.stat().st_size for file in past.base.rglob("*.parquet"))
        print(f"{rows:,} commits, {size / 1e9:.1f} GB, in {time.perf_counter() - began:.0f} s")
        moments = [
            _midnight(FIRST) + timedelta(days=number, hours=13, minutes=7 * number)
            for number in range(DAYS - 1, 0, -DAYS // ROUNDS)
        ]
        pictured = [_ask(past, moment) for moment in moments]
        for line in pictured[0][1]:
            print(line.replace(str(past.base), "…"))
        shutil.rmtree(SILVER_SNAPSHOTS.at(past.base))
        past.write(SILVER_SNAPSHOTS, _named(SILVER_SNAPSHOTS, {}, 0))
        plain = [_ask(past, moment) for moment in moments[:1]]
    slowest = max(seconds for seconds, _, _ in pictured)
    right = all(right for _, _, right in (*pictured, *plain))
    print(f"one connector of {CONNECTORS}, {len(moments)} moments, start included: ", end="")
    print(f"slowest {slowest:.2f} s; without snapshots {plain[0][0]:.2f} s, from {plain[0][1][-1]}")
    print(f"answers right: {right}")
    sys.exit(0 if right and slowest < SECONDS_MAX else 1)


if __name__ == "__main__":
    main()
