import dataclasses

import pytest

from offsetwatch.model.connectors import STATES, Task
from offsetwatch.model.observations import (
    CONNECT_REST,
    GROUPS,
    LOG_ENDS,
    InputId,
    build_rest_offsets_input,
)
from offsetwatch.model.offsets import SourceOffset
from offsetwatch.model.topology import KafkaTopic
from offsetwatch.serve.metrics import catalog, mirror_families
from offsetwatch.serve.metrics.families import collect_families
from offsetwatch.serve.metrics.metric import INPUT
from offsetwatch.state.history_documents import BaselinesView, PipelineView
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, InputView
from tests.changed import replace
from tests.unit.serve.worlds import (
    BUILD,
    FORGOTTEN,
    FOUND,
    MIRROR,
    RELOADED,
    connector,
    full,
    number,
    source,
)


def rows_of(spec, snapshot):
    """{label values: number} of one family."""
    families = [
        family for family in collect_families(snapshot, BUILD, RELOADED) if family.spec is spec
    ]
    assert len(families) == 1
    return dict(families[0].rows())


def test_an_empty_snapshot_has_only_the_build_and_the_configuration():
    filled = [
        family.spec.name
        for family in collect_families(EMPTY_SNAPSHOT, BUILD, RELOADED)
        if family.labels
    ]
    assert filled == [
        "offsetwatch_build_info",
        "offsetwatch_config_last_reload_successful",
        "offsetwatch_config_last_reload_timestamp_seconds",
        "offsetwatch_web_config_last_reload_successful",
        "offsetwatch_web_config_reload_failures_total",
        "offsetwatch_read_refused_total",
    ]


@pytest.mark.parametrize("state", STATES)
def test_a_state_set_has_one_1_and_every_other_state_as_0(state):
    snapshot = replace(EMPTY_SNAPSHOT, connectors=(connector("files", state, (Task(4, state),)),))
    of_connector = rows_of(catalog.CONNECTOR_STATE, snapshot)
    of_task = rows_of(catalog.TASK_STATE, snapshot)
    assert of_connector == {("lab", "files", known): int(known == state) for known in STATES}
    assert of_task == {("lab", "files", "4", known): int(known == state) for known in STATES}


def test_a_state_that_connect_may_invent_is_a_row_of_its_own():
    tasks = (Task(0, "hibernating"), Task(1, "running"))
    snapshot = replace(EMPTY_SNAPSHOT, connectors=(connector("files", "hibernating", tasks),))
    states = rows_of(catalog.CONNECTOR_STATE, snapshot)
    assert states.pop(("lab", "files", "hibernating")) == 1
    assert states == {("lab", "files", known): 0 for known in STATES}
    assert rows_of(catalog.TASK_STATE, snapshot)["lab", "files", "0", "hibernating"] == 1
    assert rows_of(catalog.CONNECTOR_TASKS, snapshot)["lab", "files", "hibernating"] == 1


def test_a_connector_without_tasks_has_zero_tasks_in_every_state():
    snapshot = replace(EMPTY_SNAPSHOT, connectors=(connector("files"),))
    assert rows_of(catalog.CONNECTOR_TASKS, snapshot) == {
        ("lab", "files", state): 0 for state in STATES
    }
    assert rows_of(catalog.TASK_STATE, snapshot) == {}


def test_a_forgotten_source_partition_keeps_its_counters_and_nothing_else():
    stale_times = replace(FORGOTTEN, committed_at=5.0, advanced_at=5.0)
    for view in (FORGOTTEN, stale_times):
        snapshot = replace(EMPTY_SNAPSHOT, source_partitions=(view,))
        for spec in (catalog.POSITION, catalog.LAST_COMMIT, catalog.LAST_ADVANCE):
            assert rows_of(spec, snapshot) == {}
        item = ("lab", "files", "filename=/gone")
        assert rows_of(catalog.COMMITS, snapshot) == {item: 4}
        assert rows_of(catalog.ADVANCES, snapshot) == {item: 3}
        assert rows_of(catalog.REWINDS, snapshot) == {item: 0}
        assert rows_of(catalog.RESETS, snapshot) == {item: 1}


@pytest.mark.parametrize("value", [2**53, -(2**53), 0, 0.5, -1.25])
def test_an_exact_number_is_shown_as_it_is(value):
    snapshot = replace(EMPTY_SNAPSHOT, source_partitions=(source("{}", "", number("n", value)),))
    assert rows_of(catalog.POSITION, snapshot) == {("lab", "files", "", "n"): value}


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 10**30, 1e300, float("inf")])
def test_a_number_beyond_2_to_the_53_is_left_out_and_its_neighbours_are_not(value):
    offset = SourceOffset(text="{}", numbers=(("big", value), ("small", 7)))
    snapshot = replace(EMPTY_SNAPSHOT, source_partitions=(source("{}", "p", offset),))
    assert rows_of(catalog.POSITION, snapshot) == {("lab", "files", "p", "small"): 7}


def test_an_inexact_number_is_left_out_of_every_metric():
    big = 2**53 + 2
    beyond = replace(MIRROR, partition=8, replicated=big, log_start=big, log_end=big, ahead=big)
    snapshot = replace(EMPTY_SNAPSHOT, mirror_partitions=(beyond, MIRROR))
    for spec in (
        mirror_families.REPLICATED,
        mirror_families.LOG_START,
        mirror_families.LOG_END,
        mirror_families.AHEAD,
    ):
        assert [labels[-1] for labels in rows_of(spec, snapshot)] == ["7"]
    assert [labels[-1] for labels in rows_of(mirror_families.LAG, snapshot)] == ["8", "7"]


def test_what_is_unknown_has_no_row():
    unknown = replace(MIRROR, log_start=None, log_end=None, lag=None, ahead=None)
    snapshot = replace(EMPTY_SNAPSHOT, mirror_partitions=(unknown,))
    for spec in (
        mirror_families.LOG_START,
        mirror_families.LOG_END,
        mirror_families.LAG,
        mirror_families.AHEAD,
    ):
        assert rows_of(spec, snapshot) == {}
    assert list(rows_of(mirror_families.REPLICATED, snapshot).values()) == [120]


def test_the_pipelines_counters_are_distinguished_by_what_became_of_the_records():
    assert rows_of(catalog.HISTORY_RECORDS, full()) == {
        ("east", "decoded"): 120,
        ("east", "undecodable"): 3,
        ("west", "decoded"): 7,
        ("west", "undecodable"): 0,
    }


def test_a_cluster_of_unknown_distance_has_no_such_row():
    assert rows_of(catalog.HISTORY_BEHIND, full()) == {("east",): 17}


def test_status_files_that_could_not_be_read_are_a_reason_of_their_own():
    assert rows_of(catalog.HISTORY_ERRORS, full()) == {("reading",): 2, ("status_unreadable",): 1}


def test_what_is_usual_is_reported_of_connectors_that_there_are_and_of_hours_that_have_advances():
    item = ("lab", "files")
    assert rows_of(catalog.EXPECTED_INTERVAL, full()) == {
        (*item, "50"): 30.0,
        (*item, "90"): 90.0,
        (*item, "99"): 240.0,
    }
    assert rows_of(catalog.EXPECTED_INTERVAL, replace(full(), at=full().at + 3600.0)) == {}


def test_whether_what_is_usual_counts_is_reported_where_anything_was_published():
    for valid, report in ((True, {(): 1}), (False, {(): 0}), (None, {})):
        snapshot = replace(full(), baselines=BaselinesView(valid=valid))
        assert rows_of(catalog.HISTORY_BASELINES, snapshot) == report


def test_without_the_pipelines_file_only_unreadable_ones_are_counted():
    lost = replace(
        full(), pipeline=PipelineView(status=None, unreadable=4), baselines=BaselinesView()
    )
    history = [
        (family.spec.name, dict(family.rows()))
        for family in collect_families(lost, BUILD, RELOADED)
        if "_history_" in family.spec.name and family.labels
    ]
    assert rows_of(catalog.HISTORY_BATCH_AT, lost) == {}
    assert history == [("offsetwatch_history_errors_total", {("status_unreadable",): 4})]


def test_the_labels_of_an_input_are_its_fields_one_each_so_that_no_two_inputs_share_a_series():
    assert set(INPUT) == {field.name for field in dataclasses.fields(InputId)}
    inputs = (
        InputId.of_tail(KafkaTopic("lab", "files")),
        build_rest_offsets_input("lab", "files"),
        InputId(LOG_ENDS, kafka="lab"),
        InputId(CONNECT_REST, connect_cluster="lab"),
        InputId(GROUPS, connect_cluster="lab"),
        InputId(GROUPS, connect_cluster="lab", source="west", target="east"),
        InputId(GROUPS, connect_cluster="lab", source="east", target="west"),
    )
    views = tuple(InputView(input_id, False, False, None, (), None, None) for input_id in inputs)
    rows = rows_of(catalog.INPUT_UP, replace(EMPTY_SNAPSHOT, inputs=views))
    assert rows == {
        ("tail", "lab", "", "files", "", "", ""): 0,
        ("rest_offsets", "", "lab", "", "files", "", ""): 0,
        ("log_ends", "lab", "", "", "", "", ""): 0,
        ("connect_rest", "", "lab", "", "", "", ""): 0,
        ("groups", "", "lab", "", "", "", ""): 0,
        ("groups", "", "lab", "", "", "west", "east"): 0,
        ("groups", "", "lab", "", "", "east", "west"): 0,
    }


def test_findings_are_counted_for_each_connector_and_for_what_has_none():
    of_cluster = replace(FOUND, connector=None)
    rows = rows_of(catalog.FINDINGS, replace(EMPTY_SNAPSHOT, findings=(FOUND, FOUND, of_cluster)))
    name, severity = FOUND.name.value, FOUND.severity.value
    assert rows == {
        (FOUND.connect_cluster, FOUND.connector, name, severity): 2,
        (FOUND.connect_cluster, "", name, severity): 1,
    }


def test_only_optional_labels_are_empty():
    for family in collect_families(full(), BUILD, RELOADED):
        for values, _ in family.rows():
            empty = {
                name for name, value in zip(family.spec.labels, values, strict=True) if not value
            }
            assert empty <= family.spec.optional, family.spec.name
