"""What Kafka's own tests of KIP-875, KIP-980 and KIP-195 do by REST, done by a person's verbs.

OffsetsApiIntegrationTest and ConnectWorkerIntegrationTest; and where Connect takes what is wrong,
the verb does not.
"""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab import Lab
from lab.cluster.connector_configs import file_sink, file_source
from lab.kills import sample_connectors
from lab.kills.sample_connectors import Sink, Source
from lab.processes.child import Child
from lab.product.program import EXPORTER
from lab.product.toolbox import VERB_S_MAX, Toolbox
from lab.waiting import NotYet, until

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.full]

USAGE, DENIED, CHANGED = 2, 3, 4
LINES = 10
ENDED_S_MAX = 150.0
AT_ONCE = 5


@pytest.fixture(scope="module")
def source(lab: Lab) -> Iterator[Source]:
    """A FileStream source for all that leaves it as it was."""
    with sample_connectors.source(lab, "calm-source", lines=LINES) as built:
        yield built


@pytest.fixture(scope="module")
def sink(lab: Lab) -> Iterator[Sink]:
    with sample_connectors.sink(lab, "calm-sink", partitions=2, records=LINES) as built:
        yield built


Story = Callable[[Lab, Toolbox, Path], None]
STORIES: list[Story] = []


def together(story: Story) -> Story:
    """A test that mostly waits: all of these are run at the same time, each on a connector of its
    own, and reported one by one.
    """
    STORIES.append(story)
    return story


@pytest.fixture(scope="module")
def stories(
    lab: Lab, toolbox: Toolbox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[None]]]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            story.__name__: pool.submit(story, lab, toolbox, tmp_path_factory.mktemp("story"))
            for story in STORIES
        }


def body(*pairs: Any) -> str:
    """What Connect's own PATCH takes."""
    return json.dumps({"offsets": pairs})


def alter(toolbox: Toolbox, name: str, *pairs: Any, status: int = 0) -> str:
    """`offsets alter` of these pairs from standard input: all that was said."""
    change = ("offsets", "alter", name, "--offsets", "-")
    return toolbox.change(*change, stdin=body(*pairs), status=status).said


# ---- what is not there, what is not said --------------------------------------------------------


def test_a_connector_that_does_not_exist_is_named_and_nothing_is_done(
    lab: Lab, toolbox: Toolbox, source: Source
) -> None:
    for verb in (("offsets", "reset"), ("connectors", "stop"), ("connectors", "delete")):
        ran = toolbox.change(*verb, "no-such", status=DENIED)
        assert "no-such" in ran.err
    assert "no-such" in alter(toolbox, "no-such", source.pair(0), status=DENIED)


@pytest.mark.parametrize(
    "arguments",
    [
        ("offsets", "alter"),
        ("offsets", "alter", "some", "--partition", "{}", "WHERE"),
        ("offsets", "reset", "some"),
        ("offsets", "reset", "WHERE"),
        ("offsets", "reset", "some", "--flow", "a->b", "WHERE"),
        ("offsets", "reset", "--flow", "a", "WHERE"),
        ("offsets", "reset", "--flow", "a->b", "--to-offset", "1", "--by", "1h", "WHERE"),
        ("offsets", "export", "--worker-config", "/nowhere/worker.properties"),
        ("connectors", "create", "some", "WHERE"),
        ("plan", "resolve", "some"),
        ("plan", "show"),
    ],
    ids=" ".join,
)
def test_a_verb_that_is_used_wrongly_says_how_it_is_used_and_ends_with_2(
    toolbox: Toolbox, arguments: tuple[str, ...]
) -> None:
    inputs = [
        word
        for argument in arguments
        for word in (toolbox.where if argument == "WHERE" else (argument,))
    ]
    ran = toolbox.run(*inputs, status=USAGE)
    assert ran.out == ""
    assert "Usage: " in ran.err or "/nowhere/" in ran.err


def test_nothing_is_changed_without_a_confirmation(
    lab: Lab, toolbox: Toolbox, source: Source
) -> None:
    before = sample_connectors.offsets(lab, source.name)
    ran = toolbox.read("offsets", "reset", source.name, status=DENIED)
    assert "--yes" in ran.err
    ran = toolbox.read(
        *("offsets", "alter", source.name, "--offsets", "-"),
        stdin=body(source.pair(0)),
        status=DENIED,
    )
    assert "--yes" in ran.err
    assert typed(toolbox, "no", "offsets", "reset", source.name)[0] == DENIED
    assert sample_connectors.offsets(lab, source.name) == before
    assert sample_connectors.state(lab, source.name) == ("RUNNING", 1)
    assert toolbox.open_plans() == []


def test_the_name_typed_on_a_terminal_confirms(lab: Lab, toolbox: Toolbox, source: Source) -> None:
    for verb, state in (("pause", "PAUSED"), ("resume", "RUNNING")):
        status, observed = typed(toolbox, source.name, "connectors", verb, source.name)
        assert status == 0, observed
        assert sample_connectors.state(lab, source.name) == (state, 1)


def typed(toolbox: Toolbox, line: str, *arguments: str) -> tuple[int, str]:
    """A verb on a terminal of its own, on which this line is typed: how it ended, what was seen."""
    own, its = pty.openpty()
    command = (*EXPORTER, *arguments, *toolbox.where)
    with subprocess.Popen(
        command, cwd=toolbox.directory, stdin=its, stdout=its, stderr=its, start_new_session=True
    ) as process:
        os.close(its)
        os.write(own, f"{line}\n".encode())
        observed = b""
        with suppress(OSError):  # that the other end is closed: it has ended
            while select.select([own], [], [], VERB_S_MAX)[0] and (chunk := os.read(own, 4096)):
                observed += chunk
        os.close(own)
        try:
            process.wait(ENDED_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.returncode, observed.decode()


def test_a_dry_run_says_every_step_and_does_none(
    lab: Lab, toolbox: Toolbox, source: Source
) -> None:
    before = sample_connectors.offsets(lab, source.name)
    change = ("offsets", "alter", source.name, "--offsets", "-", "--dry-run")
    answer = toolbox.change(*change, stdin=body(source.pair(5))).said.lower()
    for what in ("stop", "5", "running"):
        assert what in answer
    assert sample_connectors.offsets(lab, source.name) == before
    assert sample_connectors.state(lab, source.name) == ("RUNNING", 1)
    assert toolbox.open_plans() == []


# ---- sources ------------------------------------------------------------------------------------


@together
def a_source_is_altered_whether_it_runs_is_paused_or_is_stopped_and_is_then_as_before(
    lab: Lab, toolbox: Toolbox, directory: Path
) -> None:
    with sample_connectors.source(lab, "alter-source", lines=LINES) as entry:
        end = entry.pairs()
        alter(toolbox, entry.name, entry.pair(entry.after(4)))
        lab.wait_running(entry.name)
        sample_connectors.holds(lab, entry.name, end)
        meant = entry.meant()
        assert entry.came() == [*meant, *meant[4:]]

        lab.pause(entry.name)
        alter(toolbox, entry.name, entry.pair(entry.after(6)))
        assert sample_connectors.state(lab, entry.name)[0] == "PAUSED"
        assert sample_connectors.offsets(lab, entry.name) == [entry.pair(entry.after(6))]

        lab.stop_connector(entry.name)
        alter(toolbox, entry.name, entry.pair(entry.after(8)))
        assert sample_connectors.state(lab, entry.name) == ("STOPPED", 0)
        assert sample_connectors.offsets(lab, entry.name) == [entry.pair(entry.after(8))]

        answer = alter(toolbox, entry.name, entry.pair(entry.after(8)))
        assert "nothing" in answer.lower()
        lab.resume(entry.name)
        sample_connectors.holds(lab, entry.name, end)
        assert entry.came() == [*meant, *meant[4:], *meant[8:]]


@together
def a_reset_source_starts_over_and_a_second_reset_has_nothing_to_do(
    lab: Lab, toolbox: Toolbox, directory: Path
) -> None:
    with sample_connectors.source(lab, "reset-source", lines=LINES) as entry:
        lab.stop_connector(entry.name)
        toolbox.change("offsets", "reset", entry.name)
        assert sample_connectors.offsets(lab, entry.name) == []
        answer = toolbox.change("offsets", "reset", entry.name).said
        assert "nothing" in answer.lower()
        lab.resume(entry.name)
        sample_connectors.await_recorded(lab, entry)
        assert entry.came() == entry.meant() * 2


@together
def a_source_with_an_offsets_topic_of_its_own_is_reset_and_starts_over(
    lab: Lab, toolbox: Toolbox, directory: Path
) -> None:
    topic = {"offsets.storage.topic": "own-source-offsets"}
    lab.create_topic("east", topic["offsets.storage.topic"], config={"cleanup.policy": "compact"})
    with sample_connectors.source(lab, "own-source", topic, lines=LINES) as entry:
        lab.stop_connector(entry.name)
        toolbox.change("offsets", "reset", entry.name)
        # Connect shows partitions without an offset as they are in a topic of its own.
        assert all(pair["offset"] is None for pair in sample_connectors.offsets(lab, entry.name))
        lab.resume(entry.name)
        sample_connectors.await_recorded(lab, entry)
        assert entry.came() == entry.meant() * 2


def test_exactly_once_sources_are_altered_and_reset_and_one_with_a_topic_of_its_own_is_too(
    exact: Lab, tmp_path: Path
) -> None:
    """The last one Connect itself cannot reset: it hangs for 90 s and has done half of it."""
    toolbox = Toolbox(
        exact,
        directory=tmp_path,
        connects={"lab": (exact.connect_urls, "connect-offsets")},
    )
    topic = {"offsets.storage.topic": "own-exact-source-offsets"}
    with (
        sample_connectors.source(exact, "exact-source", lines=LINES) as plain,
        sample_connectors.source(exact, "own-exact-source", topic, lines=LINES) as own,
    ):
        sample_connectors.at_once(
            partial(altered_and_reset, exact, toolbox, entry) for entry in (plain, own)
        )


def altered_and_reset(exact: Lab, toolbox: Toolbox, entry: Source) -> None:
    exact.stop_connector(entry.name)
    alter(toolbox, entry.name, entry.pair(entry.after(4)))
    assert sample_connectors.offsets(exact, entry.name) == [entry.pair(entry.after(4))]
    toolbox.change("offsets", "reset", entry.name)
    assert all(pair["offset"] is None for pair in sample_connectors.offsets(exact, entry.name))
    exact.resume(entry.name)
    sample_connectors.await_recorded(exact, entry)
    assert entry.came() == entry.meant() * 2


# ---- sinks --------------------------------------------------------------------------------------


@together
def a_sink_is_altered_twice_and_reads_again_exactly_what_was_said(
    lab: Lab, toolbox: Toolbox, directory: Path
) -> None:
    with sample_connectors.sink(lab, "altered-sink", partitions=2, records=20) as at:
        lab.stop_connector(at.name)
        alter(toolbox, at.name, at.pair(0, None), at.pair(1, 5))
        assert sample_connectors.offsets(lab, at.name) == [at.pair(1, 5)]
        alter(toolbox, at.name, at.pair(0, 3), at.pair(1, 3))
        assert sample_connectors.offsets(lab, at.name) == [at.pair(0, 3), at.pair(1, 3)]
        lab.resume(at.name)
        sample_connectors.await_recorded(lab, at)
        held = sample_connectors.records(lab.east, at.topic)
        again = [value for values in held.values() for value in values[3:]]
        assert at.came() == sorted(at.meant() + again)


@together
def a_sink_with_a_group_of_its_own_that_is_reset_reads_everything_again(
    lab: Lab, toolbox: Toolbox, directory: Path
) -> None:
    config = {"consumer.override.group.id": "a-group-of-its-own"}
    with sample_connectors.sink(lab, "own-sink", config, partitions=2, records=20) as at:
        toolbox.change("offsets", "reset", at.name)
        lab.wait_running(at.name)
        sample_connectors.await_recorded(lab, at)
        assert at.came() == sorted(at.meant() * 2)


# ---- what Connect takes or answers in riddles ---------------------------------------------------


def wrong(source: Source, sink: Sink) -> dict[str, tuple[str, tuple[Any, ...]]]:
    """Pairs that must be refused, those that Connect takes among them; by what is wrong."""
    good, other = source.pair(5), sink.pair(0, 5)
    kpartition = sink.pair(0, 5)["partition"]
    return {
        "offset left out": (source.name, ({"partition": good["partition"]},)),
        "partition left out": (source.name, ({"offset": good["offset"]},)),
        "twice": (source.name, (good, source.pair(6))),
        "another file": (source.name, ({**good, "partition": {"filename": "/other"}},)),
        "a text": (source.name, ({**good, "offset": {"position": "5"}},)),
        "a fraction": (source.name, ({**good, "offset": {"position": 5.5}},)),
        "negative": (source.name, (source.pair(-1),)),
        "more than 64 bit": (source.name, (source.pair(2**64),)),
        "one more field": (source.name, ({**good, "offset": {"position": 5, "note": "x"}},)),
        "one more entry": (source.name, ({**good, "note": "x"},)),
        "no pair at all": (source.name, ()),
        "null": (source.name, (None,)),
        "nested": (source.name, ({**good, "offset": {"position": {"a": 1}}},)),
        "past the end": (sink.name, (sink.pair(0, 10**6),)),
        "no such partition": (sink.name, (sink.pair(9, 1),)),
        "half wrong": (sink.name, (other, sink.pair(9, 1))),
        "unknown topic": (
            sink.name,
            ({**other, "partition": {**kpartition, "kafka_topic": "no-such"}},),
        ),
        "a number as a text": (sink.name, ({**other, "offset": {"kafka_offset": "5"}},)),
        "a source's words": (sink.name, (good,)),
    }


def test_what_is_wrong_is_refused_before_anything_is_queried_of_connect(
    lab: Lab, toolbox: Toolbox, source: Source, sink: Sink
) -> None:
    before = {value: sample_connectors.offsets(lab, value) for value in (source.name, sink.name)}
    for what, (name, pairs) in wrong(source, sink).items():
        change = ("offsets", "alter", name, "--offsets", "-")
        ran = toolbox.run(*change, *toolbox.where, "--yes", stdin=body(*pairs), status=None)
        assert ran.status in (USAGE, DENIED), (what, ran)
        assert ran.err.strip(), what
        assert "Traceback" not in ran.err, what
    assert {
        value: sample_connectors.offsets(lab, value) for value in (source.name, sink.name)
    } == before
    assert sample_connectors.state(lab, source.name) == ("RUNNING", 1)
    assert sample_connectors.state(lab, sink.name) == ("RUNNING", 1)


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "{}", '{"offsets": null}', '"x"', "\xff"])
def test_what_is_no_document_is_refused_with_where_it_stops_being_one(
    toolbox: Toolbox, source: Source, text: str
) -> None:
    change = ("offsets", "alter", source.name, "--offsets", "-")
    ran = toolbox.run(*change, *toolbox.where, "--yes", stdin=text, status=None)
    assert ran.status in (USAGE, DENIED), ran
    assert "Traceback" not in ran.err
    assert ran.err.strip()


def test_of_two_documents_in_one_file_none_is_begun_when_one_is_wrong(
    lab: Lab, toolbox: Toolbox, source: Source, sink: Sink, tmp_path: Path
) -> None:
    file = tmp_path / "both.json"
    file.write_text(json.dumps({source.name: [source.pair(5)], sink.name: [sink.pair(0, 10**6)]}))
    before = sample_connectors.offsets(lab, source.name)
    ran = toolbox.change("offsets", "import", "--offsets", str(file), status=DENIED)
    assert str(10**6) in ran.err
    assert sample_connectors.offsets(lab, source.name) == before
    assert sample_connectors.state(lab, source.name) == ("RUNNING", 1)


# ---- states -------------------------------------------------------------------------------------


@together
def a_connector_is_paused_stopped_and_resumed_and_each_verb_may_be_repeated(
    lab: Lab, toolbox: Toolbox, directory: Path
) -> None:
    with sample_connectors.source(lab, "moved-source", lines=LINES) as entry:
        for verb, state in (("pause", "PAUSED"), ("stop", "STOPPED"), ("resume", "RUNNING")):
            for _ in range(2):
                toolbox.change("connectors", verb, entry.name)
                assert sample_connectors.state(lab, entry.name) == (
                    state,
                    0 if verb == "stop" else 1,
                )
        toolbox.change("connectors", "restart", entry.name)
        lab.wait_running(entry.name)
        entry.grow(1)
        sample_connectors.await_recorded(lab, entry)
        assert entry.came() == entry.meant()


@together
def a_connector_that_has_failed_can_be_stopped_set_resumed_and_deleted(
    lab: Lab, toolbox: Toolbox, directory: Path
) -> None:
    name, file = "failed-sink", lab.directory / "no-such-folder" / "failed.out"
    lab.create_topic("east", f"{name}-topic")
    lab.create(name, file_sink(file, topic=f"{name}-topic"))
    sample_connectors.failed(lab, name)
    toolbox.change("connectors", "stop", name)
    assert sample_connectors.state(lab, name) == ("STOPPED", 0)
    file.parent.mkdir()
    toolbox.change("connectors", "resume", name)
    lab.wait_running(name)
    toolbox.change("connectors", "delete", name)
    assert sample_connectors.absent(lab, name)


# ---- created with offsets -----------------------------------------------------------------------


class ConnectorFiles:
    """What `connectors create` needs on disk, and the connector that it makes."""

    def __init__(self, lab: Lab, directory: Path, name: str) -> None:
        self.source = Source(lab, name, f"{name}-lines", lab.directory / f"{name}.in")
        self.source.grow(LINES)
        lab.create_topic("east", self.source.topic)
        self.config, self.offsets = directory / "config.json", directory / "offsets.json"
        config = dict(file_source(self.source.path, topic=self.source.topic))
        self.config.write_text(json.dumps(config))

    def arguments(self, position: int, *more: str) -> tuple[str, ...]:
        self.offsets.write_text(body(self.source.pair(position)))
        return (
            *("connectors", "create", self.source.name, "--config-file", str(self.config)),
            *("--initial-offsets", str(self.offsets), *more),
        )


@together
def a_connector_created_with_offsets_begins_there_and_not_where_one_of_its_name_ended(
    lab: Lab, toolbox: Toolbox, directory: Path
) -> None:
    built = ConnectorFiles(lab, directory, "born-source")
    entry = built.source
    for state, tasks in (("stopped", 0), ("paused", None), ("running", 1)):
        ran = toolbox.change(*built.arguments(entry.after(4), "--initial-state", state))
        if state != "running":
            assert sample_connectors.offsets(lab, entry.name) == [entry.pair(entry.after(4))]
        if tasks is not None:
            assert sample_connectors.state(lab, entry.name) == (state.upper(), tasks)
        else:
            assert sample_connectors.state(lab, entry.name)[0] == "PAUSED"
        if state == "stopped":
            alter(toolbox, entry.name, entry.pair(entry.after(2)))
            assert sample_connectors.offsets(lab, entry.name) == [entry.pair(entry.after(2))]
            # What one of this name leaves behind is not added to, and is not lost either.
            remaining = {"partition": {"filename": "/long/gone"}, "offset": {"position": 9}}
            lab.alter_offsets(entry.name, [remaining])
        else:
            assert "/long/gone" not in ran.out or "backup" in ran.said.lower()
        if state != "running":
            toolbox.change("connectors", "delete", entry.name)
    lab.wait_running(entry.name)
    sample_connectors.await_recorded(lab, entry)
    assert entry.came() == entry.meant()[4:]
    sample_connectors.forget(lab, entry.name)


def test_a_connector_whose_offsets_are_refused_is_not_created(
    lab: Lab, toolbox: Toolbox, tmp_path: Path
) -> None:
    built = ConnectorFiles(lab, tmp_path, "unborn-source")
    toolbox.change(*built.arguments(-1), status=DENIED)
    assert sample_connectors.absent(lab, built.source.name)


@together
def a_connector_whose_configuration_connect_refuses_leaves_what_was_there_as_it_was(
    lab: Lab, toolbox: Toolbox, directory: Path
) -> None:
    built = ConnectorFiles(lab, directory, "broken-source")
    entry = built.source
    toolbox.change(*built.arguments(entry.after(4), "--initial-state", "stopped"))
    toolbox.change("connectors", "delete", entry.name)
    config = json.loads(built.config.read_text())
    built.config.write_text(json.dumps({**config, "tasks.max": "none"}))
    ran = toolbox.run(*built.arguments(entry.after(6)), *toolbox.where, "--yes", status=None)
    assert ran.status not in (0, 70), ran
    assert "tasks.max" in ran.said
    built.config.write_text(json.dumps(config))
    assert sample_connectors.absent(lab, entry.name)
    # Created by hand it finds what the first one left: nothing of the second was written.
    lab.create(entry.name, config)
    lab.wait_running(entry.name)
    sample_connectors.await_recorded(lab, entry)
    assert entry.came() == entry.meant()[4:]
    sample_connectors.forget(lab, entry.name)


# ---- two at once --------------------------------------------------------------------------------


@together
def of_two_changes_of_one_connector_at_once_one_is_refused_and_the_other_ends_well(
    lab: Lab, toolbox: Toolbox, directory: Path
) -> None:
    with sample_connectors.source(lab, "pulled-source", lines=LINES) as entry:
        lab.stop_connector(entry.name)
        file = toolbox.directory / "pulled.json"
        file.write_text(body(entry.pair(entry.after(3))))
        change = ("offsets", "alter", entry.name, "--offsets", str(file), *toolbox.where, "--yes")
        first = toolbox.child("first", *change, value="append:3:after", more=("--halt",))
        first.start()
        halted(first)
        second = ("offsets", "reset", entry.name, *toolbox.where, "--yes")
        ran = toolbox.run(*second, status=None)
        assert ran.status in (DENIED, CHANGED), ran
        assert entry.name in ran.err
        assert sample_connectors.offsets(lab, entry.name) == entry.pairs()
        first.signal(signal.SIGCONT)
        first.expect_success(timeout_s=VERB_S_MAX)
        assert sample_connectors.offsets(lab, entry.name) == [entry.pair(entry.after(3))]
        assert toolbox.open_plans(entry.name) == []


def halted(child: Child) -> None:
    """Wait until a process has stopped itself."""

    def probe() -> None:
        stat = Path(f"/proc/{child.pid}/stat").read_text()
        if (observed := stat.rpartition(")")[2].split()[0]) != "T":
            raise NotYet(f"state {observed}")

    until("the first verb halted", probe, timeout_s=ENDED_S_MAX, evidence=child.tail)


@pytest.mark.parametrize("story", [story.__name__ for story in STORIES])
def test_it_is_true_that(stories: dict[str, Future[None]], story: str) -> None:
    stories[story].result()
