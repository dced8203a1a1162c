from __future__ import annotations

from offsetwatch.model.topology import KafkaTopic
from offsetwatch.state.connect.offsets_topics import OffsetsTopicIndex

HOME, OWN = KafkaTopic("east", "connect-offsets"), KafkaTopic("east", "files-offsets")


def test_each_connector_is_where_its_offsets_are_and_who_has_none_is_left_out():
    names, dedicated = frozenset({"a", "b", "c"}), {"b": OWN, "c": None}
    told = OffsetsTopicIndex().of(names, dedicated, HOME)
    assert told == ((HOME, frozenset({"a"})), (OWN, frozenset({"b"})))
    assert OffsetsTopicIndex().of(names, dedicated, None) == ((OWN, frozenset({"b"})),)


def test_the_answer_is_the_same_object_until_something_is_another_one():
    homes, names, dedicated = OffsetsTopicIndex(), frozenset({"a", "b"}), {"b": OWN}
    first = homes.of(names, dedicated, HOME)
    assert homes.of(names, dedicated, HOME) is first
    assert homes.of(frozenset({"a"}), dedicated, HOME) == ((HOME, frozenset({"a"})),)
    assert homes.of(names, {}, HOME) == ((HOME, names),)
    assert homes.of(names, {}, OWN) == ((OWN, names),)


def test_any_one_that_is_another_makes_another_answer():
    homes, names, dedicated = OffsetsTopicIndex(), frozenset({"a", "b"}), {"b": OWN}
    homes.of(names, dedicated, HOME)
    assert homes.of(names, {"b": HOME}, HOME) == ((HOME, names),)
    homes.of(names, dedicated, HOME)
    assert homes.of(names, dedicated, OWN) == ((OWN, names),)


def test_topics_are_told_in_order():
    dedicated = {name: KafkaTopic("east", f"offsets-{name}") for name in "gcaehbfd"}
    told = OffsetsTopicIndex().of(frozenset(dedicated), dedicated, HOME)
    assert [topic.topic[-1] for topic, _ in told] == [*"abcdefgh"]
