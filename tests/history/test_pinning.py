"""What an audit settles before it reads a record, above all what copies are called."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from offsetwatch.errors import HistoryError
from offsetwatch.history.audit.scope import AuditBounds, AuditClients, AuditScope, resolve_scope
from offsetwatch.model.topology import MirrorFlow, TopicPartition, TopicRouter
from offsetwatch.state.mirror.mm2_names import DEFAULT_POLICY
from tests.fakes.kafka import FakeAdmin, FakeKafka

ORDERS, LINES = TopicPartition("orders", 0), TopicPartition("lines", 0)
REGEX = TopicRouter("RegexRouter", r"west\.(.*)", "copy-$1")
OTHER = TopicRouter("TimestampRouter")


class Admin(FakeAdmin):
    """The fake one, which knows the policies of topics too."""

    def policies(self, topics: Collection[str]) -> dict[str, str | None]:
        return dict.fromkeys(topics, "delete")


class FakeSides(AuditClients):
    """Two clusters in this process."""

    def __init__(self, *clusters: FakeKafka) -> None:
        super().__init__({cluster.name: {} for cluster in clusters})
        object.__setattr__(self, "admins", {cluster.name: Admin(cluster) for cluster in clusters})

    def admin(self, name: str) -> Any:
        admins: dict[str, Admin] = getattr(self, "admins")  # noqa: B009 - the class is frozen
        return admins[name]


class PinnedFlow:
    """MM2 has created west.orders, and a transform writes the 50 copies of orders elsewhere."""

    def __init__(self) -> None:
        self.west, self.east = FakeKafka("west"), FakeKafka("east")
        for topic in ("orders", "lines"):
            self.west.create(topic, compacted=False)
        for topic in ("west.orders", "copy-orders", "west.lines"):
            self.east.create(topic, compacted=False)
        for _ in range(50):
            self.west.produce("orders", b"k", b"v")
            self.east.produce("copy-orders", b"k", b"v")
        self.replicated: dict[TopicPartition, int | None] = {ORDERS: 49}

    def pinned(
        self,
        *routers: TopicRouter,
        named: dict[str, str] | None = None,
        topics: tuple[str, ...] = (),
        copies: tuple[tuple[str, str], ...] = (),
    ) -> AuditScope:
        flow = MirrorFlow(
            "lab", "mm2", "west", "east", "west", None,
            downstream="east", policy=DEFAULT_POLICY, routers=routers, copies=copies,
        )  # fmt: skip
        sides = FakeSides(self.west, self.east)
        return resolve_scope(flow, self.replicated, topics, AuditBounds(), sides, named or {})


def test_copies_are_compared_in_the_topic_that_a_regex_router_writes_to() -> None:
    (reach,) = PinnedFlow().pinned(REGEX).reaches
    assert (reach.at, reach.remote) == (ORDERS, "copy-orders")
    assert [part.down_end for part in reach.slices] == [50]


def test_without_a_router_they_are_compared_in_the_topic_that_mm2_names() -> None:
    (reach,) = PinnedFlow().pinned().reaches
    assert reach.remote == "west.orders"


def test_of_a_router_that_cannot_be_followed_nothing_is_reported_as_lost() -> None:
    expected = (
        "copies of west->east have other names, which a transform of mm2 gives "
        r"\(TimestampRouter\); name its copy: --copy-topic orders=NAME"
    )
    with pytest.raises(HistoryError, match=expected):
        PinnedFlow().pinned(OTHER)


def test_the_configuration_may_name_the_copies() -> None:
    (reach,) = PinnedFlow().pinned(OTHER, copies=(("*", "copy-{topic}"),)).reaches
    assert reach.remote == "copy-orders"


def test_a_name_that_the_connector_contradicts_is_not_audited() -> None:
    cluster, copies = PinnedFlow(), (("orders", "west.lines"),)
    expected = r"is west.lines by the configuration \(flows, copies\) and copy-orders by mm2's own"
    with pytest.raises(HistoryError, match=expected):
        cluster.pinned(REGEX, copies=copies)
    (reach,) = cluster.pinned(REGEX, copies=copies, named={"orders": "copy-orders"}).reaches
    assert reach.remote == "copy-orders"


def test_an_operator_may_name_the_copy() -> None:
    (reach,) = PinnedFlow().pinned(OTHER, named={"orders": "copy-orders"}).reaches
    assert reach.remote == "copy-orders"
    with pytest.raises(HistoryError, match="there is no topic nowhere on east"):
        PinnedFlow().pinned(OTHER, named={"orders": "nowhere"})
    with pytest.raises(HistoryError, match="--copy-topic: mm2 does not copy order"):
        PinnedFlow().pinned(OTHER, named={"order": "copy-orders"})


def test_a_topic_with_the_copies_of_several_is_not_audited() -> None:
    cluster = PinnedFlow()
    cluster.replicated[LINES] = 3
    everything = TopicRouter("RegexRouter", r"west\..*", "copy-orders")
    with pytest.raises(HistoryError, match="orders: copy-orders on east has the copies of lines"):
        cluster.pinned(everything, topics=("orders",))
