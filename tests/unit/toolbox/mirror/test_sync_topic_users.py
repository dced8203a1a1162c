from dataclasses import replace

import pytest

from offsetwatch.model.connectors import Connector, ConnectorKind, Task
from offsetwatch.model.topology import KafkaTopic
from offsetwatch.toolbox.mirror.sync_topic_users import (
    ConnectClusterInventory,
    describe_deletion,
    find_blocking_users,
    find_syncs_topic,
    find_topic_users,
)
from tests.unit.toolbox.mirror.test_copy_costs import mirror

ADDRESSES = {"west": frozenset({"west:9092"}), "east": frozenset({"east:9092"})}
SYNCS = KafkaTopic("west", "mm2-offset-syncs.east.internal")
ME = ("lab", "mm2-source")


def connector(name: str, *, state: str = "running", tasks: int = 1, **settings) -> Connector:
    return Connector(
        name=name,
        kind=ConnectorKind.MIRROR,
        class_name="",
        version="",
        state=state,
        tasks=tuple(Task(number, state) for number in range(tasks)),
        **settings,
    )


def found(*connectors: Connector, cluster: str = "lab", **more) -> list[str]:
    listed = ConnectClusterInventory(cluster, home="east", connectors=connectors, **more)
    return [str(user) for user in find_topic_users(SYNCS, [listed], ADDRESSES, besides=ME)]


def test_the_syncs_are_on_the_side_that_the_connector_says():
    assert find_syncs_topic(mirror(), "east", ADDRESSES) == SYNCS
    there = replace(mirror(), syncs_on_source=False, target_addresses=frozenset())
    assert find_syncs_topic(there, "east", ADDRESSES) == replace(SYNCS, kafka="east")
    assert find_syncs_topic(replace(mirror(), syncs_topic=None), "east", ADDRESSES) is None
    assert find_syncs_topic(mirror(), "east", {"east": ADDRESSES["east"]}) is None
    assert find_syncs_topic(there, None, ADDRESSES) is None


def test_the_connector_itself_is_nobody_else():
    assert found(connector("mm2-source", mirror=mirror())) == []
    assert found(connector("mm2-source", mirror=mirror()), cluster="other") == [
        "other/mm2-source writes it (NOT stopped)"
    ]


def test_who_writes_and_who_reads_the_same_topic_is_named():
    assert found(
        connector("again", mirror=mirror()),
        connector("checkpoints", translates=mirror()),
        connector("other-aliases", mirror=replace(mirror(), syncs_topic="mm2-offset-syncs.x")),
        connector("elsewhere", mirror=replace(mirror(), source_addresses=frozenset({"east:9092"}))),
        connector("files"),
    ) == ["lab/again writes it (NOT stopped)", "lab/checkpoints reads it (NOT stopped)"]


def test_the_same_name_on_a_cluster_that_is_not_configured_may_be_the_same_topic():
    far = replace(mirror(), source_addresses=frozenset({"far:9092"}))
    assert found(connector("far", mirror=far)) == [
        "lab/far writes it, if the cluster it names is the same one (NOT stopped)"
    ]


@pytest.mark.parametrize(
    ("state", "tasks", "stopped"),
    [("stopped", 0, True), ("stopped", 1, False), ("paused", 0, False), ("failed", 1, False)],
)
def test_only_a_connector_without_tasks_that_is_to_have_none_is_stopped(state, tasks, stopped):
    listed = ConnectClusterInventory(
        "lab", "east", (connector("again", state=state, tasks=tasks, mirror=mirror()),)
    )
    others = find_topic_users(SYNCS, [listed], ADDRESSES, besides=ME)
    assert bool(find_blocking_users(SYNCS, others)) is not stopped


@pytest.mark.parametrize("running", ["group west-mm2 has members", ""])
def test_a_dedicated_mirrormaker_is_stopped_when_its_process_is(running):
    again = connector("MirrorSourceConnector", mirror=mirror())
    listed = ConnectClusterInventory("mm2", "east", (again,), running=running)
    others = find_topic_users(SYNCS, [listed], ADDRESSES, besides=ME)
    assert bool(find_blocking_users(SYNCS, others)) is bool(running)


def test_a_flow_that_only_the_configuration_names_counts_once():
    named = frozenset({SYNCS})
    assert found(cluster="mm2", running="seen", named=named) == [
        "a flow of mm2 uses it (NOT stopped: seen)"
    ]
    again = connector("again", mirror=mirror())
    assert found(again, cluster="mm2", running="seen", named=named) == [
        "mm2/again writes it (NOT stopped: seen)"
    ]


def test_a_site_that_cannot_be_looked_into_may_use_it():
    listed = ConnectClusterInventory("mm2", "east", None, why="no config_topic", running="seen")
    others = find_topic_users(SYNCS, [listed], ADDRESSES, besides=ME)
    assert [str(user) for user in others] == [
        "mm2 (no config_topic) may use it (NOT stopped: seen)"
    ]
    (problem,) = find_blocking_users(SYNCS, others)
    assert problem.where == "--clear-syncs (west/mm2-offset-syncs.east.internal)"


def test_it_is_said_whether_anybody_else_is_concerned():
    assert "no other entry" in describe_deletion(SYNCS, ())[1]
    listed = ConnectClusterInventory("lab", "east", (connector("again", mirror=mirror()),))
    assert (
        "lab/again writes it"
        in describe_deletion(SYNCS, find_topic_users(SYNCS, [listed], ADDRESSES, besides=ME))[1]
    )
