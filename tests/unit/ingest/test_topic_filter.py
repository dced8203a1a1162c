"""Topics that a MirrorSourceConnector's configuration selects, among those of a cluster."""

from __future__ import annotations

import pytest

from offsetwatch.decode.connector_config import parse_connector_settings
from offsetwatch.ingest.log_ends_poll import filter_topics
from offsetwatch.model.observations import FilteredTopics
from offsetwatch.model.topology import MirrorFlow

EXISTING = {
    "orders": 3,
    "orders-eu": 1,
    "payments": 2,
    "east.orders": 1,  # a copy from the target
    "east.heartbeats": 1,
    "heartbeats": 1,
    "mm2-offset-syncs.east.internal": 1,
    "connect-internal": 1,
    "__consumer_offsets": 50,
    "old.replica": 1,
}


def filtered(**settings: str) -> FilteredTopics | None:
    config = {
        "connector.class": "MirrorSourceConnector",
        "source.cluster.alias": "west",
        "target.cluster.alias": "east",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    mirror = parse_connector_settings("mm2", config).mirror
    assert mirror is not None
    flow = MirrorFlow(
        *("lab", "mm2", "west", "east", "west", None),
        policy=mirror.policy,
        separator=mirror.separator,
        topic_filter=mirror.topic_filter,
    )
    return filter_topics(flow, EXISTING)


@pytest.mark.parametrize(
    ("settings", "selected", "rejected"),
    [
        (
            {"topics": "orders , pay.*"},
            {"orders": 3, "payments": 2},
            {"orders-eu", "east.orders", "old.replica"},
        ),
        (
            {"topics": ".*"},
            {"orders": 3, "orders-eu": 1, "payments": 2},
            {"old.replica"},
        ),
        (
            {"topics": ".*", "topics_exclude": "orders-.*,.*ments"},
            {"orders": 3, "old.replica": 1},
            {"orders-eu", "payments"},
        ),
        (
            {"topics": "o.*", "topics_exclude": ""},
            {"orders": 3, "orders-eu": 1, "old.replica": 1},
            {"payments", "east.orders"},
        ),
        (
            {"topics": "east.*", "replication_policy_class": "IdentityReplicationPolicy"},
            {"east.orders": 1},
            {"orders", "orders-eu", "payments", "old.replica"},
        ),
        (
            {"topics": "orders", "replication_policy_class": "org.example.Policy"},
            {},
            {"orders-eu", "payments", "east.orders", "old.replica"},
        ),
    ],
)
def test_topics_are_selected_and_rejected_as_mirror_maker_does(settings, selected, rejected):
    assert filtered(**settings) == FilteredTopics(selected, frozenset(rejected))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"topics": ""},
        {"topics": "${file:/secret:topics}"},
        {"topics": "orders", "topics_exclude": "${env:EXCLUDE}"},
        {"topics": "orders", "topic_filter_class": "org.example.Filter"},
        {"topics": "orders", "enabled": "false"},
        {"topics": ".*", "topics_blacklist": "orders"},
        {"topics": "(?=orders).*"},  # RE2 cannot express it
        {"topics": ".*", "topics_exclude": "(a)\\1"},
    ],
)
def test_where_the_filter_is_not_known_nothing_is_selected_or_rejected(settings):
    assert filtered(**settings) is None
