"""Answers of Connect as wide as may be are read in bounded memory, counted in bytes allocated."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable

import pytest

from offsetwatch.clients.http.client import VALUES_MAX, has_too_many_values
from offsetwatch.decode.rest_answers import (
    CONNECTORS_MAX,
    ENTRY_VALUES_MAX,
    decode_connectors,
    decode_names,
    decode_offsets,
)
from offsetwatch.model.connectors import UNKNOWN_STATE
from offsetwatch.model.offsets import Undecodable

MIB = 1024 * 1024
# A daemon without connectors takes 84 MiB, a body and its copy 64 MiB at most; all of it is to
# stay below 256 MiB.
PEAK_MAX = 100 * MIB
OFFSETS_PEAK_MAX = 15 * MIB  # 30,000 of them; of a whole answer, 250,000, eight times as much
STATUS = b'"status":{"connector":{"state":"RUNNING","worker_id":"w"},"tasks":[%s]}'


def joined(parts: Iterable[bytes]) -> bytes:
    return b",".join(parts)


def connector(
    name: int, *, config: bytes = b'"a":"b"', tasks: bytes = b"", configured: bytes = b""
) -> bytes:
    info = b'"info":{"config":{%s},"type":"source","tasks":[%s]}' % (config, configured)
    return b'"c%d":{%s,%s}' % (name, info, STATUS % tasks)


def wide_config() -> bytes:
    return connector(0, config=joined(b'"k%d":"v"' % number for number in range(900_000)))


def many_tasks() -> bytes:
    task = b'{"id":%d,"state":"RUNNING","worker_id":"w"}'
    return connector(0, tasks=joined(task % number for number in range(240_000)))


BODIES: dict[str, Callable[[], bytes]] = {
    "connectors of nothing": lambda: joined(b'"c%d":{}' % number for number in range(450_000)),
    "connectors": lambda: joined(connector(number) for number in range(10_000)),
    "one with a wide configuration": wide_config,
    "one with many tasks": many_tasks,
    "a trace of 31 MiB": lambda: connector(0, config=b'"a":"%s"' % (b"x" * 31 * MIB)),
}


def peak_of(decode: Callable[[bytes], object], body: bytes) -> int:
    assert not has_too_many_values(body)
    tracemalloc.start()
    try:
        decode(body)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("built", BODIES.values(), ids=BODIES)
def test_a_list_of_connectors_is_decoded_one_by_one(built: Callable[[], bytes]):
    assert peak_of(decode_connectors, b"{%s}" % built()) < PEAK_MAX


def test_names_and_offsets_are_too():
    names = joined(b'"c%d"' % number for number in range(VALUES_MAX - 10))
    assert peak_of(decode_names, b"[%s]" % names) < PEAK_MAX
    pair = b'{"partition":{"f":"%d"},"offset":{"p":%d}}'
    offsets = joined(pair % (number, number) for number in range(30_000))
    assert peak_of(decode_offsets, b'{"offsets":[%s]}' % offsets) < OFFSETS_PEAK_MAX


@pytest.mark.parametrize("built", [wide_config, many_tasks])
def test_one_connector_that_is_too_wide_takes_no_other_with_it(built: Callable[[], bytes]):
    connectors = decode_connectors(b"{%s,%s}" % (built(), connector(1)))
    assert not isinstance(connectors, Undecodable)
    assert [(any_connector.name, any_connector.state) for any_connector in connectors] == [
        ("c0", UNKNOWN_STATE),
        ("c1", "running"),
    ]


def test_tasks_in_thousands_are_no_bound():
    task = b'{"id":%d,"state":"RUNNING","worker_id":"w"}'
    configured = b'{"connector":"c0","task":%d}'
    count = ENTRY_VALUES_MAX // 7 - 10
    entry = connector(
        0,
        tasks=joined(task % number for number in range(count)),
        configured=joined(configured % number for number in range(count)),
    )
    connectors = decode_connectors(b"{%s}" % entry)
    assert not isinstance(connectors, Undecodable)
    assert len(connectors[0].tasks) == count


def test_more_connectors_than_any_cluster_has_are_refused():
    body = joined(b'"c%d":{}' % number for number in range(CONNECTORS_MAX + 1))
    assert decode_connectors(b"{%s}" % body) == Undecodable("too_many_connectors")
