"""Acted out: trouble that looks like a bad record and is none, or that somebody else sees to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lab import Lab
from lab.errors import LabError
from lab.product.remediating_daemon import Guarded
from lab.stories import cluster_actions, poison, sinks
from lab.stories.operators import Operator
from lab.stories.sinks import NOT_JSON, Sink
from lab.waiting import until
from tests.real.remediation_stories import (
    VISIBLE_S_MAX,
    Json,
    Story,
    StoryResult,
    await_rounds,
    evidence_of,
    guarded,
    plan_of,
    sink_of,
)


def server_away(lab: Lab, directory: Path) -> StoryResult:
    """A database and a registry are away, and every restart fails at the same record. Nothing is
    skipped; once the database is back, a restart that was proposed all along is all it takes.
    """
    report = StoryResult()
    with poison.Server() as database, poison.Server() as registry:
        put = poison.begin(lab, "ref-database", database, "put")
        convert = poison.begin(lab, "ref-registry", registry, "converter")
        names = {"put": put.sink.connector, "convert": convert.sink.connector}
        try:
            with guarded(lab, directory, list(names.values())) as daemon:
                for dependent in (put, convert):
                    poison.away(dependent, poison.good(5, 4))
                for stage, name in names.items():
                    report.plans[stage] = daemon.proposed(name, "restart_failed")
                    report.values[f"{stage} evidence"] = evidence_of(daemon, report.plans[stage])
                    report.values[f"{stage} actions"] = actions(daemon, name)
                    report.changes[f"{stage} away"] = daemon.changes(name)
                database.back()
                report.ends["restart"] = _restarted(daemon, names["put"])
                lab.wait_running(names["put"])
                sinks.await_commits(put.sink)
                report.changes["put"] = daemon.changes(names["put"])
                report.changes["convert"] = daemon.changes(names["convert"])
                report.values["rows"] = (database.lines, poison.good(0, 9))
        finally:
            for name in names.values():
                lab.delete(name)
    return report


def _restarted(daemon: Guarded, connector: str) -> Json:
    """How a restart ends that is approved. One that was proposed before somebody else restarted the
    connector is void, and proposed anew.
    """
    plan = daemon.proposed(connector, "restart_failed")
    daemon.approve(plan)
    end = daemon.ended(plan)
    if end["record"] == "lapsed":
        plan = daemon.proposed(connector, "restart_failed", after=plan["plan_id"])
        daemon.approve(plan)
        end = daemon.ended(plan)
    return end


def all_bad_and_in_the_middle(lab: Lab, directory: Path) -> StoryResult:
    """A batch in which nothing can be read, and one in which the fourth record cannot; beside them
    a sink that is well, of which an alert says otherwise, and a person asks for what cannot be.
    """
    report = StoryResult()
    with (
        sink_of(lab, "ref-all") as every,
        sink_of(lab, "ref-middle") as middle,
        sink_of(lab, "ref-well") as well,
    ):
        names = [sink.connector for sink in (every, middle, well)]
        with guarded(lab, directory, names) as daemon:
            poison.at_once(every, [NOT_JSON] * 6)
            poison.at_once(middle, [*poison.good(5, 3), NOT_JSON, *poison.good(8, 2)])
            report.refusals["all"] = daemon.refused(names[0], "more_than_one_record_fails")
            report.refusals["middle"] = daemon.refused(names[1], "committed_before_poison")
            _alerts(report, daemon, well)
            _past_the_end(report, daemon, well)
            for name in names:
                report.changes[name] = daemon.changes(name)
                report.values[f"{name} plans"] = actions(daemon, name)
            for name in names[:2]:
                report.values[f"{name} explained"] = _explained(daemon, name)
    return report


def actions(daemon: Guarded, connector: str) -> list[str]:
    """Of all plans for it there ever were; a restart is proposed for whatever fails once."""
    return sorted({plan["action"] for plan in daemon.plans(connector)})


def _alerts(report: StoryResult, daemon: Guarded, well: Sink) -> None:
    name = well.connector
    report.values["alerts"] = [
        daemon.alert(name, token="0" * 64).status_code,
        daemon.alert(name, token=daemon.operator_token).status_code,
        daemon.alert("no-such-connector").status_code,
        daemon.alert(name).status_code,
        daemon.alert(name).status_code,  # the same once more
    ]
    await_rounds(daemon)
    report.values["alerted"] = daemon.of(name)


def _past_the_end(report: StoryResult, daemon: Guarded, well: Sink) -> None:
    log_end = cluster_actions.bounds(well.lab.east, well.topic)[1]
    requests = {
        "action": "skip_one",
        "connect_cluster": "lab",
        "connector": well.connector,
        "because": "a test",
        "partition": {"kafka_topic": well.topic, "kafka_partition": 0},
    }
    for key, offset in (("just past", log_end + 1), ("far past", 10 * log_end)):
        answer = daemon.request_plan(
            {**requests, "offset": {"kafka_offset": offset}}, key.replace(" ", "-")
        )
        report.values[key] = (answer.status_code, answer.json())


def _explained(daemon: Guarded, connector: str) -> str:
    return daemon.cli("explain", connector, status=1)


def one_bad_record_after_the_other(lab: Lab, directory: Path) -> StoryResult:
    """Whoever writes has changed his mind about what he writes, and a person who approves whatever
    is proposed: after two skips the breaker is open.
    """
    report = StoryResult()
    with sink_of(lab, "ref-schema") as sink:
        name = sink.connector
        with guarded(lab, directory, [name]) as daemon:
            for nth in ("first", "second"):
                poison.one_bad(sink)
                plan = report.plans[nth] = daemon.proposed(name, "skip_one")
                daemon.approve(plan)
                report.ends[nth] = daemon.ended(plan)
                lab.wait_running(name)
                sinks.await_commits(sink)
            poison.one_bad(sink)
            report.refusals["third"] = daemon.refused(name, "breaker")
            await_rounds(daemon)
            report.changes["all"] = daemon.changes(name)
            report.values["explained"] = _explained(daemon, name)
            report.values["breakers"] = daemon.cli("breaker", "list", status=1)
    return report


def operator_intervenes(lab: Lab, directory: Path) -> StoryResult:
    """A person resumes the connector while a plan has it stopped, edits its configuration before
    another one begins, and edits it once more while that stands still.
    """
    report = StoryResult()
    with sink_of(lab, "ref-person") as sink:
        name = sink.connector
        with guarded(lab, directory, [name]) as daemon:
            poison.one_bad(sink)
            plan = report.plans["resumes"] = daemon.proposed(name, "skip_one")
            daemon.approve(plan)
            _stopped(daemon, plan)
            lab.resume(name)
            report.ends["resumes"] = daemon.ended(plan)
            report.changes["resumes"] = daemon.changes(name)

            _resolve_parked(daemon, plan, report.ends["resumes"])
            poison.fails(sink)
            plan = report.plans["edits before"] = daemon.proposed(name, "skip_one")
            lab.create(name, {**sink.config(), "errors.log.enable": "true"})
            daemon.approve(plan)
            report.ends["edits before"] = daemon.ended(plan)
            report.changes["edits before"] = daemon.changes(name)

            poison.fails(sink)
            plan = daemon.proposed(name, "skip_one", after=plan["plan_id"])
            report.plans["edits meanwhile"] = plan
            daemon.approve(plan)
            _stopped(daemon, plan)
            lab.create(name, {**sink.config(), "errors.retry.timeout": "0"})
            report.ends["edits meanwhile"] = daemon.ended(plan)
            report.changes["edits meanwhile"] = daemon.changes(name)
            report.values["committed"] = (
                sink.committed(),
                cluster_actions.bounds(lab.east, sink.topic)[1],
            )
            report.values["told"] = daemon.of(name)
    return report


def _resolve_parked(daemon: Guarded, plan: Json, ended: Json) -> None:
    """A plan that is parked holds its connector until a person says what is."""
    if ended["record"] == "parked":
        daemon.cli("plan", "resolve", plan["plan_id"], "--because", "I had it run again")


def _stopped(daemon: Guarded, plan: Json) -> None:
    """Wait until a plan has seen its connector stopped. Before, nobody can tell whether a person
    has resumed it or the stop is still to come about, and it is asked for again.
    """

    def is_stopped(entry: Json) -> bool:
        return bool(
            entry["plan_id"] == plan["plan_id"] and entry["record"] == "verified"
        ) and entry["said"].startswith("stopped")

    daemon.awaits(plan["connector"], "stopped by the plan", is_stopped)


def paused_and_recreated(lab: Lab, directory: Path) -> StoryResult:
    """A person pauses one connector, and deletes and makes again another one, before the plans for
    them are approved.
    """
    report = StoryResult()
    with sink_of(lab, "ref-paused") as paused, sink_of(lab, "ref-again") as again:
        names = [item.connector for item in (paused, again)]
        with guarded(lab, directory, names) as daemon:
            for sink in (paused, again):
                poison.one_bad(sink)
            plans = [daemon.proposed(name, "skip_one") for name in names]
            lab.request_pause(names[0])
            lab.delete(names[1])
            lab.create(names[1], again.config())
            for name, plan in zip(names, plans, strict=True):
                report.plans[name] = plan
                report.values[f"{name} approval"] = _approval(daemon, plan)
                report.ends[name] = daemon.ended(plan)
            report.refusals["paused"] = daemon.refused(names[0], "wanted_running")
            await_rounds(daemon)
            for name in names:
                report.changes[name] = daemon.changes(name)
                report.values[f"{name} explained"] = _explained(daemon, name)
    return report


def set_back_by_an_operator(lab: Lab, directory: Path) -> StoryResult:
    """An operator keeps the connector running, of which the daemon cannot know; a person approves
    that it is stopped and its offset moved.
    """
    report = StoryResult()
    with sink_of(lab, "ref-operator") as sink:
        name = sink.connector
        with guarded(lab, directory, [name]) as daemon, Operator(lab, name, sink.config()) as other:
            report.values["poison"] = poison.one_bad(sink)
            plan = report.plans["approved"] = daemon.proposed(name, "skip_one")
            daemon.approve(plan)
            report.ends["approved"] = daemon.ended(plan)
            until("set back", other.has_set_back, timeout_s=VISIBLE_S_MAX)
            await_rounds(daemon)
            poison.fails(sink)
            report.values["committed"] = sink.committed()
            report.changes["all"] = daemon.changes(name)
    return report


def _approval(daemon: Guarded, plan: Json) -> str:
    """`approved`, or how a plan stands that lapsed before the person came to it."""
    try:
        daemon.approve(plan)
    except LabError:
        return str(plan_of(daemon, plan["connector"], plan["plan_id"])["state"])
    return "approved"


REFUSES: Mapping[str, Story] = {
    "away": server_away,
    "batches": all_bad_and_in_the_middle,
    "schema": one_bad_record_after_the_other,
    "person": operator_intervenes,
    "paused": paused_and_recreated,
    "operator": set_back_by_an_operator,
}
