"""Offsets as they were: which record counted at a moment, and what is refused rather than guessed.

The tables are written without Spark. Seconds of the records below are seconds after MORNING.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetwatch.history.pipeline.bronze_rows import RecordedTopic
from offsetwatch.history.queries.asof import AsOfQuery, AsOfResult, UnanswerableQuery, read_as_of
from offsetwatch.history.tables.schemas import (
    BRONZE_RECORDS,
    CONNECT_OFFSETS,
    GOLD_CLASSES,
    GOLD_TOPICS,
    OPS_GAPS,
)
from tests.history.delta import Row, refine_plainly, write
from tests.history.rows import (
    OBSERVED_ROLES,
    OFFSETS_TOPIC,
    OWN_TOPIC,
    Raw,
    at,
    decoded,
    offset_key,
)

MORNING = 1_795_243_200  # 2026-11-21T06:40:00Z
DAY = 86_400
IN = {"filename": "/in"}
OUT = {"filename": "/out"}
IN_TEXT, OUT_TEXT = '{"filename":"/in"}', '{"filename":"/out"}'


@dataclass(frozen=True)
class Commit:
    """A record of an offsets topic; `offset` is JSON text, None for a tombstone."""

    second: float
    offset: str | None
    partition: dict[str, str] = None  # type: ignore[assignment]  # IN
    connector: str = "file"
    topic: str = OFFSETS_TOPIC
    key: bytes | None = None


def bronze_rows(
    *commits: Commit,
    read_at: float = 0,
    topic_id: str = "id",
    cluster: str = "payments",
    first: int = 0,
    skip: tuple[int, ...] = (),
) -> list[Row]:
    """Records of one partition as bronze holds them, all read `read_at`; by default, at once: what
    the pipeline first saw of the log is then all there ever was. Offsets in `skip` have no record.
    """
    offsets = (number for number in range(first, 10_000) if number not in skip)
    raw = [
        Raw(
            key=commit.key or offset_key(commit.connector, commit.partition or IN),
            value=None if commit.offset is None else commit.offset.encode(),
            topic=commit.topic,
            offset=offset,
            ms=round((MORNING + commit.second) * 1000),
        )
        for commit, offset in zip(commits, offsets, strict=False)
    ]
    roles = {
        topic: RecordedTopic(CONNECT_OFFSETS, cluster, topic_id)
        for topic in (OFFSETS_TOPIC, OWN_TOPIC)
    }
    read = at(round((MORNING + read_at) * 1000))
    return [
        {**row, "kafka": "east", "ingest_ts": read, "day": row["kts"].date()}  # type: ignore[attr-defined]
        for row in decoded(*raw, roles=roles)
    ]


def lake(base: Path, *commits: Commit, refine: bool = True, **how: Any) -> Path:
    """Bronze with these records, and silver of it."""
    write(base, BRONZE_RECORDS, *bronze_rows(*commits, **how))
    if refine:
        refine_plainly(base)
    return base


def topology(base: Path, **own: str) -> None:
    """What the newest run found: the cluster's topic, and the topics of connectors by name."""
    rows = [(None, OFFSETS_TOPIC), *own.items()]
    write(
        base,
        GOLD_TOPICS,
        *(
            {
                "connect_cluster": "payments",
                "connector": name,
                "kafka": "east" if topic else "",
                "topic": topic,
            }
            for name, topic in rows
        ),
    )


def query(base: Path, second: float, **changes: Any) -> AsOfResult:
    return read_as_of(base, AsOfQuery(at=MORNING + second, **changes))


def then(base: Path, second: float, **changes: Any) -> dict[str, str | None]:
    """The answer for the connector `file`."""
    answer = query(base, second, connector="file", **changes)
    assert answer.unknown == ()
    (only,) = answer.connectors
    return {entry.source_partition: entry.source_offset for entry in only.then}


def refusal(base: Path, second: float, **changes: Any) -> str:
    answer = query(base, second, connector="file", **changes)
    assert answer.connectors == ()
    ((_, reason),) = answer.unknown
    return reason


# ---- which record counts ------------------------------------------------------------------------


def test_the_offset_is_the_newest_of_each_source_partition_at_that_moment(tmp_path: Path) -> None:
    lake(
        tmp_path,
        Commit(0, '{"position":1}'),
        Commit(10, '{"position":2}'),
        Commit(10, '{"position":7}', partition=OUT),
        Commit(20, '{"position":3}'),
    )
    assert then(tmp_path, 0) == {IN_TEXT: '{"position":1}'}
    assert then(tmp_path, 9.999) == {IN_TEXT: '{"position":1}'}
    assert then(tmp_path, 10) == {IN_TEXT: '{"position":2}', OUT_TEXT: '{"position":7}'}
    assert then(tmp_path, 500) == {IN_TEXT: '{"position":3}', OUT_TEXT: '{"position":7}'}


def format_position(number: int) -> str:
    return f'{{"position":{number}}}'


LINKED = b'["file",{"name":"a","path":"/in"}]'  # a HashMap has path first
HASHED = b'["file",{"path":"/in","name":"a"}]'
LINKED_TEXT = '{"name":"a","path":"/in"}'


def test_the_raw_key_that_the_connector_commits_under_is_the_one_that_counts(
    tmp_path: Path,
) -> None:
    lake(
        tmp_path,
        *(Commit(60 * n, format_position(n), key=LINKED) for n in range(3)),
        Commit(150, '{"position":0}', key=HASHED),
        *(Commit(60 * n, format_position(n), key=LINKED) for n in range(3, 6)),
    )
    assert then(tmp_path, 140) == {LINKED_TEXT: '{"position":2}'}
    assert then(tmp_path, 400) == {LINKED_TEXT: '{"position":5}'}
    (only,) = query(tmp_path, 400, connector="file").connectors
    assert [entry.raw_key for entry in only.then] == [LINKED]


def test_which_of_two_raw_keys_a_task_looked_up_is_not_guessed(tmp_path: Path) -> None:
    lake(
        tmp_path,
        *(Commit(60 * n, format_position(n), key=LINKED) for n in range(3)),
        Commit(150, '{"position":0}', key=HASHED),
    )
    reason = refusal(tmp_path, 160)
    assert "several raw keys" in reason
    assert LINKED.decode() in reason
    assert HASHED.decode() in reason


@pytest.mark.parametrize(("second", "known"), [(0, False), (600, False), (601, True)])
def test_of_two_kafka_partitions_the_newer_is_reported_by_moments_far_apart_only(
    tmp_path: Path, second: float, known: bool
) -> None:
    """The number of partitions was changed, or somebody else wrote there."""
    other = [{**row, "kpartition": 1} for row in bronze_rows(Commit(second, '{"position":2}'))]
    write(tmp_path, BRONZE_RECORDS, *bronze_rows(Commit(0, '{"position":1}')), *other)
    refine_plainly(tmp_path)
    if known:
        assert then(tmp_path, second) == {IN_TEXT: '{"position":2}'}
    else:
        assert "two partitions of its offsets topic, 0 and 1" in refusal(tmp_path, second)


@pytest.mark.parametrize("kpartitions", [(0, 1), (1, 0)])
def test_a_source_partition_is_one_when_its_raw_key_changes_and_goes_to_another_kafka_partition(
    tmp_path: Path, kpartitions: tuple[int, int]
) -> None:
    """Two raw keys of one source partition seldom share a Kafka partition. Between two of these
    only timestamps tell the order, beyond what clocks differ by.
    """
    for kpartition, key, seconds in (
        (kpartitions[0], LINKED, range(0, 300, 60)),
        (kpartitions[1], HASHED, range(300, 1500, 60)),
    ):
        commits = [Commit(second, format_position(second), key=key) for second in seconds]
        rows = bronze_rows(*commits, read_at=1500)
        write(tmp_path, BRONZE_RECORDS, *({**row, "kpartition": kpartition} for row in rows))
    refine_plainly(tmp_path)
    topology(tmp_path)
    assert raw_keys(tmp_path, 299) == [(LINKED, format_position(240))]
    assert "several raw keys" in refusal(tmp_path, 840)
    for second in (900, 1200, 1500):
        newest = format_position(min(second, 1440))
        assert raw_keys(tmp_path, second) == [(HASHED, newest)]
    (only,) = query(tmp_path, 299, with_now=True).connectors
    assert [(entry.raw_key, entry.source_offset) for entry in only.now] == [
        (HASHED, format_position(1440))
    ]


def test_integers_of_any_size_stay_exact(tmp_path: Path) -> None:
    lake(tmp_path, Commit(0, '{"position":340282366920938463463374607431768211457}'))
    assert then(tmp_path, 1) == {IN_TEXT: '{"position":340282366920938463463374607431768211457}'}


def test_order_is_that_of_the_log_and_a_timestamp_only_says_which_records_were_there(
    tmp_path: Path,
) -> None:
    lake(
        tmp_path,
        Commit(0, '{"position":1}'),
        Commit(50, '{"position":2}'),
        Commit(10, '{"position":3}'),  # the clock was set back
    )
    assert then(tmp_path, 5) == {IN_TEXT: '{"position":1}'}
    assert then(tmp_path, 10) == {IN_TEXT: '{"position":3}'}
    assert then(tmp_path, 50) == {IN_TEXT: '{"position":3}'}


def test_a_key_in_other_bytes_moves_nothing(tmp_path: Path) -> None:
    spaced = offset_key("file", IN).replace(b",", b", ")
    lake(tmp_path, Commit(0, '{"position":1}'), Commit(1, '{"position":9}', key=spaced))
    assert then(tmp_path, 5) == {IN_TEXT: '{"position":1}'}


@pytest.mark.parametrize("nothing", [None, "null"], ids=["tombstone", "json_null"])
def test_a_forgotten_source_partition_had_no_offset(tmp_path: Path, nothing: str | None) -> None:
    lake(tmp_path, Commit(0, '{"position":1}'), Commit(5, nothing), Commit(9, '{"position":2}'))
    assert then(tmp_path, 4) == {IN_TEXT: '{"position":1}'}
    assert then(tmp_path, 5) == {IN_TEXT: None}
    assert then(tmp_path, 9) == {IN_TEXT: '{"position":2}'}


def test_an_undecodable_value_is_distinguished_from_a_tombstone(tmp_path: Path) -> None:
    lake(tmp_path, Commit(0, '{"position":1}'), Commit(5, "{"))
    (only,) = query(tmp_path, 6).connectors
    assert [(entry.source_offset, entry.error) for entry in only.then] == [(None, "value_not_json")]


def test_the_newest_state_can_be_had_beside_it(tmp_path: Path) -> None:
    lake(
        tmp_path,
        Commit(0, '{"position":1}'),
        Commit(10, '{"position":2}'),
        Commit(11, '{"position":5}', partition=OUT),
    )
    (only,) = query(tmp_path, 1, with_now=True).connectors
    assert [entry.source_offset for entry in only.then] == ['{"position":1}']
    assert [entry.source_offset for entry in only.now] == ['{"position":2}', '{"position":5}']


def test_names_may_hold_quotes(tmp_path: Path) -> None:
    lake(tmp_path, Commit(0, '{"position":1}', connector="o'brien"))
    assert [it.connector for it in query(tmp_path, 1, connector="o'brien").connectors] == [
        "o'brien"
    ]
    assert query(tmp_path, 1, connector="x' OR '1'='1").connectors == ()


# ---- the fields of MirrorMaker in another order --------------------------------------------------

REPLICATOR = "org.example.Replicator"
MIRROR_MAKER = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
LINKED_COPY = b'["file",{"topic":"orders","partition":0,"cluster":"west"}]'
TREE_COPY = b'["file",{"partition":0,"topic":"orders","cluster":"west"}]'  # of no class at all
HASHED_COPY = b'["file",{"cluster":"west","partition":0,"topic":"orders"}]'
COPY_TEXT = '{"cluster":"west","partition":0,"topic":"orders"}'


def format_offset(number: int) -> str:
    return f'{{"offset":{number}}}'


def copies(key: bytes, *seconds: float) -> list[Commit]:
    """Commits under a raw key, each with its second as the offset."""
    return [Commit(second, format_offset(round(second)), key=key) for second in seconds]


def configure(base: Path, second: float, class_name: str, connector: str = "file") -> None:
    """A record of the config topic."""
    value = json.dumps({"properties": {"connector.class": class_name}}).encode()
    ms = round((MORNING + second) * 1000)
    key = f"connector-{connector}".encode()
    record = Raw(key, value, topic="connect-configs", offset=round(second), ms=ms)
    read = {"kafka": "east", "ingest_ts": at(ms), "day": at(ms).date()}
    rows = [{**row, **read} for row in decoded(record, roles=OBSERVED_ROLES)]
    write(base, BRONZE_RECORDS, *rows)


def find_class(
    base: Path, class_name: str, since: float | None = None, connector: str = "file"
) -> None:
    """The class that a run has found."""
    moment = None if since is None else at(round((MORNING + since) * 1000))
    row = {"connect_cluster": "payments", "connector": connector, "since": moment}
    write(base, GOLD_CLASSES, row | {"class_name": class_name})


def raw_keys(base: Path, second: float) -> list[tuple[bytes, str | None]]:
    (only,) = query(base, second, connector="file").connectors
    return [(entry.raw_key, entry.source_offset) for entry in only.then]


@pytest.mark.parametrize("known", ["from the config topic", "by a run", "by a later run"])
def test_of_another_class_the_key_counts_that_was_written_at_that_time(
    tmp_path: Path, known: str
) -> None:
    """Its map is a LinkedHashMap first, and another one from second 180 on."""
    commits = (*copies(LINKED_COPY, 0, 60, 120), *copies(TREE_COPY, 180, 240, 300))
    lake(tmp_path, *commits, refine=False, read_at=310)
    if known == "from the config topic":
        configure(tmp_path, -5, REPLICATOR)
    elif known == "by a run":
        find_class(tmp_path, REPLICATOR)
    refine_plainly(tmp_path)
    if known == "by a later run":  # then silver/commits has none of these records
        find_class(tmp_path, REPLICATOR)
    topology(tmp_path)
    assert raw_keys(tmp_path, 130) == [(LINKED_COPY, format_offset(120))]
    why = refusal(tmp_path, 190)  # one commit may be that of an operator
    assert "several raw keys" in why
    assert LINKED_COPY.decode() in why
    assert TREE_COPY.decode() in why
    assert raw_keys(tmp_path, 400) == [(TREE_COPY, format_offset(300))]
    (only,) = query(tmp_path, 130, with_now=True).connectors
    assert [(entry.raw_key, entry.source_offset) for entry in only.now] == [
        (TREE_COPY, format_offset(300))
    ]


def test_of_a_class_that_is_not_known_a_key_in_an_order_of_its_own_is_refused(
    tmp_path: Path,
) -> None:
    lake(tmp_path, *copies(LINKED_COPY, 0, 60))
    topology(tmp_path)
    why = refusal(tmp_path, 100)
    assert "the class of the connector as of then is not known" in why
    assert LINKED_COPY.decode() in why


def test_mirror_maker_looks_up_the_key_of_a_hash_map_alone(tmp_path: Path) -> None:
    lake(tmp_path, *copies(LINKED_COPY, 0, 60, 120))
    find_class(tmp_path, MIRROR_MAKER)
    topology(tmp_path)
    assert f"did not look up (1 key, such as {LINKED_COPY.decode()})" in refusal(tmp_path, 130)
    hashed = bronze_rows(*copies(HASHED_COPY, 90), topic_id="id", first=3, read_at=130)
    write(tmp_path, BRONZE_RECORDS, *hashed)
    refine_plainly(tmp_path)
    assert raw_keys(tmp_path, 130) == [(HASHED_COPY, format_offset(90))]


def test_the_class_of_that_time_decides_and_not_that_of_today(tmp_path: Path) -> None:
    commits = copies(LINKED_COPY, 0, 60, 120, 180)
    lake(tmp_path, *commits, refine=False, read_at=200)
    configure(tmp_path, -5, REPLICATOR)
    configure(tmp_path, 100, MIRROR_MAKER)
    find_class(tmp_path, MIRROR_MAKER, since=150)
    refine_plainly(tmp_path)
    topology(tmp_path)
    assert raw_keys(tmp_path, 90) == [(LINKED_COPY, format_offset(60))]
    assert "did not look up" in refusal(tmp_path, 130)


def test_before_a_run_found_another_class_the_class_is_not_known(tmp_path: Path) -> None:
    lake(tmp_path, *copies(LINKED_COPY, 0, 60, 120, 180), read_at=200)
    find_class(tmp_path, REPLICATOR, since=100)
    topology(tmp_path)
    assert "the class of the connector as of then is not known" in refusal(tmp_path, 90)
    assert raw_keys(tmp_path, 130) == [(LINKED_COPY, format_offset(120))]


def test_records_that_silver_has_not_yet_are_no_part_of_the_answer(tmp_path: Path) -> None:
    lake(tmp_path, *copies(LINKED_COPY, 0, 60), read_at=70)
    find_class(tmp_path, REPLICATOR)
    topology(tmp_path)
    lake(tmp_path, *copies(LINKED_COPY, 120), first=2, read_at=130, refine=False)
    assert raw_keys(tmp_path, 125) == [(LINKED_COPY, format_offset(60))]
    refine_plainly(tmp_path)
    assert raw_keys(tmp_path, 125) == [(LINKED_COPY, format_offset(120))]


# ---- topics -------------------------------------------------------------------------------------


def test_a_topic_of_its_own_is_read_alone(tmp_path: Path) -> None:
    lake(tmp_path, Commit(0, '{"position":1}'), Commit(2, '{"position":1}', partition=OUT))
    lake(tmp_path, Commit(1, '{"position":7}', topic=OWN_TOPIC))
    topology(tmp_path, file=OWN_TOPIC)
    assert then(tmp_path, 5) == {IN_TEXT: '{"position":7}'}


def test_where_its_topic_of_today_has_nothing_of_it_the_other_one_is_named(tmp_path: Path) -> None:
    lake(tmp_path, Commit(0, '{"position":1}'))
    lake(tmp_path, Commit(10, '{"position":7}', topic=OWN_TOPIC))
    topology(tmp_path, file=OWN_TOPIC)
    assert "east/connect-offsets does: if it kept them there" in refusal(tmp_path, 5)
    assert then(tmp_path, 5, topic="east/connect-offsets") == {IN_TEXT: '{"position":1}'}
    assert then(tmp_path, 10) == {IN_TEXT: '{"position":7}'}


def test_two_topics_and_no_word_on_which_is_used_are_no_answer(tmp_path: Path) -> None:
    lake(tmp_path, Commit(0, '{"position":1}'))
    lake(tmp_path, Commit(0, '{"position":7}', topic=OWN_TOPIC))
    assert "name one with --topic" in refusal(tmp_path, 5)
    assert then(tmp_path, 5, topic=OWN_TOPIC) == {IN_TEXT: '{"position":7}'}


def test_offsets_on_a_cluster_that_is_not_configured_are_not_searched_for_elsewhere(
    tmp_path: Path,
) -> None:
    lake(tmp_path, Commit(0, '{"position":1}'))
    topology(tmp_path, file="")
    assert "cluster that is not configured" in refusal(tmp_path, 5)


def test_a_topic_that_was_created_again_is_the_one_that_existed_then(tmp_path: Path) -> None:
    lake(
        tmp_path,
        Commit(0, '{"position":8}'),
        Commit(5, '{"position":9}', partition=OUT),
        read_at=10,
        topic_id="old",
    )
    lake(tmp_path, Commit(20, '{"position":1}'), read_at=30, topic_id="new")
    assert then(tmp_path, 5) == {IN_TEXT: '{"position":8}', OUT_TEXT: '{"position":9}'}
    assert then(tmp_path, 20) == {IN_TEXT: '{"position":1}'}
    assert "after 2026-11-21T06:40:10.000Z was never read" in refusal(tmp_path, 15)
    (only,) = query(tmp_path, 5, with_now=True).connectors
    assert [entry.source_offset for entry in only.now] == ['{"position":1}']


def test_a_clock_that_ran_ahead_does_not_keep_a_deleted_topic_alive(tmp_path: Path) -> None:
    lake(tmp_path, Commit(9 * DAY, '{"position":8}'), read_at=10, topic_id="old")
    lake(tmp_path, Commit(20, '{"position":1}'), read_at=30, topic_id="new")
    assert then(tmp_path, 25) == {IN_TEXT: '{"position":1}'}


# ---- what is refused ----------------------------------------------------------------------------


def test_a_moment_before_the_oldest_record_is_refused(tmp_path: Path) -> None:
    lake(tmp_path, Commit(0, '{"position":1}'))
    with pytest.raises(
        UnanswerableQuery, match="oldest record read of payments is of 2026-11-21T06:40"
    ):
        query(tmp_path, -0.001)


def test_records_under_keys_that_no_worker_writes_are_named(tmp_path: Path) -> None:
    key = b'["file", {"filename":"/in"}]'
    lake(tmp_path, Commit(1, "{}", connector="other"), Commit(2, '{"position":1}', key=key))
    topology(tmp_path)
    assert "no record of it was read" in refusal(tmp_path, 1)
    why = refusal(tmp_path, 5)
    assert "no record" not in why
    assert f"(1 key, such as {key.decode()})" in why


def test_a_connector_without_a_record_then_is_refused(tmp_path: Path) -> None:
    lake(tmp_path, Commit(0, '{"position":1}', connector="other"), Commit(9, '{"position":1}'))
    assert "no record of it" in refusal(tmp_path, 5)
    assert "committed nothing yet" in refusal(tmp_path, 5, with_now=True)


def test_before_the_first_reading_a_compacted_log_is_no_witness(tmp_path: Path) -> None:
    commits = (
        Commit(0, '{"position":1}', partition=OUT),
        Commit(20, '{"position":9}'),
        Commit(30, '{"position":10}'),
    )
    lake(tmp_path, *commits, read_at=40, skip=(1, 2, 3))
    assert "compacted before it was first read" in refusal(tmp_path, 10)
    assert "known from 2026-11-21T06:40:40.000Z on" in refusal(tmp_path, 39.9)
    assert then(tmp_path, 40) == {IN_TEXT: '{"position":10}', OUT_TEXT: '{"position":1}'}


def test_before_the_first_reading_a_log_that_begins_late_is_no_witness(tmp_path: Path) -> None:
    lake(tmp_path, Commit(0, '{"position":1}'), Commit(1, '{"position":2}'), read_at=40, first=5)
    assert "compacted before it was first read" in refusal(tmp_path, 10)


def test_a_hole_behind_a_key_that_is_there_twice_is_none_of_compaction(tmp_path: Path) -> None:
    commits = (
        Commit(0, '{"position":1}'),
        Commit(5, '{"position":2}'),
        Commit(9, '{"position":3}'),
    )
    lake(tmp_path, *commits, read_at=40, skip=(2,))  # a transaction's marker
    assert then(tmp_path, 7) == {IN_TEXT: '{"position":2}'}


def test_what_lies_in_front_of_a_gap_is_known_until_then_and_after_its_next_commit(
    tmp_path: Path,
) -> None:
    lake(tmp_path, Commit(0, '{"position":1}'), Commit(5, '{"position":2}', partition=OUT))
    lake(tmp_path, Commit(30, '{"position":9}'), first=7)
    lake(tmp_path, Commit(40, '{"position":9}', partition=OUT), first=8)
    gap = {"kafka": "east", "topic": OFFSETS_TOPIC, "topic_id": "id", "kpartition": 0}
    gap |= {"from_offset": 2, "to_offset": 7, "reason": "log_start_moved", "at": at(0)}
    write(tmp_path, OPS_GAPS, gap)
    assert then(tmp_path, 4) == {IN_TEXT: '{"position":1}'}
    assert "partition 0 from offset 2 to 7: log start moved" in refusal(tmp_path, 10)
    assert "permanently missing" in refusal(tmp_path, 35)
    assert then(tmp_path, 40) == {IN_TEXT: '{"position":9}', OUT_TEXT: '{"position":9}'}


def test_several_connect_clusters_are_not_mixed(tmp_path: Path) -> None:
    lake(tmp_path, Commit(0, '{"position":1}'))
    lake(tmp_path, Commit(0, '{"position":2}'), cluster="ledger", topic_id="other")
    lake(tmp_path, Commit(0, '{"position":3}', connector="alone"), cluster="ledger", first=5)
    with pytest.raises(UnanswerableQuery, match="--connect: ledger, payments"):
        query(tmp_path, 1, connector="file")
    assert then(tmp_path, 1, connect_cluster="ledger") == {IN_TEXT: '{"position":2}'}
    assert query(tmp_path, 1, connector="alone").connect_cluster == "ledger"
    with pytest.raises(UnanswerableQuery, match="only of ledger, payments"):
        query(tmp_path, 1, connect_cluster="x")


# ---- only the files it needs --------------------------------------------------------------------


def test_only_a_snapshot_and_the_days_after_it_are_opened(tmp_path: Path) -> None:
    for day in range(6):
        lake(tmp_path, Commit(day * DAY, f'{{"position":{day}}}'), first=day, read_at=day * DAY)
    answer = query(tmp_path, 3 * DAY + 5)
    folders = [Path(name).parent.relative_to(tmp_path) for name in answer.files]
    assert [str(folder) for folder in folders] == [
        "silver/commits/day=2026-11-24",
        "silver/snapshots/day=2026-11-23",
    ]
    assert answer.files_skipped == 5 + 4
    refine_plainly(tmp_path, pictured=False)
    again = query(tmp_path, 3 * DAY + 5)
    assert (again.connectors, len(again.files), again.files_skipped) == (answer.connectors, 4, 2)


def test_a_stamp_far_ahead_counts_as_the_end_of_the_day_after_its_reading(tmp_path: Path) -> None:
    lake(tmp_path, Commit(0, '{"position":1}'))
    row = decoded(
        Raw(offset_key("file", IN), b'{"position":2}', offset=1, ms=(MORNING + 90 * DAY) * 1000),
        roles={OFFSETS_TOPIC: RecordedTopic(CONNECT_OFFSETS, "payments", "id")},
    )[0]
    read = at(MORNING * 1000)
    day = (read + timedelta(days=1)).date()
    write(tmp_path, BRONZE_RECORDS, {**row, "kafka": "east", "ingest_ts": read, "day": day})
    refine_plainly(tmp_path)
    midnight = 2 * DAY - MORNING % DAY
    assert then(tmp_path, midnight - 0.001) == {IN_TEXT: '{"position":1}'}
    assert then(tmp_path, midnight) == {IN_TEXT: '{"position":2}'}


def test_a_record_whose_day_was_moved_is_found_all_the_same(tmp_path: Path) -> None:
    lake(tmp_path, Commit(0, '{"position":1}'))
    row = decoded(
        Raw(offset_key("file", IN), b'{"position":2}', offset=1, ms=(MORNING + 5) * 1000),
        roles={OFFSETS_TOPIC: RecordedTopic(CONNECT_OFFSETS, "payments", "id")},
    )[0]
    late = at((MORNING + 500 * DAY) * 1000)  # read so late that its own day was out of bounds
    day = (late - timedelta(days=400)).date()
    write(tmp_path, BRONZE_RECORDS, {**row, "kafka": "east", "ingest_ts": late, "day": day})
    refine_plainly(tmp_path)
    assert then(tmp_path, 10) == {IN_TEXT: '{"position":2}'}


# ---- against a plain replay ---------------------------------------------------------------------

SECONDS = st.integers(0, 40)
COMMITS = st.lists(
    st.builds(
        Commit,
        second=st.builds(lambda day, second: day * DAY + second, st.integers(0, 3), SECONDS),
        offset=st.one_of(st.none(), st.integers(0, 2**70).map(lambda n: f'{{"position":{n}}}')),
        partition=st.sampled_from([IN, OUT]),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.full
@settings(max_examples=40, deadline=None)
@given(commits=COMMITS, day=st.integers(0, 4), second=SECONDS, pictured=st.booleans())
def test_the_answer_is_a_replay_of_the_records_stamped_until_then(
    commits: list[Commit], day: int, second: int, pictured: bool
) -> None:
    second += day * DAY
    replayed: dict[str, str | None] = {}
    for commit in commits:
        if commit.second <= second:
            replayed[IN_TEXT if commit.partition == IN else OUT_TEXT] = commit.offset
    with tempfile.TemporaryDirectory() as folder:
        base = lake(Path(folder), *commits)
        refine_plainly(base, pictured=pictured)
        if replayed:
            assert then(base, second) == replayed
        elif second < min(commit.second for commit in commits):
            with pytest.raises(UnanswerableQuery):
                query(base, second)
