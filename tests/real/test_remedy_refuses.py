"""What a daemon that may act leaves alone, what it says of that, and what reached Connect."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cluster.connector_configs import FILE_SINK, FILE_SOURCE, MM2_HEARTBEAT, MM2_SOURCE
from lab.product.remediating_daemon import reasons
from lab.waiting import NotYet, until
from tests.real.observed_findings import Stage
from tests.real.remediation_stories import (
    SKIP,
    VISIBLE_S_MAX,
    Stories,
    await_rounds,
    guarded,
    list_requests,
)

pytestmark = [pytest.mark.real, pytest.mark.proof]


def test_a_batch_of_which_nothing_can_be_read_is_not_skipped_through(remedies: Stories) -> None:
    batches = remedies["batches"]
    assert "more_than_one_record_fails" in reasons(batches.refusals["all"])
    assert batches.changes["ref-all-sink"] == []
    assert "skip_one" not in batches.values["ref-all-sink plans"]
    assert "more_than_one_record_fails" in batches.values["ref-all-sink explained"]


def test_a_schema_that_breaks_one_record_after_the_other_costs_two(remedies: Stories) -> None:
    schema = remedies["schema"]
    assert [schema.ends[nth]["ending"] for nth in ("first", "second")] == ["succeeded"] * 2
    assert list_requests(schema.changes["all"]) == SKIP * 2
    assert "breaker" in reasons(schema.refusals["third"])
    assert "breaker" in schema.values["explained"]
    assert "lab/ref-schema-sink" in schema.values["breakers"]


@pytest.mark.parametrize("where", ["put", "convert"])
def test_a_record_that_fails_because_a_server_is_away_is_not_skipped(
    remedies: Stories, where: str
) -> None:
    report = remedies["away"]
    assert report.values[f"{where} actions"] == ["restart_failed"]
    assert report.changes[f"{where} away"] == []
    failure = report.values[f"{where} evidence"]["failure"]
    assert failure.startswith(
        ("connectivity: java.net.ConnectException", "registry_down: java.net")
    )


def test_a_bad_record_in_the_middle_of_a_batch_is_not_skipped(remedies: Stories) -> None:
    batches = remedies["batches"]
    committed = reasons(batches.refusals["middle"])["committed_before_poison"]
    assert "good" in committed
    assert batches.changes["ref-middle-sink"] == []
    assert "skip_one" not in batches.values["ref-middle-sink plans"]
    assert "committed_before_poison" in batches.values["ref-middle-sink explained"]


def test_an_offset_is_not_set_once_an_operator_has_resumed_the_connector(remedies: Stories) -> None:
    report = remedies["person"]
    changes = list_requests(report.changes["resumes"])
    # Seen before its tasks were back, it is asked for what the person has asked for.
    assert changes in (["PUT /stop"], ["PUT /stop", "PUT /resume"])
    assert report.ends["resumes"].get("cause") == "changed"


def test_a_plan_is_void_once_the_configuration_is_another(remedies: Stories) -> None:
    report = remedies["person"]
    assert report.changes["edits before"] == report.changes["resumes"]
    assert report.ends["edits before"]["record"] == "lapsed"
    assert "same_config" in report.ends["edits before"]["said"]


def test_an_offset_is_not_set_once_the_configuration_was_edited_meanwhile(
    remedies: Stories,
) -> None:
    report = remedies["person"]
    later = report.changes["edits meanwhile"][len(report.changes["edits before"]) :]
    assert list_requests(later) == ["PUT /stop", "PUT /resume"]
    assert "same_config" in report.ends["edits meanwhile"]["said"]
    committed, log_end = report.values["committed"]
    assert committed == log_end - 1


def test_an_offset_is_not_set_where_an_operator_has_the_connector_run_again(
    remedies: Stories,
) -> None:
    report = remedies["operator"]
    assert set(list_requests(report.changes["all"])) <= {"PUT /stop", "PUT /resume"}
    assert report.ends["approved"].get("ending") != "succeeded"
    assert report.values["committed"] == report.values["poison"]


def test_a_paused_connector_is_left_alone(remedies: Stories) -> None:
    paused = remedies["paused"]
    name = "ref-paused-sink"
    assert paused.changes[name] == []
    assert paused.values[f"{name} approval"] in {"approved", "expired"}
    assert paused.ends[name]["record"] == "lapsed"
    assert "wanted_running" in reasons(paused.refusals["paused"])
    assert "wanted_running" in paused.values[f"{name} explained"]


def test_a_plan_for_a_connector_that_was_recreated_is_void(remedies: Stories) -> None:
    paused = remedies["paused"]
    name = "ref-again-sink"
    assert paused.changes[name] == []
    assert paused.values[f"{name} approval"] in {"approved", "expired"}
    assert paused.ends[name]["record"] == "lapsed"
    answer = paused.ends[name]["said"]
    # The new one works for a moment: whoever looks just then sees that nothing is to be done.
    assert "same_incarnation" in answer or answer == "its incident is over"


def test_a_forged_or_replayed_alert_has_nothing_done(remedies: Stories) -> None:
    batches = remedies["batches"]
    assert batches.values["alerts"] == [401, 403, 202, 202, 202]
    assert batches.values["alerted"] == batches.changes["ref-well-sink"] == []


@pytest.mark.parametrize("how_far", ["just past", "far past"])
def test_an_operator_cannot_have_an_offset_past_the_end(remedies: Stories, how_far: str) -> None:
    batches = remedies["batches"]
    status, answer = batches.values[how_far]
    assert (status, answer["error"]) == (422, "refused")
    assert batches.values["ref-well-sink plans"] == []


def test_a_worker_that_is_killed_and_the_rebalance_after_it_are_no_reason_to_do_anything(
    watched: Stage, remedies: Stories, tmp_path: Path
) -> None:
    """With a daemon that may do everything by itself, to all connectors, and at once."""
    remedies.await_all()
    lab, names = watched.lab, [FILE_SOURCE, FILE_SINK, MM2_SOURCE, MM2_HEARTBEAT]
    everything = {
        "connect": "lab",
        "connectors": ["*"],
        "actions": ["restart_failed", "stop", "skip_one"],
        "unmanaged": True,
        "i_understand": True,
    }
    stop_on = ["recopy", "restart_loop", "poison_suspected", "rewound"]
    with guarded(lab, tmp_path, names, mode="auto", auto=[everything], stop_on=stop_on) as daemon:
        await_rounds(daemon)
        lab.kill("connect-2")
        try:
            for name in names:
                moved(watched, name)
            await_rounds(daemon, rounds=5)
        finally:
            lab.start_process("connect-2")
        for name in names:
            lab.wait_running(name)
        await_rounds(daemon, rounds=5)
        assert daemon.journal() == []
        assert daemon.recorder.changes() == []


def moved(watched: Stage, connector: str) -> None:
    """Wait until a connector and its tasks run on the worker that is left."""

    def probe() -> None:
        status = watched.lab.status(connector)
        parts = [status["connector"], *status["tasks"]]
        remaining = {part["worker_id"] for part in parts} == {
            watched.lab.connect_urls[0].split("//")[1]
        }
        if not remaining or {part["state"] for part in parts} != {"RUNNING"} or len(parts) < 2:
            raise NotYet(str(status))

    until(f"{connector} moved", probe, timeout_s=VISIBLE_S_MAX)
