"""The past is reckoned as the daemon reckoned it when it was the present, whatever was written."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from offsetwatch.history.failover_report import inputs
from offsetwatch.history.failover_report.inputs import (
    FailoverInputs,
    LoggedCheckpoint,
    LoggedSync,
    Series,
)
from offsetwatch.history.failover_report.replay import replay_samples
from offsetwatch.history.tables import reader
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, TopicPartition
from offsetwatch.state.mirror.offset_translation import PartitionSyncs
from tests.history.past_hour import NOON, Past
from tests.unit.state.test_failover import answered, checkpoint, checkpointed, readable

FLOW = MirrorFlow(
    *("lab", "mm2", "west", "east", "west"), KafkaTopic("west", "syncs"), downstream="east"
)
ORDERS, COPY = TopicPartition("orders", 0), TopicPartition("west.orders", 0)
OFFSETS = st.integers(0, 60)
STEPS = st.lists(st.tuples(st.integers(-1, 9), st.integers(-1, 9)), min_size=1, max_size=12)
LOG = LogBounds(0, 200, 200)


def added_up(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    results, item = [], (5, 5)
    for step in steps:
        item = (max(0, item[0] + step[0]), max(0, item[1] + step[1]))
        results.append(item)
    return results


@given(steps=STEPS, upstream=OFFSETS, own=st.none() | OFFSETS, landed=st.none() | OFFSETS)
def test_a_moment_is_what_the_daemon_said_at_it(steps, upstream, own, landed):
    """Of syncs that came one by one, each a second, with a look at the group after each."""
    world = readable()
    pairs = added_up(steps)
    answer = LoggedCheckpoint(0.5, 0.5, "billing", COPY, landed or 0, None, True)
    known = FailoverInputs(
        flow=FLOW,
        remote={"orders": "west.orders"},
        syncs=[LoggedSync(n, n, ORDERS, *pair, joined=n > 0) for n, pair in enumerate(pairs)],
        checkpoints=[] if landed is None else [answer],
        restarts=[-1.0],
    )
    known.positions["billing", "orders", 0] = positions = Series()
    known.own["billing", "orders", 0] = owned = Series()
    known.here[ORDERS], known.there[ORDERS] = Series(), Series()
    lived = []
    for number, pair in enumerate(pairs):
        world.synced(pair[0], downstream=pair[1])
        if number == 0 and landed is not None:
            checkpointed(world, checkpoint(landed))
        moment = number + 0.75
        positions.add(moment, upstream)
        if own is not None:
            owned.add(moment, own)
        known.here[ORDERS].add(moment, LogBounds(LOG.start, LOG.end, LOG.end))
        known.there[ORDERS].add(moment, LogBounds(LOG.start, LOG.end, LOG.end))
        # The daemon looks twice: what it knew before the log ends it knows from the first.
        for _ in range(2):
            answered(world, upstream, own, up=LOG, down=LOG)
            (view,) = world.snapshot().groups
        lived.append((view.best, view.start_offset, view.start_offset_from, view.reread, view.skip))
    moments, _ = replay_samples(known, 0.0, float(len(pairs)))
    (series,) = moments.values()
    assert [
        (
            value.cost.best,
            value.start_offset,
            value.start_offset_from,
            value.cost.reread,
            value.cost.skip,
        )
        for value in series.values
    ] == lived


@given(steps=STEPS, upstream=OFFSETS, seconds=st.integers(0, 12))
def test_a_replay_up_to_a_moment_is_the_live_store_fed_with_what_there_was_by_then(
    steps, upstream, seconds
):
    pairs = added_up(steps)
    live = PartitionSyncs()
    for number, pair in enumerate(pairs):
        if number <= seconds:
            live.read(*pair, live=True)
    known = FailoverInputs(
        flow=FLOW,
        remote={"orders": "west.orders"},
        syncs=[LoggedSync(n, n, ORDERS, *pair, joined=True) for n, pair in enumerate(pairs)],
        restarts=[-1.0],
    )
    known.positions["billing", "orders", 0] = Series([float(seconds)], [upstream])
    known.here[ORDERS] = known.there[ORDERS] = Series([float(seconds)], [LogBounds(0, 200, 200)])
    moments, _ = replay_samples(known, 0.0, 12.0)
    (moment,) = moments["billing", "orders", 0].values
    assert moment.cost.translated == live.at_least(upstream)
    assert moment.cost.best == live.history.best(upstream, 200)


@given(steps=STEPS, upstream=OFFSETS, own=OFFSETS)
@settings(max_examples=25, deadline=None)
def test_the_corners_of_what_was_before_the_window_report_as_much_as_all_of_it(
    steps, upstream, own
):
    """Once written long before the window, where only corners are read, and once inside of it."""
    results = []
    with TemporaryDirectory() as folder:
        for name, begin in (("before", -10_000), ("inside", -200)):
            past = Past()
            for number, pair in enumerate(added_up(steps)):
                past.sync(begin + number, *pair)
            past.add_samples(0, upstream, own=own, here=(0, 200), there=(0, 200))
            base = past.write(Path(folder) / name)
            flow = reader.find_flow(base, "west->east", None)
            known = inputs.load_inputs(base, flow, inputs.ReportWindow(NOON, NOON + 60))
            moments, _ = replay_samples(known, NOON, NOON + 60)
            ((moment,),) = (series.values for series in moments.values())
            results.append(moment)
    assert results[0] == results[1]
