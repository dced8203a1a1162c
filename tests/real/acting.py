"""Acted out: trouble that a daemon may do something about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from lab import Lab
from lab.kills.sample_connectors import records
from lab.product.remediating_daemon import Guarded
from lab.stories import Flow, begin, cluster_actions, end, poison, resets, sinks, stalls
from lab.stories.sinks import Sink
from lab.waiting import NotYet, until
from tests.real.seen import becomes, total
from tests.real.telling import (
    QUARANTINE,
    SEEN_S_MAX,
    Json,
    Story,
    Told,
    against,
    evidence_of,
    guarded,
    looks_again,
    plan_of,
    proposal,
    sink_of,
)


def sink_with_a_bad_record(lab: Lab, directory: Path) -> Told:
    """A person approves the first skip; the second, a thousand records later, needs nobody; the
    third does, since nobody says any more that no operator sets the connector back.
    """
    told = Told()
    with sink_of(lab, "act-sink") as sink:
        name = sink.connector
        rule = {"connect": "lab", "connectors": [name], "actions": ["skip_one"]}
        auto = {"mode": "auto", "auto": [{**rule, "unmanaged": True}]}
        with guarded(lab, directory, [name], **auto) as daemon:
            first = poison.one_bad(sink, after=poison.good(5, 3))
            plan = told.plans["first"] = daemon.proposed(name, "skip_one")
            told.values["first against"] = against(proposal(daemon, plan))
            told.values["approval"] = daemon.cli(
                *("plan", "approve", plan["plan_id"], "--yes", "--because", "looked at it")
            )
            told.ends["first"] = daemon.ended(plan)
            lab.wait_running(name)
            told.changes["first"] = daemon.changes(name)
            expected = [poison.line(at) for at in poison.good(0, 8)]
            told.values["first lines"] = (poison.delivered(sink, poison.good(0, 8)), expected)

            cluster_actions.produce_texts(lab.east, sink.topic, poison.good(8, 1000))
            knows(daemon, sink)
            second = poison.one_bad(sink, after=poison.good(1008, 3))
            approved = daemon.awaits(
                name, "approved by nobody", lambda at: at["record"] == "approved" and _policy(at)
            )
            told.values["second by"] = approved["by"]
            plan = told.plans["second"] = plan_of(daemon, name, approved["plan_id"])
            told.ends["second"] = daemon.ended(plan)
            lab.wait_running(name)
            told.changes["second"] = daemon.changes(name)
            expected = [poison.line(at) for at in poison.good(0, 1011)]
            told.values["second lines"] = (poison.delivered(sink, poison.good(0, 1011)), expected)

            told.values["poison"] = (first, second)
            told.values["quarantine"] = kept = kept_of(daemon, name)
            told.values["copies"] = [
                daemon.cli("quarantine", "get", at["id"], "--raw") for at in kept
            ]
            daemon.cli("journal", "verify")  # or it ends

            daemon.reconfigure(
                {"mode": "auto", "quarantine": QUARANTINE, "stop_on": [], "auto": [rule]}
            )
            cluster_actions.produce_texts(lab.east, sink.topic, poison.good(1011, 1000))
            knows(daemon, sink)
            poison.one_bad(sink)
            plan = told.plans["third"] = daemon.proposed(name, "skip_one")
            told.values["third against"] = against(proposal(daemon, plan))
            looks_again(daemon)
            told.values["third stands"] = plan_of(daemon, name, plan["plan_id"])["state"]
            told.changes["third"] = daemon.changes(name)
    return told


def knows(daemon: Guarded, sink: Sink) -> None:
    """Wait until the sink has taken everything and the daemon has seen that: where it stood at its
    first failure is else not where it stands at its next one.
    """
    sinks.taken(sink)
    log_end = cluster_actions.bounds(sink.lab.east, sink.topic)[1]

    def probe() -> None:
        found = daemon.product.get("/api/v1/connectors")["connectors"]
        seen = [row["committed"] for at in found for row in at["sink_partitions"]]
        if seen != [log_end]:
            raise NotYet(str(seen))

    until(f"{sink.topic} known", probe, timeout_s=SEEN_S_MAX)


def _policy(at: Json) -> bool:
    return bool(at["by"] == "policy")


def kept_of(daemon: Guarded, connector: str) -> list[Json]:
    """What stands in quarantine for it; all stories have one topic."""
    found = json.loads(daemon.cli("quarantine", "list", "--json"))
    return [at for at in found if at["connector"] == connector]


def mirror_with_a_large_record(lab: Lab, directory: Path) -> Told:
    """A record above max.request.size of MirrorMaker's producer, and good ones behind it."""
    told = Told()
    flow = begin(Flow(lab, "act-mirror"), records=10, config=stalls.LARGE_TOPIC)
    try:
        name = flow.connector
        with guarded(lab, directory, [name]) as daemon:
            poisoned = stalls.too_large(flow, restarts=1)
            plan = told.plans["skip"] = daemon.proposed(name, "skip_one")
            daemon.approve(plan)
            told.ends["skip"] = daemon.ended(plan)
            lab.wait_running(name)
            told.changes["skip"] = daemon.changes(name)
            until("all others copied", lambda: _copies(flow, 15), timeout_s=SEEN_S_MAX)
            upstream = records(lab.west, flow.topic)[0]
            del upstream[poisoned.offset]
            told.values["copied"] = (records(lab.east, flow.remote)[0], upstream)
            told.values["poison"] = poisoned.offset
            told.values["quarantine"] = kept_of(daemon, name)
            daemon.cli("journal", "verify")  # or it ends
    finally:
        end(flow)
    return told


def _copies(flow: Flow, n: int) -> None:
    if flow.copies() < n:
        raise NotYet(f"{flow.copies()} copies")


def mirror_that_copies_again(lab: Lab, directory: Path) -> Told:
    """An alert says so before we see it, and again when we do; it is stopped for what we found, and
    stays so until a person has it run.
    """
    told = Told()
    flow = begin(Flow(lab, "act-again"), records=30)
    try:
        name = flow.connector
        with guarded(lab, directory, [name], interval_s=8.0, stop_on=["recopy"]) as daemon:
            becomes(daemon.product, 29, "mm2_offset_sync_upstream_offset", topic=flow.topic)
            alarm = daemon.alert(name)
            looks_again(daemon)
            told.values["alert alone"] = (alarm.status_code, daemon.plans(name))
            resets.copied_again(flow)
            until("found by us", lambda: _found(daemon, "recopy"), timeout_s=SEEN_S_MAX)
            told.values["alert"] = daemon.alert(name, fingerprint="fedcba9876543210").status_code
            plan = told.plans["stop"] = daemon.proposed(name, "stop")
            told.values["evidence"] = evidence_of(daemon, plan)
            daemon.approve(plan)
            told.ends["stop"] = daemon.ended(plan)
            until("it is not found any more", lambda: _found(daemon), timeout_s=SEEN_S_MAX)
            told.values["alert later"] = daemon.alert(name, fingerprint="00ff00ff00ff00ff").json()
            looks_again(daemon, rounds=5)
            told.values["states"] = flow.states()
            told.values["held"] = total(
                daemon.product,
                "remediation_stopped_since_timestamp_seconds",
                connector=name,
            )
            lab.resume(name)
            lab.wait_running(name)
            daemon.awaits(name, "the incident is over", lambda _: _over(daemon, plan))
            looks_again(daemon)
            told.values["states later"] = flow.states()
            told.changes["all"] = daemon.changes(name)
            becomes(
                daemon.product,
                None,
                "remediation_stopped_since_timestamp_seconds",
                connector=name,
            )
    finally:
        end(flow)
    return told


def _found(daemon: Guarded, *names: str) -> None:
    """NotYet unless exactly these are found."""
    found = [at["name"] for at in daemon.product.get("/api/v1/findings")["findings"]]
    if set(names) != set(found) & ({*names} or {*found}):
        raise NotYet(str(found))


def _over(daemon: Guarded, plan: Json) -> bool:
    incident = proposal(daemon, plan)["plan"]["remedy"]["incident"]
    return any(
        at["record"] == "incident_over" and at["incident"] == incident for at in daemon.journal()
    )


ACTS: Mapping[str, Story] = {
    "sink": sink_with_a_bad_record,
    "mirror": mirror_with_a_large_record,
    "stop": mirror_that_copies_again,
}
