"""What happened to a connector, by what its records say. The tables are written without Spark."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from offsetwatch.cli import cli
from offsetwatch.errors import ConfigError
from offsetwatch.history.queries.asof import UnanswerableQuery
from offsetwatch.history.queries.connector_events import ConnectorEventKind
from offsetwatch.history.queries.timeline import Timeline, TimelineQuery, read_timeline
from offsetwatch.history.tables.pipeline_status import find_baselines_path, publish
from offsetwatch.history.tables.schemas import (
    BRONZE_LOG_ENDS,
    BRONZE_RECORDS,
    BRONZE_SOURCE_ENDS,
    GOLD_FLOWS,
    SILVER_LOGS,
)
from offsetwatch.model.history_documents import HOURS, Baseline, Baselines
from offsetwatch.remedy.model.plan import Alter, PartitionOffset
from tests.fakes.clock import VirtualClock
from tests.history.delta import Row, refine_plainly, write
from tests.history.rows import (
    OBSERVED_ROLES,
    OFFSETS_TOPIC,
    ROLES,
    SYNCS_TOPIC,
    Raw,
    at,
    decoded,
    mirror_key,
    offset_key,
    sync_key,
    sync_value,
)
from tests.unit.remedy.plans import Bench, plan_of

MORNING = 1_795_243_200  # 2026-11-21T06:40:00Z
CONFIGS, STATUS = "connect-configs", "connect-status"
PROPERTIES = {"connector.class": "FileStreamSource", "file": "/in", "topic": "lines"}
TRACE = "org.apache.kafka.connect.errors.ConnectException: s3cret\n\tat a.b.C.poll(C.java:1)\n"


class Log:
    """Records of a topic, one after the other."""

    def __init__(self) -> None:
        self.records: list[Raw] = []

    def add(self, topic: str, second: float, key: str | bytes, value: Any) -> None:
        raw = key if isinstance(key, bytes) else key.encode()
        offset = sum(record.topic == topic for record in self.records)
        body = None if value is None else json.dumps(value).encode()
        ms = round((MORNING + second) * 1000)
        self.records.append(Raw(key=raw, value=body, topic=topic, offset=offset, ms=ms))

    def config(self, second: float, key: str, value: Any) -> None:
        self.add(CONFIGS, second, key, value)

    def status(self, second: float, state: str | None, *, name: str = "file", **more: Any) -> None:
        task = more.pop("task", None)
        key = f"status-connector-{name}" if task is None else f"status-task-{name}-{task}"
        messages = {"state": state, "worker_id": "a:8083", "generation": 1, "trace": None, **more}
        self.add(STATUS, second, key, None if state is None else messages)

    def commit(self, second: float, position: int | None, partition: str = "/in") -> None:
        key = offset_key("file", {"filename": partition})
        value = None if position is None else {"position": position}
        self.add(OFFSETS_TOPIC, second, key, value)

    def rows(self, read_at: float) -> list[Row]:
        read = at(round((MORNING + read_at) * 1000))
        roles = {**ROLES, **OBSERVED_ROLES}
        return [
            {**row, "kafka": "east", "ingest_ts": read, "day": row["kts"].date()}  # type: ignore[attr-defined]
            for row in decoded(*self.records, roles=roles)
        ]


def lake(base: Path, log: Log, read_at: float = 0.0) -> Path:
    rows = log.rows(read_at)
    write(base, BRONZE_RECORDS, *rows)
    refine_plainly(base)
    for role in {row["kind"] for row in rows} & {"configs", "status"}:
        write(
            base,
            SILVER_LOGS,
            {
                "kind": role,
                "connect_cluster": "payments",
                "kafka": "east",
                "topic": f"connect-{role}",
                "topic_id": "x",
                "first_read_at": at(round((MORNING + read_at) * 1000)),
            },
        )
    return base


def read(base: Path, *, since: float = -60, until: float = 1e6, **more: Any) -> Timeline:
    inputs = {"connector": "file", "connect_cluster": None, **more}
    return read_timeline(
        base, TimelineQuery(since=MORNING + since, until=MORNING + until, **inputs)
    )


def said(timeline: Timeline) -> list[tuple[float, str, str]]:
    return [(event.at - MORNING, event.origin.value, event.said) for event in timeline.events]


def build_baselines(**changes: Any) -> Baselines:
    """One advance in half an hour, all the week; learned up to that morning."""
    baseline = Baseline(
        **{
            "connect_cluster": "payments",
            "connector": "file",
            "since": MORNING - 28 * 86_400.0,
            "until": float(MORNING),
            "advances": 1000,
            "per_hour": (2.0,) * HOURS,
            "pause_advances": None,
            "pause_s": None,
            "quantiles": (1.0, 1.0, 2.0),
            **changes,
        }
    )
    return Baselines(made_at=baseline.until, until=baseline.until, connectors=(baseline,))


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_life_is_reported_in_order_from_all_three_topics(log: Log, tmp_path: Path) -> None:
    log.config(0, "connector-file", {"properties": PROPERTIES})
    log.config(0.1, "commit-file", {"tasks": 1})
    log.status(1, "RUNNING")
    log.status(2, "RUNNING", task=0)
    log.commit(10, 5)
    log.commit(20, 9)
    log.status(30, "FAILED", task=0, trace=TRACE)
    log.config(40, "restart-connector-file", {"include-tasks": True, "only-failed": True})
    log.status(41, "RESTARTING", task=0)
    log.status(42, "RUNNING", task=0)
    log.commit(50, 2)
    log.config(60, "target-state-file", {"state": "STOPPED", "state.v2": "STOPPED"})
    log.config(60.1, "commit-file", {"tasks": 0})
    log.status(61, "STOPPED")
    log.status(61.5, None, task=0)
    log.commit(70, None)
    log.config(80, "connector-file", None)
    timeline = read(lake(tmp_path, log))
    assert timeline.connect_cluster == "payments"
    assert said(timeline) == [
        (0, "config", "created: FileStreamSource"),
        (pytest.approx(0.1), "config", "1 task"),
        (1, "status", "the connector running on a:8083"),
        (2, "status", "task 0 running on a:8083"),
        (10, "offsets", '{"filename":"/in"} begins at {"position":5}'),
        (
            30,
            "status",
            "task 0 failed on a:8083: org.apache.kafka.connect.errors.ConnectException in C.poll",
        ),
        (40, "config", "restart requested, with its tasks, what failed only"),
        (41, "status", "task 0 restarting on a:8083"),
        (42, "status", "task 0 running on a:8083"),
        (50, "offsets", '{"filename":"/in"} went back by 7, from 9 to 2'),
        (60, "config", "asked to be stopped"),
        (pytest.approx(60.1), "config", "0 tasks"),
        (61, "status", "the connector stopped on a:8083"),
        (61.5, "status", "task 0 is no more"),
        (70, "offsets", '{"filename":"/in"} is forgotten'),
        (80, "config", "deleted"),
    ]
    assert len(timeline.notes) == 3
    assert all("only what compaction had left of it" in note for note in timeline.notes)


def test_what_only_repeats_is_no_event(log: Log, tmp_path: Path) -> None:
    for second in (0, 1, 2):
        log.config(second, "target-state-file", {"state": "PAUSED", "state.v2": "PAUSED"})
        log.status(second, "RUNNING", generation=second + 1)
        log.commit(10 + second, 5)
    assert [text for _, _, text in said(read(lake(tmp_path, log)))] == [
        "asked to be paused",
        "the connector running on a:8083",
        '{"filename":"/in"} begins at {"position":5}',
    ]


def test_a_worker_that_says_late_that_it_lost_a_task_is_not_heard(log: Log, tmp_path: Path) -> None:
    log.status(0, "RUNNING", task=0)
    log.status(10, "RUNNING", task=0, worker_id="b:8083", generation=2)
    log.status(11, "UNASSIGNED", task=0, generation=1)
    assert [text for _, _, text in said(read(lake(tmp_path, log)))] == [
        "task 0 running on a:8083",
        "task 0 running, now on b:8083 (was on a:8083)",
    ]


def test_no_message_of_an_exception_is_reported(log: Log, tmp_path: Path) -> None:
    log.status(0, "FAILED", trace=TRACE)
    assert "s3cret" not in str(read(lake(tmp_path, log)))


def test_partitions_that_went_back_together_are_one_event(log: Log, tmp_path: Path) -> None:
    log.config(-100, "connector-file", {"properties": PROPERTIES})
    for number in range(5):
        log.commit(number / 10, 100, f"/{number}")
    for number in range(5):
        log.commit(60 + number / 10, 40, f"/{number}")
    begun, back = read(lake(tmp_path, log)).events
    assert begun.what is ConnectorEventKind.FIRST_COMMIT
    assert back.what is ConnectorEventKind.REWOUND
    assert back.said.startswith('5 partitions: {"filename":"/0"} went back by 60, from 100 to 40; ')
    assert back.said.endswith("; and 2 more")
    assert back.until == pytest.approx(MORNING + 60.4)


def test_a_source_partition_that_is_written_under_another_raw_key_is_reported(
    log: Log, tmp_path: Path
) -> None:
    keys = ('["file",{"bucket":"b","objectKey":"k"}]', '["file",{"objectKey":"k","bucket":"b"}]')
    for number, key in enumerate((keys[0], keys[0], keys[1], keys[1])):
        log.add(OFFSETS_TOPIC, 60.0 * number, key, {"position": number})
    begun, respelled = read(lake(tmp_path, log)).events
    assert (begun.what, respelled.what) == (
        ConnectorEventKind.FIRST_COMMIT,
        ConnectorEventKind.RESPELLED,
    )
    assert respelled.at == pytest.approx(MORNING + 120)
    assert keys[1] in respelled.said
    assert 'begins at {"position":2}' in respelled.said


def test_a_pause_is_reported_where_it_is_far_longer_than_its_habit(
    log: Log, tmp_path: Path
) -> None:
    for number in range(30):
        log.commit(number * 10, number)
    log.commit(290 + 299, 100)  # not yet
    log.commit(290 + 299 + 301, 101)
    silent = [
        event
        for event in read(lake(tmp_path, log)).events
        if event.what is ConnectorEventKind.SILENT
    ]
    assert [(event.at - MORNING, event.until - MORNING, event.said) for event in silent] == [
        (589, 890, "no commit for 5 min 1 s; usually there is one every 10 s")
    ]


def test_a_pause_that_goes_on_is_reported_as_far_as_the_tables_know(
    log: Log, tmp_path: Path
) -> None:
    for number in range(30):
        log.commit(number * 10, number)
    (silent,) = (
        event
        for event in read(lake(tmp_path, log, read_at=1000)).events
        if event.what is ConnectorEventKind.SILENT
    )
    assert (silent.at - MORNING, silent.until - MORNING) == (290, 1000)  # type: ignore[operator]
    assert silent.said == (
        "no commit for 11 min 50 s, and it goes on; usually there is one every 10 s"
    )


def test_a_connector_is_not_silent_in_a_range_that_was_not_read(log: Log, tmp_path: Path) -> None:
    for number in range(30):
        log.commit(number * 10, number)
    base = lake(tmp_path, log, read_at=300)
    assert all(event.what is not ConnectorEventKind.SILENT for event in read(base).events)


def test_a_pause_that_began_before_the_window_is_reported_too(log: Log, tmp_path: Path) -> None:
    log.commit(-5000, 1)
    for number in range(30):
        log.commit(number * 10, number + 2)
    silent = [
        e
        for e in read(lake(tmp_path, log), since=-60).events
        if e.what is ConnectorEventKind.SILENT
    ]
    assert [(event.at - MORNING, event.until - MORNING) for event in silent] == [(-5000, 0)]  # type: ignore[operator]


def test_a_pause_is_held_against_what_history_has_taught(log: Log, tmp_path: Path) -> None:
    """By it half an hour is nothing, and two hours are."""
    for hour in (0, 0.5, 1, 3, 3.5):
        log.commit(hour * 3600, round(hour * 10))
    base = lake(tmp_path, log)
    publish(base, build_baselines(pause_s=5400.0))
    timeline = read(base)
    assert [
        (event.at - MORNING, event.said)
        for event in timeline.events
        if event.what is ConnectorEventKind.SILENT
    ] == [(3600, "nothing advanced for 2 h 0 min; 4.0 advances were to be expected")]
    assert not any("usual" in note for note in timeline.notes)


def test_what_was_learned_of_another_time_is_not_used_and_that_is_said(
    log: Log, tmp_path: Path
) -> None:
    log.commit(0, 1)
    base = lake(tmp_path, log)
    publish(base, build_baselines(until=MORNING - 30 * 86_400.0))
    assert any("not of that time" in note for note in read(base, until=60).notes)
    publish(base, build_baselines(connector="other"))
    assert "history is too short for its baseline" in read(base, until=60).notes
    find_baselines_path(base).write_text("{")
    assert any("damaged" in note for note in read(base, until=60).notes)


# --- a flow --------------------------------------------------------------------------------------


def mirrored(base: Path, log: Log, *polls: tuple[float, int]) -> Path:
    """The flow `mm2` with one partition, and its log ends."""
    path = lake(base, log)
    write(base, GOLD_FLOWS, MIRROR)
    rows = [
        {
            "at": at(round((MORNING + second) * 1000)),
            "kafka": "west",
            "topic": "orders",
            "partition": 0,
            "log_start": 0,
            "log_end": end,
            "day": at(round((MORNING + second) * 1000)).date(),
        }
        for second, end in polls
    ]
    write(base, BRONZE_LOG_ENDS, *rows)
    return path


MIRROR = {
    "connect_cluster": "payments",
    "connector": "mm2",
    "source": "west",
    "target": "east",
    "upstream": "west",
    "downstream": "east",
    "syncs_kafka": "east",
    "syncs_topic": SYNCS_TOPIC,
    "separator": ".",
    "read_committed": False,
    "from_start": True,
}


def copied(log: Log, second: float, last: int | None) -> None:
    value = None if last is None else {"offset": last}
    log.add(OFFSETS_TOPIC, second, mirror_key("mm2", "west", "orders", 0), value)


def list_lag_events(timeline: Timeline) -> list[tuple[float, float, str]]:
    return [
        (event.at - MORNING, event.until - MORNING, event.said)  # type: ignore[operator]
        for event in timeline.events
        if event.what is ConnectorEventKind.BEHIND
    ]


def test_a_lag_beyond_what_is_usual_is_an_episode(log: Log, tmp_path: Path) -> None:
    copied(log, 0, 99)
    copied(log, 250, 5999)
    polls = ((60, 100), (120, 2000), (180, 6000), (240, 6000), (300, 6000), (360, 6000))
    base = mirrored(tmp_path, log, *polls)
    publish(base, build_baselines(connector="mm2", lag=((1.0, 50.0, 500.0),) * HOURS))
    ((begins, ends, words),) = list_lag_events(read(base, connector="mm2"))
    assert (begins, ends) == (120, 300)
    assert words.startswith("behind by up to 5900 records for 3 min 0 s; ")
    assert words.endswith("at that hour it is hardly ever more than 500")


def test_a_sync_that_may_be_from_before_the_commit_is_no_progress(log: Log, tmp_path: Path) -> None:
    copied(log, 0, 99)
    for second in (110, 170):
        raw = Raw(
            key=sync_key("orders", 0),
            value=sync_value(1999, 1999),
            topic=SYNCS_TOPIC,
            offset=round(second),
            ms=round((MORNING + second) * 1000),
        )
        log.records.append(raw)
    base = mirrored(tmp_path, log, (120, 2000), (180, 2000))
    publish(base, build_baselines(connector="mm2", lag=((1.0, 50.0, 500.0),) * HOURS))
    ((_, _, words),) = list_lag_events(read(base, connector="mm2"))
    assert words.startswith("behind by up to 1900 records")


def test_the_position_of_days_before_is_known_from_their_snapshot(log: Log, tmp_path: Path) -> None:
    copied(log, -2 * 86_400, 99)
    log.commit(-86_400, 1)
    log.commit(0, 2)
    base = mirrored(tmp_path, log, (60, 5000), (120, 5000))
    publish(base, build_baselines(connector="mm2", lag=((1.0, 50.0, 500.0),) * HOURS))
    ((begins, ends, answer),) = list_lag_events(read(base, connector="mm2", since=0, until=300))
    assert (begins, ends) == (60, 120)
    assert answer.startswith("behind by up to 4900 records for 1 min 0 s, not seen to end")


def test_one_poll_is_no_episode_and_a_hole_between_polls_ends_one(log: Log, tmp_path: Path) -> None:
    copied(log, 0, 99)
    polls = ((60, 5000), (60 + 901, 5000), (60 + 960, 5000), (60 + 2000, 100))
    base = mirrored(tmp_path, log, *polls)
    publish(base, build_baselines(connector="mm2", lag=((1.0, 50.0, 500.0),) * HOURS))
    assert [(begins, ends) for begins, ends, _ in list_lag_events(read(base, connector="mm2"))] == [
        (961, 1020)
    ]


def test_an_offset_that_was_taken_away_is_no_lag(log: Log, tmp_path: Path) -> None:
    copied(log, 0, 99)
    copied(log, 30, None)
    base = mirrored(tmp_path, log, (60, 5000), (120, 5000))
    publish(base, build_baselines(connector="mm2", lag=((1.0, 50.0, 500.0),) * HOURS))
    assert list_lag_events(read(base, connector="mm2")) == []


def test_without_samples_of_weeks_it_says_that_it_cannot_report(log: Log, tmp_path: Path) -> None:
    copied(log, 0, 99)
    base = mirrored(tmp_path, log, (60, 5000))
    publish(base, build_baselines(connector="mm2"))
    timeline = read(base, connector="mm2", until=300)
    assert any("what lag is usual is not known" in note for note in timeline.notes)


@pytest.mark.parametrize("has_table", [False, True])
def test_without_samples_of_that_time_it_says_that_the_lag_is_not_known(
    log: Log, tmp_path: Path, has_table: bool
) -> None:
    copied(log, 0, 99)
    base = mirrored(tmp_path, log, (-9000, 5000))
    if not has_table:
        shutil.rmtree(BRONZE_LOG_ENDS.at(base))
    publish(base, build_baselines(connector="mm2", lag=((1.0, 50.0, 500.0),) * HOURS))
    timeline = read(base, connector="mm2", until=300)
    assert list_lag_events(timeline) == []
    assert any("no sample of its log ends" in note for note in timeline.notes)


# --- a source ------------------------------------------------------------------------------------


def sampled(base: Path, log: Log, *samples: tuple[float, float | None]) -> Path:
    """Ends of the source of `file`, each read at a second, with the seconds behind it: None where
    that is not known.
    """
    path = lake(base, log)
    write(base, BRONZE_SOURCE_ENDS, *(read_end(*sample) for sample in samples))
    return path


def read_end(second: float, lag_s: float | None, partition: str = "/in") -> Row:
    read_at = at(round((MORNING + second) * 1000))
    return {
        "connect_cluster": "payments",
        "connector": "file",
        "source_partition": json.dumps({"filename": partition}, separators=(",", ":")),
        "source": "in",
        "kind": "file",
        "at": read_at,
        "behind_since": at(round((MORNING + second - lag_s) * 1000)) if lag_s else None,
        "caught_up": None if lag_s is None else lag_s == 0,
        "day": read_at.date(),
    }


def test_a_source_that_waited_longer_than_usual_is_an_episode(log: Log, tmp_path: Path) -> None:
    log.commit(0, 1)
    base = sampled(tmp_path, log, (60, 0), (120, 50), (180, 110), (240, 170), (300, None), (360, 0))
    publish(base, build_baselines(source_lag_s=((1.0, 5.0, 20.0),) * HOURS))
    (event,) = (e for e in read(base).events if e.what is ConnectorEventKind.BEHIND)
    assert (event.at - MORNING, event.until - MORNING) == (70, 360)  # type: ignore[operator]
    assert event.origin.value == "source ends"
    assert event.said == (
        "behind its source by up to 2 min 50 s; at that hour it is hardly ever more than 20 s"
    )


def test_without_a_baseline_five_minutes_behind_a_source_are_an_episode(
    log: Log, tmp_path: Path
) -> None:
    log.commit(0, 1)
    base = sampled(tmp_path, log, (60, 200), (120, 290), (240, 410), (300, 470))
    (event,) = (e for e in read(base).events if e.what is ConnectorEventKind.BEHIND)
    assert event.at - MORNING == -170
    assert event.said == "behind its source by up to 7 min 50 s, not seen to end"
    assert ConnectorEventKind.BEHIND not in {e.what for e in read(base, until=240).events}


def test_a_greater_lag_of_another_partition_is_that_of_the_connector(
    log: Log, tmp_path: Path
) -> None:
    log.commit(0, 1)
    base = sampled(tmp_path, log, (60, 0), (120, 0))
    write(base, BRONZE_SOURCE_ENDS, read_end(60, 400, "/other"), read_end(120, 460, "/other"))
    (event,) = (e for e in read(base).events if e.what is ConnectorEventKind.BEHIND)
    assert event.said.startswith("behind its source by up to 7 min 40 s")


def test_who_has_no_habit_yet_is_not_called_silent(log: Log, tmp_path: Path) -> None:
    for number in range(20):
        log.commit(number * 10, number)
    log.commit(100_000, 100)
    base = lake(tmp_path, log)
    assert all(
        event.what is not ConnectorEventKind.SILENT for event in read(base, since=150).events
    )


def test_before_a_window_nothing_is_reported_and_what_was_then_is_still_known(
    log: Log, tmp_path: Path
) -> None:
    log.config(0, "connector-file", {"properties": PROPERTIES})
    log.config(100, "connector-file", {"properties": {**PROPERTIES, "file": "/other"}})
    log.config(200, "connector-file", {"properties": {**PROPERTIES, "topic": "others"}})
    timeline = read(lake(tmp_path, log), since=50)
    assert [text for _, _, text in said(timeline)] == [
        "configuration changed: file /in -> /other",
        "configuration changed: file /other -> /in",
    ]


def test_other_connectors_are_left_out_and_a_name_within_a_name_is_another(
    log: Log, tmp_path: Path
) -> None:
    log.status(0, "RUNNING", name="file-2")
    log.status(1, "RUNNING", name='fi"le')
    base = lake(tmp_path, log)
    with pytest.raises(UnanswerableQuery, match="no record"):
        read(base)
    assert len(read(base, connector='fi"le').events) == 1
    with pytest.raises(UnanswerableQuery, match="of other"):
        read(base, connector="file-2", connect_cluster="other")


def test_what_was_never_read_and_what_compaction_may_have_taken_is_said(
    log: Log, tmp_path: Path
) -> None:
    log.commit(0, 1)
    timeline = read(lake(tmp_path, log, read_at=30), since=0)
    assert [note.split(":")[0] for note in timeline.notes] == [
        "no configs topic of payments was read",
        "no status topic of payments was read",
        "the offsets topic is read since 2026-11-21T06",
    ]
    assert not any("compaction" in note for note in read(tmp_path, since=60).notes)


# --- as it is typed ------------------------------------------------------------------------------


def typed(base: Path, *arguments: str) -> Result:
    path = base / "offsetwatch.yaml"
    path.write_text(
        'kafka: {east: {bootstrap: "127.0.0.1:1"}}\n'
        "connect: [{name: payments, kafka: east, offsets_topic: connect-offsets}]\n"
        f"history: {{path: {base / 'tables'}}}\nstate_dir: {base / 'state'}\n"
    )
    return CliRunner().invoke(cli, ["history", "timeline", *arguments, "--config", str(path)])


def test_a_plan_of_this_connector_is_reported_and_no_other_ones(log: Log, tmp_path: Path) -> None:
    log.status(0, "RUNNING", name="orders")
    rows = [{**row, "connect_cluster": "lab"} for row in log.rows(0)]
    write(tmp_path / "tables", BRONZE_RECORDS, *rows)
    refine_plainly(tmp_path / "tables")
    bench = Bench(tmp_path / "state", VirtualClock(MORNING + 500.0))
    bench.runner().run(plan_of(Alter((PartitionOffset('{"file":"a"}', '{"position":3}'),))))
    bench.journal.close()
    done = typed(tmp_path, "orders", "--since", str(MORNING - 1), "--json")
    events = json.loads(done.stdout)["events"]
    assert [item["origin"] for item in events] == ["status", "journal", "journal"]
    assert events[1]["said"] == "plan p1 begins: alter offsets"
    assert "succeeded" in events[2]["said"]
    assert all(item["at"].startswith("2026-") and item["at"].endswith("Z") for item in events)
    other = json.loads(typed(tmp_path, "orders", "--since", str(MORNING + 9_000), "--json").stdout)
    assert other["events"] == []


def test_an_unknown_member_ends_with_1_and_a_window_the_wrong_way_round_is_refused(
    log: Log, tmp_path: Path
) -> None:
    log.commit(0, 1)
    lake(tmp_path / "tables", log)
    done = typed(tmp_path, "nobody")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "no record" in done.stderr
    done = typed(tmp_path, "file", "--since", "1h ago", "--until", "2h ago")
    assert isinstance(done.exception, ConfigError)


def test_a_table_says_when_where_from_and_what(log: Log, tmp_path: Path) -> None:
    log.commit(0, 1)
    lake(tmp_path / "tables", log)
    done = typed(tmp_path, "file", "--since", str(MORNING - 1))
    assert "file of payments" in done.stdout
    assert "2026-11-21 06:40:00Z  offsets" in done.stdout
