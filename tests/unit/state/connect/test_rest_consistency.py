"""The truth check: REST and the topic must say the same, within a grace and without races."""

from __future__ import annotations

from offsetwatch.model.observations import RestOffsetsRead, RestOffsetsRequested
from offsetwatch.model.topology import KafkaTopic
from offsetwatch.state.connect.rest_consistency import ANSWER_MAX_S, EXAMPLES_MAX, GRACE_S
from tests.unit.state.worlds import FILE, STALE_S, World, files, orders, source

IDENTITY = '{"filename":"/data/in.txt"}'


def checked(world: World, text: str | None, *, identity: str = IDENTITY) -> int:
    """How many differences are counted once the grace is over."""
    world.rest_offsets("files", {identity: text})
    return count_differences(world)


def count_differences(world: World) -> int:
    world.now += GRACE_S + 1
    world.tail()
    return world.offsets_differ()


def test_the_same_offset_is_no_difference():
    world = files()
    world.commit("files", FILE, {"position": 7})
    assert checked(world, '{"position":7}') == 0


def test_another_offset_is_a_difference_but_only_after_the_grace():
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.rest_offsets("files", {IDENTITY: '{"position":8}'})
    assert world.offsets_differ() == 0
    world.now += GRACE_S - 1
    world.tail()
    assert world.offsets_differ() == 0
    world.now += 1
    world.tail()
    assert world.offsets_differ() == 1
    assert world.offsets_differ() == 1


def test_what_an_answer_does_not_list_is_no_difference_if_an_entry_could_not_be_read():
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.rest_offsets("files", {}, whole=False)
    assert count_differences(world) == 0
    world.rest_offsets("files", {})
    assert count_differences(world) == 1


def differing(world: World) -> tuple[int, ...]:
    return tuple(check.rounds for check in world.snapshot().rest_checks.values())


def test_rounds_that_differ_one_after_the_other_are_counted_until_one_agrees():
    world = files()
    world.commit("files", FILE, {"position": 7})
    assert differing(world) == ()
    for number in range(1, 4):
        checked(world, '{"position":8}')
        assert differing(world) == (number,)
    (check,) = world.snapshot().rest_checks.values()
    assert check.examples == ((IDENTITY, '{"position":8}', '{"position":7}'),)
    checked(world, '{"position":7}')
    assert differing(world) == (0,)
    checked(world, '{"position":8}')
    assert differing(world) == (1,)


def test_many_partitions_of_one_round_are_one_round():
    world = files()
    world.rest_offsets("files", {f'{{"filename":"{name}"}}': "{}" for name in "abcdefgh"})
    count_differences(world)
    (check,) = world.snapshot().rest_checks.values()
    assert (check.rounds, len(check.examples)) == (1, EXAMPLES_MAX)


def test_a_round_that_nothing_can_confirm_neither_differs_nor_agrees():
    world = files()
    world.commit("files", FILE, {"position": 7})
    checked(world, '{"position":8}')
    world.rest_offsets("files", {IDENTITY: '{"position":7}'})
    world.now += STALE_S["tail"] + GRACE_S + 1
    assert differing(world) == (1,)
    world.tail()
    assert differing(world) == (0,)


def test_a_connector_that_is_gone_leaves_no_rounds():
    world = files()
    checked(world, '{"position":8}')
    world.listed(source("other"))
    assert differing(world) == ()


def test_a_difference_is_explained_to_operators():
    world = files()
    world.commit("files", FILE, {"position": 7})
    checked(world, '{"position":8}')
    (detail,) = {view.last_error for view in world.snapshot().inputs if view.last_error}
    assert "files" in detail
    assert '{"position":8}' in detail


def test_a_commit_that_rest_saw_first_settles_the_check_when_the_tail_shows_it():
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.rest_offsets("files", {IDENTITY: '{"position":8}'})
    world.commit("files", FILE, {"position": 8})
    world.commit("files", FILE, {"position": 9})
    assert count_differences(world) == 0


def test_any_offset_since_the_query_may_be_the_one_that_rest_saw():
    """Exactly-once connectors commit many times between REST's reading and our hearing of it."""
    world = files()
    world.commit("files", FILE, {"position": 1})
    world.see(RestOffsetsRequested("lab", "files"))
    for number in range(2, 20):
        world.commit("files", FILE, {"position": number})
        world.snapshot()
    world.see(RestOffsetsRead("lab", "files", ((IDENTITY, '{"position":5}'),)))
    assert count_differences(world) == 0


def test_an_answer_whose_announcement_was_dropped_is_compared_with_what_comes_after_it():
    world = files()
    world.commit("files", FILE, {"position": 1})
    world.see(RestOffsetsRead("lab", "files", ((IDENTITY, '{"position":2}'),)))
    for number in (2, 3):
        world.commit("files", FILE, {"position": number})
    assert count_differences(world) == 0


def test_an_offset_from_before_the_query_is_a_difference():
    world = files()
    world.commit("files", FILE, {"position": 1})
    world.commit("files", FILE, {"position": 2})
    assert checked(world, '{"position":1}') == 1


def test_null_where_the_topic_has_an_offset_is_a_difference():
    """Connect reads null after a connector was moved to an offsets topic of its own."""
    world = files()
    world.commit("files", FILE, {"position": 7})
    assert checked(world, None) == 1


def test_an_offset_that_rest_does_not_list_is_a_difference():
    """Two Connect clusters with a connector of one name: the other one's topic was found."""
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.rest_offsets("files", {})
    assert count_differences(world) == 1


def test_an_offset_without_a_partition_is_never_listed_by_rest_and_no_difference():
    world = files()
    world.commit("files", None, {"position": 7})
    world.rest_offsets("files", {})
    assert count_differences(world) == 0


def test_a_first_commit_after_the_query_is_no_difference():
    world = files()
    world.see(RestOffsetsRequested("lab", "files"))
    world.commit("files", FILE, {"position": 7})
    world.see(RestOffsetsRead("lab", "files", ()))
    assert count_differences(world) == 0


def test_a_tombstone_after_the_query_is_no_difference():
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.see(RestOffsetsRequested("lab", "files"))
    world.commit("files", FILE, None)
    world.see(RestOffsetsRead("lab", "files", ((IDENTITY, '{"position":7}'),)))
    assert count_differences(world) == 0


def test_a_partition_under_a_key_that_connect_does_not_look_up_reads_null_in_both():
    world = files()
    world.commit("files", FILE, {"position": 9}, raw_key=b'["files",{"filename": "/data/in.txt"}]')
    assert checked(world, None) == 0


def test_a_partition_that_the_topic_never_showed_is_a_difference():
    world = files()
    assert checked(world, '{"position":7}') == 1


def test_a_partition_that_the_bound_cut_is_no_difference():
    world = files(source_partitions_max=1)
    world.commit("files", orders(), {"offset": 7})
    world.commit("files", FILE, {"position": 7})
    world.see(RestOffsetsRequested("lab", "files"))
    answer = (
        (IDENTITY, '{"position":7}'),
        (next(iter(world.snapshot().source_partitions)).identity, '{"offset":7}'),
    )
    world.see(RestOffsetsRead("lab", "files", answer))
    assert count_differences(world) == 0


def test_a_tail_that_is_away_confirms_nothing_and_counts_nothing():
    world = files()
    world.commit("files", FILE, {"position": 7})
    world.rest_offsets("files", {IDENTITY: '{"position":8}'})
    world.now += max(GRACE_S, *STALE_S.values()) + 1
    world.listed(source("files"))
    assert world.offsets_differ() == 0
    world.tail()
    assert world.offsets_differ() == 0


def test_a_query_that_is_never_answered_is_forgotten():
    world = files()
    world.commit("files", FILE, {"position": 1})
    world.see(RestOffsetsRequested("lab", "files"))
    world.commit("files", FILE, {"position": 2})
    world.now += ANSWER_MAX_S + 1
    world.tail()
    world.snapshot()
    assert checked(world, '{"position":1}') == 1


def test_what_rest_reported_of_a_topic_that_the_connector_has_left_since_is_no_difference():
    world, own = files(), KafkaTopic("east", "own")
    world.commit("files", FILE, {"position": 7})
    world.rest_offsets("files", {IDENTITY: '{"position":8}'})
    world.listed(source("files", dedicated_offsets_topic="own"))
    world.tail(topic=own, whole=True)
    world.now += GRACE_S + 1
    world.tail()
    world.tail(topic=own)
    assert world.offsets_differ() == 0


def test_a_difference_lowers_no_gauge_of_the_rest_input():
    world = files()
    world.commit("files", FILE, {"position": 7})
    checked(world, '{"position":8}')
    world.listed(source("files"))
    assert all(view.up for view in world.snapshot().inputs)
