"""A site that is not as ours: connectors with maps of their own and odd names, a proxy before
Connect, a status topic with holes, two MirrorMakers of which one is left out, copies renamed.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from lab import Lab, LabOptions
from lab.check import compare
from lab.cluster.connector_configs import MM2_HEARTBEAT, mm2_source
from lab.cluster.plugins import MAP_SOURCE
from lab.faults.recording_proxy import Fault, Recorder, Trouble
from lab.product.offsetwatch import Product
from lab.product.read_only_daemon import onlooker
from lab.product.toolbox import Toolbox
from lab.waiting import NotYet, until
from tests.real.conftest import FAST, FAST_CONNECT
from tests.real.daemon_series import becomes, eventually, samples, total

pytestmark = [pytest.mark.real, pytest.mark.full]

WAIT_S: Final = 150.0
POLLS: Final = 8  # of one second each: twice what an input may be silent before it is stale
MEMORY_KB_MAX: Final = 256 * 1024
EXCLUDED: Final = "mm2-green"
LIST: Final = r"/connectors\?.*"

# Connectors by name, each with the kind of its map and its offset.
MAPS: Final[dict[str, dict[str, str]]] = {
    "maps-hash": {"map": "hash", "fields": "name,path"},
    "maps-linked": {"map": "linked", "fields": "name,path"},
    "maps-tree": {"map": "tree", "fields": "server,database"},
    "maps-of": {"map": "of", "fields": "bucket,objectKey"},
    "maps-table": {"map": "hash", "fields": "table", "field": "incrementing", "text": "true"},
    "a/b": {"map": "linked", "fields": "prefix,bucket"},
    "100%": {"map": "tree", "fields": "schema,database"},
    "..": {"map": "hash", "fields": "filename", "text": "true"},
}
NOT_IN_PATHS: Final = ("a/b", "100%", "..")  # once made, they cannot be changed over REST
FIRST, SECOND = 37, 61
FAILING: Final = "fails"


@dataclass(frozen=True)
class ProxiedLab:
    """The lab, the daemon that watches it, and what stands between the two."""

    lab: Lab
    product: Product
    recorder: Recorder

    def findings(self, name: str) -> list[dict[str, Any]]:
        """Return the findings of this name."""
        result = self.product.get("/api/v1/findings")["findings"]
        return [item for item in result if item["name"] == name]

    def polled(self, polls: int = POLLS) -> None:
        """Wait until the list was asked for so often."""
        had = self._lists()

        def check_polls() -> None:
            if self._lists() < had + polls:
                raise NotYet(f"{self._lists() - had} polls")

        until(f"{polls} polls", check_polls, timeout_s=WAIT_S, evidence=self.product.evidence)

    def _lists(self) -> int:
        return sum(
            exchange.path.startswith("/connectors?") for exchange in self.recorder.exchanges()
        )

    def resident_kb(self) -> int:
        """Return the peak of the daemon's memory."""
        status = Path(f"/proc/{self.product.daemon_pid}/status").read_text()
        line = next(name for name in status.splitlines() if name.startswith("VmHWM"))
        return int(line.split()[1])


@pytest.fixture(scope="module")
def proxied_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedLab]:
    options = LabOptions(offset_flush_interval_ms=1000, plugins=True)
    directory = tmp_path_factory.mktemp("hostile")
    extra = f"{FAST}judge: {{interval_s: 5}}\nstate_dir: {directory / 'state'}\n"
    connect = f"connectors: {{exclude: [{EXCLUDED}]}}, {FAST_CONNECT}"
    with Lab(options) as lab:
        lab.create_topic("east", "numbers")
        lab.create_topic("west", "renamed")
        lab.create_topic("west", "blue")
        for name, settings in MAPS.items():
            lab.add(name, counting(settings, FIRST))
        with onlooker(lab, directory, extra=extra, connect_extra=connect) as (product, recorder):
            yield ProxiedLab(lab, product, recorder)


def counting(settings: dict[str, str], limit: int) -> dict[str, str]:
    """Return the configuration of a source that counts to `limit`."""
    kind = {"connector.class": MAP_SOURCE, "tasks.max": "1", "topic": "numbers"}
    return {**kind, "limit": str(limit), **settings}


def offset(cluster: ProxiedLab, name: str) -> object:
    """Return the one offset that is shown of a connector; None if there is none."""
    for entry in cluster.product.get("/api/v1/connectors")["connectors"]:
        if entry["name"] == name:
            results = [partition["offset"] for partition in entry["source_partitions"]]
            return results[0] if len(results) == 1 else results or None
    return None


def expected(settings: dict[str, str], number: int) -> dict[str, object]:
    field = settings.get("field", "position")
    return {field: str(number) if "text" in settings else number}


def numbers_in(lab: Lab) -> int:
    """Return how many records all sources have written."""
    return sum(compare.log_ends(lab, "east", [("numbers", 0)]).values())


@pytest.mark.parametrize("limit", [FIRST, SECOND], ids=["begun", "gone-on"])
def test_the_position_is_what_the_task_goes_on_from_whatever_its_map(
    proxied_lab: ProxiedLab, limit: int
) -> None:
    """As of the second limit, each has found its offset at the restart: or it would have written
    all its records again.
    """
    limits = {name: FIRST if name in NOT_IN_PATHS else limit for name in MAPS}
    if limit == SECOND:
        for name in MAPS.keys() - NOT_IN_PATHS:
            proxied_lab.lab.create(name, counting(MAPS[name], limit))
    for name, settings in MAPS.items():
        report = expected(settings, limits[name])
        eventually(
            proxied_lab.product,
            f"{name} at {report}",
            lambda name=name, message=report: offset(proxied_lab, name) == message or None,  # type: ignore[misc]
            timeout_s=WAIT_S,
        )
    assert numbers_in(proxied_lab.lab) == sum(limits.values())
    for finding in ("duplicate_keys", "unusable_offset", "remnant_offsets"):
        assert proxied_lab.findings(finding) == []


# What a connector does in its alterOffsets, and what is said of it (KIP-875).
REFUSALS: Final[dict[str, str]] = {
    "positions of a closed year stay as they are": "positions of a closed year stay as they are",
    "unsupported": "doesn't support external modification of offsets",
    "broken": "Failed to modify offsets",
}


@pytest.mark.parametrize("refuses", REFUSALS, ids=["in-words", "unsupported", "broken"])
def test_a_connector_that_refuses_new_offsets_ends_as_it_was(
    proxied_lab: ProxiedLab, tmp_path: Path, refuses: str
) -> None:
    name = f"refusing-{len(refuses)}"
    pair = ({"name": "of name", "path": "of path"}, {"position": 3})
    body = json.dumps({"offsets": [{"partition": pair[0], "offset": pair[1]}]})
    tools = Toolbox(proxied_lab.lab, directory=tmp_path)
    proxied_lab.lab.add(name, counting({"refuses": refuses}, FIRST))
    try:
        eventually(
            proxied_lab.product,
            f"{name} at {FIRST}",
            lambda: offset(proxied_lab, name) == {"position": FIRST} or None,
            timeout_s=WAIT_S,
        )
        ran = tools.change("offsets", "alter", name, "--offsets", "-", stdin=body, status=None)
        assert ran.status != 0
        assert REFUSALS[refuses] in ran.err
        assert "not done" in ran.err
        assert tools.open_plans(name) == []
        proxied_lab.lab.wait_running(name)
        (retained,) = json.loads(tools.read("offsets", "export", "--connectors", name).out)[name]
        assert retained["offset"] == {"position": FIRST}
    finally:
        proxied_lab.lab.delete(name)


def test_a_connector_that_refuses_its_first_offsets_is_not_left_behind(
    proxied_lab: ProxiedLab, tmp_path: Path
) -> None:
    name, words = "refused-at-birth", "it begins where I say"
    config = tmp_path / "connector.json"
    pair = {"partition": {"name": "of name", "path": "of path"}, "offset": {"position": 3}}
    body = {"name": name, "config": counting({"refuses": words}, FIRST), "initial_offsets": [pair]}
    config.write_text(json.dumps(body))
    tools = Toolbox(proxied_lab.lab, directory=tmp_path)
    ran = tools.change(
        "connectors", "create", name, "--allow-new", "--config-file", str(config), status=None
    )
    assert ran.status != 0
    assert words in ran.err
    assert tools.open_plans(name) == []
    listed = tools.own("connectors", "status", "--direct", "--json", status=None).json
    assert name not in {item["name"] for item in listed}
    assert len(listed) >= len(MAPS)


def test_a_name_that_no_path_can_hold_takes_nothing_from_the_others(
    proxied_lab: ProxiedLab,
) -> None:
    def check_request(name: str) -> None:
        exchanges = [
            exchange
            for exchange in proxied_lab.recorder.exchanges()
            if exchange.path == f"/connectors/{name}/offsets"
        ]
        if not any(exchange.status == 200 for exchange in exchanges[-1:]):
            raise NotYet(f"{name}: {[item.status for item in exchanges]}")

    for name in ("maps-hash", "maps-tree"):
        until(
            f"{name} compared",
            lambda name=name: check_request(name),  # type: ignore[misc]
            timeout_s=WAIT_S,
            evidence=proxied_lab.product.evidence,
        )
    # Over REST they cannot be read, which the exit status says; the others are listed.
    listing = ("offsets", "list", "--json")
    text = proxied_lab.product.cli(*listing, "--direct", timeout_s=WAIT_S, status=1)
    for name in ("maps-hash", "maps-tree", MM2_HEARTBEAT):
        assert name in text
    # The daemon has them all from the topic.
    known = json.loads(proxied_lab.product.cli(*listing, timeout_s=WAIT_S))["lab"]
    assert {"..", "100%", "a/b", "maps-hash", "maps-tree", MM2_HEARTBEAT} <= known.keys()


def login(_: str) -> Trouble:
    page = b"<!doctype html><html><form>Sign in</form></html>"
    return Trouble(Fault.ANSWER, "GET", LIST, status=200, body=page, content_type="text/html")


def answer(status: int, body: bytes, *headers: tuple[str, str], path: str = LIST) -> Trouble:
    return Trouble(Fault.ANSWER, "GET", path, status=status, body=body, headers=headers)


def stacked(times: int) -> bytes:
    body = b"[" + b" " * (64 * 1024 * 1024)
    for _ in range(times):
        body = gzip.compress(body)
    return body


WEATHER: Final[dict[str, Callable[[], Trouble]]] = {
    "empty": lambda: answer(200, b"{}"),
    "redirect": lambda: answer(302, b"", ("Location", "https://login.example.org/")),
    "permanent": lambda: answer(308, b"", ("Location", "https://connect.example.org/")),
    "login": lambda: login(""),
    "throttled": lambda: answer(429, b"", ("Retry-After", "3600")),
    "no-prefix": lambda: answer(404, b"<h1>404</h1>"),
    "gateway": lambda: answer(502, b"Bad Gateway"),
    "cut": lambda: Trouble(Fault.HALF, "GET", LIST),
    "gzip": lambda: Trouble(Fault.GZIP, "GET", LIST),
    "stacked": lambda: answer(
        200, stacked(2), ("Content-Encoding", "gzip, gzip"), path="/connectors.*"
    ),
    "deep": lambda: answer(200, b"[" * 1_000_000),
    "date": lambda: answer(
        200, b"{}", ("Date", "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"), path="/.*"
    ),
}


@pytest.fixture(scope="module")
def failed(proxied_lab: ProxiedLab) -> str:
    """When the finding of a task that has failed began."""
    settings = {"map": "hash", "fields": "name", "text": "true"}
    proxied_lab.lab.create(FAILING, counting(settings, 5) | {"topic": "no such topic"})
    eventually(
        proxied_lab.product,
        "task_failed",
        lambda: proxied_lab.findings("task_failed"),
        timeout_s=WAIT_S,
    )
    return str(proxied_lab.findings("task_failed")[0]["since"])


@pytest.mark.parametrize("weather", WEATHER)
def test_nothing_is_over_because_something_else_answers(
    proxied_lab: ProxiedLab, failed: str, weather: str
) -> None:
    proxied_lab.recorder.weather(WEATHER[weather]())
    try:
        proxied_lab.polled()
        # What is stale is not shown; it is not over either, and goes on from when it began.
        assert [result["since"] for result in proxied_lab.findings("task_failed")] in ([failed], [])
        assert offset(proxied_lab, "maps-linked") in (None, expected(MAPS["maps-linked"], SECOND))
    finally:
        proxied_lab.recorder.calm()
    proxied_lab.polled(3)
    assert proxied_lab.product.daemon_running
    assert proxied_lab.resident_kb() < MEMORY_KB_MAX
    (finding,) = proxied_lab.findings("task_failed")
    assert finding["since"] == failed
    proxied_lab.product.wait_ready(WAIT_S)


@pytest.mark.parametrize(
    ("holes", "of"),
    [(("task-maps-tree-0",), "of task 0"), (("connector-maps-tree", "task-maps-tree-0"), "of it")],
    ids=["task", "connector"],
)
def test_a_connector_without_a_status_is_shown_with_what_is_known(
    proxied_lab: ProxiedLab, holes: tuple[str, ...], of: str
) -> None:
    producer = Producer({"bootstrap.servers": proxied_lab.lab.east})
    for key in holes:
        producer.produce("connect-status", key=f"status-{key}".encode(), value=None)
    assert producer.flush(10.0) == 0
    eventually(
        proxied_lab.product,
        "connector_state_missing",
        lambda: [
            finding
            for finding in proxied_lab.findings("connector_state_missing")
            if finding["connector"] == "maps-tree" and f"no state {of}" in finding["summary"]
        ],
        timeout_s=WAIT_S,
    )
    assert offset(proxied_lab, "maps-tree") == expected(MAPS["maps-tree"], SECOND)
    # A restart of both is refused (404): Connect takes from statuses what there is to restart.
    proxied_lab.lab.pause("maps-tree")
    proxied_lab.lab.resume("maps-tree")
    eventually(
        proxied_lab.product,
        "the end of it",
        lambda: not proxied_lab.findings("connector_state_missing") or None,
        timeout_s=WAIT_S,
    )
    assert proxied_lab.findings("remnant_offsets") == []


def test_lag_is_right_where_a_router_renames_the_copies(proxied_lab: ProxiedLab) -> None:
    router = {
        "transforms": "r",
        "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.r.regex": r"w5\.(.*)",
        "transforms.r.replacement": "copy-$1",
        "source.cluster.alias": "w5",
        "target.cluster.alias": "e5",
    }
    config = mm2_source(
        upstream=proxied_lab.lab.west, downstream=proxied_lab.lab.east, topics="renamed"
    )
    proxied_lab.lab.create_topic("east", "copy-renamed")
    proxied_lab.lab.create("mm2-renames", {**config, **router})
    proxied_lab.lab.produce("west", "renamed", 40)
    here = {"connector": "mm2-renames"}
    becomes(proxied_lab.product, 40, "mm2_source_log_end_offset", **here)
    becomes(proxied_lab.product, 0, "mm2_replication_lag_records", **here)
    assert sum(compare.log_ends(proxied_lab.lab, "east", [("copy-renamed", 0)]).values()) == 40


def test_lag_is_ours_while_an_excluded_mirror_maker_copies_on(proxied_lab: ProxiedLab) -> None:
    """Both write the same syncs. Ours is stopped: what the other one copies, ours does not."""
    aliases = {"source.cluster.alias": "w6", "target.cluster.alias": "e6"}
    config = mm2_source(
        upstream=proxied_lab.lab.west, downstream=proxied_lab.lab.east, topics="blue"
    )
    proxied_lab.lab.create("mm2-blue", {**config, **aliases})
    here = {"connector": "mm2-blue"}
    proxied_lab.lab.produce("west", "blue", 30)
    becomes(proxied_lab.product, 30, "mm2_source_log_end_offset", **here)
    becomes(proxied_lab.product, 0, "mm2_replication_lag_records", **here)
    proxied_lab.lab.stop_connector("mm2-blue")
    proxied_lab.lab.create(EXCLUDED, {**config, **aliases})
    proxied_lab.lab.wait_running(EXCLUDED)
    proxied_lab.lab.produce("west", "blue", 50)
    becomes(proxied_lab.product, 80, "mm2_source_log_end_offset", **here)
    proxied_lab.polled(25)  # the other one has written its syncs, and five intervals have passed
    becomes(proxied_lab.product, 50, "mm2_replication_lag_records", **here)
    proxied_lab.polled()
    assert total(proxied_lab.product, "mm2_replication_lag_records", **here) == 50
    assert not samples(proxied_lab.product, "mm2_replication_lag_records", connector=EXCLUDED)


@pytest.mark.spark
def test_the_history_has_the_raw_key_of_each_moment(proxied_lab: ProxiedLab) -> None:
    """MirrorMaker's fields in two orders of another class. Which of them counts after the change is
    not known: they are in two Kafka partitions, and their timestamps are too close to each other.
    """
    name, product = "copies-too", proxied_lab.product
    orders = {"topic,partition,cluster": (5, 9), "partition,topic,cluster": (3, 6, 8)}
    moments = {}
    proxied_lab.lab.create_topic("east", "copies")
    for fields, limits in orders.items():
        for limit in limits:
            settings = {"map": "linked", "fields": fields, "topic": "copies"}
            proxied_lab.lab.create(name, counting(settings, limit))
            if limit != 3:  # of a new order one commit is not believed
                eventually(
                    product,
                    f"{name} at {limit}",
                    lambda limit=limit: offset(proxied_lab, name) == {"position": limit} or None,  # type: ignore[misc]
                    timeout_s=WAIT_S,
                )
            else:
                proxied_lab.polled()
        (entry,) = (
            entry
            for entry in product.get("/api/v1/connectors")["connectors"]
            if entry["name"] == name
        )
        (partition,) = entry["source_partitions"]
        moments[fields] = partition["committed_at"]
    product.run_pipeline()
    before, after = (
        ("history", "as-of", "--connector", name, "--time", str(moment))
        for moment in moments.values()
    )
    (pair,) = json.loads(product.cli(*before))[name]
    assert pair["offset"] == {"position": 9}
    assert pair["partition"] == {"cluster": "of cluster", "partition": 0, "topic": "of topic"}
    assert pair["key"] == (
        f'["{name}",{{"topic":"of topic","partition":0,"cluster":"of cluster"}}]'
    )
    assert product.cli(*after, status=1) == ""
    events = json.loads(product.cli("history", "timeline", name, "--since", "1h ago", "--json"))
    assert any("is written as" in event["said"] for event in events["events"])
