"""
The demonstration of alerts: a record that a sink cannot read, from the first alert to the last, as
whoever is on call meets it.

Prometheus and Alertmanager are real ones, and the rules are those under alerts/.
"""

import shlex
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from lab.cluster.lab import Lab
from lab.cluster.options import LabOptions
from lab.demo.poison import describe_shortened
from lab.processes.jars import jars
from lab.product.alerting import Alert
from lab.product.remediating_daemon import SHORTENED
from lab.stories import poison
from lab.stories.alerted_poison import FAILED, POISON, REPEAT, Alerted, alerted, good
from lab.stories.sinks import NOT_JSON

NAME = "demo-invoices"
BECAUSE = "looked at the record"
LIFETIME_S_MAX = 12 * 3600.0


def run_demo(*, kafka_version: str, free_ports: bool, once: bool) -> int:
    """All of it; the exit status. Unless `once` a terminal is asked, and all stays up then."""
    by_hand = sys.stdin.isatty() and not once
    click.echo("getting Kafka's jars (the first time takes a minute) ...")
    jars(kafka_version)
    options = LabOptions(
        kafka_version=kafka_version, ports="free" if free_ports else "fixed", connectors=False
    )
    click.echo("starting two brokers and Connect ...")
    with tempfile.TemporaryDirectory(prefix="offsetwatch-demo-") as directory, Lab(options) as lab:
        click.echo(
            f"lab up in {lab.started_in_s:.1f} s; starting a sink, the daemon, Prometheus ..."
        )
        with alerted(lab, NAME, Path(directory) / "daemon") as it:
            _addresses(it)
            wrong = _acted(it, by_hand=by_hand)
            for name in wrong:
                click.echo(f"not as it should be: {name}")
            if by_hand:
                click.echo("\nall of it stays up to be looked at; Ctrl-C stops everything")
                _wait_for_signal()
    return 1 if wrong else 0


def _addresses(it: Alerted) -> None:
    click.echo(f"Prometheus    {it.alerting.prometheus}/alerts")
    click.echo(f"Alertmanager  {it.alerting.alertmanager}")
    click.echo(f"metrics       {it.daemon.product.url}/metrics")
    click.echo(f"control       {it.daemon.control_url}")
    click.echo(f"configuration {it.daemon.product.config}")
    click.echo("alerts wait seconds here where they wait minutes; their expressions are as always")
    for line in describe_shortened({**SHORTENED, "repeat": REPEAT}):
        click.echo(line)
    sys.stdout.flush()


def _acted(it: Alerted, *, by_hand: bool) -> list[str]:
    """Every step; what is not as it should be."""
    name = it.connector
    _step(f"{name} expects JSON, and is given: {NOT_JSON}")
    offset = it.meets()
    click.echo(f"its task has failed, at offset {offset} of {it.sink.topic}-0")

    _step("Prometheus has an alert, and Alertmanager hands it to offsetwatch")
    firing, active, hooks = it.alarmed()
    _print_alert("Prometheus", firing)
    _print_alert("Alertmanager", active)
    click.echo(f"offsetwatch_hooks_received_total: {_counts(hooks)}")
    incident = it.incident()
    click.echo(f"incident {incident['incident']}, by its own evidence: {incident['said']}")

    _step("the runbook says to restart what has failed, so somebody does, twice")
    click.echo(f"it has failed {it.restarted()} times by now, at the same record")
    _print_alert("Prometheus", it.alerting.raised(POISON, name)[0])

    _step("offsetwatch has looked at the record, and proposes to skip it; nothing was touched yet")
    plan = it.proposed()["plan_id"]
    _command(it, "plan", "list")

    _step("somebody with an operator's token has it carried out")
    agreed = () if by_hand else ("--yes", "--because", BECAUSE)
    status = _command(it, "plan", "approve", plan, *agreed)
    if status != 0 and by_hand:
        click.echo(f"{name} is left as it is, and the plan waits: plan show {plan}")
        return []
    if status != 0:
        return [f"plan approve {plan}: exit status {status}"]

    _step("the connector runs, and has written everything else")
    wrong = _written(it, offset)
    _step("the record is kept")
    wrong += _check_quarantine(it, offset)

    _step("the alert ends, and the incident is over")
    hooks = it.over(incident)
    click.echo(f"{FAILED} has ended in Prometheus and in Alertmanager")
    click.echo(f"offsetwatch_hooks_received_total: {_counts(hooks)}")
    click.echo(f"incident {incident['incident']} is over: the connector runs")
    if POISON in {alert.name for alert in it.alerting.alerts()}:
        click.echo(f"{POISON} looks back for a quarter of an hour, and stays for so long")
    return wrong


def _written(it: Alerted, offset: int) -> list[str]:
    lines = it.await_recovery()
    click.echo(f"{len(lines)} of {len(good()) + 1} records: all but offset {offset}")
    return [] if lines == [poison.line(name) for name in good()] else [f"{it.sink.path} differs"]


def _check_quarantine(it: Alerted, offset: int) -> list[str]:
    """Whether that record is in quarantine, to the byte, and no other. It is asked for on the
    daemon's host.
    """
    _on_host(it, "quarantine", "list")
    retained = it.list_quarantined()
    if [entry["offset"] for entry in retained] != [offset]:
        return [f"quarantine has {retained}"]
    copy = retained[0]["id"]
    _on_host(it, "quarantine", "get", copy[:12], "--raw")
    click.echo("\n")
    value = it.daemon.cli("quarantine", "get", copy, "--raw")
    return [] if value == NOT_JSON else ["the copy is another record"]


def _step(what: str) -> None:
    moment = datetime.now(tz=UTC).strftime("%H:%M:%SZ")
    click.echo(f"\n{moment}  {what}")
    sys.stdout.flush()


def _print_alert(sender: str, alert: Alert) -> None:
    subject = f" of {alert.connector}" if alert.connector else ""
    click.echo(f"{sender}: {alert.name}{subject} is {alert.state}")
    click.echo(f"  {alert.annotations['description']}")


def _counts(hooks: dict[str, int]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in sorted(hooks.items()))


def _command(it: Alerted, *verb: str) -> int:
    """One of offsetwatch's commands in this terminal, as somebody elsewhere types it."""
    click.echo(f"\n$ offsetwatch {shlex.join(it.typed(*verb))}")
    sys.stdout.flush()
    return it.in_terminal(*verb)


def _on_host(it: Alerted, *verb: str) -> None:
    """The same on the daemon's host."""
    config = str(it.daemon.product.config)
    click.echo(f"\n$ offsetwatch {shlex.join((*verb, '--config', config))}")
    sys.stdout.flush()
    it.daemon.product.in_terminal(*verb)


def _wait_for_signal() -> None:
    deadline = time.monotonic() + LIFETIME_S_MAX
    while time.monotonic() < deadline:
        time.sleep(1.0)
