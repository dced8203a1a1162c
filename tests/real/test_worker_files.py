"""A record that a transform cannot take: told by the worker's own log, and by nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab import Lab, LabOptions
from lab.cluster.connector_configs import file_sink
from lab.product.remediating_daemon import Guarded
from lab.stories import cluster_actions
from lab.stories.flow import failed_again, task_trace
from lab.waiting import NotYet, until
from tests.real.remediation_stories import QUARANTINE, SKIP, VISIBLE_S_MAX, list_requests

pytestmark = [pytest.mark.real, pytest.mark.proof]

NAME, TOPIC = "cast-sink", "cast-numbers"
TELLS = {"errors.log.enable": "true", "errors.log.include.messages": "true"}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(LabOptions(offset_flush_interval_ms=1000, connectors=False)) as running:
        yield running


@contextmanager
def cast(lab: Lab, out: Path, **more: str) -> Iterator[int]:
    """A sink that makes numbers of texts has taken three and fails at the fourth; its offset."""
    config = {
        **file_sink(out, topic=TOPIC),
        "transforms": "number",
        "transforms.number.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.number.spec": "int32",
        **more,
    }
    lab.create_topic("east", TOPIC)
    cluster_actions.produce_texts(lab.east, TOPIC, ["1", "2", "3"])
    lab.create(NAME, config)
    lab.wait_running(NAME)

    def taken() -> None:
        if cluster_actions.group_offset(lab.east, f"connect-{NAME}", TOPIC) != 3:
            raise NotYet(str(cluster_actions.group_offset(lab.east, f"connect-{NAME}", TOPIC)))

    until("the first three", taken, timeout_s=VISIBLE_S_MAX)
    try:
        yield 3
    finally:
        lab.delete(NAME)
        cluster_actions.delete_topic(lab.east, TOPIC)


def poisoned(lab: Lab) -> None:
    cluster_actions.produce_texts(lab.east, TOPIC, ["no number"])
    task_trace(lab, NAME)
    failed_again(lab, NAME, restarts=1)


@contextmanager
def more(lab: Lab) -> Iterator[list[str]]:
    """A record a second, each another number: that the lag grows is what shows that it stands."""
    inputs: list[str] = []
    ended = threading.Event()

    def produce() -> None:
        while not ended.wait(1.0):
            number = str(len(inputs) + 5)
            cluster_actions.produce_texts(lab.east, TOPIC, [number])
            inputs.append(number)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield inputs
    finally:
        ended.set()
        thread.join()


def test_the_record_that_the_log_names_is_proposed_copied_and_skipped(
    lab: Lab, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    daemon = Guarded(
        lab,
        directory=tmp_path / "daemon",
        connectors=[NAME],
        remedy={"mode": "propose", "quarantine": QUARANTINE, "stop_on": []},
        worker_files=True,
    )
    with cast(lab, out, **TELLS) as poison:
        daemon.start()
        try:
            poisoned(lab)
            with more(lab) as inputs:
                plan = daemon.proposed(NAME, "skip_one")
            assert f"offset {poison} of east/{TOPIC}-0" in plan["verb"]
            daemon.approve(plan)
            assert daemon.ended(plan)["ending"] == "succeeded"
            lab.wait_running(NAME)
            assert list_requests(daemon.changes(NAME)) == SKIP
        finally:
            daemon.stop()

        def delivered() -> None:
            if out.read_text().split() != ["1", "2", "3", *inputs]:
                raise NotYet(out.read_text())

        until("all but one", delivered, timeout_s=VISIBLE_S_MAX)


def test_without_the_log_of_the_worker_nothing_is_proposed(lab: Lab, tmp_path: Path) -> None:
    daemon = Guarded(
        lab,
        directory=tmp_path / "daemon",
        connectors=[NAME],
        remedy={"mode": "propose", "quarantine": QUARANTINE, "stop_on": []},
    )
    with cast(lab, tmp_path / "out", **TELLS):
        daemon.start()
        try:
            poisoned(lab)
            with more(lab):
                result = daemon.refused(NAME, "no_plan")
            assert result["action"] == "skip_one"
            assert daemon.changes(NAME) == []
        finally:
            daemon.stop()
