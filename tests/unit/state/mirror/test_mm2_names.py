"""What an upstream topic is called on the target, by the replication policy or by what is there."""

from __future__ import annotations

from typing import Any

import pytest

from offsetwatch.model.topology import KafkaTopic, MirrorFlow, TopicRouter
from offsetwatch.state.mirror.mm2_names import (
    DEFAULT_POLICY,
    IDENTITY_POLICY,
    find_copy_conflict,
    find_merged_topics,
    find_remote_topic,
    find_source_topic,
    locate_heartbeats,
    locate_internal_topics,
    resolve_checkpoint_topic,
    route_topic,
)
from tests.changed import replace

FLOW = MirrorFlow("payments", "mm2", "west", "east", "west", None, policy=DEFAULT_POLICY)


def test_the_default_policy_puts_the_alias_before_it() -> None:
    assert find_remote_topic(FLOW, "orders", ()) == "west.orders"
    assert find_remote_topic(replace(FLOW, separator="_"), "orders", ()) == "west_orders"


def test_the_identity_policy_leaves_it_as_it_is() -> None:
    assert find_remote_topic(replace(FLOW, policy=IDENTITY_POLICY), "orders", ()) == "orders"


def test_under_an_unknown_policy_the_one_existing_topic_is_the_remote_topic() -> None:
    unknown = replace(FLOW, policy=None)
    assert find_remote_topic(unknown, "orders", ("west.orders", "lines")) == "west.orders"
    assert find_remote_topic(unknown, "orders", ("orders",)) == "orders"
    assert find_remote_topic(unknown, "orders", ("orders", "west.orders")) is None
    assert find_remote_topic(unknown, "orders", ()) is None


def test_checkpoints_and_heartbeats_of_either_name_may_lie_beside_what_is_copied() -> None:
    flow = replace(FLOW, downstream="east")
    names = ("west.checkpoints.internal", "heartbeats", "west.heartbeats")
    assert locate_internal_topics(flow) == tuple(KafkaTopic("east", name) for name in names)
    assert locate_internal_topics(FLOW) == ()


# --- routers -------------------------------------------------------------------------------------


def regex(pattern: str, replacement: str, **more: Any) -> TopicRouter:
    return TopicRouter("RegexRouter", pattern, replacement, **more)


@pytest.mark.parametrize(
    ("pattern", "replacement", "name", "expected"),
    [
        # Each was run on RegexRouter of connect-transforms 4.3.1.
        (r"west\.(.*)", "copy-$1", "west.orders", "copy-orders"),
        (r"west\.(.*)", "copy-$1", "south.orders", "south.orders"),
        ("a|ab", "x", "ab", "xb"),
        ("(a)(b)?", "$2-$1", "a", "-a"),
        ("(.*)", "$11", "q", "q1"),
        ("(.*)", r"\$1", "q", "$1"),
        ("(.*)", r"\\$1", "q", r"\q"),
        ("(.*)", "$0x", "q", "qx"),
        (".*", "p$0", "q", "pq"),
        (r"(?<cluster>\w+)\.(.*)", "${cluster}-$2", "west.orders", "west-orders"),
        # RE2 has no look-ahead, and fills repeated groups otherwise.
        ("(a*)*", "$1", "aa", None),
        ("(?=a).*", "x", "ab", None),
        ("(a|a)*b", "x", "a" * 40, "a" * 40),
        # The task fails at each of these.
        ("(.*)", "$", "q", None),
        ("(.*)", "a\\", "q", None),
        ("(.*)", "$2", "q", None),
        ("(.*)", "${n}", "q", None),
        ("(", "x", "q", None),
    ],
)
def test_a_regex_router_is_followed_to_the_letter(
    pattern: str, replacement: str, name: str, expected: str | None
) -> None:
    assert route_topic((regex(pattern, replacement),), name) == expected


@pytest.mark.parametrize("replacement", ["", ".", "..", "to $1", "x" * 250, "\u00fc-$1"])
def test_copies_go_to_no_topic_whose_name_kafka_does_not_allow(replacement: str) -> None:
    flow = replace(FLOW, downstream="east", routers=(regex(r"west\.(.*)", replacement),))
    assert find_remote_topic(flow, "orders", ()) is None
    assert resolve_checkpoint_topic(flow, "west.orders", ("orders",)) is None
    assert locate_internal_topics(flow) == (
        KafkaTopic("east", "west.checkpoints.internal"),
        KafkaTopic("east", "heartbeats"),
    )


def test_several_routers_work_in_their_order() -> None:
    one, other = regex(r"west\.(.*)", "$1"), regex("(.*)", "copy-$1")
    assert route_topic((one, other), "west.orders") == "copy-orders"
    assert route_topic((other, one), "west.orders") == "copy-west.orders"


def test_what_any_other_router_does_cannot_be_reported() -> None:
    unknown = TopicRouter("TimestampRouter")
    assert route_topic((unknown,), "west.orders") is None
    assert route_topic((unknown, regex(".*", "all")), "west.orders") is None


def test_a_predicate_leaves_open_whether_a_name_changes_but_not_that_it_stays() -> None:
    router = regex(r"west\.(.*)", "copy-$1", conditional=True)
    assert route_topic((router,), "west.orders") is None
    assert route_topic((router,), "south.orders") == "south.orders"


@pytest.mark.parametrize(
    ("pattern", "negated", "expected"),
    [
        (r"west\.orders", False, "copy-orders"),
        (r"west\.orders", True, "west.orders"),
        # TopicNameMatches has to match the whole name.
        ("west", False, "west.orders"),
        ("west", True, "copy-orders"),
        # What RE2 does not read as Java does is unknown, whichever way it decides.
        ("(?=west).*", False, None),
        ("(?=west).*", True, None),
    ],
)
def test_a_predicate_on_the_topic_decides_by_topic(
    pattern: str, negated: bool, expected: str | None
) -> None:
    router = regex(r"west\.(.*)", "copy-$1", topics=pattern, negated=negated)
    assert route_topic((router,), "west.orders") == expected
    assert route_topic((router,), "south.lines") == "south.lines"


def test_what_an_unknown_router_never_sees_keeps_its_name() -> None:
    router = TopicRouter("TimestampRouter", topics=r"west\.metrics")
    assert route_topic((router,), "west.orders") == "west.orders"
    assert route_topic((router,), "west.metrics") is None
    chain = (regex(r"west\.(.*)", "$1"), router)
    assert route_topic(chain, "west.metrics") == "metrics"  # it sees the name that it has by then


def test_a_router_of_logical_tables_names_copies_as_a_regex_router_does() -> None:
    router = TopicRouter("ByLogicalTableRouter", r"west\.shard\d+-(.*)", "all-$1")
    assert route_topic((router,), "west.shard7-orders") == "all-orders"
    assert route_topic((router,), "west.orders") == "west.orders"
    nowhere = TopicRouter("ByLogicalTableRouter", r"west\.(x?).*", "$1")
    assert route_topic((nowhere,), "west.orders") == "west.orders"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [(DEFAULT_POLICY, "copy-west.orders"), (IDENTITY_POLICY, "copy-orders"), (None, "copy-orders")],
)
def test_copies_go_through_the_routers_whatever_the_policy(
    policy: str | None, expected: str
) -> None:
    flow = replace(FLOW, policy=policy, routers=(regex("(.*)", "copy-$1"),))
    assert find_remote_topic(flow, "orders", ("copy-orders",)) == expected


def test_a_router_that_cannot_be_followed_leaves_a_flow_without_the_names_of_its_copies() -> None:
    for policy in (DEFAULT_POLICY, IDENTITY_POLICY, None):
        flow = replace(FLOW, policy=policy, routers=(TopicRouter("ExtractTopic$Value"),))
        assert find_remote_topic(flow, "orders", ("west.orders", "orders")) is None


def test_topics_that_are_copied_to_one_topic_are_reported() -> None:
    flow = replace(FLOW, routers=(regex(r"west\.orders-.*", "orders"),))
    names = ("orders-a", "orders-b", "lines")
    assert find_merged_topics(flow, names) == {"orders-a", "orders-b"}
    assert find_merged_topics(FLOW, names) == frozenset()


@pytest.mark.parametrize("topic", ["heartbeats", "my-heartbeats"])
def test_the_identity_policy_leaves_what_looks_like_heartbeats_to_the_default_one(
    topic: str,
) -> None:
    flow = replace(FLOW, policy=IDENTITY_POLICY, separator="_")
    assert find_remote_topic(flow, topic) == f"west_{topic}"
    assert find_source_topic(flow, f"west_{topic}", ()) == topic
    assert find_source_topic(flow, topic, ()) is None


def test_an_empty_alias_and_separator_leave_names_as_they_are() -> None:
    flow = replace(FLOW, source="", separator="")
    assert find_remote_topic(flow, "orders") == "orders"
    assert find_source_topic(flow, "orders", ()) == "orders"


# --- names that the configuration states ----------------------------------------------------------

UNKNOWN = TopicRouter("TimestampRouter")


COPIES = (("orders", "orders-eu"), ("*", "copy-{topic}"))


def test_copies_of_an_unknown_router_are_called_what_the_configuration_says() -> None:
    flow = replace(FLOW, routers=(UNKNOWN,), copies=COPIES)
    assert find_remote_topic(flow, "orders") == "orders-eu"
    assert find_remote_topic(flow, "lines") == "copy-lines"
    # A checkpoint names the topic that MM2 created.
    assert resolve_checkpoint_topic(flow, "west.lines", ()) == ("lines", "copy-lines")
    named = replace(flow, copies=COPIES[:1])
    assert find_remote_topic(named, "lines") is None
    assert resolve_checkpoint_topic(named, "west.lines", ()) is None


def test_copies_under_a_policy_of_ones_own_are_called_what_the_configuration_says() -> None:
    flow = replace(FLOW, policy="com.example.ShortNames", copies=COPIES)
    known = ("orders", "lines")
    assert find_remote_topic(flow, "lines") == "copy-lines"
    # A checkpoint names the topic that the copies are in.
    assert resolve_checkpoint_topic(flow, "copy-lines", known) == ("lines", "copy-lines")
    assert resolve_checkpoint_topic(flow, "orders-eu", known) == ("orders", "orders-eu")
    assert resolve_checkpoint_topic(flow, "copy-orders", known) is None
    assert resolve_checkpoint_topic(flow, "copy-gone", known) is None
    assert resolve_checkpoint_topic(replace(flow, copies=COPIES[:1]), "copy-lines", known) is None


def test_a_stated_name_that_the_connector_contradicts_is_not_used_and_neither_is_the_other() -> (
    None
):
    stated = (("orders", "orders-eu"), ("lines", "west.lines"))
    flow = replace(FLOW, copies=stated)
    assert find_remote_topic(flow, "orders") is None
    assert resolve_checkpoint_topic(flow, "west.orders", ()) is None
    assert find_copy_conflict(flow, "orders") == ("orders-eu", "west.orders")
    assert find_remote_topic(flow, "lines") == "west.lines"
    assert find_copy_conflict(flow, "lines") is None
    routed = replace(flow, routers=(regex(r"west\.(.*)", "$1-eu"),))
    assert (find_remote_topic(routed, "orders"), find_copy_conflict(routed, "orders")) == (
        "orders-eu",
        None,
    )


def test_topics_that_the_configuration_merges_are_reported() -> None:
    stated = (("orders-a", "orders"), ("orders-b", "orders"), ("*", "copy-{topic}"))
    flow = replace(FLOW, routers=(UNKNOWN,), copies=stated)
    assert find_merged_topics(flow, ("orders-a", "orders-b", "lines")) == {"orders-a", "orders-b"}


def test_heartbeats_are_searched_for_under_the_stated_name() -> None:
    flow = replace(FLOW, routers=(UNKNOWN,), downstream="east", copies=(("*", "copy-{topic}"),))
    assert [topic.topic for topic in locate_heartbeats(flow)] == ["heartbeats", "copy-heartbeats"]


@pytest.mark.parametrize("separator", ["${env:SEPARATOR}", "${file:/etc/mm2.properties:sep}"])
def test_names_with_a_separator_that_a_config_provider_knows_are_not_known(separator: str) -> None:
    flow = replace(FLOW, separator=separator, internal_separator=separator, downstream="east")
    assert find_remote_topic(flow, "orders", ("west.orders", f"west{separator}orders")) is None
    assert find_source_topic(flow, f"west{separator}orders", ("orders",)) is None
    assert locate_internal_topics(flow) == (KafkaTopic("east", "heartbeats"),)
    identity = replace(flow, policy=IDENTITY_POLICY)
    assert find_remote_topic(identity, "orders", ()) == "orders"
    named = replace(flow, copies=(("orders", "west-orders"),))
    assert find_remote_topic(named, "orders", ()) == "west-orders"
