"""From an alert to a remedy and back, over a real Prometheus and a real Alertmanager: what each of
them shows, what reaches the control listener, and what offsetwatch makes of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from lab import Lab
from lab.product.remediating_daemon import ALERTS, PERSON
from lab.stories import cluster_actions, poison
from lab.stories.alerted_poison import FAILED, GOOD_BEFORE, POISON, Alerted, alerted, good
from lab.stories.sinks import NOT_JSON
from tests.real.remediation_stories import SKIP, StoryResult, await_rounds, list_requests, plan_of

pytestmark = [pytest.mark.real, pytest.mark.full]

NAME = "alerted"
APPROVED = ("--yes", "--because", "looked at the record")
NOT_ALLOWED = 6


@pytest.fixture(scope="module")
def story(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoryResult]:
    with alerted(lab, NAME, tmp_path_factory.mktemp("alerted") / "daemon") as at:
        yield run_story(at)


def run_story(at: Alerted) -> StoryResult:
    report = StoryResult()
    observed = report.values
    observed["before"] = ([*at.alerting.alerts(), *at.alerting.active()], at.alerting.hooks())
    observed["poison"] = at.meets()
    observed["firing"], observed["active"], observed["hooks"] = at.alarmed()
    incident = observed["incident"] = at.incident()
    at.restarted()
    observed["suspected"] = at.alerting.raised(POISON, at.connector)
    plan = report.plans["skip"] = at.proposed()
    observed["misled"] = at.misled()
    await_rounds(at.daemon)
    observed["after misled"] = (
        plan_of(at.daemon, at.connector, plan["plan_id"])["state"],
        at.ended(incident),
    )
    observed["listed"] = at.run_verb("plan", "list").stdout
    report.changes["before"] = at.daemon.changes(at.connector)

    approve = ("plan", "approve", plan["plan_id"], *APPROVED)
    observed["by the alert"] = at.run_verb(*approve, by=ALERTS)
    observed["stands then"] = plan_of(at.daemon, at.connector, plan["plan_id"])["state"]
    observed["approval"] = at.run_verb(*approve)
    report.ends["skip"] = at.daemon.ended(plan)

    observed["lines"] = at.await_recovery()
    observed["committed"] = (
        at.sink.committed(),
        cluster_actions.bounds(at.sink.lab.east, at.sink.topic)[1],
    )
    observed["states"] = [task["state"] for task in at.sink.lab.status(at.connector)["tasks"]]
    observed["hooks later"] = at.over(incident)
    observed["left"] = [
        alert.name
        for alert in (*at.alerting.alerts(), *at.alerting.active())
        if alert.connector == at.connector
    ]
    await_rounds(at.daemon)
    report.changes["all"] = at.daemon.changes(at.connector)
    observed["plans"] = at.daemon.plans(at.connector)
    observed["quarantine"] = at.list_quarantined()
    observed["copies"] = [
        at.daemon.cli("quarantine", "get", row["id"], "--raw") for row in observed["quarantine"]
    ]
    observed["journal"] = at.daemon.journal()
    at.daemon.cli("journal", "verify")  # or it ends
    return report


def of_plan(report: StoryResult, kind: str) -> dict[str, Any]:
    (result,) = (
        item
        for item in report.values["journal"]
        if (item["plan_id"], item["record"]) == (report.plans["skip"]["plan_id"], kind)
    )
    return result


def test_a_sink_that_is_well_raises_no_alert_and_nothing_is_posted(story: StoryResult) -> None:
    alerts, hooks = story.values["before"]
    assert [alert for alert in alerts if alert.connector] == []
    assert hooks == {}


def test_the_alert_fires_and_alertmanager_has_it_with_the_connector_that_failed(
    story: StoryResult,
) -> None:
    for alert in (story.values["firing"], story.values["active"]):
        assert alert.name == FAILED
        assert alert.labels == {
            "connect_cluster": "lab",
            "connector": f"{NAME}-sink",
            "job": "offsetwatch",
            "severity": "critical",
        }
        assert "with the connector itself: 1." in alert.annotations["description"]
        assert alert.annotations["runbook_url"].endswith(f"/runbooks/{FAILED}.md")


def test_alertmanager_posts_it_with_its_token_and_it_is_taken_once(story: StoryResult) -> None:
    assert story.values["hooks"] == {"new": 1}


def test_there_is_an_incident_for_what_offsetwatch_itself_has_observed_fail(
    story: StoryResult,
) -> None:
    incident = story.values["incident"]
    assert (incident["connector"], incident["what"]) == (f"{NAME}-sink", "failed")
    assert "com.fasterxml.jackson.core.JsonParseException" in incident["said"]


def test_once_restarts_did_not_help_poison_is_suspected(story: StoryResult) -> None:
    assert [item.name for item in story.values["suspected"]] == [POISON, POISON]


def test_the_skip_of_that_record_is_proposed_for_that_incident_and_nothing_is_done(
    story: StoryResult,
) -> None:
    plan = story.plans["skip"]
    offset = story.values["poison"]
    answer = f"skip the record at offset {offset} of east/{NAME}-0 for {NAME}-sink"
    assert (plan["state"], plan["created_by"], plan["verb"]) == ("proposed", "detector", answer)
    remedy = of_plan(story, "proposed")["plan"]["remedy"]
    assert remedy["incident"] == story.values["incident"]["incident"]
    (row,) = (
        item for item in story.values["listed"].splitlines() if item.startswith(plan["plan_id"])
    )
    assert re.search(rf" {answer} +proposed +detector ", row)
    assert story.changes["before"] == []


def test_an_alert_that_ends_ends_no_incident_and_takes_no_plan_back(story: StoryResult) -> None:
    before, after = story.values["misled"]
    assert all(after[reason] > before.get(reason, 0) for reason in ("new", "resolved"))
    assert story.values["after misled"] == ("proposed", False)


def test_who_hands_in_alerts_approves_nothing(story: StoryResult) -> None:
    assert story.values["by the alert"].returncode == NOT_ALLOWED
    assert "your role does not allow this" in story.values["by the alert"].stderr
    assert story.values["stands then"] == "proposed"


def test_an_operator_approves_it_from_elsewhere_and_follows_it_to_its_end(
    story: StoryResult,
) -> None:
    done = story.values["approval"]
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert f"plan {story.plans['skip']['plan_id']} is approved" in done.stderr
    assert story.ends["skip"]["ending"] == "succeeded"
    approved = of_plan(story, "approved")
    assert approved["by"] == PERSON != of_plan(story, "proposed")["plan"]["created_by"]
    assert approved["plan_sha256"] == story.plans["skip"]["sha256"]


def test_exactly_that_record_is_skipped_and_nothing_else_is_requested(story: StoryResult) -> None:
    changes = story.changes["all"]
    assert list_requests(changes) == SKIP
    assert {change.reached for change in changes} == {1}
    assert json.loads(changes[1].body)["offsets"] == [
        {
            "partition": {"kafka_topic": NAME, "kafka_partition": 0},
            "offset": {"kafka_offset": story.values["poison"] + 1},
        }
    ]
    assert story.values["poison"] == GOOD_BEFORE
    assert story.values["lines"] == [poison.line(name) for name in good()]


def test_the_connector_runs_and_has_committed_everything_behind_it(story: StoryResult) -> None:
    assert story.values["states"] == ["RUNNING"]
    committed, log_end = story.values["committed"]
    assert committed == log_end == len(good()) + 1


def test_quarantine_holds_the_record_to_the_byte_and_no_other(story: StoryResult) -> None:
    (row,) = story.values["quarantine"]
    assert (row["topic"], row["partition"], row["offset"]) == (NAME, 0, story.values["poison"])
    assert story.values["copies"] == [NOT_JSON]


def test_the_alert_is_resolved_everywhere_and_the_incident_is_over(story: StoryResult) -> None:
    hooks = story.values["hooks later"]
    assert hooks["resolved"] >= 2
    assert hooks["new"] - hooks["resolved"] in {0, 1}  # POISON looks back for a quarter of an hour
    assert set(hooks) <= {"new", "resolved", "duplicate"}
    assert set(story.values["left"]) <= {POISON}
    incident = story.values["incident"]["incident"]
    of_it = [
        item["record"]
        for item in story.values["journal"]
        if item["plan_id"] == "control" and item.get("incident") == incident
    ]
    assert (of_it[0], of_it[-1]) == ("incident_seen", "incident_over")
    others = [
        plan for plan in story.values["plans"] if plan["plan_id"] != story.plans["skip"]["plan_id"]
    ]
    assert {(item["action"], item["state"]) for item in others} <= {("restart_failed", "expired")}
