"""Replication flows set back and on: what comes of it is what was counted beforehand, exactly."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from lab import Lab
from lab.cluster.connector_configs import mm2_checkpoint
from lab.cluster.kafka_client import FLUSH_S_MAX, settings
from lab.cluster.properties_files import DEDICATED_DOWNSTREAM, DEDICATED_TOPIC, DEDICATED_UPSTREAM
from lab.kills import sample_connectors
from lab.kills.sample_connectors import Mirror
from lab.product.toolbox import Ran, Toolbox
from lab.stories import cluster_actions
from lab.waiting import NotYet, until

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.full]

COPIED_S_MAX = 150.0
RECORDS = 20
STEP_S = 1000  # of the records' own time, from one to the next
# Brokers take no records of the future, and retention takes those that are a week old.
FIRST_S = int(time.time()) - 2 * RECORDS * STEP_S


def flow(at: Mirror) -> tuple[str, str]:
    return ("--flow", f"{at.source}->{at.target}")


def told(ran: Ran, what: str) -> int:
    """How many records, at most, it said beforehand."""
    found = re.search(rf"at most (\d+) records? of \d+ partitions? will be {what}", ran.err)
    return 0 if found is None else int(found[1])


def counted(ran: Ran, at: Mirror) -> dict[int, tuple[int, int]]:
    """Partition -> (copied again, skipped), of the table."""
    rows = (line.split() for line in ran.out.splitlines())
    return {
        int(row[1].rpartition("-")[2]): (int(row[4]), int(row[5]))
        for row in rows
        if len(row) == 6 and row[0] == at.name and row[1].startswith(at.topic)
    }


def dated(lab: Lab, topic: str, partition: int, numbers: range) -> None:
    """Records of one partition, each with a time of its own."""
    failures: list[str] = []
    producer = Producer(settings(lab.west, acks="all"))
    for number in numbers:
        producer.produce(
            topic,
            value=f"{topic}-{partition}-{number}",
            partition=partition,
            timestamp=(FIRST_S + number * STEP_S) * 1000,
            on_delivery=lambda error, _record: failures.append(str(error)) if error else None,
        )
    assert producer.flush(FLUSH_S_MAX) == 0
    assert failures == []


def copied(at: Mirror, expected: Mapping[int, list[str]]) -> None:
    """Wait until that came of it, and one flush longer: not a record more."""

    def probe() -> None:
        if (seen := at.came()) != expected:
            raise NotYet(f"{ {number: len(held) for number, held in seen.items()} }")

    until(f"the copies of {at.name}", probe, timeout_s=COPIED_S_MAX)
    at.grow(2)
    sample_connectors.settled(at.lab, at)
    came = at.came()
    meant = at.meant()
    assert came == {number: [*held, meant[number][-1]] for number, held in expected.items()}


def test_after_a_complete_reset_everything_is_copied_again_exactly_from_the_log_start(
    lab: Lab, toolbox: Toolbox
) -> None:
    with sample_connectors.mirror(lab, "again-mirror", records=2 * RECORDS) as at:
        once = at.meant()
        cluster_actions.delete_records(lab.west, at.topic, 7, partition=1)  # as retention does
        ran = toolbox.change("offsets", "reset", *flow(at))
        assert counted(ran, at) == {0: (RECORDS, 0), 1: (RECORDS - 7, 0)}
        assert told(ran, "copied again") == 2 * RECORDS - 7
        lab.wait_running(at.name)
        copied(at, {0: once[0] * 2, 1: once[1] + once[1][7:]})


def test_a_flow_that_is_set_back_to_a_moment_copies_again_exactly_what_was_stated(
    lab: Lab, toolbox: Toolbox
) -> None:
    with sample_connectors.mirror(lab, "moment-mirror") as at:
        dated(lab, at.topic, 0, range(RECORDS))
        dated(lab, at.topic, 1, range(5))
        sample_connectors.settled(lab, at)
        once = at.meant()
        # Between the records 11 and 12; of the other partition all are older.
        moment = str(FIRST_S + 11 * STEP_S + 1)
        ran = toolbox.change("offsets", "reset", *flow(at), "--to-time", moment)
        assert counted(ran, at) == {0: (RECORDS - 12, 0)}
        assert told(ran, "copied again") == RECORDS - 12
        lab.wait_running(at.name)
        copied(at, {0: once[0] + once[0][12:], 1: once[1]})


def test_a_flow_is_set_back_by_a_span_of_its_records_own_time(lab: Lab, toolbox: Toolbox) -> None:
    with sample_connectors.mirror(lab, "span-mirror") as at:
        dated(lab, at.topic, 0, range(RECORDS))
        dated(lab, at.topic, 1, range(5))
        sample_connectors.settled(lab, at)
        once = at.meant()
        # The last record's time less three steps is record 16, and record 1 of the other one.
        ran = toolbox.change("offsets", "reset", *flow(at), "--by", f"{3 * STEP_S}s")
        assert counted(ran, at) == {0: (RECORDS - 16, 0), 1: (4, 0)}
        lab.wait_running(at.name)
        copied(at, {0: once[0] + once[0][16:], 1: once[1] + once[1][1:]})


def test_records_are_only_left_out_by_a_word_of_its_own_and_then_exactly_those_that_were_stated(
    lab: Lab, toolbox: Toolbox
) -> None:
    with sample_connectors.mirror(lab, "skip-mirror", records=2 * RECORDS) as at:
        lab.stop_connector(at.name)
        once = at.meant()
        at.grow(20)
        asked = ("offsets", "reset", *flow(at), "--to-offset", str(RECORDS + 6))
        refused = toolbox.change(*asked, status=3)
        assert "--allow-skip" in refused.err
        assert sample_connectors.offsets(lab, at.name) == [at.pair(n, RECORDS - 1) for n in (0, 1)]
        ran = toolbox.change(*asked, "--allow-skip")
        assert counted(ran, at) == {0: (0, 6), 1: (0, 6)}
        assert told(ran, "skipped") == 12
        assert sample_connectors.state(lab, at.name) == ("STOPPED", 0)
        lab.resume(at.name)
        lab.wait_running(at.name)
        meant = at.meant()
        copied(at, {number: once[number] + meant[number][RECORDS + 6 :] for number in meant})


def test_beyond_the_end_of_a_log_nothing_is_set(lab: Lab, toolbox: Toolbox) -> None:
    with sample_connectors.mirror(lab, "beyond-mirror", records=2 * RECORDS) as at:
        asked = ("offsets", "reset", *flow(at), "--to-offset", str(RECORDS + 1), "--allow-skip")
        refused = toolbox.change(*asked, status=3)
        assert f"its log ends at {RECORDS}" in refused.err
        assert sample_connectors.offsets(lab, at.name) == at.pairs()


def test_syncs_are_cleared_once_nobody_else_uses_them_and_come_back(
    lab: Lab, toolbox: Toolbox
) -> None:
    with sample_connectors.mirror(lab, "syncs-mirror", records=2 * RECORDS) as at:
        once = at.meant()
        syncs = f"mm2-offset-syncs.{at.target}.internal"
        before = cluster_actions.topic_id(lab.west, syncs)
        aliases = {"source.cluster.alias": at.source, "target.cluster.alias": at.target}
        reader = {
            **mm2_checkpoint(upstream=lab.west, downstream=lab.east, topics=at.topic),
            **aliases,
        }
        asked = ("offsets", "reset", *flow(at), "--clear-syncs")
        lab.create("syncs-checkpoint", reader)
        try:
            refused = toolbox.change(*asked, status=3)
            assert "lab/syncs-checkpoint reads it (NOT stopped)" in refused.err
            assert cluster_actions.topic_id(lab.west, syncs) == before
            assert sample_connectors.offsets(lab, at.name) == at.pairs()
            toolbox.change("connectors", "stop", "syncs-checkpoint")
            ran = toolbox.change(*asked)
        finally:
            lab.delete("syncs-checkpoint")
        assert f"west/{syncs} is deleted" in ran.err or f"west/{syncs}" in ran.err
        lab.wait_running(at.name)
        copied(at, {number: held * 2 for number, held in once.items()})
        assert cluster_actions.topic_id(lab.west, syncs) != before


def test_a_dedicated_mirrormaker_is_set_back_by_its_own_file_while_it_does_not_run(
    exact: Lab, tmp_path: Path
) -> None:
    toolbox = Toolbox(exact, directory=tmp_path / "toolbox")
    topic = f"{DEDICATED_TOPIC}-again"
    at = Mirror(exact, "MirrorSourceConnector", topic, 1, DEDICATED_UPSTREAM, DEDICATED_DOWNSTREAM)
    exact.create_topic("west", topic)
    exact.produce("west", topic, RECORDS)

    def probe() -> None:
        held = sample_connectors.newest(exact.east, f"mm2-offsets.{DEDICATED_UPSTREAM}.internal")
        seen = [value for key, value in held.items() if f'"{topic}"' in key]
        if seen != [f'{{"offset":{RECORDS - 1}}}']:
            raise NotYet(str(seen))

    until("the last commit", probe, timeout_s=COPIED_S_MAX)
    once = at.meant()
    properties = exact.directory / "mm2.properties"
    asked = ("offsets", "reset", *flow(at), "--topics", topic)
    toolbox.store(*asked, properties=properties, status=3)  # it runs
    exact.terminate("mm2")
    try:
        ran = toolbox.store(*asked, "--to-offset", "5", properties=properties)
    finally:
        exact.start_process("mm2")
    assert counted(ran, at) == {0: (RECORDS - 5, 0)}
    expected = {0: once[0] + once[0][5:]}

    def again() -> None:
        if (seen := at.came()) != expected:
            raise NotYet(f"{ {number: len(held) for number, held in seen.items()} }")

    until("the copies again", again, timeout_s=COPIED_S_MAX)


def test_syncs_that_a_dedicated_mirrormaker_uses_are_left_alone_while_it_runs(
    exact: Lab, tmp_path: Path
) -> None:
    toolbox = Toolbox(
        exact,
        directory=tmp_path / "toolbox",
        connects={"lab": (exact.connect_urls, "connect-offsets")},
    )
    mm2 = "  - {name: mm2, kafka: east, offsets_topic: mm2-offsets.w2.internal}\nstate_dir:"
    toolbox.config.write_text(toolbox.config.read_text().replace("state_dir:", mm2))
    aliases = {
        "source.cluster.alias": DEDICATED_UPSTREAM,
        "target.cluster.alias": DEDICATED_DOWNSTREAM,
    }
    with sample_connectors.mirror(exact, "twin-mirror", aliases) as at:
        asked = ("--flow", f"{DEDICATED_UPSTREAM}->{DEDICATED_DOWNSTREAM}", "--clear-syncs")
        refused = toolbox.change("offsets", "reset", *asked, status=3)
        assert "mm2/MirrorSourceConnector writes it (NOT stopped: group w2-mm2" in refused.err
        assert sample_connectors.state(exact, at.name)[0] == "RUNNING"
