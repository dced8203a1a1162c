"""Which inputs a finding may rest on, so that its absence means something or nothing."""

from __future__ import annotations

import pytest

from exporter.model.findings import FindingName
from exporter.model.observations import CONNECT_REST, GROUPS, LOG_ENDS, TAIL, InputId
from exporter.model.topology import (
    KafkaTopic,
    ListingTopics,
    MirrorFlow,
    OffsetsTopic,
    SinkGroup,
    Topology,
)
from exporter.notify.sight import Blind
from tests.changed import replace
from tests.unit.notify.findings import LOST, snapshot

TOPOLOGY = Topology(
    offsets_topics=(
        OffsetsTopic("lab", KafkaTopic("east", "connect-offsets")),
        OffsetsTopic("other", KafkaTopic("far", "other-offsets")),
    ),
    flows=(
        MirrorFlow("lab", "mm2", "west", "east", "west", KafkaTopic("syncs", "mm2-offset-syncs")),
    ),
    sinks=(SinkGroup("lab", "lake", "connect-lake", "lakes"),),
    listings=(ListingTopics("lab", None, KafkaTopic("status", "connect-status")),),
)


def blind_to(finding, *down: InputId) -> frozenset[InputId]:
    return Blind(replace(snapshot(blind=down), topology=TOPOLOGY)).to(finding)


@pytest.mark.parametrize(
    "down",
    [
        InputId("lab", CONNECT_REST),
        InputId("lab", GROUPS),
        InputId("east/connect-offsets", TAIL),
        InputId("west", LOG_ENDS),
        InputId("syncs/mm2-offset-syncs", TAIL),
        InputId("lakes", LOG_ENDS),
        InputId("status/connect-status", TAIL),
    ],
    ids=str,
)
def test_whatever_a_connect_cluster_has_to_do_with_matters_to_its_findings(down):
    assert blind_to(LOST, down) == {down}
    assert blind_to(replace(LOST, connect_cluster="other"), down) == frozenset()


def test_what_another_connect_cluster_has_to_do_with_does_not():
    far = InputId("far/other-offsets", TAIL)
    assert blind_to(LOST, far) == frozenset()
    assert blind_to(replace(LOST, connect_cluster="other"), far) == {far}


def test_of_what_belongs_to_no_connect_cluster_everything_matters():
    rest, far = InputId("lab", CONNECT_REST), InputId("far", LOG_ENDS)
    assert blind_to(replace(LOST, connect_cluster=""), rest, far) == {rest, far}


def test_that_an_input_is_up_again_no_other_one_has_to_tell():
    down = replace(LOST, name=FindingName.INPUT_DOWN, connector=None)
    assert blind_to(down, InputId("lab", CONNECT_REST)) == frozenset()
