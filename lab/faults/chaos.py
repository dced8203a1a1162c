"""
Seeded rounds of faults under load: is every value the daemon serves meanwhile a true one?

    python -m lab.faults.chaos --rounds 200 --seed 7

In each round something goes wrong that the seed draws (kinds.py): brokers, workers and the daemon
are killed or stand still, networks part, Connect is slow, wrong or cut off, connectors come and go,
the clock is set, the disk is full. Once a second everything the daemon serves is kept; afterwards
each value is held against a complete record of what was true, and when (ground_truth_recorder.py,
verdicts.py). Absent values are fine, wrong ones are not. After each round all has to be read again,
by the same process unless the round was its death, and over all rounds that process may not grow.
"""

import json
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import click
import httpx

from lab.check import compare, verdicts
from lab.check.ground_truth import MIRRORED, Witnesses, witnessed
from lab.check.process_memory import MemoryRecorder, ProcessLifetime
from lab.check.sampler import Sampler
from lab.cluster import connector_configs
from lab.cluster.build import BROKERS, WORKERS
from lab.cluster.load import Load
from lab.errors import LabError
from lab.faults import kinds
from lab.faults.faulty_lab import ENDS_S, GROUPS_S, TIMEOUT_S, Arena, arena
from lab.faults.kinds import Kind, Round
from lab.kills import seeded_kills
from lab.kills.seeded_kills import commit, counts
from lab.product.offsetwatch import Product
from lab.waiting import NotYet, until

RATE_PER_S = 20.0
RECOVER_S_MAX = 120.0
COMPARED_MIN = 1000
JOURNAL_LINES_MAX = 10_000
# A sink that fails at everything, of which there was none by this name.
LAST = "failing-last"
# What took longer to come back is told as it happens.
SLOW_S = 15.0


@dataclass(slots=True)
class Report:
    """What a run showed. `unsound` says why it proves nothing, `unrecovered` what stayed broken."""

    seed: int
    commit: str
    disk: str = ""
    rounds: Counter[str] = field(default_factory=Counter)
    recovery_s: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By kind: how long after each round everything was read again."""
    samples: int = 0
    unanswered: int = 0
    outcome: verdicts.Verdicts = field(default_factory=verdicts.Verdicts)
    confirmed: int = 0
    """How many offsets of Connect's REST API agreed with what the daemon was held against."""
    processes: list[ProcessLifetime] = field(default_factory=list)
    lost_records: int = 0
    """Of the load, that no broker took; nothing the daemon could help."""
    unsound: list[str] = field(default_factory=list)
    unrecovered: list[str] = field(default_factory=list)

    @property
    def compared(self) -> int:
        """How many served values were held against the truth."""
        return self.outcome.compared.total()

    @property
    def grown(self) -> list[str]:
        """Which process took more and more."""
        return [line for incarnation in self.processes for line in incarnation.grown()]

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"seed {self.seed}, commit {self.commit}; {self.disk}"
        yield f"rounds {self.rounds.total()}: {counts(self.rounds)}"
        for kind, seconds in sorted(self.recovery_s.items()):
            middle, most = statistics.median(seconds), max(seconds)
            yield f"  read again after {kind}: {middle:.1f} s, at most {most:.1f} s"
        yield f"samples {self.samples}, unanswered {self.unanswered}"
        yield f"the load lost {self.lost_records} records to brokers that were away"
        yield f"the truth was confirmed by {self.confirmed} offsets that REST gave meanwhile"
        yield f"compared {self.compared}: {counts(self.outcome.compared)}"
        oldest = {kind: f"{age:.1f} s" for kind, age in sorted(self.outcome.oldest.items())}
        yield f"oldest value shown: {counts(oldest)}"
        yield from (
            f"memory and descriptors over {incarnation.line}" for incarnation in self.processes
        )
        yield f"wrong {len(self.outcome.wrong)}"
        yield from (f"  {line}" for line in self.outcome.wrong[:20])
        yield from (f"grown: {line}" for line in self.grown)
        yield from (f"not recovered: {line}" for line in self.unrecovered)
        yield from (f"proves nothing: {line}" for line in self.unsound)

    @property
    def sound(self) -> bool:
        """Everything compared was true, enough was compared, all recovered, nothing grew."""
        results = (self.outcome.wrong, self.unsound, self.unrecovered, self.grown)
        return not any(results) and self.compared >= COMPARED_MIN


def run(environment: Arena, *, seed: int, rounds: int) -> Report:
    """Strike, sample, recover, judge."""

    def strike(report: Report) -> None:
        for fault_round in kinds.schedule(seed, rounds):
            play(environment, fault_round, report)
            if report.unrecovered:
                return

    return observed(environment, strike, seed=seed, load_s_max=rounds * RECOVER_S_MAX)


def observed(
    environment: Arena, acts: Callable[[Report], None], *, seed: int, load_s_max: float
) -> Report:
    """Load the lab and look at the daemon while `acts` goes on; then see to it that all recovers,
    and judge what was served. `acts` says in the report what it could not get over.
    """
    report = _begun(environment, seed)
    product = environment.product
    sampler, watch = Sampler(product.url), MemoryRecorder(lambda: product.daemon_pid, time.time)
    with witnessed(environment.lab) as witnesses:
        load = Load(environment.lab, rate_per_s=RATE_PER_S, duration_s_max=load_s_max)
        try:
            load.start()
            _first_values(product)
            sampler.start()
            watch.start()
            acts(report)
            load.stop()
            if not report.unrecovered:
                report.unrecovered += _unrecovered(environment)
            report.unsound += [] if sampler.running else ["the sampler died"]
        finally:
            load.stop()
            sampler.stop()
            watch.stop()
        witnesses.east.catch_up()
        witnesses.west.catch_up()
    report.processes, report.lost_records = watch.processes, load.lost
    _judge(report, environment, sampler, witnesses)
    return report


def _begun(environment: Arena, seed: int) -> Report:
    """Of what is to be run there."""
    disk = (
        "its disk was filled"
        if environment.disk.mounted
        else "no disk to fill: it was forbidden to write"
    )
    return Report(seed=seed, commit=commit(), disk=disk)


def _judge(report: Report, environment: Arena, sampler: Sampler, witnesses: Witnesses) -> None:
    """Hold all that was served against all that was witnessed, once both have ended."""
    report.samples, report.unanswered = sampler.samples, sampler.unanswered
    report.unsound += witnesses.unsound()
    oldest = verdicts.compute_age_limits(ends_s=ENDS_S, groups_s=GROUPS_S, timeout_s=TIMEOUT_S)
    truth = witnesses.truth()
    truth.steps = tuple(environment.steps)
    report.outcome = verdicts.judge(sampler.claims, truth, oldest)
    rest = verdicts.judge(witnesses.rest_claims(), truth, oldest)
    report.confirmed = rest.compared.total() - len(rest.wrong)
    report.unsound += rest.wrong
    report.unsound += [] if report.confirmed else ["REST never answered"]


def play(environment: Arena, fault_round: Round, report: Report) -> None:
    """One round, and how it was got over."""
    before = environment.product.daemon_pid
    kinds.strike(environment, fault_round)
    ended = time.monotonic()
    report.rounds[fault_round.kind] += 1
    time.sleep(fault_round.alive_s)
    after = environment.product.daemon_pid
    if after is None or (after != before and fault_round.kind is not Kind.DAEMON):
        report.unrecovered.append(
            f"{fault_round}: the daemon ended\n{environment.product.evidence()}"
        )
        return
    last = ""

    def check() -> None:
        nonlocal last
        try:
            _check_read(environment.product)
        except NotYet as exc:
            last = str(exc)
            raise

    what = f"all read again after {fault_round}"
    try:
        until(what, check, timeout_s=RECOVER_S_MAX, evidence=environment.product.evidence)
    except LabError as exc:
        report.unrecovered.append(str(exc))
    took_s = time.monotonic() - ended
    report.recovery_s[fault_round.kind].append(took_s)
    number = report.rounds.total()
    click.echo(
        f"round {number}: {fault_round.kind} for {fault_round.held_s:.0f} s, "
        f"read again {took_s:.0f} s later"
        + (f", last of all {last[:200]}" if took_s > SLOW_S else ""),
        err=True,
    )


def _first_values(product: Product) -> None:
    """Wait until every kind of value is served once: a run that compares nothing proves nothing."""

    def check() -> None:
        flows = product.get("/api/v1/flows")["flows"]
        observations = [partition for flow in flows for partition in flow["partitions"]]
        known = [
            item for item in observations if None not in (item["lag_records"], item["committed"])
        ]
        if len(known) < len(MIRRORED):
            raise NotYet(f"{len(known)} of {len(MIRRORED)} lags")

    until("the first values", check, timeout_s=RECOVER_S_MAX, evidence=product.evidence)


def _check_read(product: Product) -> None:
    """NotYet while an input is down or not live, or the daemon does not call itself ready."""
    try:
        document = product.get("/api/v1/connectors")
    except (LabError, httpx.TransportError) as exc:
        raise NotYet(str(exc)) from exc
    down = [view for view in document["inputs"] if not (view["up"] and view["live"])]
    if down or not document["ready"]:
        reports = [f"{item['kind']} {item['input']}: {item['last_error']}" for item in down]
        raise NotYet("; ".join((*reports, *document["waiting_for"])))


def _unrecovered(environment: Arena) -> list[str]:
    """What is still broken long after the last round, in words; nothing was helped along."""
    lab, product = environment.lab, environment.product
    dead = sorted({*BROKERS, *WORKERS} - set(lab.pids))
    if dead:
        return [f"{', '.join(dead)} ended by themselves"]
    try:
        product.wait_ready(RECOVER_S_MAX)
        until("lag 0 everywhere", lambda: _check_caught_up(environment), timeout_s=RECOVER_S_MAX)
        for name in ("file-source", "file-sink", "mm2-source", "mm2-checkpoint", "mm2-heartbeat"):
            lab.wait_running(name)
        rest, brokers = compare.with_rest(product, lab), compare.with_brokers(product, lab)
        _check_journal(environment)
    except LabError as exc:
        return [str(exc)]
    results = [*rest.mismatches, *brokers.mismatches]
    # Five mirrored partitions, the file and its sink; a heartbeat and checkpoints on top.
    results += [tally.line for tally in (rest, brokers) if tally.compared < len(MIRRORED) + 1]
    return results


def _check_journal(environment: Arena) -> None:
    """It verifies, and what happens now is written down, however full its disk has been. Raises a
    LabError if not.
    """
    lab, product = environment.lab, environment.product

    def check() -> None:
        lines = product.cli("journal", "tail", "--lines", str(JOURNAL_LINES_MAX), "--json")
        if not any(load["record"].get("connector") == LAST for load in json.loads(lines)):
            raise NotYet(f"{LAST} is not in it")

    product.cli("journal", "verify")
    lab.create(LAST, connector_configs.failing_sink(lab.directory / f"{LAST}.out"))
    until("an incident in the journal", check, timeout_s=RECOVER_S_MAX, evidence=product.evidence)
    lab.delete(LAST)


def _check_caught_up(environment: Arena) -> None:
    ends = compare.log_ends(environment.lab, "west", MIRRORED)
    flows = environment.product.get("/api/v1/flows")["flows"]
    observations = {
        (partition["topic"], partition["partition"]): (
            partition["log_end"],
            partition["lag_records"],
        )
        for flow in flows
        for partition in flow["partitions"]
    }
    if observations != {where: (end, 0) for where, end in ends.items()}:
        raise NotYet(f"log ends are {ends}, (log end, lag) served are {observations}")
    connectors = environment.product.get("/api/v1/connectors")["connectors"]
    lags = [
        partition["lag_records"] for entry in connectors for partition in entry["sink_partitions"]
    ]
    if lags != [0]:
        raise NotYet(f"lag of the sink: {lags}")


def run_arena() -> AbstractContextManager[Arena]:
    """As run() wants it; ended and removed afterwards. Raises if its daemon, which nobody told to,
    has changed something.
    """
    return arena("chaos")


@click.command()
@click.option("--rounds", type=click.IntRange(1, 10_000), default=200, show_default=True)
@seeded_kills.seeded
def main(*, rounds: int, seed: int | None) -> None:
    """Do to a daemon whatever can go wrong, and compare every value with the truth."""

    def once(seed: int) -> Report:
        with run_arena() as built:
            return run(built, seed=seed, rounds=rounds)

    seeded_kills.report(f"{rounds} rounds", seed, once)


if __name__ == "__main__":
    main()
