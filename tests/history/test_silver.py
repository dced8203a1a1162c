"""Silver: what each commit changed, rates, the state at the end of days; runs of any cut agree.

Bronze is written without Spark. Seconds of the records below are seconds after MORNING.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from offsetwatch.decode.source_offsets import decode_key, decode_value
from offsetwatch.errors import HistoryError
from offsetwatch.history.tables.schemas import (
    BRONZE_RECORDS,
    GOLD_CLASSES,
    RATE_S,
    SILVER,
    SILVER_COMMITS,
    SILVER_LOGS,
    SILVER_NEWEST,
    SILVER_RATES,
    SILVER_SNAPSHOTS,
    TABLES,
    Table,
)
from offsetwatch.model.observations import SourceRecord
from offsetwatch.model.offsets import SourceKey
from offsetwatch.state.connect.source_offsets import SourceBook
from offsetwatch.state.snapshot import SourcePartitionView
from tests.history.delta import Row, refine_plainly, snapshot, stored, write
from tests.history.rows import (
    OBSERVED_ROLES,
    SYNCS_TOPIC,
    Raw,
    at,
    decoded,
    offset_key,
    sync_key,
    sync_value,
)
from tests.history.test_asof import (
    DAY,
    HASHED_COPY,
    IN,
    LINKED_COPY,
    MIRROR_MAKER,
    MORNING,
    OUT,
    REPLICATOR,
    TREE_COPY,
    Commit,
    bronze_rows,
    configure,
    find_class,
    format_offset,
    raw_keys,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAYS = 4
FILE_STREAM = b'{"properties":{"connector.class":"FileStreamSource"}}'
SERVER = {"server": "inventory"}
SPACED = offset_key("file", IN).replace(b",", b", ")


def day_of(number: int) -> date:
    return datetime.fromtimestamp(MORNING + number * DAY, tz=UTC).date()


def create(base: Path) -> Path:
    for table in TABLES:
        if not (table.at(base) / "_delta_log").is_dir():
            write(base, table)
    return base


def refined(spark: SparkSession, base: Path, today: int = 0) -> Path:
    from offsetwatch.history.pipeline.silver import refine

    refine(spark, create(base), day_of(today))
    return base


def rows(base: Path, table: Table, *names: str) -> list[Row]:
    return ordered(
        {name: row[name] for name in names or table.names} for row in stored(base, table)
    )


def ordered(result: Any) -> list[Row]:
    return sorted(result, key=lambda row: [str(value) for value in row.values()])


def lake(base: Path, *commits: Commit, **how: Any) -> None:
    write(base, BRONZE_RECORDS, *bronze_rows(*commits, **how))


@pytest.fixture(scope="module")
def few(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few commits in a topic, in the one that replaced it, and across a border of rates."""
    base = tmp_path_factory.mktemp("few")
    lake(
        base,
        Commit(0, '{"position":5}'),
        Commit(10, '{"position":5}'),
        Commit(12.5, '{"position":9}'),
        Commit(12, '{"position":2}'),
        Commit(20, None),
        Commit(21, "null"),
        Commit(22, "{"),
        Commit(23, '{"position":18446744073709551616}'),
        Commit(24, '{"position":3}'),
        Commit(25, '{"position":1}', partition=OUT),
        Commit(26, '{"position":7}', key=SPACED),
        topic_id="old",
    )
    lake(base, Commit(30, '{"position":1}'), topic_id="new")
    begins = -MORNING % RATE_S
    commits = (
        Commit(begins - 10, '{"position":100}'),
        Commit(begins, '{"position":160}'),
        Commit(begins + 60, '{"position":150}'),
        Commit(begins + 299, '{"position":390}'),
        Commit(begins + 300, None),
        Commit(begins + 301, "{"),
    )
    synced = [
        Raw(sync_key("orders", 0), value, topic=SYNCS_TOPIC, offset=offset, ms=MORNING * 1000)
        for offset, value in enumerate([sync_value(12, 120), b"junk"])
    ]
    when = {"ingest_ts": at(MORNING * 1000), "day": day_of(0)}
    write(base, BRONZE_RECORDS, *({**row, "kafka": "west", **when} for row in decoded(*synced)))
    configured = [
        Raw(f"connector-{name}".encode(), FILE_STREAM, topic="connect-configs", offset=offset)
        for offset, name in enumerate(["file", "rated"])
    ]
    report = decoded(*configured, roles=OBSERVED_ROLES)
    write(base, BRONZE_RECORDS, *({**row, "kafka": "east", **when} for row in report))
    lake(base, *(replace(commit, connector="rated") for commit in commits), topic_id="rated")
    return refined(spark, base, today=2)


def changed(base: Path, topic_id: str) -> list[tuple[Any, ...]]:
    results = [row for row in stored(base, SILVER_COMMITS) if row["topic_id"] == topic_id]
    names = ("koffset", "change", "step", "pause_s")
    return sorted(tuple(row[name] for name in names) for row in results)


def test_each_commit_says_what_it_changed_and_how_long_the_pause_was(few: Path) -> None:
    assert changed(few, "old") == [
        (0, "first", None, None),
        (1, "same", 0, 10.0),
        (2, "ahead", 4, 2.5),
        (3, "behind", -7, -0.5),
        (4, "reset", None, 8.0),
        (5, "same", None, 1.0),
        (6, None, None, 1.0),
        (7, "unordered", None, 1.0),
        (8, "unordered", None, 1.0),
        (9, "first", None, None),
    ]


def test_a_topic_that_was_created_again_begins_again(few: Path) -> None:
    assert changed(few, "new") == [(0, "first", None, None)]


def test_a_sync_that_cannot_be_decoded_takes_no_others_place(few: Path) -> None:
    syncs = [row for row in stored(few, SILVER_NEWEST) if row["kind"] == "offset_syncs"]
    assert [(row["koffset"], row["sync_upstream"]) for row in syncs] == [(0, 12)]


def test_a_rate_is_what_its_commits_add_up_to(few: Path) -> None:
    names = ("commits", "advances", "rewinds", "resets", "undecodable", "advanced", "pause_s_max")
    results = [row for row in stored(few, SILVER_RATES) if row["connector"] == "rated"]
    results.sort(key=lambda row: row["begins"])
    assert [tuple(row[name] for name in names) for row in results] == [
        (1, 1, 0, 0, 0, None, None),
        (3, 3, 1, 0, 0, 300, 239.0),
        (2, 0, 0, 1, 1, None, 1.0),
    ]
    assert [row["per_second"] for row in results] == [None, 1.0, None]


def test_the_fields_of_a_mirror_in_any_order_are_commits_of_other_classes_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A LinkedHashMap, a TreeMap and a Map.of have orders of their own."""
    orders = (LINKED_COPY, TREE_COPY, HASHED_COPY)
    configured = {"file": REPLICATOR, "mirror": MIRROR_MAKER}
    found = {"another": REPLICATOR, "alias": "MirrorSource"}
    for number, name in enumerate((*configured, *found, "unknown")):
        keys = [key.replace(b"file", name.encode()) for key in orders]
        commits = [
            Commit(60 * position + second, format_offset(position), connector=name, key=key)
            for position, key in enumerate(keys)
            for second in range(0, 60, 20)
        ]
        lake(tmp_path, *commits, topic_id=f"id-{number}", read_at=200)
    for number, (name, class_name) in enumerate(configured.items()):
        configure(tmp_path, number, class_name, name)
    create(tmp_path)
    for name, class_name in found.items():
        find_class(tmp_path, class_name, connector=name)
    refined(spark, tmp_path)
    results = ordered(
        {name: row[name] for name in ("connector", "key", "koffset", "change")}
        for row in stored(tmp_path, SILVER_COMMITS)
    )
    counts = Counter(row["connector"] for row in results)
    assert counts == {"file": 9, "another": 9, "unknown": 3, "mirror": 3, "alias": 3}
    assert raw_keys(tmp_path, 50) == [(LINKED_COPY, format_offset(0))]
    assert raw_keys(tmp_path, 110) == [(TREE_COPY, format_offset(1))]
    plain = tmp_path / "plain"
    for table in (BRONZE_RECORDS, GOLD_CLASSES):
        write(plain, table, *stored(tmp_path, table))
    refine_plainly(plain)
    assert rows(plain, SILVER_COMMITS, "connector", "key", "koffset", "change") == results


# ---- however it is cut into runs ----------------------------------------------------------------


def logbook(seed: int, count: int) -> list[Row]:
    """Bronze rows of several logs over some days, with timestamps that go back and values of all
    kinds, in the order in which they were read; each log's offsets with holes.
    """
    chance = random.Random(seed)
    results: list[Row] = []
    for number in range(count):
        read_at = number * DAYS * DAY / count
        back = chance.choice([0, 0, 0, 1, 40, DAY, 2 * DAY])
        offset = chance.choice(
            [None, "null", "{", '{"position":%d}', '{"position":%d}', '{"lsn":%d,"lsn_commit":%d}']
        )
        text = offset and offset.replace("%d", str(chance.randint(0, 5)))
        key = chance.choice([None, None, None, SPACED, b"junk"])
        who = {
            "partition": chance.choice([IN, OUT]),
            "connector": chance.choice(["file", "ledger"]),
        }
        commit = Commit(round(read_at - back, 3), text, key=key, **who)
        log = {"topic_id": chance.choice(["old", "new"]), "read_at": read_at}
        results += bronze_rows(commit, first=number * 2, **log)
    return results


def in_runs(spark: SparkSession, base: Path, records: list[Row], runs: int) -> Path:
    """As the pipeline does it: bronze grows, silver follows, days go by."""
    create(base)
    size = -(-len(records) // runs)
    for begin in range(0, len(records), size):
        part = records[begin : begin + size]
        write(base, BRONZE_RECORDS, *part)
        last = max(row["ingest_ts"] for row in part)
        refined(spark, base, (last.date() - day_of(0)).days)
    return base


RECORDS = logbook(seed=5, count=120)


@pytest.fixture(scope="module")
def many(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """RECORDS in three runs; then the last day is over."""
    base = in_runs(spark, tmp_path_factory.mktemp("many"), RECORDS, runs=3)
    return refined(spark, base, today=DAYS + 1)


@pytest.mark.full
def test_many_runs_make_what_one_makes_and_what_a_plain_loop_makes(
    spark: SparkSession, many: Path, tmp_path: Path
) -> None:
    one = tmp_path / "one"
    create(one)
    write(one, BRONZE_RECORDS, *RECORDS)
    refined(spark, one, today=DAYS + 1)
    plain = tmp_path / "plain"
    write(plain, BRONZE_RECORDS, *RECORDS)
    refine_plainly(plain)
    for table in (SILVER_COMMITS, SILVER_NEWEST, SILVER_LOGS):
        assert rows(many, table) == rows(one, table) == rows(plain, table)
    assert rows(many, SILVER_RATES) == rows(one, SILVER_RATES)
    commits = sorted(stored(many, SILVER_COMMITS), key=lambda row: row["koffset"])
    for base in (many, one):
        pictures = rows(base, SILVER_SNAPSHOTS)
        days = {row["day"] for row in pictures}
        assert len(days) >= DAYS - 1
        expected = [row for day in sorted(days) for row in snapshot(commits, day)]
        names = SILVER_SNAPSHOTS.names
        assert pictures == ordered({name: row[name] for name in names} for row in expected)


@pytest.mark.full
def test_rates_count_as_the_edge_does(many: Path) -> None:
    counted: dict[tuple[str, str], list[int]] = {}
    for row in stored(many, SILVER_RATES):
        now = counted.setdefault((row["connector"], row["source_partition"]), [0] * 4)
        for location, name in enumerate(("commits", "advances", "rewinds", "resets")):
            now[location] += row[name]
    expected: dict[tuple[str, str], list[int]] = {}
    for topic_id in ("old", "new"):
        for view in edge([row for row in RECORDS if row["topic_id"] == topic_id]):
            now = expected.setdefault((view.connector, view.identity), [0] * 4)
            for location, number in enumerate(
                (view.commits, view.advances, view.rewinds, view.resets)
            ):
                now[location] += number
    assert counted == expected


def edge(records: list[Row]) -> Iterator[SourcePartitionView]:
    """What the daemon shows of one log."""
    book = SourceBook("payments", 100)
    for row in records:
        key = decode_key(row["key"])
        if isinstance(key, SourceKey):
            record = SourceRecord(
                key=key,
                raw_key=row["key"],
                offset=decode_value(row["value"]),
                partition=0,
                log_offset=row["koffset"],
                at=row["kts"].timestamp(),
                advanced_at=None,
                live=True,
            )
            book.apply((record,), 0.0)
    for view in book.views(frozenset({"file", "ledger"})):
        if view.commits:
            yield view


# ---- a run that is killed, and what may happen in between ---------------------------------------


@pytest.mark.full
def test_a_run_that_was_killed_is_done_again_and_counts_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    records = logbook(seed=3, count=40)
    plain = tmp_path / "plain"
    write(plain, BRONZE_RECORDS, *records)
    refine_plainly(plain)
    base = create(tmp_path / "base")
    write(base, BRONZE_RECORDS, *records[:10])
    refined(spark, base, 0)
    before = shutil.copytree(base / "silver", tmp_path / "before")
    write(base, BRONZE_RECORDS, *records[10:20])
    refined(spark, base, 1)
    for done in (1, 2):
        # Killed when so many of the tables had taken the run in.
        killed = shutil.copytree(base, tmp_path / str(done))
        for table in SILVER[done:]:
            shutil.rmtree(table.at(killed))
            shutil.copytree(before / Path(table.path).name, table.at(killed))
        write(killed, BRONZE_RECORDS, *records[20:])
        refined(spark, killed, DAYS - 1)
        for table in (SILVER_COMMITS, SILVER_NEWEST, SILVER_LOGS):
            assert rows(killed, table) == rows(plain, table)


@pytest.mark.full
def test_files_that_maintenance_writes_again_are_not_read_as_new(
    spark: SparkSession, many: Path, tmp_path: Path
) -> None:
    base = shutil.copytree(many, tmp_path / "base")
    before = len(rows(base, SILVER_COMMITS))
    spark.sql(f"OPTIMIZE delta.`{BRONZE_RECORDS.at(base)}`")
    lake(base, Commit(3 * DAY, '{"position":1}'), first=900, topic_id="new")
    refined(spark, base, 3)
    assert len(rows(base, SILVER_COMMITS)) == before + 1


@pytest.mark.full
def test_a_lost_note_of_how_far_it_has_come_costs_nothing_unless_a_run_was_under_way(
    spark: SparkSession, many: Path, tmp_path: Path
) -> None:
    base = shutil.copytree(many, tmp_path / "base")
    before = len(rows(base, SILVER_COMMITS))
    (base / "silver" / "run.json").unlink()
    lake(base, Commit(3 * DAY, '{"position":1}'), first=900, topic_id="new")
    refined(spark, base, 3)
    assert len(rows(base, SILVER_COMMITS)) == before + 1
    shutil.rmtree(SILVER_LOGS.at(base))
    shutil.copytree(SILVER_LOGS.at(many), SILVER_LOGS.at(base))
    (base / "silver" / "run.json").unlink()
    with pytest.raises(HistoryError, match="move the folder silver/ away"):
        refined(spark, base, 3)


@pytest.mark.full
def test_another_bronze_in_its_place_is_refused(
    spark: SparkSession, many: Path, tmp_path: Path
) -> None:
    base = shutil.copytree(many, tmp_path / "base")
    shutil.rmtree(BRONZE_RECORDS.at(base))
    lake(base, Commit(0, '{"position":1}'))
    with pytest.raises(HistoryError, match="not the table it was made from"):
        refined(spark, base)


@pytest.mark.full
def test_a_run_of_a_table_version_without_log_is_an_error(
    spark: SparkSession, many: Path, tmp_path: Path
) -> None:
    base = shutil.copytree(many, tmp_path / "base")
    note = base / "silver" / "run.json"
    begun = json.loads(note.read_text())
    note.write_text(json.dumps({**begun, "run": begun["run"] + 1, "until": 0}))
    log = BRONZE_RECORDS.at(base) / "_delta_log"
    DeltaTable(str(BRONZE_RECORDS.at(base))).create_checkpoint()
    (log / f"{0:020}.json").unlink()
    with pytest.raises(HistoryError, match="version 0 is not known any more"):
        refined(spark, base)


@pytest.mark.full
def test_nothing_new_changes_nothing(spark: SparkSession, many: Path) -> None:
    versions = [DeltaTable(str(table.at(many))).version() for table in SILVER]
    refined(spark, many, today=DAYS + 1)
    assert [DeltaTable(str(table.at(many))).version() for table in SILVER] == versions
