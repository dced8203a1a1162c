"""What a daemon that may act leaves alone, what it says of that, and what reached Connect."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cluster.connector_configs import FILE_SINK, FILE_SOURCE, MM2_HEARTBEAT, MM2_SOURCE
from lab.product.remediating_daemon import reasons
from lab.waiting import NotYet, until
from tests.real.stage import Stage
from tests.real.telling import SEEN_S_MAX, SKIP, Stories, asked, guarded, looks_again

pytestmark = [pytest.mark.real, pytest.mark.proof]


def test_a_batch_of_which_nothing_can_be_read_is_not_skipped_through(remedies: Stories) -> None:
    told = remedies["batches"]
    assert "more_than_one_record_fails" in reasons(told.refusals["all"])
    assert told.changes["ref-all-sink"] == []
    assert "skip_one" not in told.values["ref-all-sink plans"]
    assert "more_than_one_record_fails" in told.values["ref-all-sink explained"]


def test_a_schema_that_breaks_one_record_after_the_other_costs_two(remedies: Stories) -> None:
    told = remedies["schema"]
    assert [told.ends[nth]["ending"] for nth in ("first", "second")] == ["succeeded"] * 2
    assert asked(told.changes["all"]) == SKIP * 2
    assert "breaker" in reasons(told.refusals["third"])
    assert "breaker" in told.values["explained"]
    assert "lab/ref-schema-sink" in told.values["breakers"]


@pytest.mark.parametrize("where", ["put", "convert"])
def test_a_record_that_fails_because_a_server_is_away_is_not_skipped(
    remedies: Stories, where: str
) -> None:
    told = remedies["away"]
    assert told.values[f"{where} actions"] == ["restart_failed"]
    assert told.changes[f"{where} away"] == []
    said = told.values[f"{where} evidence"]["failure"]
    assert said.startswith(("connectivity: java.net.ConnectException", "registry_down: java.net"))


def test_a_bad_record_in_the_middle_of_a_batch_is_not_skipped(remedies: Stories) -> None:
    told = remedies["batches"]
    said = reasons(told.refusals["middle"])["committed_before_poison"]
    assert "good" in said
    assert told.changes["ref-middle-sink"] == []
    assert "skip_one" not in told.values["ref-middle-sink plans"]
    assert "committed_before_poison" in told.values["ref-middle-sink explained"]


def test_an_offset_is_not_set_once_a_person_has_resumed_the_connector(remedies: Stories) -> None:
    told = remedies["person"]
    changes = asked(told.changes["resumes"])
    # Seen before its tasks were back, it is asked for what the person has asked for.
    assert changes in (["PUT /stop"], ["PUT /stop", "PUT /resume"])
    assert told.ends["resumes"].get("cause") == "changed"


def test_a_plan_is_void_once_the_configuration_is_another(remedies: Stories) -> None:
    told = remedies["person"]
    assert told.changes["edits before"] == told.changes["resumes"]
    assert told.ends["edits before"]["record"] == "lapsed"
    assert "same_config" in told.ends["edits before"]["said"]


def test_an_offset_is_not_set_once_the_configuration_was_edited_meanwhile(
    remedies: Stories,
) -> None:
    told = remedies["person"]
    later = told.changes["edits meanwhile"][len(told.changes["edits before"]) :]
    assert asked(later) == ["PUT /stop", "PUT /resume"]
    assert "same_config" in told.ends["edits meanwhile"]["said"]
    committed, log_end = told.values["committed"]
    assert committed == log_end - 1


def test_an_offset_is_not_set_where_an_operator_has_the_connector_run_again(
    remedies: Stories,
) -> None:
    told = remedies["operator"]
    assert set(asked(told.changes["all"])) <= {"PUT /stop", "PUT /resume"}
    assert told.ends["approved"].get("ending") != "succeeded"
    assert told.values["committed"] == told.values["poison"]


def test_a_paused_connector_is_left_alone(remedies: Stories) -> None:
    told = remedies["paused"]
    name = "ref-paused-sink"
    assert told.changes[name] == []
    assert told.values[f"{name} approval"] in {"approved", "expired"}
    assert told.ends[name]["record"] == "lapsed"
    assert "wanted_running" in reasons(told.refusals["paused"])
    assert "wanted_running" in told.values[f"{name} explained"]


def test_a_plan_for_a_connector_that_was_made_again_is_void(remedies: Stories) -> None:
    told = remedies["paused"]
    name = "ref-again-sink"
    assert told.changes[name] == []
    assert told.values[f"{name} approval"] in {"approved", "expired"}
    assert told.ends[name]["record"] == "lapsed"
    said = told.ends[name]["said"]
    # The new one works for a moment: whoever looks just then sees that nothing is to be done.
    assert "same_incarnation" in said or said == "its incident is over"


def test_a_forged_or_replayed_alert_has_nothing_done(remedies: Stories) -> None:
    told = remedies["batches"]
    assert told.values["alerts"] == [401, 403, 202, 202, 202]
    assert told.values["alerted"] == told.changes["ref-well-sink"] == []


@pytest.mark.parametrize("how_far", ["just past", "far past"])
def test_a_person_cannot_have_an_offset_past_the_end(remedies: Stories, how_far: str) -> None:
    told = remedies["batches"]
    status, said = told.values[how_far]
    assert (status, said["error"]) == (422, "refused")
    assert told.values["ref-well-sink plans"] == []


def test_a_worker_that_is_killed_and_the_rebalance_after_it_are_no_reason_to_do_anything(
    watched: Stage, remedies: Stories, tmp_path: Path
) -> None:
    """With a daemon that may do everything by itself, to all connectors, and at once."""
    remedies.all_told()
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
        looks_again(daemon)
        lab.kill("connect-2")
        try:
            for name in names:
                moved(watched, name)
            looks_again(daemon, rounds=5)
        finally:
            lab.start_process("connect-2")
        for name in names:
            lab.wait_running(name)
        looks_again(daemon, rounds=5)
        assert daemon.journal() == []
        assert daemon.recorder.changes() == []


def moved(watched: Stage, connector: str) -> None:
    """Wait until a connector and its tasks run on the worker that is left."""

    def probe() -> None:
        status = watched.lab.status(connector)
        parts = [status["connector"], *status["tasks"]]
        left = {part["worker_id"] for part in parts} == {watched.lab.connect_urls[0].split("//")[1]}
        if not left or {part["state"] for part in parts} != {"RUNNING"} or len(parts) < 2:
            raise NotYet(str(status))

    until(f"{connector} moved", probe, timeout_s=SEEN_S_MAX)
