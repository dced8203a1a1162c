"""Every recorded exchange of a real 4.3.1, in its order, asked of the model: the same code, and the
same body but for what normal.py leaves out.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.contract import malformed_bodies, normal
from tests.contract.clusters import ModelCluster
from tests.fakes.connect_model import (
    FILE_SINK,
    FILE_SOURCE,
    MIRROR_CHECKPOINT,
    MIRROR_HEARTBEAT,
    MIRROR_SOURCE,
    FakeConnect,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "connect-exchanges.json"
EXCHANGES = json.loads(GOLDEN.read_text())
# A flush of offsets is waited for where the recorder waited: it found everything committed.
FLUSHED_S = 61.0
_STRINGS = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
_MIRROR = {
    "source.cluster.alias": "west",
    "target.cluster.alias": "east",
    "source.cluster.bootstrap.servers": "127.0.0.1:29192",
    "target.cluster.bootstrap.servers": "127.0.0.1:19092",
}
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def as_recorded() -> FakeConnect:
    """The cluster as it was when the first request came."""
    connect = FakeConnect()
    west = connect.upstreams["west"]
    west.create_topic("orders")
    west.create_topic("orders-eu")
    for _ in range(5000):
        west.produce("orders", b"x")
    for _ in range(300):
        west.produce("orders-eu", b"x")
    # 500 lines are 4390 bytes.
    connect.files.append("/data/t.txt", *["1234567"] * 390, *["12345678901"] * 105, *["1"] * 5)
    assert connect.files.size("/data/t.txt") == 4390
    connect.create(
        "file-source",
        {"connector.class": FILE_SOURCE, "file": "/data/in.txt", "tasks.max": "1", **_STRINGS}
        | {"topic": "lines"},
    )
    connect.create(
        "file-sink",
        {"connector.class": FILE_SINK, "file": "/data/out.txt", "tasks.max": "1", **_STRINGS}
        | {"topics": "lines"},
    )
    for name, kind, more in (
        (
            "mm2-source",
            MIRROR_SOURCE,
            {
                "tasks.max": "2",
                "topics": "orders.*",
                "replication.factor": "1",
                "offset-syncs.topic.replication.factor": "1",
                "key.converter": _BYTES,
                "value.converter": _BYTES,
                "refresh.groups.interval.seconds": "5",
                "refresh.topics.interval.seconds": "5",
            },
        ),
        (
            "mm2-checkpoint",
            MIRROR_CHECKPOINT,
            {
                "tasks.max": "1",
                "groups": ".*",
                "emit.checkpoints.interval.seconds": "5",
                "checkpoints.topic.replication.factor": "1",
                "refresh.groups.interval.seconds": "5",
                "sync.group.offsets.enabled": "true",
                "sync.group.offsets.interval.seconds": "5",
            },
        ),
        (
            "mm2-heartbeat",
            MIRROR_HEARTBEAT,
            {"tasks.max": "1", "heartbeats.topic.replication.factor": "1"},
        ),
    ):
        connect.create(name, {"connector.class": kind, **_MIRROR, **more})
    connect.advance(FLUSHED_S)
    return connect


def replayed() -> list[tuple[int, str, str | None]]:
    """(status, body, offsets afterwards) of every exchange."""
    connect = as_recorded()
    connection = connect.door()
    results = []
    for exchange in EXCHANGES:
        request = exchange["request"]
        if exchange["case"].endswith("offsets running"):
            connect.advance(FLUSHED_S)
        reply = connection.request(request["method"], request["path"], sent(request["body"]))
        after = None
        if "offsets_after" in exchange:
            name = request["path"].split("/")[2]
            after = connection.request("GET", f"/connectors/{name}/offsets").body.decode()
        results.append((reply.status, reply.body.decode(), after))
        if request["method"] != "GET" and not request["path"].endswith(("/stop", "/resume")):
            connect.advance(5.0)  # what follows those two was recorded at once, as a race
    return results


@pytest.fixture(scope="module")
def answers() -> list[tuple[int, str, str | None]]:
    return replayed()


@pytest.mark.parametrize(
    "number", range(len(EXCHANGES)), ids=[exchange["case"] for exchange in EXCHANGES]
)
def test_the_model_answers_as_it_was_recorded(answers, number):
    exchange = EXCHANGES[number]
    status, answer, after = answers[number]
    assert (status, normal.body(answer)) == (exchange["status"], normal.body(exchange["response"]))
    if after is not None:
        assert normal.body(after) == normal.body(exchange["offsets_after"])


def sent(body: object) -> bytes:
    """A body as the recorder sent it; `raw` is one that is no JSON."""
    if isinstance(body, dict) and set(body) == {"raw"}:
        return str(body["raw"]).encode()
    return b"" if body is None else json.dumps(body).encode()


ODD = Path(__file__).parents[1] / "golden" / "connect-odd-bodies.json"
ODD_BODIES = [tuple(entry) for entry in json.loads(ODD.read_text())]


@pytest.mark.parametrize("kind", list(malformed_bodies.KINDS))
@pytest.mark.parametrize("version", ["4.3.1", "3.9.2"])
def test_odd_bodies_are_answered_as_they_were_recorded(version, kind):
    recorded = [entry[2:] for entry in ODD_BODIES if entry[:2] == (version, kind)]
    report = malformed_bodies.send_bodies(ModelCluster(version), kind, f"odd-{kind}")
    assert [reports.label for reports in report] == [label for label, *_ in recorded]
    for model, real in zip(report, recorded, strict=True):
        assert model == real
