"""What verbs that read print: of a daemon that answers, and of a look at a part of it all."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lab.processes.ports import free_port
from offsetwatch.cli import cli
from offsetwatch.cli.common.document_source import CONNECT as CONNECT_KIND
from offsetwatch.cli.common.document_source import (
    ClusterName,
    ReadOptions,
    read_daemon_document,
)
from offsetwatch.config import Config, load
from offsetwatch.config.identity import describe_differences, format_cluster_hashes
from offsetwatch.daemon.state_dir import StateDir
from offsetwatch.disk import hash_file_stamp
from offsetwatch.errors import (
    ConfigError,
    NoReadableCluster,
    RemoteRefusal,
    ResponseTimeout,
    TargetUnreachable,
)
from offsetwatch.model.connectors import ConnectorKind, Task
from offsetwatch.model.observations import CONNECT_REST, LOG_ENDS, InputId
from offsetwatch.model.topology import MirrorFlow
from offsetwatch.serve.http.read_listener import LoopHeartbeat, PageFacts, ReadServer
from offsetwatch.serve.metrics.families import ConfigReloadStatus
from offsetwatch.state.connect.connect_cluster import PersistedConnectCluster
from offsetwatch.state.loss.accounting import LossAccounting
from offsetwatch.state.loss.persistence import encode_losses
from offsetwatch.state.snapshot import ConnectorView, InputView, Snapshot
from tests.changed import replace
from tests.fakes.connect import CreatedConnector, serving
from tests.unit.remedy.services import ServiceBench
from tests.unit.serve.documents.test_findings import FOUND, JUDGED, SNAPSHOT
from tests.unit.state.worlds import FILE, files

MM2 = ConnectorView("lab", "mm2", ConnectorKind.MIRROR, "M", "4", "running", (Task(0, "failed"),))
WEST = InputView(
    id=InputId(LOG_ENDS, kafka="west"),
    up=False,
    live=False,
    last_success_at=1_763_712_000.0,
    errors=(("timeout", 3),),
    last_error="Local: Timed out",
    tail=None,
)
CONNECT = replace(
    WEST, id=InputId(CONNECT_REST, connect_cluster="lab"), last_error="Connection refused"
)


def build_snapshot(**more: Any) -> Snapshot:
    """As a daemon has it now."""
    return replace(SNAPSHOT, at=time.time(), connectors=(MM2,), inputs=(WEST,), **more)


@pytest.fixture
def clusters() -> list[str]:
    """What the daemon says of its configuration; nothing while this is empty."""
    return []


@pytest.fixture
def stamps() -> list[str]:
    """The stamp of the file that the daemon has read; it sends none while this is empty."""
    return []


@pytest.fixture
def daemon(clusters: list[str], stamps: list[str]) -> Iterator[tuple[int, list[Snapshot]]]:
    """A daemon's listener: its port, and in a list of one what it shows."""
    rows = [build_snapshot()]
    server = ReadServer(
        "127.0.0.1:0",
        snapshot=lambda: rows[0],
        heartbeat=LoopHeartbeat(lambda: True),
        reload=Future,
        reloaded=lambda: ConfigReloadStatus(successful=True, at=0.0),
        page_facts=PageFacts(
            clusters=lambda: " ".join(clusters), file_stamp=lambda: "".join(stamps)
        ),
    )
    server.start()
    yield server.port, rows
    server.stop()


def config(folder: Path, port: int, *, near: str = "http://127.0.0.1:1", west: int = 1) -> Path:
    """Two clusters: a Connect that is all there is of one, and a Kafka with a Connect on it."""
    path = folder / "offsetwatch.yaml"
    path.write_text(
        f'kafka: {{west: {{bootstrap: "127.0.0.1:{west}"}}}}\n'
        f"connect:\n"
        f'  - {{name: lab, url: "{near}"}}\n'
        f'  - {{name: far, kafka: west, url: "http://127.0.0.1:{west}"}}\n'
        f'listen: "127.0.0.1:{port}"\n'
    )
    return path


def typed(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, that has to end by itself long before it would give up."""
    return subprocess.run(
        [sys.executable, "-m", "offsetwatch", *arguments, "--timeout", "300"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def frozen() -> Iterator[int]:
    """A port that takes connections and never answers, as a process that was stopped."""
    with closing(socket.create_server(("127.0.0.1", free_port()), backlog=64)) as stopped:
        yield stopped.getsockname()[1]


# --- the daemon answers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "printed"),
    [
        (("status",), "mm2_silent_stall"),
        (("explain", "mm2"), "mm2_silent_stall"),
        (("connectors", "status"), "0:failed"),
    ],
)
def test_the_daemon_is_queried_first_and_named(tmp_path, daemon, verb, printed):
    done = typed(*verb, "-c", str(config(tmp_path, daemon[0])))
    assert printed in done.stdout
    by = rf"the daemon on 127\.0\.0\.1:{daemon[0]}, \d+ s old"
    assert re.search(by, " ".join(done.stdout.split()))
    assert done.exit_code == 1


# What takes longest to load, and only an own inspection needs.
SLOW_IMPORTS = frozenset(
    {
        *("apscheduler", "asyncio", "confluent_kafka", "httpx", "pygments", "structlog"),
        *("offsetwatch.clients.connect", "offsetwatch.clients.kafka", "offsetwatch.daemon"),
        *("offsetwatch.ingest", "offsetwatch.judge", "offsetwatch.state"),
        *("offsetwatch.remedy.journal", "offsetwatch.toolbox.store"),
        *("offsetwatch.config", "pydantic"),
    }
)
IMPORT_SCRIPT = """
import contextlib, io, json, sys
from offsetwatch.cli import main

def run(words):
    sys.argv = ["offsetwatch", *words]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main()
    return sorted(sys.modules)

print(json.dumps([run(words) for words in json.loads(sys.argv[1])]))
"""


def test_beside_a_daemon_verbs_import_no_client_and_no_schema(tmp_path, daemon, stamps):
    port, rows = daemon
    rows[0] = replace(build_snapshot(), ready=True, waiting_for=(), inputs=())
    where = ("-c", str(config(tmp_path, port)))
    stamps.append(hash_file_stamp(tmp_path / "offsetwatch.yaml"))
    verbs = (
        *(("status",), ("connectors", "status"), ("explain", "mm2", "--connect", "lab")),
        ("offsets", "list", "--connect", "lab"),
    )
    done = subprocess.run(
        [
            *(sys.executable, "-c", IMPORT_SCRIPT),
            json.dumps([["--version"], *((*verb, *where) for verb in verbs)]),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "GET /" not in done.stderr
    for verb, modules in zip((("--version",), *verbs), json.loads(done.stdout), strict=True):
        assert (verb, SLOW_IMPORTS & {*modules}) == (verb, frozenset())


# What only a preview of remediation needs, which is not made of a daemon's answer.
PREVIEW_IMPORTS = SLOW_IMPORTS - {"offsetwatch.remedy.journal"} | {
    *("offsetwatch.cli.offsets.execute", "offsetwatch.remedy.classify"),
    *("offsetwatch.remedy.guards", "offsetwatch.state.snapshot", "offsetwatch.toolbox.validation"),
}


def test_explain_reads_the_journal_without_what_evaluates_and_changes(tmp_path, daemon, stamps):
    port, rows = daemon
    rows[0] = replace(build_snapshot(), ready=True, waiting_for=(), inputs=())
    ServiceBench(tmp_path / "state")
    words = ["explain", "mm2", "-c", str(config(tmp_path, port))]
    stamps.append(hash_file_stamp(tmp_path / "offsetwatch.yaml"))
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_SCRIPT, json.dumps([words])],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    (modules,) = json.loads(done.stdout)
    assert "offsetwatch.remedy.journal.index" in modules
    assert PREVIEW_IMPORTS & {*modules} == frozenset()


# What draws, and what loads while the clusters have not yet answered the probe.
LATE_IMPORTS = (
    "rich",
    "pygments",
    "apscheduler",
    *(
        f"offsetwatch.{name}"
        for name in (
            "daemon.monitor",
            "ingest",
            "judge",
            "state",
        )
    ),
)


def test_the_probe_is_sent_before_what_reads_the_clusters_is_loaded():
    code = (
        "import sys, offsetwatch.cli.inspect.status, offsetwatch.cli.common.own_inspection\n"
        "print(*sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = done.stdout.split()
    assert "offsetwatch.clients.kafka.inspector" in loaded
    assert [name for name in LATE_IMPORTS if name in loaded] == []


def test_a_file_that_changed_since_the_daemon_read_it_is_checked(tmp_path, daemon, stamps):
    path = config(tmp_path, daemon[0])
    stamps.append(hash_file_stamp(path))
    done = typed("status", "-c", str(path))
    assert "the daemon on 127.0.0.1" in done.stdout
    assert "not read: Kafka cluster west (127.0.0.1:1): Local: Timed out" in done.stderr
    path.write_text(f"{path.read_text()}lissten: 1\n")
    done = typed("status", "-c", str(path))
    assert isinstance(done.exception, ConfigError)
    assert 'lissten: unknown key, did you mean "listen"?' in str(done.exception)


def test_an_unknown_connect_cluster_is_refused_beside_a_daemon(tmp_path, daemon, stamps):
    path = config(tmp_path, daemon[0])
    stamps.append(hash_file_stamp(path))
    for verb in (("explain", "mm2"), ("offsets", "list")):
        done = typed(*verb, "-c", str(path), "--connect", "lba")
        assert isinstance(done.exception, ConfigError)
        assert "no Connect cluster lba (did you mean lab?)" in str(done.exception)


def test_a_daemon_that_does_not_answer_is_asked_once(tmp_path):
    with closing(socket.create_server(("127.0.0.1", free_port()), backlog=8)) as silent:
        path = config(tmp_path, silent.getsockname()[1])
        assert read_daemon_document(ReadOptions(path, timeout_s=0.2), "/api/v1/status") is None
        silent.settimeout(0.0)
        with silent.accept()[0], pytest.raises(BlockingIOError):
            silent.accept()


def test_a_daemon_of_another_configuration_is_named_and_not_queried(tmp_path, daemon, clusters):
    path = config(tmp_path, daemon[0])
    clusters.append(format_cluster_hashes(load(path)))
    done = typed("status", "-c", str(path))
    assert "the daemon on 127.0.0.1" in done.stdout
    assert "another configuration" not in done.stderr
    config(tmp_path, daemon[0], west=2)  # the same names
    done = typed("status", "-c", str(path), "--timeout", "1")
    assert (
        f"the daemon on 127.0.0.1:{daemon[0]} has another configuration than {path} "
        "(connect far is at another address; kafka west is at another address): reading without it"
    ) in done.stderr
    assert "the daemon on" not in done.stdout


def test_what_two_configurations_are_about_is_compared_by_name_and_address(tmp_path):
    one = format_cluster_hashes(load(config(tmp_path, 1)))
    assert describe_differences(one, one) == ()
    assert describe_differences(one, one.replace("connect/far=", "connect/f%20r=")) == (
        "connect f r is in its configuration alone",
        "connect far is not in its configuration",
    )
    assert "127.0.0.1" not in one


def test_what_the_daemon_cannot_read_is_named_with_address_cause_and_time(tmp_path, daemon):
    done = typed("status", "-c", str(config(tmp_path, daemon[0])))
    assert (
        "not read: Kafka cluster west (127.0.0.1:1): Local: Timed out; "
        "last read 2025-11-21 08:00:00Z; missing: log ends"
    ) in done.stderr
    document = json.loads(
        typed("status", "--json", "-c", str(tmp_path / "offsetwatch.yaml")).stdout
    )
    assert document["unread"][0]["cluster"] == "west"
    assert document["connectors"]["connectors"][0]["name"] == "mm2"


def test_a_daemon_that_is_not_ready_reports_what_it_has(tmp_path, daemon):
    daemon[1][0] = build_snapshot(
        ready=False, waiting_for=("log_ends west: waiting for a first attempt",)
    )
    done = typed("status", "-c", str(config(tmp_path, daemon[0])))
    assert "mm2_silent_stall" in done.stdout
    assert done.exit_code == 1


def test_a_daemon_elsewhere_needs_no_configuration(daemon, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    url = f"http://127.0.0.1:{daemon[0]}"
    assert "mm2_silent_stall" in typed("status", "--url", url).stdout
    done = CliRunner().invoke(cli, ["explain", "mm2"], env={"OFFSETWATCH_URL": url})
    assert "mm2_silent_stall" in done.stdout
    gone = typed("status", "--url", f"http://127.0.0.1:{free_port()}")
    assert isinstance(gone.exception, TargetUnreachable)


def test_an_unknown_connector_is_refused_with_the_nearest_name(tmp_path, daemon):
    done = typed("explain", "mm3", "-c", str(config(tmp_path, daemon[0])))
    assert isinstance(done.exception, ConfigError)
    assert 'did you mean "mm2"?' in str(done.exception)


def test_offsets_are_those_that_the_daemon_read_though_connect_is_down(tmp_path, daemon):
    world = files()
    world.commit("files", FILE, {"position": 9})
    snapshot = world.snapshot()
    inputs = (*(view for view in snapshot.inputs if view.id != CONNECT.id), CONNECT)
    daemon[1][0] = replace(
        snapshot, at=time.time(), ready=False, inputs=inputs, judgements=(replace(JUDGED),)
    )
    where = str(config(tmp_path, daemon[0]))
    done = typed("offsets", "list", "-c", where, "--connect", "lab", "--timeout", "5")
    (position,) = {partition.offset.text for partition in snapshot.source_partitions}
    assert position in done.stdout
    assert "not read: Connect cluster lab" in done.stderr
    assert done.exit_code == 1


@pytest.mark.parametrize(
    "output",
    [
        pytest.param({"ready": False, "judgements": ()}, id="it knows nothing"),
        pytest.param({"judgements": (replace(JUDGED, connect_cluster="other"),)}, id="of others"),
    ],
)
def test_a_daemon_that_cannot_report_is_not_believed(tmp_path, daemon, output):
    daemon[1][0] = build_snapshot(**output)
    with serving(
        connectors={"files": CreatedConnector({"connector.class": "org.example.Source"})}
    ) as near:
        where = str(config(tmp_path, daemon[0], near=near.url))
        done = typed("connectors", "status", "-c", where, "--timeout", "5")
    assert "by Connect itself, just now" in done.stdout
    assert "files" in done.stdout
    assert "mm2" not in done.stdout


def test_a_daemon_that_stands_still_is_not_believed(tmp_path, daemon):
    daemon[1][0] = replace(build_snapshot(), at=time.time() - 3600.0)
    done = typed("connectors", "status", "-c", str(config(tmp_path, daemon[0])), "--timeout", "5")
    assert isinstance(done.exception, NoReadableCluster)
    assert f"doctor --config {tmp_path}" in str(done.exception.advice)


# --- no daemon: one cluster of two is frozen ------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "printed"),
    [
        (("status",), "task_failed|task lab/files-0 has failed"),
        (("explain", "files"), "task_failed|task 0 has failed"),
        (("connectors", "status"), "0:failed"),
        (("offsets", "list"), r'\{"position":7\}'),
    ],
)
def test_one_cluster_of_two_is_frozen_and_the_other_is_reported(tmp_path, frozen, verb, printed):
    built = CreatedConnector({"connector.class": "org.example.Source"}, failing=True)
    with serving(connectors={"files": built}) as near:
        near.offsets = {"files": {'{"file":"a"}': {"position": 7}}}
        where = str(config(tmp_path, free_port(), near=near.url, west=frozen))
        done = process(*verb, "-c", where)
    assert re.search(printed, f"{done.stdout}{done.stderr}")
    if verb[0] == "explain":
        assert "not read" not in done.stderr
    else:
        assert f"(http://127.0.0.1:{frozen})" in done.stderr
    assert done.returncode == 1


def test_where_nothing_answers_every_cluster_is_named_and_the_code_is_7(tmp_path, frozen):
    where = config(tmp_path, free_port(), near=f"http://127.0.0.1:{frozen}", west=frozen)
    done = process("status", "-c", str(where))
    assert done.returncode == 7, done.stdout
    for cluster in ("Kafka cluster west", "Connect cluster lab", "Connect cluster far"):
        assert cluster in done.stderr


@pytest.mark.parametrize("verb", [("status",), ("offsets", "list"), ("doctor",)])
def test_a_port_on_which_nothing_listens_is_distinguished_from_a_cluster_that_is_frozen(
    tmp_path, verb
):
    where = str(config(tmp_path, free_port(), west=(port := free_port())))
    done = subprocess.run(
        [sys.executable, "-m", "offsetwatch", *verb, "-c", where, "--timeout", "9"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 7
    text = " ".join((done.stdout + done.stderr).split())
    assert f"nothing listens at 127.0.0.1:{port}: connection refused" in text
    assert "frozen" not in text


def test_a_connector_that_may_be_in_what_was_not_read_is_not_said_to_be_none(tmp_path, frozen):
    with serving(
        connectors={"files": CreatedConnector({"connector.class": "org.example.Source"})}
    ) as near:
        where = str(config(tmp_path, free_port(), near=near.url, west=frozen))
        done = process("explain", "orders", "-c", where)
    assert done.returncode == 7
    assert "connector orders: it is not in what could be read" in done.stderr
    assert "Connect cluster far" in done.stderr


def test_doctor_keeps_its_time(tmp_path, frozen):
    where = config(tmp_path, free_port(), near=f"http://127.0.0.1:{frozen}", west=frozen)
    done = subprocess.run(
        [sys.executable, "-m", "offsetwatch", "doctor", "-c", str(where), "--timeout", "4"],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert done.returncode == 7
    assert "kafka west" in done.stdout


def test_a_frozen_cluster_stops_a_plan_at_once_and_is_named(tmp_path, frozen):
    from offsetwatch.cli.common.own_inspection import read_complete_snapshot
    from offsetwatch.config import load

    loaded = load(config(tmp_path, free_port(), west=frozen), {})
    with (
        pytest.raises(ResponseTimeout, match="Kafka cluster west"),
        read_complete_snapshot(loaded, 60.0),
    ):
        pass


STOP = ("plan", "create", "stop", "--because", "poison", "--connector", "files")


@pytest.mark.parametrize("cluster", ["lab", "far"])
def test_a_plan_needs_an_answer_of_the_clusters_of_its_connector_alone(tmp_path, frozen, cluster):
    ServiceBench(tmp_path / "state")
    with serving(
        connectors={"files": CreatedConnector({"connector.class": "org.example.Source"})}
    ) as near:
        near.offsets = {"files": {'{"file":"a"}': {"position": 7}}}
        where = config(tmp_path, free_port(), near=near.url, west=frozen)
        where.write_text(f"{where.read_text()}state_dir: {tmp_path / 'state'}\n")
        done = process(*STOP, "--connect", cluster, "-c", str(where))
    assert "not read: Kafka cluster west" in done.stderr
    if cluster == "lab":
        assert done.returncode == 0, done.stderr
        assert "PUT /connectors/files/stop" in done.stdout
    else:
        assert done.returncode == 7, done.stdout


def with_recalled(folder: Path, far: PersistedConnectCluster) -> Path:
    """Return a configuration with the state of a daemon that knew this of Connect cluster far."""
    state = StateDir(folder / "state")
    assert state.save("replication", encode_losses(LossAccounting(), {"far": far}))
    state.close()
    where = config(folder, free_port())
    where.write_text(f"{where.read_text()}state_dir: state\n")
    return where


def test_without_connect_the_last_states_are_read_from_its_topics(tmp_path, monkeypatch):
    from offsetwatch.cli.common import own_inspection

    known = PersistedConnectCluster(kafka=("127.0.0.1:1",), offsets_topic="far-offsets")
    row = replace(MM2, connect_cluster="far", name="files", tasks=(Task(0, "paused"),))
    inspected: list[str] = []

    def inspect(loaded: Config, _timeout_s: float) -> Any:
        inspected.extend(connect.name for connect in loaded.connect)
        snapshot = replace(build_snapshot(), connectors=(row,))
        return nullcontext(own_inspection.OwnInspection(snapshot, ()))

    monkeypatch.setattr(own_inspection, "inspect_clusters", inspect)
    done = typed("connectors", "status", "-c", str(with_recalled(tmp_path, known)))
    assert inspected == ["far"]
    assert "by the status topic of far, which has the last states" in done.stdout
    assert "0:paused" in done.stdout
    assert "topic far-offsets is read" in done.stderr
    assert "not read: Connect cluster lab" in done.stderr
    assert done.exit_code == 1


@pytest.mark.parametrize(
    ("addresses", "topic", "origin"),
    [
        (
            ("127.0.0.1:1",),
            "far-offsets",
            "topic far-offsets is read, which a daemon found 2025-11-21",
        ),
        (("127.0.0.1:2",), None, "set its offsets_topic under connect"),
    ],
)
def test_without_connect_the_topic_that_a_daemon_found_is_read(tmp_path, addresses, topic, origin):
    from offsetwatch.cli.common import own_inspection

    known = PersistedConnectCluster(
        kafka=addresses, offsets_topic="far-offsets", offsets_topic_found_at=1_763_712_000.0
    )
    where = with_recalled(tmp_path, known)
    loaded = load(where, {})
    probe = own_inspection.ReachabilityProbe(loaded)
    far = ClusterName(CONNECT_KIND, "far")
    probe.wait([far], time.monotonic() + 60.0)
    reduced, without = own_inspection._drop_silent_rest(loaded, probe, time.monotonic() + 60.0)
    assert reduced.connect[1].offsets_topic == topic
    assert bool(reduced.connect[1].worker_urls) is (topic is None)
    assert (far in without) is (topic is not None)
    silent = own_inspection._name_topics(probe.silent(), loaded)
    assert origin in silent[far]
    listed = typed("offsets", "list", "-c", str(where), "--timeout", "5s")
    assert origin in str(listed.exception)


def waiting_for_west(*flows: MirrorFlow) -> Snapshot:
    """A look that waits for the log ends of west alone."""
    waiting = f"{LOG_ENDS} west: waiting for the log ends"
    return replace(
        SNAPSHOT,
        ready=False,
        waiting_for=(waiting,),
        topology=replace(SNAPSHOT.topology, flows=flows, sinks=()),
    )


@pytest.mark.parametrize(("connector", "complete"), [("mm2", False), ("files", True)])
def test_a_plan_rests_on_the_clusters_that_its_flows_read_and_write(tmp_path, connector, complete):
    from offsetwatch.cli.common import own_inspection
    from offsetwatch.cli.common.document_source import KAFKA, ClusterName
    from offsetwatch.config import load

    loaded = load(config(tmp_path, free_port()), {})
    flow = MirrorFlow("lab", "mm2", "west", "east", upstream="west", offset_syncs=None)
    snapshot = waiting_for_west(flow)
    silent = {ClusterName(KAFKA, "west"): "no answer"}
    assert own_inspection._is_complete(snapshot, silent, loaded, ("lab", connector)) is complete
    assert not own_inspection._is_complete(snapshot, {}, loaded, ("lab", connector))
    assert not own_inspection._is_complete(snapshot, silent, loaded, None)


def test_groups_of_a_flow_wait_for_its_upstream_too(tmp_path):
    from offsetwatch.cli.common.document_source import KAFKA, ClusterName, collect_unread_clusters
    from offsetwatch.cli.common.own_inspection import QUIET_S, READING_S, _is_wait_over

    loaded = load(config(tmp_path, free_port()), {})
    waiting = ("groups lab/west->east: waiting for a first attempt",)
    snapshot = replace(SNAPSHOT, ready=False, waiting_for=waiting)
    silent = {ClusterName(KAFKA, "west"): "no answer"}
    assert _is_wait_over(snapshot, silent, loaded, 1.0)
    (missing,) = collect_unread_clusters((), waiting, config=loaded, silent=silent)
    assert missing.cluster == "west"
    assert missing.text.endswith("missing: groups of west->east")
    assert not _is_wait_over(snapshot, {}, loaded, 1.0)
    syncs = "tail west/mm2-offset-syncs.east.internal: waiting for the end of the topic"
    healthy = replace(snapshot, waiting_for=(*snapshot.waiting_for, syncs))
    connect = {ClusterName(CONNECT_KIND, "lab"): "no answer"}
    assert not _is_wait_over(healthy, connect, loaded, QUIET_S)
    assert _is_wait_over(healthy, connect, loaded, READING_S)
    failing = replace(snapshot, waiting_for=(*snapshot.waiting_for, f"{syncs} (denied)"))
    assert _is_wait_over(failing, connect, loaded, QUIET_S)
    sinks = replace(snapshot, waiting_for=("groups lab: waiting for a first attempt",))
    assert not _is_wait_over(sinks, silent, loaded, 1.0)


def test_an_inspection_that_ends_before_its_first_tick_names_no_input(tmp_path):
    from offsetwatch.cli.common.document_source import KAFKA, ClusterName, collect_unread_clusters
    from offsetwatch.state.snapshot import EMPTY_SNAPSHOT

    loaded = load(config(tmp_path, free_port()), {})
    silent = {ClusterName(KAFKA, "west"): "no answer"}
    waiting = EMPTY_SNAPSHOT.waiting_for
    (missing,) = collect_unread_clusters((), waiting, config=loaded, silent=silent)
    assert (missing.cluster, missing.inputs) == ("west", ())


@pytest.mark.parametrize(
    ("error", "others"),
    [
        ("{west} takes connections and does not answer", ()),
        ("no answer", ((LOG_ENDS, "west"),)),
    ],
)
def test_a_healthy_cluster_is_not_blamed_for_groups_of_a_flow(tmp_path, error, others):
    from offsetwatch.cli.common.document_source import collect_unread_clusters
    from offsetwatch.config import load
    from offsetwatch.model.observations import GROUPS
    from offsetwatch.serve.documents.types import UnreadInput

    loaded = load(config(tmp_path, free_port()), {})
    said = error.format(west=loaded.kafka["west"].bootstrap)
    groups = UnreadInput(GROUPS, "lab/west->east", None, said)
    ends = tuple(UnreadInput(kind, name, None, "timed out") for kind, name in others)
    (missing,) = collect_unread_clusters((groups, *ends), (), config=loaded)
    assert missing.cluster == "west"


def test_findings_that_are_only_worth_knowing_are_no_failure(tmp_path, daemon):
    from offsetwatch.model.findings import Severity

    info = (replace(FOUND, severity=Severity.INFO),)
    running = replace(MM2, tasks=(Task(0, "running"),))
    daemon[1][0] = replace(build_snapshot(), findings=info, inputs=(), connectors=(running,))
    assert typed("status", "-c", str(config(tmp_path, daemon[0]))).exit_code == 0


def test_findings_of_a_newer_daemon_are_shown_by_the_names_that_they_have(tmp_path, daemon):
    newer = (replace(FOUND, name="unheard_of"), FOUND)
    daemon[1][0] = replace(build_snapshot(), findings=newer, inputs=())
    result = typed("status", "-c", str(config(tmp_path, daemon[0])))
    assert result.exit_code == 1
    assert "unheard_of" in result.output
    assert FOUND.name.value in result.output


def test_a_source_that_cannot_be_read_is_no_cluster() -> None:
    from offsetwatch.cli.common.document_source import collect_unread_clusters
    from offsetwatch.model.observations import SOURCE_END
    from offsetwatch.serve.documents.types import UnreadInput

    end = UnreadInput(SOURCE_END, "shop", None, "connection refused")
    (missing,) = collect_unread_clusters((end,), (), config=None)
    assert missing.text == ("not read: source shop: connection refused; missing: its end")


@pytest.mark.parametrize("verb", [("pause", "--indefinitely", "--because", "x"), ("plan", "list")])
def test_a_verb_that_changes_remediation_refuses_a_read_listener_and_says_which_to_name(
    daemon, verb
):
    done = typed(*verb, "--url", f"http://127.0.0.1:{daemon[0]}")
    assert isinstance(done.exception, RemoteRefusal)
    assert "a read listener" in str(done.exception)
    assert "control.listen" in (done.exception.advice or "")
