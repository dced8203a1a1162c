from __future__ import annotations

from exporter.model.topology import KafkaTopic
from exporter.state.homes import Homes

HOME, OWN = KafkaTopic("east", "connect-offsets"), KafkaTopic("east", "files-offsets")


def test_each_connector_is_where_its_offsets_are_and_who_has_none_is_left_out():
    names, dedicated = frozenset({"a", "b", "c"}), {"b": OWN, "c": None}
    told = Homes().of(names, dedicated, HOME)
    assert told == ((HOME, frozenset({"a"})), (OWN, frozenset({"b"})))
    assert Homes().of(names, dedicated, None) == ((OWN, frozenset({"b"})),)


def test_the_answer_is_the_same_object_until_something_is_another_one():
    homes, names, dedicated = Homes(), frozenset({"a", "b"}), {"b": OWN}
    first = homes.of(names, dedicated, HOME)
    assert homes.of(names, dedicated, HOME) is first
    assert homes.of(frozenset({"a"}), dedicated, HOME) == ((HOME, frozenset({"a"})),)
    assert homes.of(names, {}, HOME) == ((HOME, names),)
    assert homes.of(names, {}, OWN) == ((OWN, names),)
