"""Jobs of a worker's executor: looking offsets up, altering and removing them.

They run beside the herder thread. What was checked before they began is not checked again: a job
that is late alters the offsets of a connector that runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fakes.connect_model.answers import SURE, UNSURE, ZOMBIES, Callback, Refusal
from tests.fakes.connect_model.broker import NoSuchPartition
from tests.fakes.connect_model.offsets import LONG_MAX, LONG_MIN, Pairs, normalised
from tests.fakes.connect_model.plugins import INT_MAX
from tests.fakes.connect_model.sinks import group_of
from tests.fakes.connect_model.timeline import Steps

if TYPE_CHECKING:
    from tests.fakes.connect_model.worker import Worker

Spot = tuple[str, int]
MODIFYING_S = 90.0


def read_offsets(worker: Worker, name: str, config: dict[str, str], callback: Callback) -> Steps:
    """All offsets, as REST shows them."""
    connect = worker.connect
    yield connect.timing.executor_s
    if connect.plugin_of(config).kind == "source":
        pairs = connect.offsets.listed(connect.stores_of(config), name)
        entries = [{"partition": partition, "offset": offset} for partition, offset in pairs]
    else:
        group = connect.broker.groups.get(group_of(name, config))
        entries = [
            {
                "partition": {"kafka_partition": partition, "kafka_topic": topic},
                "offset": {"kafka_offset": offset},
            }
            for (topic, partition), offset in (group.offsets.items() if group else ())
        ]
    callback.complete({"offsets": entries})


def modify(
    worker: Worker, name: str, expected: list[tuple[Any, Any]] | None, callback: Callback, by: str
) -> Steps:
    """Alter these, or remove all where none are given. A look at the connector's class comes first:
    it may refuse.
    """
    connect = worker.connect
    config = worker.state.configs[name]
    yield connect.timing.executor_s + connect.slow_jobs.pop(name, 0.0)
    try:
        if connect.plugin_of(config).kind == "source":
            yield from _source(worker, name, config, expected, callback, by)
        else:
            callback.complete(_sink(worker, name, config, expected, by))
    except Refusal as exc:
        callback.fail(exc)


def _done(*, vouched: bool, reset: bool) -> dict[str, str]:
    return {"message": (SURE if vouched else UNSURE).format("reset" if reset else "altered")}


# --- sources -------------------------------------------------------------------------------------


def _source(
    worker: Worker,
    name: str,
    config: dict[str, str],
    expected: list[tuple[Any, Any]] | None,
    callback: Callback,
    by: str,
) -> Steps:
    connect = worker.connect
    stores = connect.stores_of(config)
    if expected is None:
        pairs: Pairs = [(entry, None) for entry, _ in connect.offsets.listed(stores, name)]
    else:
        pairs = normalised(expected)
    vouched = connect.plugin_of(config).alter(config, pairs)
    removed = [pair for pair in pairs if pair[1] is None]
    if removed and stores.secondary is not None:
        connect.write_offsets(name, stores._replace(primary=stores.secondary), removed, by)
        if connect.exactly_once:
            # The transaction is committed before the second of three writes has begun; that write
            # fails in a callback, and nobody ever hears of it.
            yield MODIFYING_S
            raise Refusal(
                500, f"Timed out while attempting to modify offsets for source connector {name}"
            )
    connect.write_offsets(name, stores, pairs, by)
    callback.complete(_done(vouched=vouched, reset=expected is None))


# --- sinks ---------------------------------------------------------------------------------------


def _sink(
    worker: Worker,
    name: str,
    config: dict[str, str],
    expected: list[tuple[Any, Any]] | None,
    by: str,
) -> dict[str, str]:
    connect = worker.connect
    group_name = group_of(name, config)
    spots = None if expected is None else parsed(expected)
    vouched = connect.plugin_of(config).alter(config, [])
    if spots is None:
        group = connect.broker.groups.get(group_name)
        if group is not None and group.members:
            raise Refusal(500, ZOMBIES.format("reset", name))
        connect.broker.groups.pop(group_name, None)
        connect.effect("group removed", name, group_name, by)
        return _done(vouched=vouched, reset=True)
    if any(offset is not None and offset < 0 for offset in spots.values()):
        raise Refusal(500, f"Failed to modify offsets for sink connector {name}")
    _alter_group(worker, name, group_name, spots, by)
    return _done(vouched=vouched, reset=False)


def _alter_group(
    worker: Worker, name: str, group_name: str, spots: dict[Spot, int | None], by: str
) -> None:
    """Both kinds of change are asked for at once, and one that fails does not undo another."""
    connect, broker = worker.connect, worker.connect.broker
    failed = False
    removed = [spot for spot, offset in spots.items() if offset is None]
    if removed and group_name not in broker.groups:
        failed = True
        removed = []
    group = broker.group(group_name) if len(removed) < len(spots) or removed else None
    if group is not None and group.members:
        raise Refusal(500, ZOMBIES.format("alter", name))
    for spot, offset in spots.items():
        try:
            broker.log(*spot)
        except NoSuchPartition:
            failed = True
            continue
        if offset is not None and group is not None:
            group.offsets[spot] = offset
            connect.effect("group altered", name, f"{spot[0]}-{spot[1]}={offset}", by)
        elif spot in removed and group is not None:
            group.offsets.pop(spot, None)
            connect.effect("group altered", name, f"{spot[0]}-{spot[1]}=none", by)
    if failed:
        raise Refusal(500, f"Failed to alter consumer group offsets for connector {name}")


def parsed(pairs: list[tuple[Any, Any]]) -> dict[Spot, int | None]:
    """Of one that is given twice the last. Raises Refusal: of sinks it is a 400."""
    results: dict[Spot, int | None] = {}
    for partition, offset in pairs:
        if partition is None:
            raise Refusal(
                400, "The partition for a sink connector offset cannot be null or missing"
            )
        if "kafka_topic" not in partition or "kafka_partition" not in partition:
            raise Refusal(
                400,
                "The partition for a sink connector offset must contain the keys 'kafka_topic' "
                "and 'kafka_partition'",
            )
        topic, number = partition["kafka_topic"], partition["kafka_partition"]
        if topic is None:
            raise Refusal(400, "Kafka topic names must be valid strings and may not be null")
        if number is None:
            raise Refusal(400, "Kafka partitions must be valid numbers and may not be null")
        item = (_format_value(topic), _integer(number, "partition", "Partition", INT_MAX))
        if offset is None:
            results[item] = None
            continue
        if "kafka_offset" not in offset:
            raise Refusal(
                400,
                "The offset for a sink connector should either be null or contain the key "
                "'kafka_offset'",
            )
        results[item] = _integer(offset["kafka_offset"], "offset", "Offset", LONG_MAX)
    return results


def _format_value(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return str(value)


def _integer(value: Any, what: str, answer: str, most: int) -> int:
    text = _format_value(value)
    digits = text.removeprefix("-").removeprefix("+")
    if digits.isascii() and digits.isdigit() and LONG_MIN <= int(text) <= most:
        return int(text)
    raise Refusal(
        400,
        f"Failed to parse the following Kafka {what} value in the provided offsets: '{text}'. "
        f"{answer} values for sink connectors need to be integers.",
    )
