"""Commits of four kinds of connector in equal parts, as the history benches need them.

No real site is as mixed. MirrorMaker's and FileStream's offsets hold one number, JDBC's three in
another order than ours, Debezium's seven fields and a time: so no way of decoding is favoured.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import confluent_kafka as ck

from offsetwatch.decode.java.hash_map import build_connect_key, compute_hash_map_order
from offsetwatch.model.offsets import Scalar

KINDS = 4
POLL_EVERY = 10_000
STEP_MAX = 50
SEED = 1


def _value(fields: dict[str, str]) -> str:
    """A template in the order in which a worker writes these fields; `n` counts commits."""
    ordered = (f'"{name}":{fields[name]}' for name in compute_hash_map_order(tuple(fields)))
    return f"{{{','.join(ordered)}}}"


_VALUES = (
    _value({"offset": "%(n)d"}),
    _value({"position": "%(n)d80"}),
    _value({"incrementing": "%(n)d", "timestamp": "1763%(n)09d", "timestamp_nanos": "%(nanos)d"}),
    _value(
        {
            "transaction_id": "null",
            "lsn_proc": "2400%(n)d",
            "messageType": '"INSERT"',
            "lsn_commit": "2400%(n)d",
            "lsn": "2400%(n)d",
            "txId": "%(n)d",
            "ts_usec": "1763%(n)09d123",
        }
    ),
)


def keys(sources: int) -> list[bytes]:
    """The key of every source partition; number `n` is of kind `n % KINDS`."""
    results = [_key(n) for n in range(sources)]
    assert None not in results
    return [key for key in results if key is not None]


def _key(n: int) -> bytes | None:
    match n % KINDS:
        case 0:
            upstream: dict[str, Scalar] = {
                "cluster": "west",
                "topic": f"topic-{n // 64}",
                "partition": n % 64,
            }
            return build_connect_key(f"mirror-{n % 40}", upstream)
        case 1:
            return build_connect_key(f"files-{n % 40}", {"filename": f"/var/log/shop/app-{n}.log"})
        case 2:
            return build_connect_key(
                f"jdbc-{n % 40}", {"protocol": "1", "table": f"shop.table_{n}"}
            )
        case _:
            return build_connect_key(f"debezium-{n}", {"server": f"server-{n}"})


def commits(count: int, sources: int) -> Iterator[tuple[bytes, str]]:
    """Keys and values, in an order and by steps that repeat with each call and not within it: what
    is regular would shrink to nothing in a file.
    """
    locations = keys(sources)
    chance = random.Random(SEED)
    n = 1_000_000
    for _ in range(count):
        source = chance.randrange(sources)
        n += chance.randrange(STEP_MAX)
        value = _VALUES[source % KINDS] % {"n": n, "nanos": n % 1000 * 1_000_000}
        yield locations[source], value


def producer(bootstrap: str, *, linger_ms: int = 50) -> ck.Producer:
    """One that places keys as Connect's own does; it waits so long for more before it sends."""
    return ck.Producer(
        {
            "bootstrap.servers": bootstrap,
            "partitioner": "murmur2_random",
            "linger.ms": linger_ms,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 2_000_000,
            "compression.type": "lz4",
        }
    )


def produce(bootstrap: str, topic: str, *, count: int, sources: int) -> None:
    """All of them, as fast as it goes."""
    to = producer(bootstrap)
    for number, (key, value) in enumerate(commits(count, sources)):
        to.produce(topic, key=key, value=value)
        if number % POLL_EVERY == 0:
            to.poll(0)
    to.flush()
