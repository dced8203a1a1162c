"""
The end of the demonstration: a record that a sink cannot read, and one that MirrorMaker cannot
write. Each is found, proposed to be skipped, approved, copied, skipped, and shown.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from lab.cluster.lab import Lab
from lab.kills.journal_reader import WAITS, JournalReader
from lab.kills.sample_connectors import at_once, records
from lab.moments import seconds
from lab.product.offsetwatch import Product, not_read_since
from lab.product.remediating_daemon import SHORTENED
from lab.stories import Flow, begin, cluster_actions, end, poison, sinks, stalls
from lab.stories.sinks import NOT_JSON, Sink
from lab.waiting import NotYet, until
from offsetwatch.config.schema.remediation import RemedyConfig

REMEDY: Mapping[str, object] = {
    "mode": "propose",
    "quarantine": {"kafka": "east", "topic": "offsetwatch.quarantine"},
    "stop_on": [],
    **SHORTENED,
}

T = TypeVar("T")

SINK, FLOW = "demo-invoices", "demo-orders"
COMMITTED = ("groups", "tail")  # kinds of inputs that tell what was committed
TICK_S = 1.0  # within so long a daemon judges what it has read
GOOD_BEFORE, GOOD_AFTER = 20, 5
PROPOSED_S_MAX = 180.0
OVER_S_MAX = 360.0
BECAUSE = "looked at the record"


@dataclass(frozen=True, slots=True)
class Staged:
    """Both connectors, and by connector the offset of the record that it cannot get past."""

    sink: Sink
    flow: Flow
    at: Mapping[str, int]

    @property
    def connectors(self) -> tuple[str, str]:
        """Their names."""
        return self.sink.connector, self.flow.connector


def configuration() -> str:
    """For the daemon's file."""
    return f"remedy: {json.dumps(REMEDY)}\n"


def describe_shortened(shortened: Mapping[str, object] = SHORTENED) -> Iterator[str]:
    """Which waiting guards are shorter here than by default."""
    baseline = RemedyConfig().model_dump()
    yield "guards that only wait are shortened for this demonstration, all others are as always:"
    for name, value in shortened.items():
        parts = value.items() if isinstance(value, dict) else [("", value)]
        for part, here in parts:
            default = baseline[name][part] if part else baseline[name]
            if here == default:
                continue
            setting = f"remedy.{name}{f'.{part}' if part else ''}"
            yield f"  {setting:<24} {here:>3} instead of {default:g}"


@contextmanager
def staged(product: Product, lab: Lab) -> Iterator[Staged]:
    """A sink and a MirrorMaker that worked, and then met a record each; gone afterwards."""
    sink, flow = Sink(lab, SINK), Flow(lab, FLOW)
    large_mib = cluster_actions.LARGE_BYTES // 1024**2
    click.echo(
        "\ntwo more connectors, and for each a record that it cannot get past:\n"
        f"  {sink.connector:<19} expects JSON, and is given: {NOT_JSON}\n"
        f"  {flow.connector:<19} is to copy {large_mib} MiB, and its producer sends 1 MiB at most\n"
        "each fails, is restarted, and fails again ..."
    )
    at_once([lambda: _works(sink), lambda: _copies(flow)])
    results: dict[str, int] = {}

    def in_sink() -> None:
        after = poison.good(GOOD_BEFORE, GOOD_AFTER)
        results[sink.connector] = poison.one_bad(
            sink, after=after, observed=lambda: await_failure(product, sink.connector)
        )

    def in_flow() -> None:
        results[flow.connector] = stalls.too_large(
            flow, restarts=1, observed=lambda: await_failure(product, flow.connector)
        ).offset

    try:
        at_once([in_sink, in_flow])
        poisoned = Staged(sink, flow, results)
        _await_failed_tasks(product, poisoned)
        yield poisoned
    finally:
        lab.delete(sink.connector)
        end(flow)


def _works(sink: Sink) -> None:
    sinks.begin(sink, records=GOOD_BEFORE)


def _copies(flow: Flow) -> None:
    begin(flow, records=GOOD_BEFORE, config=stalls.LARGE_TOPIC)


def await_failure(product: Product, connector: str) -> None:
    """Wait until the daemon finds its task failed, and has looked again at where it then stood.

    What it did before it was first seen, and then again within one look, counts as one failure; and
    so do two at different positions, where the first one's is from before its task's last commit.
    """

    def found() -> float:
        answer = product.get("/api/v1/findings")
        names = [(finding["name"], finding["connector"]) for finding in answer["findings"]]
        if ("task_failed", connector) not in names:
            raise NotYet(f"found wrong: {names}")
        return seconds(answer["at"])

    def read(since: float) -> float:
        answer = product.get("/api/v1/connectors")
        unread = [
            (item["kind"], item["input"])
            for item in not_read_since(answer, since)
            if item["kind"] in COMMITTED and item["up"]
        ]
        if unread:
            raise NotYet(f"not read since: {unread}")
        return seconds(answer["at"])

    def judged(since: float) -> None:
        moment = seconds(product.get("/api/v1/findings")["at"])
        if moment <= since + TICK_S:
            raise NotYet(f"shown as of {moment}")

    def awaits(what: str, probe: Callable[[], T]) -> T:
        answer = f"{connector} {what}"
        return until(answer, probe, timeout_s=PROPOSED_S_MAX, evidence=product.evidence)

    failed_at = awaits("found failed", found)
    read_at = awaits("read after it failed", lambda: read(failed_at))
    awaits("judged by what was read then", lambda: judged(read_at))


def _await_failed_tasks(product: Product, staged: Staged) -> None:
    """Wait until the daemon has seen their tasks end where they stay now."""

    def probe() -> None:
        states = {
            connector["name"]: [task["state"] for task in connector["tasks"]]
            for connector in product.get("/api/v1/connectors")["connectors"]
            if connector["name"] in staged.connectors
        }
        if states != {name: ["failed"] for name in staged.connectors}:
            raise NotYet(f"tasks are {states}")

    until("tasks shown failed", probe, timeout_s=PROPOSED_S_MAX, evidence=product.evidence)


def proposed(product: Product, staged: Staged) -> dict[str, str]:
    """Wait until a skip is proposed for both: plans by connector."""
    journal = JournalReader(product.state)

    def probe() -> dict[str, str]:
        journal.refresh()
        plans = {
            plan.connector: plan.plan_id
            for name in staged.connectors
            for plan in journal.of(name, WAITS)
            if plan.action == "skip_one"
        }
        if set(plans) != set(staged.connectors):
            raise NotYet(f"proposed for {sorted(plans) or 'none'}; {_against(product)}")
        return plans

    return until("proposals", probe, timeout_s=PROPOSED_S_MAX, evidence=product.evidence)


def _against(product: Product) -> str:
    """What speaks against whatever is not done, for whoever waits in vain."""
    remedies = product.get("/api/v1/overview")["remedies"] or {"refusals": []}
    return "; ".join(
        f"{refusal['connector']}: {refusal['action']} "
        f"{[guard['said'] for guard in refusal['guards']]}"
        for refusal in remedies["refusals"]
    )


def remedied(product: Product, lab: Lab, staged: Staged, *, by_hand: bool) -> list[str]:
    """
    Have both plans approved and carried out, and see what came of it. What is not as it should be.

    By hand the terminal is asked, as anybody would be, and may say no; else everything is agreed to
    beforehand.
    """
    plans = proposed(product, staged)
    click.echo(
        "\nthe daemon proposes to skip both; nothing was touched yet (to look for yourself, in"
    )
    click.echo(f"another terminal, add --config {product.config} to each command)")
    _command(product, "plan", "list")
    wrong: list[str] = []
    approved: list[str] = []
    agreed = () if by_hand else ("--yes", "--because", BECAUSE)
    for connector, plan in plans.items():
        if by_hand:
            click.echo(f"\nhave a look; without its name {connector} is left as it is")
        status = _command(product, "plan", "approve", plan, *agreed)
        if status == 0:
            approved.append(connector)
        elif by_hand:
            click.echo(f"{connector} is left as it is, and its plan waits: plan show {plan}")
        else:
            wrong.append(f"plan approve {plan} for {connector}: exit status {status}")
    for connector in approved:
        lab.wait_running(connector)
    if staged.sink.connector in approved:
        wrong += _written(staged)
    if staged.flow.connector in approved:
        wrong += _copied(lab, staged)
    return wrong + _check_quarantine(product, staged, approved)


def _written(staged: Staged) -> list[str]:
    """Whether every record but the bad one is in the sink's file, once and in order."""
    sink, good = staged.sink, poison.good(0, GOOD_BEFORE + GOOD_AFTER)
    lines = poison.delivered(sink, good)
    sinks.await_commits(sink)
    click.echo(
        f"\n{sink.connector} runs, and has written {len(lines)} of {len(good) + 1} records: all "
        f"but offset {staged.at[sink.connector]}"
    )
    return [] if lines == [poison.line(name) for name in good] else [f"{sink.path} differs"]


def _copied(lab: Lab, staged: Staged) -> list[str]:
    """Whether every record but the large one is in the remote topic, once and in order."""
    flow = staged.flow
    expected = records(lab.west, flow.topic)[0]
    del expected[staged.at[flow.connector]]

    def probe() -> None:
        if flow.copies() < len(expected):
            raise NotYet(f"{flow.copies()} of {len(expected)}")

    until(f"copies of {flow.topic}", probe, timeout_s=OVER_S_MAX)
    copies = records(lab.east, flow.remote)[0]
    click.echo(
        f"{flow.connector} runs, and has copied {len(copies)} of {len(expected) + 1} records: all "
        f"but offset {staged.at[flow.connector]}"
    )
    return [] if copies == expected else [f"{flow.remote} differs from {flow.topic}"]


def _check_quarantine(product: Product, staged: Staged, approved: Sequence[str]) -> list[str]:
    """Whether what was skipped is in quarantine, and to the byte what was produced."""
    _command(product, "quarantine", "list")
    copies = {
        load["connector"]: load
        for load in json.loads(product.cli("quarantine", "list", "--json"))
        if load["offset"] == staged.at.get(load["connector"])
    }
    wrong = [f"no copy for {name}" for name in approved if name not in copies]
    name = staged.sink.connector
    if name in approved and name in copies:
        copy = copies[name]["id"]
        _command(product, "quarantine", "get", copy[:12], "--raw")
        click.echo("\n")
        value = product.cli("quarantine", "get", copy, "--raw")
        wrong += [] if value == NOT_JSON else [f"the copy for {name} is another record"]
    return wrong


def well(product: Product, staged: Staged) -> None:
    """Wait until the daemon finds nothing wrong with either any more, and no lag."""

    def probe() -> None:
        findings = product.get("/api/v1/findings")["findings"]
        wrong = [item["name"] for item in findings if item["connector"] in staged.connectors]
        lags = list(_lags(product, staged))
        if wrong or any(lags) or None in lags:
            raise NotYet(f"{wrong}, lags {lags}")

    until("all well again", probe, timeout_s=OVER_S_MAX, evidence=product.evidence)


def _lags(product: Product, staged: Staged) -> Iterator[Any]:
    for connector in product.get("/api/v1/connectors")["connectors"]:
        if connector["name"] in staged.connectors:
            yield from (partition["lag_records"] for partition in connector["sink_partitions"])
    for flow in product.get("/api/v1/flows")["flows"]:
        if flow["connector"] in staged.connectors:
            yield from (partition["lag_records"] for partition in flow["partitions"])


def _command(product: Product, *arguments: str) -> int:
    """One of offsetwatch's commands in this terminal, as one would type it: its exit status."""
    typed = " ".join(f'"{argument}"' if " " in argument else argument for argument in arguments)
    click.echo(f"\n$ offsetwatch {typed}")
    return product.in_terminal(*arguments)
