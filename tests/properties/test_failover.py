"""What is said of a group adds up, whatever was read of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.model.observations import LogBounds
from tests.unit.state.test_failover import answered, checkpoint, checkpointed, readable

OFFSETS = st.integers(0, 60)
SYNCS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12)
BOUNDS = st.tuples(OFFSETS, OFFSETS).map(lambda item: LogBounds(min(item), max(item), max(item)))


@given(
    steps=SYNCS,
    boot=st.integers(0, 12),
    upstream=OFFSETS,
    own=st.none() | OFFSETS,
    landed=st.none() | OFFSETS,
    up=st.none() | BOUNDS,
    down=st.none() | BOUNDS,
    answers=st.integers(1, 3),
)
def test_what_is_read_again_and_what_is_skipped_lie_between_the_landing_and_the_best_place(
    steps, boot, upstream, own, landed, up, down, answers
):
    world = readable()
    item = (0, 0)
    for number, step in enumerate(steps):
        item = (item[0] + step[0], item[1] + step[1])
        world.synced(item[0], downstream=item[1])
        if number == boot and landed is not None:
            checkpointed(world, checkpoint(landed))
    for _ in range(answers):
        answered(world, upstream, own, up=up, down=down)
        (view,) = world.snapshot().groups
    assert (view.reread is None) == (view.skip is None)
    if view.reread is None:
        return
    assert view.best is not None
    assert view.start_offset is not None
    assert view.reread * view.skip == 0
    # Of the offsets between the two some may be no records.
    assert 0 <= view.reread <= max(0, view.best - view.start_offset)
    assert 0 <= view.skip <= max(0, view.start_offset - view.best)
    if all(up_step >= down_step for up_step, down_step in steps):
        assert view.start_offset + view.reread - view.skip == view.best
    # Nothing beyond the log, but for what was written since its end was read.
    ends = [down.end, item[1] + 1, view.start_offset]
    assert down.start <= view.best <= max(ends)
    assert upstream <= up.end
