"""Bodies that nobody should send, and what a Connect cluster makes of them: the model's answers and
a real worker's are held against each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from lab.waiting import NotYet
from tests.contract import acts
from tests.contract.clusters import ContractCluster, Pair, Work

Body = Callable[[Work], Any]


class BodyResult(NamedTuple):
    """What came of one body: the code, Connect's words, and the offsets afterwards."""

    label: str
    status: int
    said: str
    offsets: str


def _with(**changes: Any) -> Body:
    """One entry like a good one but for these; `without` names what is left out."""

    def body(work: Work) -> Any:
        entry: dict[str, Any] = dict(work.pair(1))
        for name, value in changes.items():
            part, _, field = name.partition("__")
            if field:
                entry[part] = {**entry[part], field: value}
            else:
                entry[part] = value
        return {"offsets": [entry]}

    return body


def _without(part: str, field: str | None = None) -> Body:
    def body(work: Work) -> Any:
        entry: dict[str, Any] = dict(work.pair(1))
        if field is None:
            del entry[part]
        else:
            entry[part] = {name: to for name, to in entry[part].items() if name != field}
        return {"offsets": [entry]}

    return body


def _raw(text: bytes) -> Body:
    return lambda _work: text


def _twice(work: Work) -> Any:
    return {"offsets": [work.pair(2), work.pair(1)]}


ANY_KIND: Final[dict[str, Body]] = {
    "good": lambda work: {"offsets": [work.pair(1)]},
    "twice": _twice,
    "empty object": lambda _work: {},
    "empty list": lambda _work: {"offsets": []},
    "null list": lambda _work: {"offsets": None},
    "list of null": lambda _work: {"offsets": [None]},
    "entry without anything": lambda _work: {"offsets": [{}]},
    "no partition": _without("partition"),
    "no offset": _without("offset"),
    "null offset": _with(offset=None),
    "null partition and offset": lambda _work: {"offsets": [{"partition": None, "offset": None}]},
    "empty partition": _with(partition={}),
    "empty offset": _with(offset={}),
    "text for a partition": _with(partition="x"),
    "number for an offset": _with(offset=5),
    "list for an offset": _with(offset=[5]),
    "more in the entry": _with(surprise=1),
    "more in the partition": _with(partition__surprise=1),
    "more in the offset": _with(offset__surprise="x"),
    "nested partition": _with(partition__surprise={"x": 1}),
    "nested offset": _with(offset__surprise=[1]),
    "text for the list": lambda _work: {"offsets": "x"},
    "number for the body": _raw(b"7"),
    "text for the body": _raw(b'"x"'),
    "null for the body": _raw(b"null"),
    "nothing": _raw(b""),
    "half a body": _raw(b'{"offsets": ['),
    "no json": _raw(b"{nope"),
}
SOURCE: Final[dict[str, Body]] = {
    "negative": _with(offset__position=-1),
    "text": _with(offset__position="1"),
    "fraction": _with(offset__position=1.5),
    "truth": _with(offset__position=True),
    "null position": _with(offset__position=None),
    "too large": _with(offset__position=2**64),
    "largest": _with(offset__position=2**63 - 1),
    "other field": _with(partition={"file": "x"}),
    "other file": _with(partition={"filename": "/no/such"}),
}
SINK: Final[dict[str, Body]] = {
    "negative": _with(offset__kafka_offset=-1),
    "text": _with(offset__kafka_offset="2"),
    "no number": _with(offset__kafka_offset="x"),
    "fraction": _with(offset__kafka_offset=1.5),
    "whole fraction": _with(offset__kafka_offset=1.0),
    "truth": _with(offset__kafka_offset=True),
    "null offset field": _with(offset__kafka_offset=None),
    "too large": _with(offset__kafka_offset=2**64),
    "past the end": _with(offset__kafka_offset=1000),
    "partition as text": _with(partition__kafka_partition="0"),
    "partition no number": _with(partition__kafka_partition="x"),
    "partition null": _with(partition__kafka_partition=None),
    "partition not there": _with(partition__kafka_partition=9),
    "partition negative": _with(partition__kafka_partition=-1),
    "topic null": _with(partition__kafka_topic=None),
    "topic not there": _with(partition__kafka_topic="no-such"),
    "no topic": _without("partition", "kafka_topic"),
    "no partition number": _without("partition", "kafka_partition"),
    "no kafka_offset": _with(offset={"offset": 1}),
    "not there and null": lambda work: {
        "offsets": [{**work.pair(None), "partition": {"kafka_topic": "none", "kafka_partition": 0}}]
    },
}
MIRROR: Final[dict[str, Body]] = {
    "negative": _with(offset__offset=-1),
    "text": _with(offset__offset="1"),
    "fraction": _with(offset__offset=5.0),
    "truth": _with(offset__offset=True),
    "null offset field": _with(offset__offset=None),
    "no offset field": _with(offset={"position": 1}),
    "too large": _with(offset__offset=2**64),
    "past the end": _with(offset__offset=1000),
    "no cluster": _without("partition", "cluster"),
    "no topic": _without("partition", "topic"),
    "no number": _without("partition", "partition"),
    "cluster no text": _with(partition__cluster=1),
    "topic null": _with(partition__topic=None),
    "number as text": _with(partition__partition="0"),
    "number negative": _with(partition__partition=-1),
    "number too large": _with(partition__partition=2**31),
    "number null": _with(partition__partition=None),
    "other cluster": _with(partition__cluster="north"),
}
KINDS: Final = {"source": SOURCE, "sink": SINK, "mirror": MIRROR}


def send_bodies(cluster: ContractCluster, kind: str, name: str) -> list[BodyResult]:
    """Each body, sent to a stopped connector of this kind whose offsets are in order before."""
    with getattr(cluster, kind)(name) as work:
        work.grow(3)
        acts.create(cluster, work)
        last = 2 if kind == "mirror" else 3
        acts.holds(cluster, name, work.pair(last))
        acts.stop(cluster, work)
        results = []
        for label, body in {**ANY_KIND, **KINDS[kind]}.items():
            answer = acts.request(cluster, "PATCH", name, "/offsets", body(work))
            after = _read_stable_offsets(cluster, name)
            results.append(
                BodyResult(label, answer.status, answer.said, _format_offsets(work, after))
            )
            acts.request(cluster, "DELETE", name, "/offsets")
            assert acts.alter(cluster, work, work.pair(3)).status == 200
        return results


def _read_stable_offsets(cluster: ContractCluster, name: str) -> list[Pair]:
    """Offsets that two looks agree on: a worker may list a new partition a moment later."""
    polls: list[list[Pair]] = []

    def again() -> list[Pair]:
        polls.append(acts.offsets(cluster, name))
        if len(polls) < 2 or polls[-1] != polls[-2]:
            raise NotYet(str(polls[-1]))
        return polls[-1]

    return cluster.until(f"{name} settled", again)


def _format_offsets(work: Work, offsets: list[Pair]) -> str:
    """Without the path of the file, which is another on each site."""
    text = json.dumps(offsets, sort_keys=True)
    return text.replace(str(work.config.get("file")), "FILE")
