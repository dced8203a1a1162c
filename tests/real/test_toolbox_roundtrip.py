"""Offsets taken out, wiped and put back: every connector goes on at exactly the next record."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab import Lab
from lab.cluster.connector_configs import SOLO_SOURCE, SOLO_TOPIC
from lab.cluster.properties_files import DEDICATED_DOWNSTREAM, DEDICATED_TOPIC, DEDICATED_UPSTREAM
from lab.cluster.standalone_worker import STANDALONE
from lab.kills import sample_connectors
from lab.kills.sample_connectors import Source
from lab.product.toolbox import Toolbox
from lab.waiting import NotYet, until

pytestmark = [pytest.mark.real, pytest.mark.slow]

BEFORE, AFTER = 12, 7
COPIED_S_MAX = 150.0


Story = Callable[[Lab, Toolbox], None]
EndedStory = Callable[[Lab, Path], None]
STORIES: list[Story] = []
ENDED_STORIES: list[EndedStory] = []


def together(story: Story) -> Story:
    """A test that mostly waits: all of these are run at the same time, each on a connector of its
    own, and reported one by one.
    """
    STORIES.append(story)
    return story


def ended_together(story: EndedStory) -> EndedStory:
    """The same, each on a process of its own that it ends and starts."""
    ENDED_STORIES.append(story)
    return story


@pytest.fixture(scope="module")
def stories(lab: Lab, toolbox: Toolbox) -> Iterator[dict[str, Future[None]]]:
    with ThreadPoolExecutor(len(STORIES)) as pool:
        yield {story.__name__: pool.submit(story, lab, toolbox) for story in STORIES}


@pytest.fixture(scope="module")
def ended_stories(
    exact: Lab, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[None]]]:
    with ThreadPoolExecutor(len(ENDED_STORIES)) as pool:
        yield {
            story.__name__: pool.submit(story, exact, tmp_path_factory.mktemp("story"))
            for story in ENDED_STORIES
        }


def wiped(lab: Lab, toolbox: Toolbox, name: str) -> None:
    toolbox.change("offsets", "reset", name)
    assert sample_connectors.offsets(lab, name) == []
    assert sample_connectors.state(lab, name) == ("STOPPED", 0)


def goes_round(lab: Lab, toolbox: Toolbox, directory: Path) -> None:
    """A source, a sink and a MirrorMaker at once, through every verb, as a person would.

    They are stopped meanwhile: what runs without offsets starts over.
    """
    with ExitStack() as stack:
        worked = [
            stack.enter_context(sample_connectors.mirror(lab, "round-mirror", records=BEFORE)),
            stack.enter_context(
                sample_connectors.sink(lab, "round-sink", partitions=2, records=BEFORE)
            ),
            stack.enter_context(sample_connectors.source(lab, "round-source", lines=BEFORE)),
        ]
        names = [entry.name for entry in worked]
        for name in names:
            toolbox.change("connectors", "stop", name)
            assert sample_connectors.state(lab, name) == ("STOPPED", 0)
        retained = directory / "kept.json"
        expected = ("--connectors", ",".join(names))
        toolbox.read("offsets", "export", *expected, "--output", str(retained))
        exported = toolbox.read("offsets", "export", *expected)
        assert exported.json == json.loads(retained.read_text())
        assert exported.json == {entry.name: entry.pairs() for entry in worked}

        sample_connectors.at_once(partial(wiped, lab, toolbox, name) for name in names)
        toolbox.read("offsets", "diff", "--offsets", str(retained), status=1)

        toolbox.change("offsets", "import", "--offsets", str(retained))
        for item in worked:
            assert sample_connectors.offsets(lab, item.name) == item.pairs()
        toolbox.read("offsets", "diff", "--offsets", str(retained))
        for item in worked:
            toolbox.change("connectors", "resume", item.name)
            item.grow(AFTER)
        sample_connectors.await_recorded(lab, *worked)
        for item in worked:
            assert item.came() == item.meant(), item.name
        assert toolbox.open_plans() == []


def test_a_source_a_sink_and_a_mirrormaker_wiped_and_put_back_go_on_at_exactly_the_next_record(
    lab: Lab, toolbox: Toolbox, tmp_path: Path
) -> None:
    goes_round(lab, toolbox, tmp_path)


@pytest.mark.proof
def test_they_do_on_kafka_3_9_too(older: Lab, tmp_path: Path) -> None:
    goes_round(older, Toolbox(older, directory=tmp_path / "toolbox"), tmp_path)


def options(pair: dict[str, Any]) -> tuple[str, str, str, str]:
    """`offsets alter` for one pair."""
    return (
        *("--partition", json.dumps(pair["partition"])),
        *("--offset", json.dumps(pair["offset"])),
    )


@together
def a_running_source_that_is_set_back_repeats_exactly_what_lies_behind_that_position(
    lab: Lab, toolbox: Toolbox
) -> None:
    with sample_connectors.source(lab, "back-source", lines=BEFORE) as source:
        to = source.pair(source.after(BEFORE - 3))
        toolbox.change("offsets", "alter", source.name, *options(to))
        lab.wait_running(source.name)
        source.grow(AFTER)
        sample_connectors.await_recorded(lab, source)
        meant = source.meant()
        assert source.came() == [*meant[:BEFORE], *meant[BEFORE - 3 :]]


@together
def a_complete_reset_of_a_flow_copies_again_exactly_from_the_log_start(
    lab: Lab, toolbox: Toolbox
) -> None:
    with sample_connectors.mirror(lab, "whole-mirror", records=BEFORE) as mirror:
        once = mirror.meant()
        flow = ("--flow", f"{mirror.source}->{mirror.target}")
        dry = toolbox.change("offsets", "reset", *flow, "--dry-run")
        assert sample_connectors.offsets(lab, mirror.name) == mirror.pairs()
        ran = toolbox.change("offsets", "reset", *flow)
        for report in (dry, ran):
            assert f"at most {BEFORE} records" in report.said  # so many will be copied again
            assert f"mm2-offset-syncs.{mirror.target}.internal" in report.said  # which are kept
        lab.wait_running(mirror.name)
        mirror.grow(AFTER)
        sample_connectors.await_recorded(lab, mirror)
        meant = mirror.meant()
        assert mirror.came() == {number: once[number] + meant[number] for number in meant}


@together
def a_flow_set_to_an_offset_copies_again_exactly_from_that_record_on(
    lab: Lab, toolbox: Toolbox
) -> None:
    with sample_connectors.mirror(lab, "part-mirror", records=BEFORE) as mirror:
        once = mirror.meant()
        flow = ("--flow", f"{mirror.source}->{mirror.target}", "--topics", mirror.topic)
        toolbox.change("offsets", "reset", *flow, "--to-offset", "4")
        lab.wait_running(mirror.name)
        sample_connectors.await_recorded(lab, mirror)
        assert mirror.came() == {number: held + held[4:] for number, held in once.items()}


# ---- without REST -------------------------------------------------------------------------------

LEDGER = f"{DEDICATED_TOPIC}-kept"


def copied(lab: Lab) -> dict[int, list[str]]:
    """What the dedicated MirrorMaker has made of LEDGER."""
    return sample_connectors.records(lab.east, f"{DEDICATED_UPSTREAM}.{LEDGER}")


def ledger_copied(lab: Lab, times: int = 1) -> None:
    """Wait until as much as LEDGER holds was copied, and one flush longer than that."""
    expected = (
        sum(len(held) for held in sample_connectors.records(lab.west, LEDGER).values()) * times
    )

    def probe() -> None:
        try:
            observed = sum(len(held) for held in copied(lab).values())
        except KeyError:
            raise NotYet("there is no such topic yet") from None
        if observed < expected:
            raise NotYet(f"{observed} of {expected}")

    until("all copied", probe, timeout_s=COPIED_S_MAX)


def ledger_committed(lab: Lab) -> None:
    """Wait until MirrorMaker has the last record of LEDGER in its offsets topic."""
    last = len(sample_connectors.records(lab.west, LEDGER)[0]) - 1

    def probe() -> None:
        held = sample_connectors.newest(lab.east, "mm2-offsets.w2.internal")
        observed = [value for key, value in held.items() if f'"{LEDGER}"' in key]
        if observed != [f'{{"offset":{last}}}']:
            raise NotYet(str(observed))

    until("the last commit", probe, timeout_s=COPIED_S_MAX)


@ended_together
def a_dedicated_mirrormaker_wiped_and_put_back_in_its_topic_goes_on_at_the_next_record(
    exact: Lab, tmp_path: Path
) -> None:
    toolbox = Toolbox(exact, directory=tmp_path / "toolbox")
    exact.create_topic("west", LEDGER)
    exact.produce("west", LEDGER, BEFORE)
    ledger_copied(exact)
    ledger_committed(exact)
    properties = exact.directory / "mm2.properties"
    flow = ("--flow", f"{DEDICATED_UPSTREAM}->{DEDICATED_DOWNSTREAM}")
    connector = "MirrorSourceConnector"
    toolbox.store("offsets", "reset", connector, *flow, properties=properties, status=3)

    exact.terminate("mm2")
    try:
        retained = tmp_path / "kept.json"
        expected = ("--connectors", connector, "--output", str(retained))
        toolbox.stored("offsets", "export", *expected, *flow, properties=properties)
        requests = ("--offsets", str(retained), *flow)
        toolbox.store("offsets", "reset", connector, *flow, properties=properties)
        toolbox.stored("offsets", "diff", *requests, properties=properties, status=1)
        toolbox.store("offsets", "import", *requests, properties=properties)
        toolbox.stored("offsets", "diff", *requests, properties=properties)
    finally:
        exact.start_process("mm2")
    exact.produce("west", LEDGER, AFTER)
    ledger_copied(exact)
    ledger_committed(exact)
    assert copied(exact) == sample_connectors.records(exact.west, LEDGER)


@ended_together
def an_ended_worker_goes_on_at_what_was_wiped_and_put_back_in_its_topic(
    exact: Lab, tmp_path: Path
) -> None:
    """Exactly-once: its offsets are written in transactions, ours are not, and both are read."""
    toolbox = Toolbox(exact, directory=tmp_path / "toolbox")
    properties = exact.directory / "connect-1.properties"
    with (
        sample_connectors.mirror(exact, "ended-mirror", records=BEFORE) as mirror,
        sample_connectors.source(exact, "ended-source", lines=BEFORE) as source,
    ):
        worked = (mirror, source)
        for item in worked:
            toolbox.store("offsets", "reset", item.name, properties=properties, status=3)
        exact.terminate("connect-1")
        try:
            retained = tmp_path / "kept.json"
            names = ("--connectors", ",".join(entry.name for entry in worked))
            export = ("offsets", "export", *names, "--output", str(retained))
            toolbox.stored(*export, properties=properties)
            held = json.loads(retained.read_text()).items()
            reports = {name: sample_connectors.without_heartbeats(pairs) for name, pairs in held}
            assert reports == {entry.name: entry.pairs() for entry in worked}
            for item in worked:
                toolbox.store("offsets", "reset", item.name, properties=properties)
            requests = ("--offsets", str(retained))
            toolbox.stored("offsets", "diff", *requests, properties=properties, status=1)
            put_back = ("offsets", "import", *requests)
            ran = toolbox.store(*put_back, properties=properties, status=3)
            assert "--config" in ran.err  # whose cluster the mirror copies from, no file here says
            known = ("--config", str(toolbox.config))
            toolbox.store(*put_back, *known, properties=properties)
            toolbox.stored("offsets", "diff", *requests, properties=properties)
        finally:
            exact.start_process("connect-1")
        for item in worked:
            exact.wait_running(item.name)
            item.grow(AFTER)
        sample_connectors.await_recorded(exact, *worked)
        for item in worked:
            assert item.came() == item.meant(), item.name


@ended_together
def a_standalone_worker_goes_on_at_what_was_wiped_and_put_back_in_its_file(
    exact: Lab, tmp_path: Path
) -> None:
    toolbox = Toolbox(exact, directory=tmp_path / "toolbox")
    solo = exact.solo
    source = Source(exact, SOLO_SOURCE, SOLO_TOPIC, solo.lines)
    source.grow(BEFORE)
    sample_connectors.written(solo.sink, BEFORE)

    def probe() -> None:
        if not solo.offsets.exists() or SOLO_SOURCE.encode() not in solo.offsets.read_bytes():
            raise NotYet(f"no offset in {solo.offsets}")

    until("the first commit of the worker", probe, timeout_s=COPIED_S_MAX)
    change = ("offsets", "reset", SOLO_SOURCE)
    ran = toolbox.store(*change, properties=solo.properties, status=3)
    assert "running" in ran.err
    exact.terminate(STANDALONE)
    try:
        retained = tmp_path / "kept.json"
        toolbox.stored("offsets", "export", "--output", str(retained), properties=solo.properties)
        assert json.loads(retained.read_text()) == {SOLO_SOURCE: source.pairs()}
        toolbox.store(*change, properties=solo.properties)
        requests = ("--offsets", str(retained))
        toolbox.stored("offsets", "diff", *requests, properties=solo.properties, status=1)
        # Nobody tells here what kind of connector it is, and whether it can have such a partition.
        put_back = ("offsets", "import", *requests, "--allow-new")
        toolbox.store(*put_back, properties=solo.properties)
        toolbox.stored("offsets", "diff", *requests, properties=solo.properties)
    finally:
        exact.start_process(STANDALONE)
    source.grow(AFTER)
    sample_connectors.written(solo.sink, BEFORE + AFTER)
    assert source.came() == source.meant()


@pytest.mark.parametrize("story", [story.__name__ for story in STORIES])
def test_it_is_true_that(stories: dict[str, Future[None]], story: str) -> None:
    stories[story].result()


@pytest.mark.full
@pytest.mark.parametrize("story", [story.__name__ for story in ENDED_STORIES])
def test_it_is_true_as_well_that(ended_stories: dict[str, Future[None]], story: str) -> None:
    ended_stories[story].result()
