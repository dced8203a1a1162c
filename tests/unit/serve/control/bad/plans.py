"""What a plan can be about: 38 to 44."""

from __future__ import annotations

import json

from offsetwatch.remedy.model.service_api import ProposalRefused
from tests.unit.serve.control.stage import BECAUSE, SKIP, Stage

from .table import refused, row

TOPIC = {"kafka_topic": "orders", "kafka_partition": 3}
MIRROR = {"cluster": "west", "topic": "orders", "partition": 3}


def skip(stage: Stage, **more: object) -> int:
    answer = stage.propose({**SKIP, **more})
    assert answer.status_code == 400, more
    return refused(answer)


@row(38, "an offset is a whole number that there can be a record at")
def _(stage, _):
    for wrong in (-1, -(2**63), 1.5, 1.0, "1", "", True, False, None, [1], {"a": 1}, 2**63, 10**30):
        yield skip(stage, offset={"kafka_offset": wrong})
        yield skip(stage, partition=MIRROR, offset={"offset": wrong})
    for wrong in ({}, {"offset": 1}, {"kafka_offset": 1, "x": 1}, {"Kafka_offset": 1}, [], 7, "7"):
        yield skip(stage, offset=wrong)


@row(39, "a partition is a whole number, and no text that looks like one")
def _(stage, _):
    for wrong in ("0", 0.0, "", -1, 2**31, True, None, [0]):
        yield skip(stage, partition={**TOPIC, "kafka_partition": wrong})
        yield skip(stage, partition={**MIRROR, "partition": wrong}, offset={"offset": 1})
    for wrong in ("", ".", "..", "a/b", "a b", "x" * 250, None, 7):
        yield skip(stage, partition={**TOPIC, "kafka_topic": wrong})
        yield skip(stage, partition={**MIRROR, "topic": wrong}, offset={"offset": 1})
    for wrong in (
        {"kafka_topic": "orders"},
        {"kafka_partition": 3},
        {**TOPIC, "x": 1},
        {**TOPIC, **MIRROR},
    ):
        yield skip(stage, partition=wrong)


@row(40, "an offset that remedy refuses is answered with its reasons, and nothing is planned")
def _(stage, _):
    stage.desk.refuse = ProposalRefused(said="beyond the end of the log")
    for offset in (0, 1234, 1236, 10**12, 2**63 - 2):
        answer = stage.propose({**SKIP, "offset": {"kafka_offset": offset}}, key=f"k{offset}")
        assert answer.status_code == 422
        yield refused(answer)


@row(40, "the last number of all is no offset: there is none after it")
def _(stage, _):
    yield skip(stage, offset={"kafka_offset": 2**63 - 1})


@row(41, "a plan has one partition, once")
def _(stage, _):
    yield skip(stage, partition=[TOPIC, TOPIC], offset=[{"kafka_offset": 1}, {"kafka_offset": 2}])
    yield skip(stage, offsets=[{"partition": TOPIC, "offset": {"kafka_offset": 1}}] * 2)
    text = json.dumps(SKIP)
    for more in (f', "partition": {json.dumps(TOPIC)}}}', ', "offset": {"kafka_offset": 1}}'):
        body = (text[:-1] + more).encode()
        yield refused(stage.call("POST", "/plans", "proposer", body, Idempotency_Key="k"))


@row(42, "no offset is no way to ask for a reset")
def _(stage, _):
    yield skip(stage, offset=None)
    yield skip(stage, partition=None)
    yield skip(stage, offset={"kafka_offset": None})
    for nothing in ({}, []):
        yield skip(stage, offset=nothing)
        yield skip(stage, partition=nothing)
    yield refused(stage.propose({name: SKIP[name] for name in SKIP if name != "partition"}))
    for action in ("reset", "delete", "alter", "", "SKIP_ONE", None, "notify", "isolate"):
        yield skip(stage, action=action)
    stop = {"action": "stop", "connect_cluster": "lab", "connector": "orders", "because": BECAUSE}
    for more in ({"offset": {"kafka_offset": 1}}, {"partition": TOPIC}, {"backup": "b.json"}):
        yield refused(stage.propose({**stop, **more}))


@row(42, "a backup is named, and by nothing that leads elsewhere")
def _(stage, _):
    restore = {**{name: SKIP[name] for name in ("connect_cluster", "connector", "because")}}
    for name in (
        "",
        ".",
        "..",
        "../b.json",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "b.json\n",
        "%2e%2e",
        None,
        "x" * 201,
    ):
        yield refused(stage.propose({**restore, "action": "restore", "backup": name}))
    yield refused(stage.propose({**restore, "action": "restore"}))
    yield refused(stage.propose({**SKIP, "action": "restore", "backup": "b.json"}))


@row(43, "what checkpoints and heartbeats store is skipped by nobody")
def _(stage, _):
    for partition in (
        {"consumerGroup": "g", "topic": "orders", "partition": 0},
        {"sourceClusterAlias": "west", "targetClusterAlias": "east"},
        {"sourceClusterAlias": "west"},
    ):
        yield skip(stage, partition=partition, offset={"offset": 0})
    stage.desk.refuse = ProposalRefused(said="never of a checkpoint connector")
    yield refused(
        stage.propose({**SKIP, "partition": {"filename": "a"}, "offset": {"position": 1}})
    )


@row(44, "a plan is about one connector by its whole name, and never about a pattern")
def _(stage, _):
    for name in ("", "*", ".*", "ord*", "orders|files", "^orders$", "%", "orders,files", "or?ers"):
        answer = stage.propose({**SKIP, "connector": name})
        assert answer.status_code in {400, 404}
        yield refused(answer)
        answer = stage.propose({**SKIP, "connect_cluster": name})
        assert answer.status_code in {400, 404}
        yield refused(answer)
    for wrong in (None, ["orders"], {"include": [".*"]}, True):
        yield skip(stage, connector=wrong)
