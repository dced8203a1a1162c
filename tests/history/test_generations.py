"""How a stream goes on when Kafka, bronze and the checkpoint have come apart: nothing lost, nothing
doubled, and what nobody can read any more is said.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetwatch.errors import HistoryError
from offsetwatch.history.pipeline import stream_plan
from offsetwatch.history.pipeline.stream_plan import (
    StreamGeneration,
    StreamPlan,
    StreamSource,
    plan,
)
from offsetwatch.history.tables.reader import BronzeGap, GapReason

T = "connect-offsets"
SOURCE = StreamSource(
    topics={T: "id"}, starts={(T, 0): 0, (T, 1): 5}, ends={(T, 0): 100, (T, 1): 100}
)
STORED = {(T, "id", 0): 40, (T, "id", 1): 60}
HELD = StreamGeneration(
    number=3,
    topics={T: "id"},
    starts={(T, 0): 10, (T, 1): 10},
    committed={(T, 0): 41, (T, 1): 60},
    planned={(T, 0): 41, (T, 1): 60},
)


def test_a_checkpoint_that_fits_goes_on() -> None:
    assert plan(SOURCE, HELD, STORED) == StreamPlan(
        number=3, topics=HELD.topics, starts=HELD.starts, unread=60 + 40
    )


def test_the_first_generation_begins_where_the_logs_do() -> None:
    built = plan(SOURCE, None, {})
    assert (built.number, built.starts, built.gaps) == (0, SOURCE.starts, ())
    assert built.unread == 100 + 95


def test_a_lost_checkpoint_costs_nothing() -> None:
    built = plan(SOURCE, replace(HELD, committed=None, planned={}), STORED)
    assert (built.number, built.starts, built.gaps) == (4, {(T, 0): 40, (T, 1): 60}, ())
    assert built.why == "the checkpoint is gone or cannot be read"


def test_a_checkpoint_older_than_the_rows_is_not_gone_on_with() -> None:
    stale = replace(HELD, committed={(T, 0): 39, (T, 1): 60}, planned={(T, 0): 39, (T, 1): 60})
    assert plan(SOURCE, stale, STORED).starts == {(T, 0): 40, (T, 1): 60}
    # In the middle of a batch the rows may be there before the checkpoint says so.
    assert plan(SOURCE, replace(stale, planned=HELD.planned), STORED).why is None


def test_a_checkpoint_whose_rows_are_gone_begins_again() -> None:
    built = plan(SOURCE, HELD, {})
    assert (built.number, built.starts) == (4, SOURCE.starts)


def test_where_the_log_begins_behind_what_was_read_there_is_a_gap() -> None:
    source = replace(SOURCE, starts={(T, 0): 70, (T, 1): 60})
    built = plan(source, HELD, STORED)
    assert built.starts == {(T, 0): 70, (T, 1): 60}
    assert built.gaps == (BronzeGap(T, "id", 0, 40, 70, GapReason.LOG_START_MOVED),)
    # A partition nothing was stored of was begun all the same.
    built = plan(source, replace(HELD, committed={}, planned={}), {})
    assert [(gap.kpartition, gap.from_offset, gap.to_offset) for gap in built.gaps] == [
        (0, 10, 70),
        (1, 10, 60),
    ]


def test_a_topic_created_again_is_read_from_its_beginning() -> None:
    source = StreamSource(topics={T: "new"}, starts={(T, 0): 0}, ends={(T, 0): 3})
    built = plan(source, HELD, STORED)
    assert (built.topics, built.starts) == ({T: "new"}, {(T, 0): 0})
    assert built.gaps == (
        BronzeGap(T, "id", 0, 40, None, GapReason.TOPIC_CREATED_AGAIN),
        BronzeGap(T, "id", 1, 60, None, GapReason.TOPIC_CREATED_AGAIN),
    )
    assert str(built.gaps[0]) == (
        f"{T} (id id) partition 0 from offset 40 to its end: topic created again"
    )


def test_topics_may_come_go_and_come_back() -> None:
    both = StreamSource(
        topics={T: "id", "own": "id-2"},
        starts={**SOURCE.starts, ("own", 0): 7},
        ends={**SOURCE.ends, ("own", 0): 9},
    )
    built = plan(both, HELD, STORED)
    assert built.why == "own is to be read too"
    assert built.starts == {(T, 0): 40, (T, 1): 60, ("own", 0): 7}
    held = replace(HELD, topics=both.topics)
    built = plan(SOURCE, held, {**STORED, ("own", "id-2", 0): 8})
    assert (built.why, built.gaps) == ("own is no longer to be read", ())
    built = plan(both, HELD, {**STORED, ("own", "id-2", 0): 8})
    assert built.starts["own", 0] == 8


def test_a_log_that_lost_its_end_is_refused() -> None:
    source = replace(SOURCE, ends={(T, 0): 39, (T, 1): 100})
    with pytest.raises(HistoryError, match="partition 0 ends at offset 39, but it was read up to"):
        plan(source, HELD, STORED)


# ---- on disk ------------------------------------------------------------------------------------


def spark_wrote(base: Path, *, offsets: dict[int, object], commits: tuple[int, ...]) -> None:
    folder = stream_plan.find_checkpoint_folder(base, "east/1", 0)
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number, vector in offsets.items():
        text = vector if isinstance(vector, str) else json.dumps(vector)
        (folder / "offsets" / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{text}')
        (folder / "offsets" / f".{number}.crc").write_bytes(b"\x00")
    for number in commits:
        (folder / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_what_was_begun_is_found_with_how_far_spark_got(tmp_path: Path) -> None:
    assert stream_plan.read_generation(tmp_path, "east/1") is None
    stream_plan.write_generation(tmp_path, "east/1", plan(SOURCE, None, {}))
    begun = StreamGeneration(
        number=0, topics={T: "id"}, starts=SOURCE.starts, committed=None, planned={}
    )
    assert stream_plan.read_generation(tmp_path, "east/1") == begun
    spark_wrote(tmp_path, offsets={0: {T: {"0": 4, "1": 6}}}, commits=())
    planned = {(T, 0): 4, (T, 1): 6}
    assert stream_plan.read_generation(tmp_path, "east/1") == replace(
        begun, committed={}, planned=planned
    )
    spark_wrote(tmp_path, offsets={9: {T: {"0": 7}}, 10: {T: {"0": 8}}}, commits=(0, 9))
    generation = stream_plan.read_generation(tmp_path, "east/1")
    assert generation == replace(begun, committed={(T, 0): 7}, planned={(T, 0): 8})


def test_a_checkpoint_that_cannot_be_read_counts_as_gone(tmp_path: Path) -> None:
    stream_plan.write_generation(tmp_path, "east/1", plan(SOURCE, None, {}))
    for text in ("", "{", "[1]", '{"connect-offsets": 3}'):
        spark_wrote(tmp_path, offsets={0: text}, commits=(0,))
        generation = stream_plan.read_generation(tmp_path, "east/1")
        assert generation is not None
        assert generation.committed is None


def test_a_checkpoint_that_lost_the_record_of_what_it_reads_is_replaced(tmp_path: Path) -> None:
    spark_wrote(tmp_path, offsets={0: {T: {"0": 40, "1": 60}}}, commits=(0,))
    built = plan(SOURCE, stream_plan.read_generation(tmp_path, "east/1"), STORED)
    assert (built.number, built.starts, built.gaps) == (1, {(T, 0): 40, (T, 1): 60}, ())


# ---- a world in which everything goes wrong -----------------------------------------------------


class Crash(Exception):
    pass


@dataclass
class World:
    """Kafka with one topic, bronze as Delta keeps it, and generations as Spark does."""

    chance: random.Random
    topic_id: int = 0
    starts: list[int] = field(default_factory=lambda: [0, 0])
    ends: list[int] = field(default_factory=lambda: [0, 0])
    bronze: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    transactions: set[tuple[int, int]] = field(default_factory=set)
    gaps: set[BronzeGap] = field(default_factory=set)
    generations: dict[int, tuple[int, StreamGeneration, list[dict[int, int]], int]] = field(
        default_factory=dict
    )
    promised: dict[tuple[str, int], int] = field(default_factory=dict)
    queries: itertools.count[int] = field(default_factory=itertools.count)

    def stored(self) -> dict[tuple[str, str, int], int]:
        results: dict[tuple[str, str, int], int] = {}
        for topic_id, partition, offset in self.bronze:
            log = (T, topic_id, partition)
            results[log] = max(results.get(log, 0), offset + 1)
        return results

    def produce(self) -> None:
        for partition in range(2):
            self.ends[partition] += self.chance.randrange(4)

    def delete_records(self) -> None:
        partition = self.chance.randrange(2)
        self.starts[partition] = self.chance.randint(self.starts[partition], self.ends[partition])

    def create_again(self) -> None:
        self.topic_id += 1
        self.starts, self.ends = [0, 0], [0, 0]

    def lose_checkpoint(self) -> None:
        if self.generations:
            number = max(self.generations)
            _, held, _, _ = self.generations[number]
            self.generations[number] = (next(self.queries), held, [], 0)

    def lose_generation(self) -> None:
        if self.generations:
            del self.generations[max(self.generations)]
        self._forget_promises()

    def lose_generations(self) -> None:
        self.generations.clear()
        self._forget_promises()

    def _forget_promises(self) -> None:
        """Where a partition without a record in bronze was begun stood in what is gone."""
        logs = {(topic_id, partition) for _, topic_id, partition in self.stored()}
        self.promised = {log: start for log, start in self.promised.items() if log in logs}

    def held(self) -> StreamGeneration | None:
        if not self.generations:
            return None
        query, held, batches, done = self.generations[max(self.generations)]
        if not batches:
            return held
        generation = replace(
            held,
            committed={(T, p): o for p, o in batches[done - 1].items()} if done else {},
            planned={(T, p): o for p, o in batches[-1].items()},
        )
        taken_in = (query, len(batches) - 1) in self.transactions
        return generation if taken_in else generation.without_its_batch()

    def run(self, crash_at: int | None = None) -> None:
        steps = itertools.count()

        def step() -> None:
            if next(steps) == crash_at:
                raise Crash

        name = str(self.topic_id)
        source = StreamSource(
            topics={T: name},
            starts={(T, p): self.starts[p] for p in range(2)},
            ends={(T, p): self.ends[p] for p in range(2)},
        )
        built = plan(source, self.held(), self.stored())
        step()
        if built.why is not None:
            self.gaps |= set(built.gaps)
            step()
            begun = StreamGeneration(
                built.number, built.topics, built.starts, committed=None, planned={}
            )
            self.generations[built.number] = (next(self.queries), begun, [], 0)
            for partition in range(2):
                self.promised.setdefault((name, partition), self.starts[partition])
        step()
        query, begun, batches, done = self.generations[built.number]
        while True:
            if len(batches) == done:
                batches.append(dict(enumerate(self.ends)))
                step()
            entry = batches[done - 1] if done else {p: built.starts[T, p] for p in range(2)}
            if (query, done) not in self.transactions:
                for partition, end in batches[done].items():
                    assert entry[partition] >= self.starts[partition], "failOnDataLoss"
                    for offset in range(entry[partition], end):
                        self.bronze[name, partition, offset] += 1
                self.transactions.add((query, done))
            step()
            done += 1
            self.generations[built.number] = (query, begun, batches, done)
            step()
            if batches[-1] == dict(enumerate(self.ends)):
                return

    def missing(self, topic_id: str, partition: int, offset: int) -> bool:
        return (topic_id, partition, offset) not in self.bronze and not any(
            (gap.topic_id, gap.kpartition) == (topic_id, partition)
            and gap.from_offset <= offset
            and (gap.to_offset is None or offset < gap.to_offset)
            for gap in self.gaps
        )


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_whatever_happens_nothing_is_lost_in_silence_and_nothing_is_stored_twice(seed: int) -> None:
    world = World(random.Random(seed))
    events = [
        *(world.produce, world.produce, world.produce, world.delete_records, world.create_again),
        *(world.lose_checkpoint, world.lose_generation, world.lose_generations, world.run),
    ]
    for _ in range(30):
        if world.chance.random() < 0.4:
            with contextlib.suppress(Crash):
                world.run(crash_at=world.chance.randrange(8))
        else:
            world.chance.choice(events)()
    world.run()
    assert set(world.bronze.values()) <= {1}
    name = str(world.topic_id)
    for partition in range(2):
        for offset in range(world.starts[partition], world.ends[partition]):
            assert (name, partition, offset) in world.bronze
        for offset in range(world.promised[name, partition], world.ends[partition]):
            assert not world.missing(name, partition, offset)


def test_an_older_generation_does_not_do_again_what_a_newer_one_that_is_gone_has_stored() -> None:
    """The newest one's folder was deleted; its predecessor ended in the middle of a batch."""
    older = StreamGeneration(
        number=0,
        topics=SOURCE.topics,
        starts=SOURCE.starts,
        committed=SOURCE.starts,
        planned=SOURCE.ends,
        batch=("query", 1),
    )
    stored = {(topic, SOURCE.topics[topic], p): end for (topic, p), end in SOURCE.ends.items()}
    assert plan(SOURCE, older, stored).why is None
    built = plan(SOURCE, older.without_its_batch(), stored)
    assert (built.number, built.starts) == (1, SOURCE.ends)
