"""Runs: which connector, when its processes end, how the network and everybody else behave.

A Schedule says all of it, and the same schedule is the same run, byte by byte.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.fakes.connect_model import Fault, How, conflict, error, page
from tests.sim.world import CASES

RESTART, FAILOVER = "restart", "failover"
WAYS: Final = (RESTART, FAILOVER)


@dataclass(frozen=True)
class Happening:
    """Something that others do, so many seconds after the plan was approved."""

    after_s: float
    what: str
    number: float = 0.0


@dataclass(frozen=True)
class Schedule:
    """See the module.

    deaths      the moment at which each process ends, one after the other; the last one lives
    way         who goes on: the same place again, or another one
    faults      the n-th request that changes something -> what becomes of it
    torn_*      of what is written the second half is missing, and nobody says so
    full        (seconds, records): from when on so many records find the disk full
    skew        (seconds, seconds): from when on the wall clock is set by so much, for processes
                that begin after that: one that runs waits by a clock that nobody sets
    frozen      (moment, seconds): the first process stands still there for so long (SIGSTOP), and
                others do not; one of them comes to see whether it can go on in its place
    mode        as configured; `propose` has a person approve the plan
    lowered_s   seconds after which a person lowers it to observe
    skips_before, parked_elsewhere      what the journal has of earlier days (bounds.py)
    allowed     whether anybody has allowed the plan
    """

    case: str
    deaths: tuple[int, ...] = ()
    way: str = RESTART
    faults: tuple[tuple[int, Fault], ...] = ()
    happenings: tuple[Happening, ...] = ()
    full: tuple[float, int] | None = None
    skew: tuple[float, float] | None = None
    want: tuple[float, str] | None = None
    frozen: tuple[int, float] | None = None
    mode: str = "auto"
    lowered_s: float | None = None
    skips_before: int = 0
    parked_elsewhere: int = 0
    torn_backup: bool = False
    torn_copy: bool = False
    second_poison: bool = False
    allowed: bool = True
    seed: int | None = None

    @property
    def name(self) -> str:
        """By which it is repeated."""
        if self.seed is not None:
            return f"random:{self.seed}"
        if self.frozen is not None:
            moment, seconds = self.frozen
            return f"frozen:{CASES.index(self.case)}:{moment}:{seconds:.0f}"
        deaths = ".".join(str(death) for death in self.deaths)
        return f"crash:{CASES.index(self.case)}:{self.way}:{deaths}"


def named(name: str) -> Schedule:
    """The way back, of those not made by hand. Raises ValueError."""
    kind, _, rest = name.partition(":")
    if kind == "random":
        return random_schedule(int(rest))
    case, way, deaths = rest.split(":")
    if kind == "frozen":
        return Schedule(CASES[int(case)], frozen=(int(way), float(deaths)))
    return Schedule(
        CASES[int(case)], tuple(int(death) for death in deaths.split(".") if death), way
    )


VARIANTS: Final = (
    "late", "slow", "held", "lost", "dropped", "error applied", "error", "conflicts", "page",
    "half stop", "zombie", "lingering", "no group", "resume", "restart", "stop", "pause", "edit",
    "alter", "delete", "recreate", "reset", "truncate", "new topic", "rebalance", "no leader",
    "worker dies",
    "full", "skew", "abort", "interrupt", "reject", "frozen", "torn backup", "torn copy",
    "second poison", "outage", "not allowed", "slow job", "observe", "propose", "lowered",
    "skips before", "parked elsewhere",
)  # fmt: skip
_NUMBERS: Final = {
    "no leader": (1.0, 30.0),
    "worker dies": (1.0, 30.0),
    "held": (1.0, 80.0),
    "slow job": (1.0, 80.0),
    "zombie": (1.0, 250.0),
    "lingering": (1.0, 400.0),
    "alter": (-2.0, 3.0),
}


def random_schedule(seed: int) -> Schedule:
    """Of everything that can go wrong, some."""
    chance = random.Random(seed)
    case = chance.choices(CASES, (30, 20, 10, 10, 10, 10, 10))[0]
    schedule = Schedule(case, way=chance.choice(WAYS), seed=seed)
    deaths = tuple(chance.randrange(1, 90) for _ in range(chance.choice((0, 0, 1, 1, 2, 3))))
    schedule = replace(schedule, deaths=deaths)
    late = chance.random() < 0.5  # or something else that is slow: one of them is what Connect does
    for variant in chance.sample(VARIANTS, chance.choice((0, 1, 1, 2, 2, 3, 5))):
        if (variant in {"late", "slow"}) == late or variant not in SLOW:
            schedule = with_variant(schedule, variant, chance)
    return schedule


SLOW: Final = frozenset(("late", "slow", "held", "slow job"))


_FROM_THE_START: Final[dict[str, dict[str, Any]]] = {
    "torn backup": {"torn_backup": True},
    "torn copy": {"torn_copy": True},
    "second poison": {"second_poison": True},
    "not allowed": {"allowed": False},
    "observe": {"mode": "observe"},
    "propose": {"mode": "propose"},
}


def with_variant(schedule: Schedule, variant: str, chance: random.Random) -> Schedule:
    """One more thing that goes wrong, some time or other."""
    at_s = chance.choice((chance.uniform(0.0, 3.0), chance.uniform(0.0, 60.0)))
    if variant in _FROM_THE_START:
        return replace(schedule, **_FROM_THE_START[variant])
    match variant:
        case "full":
            return replace(schedule, full=(at_s, chance.randrange(1, 4)))
        case "skew":
            return replace(schedule, skew=(at_s, chance.choice((-3600.0, -100.0, 100.0, 3600.0))))
        case "frozen":
            seconds = chance.choice((chance.uniform(1.0, 60.0), chance.uniform(60.0, 900.0)))
            return replace(schedule, frozen=(chance.randrange(1, 90), seconds))
        case "abort" | "interrupt" | "reject":
            return replace(schedule, want=(at_s, variant))
        case "lowered":
            return replace(schedule, lowered_s=at_s)
        case "skips before":
            return replace(schedule, skips_before=chance.randrange(1, 5))
        case "parked elsewhere":
            return replace(schedule, parked_elsewhere=chance.randrange(1, 4))
        case (
            "late" | "slow" | "lost" | "dropped" | "error applied" | "error" | "conflicts" | "page"
        ):
            faults = (*schedule.faults, *_faults(variant, chance))
            return replace(schedule, faults=tuple(dict(faults).items()))
    low, high = _NUMBERS.get(variant, (0.0, 0.0))
    number = chance.uniform(low, high)
    happening = Happening(at_s, variant, float(round(number)) if variant == "alter" else number)
    return replace(schedule, happenings=(*schedule.happenings, happening))


def _faults(variant: str, chance: random.Random) -> list[tuple[int, Fault]]:
    number = chance.randrange(1, 6)
    delay_s = chance.uniform(0.5, 100.0)
    match variant:
        case "late":
            return [(number, Fault(How.LATE, delay_s=delay_s))]
        case "slow":
            return [(number, Fault(How.SLOW, delay_s=delay_s))]
        case "lost":
            return [(number, Fault(How.LOST))]
        case "dropped":
            return [(index, Fault(How.DROPPED)) for index in range(number, number + 3)]
        case "error applied":
            return [(number, error(applied=True))]
        case "error":
            return [(number, error(applied=False))]
        case "page":
            return [(number, page(chance.choice((200, 502)), applied=chance.random() < 0.5))]
    return [(index, conflict()) for index in range(number, number + chance.randrange(1, 8))]
