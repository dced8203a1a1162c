"""Some of the worlds that `make proofs` tries (python -m tests.worlds), and planted faults."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from offsetwatch.notify import delivery_state
from offsetwatch.state.connect import connect_cluster
from offsetwatch.state.mirror import mm2_names
from offsetwatch.state.snapshot import Snapshot
from tests.changed import replace
from tests.scenarios.daemon import Daemon
from tests.scenarios.script import BEGINNING
from tests.worlds.campaign import faults_of, smallest
from tests.worlds.generator import OWN_ROUTER, random_world

SEED = 36
WORLDS, MINUTES = 70, 2  # whichever is over first
WORLDS_MIN = 5
ROOT = Path(__file__).parents[2]
SMALL: dict[str, Any] = {
    "lasts": "20m",
    "tick": "10s",
    "topics": {"west/orders": {"load": "20/s"}},
    "connectors": {
        "mirror": {"copies": ["orders"]},
        "files": {"reads": {"filename": "/data/in.txt"}, "every": "3s"},
    },
    "happens": [],
}
RENAMED = [{"regex": r"west\.(.*)", "replacement": "copy-$1"}]
ROUTED: dict[str, Any] = {
    **SMALL,
    "groups": {"billing": {"reads": "orders", "speed": "12/s"}},
    "connectors": {
        "mirror": {"copies": ["orders"], "routes": RENAMED},
        "mirror-checkpoint": {"checkpoints": "mirror", "groups": ["billing"]},
    },
}
FAILS = {
    "sicken": {
        "connector": ["files"],
        "failure": "org.apache.kafka.common.errors.TimeoutException in org.example.Task.poll",
    }
}


@pytest.mark.slow
def test_in_worlds_that_others_built_nothing_ends_nothing_is_over_and_nothing_is_wrong():
    """In a process of its own, whose memory is of nothing else."""
    command = (
        sys.executable,
        "-m",
        "tests.worlds",
        f"--seed={SEED}",
        f"--worlds={WORLDS}",
        f"--minutes={MINUTES}",
        "--jobs=1",
    )
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counted = re.search(r"^(\d+) worlds", done.stdout, re.MULTILINE)
    assert counted is not None
    assert int(counted[1]) >= WORLDS_MIN


def test_a_world_is_found_again_by_its_seed_and_by_what_is_printed():
    for seed in range(200):
        world = random_world(seed)
        assert random_world(seed) == world
        assert yaml.safe_load(yaml.safe_dump(world, sort_keys=False, allow_unicode=True)) == world
    assert len({str(random_world(seed)) for seed in range(200)}) == 200


def test_nothing_is_wrong_in_a_small_world():
    assert faults_of(SMALL) == {}


def test_an_exception_that_ends_the_loop_is_an_exit(monkeypatch):
    def enlist(*_: object) -> None:
        raise KeyError("connector")

    monkeypatch.setattr(connect_cluster.ConnectClusterState, "enlist", enlist)
    (kind,) = faults_of(SMALL)
    assert kind.startswith("exit: KeyError")


def change_snapshot(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Snapshot], Snapshot]
) -> None:
    """Have the daemon show something else than it knows."""
    real = Daemon.step
    monkeypatch.setattr(Daemon, "step", lambda daemon: change(real(daemon)))


def test_a_lag_that_is_less_than_what_waits_is_found(monkeypatch):
    def halved(snapshot: Snapshot) -> Snapshot:
        views = snapshot.mirror_partitions
        return replace(
            snapshot,
            mirror_partitions=tuple(
                view if view.lag is None else replace(view, lag=view.lag // 2) for view in views
            ),
        )

    change_snapshot(monkeypatch, halved)
    assert "lag" in faults_of({**SMALL, "happens": [{"at": "5m", "hang": ["mirror"]}]})


def test_topics_that_copies_do_not_go_to_are_found(monkeypatch):
    monkeypatch.setattr(mm2_names, "route_topic", lambda _, name: name)
    assert "copy" in faults_of(ROUTED)
    own = {**RENAMED[0], "class": OWN_ROUTER}
    mirror = {**ROUTED["connectors"]["mirror"], "routes": [own]}
    assert "copy" in faults_of({**ROUTED, "connectors": {**ROUTED["connectors"], "mirror": mirror}})


def test_a_place_before_the_record_that_a_group_reads_next_is_found(monkeypatch):
    def halved(snapshot: Snapshot) -> Snapshot:
        groups = tuple(
            view if view.best is None else replace(view, best=view.best // 2)
            for view in snapshot.groups
        )
        return replace(snapshot, groups=groups)

    change_snapshot(monkeypatch, halved)
    assert "start_offset" in faults_of(ROUTED)


def test_syncs_of_the_topic_before_say_nothing_of_the_one_that_copies_go_to_now():
    """A group that lags by minutes stands at a record that was copied to the topic before alone."""
    rerouted = [
        {"at": name, "reroute": {"connector": "mirror", "routes": routes}}
        for name, routes in (("12m", []), ("15m", RENAMED))
    ]
    assert faults_of({**ROUTED, "lasts": "25m", "happens": rerouted}) == {}


def test_a_position_of_before_is_found(monkeypatch):
    first: dict[str, Any] = {}

    def frozen(snapshot: Snapshot) -> Snapshot:
        views = tuple(
            partition
            if partition.offset is None
            else replace(partition, offset=first.setdefault(partition.label, partition.offset))
            for partition in snapshot.source_partitions
        )
        return replace(snapshot, source_partitions=views)

    change_snapshot(monkeypatch, frozen)
    assert "position" in faults_of(SMALL)


def test_a_state_that_was_never_so_is_found(monkeypatch):
    def paused(snapshot: Snapshot) -> Snapshot:
        views = tuple(replace(connector, state="paused") for connector in snapshot.connectors)
        return replace(snapshot, connectors=views)

    change_snapshot(monkeypatch, paused)
    assert "state" in faults_of(SMALL)


def test_an_end_of_what_still_is_so_is_found(monkeypatch):
    def forgotten(snapshot: Snapshot) -> Snapshot:
        late = snapshot.at - BEGINNING > 12 * 60
        return replace(snapshot, findings=() if late else snapshot.findings)

    change_snapshot(monkeypatch, forgotten)
    assert "false end of task_failed" in faults_of({**SMALL, "happens": [{"at": "5m", **FAILS}]})


def test_an_end_by_a_deletion_that_never_was_is_found(monkeypatch):
    def deleted(snapshot: Snapshot) -> Snapshot:
        if snapshot.at - BEGINNING <= 12 * 60:
            return snapshot
        connectors = tuple(
            connector for connector in snapshot.connectors if connector.name != "files"
        )
        lists = tuple(replace(item, deleted=frozenset({"files"})) for item in snapshot.lists)
        return replace(snapshot, findings=(), connectors=connectors, lists=lists)

    change_snapshot(monkeypatch, deleted)
    assert "false deletion" in faults_of({**SMALL, "happens": [{"at": "5m", **FAILS}]})


def test_of_a_fault_only_what_it_needs_is_left():
    world = {**SMALL, "happens": [{"at": "2m", "stop": ["mirror"]}, {"at": "4m", **FAILS}]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delivery_state.DeliveryState, "_update_active", _raising_for("task_failed"))
        (fault,) = faults_of(world).values()
        result, remaining = smallest(world, fault)
    assert result.wrong.kind == fault.wrong.kind
    assert remaining["happens"] == [{"at": "4m", **FAILS}]
    assert [*remaining["connectors"]] == ["files"]
    assert remaining["topics"] == {}


def _raising_for(name: str) -> Any:
    real = delivery_state.DeliveryState._update_active

    def planted(self: Any, identity: Any, finding: Any, now: float, unavailable: Any) -> None:
        if finding.name.value == name:
            raise RuntimeError(name)
        real(self, identity, finding, now, unavailable)

    return planted
