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


def read_announced(ran: Ran, what: str) -> int:
    """How many records, at most, it said beforehand."""
    match = re.search(rf"at most (\d+) records? of \d+ partitions? will be {what}", ran.err)
    return 0 if match is None else int(match[1])


def counted(ran: Ran, mirror: Mirror) -> dict[int, tuple[int, int]]:
    """Partition -> (copied again, skipped), of the table."""
    rows = (line.split() for line in ran.out.splitlines())
    return {
        int(row[1].rpartition("-")[2]): (int(row[4]), int(row[5]))
        for row in rows
        if len(row) == 6 and row[0] == mirror.name and row[1].startswith(mirror.topic)
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


def copied(mirror: Mirror, expected: Mapping[int, list[str]]) -> None:
    """Wait until that came of it, and one flush longer: not a record more."""

    def probe() -> None:
        if (observed := mirror.came()) != expected:
            raise NotYet(f"{ {number: len(held) for number, held in observed.items()} }")

    until(f"the copies of {mirror.name}", probe, timeout_s=COPIED_S_MAX)
    mirror.grow(2)
    sample_connectors.await_recorded(mirror.lab, mirror)
    result = mirror.came()
    meant = mirror.meant()
    assert result == {number: [*held, meant[number][-1]] for number, held in expected.items()}


def test_after_a_complete_reset_everything_is_copied_again_exactly_from_the_log_start(
    lab: Lab, toolbox: Toolbox
) -> None:
    with sample_connectors.mirror(lab, "again-mirror", records=2 * RECORDS) as mirror:
        once = mirror.meant()
        cluster_actions.delete_records(lab.west, mirror.topic, 7, partition=1)  # as retention does
        ran = toolbox.change("offsets", "reset", *flow(mirror))
        assert counted(ran, mirror) == {0: (RECORDS, 0), 1: (RECORDS - 7, 0)}
        assert read_announced(ran, "copied again") == 2 * RECORDS - 7
        lab.wait_running(mirror.name)
        copied(mirror, {0: once[0] * 2, 1: once[1] + once[1][7:]})


def test_a_flow_that_is_set_back_to_a_moment_copies_again_exactly_what_was_stated(
    lab: Lab, toolbox: Toolbox
) -> None:
    with sample_connectors.mirror(lab, "moment-mirror") as mirror:
        dated(lab, mirror.topic, 0, range(RECORDS))
        dated(lab, mirror.topic, 1, range(5))
        sample_connectors.await_recorded(lab, mirror)
        once = mirror.meant()
        # Between the records 11 and 12; of the other partition all are older.
        moment = str(FIRST_S + 11 * STEP_S + 1)
        ran = toolbox.change("offsets", "reset", *flow(mirror), "--to-time", moment)
        assert counted(ran, mirror) == {0: (RECORDS - 12, 0)}
        assert read_announced(ran, "copied again") == RECORDS - 12
        lab.wait_running(mirror.name)
        copied(mirror, {0: once[0] + once[0][12:], 1: once[1]})


def test_a_flow_is_set_back_by_a_span_of_its_records_own_time(lab: Lab, toolbox: Toolbox) -> None:
    with sample_connectors.mirror(lab, "span-mirror") as mirror:
        dated(lab, mirror.topic, 0, range(RECORDS))
        dated(lab, mirror.topic, 1, range(5))
        sample_connectors.await_recorded(lab, mirror)
        once = mirror.meant()
        # The last record's time less three steps is record 16, and record 1 of the other one.
        ran = toolbox.change("offsets", "reset", *flow(mirror), "--by", f"{3 * STEP_S}s")
        assert counted(ran, mirror) == {0: (RECORDS - 16, 0), 1: (4, 0)}
        lab.wait_running(mirror.name)
        copied(mirror, {0: once[0] + once[0][16:], 1: once[1] + once[1][1:]})


def test_records_are_only_left_out_by_a_word_of_its_own_and_then_exactly_those_that_were_stated(
    lab: Lab, toolbox: Toolbox
) -> None:
    with sample_connectors.mirror(lab, "skip-mirror", records=2 * RECORDS) as mirror:
        lab.stop_connector(mirror.name)
        once = mirror.meant()
        mirror.grow(20)
        requests = ("offsets", "reset", *flow(mirror), "--to-offset", str(RECORDS + 6))
        refused = toolbox.change(*requests, status=3)
        assert "--allow-skip" in refused.err
        assert sample_connectors.offsets(lab, mirror.name) == [
            mirror.pair(n, RECORDS - 1) for n in (0, 1)
        ]
        ran = toolbox.change(*requests, "--allow-skip")
        assert counted(ran, mirror) == {0: (0, 6), 1: (0, 6)}
        assert read_announced(ran, "skipped") == 12
        assert sample_connectors.state(lab, mirror.name) == ("STOPPED", 0)
        lab.resume(mirror.name)
        lab.wait_running(mirror.name)
        meant = mirror.meant()
        copied(mirror, {number: once[number] + meant[number][RECORDS + 6 :] for number in meant})


def test_beyond_the_end_of_a_log_nothing_is_set(lab: Lab, toolbox: Toolbox) -> None:
    with sample_connectors.mirror(lab, "beyond-mirror", records=2 * RECORDS) as mirror:
        requests = (
            "offsets",
            "reset",
            *flow(mirror),
            "--to-offset",
            str(RECORDS + 1),
            "--allow-skip",
        )
        refused = toolbox.change(*requests, status=3)
        assert f"its log ends at {RECORDS}" in refused.err
        assert sample_connectors.offsets(lab, mirror.name) == mirror.pairs()


def test_syncs_are_cleared_once_no_other_connector_uses_them_and_come_back(
    lab: Lab, toolbox: Toolbox
) -> None:
    with sample_connectors.mirror(lab, "syncs-mirror", records=2 * RECORDS) as mirror:
        once = mirror.meant()
        syncs = f"mm2-offset-syncs.{mirror.target}.internal"
        before = cluster_actions.topic_id(lab.west, syncs)
        aliases = {"source.cluster.alias": mirror.source, "target.cluster.alias": mirror.target}
        reader = {
            **mm2_checkpoint(upstream=lab.west, downstream=lab.east, topics=mirror.topic),
            **aliases,
        }
        requests = ("offsets", "reset", *flow(mirror), "--clear-syncs")
        lab.create("syncs-checkpoint", reader)
        try:
            refused = toolbox.change(*requests, status=3)
            assert "lab/syncs-checkpoint reads it (NOT stopped)" in refused.err
            assert cluster_actions.topic_id(lab.west, syncs) == before
            assert sample_connectors.offsets(lab, mirror.name) == mirror.pairs()
            toolbox.change("connectors", "stop", "syncs-checkpoint")
            ran = toolbox.change(*requests)
        finally:
            lab.delete("syncs-checkpoint")
        assert f"west/{syncs} is deleted" in ran.err or f"west/{syncs}" in ran.err
        lab.wait_running(mirror.name)
        copied(mirror, {number: held * 2 for number, held in once.items()})
        assert cluster_actions.topic_id(lab.west, syncs) != before


def test_a_dedicated_mirrormaker_is_set_back_by_its_own_file_while_it_does_not_run(
    exact: Lab, tmp_path: Path
) -> None:
    toolbox = Toolbox(exact, directory=tmp_path / "toolbox")
    topic = f"{DEDICATED_TOPIC}-again"
    mirror = Mirror(
        exact, "MirrorSourceConnector", topic, 1, DEDICATED_UPSTREAM, DEDICATED_DOWNSTREAM
    )
    exact.create_topic("west", topic)
    exact.produce("west", topic, RECORDS)

    def probe() -> None:
        held = sample_connectors.newest(exact.east, f"mm2-offsets.{DEDICATED_UPSTREAM}.internal")
        observed = [value for key, value in held.items() if f'"{topic}"' in key]
        if observed != [f'{{"offset":{RECORDS - 1}}}']:
            raise NotYet(str(observed))

    until("the last commit", probe, timeout_s=COPIED_S_MAX)
    once = mirror.meant()
    properties = exact.directory / "mm2.properties"
    requests = ("offsets", "reset", *flow(mirror), "--topics", topic)
    toolbox.store(*requests, properties=properties, status=3)  # it runs
    exact.terminate("mm2")
    try:
        ran = toolbox.store(*requests, "--to-offset", "5", properties=properties)
    finally:
        exact.start_process("mm2")
    assert counted(ran, mirror) == {0: (RECORDS - 5, 0)}
    expected = {0: once[0] + once[0][5:]}

    def again() -> None:
        if (observed := mirror.came()) != expected:
            raise NotYet(f"{ {number: len(held) for number, held in observed.items()} }")

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
    with sample_connectors.mirror(exact, "twin-mirror", aliases) as mirror:
        requests = ("--flow", f"{DEDICATED_UPSTREAM}->{DEDICATED_DOWNSTREAM}", "--clear-syncs")
        refused = toolbox.change("offsets", "reset", *requests, status=3)
        assert "mm2/MirrorSourceConnector writes it (NOT stopped: group w2-mm2" in refused.err
        assert sample_connectors.state(exact, mirror.name)[0] == "RUNNING"
