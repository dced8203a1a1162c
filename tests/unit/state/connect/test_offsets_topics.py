from __future__ import annotations

from offsetwatch.model.topology import KafkaTopic
from offsetwatch.state.connect.connect_cluster import group_by_offsets_topic

HOME, OWN = KafkaTopic("east", "connect-offsets"), KafkaTopic("east", "files-offsets")


def test_each_connector_is_where_its_offsets_are_and_who_has_none_is_left_out():
    names, dedicated = frozenset({"a", "b", "c"}), {"b": OWN, "c": None}
    reports = group_by_offsets_topic(names, dedicated, HOME)
    assert reports == ((HOME, frozenset({"a"})), (OWN, frozenset({"b"})))
    assert group_by_offsets_topic(names, dedicated, None) == ((OWN, frozenset({"b"})),)


def test_topics_are_told_in_order():
    dedicated = {name: KafkaTopic("east", f"offsets-{name}") for name in "gcaehbfd"}
    reports = group_by_offsets_topic(frozenset(dedicated), dedicated, HOME)
    assert [topic.topic[-1] for topic, _ in reports] == [*"abcdefgh"]
