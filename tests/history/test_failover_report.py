"""What the report says of past minutes, by what the tables hold. The tables are written without
Spark.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from offsetwatch.errors import HistoryError
from offsetwatch.history.failover_report import inputs
from offsetwatch.history.failover_report.replay import (
    FailoverOutcome,
    FailoverUnknownReason,
    replay_samples,
)
from offsetwatch.history.failover_report.summary import Report, build_report, list_minutes
from offsetwatch.history.pipeline import commits
from offsetwatch.history.tables import reader
from offsetwatch.history.tables.pipeline_status import PipelineStatusWriter
from offsetwatch.history.tables.schemas import GOLD_FLOWS
from offsetwatch.model.topology import KafkaTopic, MirrorFlow, TopicRouter
from tests.changed import replace
from tests.history.delta import write
from tests.history.past_hour import CHECKED, FLOW, NOON, SYNCS, Past, build_typical_hour


def build(base: Path, *, since: float = 0, until: float = 600, groups: str = "") -> Report:
    minutes = list_minutes(NOON + since, NOON + until)
    flow = reader.find_flow(base, "west->east", None)
    window = inputs.ReportWindow(minutes[0], minutes[-1], frozenset(groups.split()))
    known = inputs.load_inputs(base, flow, window)
    return build_report(known, minutes, *replay_samples(known, window.since, window.until))


def moments(
    report: Report, group: str = "billing", partition: int = 0
) -> list[FailoverOutcome | None]:
    (of,) = (
        item for item in report.partitions if (item.group, item.partition) == (group, partition)
    )
    return [None if moment is None else moment[1] for moment in of.moments]


def first(past: Past, base: Path) -> FailoverOutcome:
    (outcome, *_) = moments(build(past.write(base)))
    assert outcome is not None
    return outcome


def test_a_group_that_only_an_early_sync_translates_would_have_read_nearly_everything_again(
    tmp_path: Path,
) -> None:
    report = build(build_typical_hour().write(tmp_path))
    (billing,) = report.groups
    assert billing.curves.reread == [2699] * 11
    assert billing.curves.skip == [0] * 11
    assert billing.curves.missing == [0] * 11
    assert billing.figures["reread"].known == billing.figures["reread"].of == 11
    assert billing.unknown == {}
    outcome = first(build_typical_hour(), tmp_path / "again")
    assert (outcome.start_offset, outcome.start_offset_from, outcome.cost.best) == (
        1,
        "checkpoint",
        2700,
    )


def test_its_own_commit_on_the_target_comes_before_the_checkpoint(tmp_path: Path) -> None:
    past = build_typical_hour()
    past.group_offsets.clear()
    past.ends.clear()
    past.add_samples(0, 2700, own=2690)
    outcome = first(past, tmp_path)
    assert (
        outcome.start_offset,
        outcome.start_offset_from,
        outcome.cost.reread,
        outcome.cost.skip,
    ) == (
        2690,
        "group",
        10,
        0,
    )


def test_a_commit_that_is_gone_does_not_count_any_more(tmp_path: Path) -> None:
    past = build_typical_hour()
    past.group_offsets.clear()
    past.ends.clear()
    past.add_samples(0, 2700, own=2690)
    past.add_samples(60, 2700)
    result = moments(build(past.write(tmp_path)))
    assert [outcome.start_offset_from for outcome in result[:2] if outcome] == [
        "group",
        "checkpoint",
    ]


def test_ends_of_another_round_are_not_held_against_a_position(tmp_path: Path) -> None:
    past = build_typical_hour()
    past.group_offsets.clear()
    past.ends.clear()
    past.add_samples(0, 2700)
    past.add_samples(60, 2700, there=None)
    result = moments(build(past.write(tmp_path)))
    assert [outcome.why for outcome in result[:2] if outcome] == [
        None,
        FailoverUnknownReason.NO_LOG_ENDS,
    ]


def test_a_landing_behind_the_best_one_leaves_records_out(tmp_path: Path) -> None:
    past = build_typical_hour()
    past.checkpoint(-50, 2800)
    outcome = first(past, tmp_path)
    assert (outcome.cost.reread, outcome.cost.skip) == (0, 100)


def test_a_checkpoint_that_came_after_the_sample_is_not_held_against_it(tmp_path: Path) -> None:
    past = build_typical_hour()
    past.checkpoint(170, 2650)
    assert build(past.write(tmp_path)).groups[0].curves.reread == [2699] * 3 + [50] * 8


def test_a_position_of_a_minute_ago_is_shown_with_the_time_of_its_sample(tmp_path: Path) -> None:
    past = Past()
    past.sync(-300, 0)
    past.checkpoint(-100, 1)
    past.commit(-50, 0)
    past.add_samples(55, 70)
    past.checkpoint(59, 71)
    report = build(past.write(tmp_path))
    (alone, billing) = report.partitions
    assert alone.group is None
    assert [None if moment is None else moment[0] - NOON for moment in billing.moments] == [
        *([None] + [55.0] * 5),
        *[None] * 5,
    ]
    assert billing.begun == 1
    assert report.groups[0].unknown == {FailoverUnknownReason.NOT_SAMPLED: 5}
    assert report.groups[0].curves.reread == [None, *[69] * 5, *[None] * 5]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(
            {"here": None}, FailoverUnknownReason.NO_LOG_ENDS, id="upstream end not sampled"
        ),
        pytest.param(
            {"there": None}, FailoverUnknownReason.NO_LOG_ENDS, id="downstream end not sampled"
        ),
        pytest.param(
            {"position": 3001}, FailoverUnknownReason.BEYOND_THE_END, id="beyond the upstream end"
        ),
        pytest.param(
            {"there": (0, 2999)},
            FailoverUnknownReason.NOT_TRANSLATED,
            id="target shorter than acked",
        ),
        pytest.param(
            {"there": (2, 3000)}, FailoverUnknownReason.OUTSIDE_THE_LOG, id="start offset deleted"
        ),
        pytest.param(
            {"group": "reports"},
            FailoverUnknownReason.NO_START_OFFSET,
            id="no commit and no checkpoint",
        ),
        pytest.param(
            {"partition": 1}, FailoverUnknownReason.NO_SYNCS, id="no sync of the partition"
        ),
        pytest.param(
            {"own": 3001}, FailoverUnknownReason.OUTSIDE_THE_LOG, id="own commit beyond the end"
        ),
    ],
)
def test_there_is_no_number_where_nothing_reports(
    change, why: FailoverUnknownReason, tmp_path: Path
) -> None:
    past = build_typical_hour()
    past.group_offsets.clear()
    past.ends.clear()
    arguments = {"position": 2700, "group": "billing", "partition": 0, **change}
    past.add_samples(0, **arguments)
    past.add_samples(0, None, partition=0 if arguments["partition"] else 7)
    (outcome, *_) = moments(build(past.write(tmp_path)), arguments["group"], arguments["partition"])
    assert outcome is not None
    assert (outcome.cost.reread, outcome.cost.skip, outcome.why) == (None, None, why)


def test_before_the_oldest_sync_nothing_is_translated(tmp_path: Path) -> None:
    past = Past()
    past.sync(-300, 100)
    past.add_samples(0, 99, own=99)
    assert first(past, tmp_path).why is FailoverUnknownReason.NOT_TRANSLATED


def test_what_may_not_have_been_read_yet_is_not_known(tmp_path: Path) -> None:
    past = build_typical_hour()
    past.read_until = 330  # and half a minute may pass until a batch begins
    report = build(past.write(tmp_path))
    assert report.groups[0].unknown == {FailoverUnknownReason.NOT_READ: 5}
    assert report.groups[0].curves.reread == [2699] * 6 + [None] * 5
    assert report.groups[0].curves.missing == [0] * 6 + [None] * 5
    assert "of the last 5 minutes" in report.notes[0]


def test_a_group_is_not_known_where_one_of_its_partitions_is_not(tmp_path: Path) -> None:
    past = build_typical_hour()
    past.sync(-200, 500, partition=1)
    for minute in range(11):
        own = 500 if minute < 4 else None  # and no checkpoint
        past.add_samples(minute * 60, 510, own=own, partition=1)
    report = build(past.write(tmp_path))
    assert report.groups[0].curves.reread == [2709] * 4 + [None] * 7
    assert report.groups[0].unknown == {FailoverUnknownReason.NO_START_OFFSET: 7}
    assert report.groups[0].partitions == 2


def test_a_partition_that_a_group_begins_to_read_is_not_missing_before(tmp_path: Path) -> None:
    past = build_typical_hour()
    past.sync(-200, 500, partition=1)
    for minute in range(6, 11):
        past.add_samples(minute * 60, 510, own=508, partition=1)
    assert build(past.write(tmp_path)).groups[0].curves.reread == [2699] * 6 + [2701] * 5


# --- what may be missing from the tables ---------------------------------------------------------


def checkpointed(*, away: bool, hole: bool, again: bool = True) -> Past:
    """A checkpoint before noon, another at 12:09, and what lies in between."""
    past = build_typical_hour()
    if away:
        past.group_offsets = [
            row for row in past.group_offsets if row["at"].minute in {0, 1, 8, 9, 10}
        ]
        past.ends = [row for row in past.ends if row["at"].minute in {0, 1, 8, 9, 10}]
    # A run was there before noon as well.
    past.add_samples(-120, 2700)
    if hole:
        past.hole(CHECKED)
    if again:
        past.checkpoint(540, 2650)
    return past


@pytest.mark.parametrize(
    ("past", "start_offsets"),
    [
        pytest.param(checkpointed(away=False, hole=False), [1, 1, 2650], id="nothing is missing"),
        pytest.param(checkpointed(away=False, hole=True), [1, 1, 2650], id="a marker"),
        pytest.param(checkpointed(away=True, hole=False), [1, 1, 2650], id="a gap in samples"),
        pytest.param(checkpointed(away=True, hole=True), [None, None, 2650], id="both"),
        pytest.param(checkpointed(away=True, hole=True, again=False), [1, 1, 1], id="no other"),
    ],
)
def test_a_checkpoint_that_compaction_may_have_taken_is_not_passed_over(
    past: Past, start_offsets: list[int | None], tmp_path: Path
) -> None:
    result = moments(build(past.write(tmp_path)))
    assert [result[minute].start_offset for minute in (0, 8, 9)] == start_offsets  # type: ignore[union-attr]
    hidden = [
        outcome.why for outcome in result if outcome is not None and outcome.start_offset is None
    ]
    assert set(hidden) <= {FailoverUnknownReason.CHECKPOINT_HIDDEN}


def test_a_clock_that_was_set_back_does_not_put_records_out_of_order(tmp_path: Path) -> None:
    past = build_typical_hour()
    past.checkpoint(400, 2600)  # a minute fast
    past.checkpoint(350, 2650)
    reread = build(past.write(tmp_path)).groups[0].curves.reread
    assert reread == [2699] * 6 + [50] * 5


def test_a_stamp_of_the_future_counts_from_when_it_was_read(tmp_path: Path) -> None:
    past = build_typical_hour()
    past.checkpoint(9000, 2650, read=200)
    assert build(past.write(tmp_path)).groups[0].curves.reread == [2699] * 4 + [50] * 7


def test_syncs_of_a_topic_that_was_created_again_begin_again(tmp_path: Path) -> None:
    past = build_typical_hour()
    past.ids[SYNCS] = "s2"
    past.sync(290, 2990, 2990)
    result = moments(build(past.write(tmp_path)))
    assert [outcome.why for outcome in result if outcome] == [None] * 5 + [
        FailoverUnknownReason.NOT_TRANSLATED
    ] * 6


def test_syncs_that_may_be_another_flows_report_nothing(tmp_path: Path) -> None:
    past = build_typical_hour()
    past.flows = [FLOW, {**FLOW, "connector": "other", "connect_cluster": "there"}]
    row = {"topic": "orders", "partition": 0, "source": "west", "target": "east"}
    counts = {"committed": 1, "replicated": 1}
    past.progress = [{**row, **counts, "connect_cluster": "there", "connector": "other"}]
    past.write(tmp_path)
    with pytest.raises(HistoryError, match=r"--connect lab \| there"):
        build(tmp_path)
    flow = reader.find_flow(tmp_path, "west->east", "lab")
    window = inputs.ReportWindow(NOON, NOON + 600)
    known = inputs.load_inputs(tmp_path, flow, window)
    result, _ = replay_samples(known, window.since, window.until)
    (series,) = result.values()
    assert {value.why for value in series.values} == {FailoverUnknownReason.NO_SYNCS}


# --- what a checkpoint task would translate ------------------------------------------------------


def dense() -> Past:
    """A sync for every hundred records until noon, and a group at 950 of 1,000."""
    past = Past()
    for number in range(11):
        past.sync(-300 + number, number * 100)
    for minute in range(11):
        past.add_samples(minute * 60, 950, own=901)
    return past


# The sync at 900 would give 901; a task that is older may have to go back four times as far behind
# the group as the group is behind the newest sync.
def translated(past: Past, base: Path) -> list[int | None]:
    return [
        None if moment is None else moment.cost.translated
        for moment in moments(build(past.write(base)))
    ]


def test_translations_of_tasks_are_known_once_their_statuses_were_recorded(tmp_path: Path) -> None:
    assert translated(dense(), tmp_path / "nobody") == [None] * 11
    past = dense()
    past.configured(-400, "checks", "MirrorCheckpointConnector")
    past.running(-400, "other")
    assert translated(past, tmp_path / "listens") == [752] * 11


def test_a_task_that_may_have_begun_again_knows_the_newest_sync_only(tmp_path: Path) -> None:
    past = dense()
    past.configured(-400, "checks", "MirrorCheckpointConnector")
    past.running(-400, "checks")
    past.running(290, "mm2")
    past.running(410, "checks")
    past.sync(500, 1100)
    assert translated(past, tmp_path) == [752] * 7 + [None] * 4


def test_without_connector_classes_any_start_of_a_task_may_be_of_a_checkpoint_task(
    tmp_path: Path,
) -> None:
    past = dense()
    past.running(-400, "checks")
    past.running(290, "mm2")
    assert translated(past, tmp_path) == [752] * 5 + [None] * 6


# --- what the target did not have ----------------------------------------------------------------


def exposed(base: Path, past: Past) -> list[tuple[object, ...]]:
    (of,) = (
        partition for partition in build(past.write(base)).partitions if partition.group is None
    )
    return [
        ()
        if exposure is None
        else (exposure[1].records, exposure[1].age_s_min, exposure[1].age_s_max)
        for exposure in of.exposures
    ]


def build_lagging_hour(*ends: int) -> Past:
    """MirrorMaker has copied 100 records, and the log ends here at each minute."""
    past = Past()
    past.sync(-300, 99)
    past.commit(-290, 99)
    for minute, end in enumerate(ends):
        past.add_samples(minute * 60, 50, own=50, here=(0, end), there=(0, 100))
    return past


def test_the_oldest_record_that_is_missing_came_between_two_polls(tmp_path: Path) -> None:
    result = exposed(tmp_path, build_lagging_hour(100, 100, 130, 150))
    assert result[:4] == [(0, 0.0, 0.0), (0, 0.0, 0.0), (30, 0.0, 60.0), (50, 60.0, 120.0)]
    assert result[9:] == [(), ()]


def test_of_what_was_missing_when_first_inspected_only_the_least_age_is_known(
    tmp_path: Path,
) -> None:
    assert exposed(tmp_path, build_lagging_hour(130, 150))[:2] == [
        (30, 0.0, None),
        (50, 60.0, None),
    ]


def test_an_end_that_went_back_is_another_topics(tmp_path: Path) -> None:
    past = build_lagging_hour(200, 120, 140)
    assert exposed(tmp_path, past)[:3] == [(100, 0.0, None), (20, 0.0, None), (40, 60.0, None)]


def test_a_position_beyond_the_log_and_a_reset_one_report_nothing(tmp_path: Path) -> None:
    assert exposed(tmp_path / "beyond", build_lagging_hour(90))[0] == (None, None, None)
    past = build_lagging_hour(130, 130, 130)
    past.commit(50, None)
    past.commit(110, 120)
    assert [item[0] for item in exposed(tmp_path / "reset", past)[:3]] == [30, None, 9]


def test_a_sync_newer_than_the_commit_by_the_clock_of_its_writer_does_not_count(
    tmp_path: Path,
) -> None:
    past = build_lagging_hour(130, 130)
    past.sync(30, 119)
    assert [item[0] for item in exposed(tmp_path, past)[:2]] == [30, 30]


# --- how long it would take ----------------------------------------------------------------------


def test_the_time_to_read_again_is_at_the_groups_own_rate(tmp_path: Path) -> None:
    past = Past()
    past.sync(-300, 0)
    for minute in range(11):  # a record every two seconds until 12:05, then none
        past.add_samples(minute * 60, 1000 + 30 * min(minute, 5), own=880)
    (billing,) = build(past.write(tmp_path)).groups
    assert billing.curves.reread[:2] == [120, 150]
    assert billing.curves.reread_s[:6] == [None, 300.0, 360.0, 420.0, 480.0, 540.0]
    assert billing.curves.reread_s[10] == 270 / (150 / 600)
    assert billing.figures["reread_s"].known == 10


def test_figures_are_those_of_minutes_that_were(tmp_path: Path) -> None:
    past = Past()
    past.sync(-300, 0)
    for minute, position in enumerate((5, 100, 7, 9, 8, 6, 4, 3, 2, 1)):
        past.add_samples(minute * 60, position, own=0)
    (billing,) = build(past.write(tmp_path), until=540).groups
    figures = billing.figures["reread"]
    assert (figures.median, figures.p95, figures.most) == (5, 100, 100)
    assert [
        (worst_minute.at - NOON, worst_minute.value) for worst_minute in billing.worst["reread"]
    ] == [(60, 100)]


# --- what cannot be answered ---------------------------------------------------------------------


def test_an_unknown_or_unsampled_flow_is_refused(tmp_path: Path) -> None:
    build_typical_hour().write(tmp_path)
    with pytest.raises(HistoryError, match=r"no flow is called a->b; .* found west->east"):
        reader.find_flow(tmp_path, "a->b", None)
    with pytest.raises(HistoryError, match="no flow of other is called"):
        reader.find_flow(tmp_path, "west->east", "other")
    for lacks, answer in (("downstream", "not known"), ("syncs_topic", "no offset syncs")):
        past = build_typical_hour()
        past.flows = [{**FLOW, lacks: None}]
        with pytest.raises(HistoryError, match=answer):
            build(past.write(tmp_path / lacks))


def test_a_pipeline_that_is_behind_is_to_catch_up_first(tmp_path: Path) -> None:
    build_typical_hour().write(tmp_path)
    for kafka, lag in (("north", 9), ("west", 0), ("east", None)):
        with PipelineStatusWriter(tmp_path, [kafka]) as answer:
            answer.batch(kafka, decoded=1, undecodable=0, behind=lag)
        assert build(tmp_path).groups
    with PipelineStatusWriter(tmp_path, ["west"]) as answer:
        answer.batch("west", decoded=1, undecodable=0, behind=7)
    with pytest.raises(HistoryError, match="7 records behind on west"):
        build(tmp_path)


def test_a_time_without_a_sample_or_a_minute_is_refused(tmp_path: Path) -> None:
    build_typical_hour().write(tmp_path)
    with pytest.raises(HistoryError, match="no sample of west's log ends"):
        build(tmp_path, since=-90_000, until=-89_000)
    with pytest.raises(HistoryError, match="no whole minute"):
        list_minutes(NOON + 1, NOON + 59)


@pytest.mark.parametrize(
    "table", ["bronze/records", "bronze/log_ends", "bronze/group_offsets", "gold/flows"]
)
def test_tables_that_are_damaged_or_not_there_are_named(table: str, tmp_path: Path) -> None:
    build_typical_hour().write(tmp_path)
    (file, *_) = (tmp_path / table).rglob("*.parquet")
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(HistoryError, match=table):
        build(tmp_path)
    file.unlink()
    with pytest.raises(HistoryError, match=table):
        build(tmp_path)
    for log in (tmp_path / table / "_delta_log").iterdir():
        log.unlink()
    with pytest.raises(HistoryError, match=f"holds no {table}"):
        build(tmp_path)


def test_more_than_can_be_held_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_typical_hour().write(tmp_path)
    monkeypatch.setattr("offsetwatch.history.failover_report.inputs.SAMPLES_MAX", 5)
    with pytest.raises(HistoryError, match="more than 5 samples"):
        build(tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr("offsetwatch.history.failover_report.summary.MINUTES_MAX", 20)
    with pytest.raises(HistoryError, match="shorter time"):
        build(tmp_path)


@pytest.mark.parametrize("policy", [None, "OurOwnPolicy"])
def test_under_an_unknown_policy_offset_syncs_identify_the_topic(
    policy: str | None, tmp_path: Path
) -> None:
    past = build_typical_hour()
    past.flows = [{**FLOW, "policy": policy}]
    assert build(past.write(tmp_path)).groups[0].curves.reread == [2699] * 11


def test_a_topic_that_the_flow_does_not_copy_is_no_part_of_it(tmp_path: Path) -> None:
    past = build_typical_hour()
    for row in [*past.ends, *past.group_offsets]:
        if row["kafka"] == "west":
            rows = past.ends if "log_end" in row else past.group_offsets
            rows.append({**row, "topic": "east.orders"})
    report = build(past.write(tmp_path))
    assert {of.topic for of in report.partitions} == {"orders"}


def test_flows_are_read_as_they_were_written(tmp_path: Path) -> None:
    syncs = KafkaTopic("west", SYNCS)
    one = MirrorFlow("lab", "mm2", "west", "east", "west", syncs, downstream="east", separator="_")
    routers = (TopicRouter("RegexRouter", "(.*)", "copy-$1"), TopicRouter("TimestampRouter"))
    other = MirrorFlow(
        *("lab", "mm2", "east", "west", None, None),
        read_committed=True,
        routers=routers,
        copies=(("orders", "orders-eu"), ("*", "{topic}")),
    )
    commits.create(tmp_path, GOLD_FLOWS)
    batch = commits.build_batch(reader.build_rows([one, other]), GOLD_FLOWS)
    commits.append(commits.write_batches([batch], tmp_path, GOLD_FLOWS), tmp_path, GOLD_FLOWS)
    assert reader.read_flows(tmp_path) == (other, one)


def renamed(past: Past, *routers: TopicRouter, copies: tuple[tuple[str, str], ...] = ()) -> Past:
    """The same past, where a transform has the copies of orders written to copy-orders; checkpoints
    go on naming the topic that MM2 created.

    copies    what the configuration says of it
    """
    for row in [*past.ends, *past.group_offsets]:
        if row["topic"] == "west.orders":
            row["topic"] = "copy-orders"
    written = msgspec.json.encode(routers).decode()
    stated = msgspec.json.encode(copies).decode() if copies else None
    past.flows = [{**FLOW, "routers": written, "copies": stated}]
    return past


def test_landings_are_where_a_router_has_the_copies_written(tmp_path: Path) -> None:
    router = TopicRouter("RegexRouter", r"west\.(.*)", "copy-$1")
    report = build(renamed(build_typical_hour(), router).write(tmp_path))
    assert report.groups[0].curves.reread == [2699] * 11
    assert {of.remote for of in report.partitions} == {"copy-orders"}


def test_landings_are_where_the_configuration_says_that_the_copies_are(tmp_path: Path) -> None:
    past = renamed(
        build_typical_hour(), TopicRouter("TimestampRouter"), copies=(("orders", "copy-orders"),)
    )
    report = build(past.write(tmp_path))
    assert report.groups[0].curves.reread == [2699] * 11
    assert {of.remote for of in report.partitions} == {"copy-orders"}


def test_with_a_router_that_cannot_be_followed_the_report_says_so(tmp_path: Path) -> None:
    renamed(build_typical_hour(), TopicRouter("TimestampRouter")).write(tmp_path)
    with pytest.raises(HistoryError, match=r"a transform \(TimestampRouter\) writes its copies"):
        build(tmp_path)


def test_with_a_separator_that_a_config_provider_knows_the_report_says_so(tmp_path: Path) -> None:
    past = build_typical_hour()
    past.flows = [{**FLOW, "separator": "${env:SEPARATOR}"}]
    past.write(tmp_path)
    with pytest.raises(HistoryError, match="its replication policy writes its copies"):
        build(tmp_path)


def test_flows_of_tables_that_are_older_than_a_column_are_read(tmp_path: Path) -> None:
    newer = {"routers", "copies"}
    columns = tuple(column for column in GOLD_FLOWS.columns if column.name not in newer)
    older = replace(GOLD_FLOWS, columns=columns)
    row = {name: value for name, value in FLOW.items() if name not in newer}
    write(tmp_path, older, row)
    (flow,) = reader.read_flows(tmp_path)
    assert (flow.source, flow.routers, flow.copies) == ("west", (), ())


def test_only_the_groups_that_are_named_are_reported(tmp_path: Path) -> None:
    past = build_typical_hour()
    past.add_samples(0, 10, group="reports")
    past.write(tmp_path)
    assert [group.group for group in build(tmp_path).groups] == ["billing", "reports"]
    assert [group.group for group in build(tmp_path, groups="reports").groups] == ["reports"]
