"""Worlds by chance: what there is, and which faults come over it when; one world for each seed.

A world is what tests/scenarios/README.md describes, as a map; every fault has an end, if not all of
them come before the world's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, Final

import confluent_kafka as ck

from tests.scenarios.proxy import ERRORS

World = dict[str, Any]
Events = list[dict[str, Any]]

MINUTES: Final = 90
ALONE: Final = "solo"
TICK: Final = "10s"
CLEAR_S: Final = 20 * 60  # of faults, before the end
NAMES: Final = (
    "files",
    "a/b",
    "100%",
    "..",
    "tab\tand\nline",
    'quotes"and\\back',
    "a,b",
    "ünïcode-日本",
    " blank ",
    "?expand=status",
    "x" * 200,
    "__proto__",
)
PARTITIONS: Final[tuple[dict[str, Any], ...]] = (
    {"filename": "/data/in.txt"},
    {"name": "a.csv", "path": "/data/in"},
    {"objectKey": "in/part-0.gz", "bucket": "b1"},
    {"server": "shop"},
    {"table": "orders"},
    {"schema": "s", "table": "t", "database": "d"},
    {"shard": 7, "stream": "clicks"},
)
OWN_ROUTER: Final = "org.example.TenantRouter"  # what it does is in no code that is ours
_SHAPES: Final = (
    *("no_status", "no_info", "no_class", "kind", "null", "list", "state", "tasks", "id", "text"),
)
KAFKA_ERRORS: Final = sorted(
    name
    for name in dir(ck.KafkaError)
    if name.strip("_").isupper() and isinstance(getattr(ck.KafkaError, name), int)
)
HEADERS: Final = (
    "Date=Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
    "Date=Thu, 99999999999999999999 Jan 2027 00:00:00 GMT",
    "Date=Thu, 01 Jan 2027 00:00:00 +99999999999999999999",
    "Date=yesterday",
    "Date=Thu, 01 Jan 0000 00:00:00 GMT",
    "Content-Type=text/html; charset=utf-\x3719",
    "Retry-After=99999999999999999999999",
    "Set-Cookie=a=b; Max-Age=" + "9" * 400,
    "X-Long=" + "x" * 60_000,
)
TRACES: Final = (
    "org.apache.kafka.common.errors.TimeoutException in org.example.Task.poll",
    "org.apache.kafka.connect.errors.DataException in org.example.Converter.toConnectData",
    "java.lang.OutOfMemoryError in java.util.Arrays.copyOf",
)


def random_world(seed: int) -> World:
    """Return the world of a seed."""
    rng = random.Random(seed)
    alone = rng.random() < 0.35  # beside lab, a cluster of which only the REST API can be asked
    topics, connectors = _topics(rng), _connectors(rng, alone=alone)
    mirrors = [name for name, at in connectors.items() if "copies" in at]
    events: Events = []
    for _ in range(rng.randint(1, 5)):
        kind = rng.choice(_KINDS)
        at_s = rng.randrange(10 * 60, (MINUTES - 50) * 60, 10)
        lasts_s = rng.choice((10, 20, 40, 90, 300, 900, 2400))
        end_s = min(at_s + lasts_s, MINUTES * 60 - CLEAR_S)
        events += list(kind(rng, connectors, topics, mirrors, _Span(at_s, end_s)))
    events = sorted(events, key=lambda event: _seconds(event["at"]))
    return {
        "lasts": f"{MINUTES}m",
        "tick": TICK,
        "clusters": {"lab": {}, **({ALONE: {"rest_only": True}} if alone else {})},
        "topics": topics,
        "groups": {"billing": {"reads": ["orders", "rare"], "speed": f"{rng.randint(1, 60)}/s"}},
        "connectors": connectors,
        "happens": events,
    }


class _Span:
    """When a fault begins and ends, as a world writes moments."""

    def __init__(self, begins: float, ends: float) -> None:
        self.begins = begins
        self.at = f"{begins:.0f}s"
        self.until = f"{ends:.0f}s"

    def later(self, seconds: float) -> str:
        return f"{self.begins + seconds:.0f}s"


def _seconds(text: str) -> float:
    return float(text.removesuffix("s"))


def _topics(rng: random.Random) -> World:
    return {
        "west/orders": {"partitions": rng.randint(1, 4), "load": f"{rng.randint(1, 40)}/s"},
        "west/rare": {"load": "2/m"},
        "west/nothing": {"had": rng.randint(0, 500)},
        "east/shop": {"partitions": rng.randint(1, 2), "load": f"{rng.randint(1, 20)}/s"},
    }


def _connectors(rng: random.Random, *, alone: bool) -> World:
    mirror = f"{ALONE}/mirror" if alone and rng.random() < 0.4 else "mirror"
    results: World = {mirror: {"copies": ["orders", "rare", "nothing", "later"], "tasks": 2}}
    if rng.random() < 0.6:
        results[mirror]["routes"] = _routes(rng)
    if rng.random() < 0.8:
        results[f"{mirror}-checkpoint"] = {"checkpoints": "mirror", "groups": ["billing"]}
    for name in rng.sample(NAMES, rng.randint(1, 4)):
        results[name] = _source(rng)
    if alone:
        results[f"{ALONE}/lines"] = _source(rng)
    if rng.random() < 0.7:
        name = f"{ALONE}/lake" if alone and rng.random() < 0.5 else "lake"
        results[name] = {"writes": ["shop"], "commits": rng.random() < 0.8}
    return results


def _routes(rng: random.Random) -> list[World]:
    """One or two transforms that rename copies, or leave them; two topics may become one."""
    return [rng.choice(_ROUTERS)(rng) for _ in range(rng.choice((1, 1, 2)))]


def _renames(rng: random.Random) -> World:
    regex, replacement = rng.choice(
        (
            (r"west\.(.*)", "$1"),
            (r"west\.(.*)", "copy-$1"),
            (r"(.*)", "eu.$1"),
            (r"(west)\.(o.*|r.*)", "$2.$1"),
            (r"south\.(.*)", "copy-$1"),
            (r"west\.(orders|rare)", "all"),
        )
    )
    return {"regex": regex, "replacement": replacement}


def _renames_some(rng: random.Random) -> World:
    only = rng.choice((r"west\.orders", r".*rare", r"(?=west).*"))
    return {**_renames(rng), "only": only, "negated": rng.random() < 0.5}


def _draw_renames(rng: random.Random) -> World:
    regex = rng.choice((".*", r"west\.orders", r"copy-.*"))
    own = {"regex": regex, "class": OWN_ROUTER}
    return {**own, "only": r"west\.orders"} if rng.random() < 0.3 else own


_ROUTERS: Final = (_renames, _renames, _renames_some, _draw_renames)


def _source(rng: random.Random) -> World:
    partition = rng.choice(PARTITIONS)
    return {
        "reads": partition,
        "keys": rng.choice(("hash", "linked", "map_of")) if len(partition) > 1 else "hash",
        "texts": rng.random() < 0.2,
        "counts": rng.choice(("position", "incrementing", "lsn", "n")),
        "class": "org.example.Source",
        "every": rng.choice(("3s", "30s", "10m")),
        "repeats": rng.random() < 0.3,
    }


Kind = Callable[[random.Random, World, World, list[str], _Span], Iterator[dict[str, Any]]]


def _front(fault: Callable[[random.Random], str]) -> Kind:
    """Return what sets a fault of REST, of one connector or of all, and takes it back."""

    def kind(
        rng: random.Random, connectors: World, _: World, __: list[str], span: _Span
    ) -> Iterator[dict[str, Any]]:
        cluster, name = _where(rng.choice(sorted(connectors)))
        front = {"cluster": cluster, "fault": fault(rng), "of": [name]}
        yield {"at": span.at, "front": front}
        yield {"at": span.until, "front": {"cluster": cluster, "fault": ""}}

    return kind


def _where(connector: str) -> tuple[str, str]:
    cluster, _, name = connector.partition("/")
    return (cluster, name) if cluster == ALONE else ("lab", connector)


def _one_of(*faults: str) -> Kind:
    return _front(lambda rng: rng.choice(faults))


def _fails(
    rng: random.Random, connectors: World, _: World, __: list[str], span: _Span
) -> Iterator[dict[str, Any]]:
    name = rng.choice(sorted(connectors))
    yield {"at": span.at, "sicken": {"connector": [name], "failure": rng.choice(TRACES)}}
    yield {"at": span.until, "heal": [name]}
    yield {"at": span.until, "restart": [name]}


def _hangs(
    rng: random.Random, connectors: World, _: World, __: list[str], span: _Span
) -> Iterator[dict[str, Any]]:
    name = rng.choice(sorted(connectors))
    yield {"at": span.at, "hang": [name]}
    yield {"at": span.until, "heal": [name]}


def _forgets_status(
    rng: random.Random, connectors: World, _: World, __: list[str], span: _Span
) -> Iterator[dict[str, Any]]:
    name = rng.choice(sorted(connectors))
    yield {"at": span.at, "forget_status": [name]}
    if rng.random() < 0.5:
        yield {"at": span.until, "restart": [name]}


def _new_jvm(
    rng: random.Random, connectors: World, _: World, __: list[str], span: _Span
) -> Iterator[dict[str, Any]]:
    for name in sorted(name for name, at in connectors.items() if "reads" in at):
        turned = rng.random() < 0.5
        yield {"at": span.at, "start_jvm": {"connector": [name], "turned": turned}}


def _skews(
    rng: random.Random, _: World, __: World, mirrors: list[str], span: _Span
) -> Iterator[dict[str, Any]]:
    """Clocks disagree, and a person sets the mirror back meanwhile."""
    skew = {writer: f"{rng.randint(-600, 600)}s" for writer in ("commits", "syncs")}
    yield {"at": span.at, "skew": skew}
    if rng.random() < 0.7:
        yield {"at": span.later(120), "stop": mirrors}
        patch = {"connector": mirrors, "partition": "orders-0", "offset": rng.randint(0, 500)}
        yield {"at": span.later(150), "patch": patch}
        if rng.random() < 0.6:
            yield {"at": span.later(180 + rng.randrange(0, 1200, 10)), "resume": mirrors}


def _add_other_mirror(
    rng: random.Random, _: World, __: World, mirrors: list[str], span: _Span
) -> Iterator[dict[str, Any]]:
    """Another MirrorMaker writes syncs into the same topic; ours may hang."""
    yield {"at": span.at, "stranger": {"green": {"copies": ["orders"]}}}
    if rng.random() < 0.7:
        yield {"at": span.later(60), "hang": mirrors}


def _grows(
    rng: random.Random, _: World, topics: World, mirrors: list[str], span: _Span
) -> Iterator[dict[str, Any]]:
    keeps = rng.random() < 0.6
    if keeps:
        yield {"at": span.at, "keep_assignment": mirrors}
    more = topics["west/orders"]["partitions"] + rng.randint(1, 3)
    yield {"at": span.later(10), "add_partitions": {"west/orders": more}}
    if keeps:
        yield {"at": span.until, "refresh": mirrors}


def _rerouted(
    rng: random.Random, _: World, __: World, mirrors: list[str], span: _Span
) -> Iterator[dict[str, Any]]:
    """Copies go to other topics from now on, which begin at their own offsets."""
    yield {"at": span.at, "reroute": {"connector": mirrors, "routes": _routes(rng)}}
    if rng.random() < 0.4:
        yield {"at": span.until, "reroute": {"connector": mirrors, "routes": []}}


def _new_topic(
    rng: random.Random, _: World, __: World, ___: list[str], span: _Span
) -> Iterator[dict[str, Any]]:
    built = {"partitions": rng.randint(1, 3), "load": f"{rng.randint(1, 60)}/s"}
    yield {"at": span.at, "create_topic": {"west/later": built}}


def _assignment_fails(
    rng: random.Random, connectors: World, topics: World, mirrors: list[str], span: _Span
) -> Iterator[dict[str, Any]]:
    """Only `/tasks` is refused, while what is to be copied changes."""
    cluster, _ = _where(mirrors[0])
    fault = f"tasks_status:{rng.choice((401, 403, 500, 503))}"
    yield {"at": span.at, "front": {"cluster": cluster, "fault": fault}}
    later = _Span(span.begins + 60, span.begins + 60)
    yield from rng.choice((_new_topic, _grows))(rng, connectors, topics, mirrors, later)
    yield {"at": span.until, "front": {"cluster": cluster, "fault": ""}}


def _add_failing_partition(
    rng: random.Random, _: World, __: World, ___: list[str], span: _Span
) -> Iterator[dict[str, Any]]:
    topic = rng.choice(("west/orders", "west/rare", "east/shop"))
    sick = {"topic": topic, "partition": 0}
    yield {"at": span.at, "sick_partition": {**sick, "error": rng.choice(KAFKA_ERRORS)}}
    yield {"at": span.until, "sick_partition": sick}


def _kafka_raises(
    rng: random.Random, _: World, __: World, ___: list[str], span: _Span
) -> Iterator[dict[str, Any]]:
    kafka = rng.choice(("west", "east"))
    yield {"at": span.at, "kafka_raises": {"kafka": kafka, "error": rng.choice(KAFKA_ERRORS)}}
    yield {"at": span.until, "kafka_raises": {"kafka": kafka}}


def _lost(
    rng: random.Random, connectors: World, _: World, __: list[str], span: _Span
) -> Iterator[dict[str, Any]]:
    name = rng.choice(
        ("lab", "west", "east", *({_where(connector)[0] for connector in connectors} - {"lab"}))
    )
    yield {"at": span.at, "lose_sight": name}
    yield {"at": span.until, "see_again": name}


def _add_manual_work(
    rng: random.Random, connectors: World, _: World, __: list[str], span: _Span
) -> Iterator[dict[str, Any]]:
    name = rng.choice(sorted(connectors))
    begin, end = rng.choice((("stop", "resume"), ("pause", "resume")))
    yield {"at": span.at, begin: [name]}
    yield {"at": span.until, end: [name]}


def _rebalance(
    rng: random.Random, connectors: World, __: World, ___: list[str], span: _Span
) -> Iterator[dict[str, Any]]:
    cluster, _ = _where(rng.choice(sorted(connectors)))
    yield {"at": span.at, "rebalance": {"cluster": cluster, "for": f"{rng.randint(1, 6)}0s"}}


def _daemon_restarts(
    rng: random.Random, _: World, __: World, ___: list[str], span: _Span
) -> Iterator[dict[str, Any]]:
    yield {"at": span.at, "restart_daemon": {"down_for": f"{rng.randint(1, 9)}0s"}}


def _deleted(
    rng: random.Random, _: World, __: World, ___: list[str], span: _Span
) -> Iterator[dict[str, Any]]:
    """A connector is made and deleted, its offsets or not; another of its name may follow, which
    finds what it has left or spells its partition in another way.
    """
    name = f"gone-{rng.randrange(10**6)}"
    first = {**_source(rng), "every": rng.choice(("3s", "30s"))}
    yield {"at": span.later(-480), "create": {name: first}}
    if rng.random() < 0.4:
        yield {"at": span.later(-60), "stop": [name]}
        yield {"at": span.later(-30), "forget_offsets": [name]}
    yield {"at": span.at, "delete": [name]}
    if rng.random() < 0.6:
        again = _source(rng)
        if rng.random() < 0.5:
            again = {**first, "keys": "linked" if len(first["reads"]) > 1 else "hash"}
        yield {"at": span.until, "create": {name: again}}


def _foreign_commit(
    rng: random.Random, connectors: World, _: World, __: list[str], span: _Span
) -> Iterator[dict[str, Any]]:
    """Somebody writes past Connect, under the spelling that its task does not use."""
    spelled = sorted(name for name, at in connectors.items() if len(at.get("reads", ())) > 1)
    if spelled:
        name = rng.choice(spelled)
        yield {"at": span.at, "alter_by_rest": {"connector": [name], "offset": 1}}


_KINDS: Final[tuple[Kind, ...]] = (
    _one_of("empty"),
    _one_of("empty", "omits", "other_cluster:none", "other_cluster", "other_cluster:same_names"),
    _one_of("omits", "unlists"),
    _front(lambda rng: f"odd_entry:{rng.choice(_SHAPES)}"),
    _front(
        lambda rng: f"status:{rng.choice((204, 301, 400, 401, 403, 404, 409, 429, 500, 502, 503))}"
    ),
    _front(lambda rng: f"redirect:{rng.choice((301, 302, 303, 307, 308))}"),
    _front(lambda rng: f"throttle:{rng.choice(('5', '3600', 'soon', '9' * 30))}"),
    _one_of("login", "half", "cut"),
    _one_of("deep:[", "deep:{", 'deep:{"a":', "wide"),
    _front(lambda rng: f"gzip:{rng.randint(1, 3)}"),
    _front(lambda rng: f"bomb:{rng.randint(1, 4)}"),
    _one_of("not_gzip:gzip", "not_gzip:br", "not_gzip:deflate", "not_gzip:gzip, gzip"),
    _front(lambda rng: f"header:{rng.choice(HEADERS)}"),
    _front(lambda rng: f"raises:{rng.choice(sorted(ERRORS))}"),
    _front(lambda rng: f"one_raises:{rng.choice(sorted(ERRORS))}"),
    _front(lambda rng: f"offsets_status:{rng.choice((400, 403, 429, 500))}"),
    _fails,
    _fails,
    _hangs,
    _hangs,
    _forgets_status,
    _new_jvm,
    _deleted,
    _deleted,
    _skews,
    _add_other_mirror,
    _grows,
    _rerouted,
    _rerouted,
    _new_topic,
    _assignment_fails,
    _add_failing_partition,
    _kafka_raises,
    _lost,
    _add_manual_work,
    _rebalance,
    _daemon_restarts,
    _foreign_commit,
)
