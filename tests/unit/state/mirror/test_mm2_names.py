"""What an upstream topic is called on the target, by the replication policy or by what is there."""

from __future__ import annotations

from offsetwatch.model.topology import KafkaTopic, MirrorFlow
from offsetwatch.state.mirror.mm2_names import (
    DEFAULT_POLICY,
    IDENTITY_POLICY,
    find_remote_topic,
    locate_internal_topics,
)
from tests.changed import replace

FLOW = MirrorFlow("payments", "mm2", "west", "east", "west", None, policy=DEFAULT_POLICY)


def test_the_default_policy_puts_the_alias_before_it() -> None:
    assert find_remote_topic(FLOW, "orders", ()) == "west.orders"
    assert find_remote_topic(replace(FLOW, separator="_"), "orders", ()) == "west_orders"


def test_the_identity_policy_leaves_it_as_it_is() -> None:
    assert find_remote_topic(replace(FLOW, policy=IDENTITY_POLICY), "orders", ()) == "orders"


def test_of_a_policy_that_nobody_knows_what_is_there_decides_if_it_is_one() -> None:
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
