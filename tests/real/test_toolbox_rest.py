"""Changes over REST where Connect is at its most peculiar: exactly-once, topics of connectors' own,
and a standalone worker; and what its real answers are worth.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lab import Lab, LabOptions
from lab.cluster.connect_client import ConnectApi
from lab.cluster.connector_configs import SOLO_SOURCE, file_sink, file_source
from lab.kills import sample_connectors
from lab.product.toolbox import Toolbox
from lab.waiting import NotYet, until
from offsetwatch.config import Config, Connect, Kafka
from offsetwatch.remedy.drivers.rest.driver import RestDriver
from offsetwatch.remedy.engine.progress import build_rollback_steps
from offsetwatch.remedy.model.driver import AttemptResult, StepStatus
from offsetwatch.remedy.model.plan import (
    Alter,
    FrozenOffsets,
    PartitionOffset,
    Plan,
    RequestedState,
    Reset,
    ToState,
)
from offsetwatch.toolbox.store.offset_store import StateBeforeChange
from offsetwatch.toolbox.store.rest import RestOffsetStore
from tests.real.conftest import KAFKA

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.full]

LINES = 10
OWN = {"offsets.storage.topic": "own-offsets", "tasks.max": "1"}
SHARED = "connect-offsets"
STOPPED = ToState(RequestedState.STOPPED)


@pytest.fixture(scope="module")
def peculiar() -> Iterator[Lab]:
    """Workers with exactly-once support, and a standalone one."""
    options = LabOptions(kafka_version=KAFKA, exactly_once=True, standalone=True, connectors=False)
    with Lab(options) as running:
        yield running


@pytest.fixture(scope="module")
def tools(peculiar: Lab, tmp_path_factory: pytest.TempPathFactory) -> Toolbox:
    connects = {"lab": (peculiar.connect_urls, SHARED), "solo": ([peculiar.solo.url], None)}
    directory = tmp_path_factory.mktemp("peculiar")
    return Toolbox(peculiar, directory=directory, connects=connects)


def driver_of(lab: Lab, name: str) -> RestDriver:
    connect = Connect(name="lab", kafka="east", urls=list(lab.connect_urls))
    return RestDriver(connect, name, Kafka(bootstrap=lab.east))


def pair(built: dict[str, Any]) -> PartitionOffset:
    def text(value: object) -> str:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))

    offset = built["offset"]
    return PartitionOffset(text(built["partition"]), None if offset is None else text(offset))


def awaited(driver: RestDriver, step: Any) -> None:
    """Carry out and look until it is done."""
    if driver.inspect(step, None).status is not StepStatus.DONE:
        assert driver.carry_out(step, None).answer is AttemptResult.ACK

    def probe() -> None:
        inspection = driver.inspect(step, None)
        if inspection.status is not StepStatus.DONE:
            raise NotYet(f"{inspection.status}: {inspection.said}")

    until(f"{step} done", probe, timeout_s=150.0)


# --- exactly-once, with a topic of its own -------------------------------------------------------


def test_offsets_that_connect_cannot_remove_are_removed_at_once_and_the_source_starts_over(
    peculiar: Lab, tools: Toolbox
) -> None:
    with sample_connectors.source(peculiar, "own-source", OWN, lines=LINES) as source:
        # Connect itself would not: a reset of it is given up after 90 s, and leaves all as it is.
        ran = tools.change("offsets", "reset", source.name)
        assert "exactly-once" in ran.err
        assert f"to the worker's own topic ({SHARED})" in ran.err
        peculiar.wait_running(source.name)
        source.grow(1)
        sample_connectors.await_recorded(peculiar, source)
        meant = source.meant()
        assert source.came() == [*meant[:LINES], *meant]


def test_a_position_of_it_is_set_through_connect_which_can_do_that(
    peculiar: Lab, tools: Toolbox
) -> None:
    with sample_connectors.source(peculiar, "set-source", OWN, lines=LINES) as source:
        body = json.dumps({"offsets": [source.pair(source.after(4))]})
        ran = tools.change("offsets", "alter", source.name, "--offsets", "-", stdin=body)
        assert "exactly-once" not in ran.err
        peculiar.wait_running(source.name)
        sample_connectors.await_recorded(peculiar, source)
        assert source.came() == [*source.meant(), *source.meant()[4:]]


def test_a_namesake_begins_at_its_own_offsets_there_too(
    peculiar: Lab, tools: Toolbox, tmp_path: Path
) -> None:
    with sample_connectors.source(peculiar, "again-source", OWN, lines=LINES) as source:
        tools.change("connectors", "delete", source.name)
        other = source.path.with_name("again-other.in")
        other.write_text(source.path.read_text())
        config, offsets = tmp_path / "config.json", tmp_path / "offsets.json"
        config.write_text(json.dumps({**file_source(other, topic=source.topic), **OWN}))
        begin = {"partition": {"filename": str(other)}, "offset": {"position": source.after(4)}}
        offsets.write_text(json.dumps({"offsets": [begin]}))
        ran = tools.change(
            *("connectors", "create", source.name, "--config-file", str(config)),
            *("--initial-offsets", str(offsets), "--initial-state", "stopped"),
        )
        assert "exactly-once" in ran.err
        held = [
            offset
            for offset in sample_connectors.offsets(peculiar, source.name)
            if offset["offset"]
        ]
        assert held == [begin]
        tools.change("connectors", "resume", source.name)
        peculiar.wait_running(source.name)
        result = [*source.meant(), *source.meant()[4:]]
        until("all came", lambda: _came(source, result), timeout_s=150.0)


def _came(source: sample_connectors.Source, expected: list[str]) -> None:
    if source.came() != expected:
        raise NotYet(str(source.came()))


def test_what_was_removed_there_is_put_back_as_it_was(peculiar: Lab) -> None:
    connect = Connect(
        name="lab", kafka="east", urls=list(peculiar.connect_urls), offsets_topic=SHARED
    )
    config = Config(kafka={"east": Kafka(bootstrap=peculiar.east)}, connect=[connect])
    with (
        sample_connectors.source(peculiar, "back-source", OWN, lines=LINES) as source,
        closing(RestOffsetStore(config, connect)) as store,
    ):
        awaited(driver_of(peculiar, source.name), STOPPED)
        state = store.read_state(source.name)
        assert isinstance(state, StateBeforeChange)
        steps = store.plan_steps(source.name, (pair(source.pair(None)),), whole=True).steps
        driver = store.driver(source.name)
        offsets = driver.offsets()
        assert [retained.where for retained in offsets.raw] == [
            "east/own-offsets",
            f"east/{SHARED}",
        ]
        for step in steps:
            awaited(driver, step)
        assert driver.offsets().raw == ()  # of the worker's own topic, too (KIP-875)
        assert [
            retained["offset"] for retained in sample_connectors.offsets(peculiar, source.name)
        ] in (
            [],
            [None],
        )

        plan = Plan("p", "reset", state.subject, steps, None, None, 0.0, "me")
        frozen = FrozenOffsets(offsets.pairs, "", "", offsets.raw)
        for back in build_rollback_steps(plan, frozen, frozenset({0, 1})):
            awaited(driver, back)
        assert sample_connectors.offsets(peculiar, source.name) == source.pairs()
        assert driver.offsets().raw == offsets.raw
        driver.carry_out(ToState(RequestedState.RUNNING), None)
        peculiar.wait_running(source.name)


@pytest.mark.proof
def test_connect_itself_does_hang_there_and_leaves_the_offset_as_it_is(peculiar: Lab) -> None:
    with sample_connectors.source(peculiar, "hanging-source", OWN, lines=LINES) as source:
        driver = driver_of(peculiar, source.name)
        awaited(driver, STOPPED)
        outcome = driver.carry_out(Reset(), None)
        assert outcome.answer is AttemptResult.IN_DOUBT
        assert driver.inspect(Reset(), None).status is not StepStatus.DONE
        assert sample_connectors.offsets(peculiar, source.name) == source.pairs()
        driver.carry_out(ToState(RequestedState.RUNNING), None)
        peculiar.wait_running(source.name)


# --- what answers are worth ----------------------------------------------------------------------


def test_real_answers_are_worth_what_they_are_taken_for(peculiar: Lab) -> None:
    with sample_connectors.source(peculiar, "answers-source", lines=LINES) as source:
        driver = driver_of(peculiar, source.name)
        here = Alter((pair(source.pair(3)),))
        assert driver.carry_out(here, None).answer is AttemptResult.RETRY  # it runs
        awaited(driver, STOPPED)
        outcome = driver.carry_out(here, None)
        assert (outcome.answer, outcome.definite) == (AttemptResult.ACK, True)
        assert driver.inspect(here, None).status is StepStatus.DONE
        for offset in ('{"position":-1}', '{"position":"5"}', '{"position":1.5}', '{"x":1}'):
            wrong = Alter((PartitionOffset(here.pairs[0].partition, offset),))
            refused = driver.carry_out(wrong, None)
            assert refused.answer is AttemptResult.NACK, refused
        assert driver.inspect(here, None).status is StepStatus.DONE
        assert driver_of(peculiar, "no-such").carry_out(here, None).answer is AttemptResult.NACK


def test_a_real_sink_alter_that_half_applied_has_failed_and_shows(peculiar: Lab) -> None:
    with sample_connectors.sink(peculiar, "half-sink", partitions=1, records=LINES) as sink:
        driver = driver_of(peculiar, sink.name)
        awaited(driver, STOPPED)
        good, bad = pair(sink.pair(0, 4)), pair(sink.pair(7, 4))
        assert driver.carry_out(Alter((good, bad)), None).answer is AttemptResult.FAILED
        assert driver.offsets().pairs == (good,)


def test_a_sink_begins_at_its_first_offsets_whatever_group_a_namesake_left(
    peculiar: Lab, tools: Toolbox, tmp_path: Path
) -> None:
    with sample_connectors.sink(peculiar, "born-sink", partitions=2, records=LINES) as sink:
        tools.change("connectors", "delete", sink.name)
        config, offsets = tmp_path / "config.json", tmp_path / "offsets.json"
        config.write_text(json.dumps(file_sink(sink.path.with_suffix(".again"), topic=sink.topic)))
        offsets.write_text(json.dumps({sink.name: [sink.pair(0, 3)]}))
        ran = tools.change(
            *("connectors", "create", sink.name, "--config-file", str(config)),
            *("--initial-offsets", str(offsets), "--initial-state", "stopped"),
        )
        assert "backed up" in ran.err
        assert sample_connectors.offsets(peculiar, sink.name) == [sink.pair(0, 3)]
        tools.change("connectors", "resume", sink.name)
        peculiar.wait_running(sink.name)
        sample_connectors.await_recorded(peculiar, sink)
        held = sample_connectors.records(peculiar.east, sink.topic)
        meant = sorted([*held[0][3:], *held[1]])
        assert sorted(sink.path.with_suffix(".again").read_text().splitlines()) == meant


# --- standalone ----------------------------------------------------------------------------------


def test_a_standalone_worker_is_changed_over_rest_like_any_other(
    peculiar: Lab, tools: Toolbox, tmp_path: Path
) -> None:
    where = ("--connect", "solo", "--config", str(tools.config))
    api = ConnectApi([peculiar.solo.url])
    lines = peculiar.solo.lines
    with lines.open("a") as handle:
        handle.writelines(f"solo {number}\n" for number in range(LINES))
    try:
        committed(api, SOLO_SOURCE, lines, lines.stat().st_size)
        tools.run("connectors", "stop", SOLO_SOURCE, *where, "--yes")
        tools.run(
            *("offsets", "alter", SOLO_SOURCE, "--partition", json.dumps({"filename": str(lines)})),
            *("--offset", '{"position": 7}', *where, "--yes"),
        )
        committed(api, SOLO_SOURCE, lines, 7)
        tools.run("offsets", "reset", SOLO_SOURCE, *where, "--yes")
        assert api.offsets(SOLO_SOURCE) == []
        tools.run("connectors", "resume", SOLO_SOURCE, *where, "--yes")
        committed(api, SOLO_SOURCE, lines, lines.stat().st_size)

        config, offsets = tmp_path / "config.json", tmp_path / "offsets.json"
        config.write_text(json.dumps(file_source(lines, topic="solo-again")))
        begin = {"partition": {"filename": str(lines)}, "offset": {"position": 7}}
        offsets.write_text(json.dumps({"solo-made": [begin]}))
        tools.run(
            *("connectors", "create", "solo-made", "--config-file", str(config)),
            *("--initial-offsets", str(offsets), "--initial-state", "stopped", *where, "--yes"),
        )
        assert api.offsets("solo-made") == [begin]
        tools.run("connectors", "delete", "solo-made", *where, "--yes")
    finally:
        api.close()


def committed(api: ConnectApi, name: str, lines: Path, position: int) -> None:
    expected = [{"partition": {"filename": str(lines)}, "offset": {"position": position}}]

    def probe() -> None:
        observed = api.offsets(name)
        if observed != expected:
            raise NotYet(str(observed))

    until(f"{name} at {position}", probe, timeout_s=150.0)
