"""Changes over REST on a cluster of two workers: forwarded to the leader, amid rebalances, and with
one of them killed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab import Lab, LabOptions
from lab.cluster.connector_configs import file_source
from lab.errors import LabError
from lab.kills import sample_connectors
from lab.product.toolbox import Toolbox
from tests.real.conftest import KAFKA

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.full]

LINES = 10
ROUNDS = 2
COMINGS = 4  # of connectors in a round: that many rebalances end before a verb loses patience


@pytest.fixture(scope="module")
def pair() -> Iterator[Lab]:
    with Lab(LabOptions(kafka_version=KAFKA, workers=2, connectors=False)) as running:
        yield running


def tools(lab: Lab, directory: Path, *, first: int) -> Toolbox:
    """Asks the one worker first, then the other."""
    urls = lab.connect_urls
    connects = {"lab": ((urls[first], urls[1 - first]), None)}
    return Toolbox(lab, directory=directory, connects=connects)


def alter(toolbox: Toolbox, source: sample_connectors.Source, position: int) -> Any:
    body = json.dumps({"offsets": [source.pair(position)]})
    change = ("offsets", "alter", source.name, "--offsets", "-")
    return toolbox.change(*change, stdin=body)


@contextmanager
def rebalancing(lab: Lab) -> Iterator[None]:
    """Connectors come and go, a few times: a worker whose next rebalance is due whenever one ends
    answers nothing about tasks, for as long as that goes on.
    """
    ended = threading.Event()
    file = lab.directory / "restless.in"
    file.touch()
    failures: list[str] = []

    def work() -> None:
        for number in range(COMINGS):
            if ended.is_set():
                return
            try:
                lab.create(f"restless-{number}", file_source(file, topic="restless"))
                lab.delete(f"restless-{number}")
            except LabError as exc:
                failures.append(str(exc))
                return

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(120.0)
        assert not thread.is_alive()
    assert failures == []


def test_changes_end_well_through_either_worker_while_connectors_come_and_go(
    pair: Lab, tmp_path: Path
) -> None:
    with sample_connectors.source(pair, "calm-source", lines=LINES) as source:
        meant = source.meant()
        result = [*meant]
        for number in range(ROUNDS):
            toolbox = tools(pair, tmp_path / str(number), first=number % 2)
            with rebalancing(pair):
                alter(toolbox, source, source.after(LINES - 2))
            pair.wait_running(source.name)
            sample_connectors.await_recorded(pair, source)
            result += meant[LINES - 2 :]
            assert source.came() == result


def test_a_worker_that_is_gone_is_named_and_the_change_goes_through_the_other(
    pair: Lab, tmp_path: Path
) -> None:
    with sample_connectors.source(pair, "left-source", lines=LINES) as source:
        toolbox = tools(pair, tmp_path, first=0)
        pair.kill("connect-1")
        try:
            ran = alter(toolbox, source, source.after(LINES - 2))
            assert f"{pair.connect_urls[0]} gives no answer" in ran.err
            pair.wait_running(source.name)
            sample_connectors.await_recorded(pair, source)
            assert source.came()[: LINES + 2] == [*source.meant(), *source.meant()[LINES - 2 :]]
        finally:
            pair.start_process("connect-1")


def test_a_stop_is_done_only_when_the_other_workers_tasks_have_ended(
    pair: Lab, tmp_path: Path
) -> None:
    toolbox = tools(pair, tmp_path, first=1)
    with sample_connectors.source(pair, "far-source", lines=LINES) as source:
        for _ in range(ROUNDS):
            toolbox.change("connectors", "stop", source.name)
            assert sample_connectors.state(pair, source.name) == ("STOPPED", 0)
            assert sample_connectors.offsets(pair, source.name) == source.pairs()
            toolbox.change("connectors", "resume", source.name)
            assert sample_connectors.state(pair, source.name) == ("RUNNING", 1)
