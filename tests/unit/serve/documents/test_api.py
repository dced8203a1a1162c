import json

from offsetwatch import documents
from offsetwatch.model.offsets import SourceOffset
from offsetwatch.model.topology import MirrorFlow, Topology
from offsetwatch.serve.documents import api
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
from tests.changed import replace
from tests.unit.serve.worlds import FORGOTTEN, MIRROR, SINK, SYNC, full, number, source

INPUTS = [
    {
        "input": "east/connect-offsets",
        "kind": "tail",
        "up": True,
        "live": True,
        "last_success_at": "2025-11-21T08:00:05.750000Z",
        "errors": {"timeout": 2, "unreachable": 1},
        "last_error": None,
        "tail": {
            "kafka": "east",
            "topic": "connect-offsets",
            "caught_up": True,
            "behind": 3,
            "records": {"value": 40, "tombstone": 2, "undecodable": 1},
            "positions": {"0": 123, "1": 9_007_199_254_740_993},
            "frozen": [],
        },
    },
    {
        "input": "lab",
        "kind": "connect_rest",
        "up": False,
        "live": False,
        "last_success_at": None,
        "errors": {"denied": 5},
        "last_error": "lab: 403",
        "tail": None,
    },
]


def connectors(snapshot):
    return json.loads(api.encode_connectors(snapshot))


def flows(snapshot):
    return json.loads(api.encode_flows(snapshot))


def by_name(document):
    return {row["name"]: row for row in document["connectors"]}


def test_both_documents_begin_with_the_moment_the_readiness_and_the_inputs():
    waiting = replace(full(), ready=False, waiting_for=("tail a: waiting", "tail b: waiting"))
    for document in (connectors(waiting), flows(waiting)):
        assert document["at"] == "2025-11-21T08:00:06.500000Z"
        assert document["ready"] is False
        assert document["waiting_for"] == ["tail a: waiting", "tail b: waiting"]
        assert document["inputs"][:2] == INPUTS


def test_a_listed_connector_shows_its_tasks_and_its_source_partitions():
    result = by_name(connectors(full()))
    assert list(result) == ["files", "idle", "mirror", "out"]
    files = result["files"]
    source_partitions = files.pop("source_partitions")
    ends = [partition.pop("source_end", None) for partition in source_partitions]
    assert ends[0] is None
    assert ends[1] == {
        "source": "shop",
        "kind": "postgresql",
        "read_at": "2025-11-21T08:00:00Z",
        "server": "7/1",
        "end": "0/1234",
        "position": 4000,
        "end_position": 4660,
        "lag_bytes": 660,
        "lag_transactions": None,
        "lag_rows": None,
        "lag_seconds": 60.0,
        "caught_up": False,
        "behind_since": "2025-11-21T07:59:06.500000Z",
        "ahead": 0,
        "retention_headroom_bytes": 1_000_000,
        "retained_bytes": None,
        "connected": True,
        "snapshot_in_progress": False,
        "lost": None,
        "mismatch": None,
        "problem": None,
    }
    assert files == {
        "connect_cluster": "lab",
        "name": "files",
        "kind": "source",
        "class": "org.example.Files",
        "version": "4.3.1",
        "state": "running",
        "tasks": [
            {"task": 0, "state": "running"},
            {"task": 1, "state": "failed"},
            {"task": 2, "state": "running"},
        ],
        "sink_partitions": [],
    }
    assert source_partitions == [
        {
            "source_partition": {"filename": "/gone"},
            "label": "filename=/gone",
            "offset": None,
            "kafka_partition": 3,
            "log_offset": 12,
            "committed_at": None,
            "advanced_at": None,
            "commits": 4,
            "advances": 3,
            "rewinds": 0,
            "resets": 1,
            "from": "topic",
            "variants": 0,
            "dialect": "file_stream",
            "event_at": None,
            "poisoned": False,
            "shadow": None,
        },
        {
            "source_partition": {"db": "shop"},
            "label": "db=shop",
            "offset": {
                "lsn": 9_007_199_254_740_993,
                "snapshot": True,
                "ts_ms": 1_763_712_000_123,
                "x": 0.1,
            },
            "kafka_partition": 3,
            "log_offset": 12,
            "committed_at": "2025-11-21T08:00:00.123000Z",
            "advanced_at": None,
            "commits": 4,
            "advances": 3,
            "rewinds": 0,
            "resets": 1,
            "from": "topic",
            "variants": 0,
            "dialect": "file_stream",
            "event_at": "2025-11-21T07:59:59.500000Z",
            "poisoned": False,
            "shadow": None,
        },
    ]


def test_a_connector_that_is_not_listed_is_unknown_and_keeps_its_offsets():
    snapshot = replace(EMPTY_SNAPSHOT, source_partitions=(FORGOTTEN,), sink_partitions=(SINK,))
    result = by_name(connectors(snapshot))
    assert result["out"]["sink_partitions"] == [
        {
            "topic": "orders",
            "partition": 0,
            "committed": 10,
            "log_end": 25,
            "lag_records": 15,
            "from": "group",
            **json.loads(documents.encode(api.build_lag_age(SINK, snapshot.at))),
        }
    ]
    assert len(result["files"].pop("source_partitions")) == 1
    assert result["files"] == {
        "connect_cluster": "lab",
        "name": "files",
        "kind": "unknown",
        "class": None,
        "version": None,
        "state": None,
        "tasks": [],
        "sink_partitions": [],
    }


def test_connectors_of_one_name_in_two_connect_clusters_stay_apart():
    other = replace(FORGOTTEN, connect_cluster="prod")
    rows = connectors(replace(EMPTY_SNAPSHOT, source_partitions=(FORGOTTEN, other)))["connectors"]
    assert [(row["connect_cluster"], len(row["source_partitions"])) for row in rows] == [
        ("lab", 1),
        ("prod", 1),
    ]


def test_numbers_of_any_size_are_written_in_full():
    huge = 10**40 + 7
    offset = SourceOffset(text=f'{{"scn":{huge}}}', numbers=(("scn", huge),))
    view = source(f'{{"id":{huge}}}', f"id={huge}", offset)
    mirror = replace(MIRROR, committed=huge, replicated=huge)
    snapshot = replace(EMPTY_SNAPSHOT, source_partitions=(view,), mirror_partitions=(mirror,))
    (row,) = connectors(snapshot)["connectors"]
    assert row["source_partitions"][0]["offset"] == {"scn": huge}
    assert row["source_partitions"][0]["source_partition"] == {"id": huge}
    assert flows(snapshot)["flows"][0]["partitions"][0]["committed"] == huge


def test_two_source_partitions_with_one_label_are_both_listed():
    views = (
        source('{"p":0}', "p=0", number("n", 1)),
        source('{"p":"0"}', "p=0", number("n", 2)),
    )
    (row,) = connectors(replace(EMPTY_SNAPSHOT, source_partitions=views))["connectors"]
    assert [partition["source_partition"] for partition in row["source_partitions"]] == [
        {"p": 0},
        {"p": "0"},
    ]


def test_a_flow_shows_its_partitions_and_syncs_and_no_total_while_one_lag_is_unknown():
    flow, _ = flows(full())["flows"]
    partitions = flow.pop("partitions")
    billing, unknown = flow.pop("groups")
    assert flow == {
        "connect_cluster": "lab",
        "connector": "mirror",
        "source": "west",
        "target": "east",
        "upstream": "west",
        "offset_syncs": "west/mm2-offset-syncs.east.internal",
        "routers": [],
        "copies": {},
        "lag_records": None,
        "syncs": [
            {
                "topic": "orders",
                "partition": 7,
                "upstream_offset": 120,
                "downstream_offset": 118,
                "at": "2025-11-21T08:00:01.250000Z",
            }
        ],
        "checkpoints": [{"group": "billing", "at": "2025-11-21T07:59:00.250000Z"}],
        "heartbeat_at": "2025-11-21T08:00:05.500000Z",
        "losses": [
            {
                "topic": "orders",
                "partition": 7,
                "cause": "retention",
                "first": 93,
                "last": 99,
                "records": 7,
                "at": "2025-11-21T07:58:20Z",
            }
        ],
        "recreations": [
            {
                "topic": "orders",
                "count": 2,
                "at": "2025-11-21T07:43:20Z",
                "id_before": "abc",
                "id_after": "def",
            }
        ],
    }
    assert billing == {
        "group": "billing",
        "topic": "orders",
        "partition": 7,
        "upstream": 2700,
        "best": 2700,
        "start_offset": 1,
        "start_offset_from": "checkpoint",
        "translated": 1,
        "reread_records": 2699,
        "skip_records": 0,
        "checkpoint_at": "2025-11-21T07:59:00.250000Z",
    }
    assert (unknown["best"], unknown["reread_records"]) == (None, None)
    assert partitions[0] == {
        "topic": "orders",
        "partition": 7,
        "committed": 99,
        "committed_at": "2025-11-21T08:00:00Z",
        "from": "topic",
        "synced": 120,
        "replicated": 120,
        "log_start": 0,
        "log_end": 500,
        "lag_records": 379,
        "ahead_records": 0,
        "lag_position": None,
        "caught_up": False,
        "lag_seconds": 100.0,
        "behind_since": "2025-11-21T07:58:26.500000Z",
        "behind_from": "record",
        "headroom_records": 121,
        "headroom_seconds": 3600.5,
        "lost_records": {"retention": 7, "recreated": 0},
    }
    assert [
        (partition["partition"], partition["lag_records"], partition["ahead_records"])
        for partition in partitions
    ] == [
        (7, 379, 0),
        (8, None, None),
        (9, 0, 101),
    ]


def test_a_flow_of_which_no_lag_is_known_has_no_total():
    unknown = replace(MIRROR, log_start=None, log_end=None, lag=None, ahead=None)
    flow, _ = flows(replace(full(), mirror_partitions=(unknown,)))["flows"]
    assert flow["lag_records"] is None
    empty, _ = flows(replace(full(), mirror_partitions=()))["flows"]
    assert (empty["lag_records"], empty["partitions"]) == (None, [])


def test_a_flow_without_upstream_or_syncs_says_null():
    flow = MirrorFlow(
        connect_cluster="lab",
        connector="mirror",
        source="west",
        target="east",
        upstream=None,
        offset_syncs=None,
    )
    topology = Topology(offsets_topics=(), flows=(flow,))
    (row,) = flows(replace(EMPTY_SNAPSHOT, topology=topology))["flows"]
    assert (row["upstream"], row["offset_syncs"]) == (None, None)


def test_syncs_belong_to_their_own_flow_only():
    other = replace(SYNC, source="north")
    flow, _ = flows(replace(full(), syncs=(other, SYNC)))["flows"]
    assert len(flow["syncs"]) == 1


def test_the_recorded_topics_are_those_with_progress_in_them():
    for name in (connectors, flows):
        assert name(full())["recorded"] == [
            "east/connect-offsets",
            "west/mm2-offset-syncs.east.internal",
        ]


def test_an_empty_snapshot_gives_empty_documents():
    head = {
        "at": "1970-01-01T00:00:00Z",
        "ready": False,
        "waiting_for": ["the first tick"],
        "recorded": [],
        "inputs": [],
    }
    assert connectors(EMPTY_SNAPSHOT) == {**head, "connectors": []}
    assert flows(EMPTY_SNAPSHOT) == {**head, "flows": []}


def test_a_flow_whose_every_lag_is_known_shows_their_sum():
    views = (replace(MIRROR, lag=3), replace(MIRROR, partition=8, lag=4))
    (flow,) = flows(replace(EMPTY_SNAPSHOT, mirror_partitions=views))["flows"]
    assert flow["lag_records"] == 7


def test_a_flow_that_may_have_positions_which_are_not_known_has_no_sum():
    snapshot = replace(full(), mirror_partitions=(MIRROR,))
    (flow,) = (
        mirror_flow
        for mirror_flow in flows(snapshot)["flows"]
        if mirror_flow["connector"] == MIRROR.connector
    )
    assert flow["lag_records"] == MIRROR.lag
    partial = frozenset({(MIRROR.connect_cluster, MIRROR.connector)})
    (flow,) = (
        mirror_flow
        for mirror_flow in flows(replace(snapshot, partial=partial))["flows"]
        if mirror_flow["connector"] == MIRROR.connector
    )
    assert flow["lag_records"] is None
