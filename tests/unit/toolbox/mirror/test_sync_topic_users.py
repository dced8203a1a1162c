"""Tests."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from offsetwatch.config import parse
from offsetwatch.errors import ClientError, NotFound, ResponseTimeout
from offsetwatch.model.connectors import Connector, ConnectorKind, Task
from offsetwatch.model.topology import KafkaTopic, TopicPartition
from offsetwatch.remedy.model.plan import DeleteTopic
from offsetwatch.toolbox.mirror.sync_topic_users import (
    ConnectClusterInventory,
    _describe_activity,
    describe_deletion,
    find_blocking_users,
    find_syncs_topic,
    find_topic_users,
    inspect_connect_clusters,
    prepare_sync_deletion,
)
from tests.fakes.worker import ok, serving
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


def find_users(*connectors: Connector, cluster: str = "lab", **more) -> list[str]:
    listed = ConnectClusterInventory(cluster, home="east", connectors=connectors, **more)
    return [str(user) for user in find_topic_users(SYNCS, [listed], ADDRESSES, besides=ME)]


def test_the_syncs_are_on_the_side_that_the_connector_says():
    assert find_syncs_topic(mirror(), "east", ADDRESSES) == SYNCS
    there = replace(mirror(), syncs_on_source=False, target_addresses=frozenset())
    assert find_syncs_topic(there, "east", ADDRESSES) == replace(SYNCS, kafka="east")
    assert find_syncs_topic(replace(mirror(), syncs_topic=None), "east", ADDRESSES) is None
    assert find_syncs_topic(mirror(), "east", {"east": ADDRESSES["east"]}) is None
    assert find_syncs_topic(there, None, ADDRESSES) is None


def test_the_connector_itself_is_no_other_user():
    assert find_users(connector("mm2-source", mirror=mirror())) == []
    assert find_users(connector("mm2-source", mirror=mirror()), cluster="other") == [
        "other/mm2-source writes it (NOT stopped)"
    ]


def test_who_writes_and_who_reads_the_same_topic_is_named():
    assert find_users(
        connector("again", mirror=mirror()),
        connector("checkpoints", translates=mirror()),
        connector("other-aliases", mirror=replace(mirror(), syncs_topic="mm2-offset-syncs.x")),
        connector("elsewhere", mirror=replace(mirror(), source_addresses=frozenset({"east:9092"}))),
        connector("files"),
    ) == ["lab/again writes it (NOT stopped)", "lab/checkpoints reads it (NOT stopped)"]


def test_the_same_name_on_a_cluster_that_is_not_configured_may_be_the_same_topic():
    far = replace(mirror(), source_addresses=frozenset({"far:9092"}))
    assert find_users(connector("far", mirror=far)) == [
        "lab/far writes it, if the cluster it names is the same one (NOT stopped)"
    ]


def test_one_whose_topic_only_a_config_provider_knows_may_use_it():
    hidden = replace(mirror(), syncs_topic=None, syncs_known=False)
    assert find_users(
        connector("hidden", mirror=hidden),
        connector("checkpoints", translates=hidden),
        connector("silent", mirror=replace(mirror(), syncs_topic=None)),
        connector("mm2-source", mirror=hidden),
    ) == ["lab/hidden may write it (NOT stopped)", "lab/checkpoints may read it (NOT stopped)"]


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
    assert find_users(cluster="mm2", running="seen", named=named) == [
        "a flow of mm2 uses it (NOT stopped: seen)"
    ]
    again = connector("again", mirror=mirror())
    assert find_users(again, cluster="mm2", running="seen", named=named) == [
        "mm2/again writes it (NOT stopped: seen)"
    ]


def test_a_cluster_that_cannot_be_inspected_may_use_it():
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


# --- connect clusters ----------------------------------------------------------------------------


class Kafkas:
    """Kafkas, of which one cluster has a topic of this id, or an error instead."""

    def __init__(self, topic_id: str | ClientError | None) -> None:
        self.topic_id = topic_id

    def at(self, name: str) -> Kafkas:
        assert name == SYNCS.kafka
        return self

    def topic_id_now(self, _topic: str) -> str | None:
        if isinstance(self.topic_id, ClientError):
            raise self.topic_id
        return self.topic_id

    def addresses(self) -> dict[str, frozenset[str]]:
        return ADDRESSES


def cleared(
    topic: KafkaTopic | None, topic_id: str | ClientError | None, *results: ConnectClusterInventory
):
    return prepare_sync_deletion(topic, results, Kafkas(topic_id), besides=ME)


class Written:
    """A topic whose newest record has this timestamp, and workers whose group has another name."""

    def __init__(self, moment: float) -> None:
        self.at = moment

    def members(self, _group: str) -> tuple[str, ...]:
        return ()

    def shape(self, _topic: str) -> tuple[str, int]:
        return ("id", 1)

    def offsets_at(self, since: dict[TopicPartition, float]) -> dict[TopicPartition, int | None]:
        return {partition: 7 if self.at >= moment else None for partition, moment in since.items()}


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0])
def test_a_dedicated_mirrormaker_that_commits_runs_by_any_clock_of_its_workers(skew_s):
    entry = {"name": "mm2", "kafka": "east", "offsets_topic": "mm2-offsets.west.internal"}
    (connect,) = parse({"kafka": {"east": {"bootstrap": "e:1"}}, "connect": [entry]}, {}).connect
    now = 1_800_000_000.0
    assert _describe_activity(connect, Written(now - 170.0 + skew_s), now)
    assert not _describe_activity(connect, Written(now - 1400.0 + skew_s), now)


def test_a_topic_without_other_users_is_deleted_by_its_id():
    result = cleared(SYNCS, "id-1", ConnectClusterInventory("lab", "east", ()))
    assert result.step == DeleteTopic(kafka="west", topic=SYNCS.topic, topic_id="id-1")
    assert result.problems == ()
    assert "no other entry" in result.notes[1]


def test_a_topic_with_a_running_user_is_not_deleted():
    again = ConnectClusterInventory("lab", "east", (connector("again", mirror=mirror()),))
    assert "lab/again" in cleared(SYNCS, "id-1", again).problems[0].wrong


@pytest.mark.parametrize(
    ("topic", "topic_id", "problem"),
    [(None, "id-1", "emits no offset syncs"), (SYNCS, None, "no topic ids")],
)
def test_one_that_could_not_be_known_again_is_not(topic, topic_id, problem):
    result = cleared(topic, topic_id)
    assert result.step is None
    assert problem in result.problems[0].wrong


def test_where_there_is_none_there_is_nothing_to_be_done():
    result = cleared(SYNCS, NotFound("west", SYNCS.topic))
    assert (result.step, result.problems) == (None, ())
    assert "no topic" in result.notes[0]


def test_one_that_is_not_described_in_time_is_not_taken_for_none():
    with pytest.raises(ResponseTimeout):
        cleared(SYNCS, ResponseTimeout("west", "no answer"))


def test_a_worker_is_queried_and_flows_that_the_configuration_names_are_known():
    config = {"connector.class": "MirrorCheckpoint", "source.cluster.alias": "west"}
    entry = {
        "status": {"connector": {"state": "STOPPED"}, "tasks": [], "type": "source"},
        "info": {"config": config, "type": "source"},
    }
    with serving(ok(json.dumps({"reader": entry}).encode())) as worker:
        loaded = parse(
            {
                "kafka": {"east": {"bootstrap": "e:1"}, "west": {"bootstrap": "w:1"}},
                "connect": [{"name": "lab", "kafka": "east", "url": worker.url}],
                "flows": [
                    {
                        "source": "west",
                        "target": "east",
                        "upstream": "west",
                        "downstream": "east",
                        "connect": "lab",
                        "connector": "m",
                        "offset_syncs": {"kafka": "west", "topic": SYNCS.topic},
                    }
                ],
            },
            {},
        )
        (cluster,) = inspect_connect_clusters(loaded, Kafkas("id"), now=0.0)
    assert cluster.connectors is not None
    assert [any_connector.name for any_connector in cluster.connectors] == ["reader"]
    assert (cluster.home, cluster.running, cluster.named) == ("east", None, {SYNCS})
