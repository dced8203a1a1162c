"""Which inputs a finding may rest on, so that its absence means something or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from offsetwatch.model.connectors import (
    DELETED,
    UNKNOWN_STATE,
    ConnectorKind,
    StateChange,
    StateHistory,
    Task,
)
from offsetwatch.model.findings import FindingName
from offsetwatch.model.observations import CONNECT_REST, GROUPS, LOG_ENDS, TAIL, InputId
from offsetwatch.model.topology import (
    KafkaTopic,
    ListingTopics,
    MirrorFlow,
    OffsetsTopic,
    SinkGroup,
    Topology,
)
from offsetwatch.notify.notifier import UnavailableInputIndex
from offsetwatch.state.snapshot import (
    ConnectorListView,
    ConnectorView,
    InputView,
    Snapshot,
    UnlistedConnector,
)
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


def list_unavailable(finding, *down: InputId) -> frozenset[InputId]:
    return UnavailableInputIndex(replace(snapshot(unavailable=down), topology=TOPOLOGY)).to(finding)


@pytest.mark.parametrize(
    "down",
    [
        InputId(CONNECT_REST, connect_cluster="lab"),
        InputId(GROUPS, connect_cluster="lab"),
        InputId(GROUPS, connect_cluster="lab", source="west", target="east"),
        InputId(TAIL, kafka="east", topic="connect-offsets"),
        InputId(LOG_ENDS, kafka="west"),
        InputId(TAIL, kafka="syncs", topic="mm2-offset-syncs"),
        InputId(LOG_ENDS, kafka="lakes"),
        InputId(TAIL, kafka="status", topic="connect-status"),
    ],
    ids=str,
)
def test_whatever_a_connect_cluster_has_to_do_with_matters_to_its_findings(down):
    assert list_unavailable(LOST, down) == {down}
    assert list_unavailable(replace(LOST, connect_cluster="other"), down) == frozenset()


def test_what_another_connect_cluster_has_to_do_with_does_not():
    far = InputId(TAIL, kafka="far", topic="other-offsets")
    assert list_unavailable(LOST, far) == frozenset()
    assert list_unavailable(replace(LOST, connect_cluster="other"), far) == {far}


def test_a_kafka_cluster_that_only_has_the_name_of_a_connect_cluster_does_not():
    assert list_unavailable(LOST, InputId(LOG_ENDS, kafka="lab")) == frozenset()


def test_of_what_belongs_to_no_connect_cluster_everything_matters():
    rest, far = InputId(CONNECT_REST, connect_cluster="lab"), InputId(LOG_ENDS, kafka="far")
    assert list_unavailable(replace(LOST, connect_cluster=""), rest, far) == {rest, far}


def test_that_an_input_is_up_again_no_other_one_has_to_report():
    down = replace(LOST, name=FindingName.INPUT_DOWN, connector=None)
    assert list_unavailable(down, InputId(CONNECT_REST, connect_cluster="lab")) == frozenset()


LIST = ConnectorListView("lab", 0.0, (None, None), (), ())
MM2 = ConnectorView(
    "lab", str(LOST.connector), ConnectorKind.MIRROR, "X", "1", "running", (Task(0, "running"),)
)
REST_LAB = InputId(CONNECT_REST, connect_cluster="lab")


def build_index(*connectors: ConnectorView, **changes: Any) -> UnavailableInputIndex:
    return UnavailableInputIndex(build_snapshot(*connectors, **changes))


def build_snapshot(*connectors: ConnectorView, **changes: Any) -> Snapshot:
    """A snapshot of a Connect cluster that answers."""
    view = InputView(REST_LAB, True, True, 0.0, (), None, None)
    return replace(
        snapshot(),
        inputs=(view,),
        connectors=connectors,
        lists=(replace(LIST, **changes),),
    )


def test_a_connector_that_is_listed_with_its_state_hides_nothing_and_is_not_deleted():
    index = build_index(MM2)
    assert (index.to(LOST), index.deleted(LOST)) == (frozenset(), False)


@pytest.mark.parametrize(
    ("connectors", "changes"),
    [
        pytest.param((replace(MM2, state=UNKNOWN_STATE),), {}, id="no-state"),
        pytest.param((), {"believed_at": None}, id="another-cluster"),
        pytest.param((), {"believed_at": 1e12}, id="the-first-minutes"),
        pytest.param(
            (),
            {"unlisted": (UnlistedConnector(MM2.name, 0.0, None, None, 1.0),)},
            id="not-listed-and-at-work",
        ),
    ],
)
def test_what_is_found_of_a_connector_is_not_over_while_connect_reports_nothing_of_it(
    connectors, changes
):
    index = build_index(*connectors, **changes)
    assert (index.to(LOST), index.deleted(LOST)) == ({REST_LAB}, False)


@pytest.mark.parametrize(("state", "deleted"), [("running", False), ("unassigned", True)])
def test_a_status_that_was_lost_ends_nothing_that_is_found_of_its_connector(state, deleted):
    now = snapshot().at
    changes = (StateChange(now, state), StateChange(now, DELETED))
    history = StateHistory("lab", MM2.name, None, changes)
    index = UnavailableInputIndex(replace(build_snapshot(), histories=(history,)))
    assert index.deleted(LOST) is deleted


@pytest.mark.parametrize(
    "changes",
    [{}, {"deleted": frozenset({MM2.name}), "believed_at": None}],
    ids=["not-listed", "certain"],
)
def test_what_is_found_of_a_connector_that_is_deleted_is_over(changes):
    index = build_index(**changes)
    assert (index.to(LOST), index.deleted(LOST)) == (frozenset(), True)
    assert not index.deleted(replace(LOST, connector=None))
    assert not index.deleted(replace(LOST, connect_cluster="another"))
