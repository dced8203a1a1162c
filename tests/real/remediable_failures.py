"""Acted out: trouble that a daemon may do something about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from lab import Lab
from lab.cluster import connector_configs
from lab.kills.sample_connectors import records
from lab.product.remediating_daemon import Guarded
from lab.stories import Flow, begin, cluster_actions, end, poison, resets, sinks, stalls
from lab.stories.flow import failed_again, task_trace
from lab.stories.sinks import Sink
from lab.waiting import NotYet, until
from tests.real.daemon_series import becomes, total
from tests.real.remediation_stories import (
    QUARANTINE,
    VISIBLE_S_MAX,
    Json,
    Story,
    StoryResult,
    against,
    await_rounds,
    evidence_of,
    guarded,
    plan_of,
    proposal,
    sink_of,
)


def sink_with_a_bad_record(lab: Lab, directory: Path) -> StoryResult:
    """A person approves the first skip; the second, a thousand records later, needs nobody; the
    third does, since nobody says any more that no operator sets the connector back.
    """
    report = StoryResult()
    with sink_of(lab, "act-sink") as sink:
        name = sink.connector
        rule = {"connect": "lab", "connectors": [name], "actions": ["skip_one"]}
        auto = {"mode": "auto", "auto": [{**rule, "unmanaged": True}]}
        with guarded(lab, directory, [name], **auto) as daemon:
            first = poison.one_bad(sink, after=poison.good(5, 3))
            plan = report.plans["first"] = daemon.proposed(name, "skip_one")
            report.values["first against"] = against(proposal(daemon, plan))
            report.values["approval"] = daemon.cli(
                *("plan", "approve", plan["plan_id"], "--yes", "--because", "looked at it")
            )
            report.ends["first"] = daemon.ended(plan)
            lab.wait_running(name)
            report.changes["first"] = daemon.changes(name)
            expected = [poison.line(value) for value in poison.good(0, 8)]
            report.values["first lines"] = (poison.delivered(sink, poison.good(0, 8)), expected)

            cluster_actions.produce_texts(lab.east, sink.topic, poison.good(8, 1000))
            knows(daemon, sink)
            second = poison.one_bad(sink, after=poison.good(1008, 3))
            approved = daemon.awaits(
                name,
                "approved by nobody",
                lambda entry: entry["record"] == "approved" and _policy(entry),
            )
            report.values["second by"] = approved["by"]
            plan = report.plans["second"] = plan_of(daemon, name, approved["plan_id"])
            report.ends["second"] = daemon.ended(plan)
            lab.wait_running(name)
            report.changes["second"] = daemon.changes(name)
            expected = [poison.line(value) for value in poison.good(0, 1011)]
            report.values["second lines"] = (poison.delivered(sink, poison.good(0, 1011)), expected)

            report.values["poison"] = (first, second)
            report.values["quarantine"] = retained = list_quarantined(daemon, name)
            report.values["copies"] = [
                daemon.cli("quarantine", "get", entry["id"], "--raw") for entry in retained
            ]
            daemon.cli("journal", "verify")  # or it ends

            daemon.reconfigure(
                {"mode": "auto", "quarantine": QUARANTINE, "stop_on": [], "auto": [rule]}
            )
            cluster_actions.produce_texts(lab.east, sink.topic, poison.good(1011, 1000))
            knows(daemon, sink)
            poison.one_bad(sink)
            plan = report.plans["third"] = daemon.proposed(name, "skip_one")
            report.values["third against"] = against(proposal(daemon, plan))
            await_rounds(daemon)
            report.values["third stands"] = plan_of(daemon, name, plan["plan_id"])["state"]
            report.changes["third"] = daemon.changes(name)
    return report


def knows(daemon: Guarded, sink: Sink) -> None:
    """Wait until the sink has taken everything and the daemon has seen that: where it stood at its
    first failure is else not where it stands at its next one.
    """
    sinks.await_commits(sink)
    log_end = cluster_actions.bounds(sink.lab.east, sink.topic)[1]

    def probe() -> None:
        connectors = daemon.product.get("/api/v1/connectors")["connectors"]
        observed = [row["committed"] for item in connectors for row in item["sink_partitions"]]
        if observed != [log_end]:
            raise NotYet(str(observed))

    until(f"{sink.topic} known", probe, timeout_s=VISIBLE_S_MAX)


def _policy(entry: Json) -> bool:
    return bool(entry["by"] == "policy")


def list_quarantined(daemon: Guarded, connector: str) -> list[Json]:
    """What stands in quarantine for it; all stories have one topic."""
    document = json.loads(daemon.cli("quarantine", "list", "--json"))
    return [item for item in document if item["connector"] == connector]


def mirror_with_a_large_record(lab: Lab, directory: Path) -> StoryResult:
    """A record above max.request.size of MirrorMaker's producer, and good ones behind it."""
    report = StoryResult()
    flow = begin(Flow(lab, "act-mirror"), records=10, config=stalls.LARGE_TOPIC)
    try:
        name = flow.connector
        with guarded(lab, directory, [name]) as daemon:
            poisoned = stalls.too_large(flow, restarts=1)
            plan = report.plans["skip"] = daemon.proposed(name, "skip_one")
            daemon.approve(plan)
            report.ends["skip"] = daemon.ended(plan)
            lab.wait_running(name)
            report.changes["skip"] = daemon.changes(name)
            until("all others copied", lambda: _copies(flow, 15), timeout_s=VISIBLE_S_MAX)
            upstream = records(lab.west, flow.topic)[0]
            del upstream[poisoned.offset]
            report.values["copied"] = (records(lab.east, flow.remote)[0], upstream)
            report.values["poison"] = poisoned.offset
            report.values["quarantine"] = list_quarantined(daemon, name)
            daemon.cli("journal", "verify")  # or it ends
    finally:
        end(flow)
    return report


def _copies(flow: Flow, n: int) -> None:
    if flow.copies() < n:
        raise NotYet(f"{flow.copies()} copies")


def source_with_a_bad_line(lab: Lab, directory: Path) -> StoryResult:
    """A line that a transform cannot cast. The first is skipped once a person approves it, and the
    second one is named by a person.
    """
    report = StoryResult()
    name = topic = "act-lines"
    lab.create_topic("east", topic)
    directory.mkdir(parents=True)
    file = directory / "numbers"
    file.write_text("1\n2\n")
    cast = {
        "transforms": "cast",
        "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.cast.spec": "int32",
    }
    source = {"name": "files", "kind": "file", "interval": "1s", "connectors": [{"connect": "lab"}]}
    lab.create(name, connector_configs.file_source(file, topic=topic) | cast)
    try:
        lab.wait_running(name)
        _await_values(lab, topic, 2)
        with guarded(lab, directory, [name], sources=[source]) as daemon:
            _append(file, "three\n")
            task_trace(lab, name)
            await_rounds(daemon)  # the line is known to be next before it fails once more
            failed_again(lab, name, restarts=1)
            daemon.awaits(name, "too few signals", lambda entry: "quorum" in denying(entry))
            _append(file, "4\n")  # what waits grows, which is one more
            plan = report.plans["first"] = daemon.proposed(name, "skip_one")
            report.values["evidence"] = evidence_of(daemon, plan)
            daemon.approve(plan)
            report.ends["first"] = daemon.ended(plan)
            lab.wait_running(name)
            report.changes["first"] = daemon.changes(name)
            _await_values(lab, topic, 3)

            _append(file, "five\n6\n")
            task_trace(lab, name)
            end = len(b"1\n2\nthree\n4\nfive\n")
            partition = json.dumps({"filename": str(file)})
            daemon.cli(
                *("plan", "create", "skip", "--connector", name, "--because", "looked at it"),
                *("--partition", partition, "--offset", json.dumps({"position": end})),
            )
            plan = report.plans["second"] = daemon.proposed(name, "skip_one")
            daemon.approve(plan)
            report.ends["all"] = daemon.ended(plan)
            lab.wait_running(name)
            _await_values(lab, topic, 4)
            report.changes["all"] = daemon.changes(name)
            report.values["delivered"] = records(lab.east, topic)[0]
            report.values["quarantine"] = retained = list_quarantined(daemon, name)
            report.values["copies"] = [
                daemon.cli("quarantine", "get", entry["id"], "--raw") for entry in retained
            ]
            daemon.cli("journal", "verify")  # or it ends
    finally:
        lab.delete(name)
    return report


def denying(entry: Json) -> set[str]:
    """The guards for which an action was refused; none for any other record."""
    return against(entry) if entry["record"] == "refused" else set()


def _append(file: Path, lines: str) -> None:
    with file.open("a") as target:
        target.write(lines)


def _await_values(lab: Lab, topic: str, n: int) -> None:
    def check() -> None:
        values = records(lab.east, topic).get(0, [])
        if len(values) < n:
            raise NotYet(f"{len(values)} records")

    until(f"{n} records of {topic}", check, timeout_s=VISIBLE_S_MAX)


def mirror_that_copies_again(lab: Lab, directory: Path) -> StoryResult:
    """An alert says so before we see it, and again when we do; it is stopped for what we found, and
    stays so until a person has it run.
    """
    report = StoryResult()
    flow = begin(Flow(lab, "act-again"), records=30)
    try:
        name = flow.connector
        with guarded(lab, directory, [name], interval_s=8.0, stop_on=["recopy"]) as daemon:
            becomes(daemon.product, 29, "mm2_offset_sync_upstream_offset", topic=flow.topic)
            alarm = daemon.alert(name)
            await_rounds(daemon)
            report.values["alert alone"] = (alarm.status_code, daemon.plans(name))
            resets.copied_again(flow)
            until("found by us", lambda: _check_findings(daemon, "recopy"), timeout_s=VISIBLE_S_MAX)
            report.values["alert"] = daemon.alert(name, fingerprint="fedcba9876543210").status_code
            plan = report.plans["stop"] = daemon.proposed(name, "stop")
            report.values["evidence"] = evidence_of(daemon, plan)
            daemon.approve(plan)
            report.ends["stop"] = daemon.ended(plan)
            until(
                "it is not found any more", lambda: _check_findings(daemon), timeout_s=VISIBLE_S_MAX
            )
            report.values["alert later"] = daemon.alert(name, fingerprint="00ff00ff00ff00ff").json()
            await_rounds(daemon, rounds=5)
            report.values["states"] = flow.states()
            report.values["held"] = total(
                daemon.product,
                "remediation_stopped_since_timestamp_seconds",
                connector=name,
            )
            lab.resume(name)
            lab.wait_running(name)
            daemon.awaits(name, "the incident is over", lambda _: _over(daemon, plan))
            await_rounds(daemon)
            report.values["states later"] = flow.states()
            report.changes["all"] = daemon.changes(name)
            becomes(
                daemon.product,
                None,
                "remediation_stopped_since_timestamp_seconds",
                connector=name,
            )
    finally:
        end(flow)
    return report


def _check_findings(daemon: Guarded, *names: str) -> None:
    """NotYet unless exactly these are found."""
    results = [finding["name"] for finding in daemon.product.get("/api/v1/findings")["findings"]]
    if set(names) != set(results) & ({*names} or {*results}):
        raise NotYet(str(results))


def _over(daemon: Guarded, plan: Json) -> bool:
    incident = proposal(daemon, plan)["plan"]["remedy"]["incident"]
    return any(
        entry["record"] == "incident_over" and entry["incident"] == incident
        for entry in daemon.journal()
    )


ACTS: Mapping[str, Story] = {
    "sink": sink_with_a_bad_record,
    "mirror": mirror_with_a_large_record,
    "stop": mirror_that_copies_again,
    "lines": source_with_a_bad_line,
}
