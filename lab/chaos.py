"""
Seeded kills under load: is every value the daemon serves meanwhile a true one?

    python -m lab.chaos --kills 50 --seed 7

Brokers, workers and the daemon are killed (SIGKILL) and started again, in an order and with pauses
that the seed decides. Once a second everything the daemon serves is kept; afterwards each value is
held against a complete record of what was true, and when (witness.py, verdicts.py). Absent values
are fine, wrong ones are not. In the end all must have recovered, and nothing but what was killed
may have been started again. Called by the real tests and by `make proofs`.
"""

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import click

from lab import compare, killing, verdicts
from lab.cluster import Lab
from lab.errors import LabError
from lab.killing import commit, counts
from lab.load import Load
from lab.onlooker import onlooker
from lab.options import LabOptions
from lab.product import Product
from lab.sampler import Sampler
from lab.testimony import MIRRORED, witnessed
from lab.waiting import NotYet, until

DAEMON = "daemon"
VICTIMS = ("east", "west", "connect-1", "connect-2", DAEMON)
RATE_PER_S = 20.0
# Of these two the seed draws: how long what was killed stays dead, how long all then live.
DEAD_S = (0.2, 4.0)
ALIVE_S = (0.5, 5.0)
RECOVER_S_MAX = 120.0
COMPARED_MIN = 1000

ENDS_S, GROUPS_S, TIMEOUT_S = 1.0, 1.0, 2.0
FAST = f"tick_s: 0.2\nends_s: {ENDS_S}\n"
FAST_CONNECT = (
    f"poll: {{state_s: 1.0, groups_s: {GROUPS_S}, offsets_s: 10.0, timeout_s: {TIMEOUT_S}}}"
)


@dataclass(frozen=True, slots=True)
class Kill:
    """One blow: who, how long dead, how long to wait afterwards (seconds)."""

    victim: str
    dead_s: float
    alive_s: float


def schedule(seed: int, kills: int) -> tuple[Kill, ...]:
    """The same blows for the same seed; the first ones do not depend on how many follow."""
    chance = random.Random(seed)
    return tuple(
        Kill(
            victim=chance.choice(VICTIMS),
            dead_s=chance.uniform(*DEAD_S),
            alive_s=chance.uniform(*ALIVE_S),
        )
        for _ in range(kills)
    )


@dataclass(slots=True)
class Report:
    """What a run showed. `unsound` says why it proves nothing, `unrecovered` what stayed broken."""

    seed: int
    commit: str
    kills: Counter[str] = field(default_factory=Counter)
    samples: int = 0
    unanswered: int = 0
    outcome: verdicts.Verdicts = field(default_factory=verdicts.Verdicts)
    confirmed: int = 0
    """How many offsets of Connect's REST API agreed with what the daemon was held against."""
    unsound: list[str] = field(default_factory=list)
    unrecovered: list[str] = field(default_factory=list)

    @property
    def compared(self) -> int:
        """How many served values were held against the truth."""
        return self.outcome.compared.total()

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"seed {self.seed}, commit {self.commit}"
        yield f"kills {self.kills.total()}: {counts(self.kills)}"
        yield f"samples {self.samples}, unanswered {self.unanswered}"
        yield f"the truth was confirmed by {self.confirmed} offsets that REST gave meanwhile"
        yield f"compared {self.compared}: {counts(self.outcome.compared)}"
        oldest = {kind: f"{age:.1f} s" for kind, age in sorted(self.outcome.oldest.items())}
        yield f"oldest value shown: {counts(oldest)}"
        yield f"wrong {len(self.outcome.wrong)}"
        yield from (f"  {line}" for line in self.outcome.wrong[:20])
        yield from (f"not recovered: {line}" for line in self.unrecovered)
        yield from (f"proves nothing: {line}" for line in self.unsound)

    @property
    def sound(self) -> bool:
        """Everything compared was true, enough was compared, and all recovered."""
        faults = (self.outcome.wrong, self.unsound, self.unrecovered)
        return not any(faults) and self.compared >= COMPARED_MIN


def run(lab: Lab, product: Product, *, seed: int, kills: int) -> Report:
    """
    Kill, sample, recover, judge. The lab must run with its standard connectors, the daemon too.

    The lab needs two workers, and the product the settings FAST and FAST_CONNECT.
    """
    report = Report(seed=seed, commit=commit())
    sampler = Sampler(product.url)
    with witnessed(lab) as witnesses:
        load = Load(lab, rate_per_s=RATE_PER_S)
        try:
            load.start()
            _first_values(product)
            sampler.start()
            for kill in schedule(seed, kills):
                _strike(lab, product, kill)
                report.kills[kill.victim] += 1
                if not product.daemon_running:
                    break
            load.stop()
            report.unrecovered += _unrecovered(lab, product)
            report.unsound += [] if sampler.running else ["the sampler died"]
        finally:
            load.stop()
            sampler.stop()
        witnesses.east.catch_up()
        witnesses.west.catch_up()
    report.samples, report.unanswered = sampler.samples, sampler.unanswered
    report.unsound += witnesses.unsound()
    oldest = verdicts.ages(ends_s=ENDS_S, groups_s=GROUPS_S, timeout_s=TIMEOUT_S)
    truth = witnesses.truth()
    report.outcome = verdicts.judge(sampler.claims, truth, oldest)
    rest = verdicts.judge(witnesses.rest_claims(), truth, oldest)
    report.confirmed = rest.compared.total() - len(rest.wrong)
    report.unsound += rest.wrong
    report.unsound += [] if report.confirmed else ["REST never answered"]
    return report


def _first_values(product: Product) -> None:
    """Wait until every kind of value is served once: a run that compares nothing proves nothing."""

    def check() -> None:
        flows = product.get("/api/v1/flows")["flows"]
        seen = [at for flow in flows for at in flow["partitions"]]
        known = [at for at in seen if None not in (at["lag_records"], at["committed"])]
        if len(known) < len(MIRRORED):
            raise NotYet(f"{len(known)} of {len(MIRRORED)} lags")

    until("the first values", check, timeout_s=RECOVER_S_MAX, evidence=product.evidence)


def _strike(lab: Lab, product: Product, kill: Kill) -> None:
    """The pauses are drawn, not awaited: what must hold holds at whatever moment they end."""
    if kill.victim == DAEMON:
        product.kill_daemon()
    else:
        lab.kill(kill.victim)
    time.sleep(kill.dead_s)
    if kill.victim == DAEMON:
        product.start_daemon(ready=False)
    else:
        lab.start_process(kill.victim)
    time.sleep(kill.alive_s)


def _unrecovered(lab: Lab, product: Product) -> list[str]:
    """What is still broken long after the last blow, in words; nothing was helped along."""
    if not product.daemon_running:
        return [f"the daemon ended by itself\n{product.evidence()}"]
    dead = sorted(set(VICTIMS) - {DAEMON} - set(lab.pids))
    if dead:
        return [f"{', '.join(dead)} ended by themselves"]
    try:
        product.wait_ready(RECOVER_S_MAX)
        until("lag 0 everywhere", lambda: _check_caught_up(lab, product), timeout_s=RECOVER_S_MAX)
        for name in ("file-source", "file-sink", "mm2-source", "mm2-checkpoint", "mm2-heartbeat"):
            lab.wait_running(name)
        rest, brokers = compare.with_rest(product, lab), compare.with_brokers(product, lab)
    except LabError as exc:
        return [str(exc)]
    found = [*rest.mismatches, *brokers.mismatches]
    # Five mirrored partitions, the file and its sink; a heartbeat and checkpoints on top.
    found += [tally.line for tally in (rest, brokers) if tally.compared < len(MIRRORED) + 1]
    return found


def _check_caught_up(lab: Lab, product: Product) -> None:
    ends = compare.log_ends(lab, "west", MIRRORED)
    flows = product.get("/api/v1/flows")["flows"]
    seen = {
        (at["topic"], at["partition"]): (at["log_end"], at["lag_records"])
        for flow in flows
        for at in flow["partitions"]
    }
    if seen != {where: (end, 0) for where, end in ends.items()}:
        raise NotYet(f"log ends are {ends}, (log end, lag) served are {seen}")
    connectors = product.get("/api/v1/connectors")["connectors"]
    lags = [at["lag_records"] for entry in connectors for at in entry["sink_partitions"]]
    if lags != [0]:
        raise NotYet(f"lag of the sink: {lags}")


@contextmanager
def bed() -> Iterator[tuple[Lab, Product]]:
    """A lab and a daemon as run() wants them; ended and removed afterwards. Raises if that daemon,
    which nobody told to, has changed something.
    """
    with (
        killing.bed("chaos", LabOptions(workers=2)) as (lab, directory),
        onlooker(lab, directory, extra=FAST, connect_extra=FAST_CONNECT) as (product, _),
    ):
        yield lab, product


@click.command()
@click.option("--kills", type=click.IntRange(1, 1000), default=50, show_default=True)
@killing.seeded
def main(*, kills: int, seed: int | None) -> None:
    """Kill brokers, workers and the daemon under load, and compare every value with the truth."""

    def once(seed: int) -> Report:
        with bed() as (lab, product):
            return run(lab, product, seed=seed, kills=kills)

    killing.report(f"{kills} kills", seed, once)


if __name__ == "__main__":
    main()
