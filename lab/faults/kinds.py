"""
What can go wrong around a daemon, one kind at a time: begun, held, and ended.

The seed draws kinds in decks, each kind once in a deck, so that few rounds meet all of them; who is
hit, and how, each kind takes from one number.
"""

import itertools
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from lab.cluster import connector_configs
from lab.cluster.build import BROKERS, WORKERS
from lab.faults.faulty_lab import Arena
from lab.faults.recording_proxy import Fault, Trouble

T = TypeVar("T")

# Of these the seed draws: how long a fault lasts, how long all is well then.
HELD_S = (0.5, 6.0)
# In one round of so many, longer than anything is believed that is not read again.
LONG_EVERY = 12
LONG_S = (22.0, 35.0)
ALIVE_S = (0.5, 3.0)
# A daemon that is killed begins anew, and what grows slowly is only seen in one that lives.
DECKS_PER_PROCESS = 4

# A worker that is silent for longer than its session is taken for lost.
SESSION_S = 6.0
MASS_NAMES = 4
MASS_PAUSE_S = 0.3
ANY_PATH = ".*"
HUGE_BYTES = (50 * 1024 * 1024, 30 * 1024 * 1024)
STEPS_S = (5.0, -5.0, -20.0, 3600.0, -3600.0, 86_400.0 * 400, -86_400.0 * 400)


class Kind(StrEnum):
    """What goes wrong. The names are those a report has."""

    BROKER = "broker killed"
    WORKER = "worker killed"
    DAEMON = "daemon killed"
    APART = "brokers cut off"
    MASS_CREATION = "connectors by the dozen"
    SILENT = "worker stopped"
    SLOW = "Connect slow"
    ERROR = "Connect 500"
    HTML = "Connect HTML"
    WRONG = "Connect wrong"
    HUGE = "Connect 50 MiB"
    BROKEN = "Connect broken off"
    CLOCK = "clock set"
    DISK = "disk full"
    FROZEN = "daemon stopped"


@dataclass(frozen=True, slots=True)
class Round:
    """One fault: `choice`, from 0 up to 1, says who and how; then so many seconds each."""

    kind: Kind
    choice: float
    held_s: float
    alive_s: float


def schedule(seed: int, rounds: int) -> tuple[Round, ...]:
    """The same rounds for the same seed; the first ones do not depend on how many follow."""
    chance = random.Random(seed)
    results: list[Round] = []
    for number in itertools.count():
        deck = [kind for kind in Kind if kind is not Kind.DAEMON or number % DECKS_PER_PROCESS == 0]
        chance.shuffle(deck)
        results += [_drawn(kind, chance) for kind in deck]
        if len(results) >= rounds:
            break
    return tuple(results[:rounds])


def _drawn(kind: Kind, chance: random.Random) -> Round:
    lasting = LONG_S if chance.randrange(LONG_EVERY) == 0 else HELD_S
    return Round(
        kind,
        choice=chance.random(),
        held_s=chance.uniform(*lasting),
        alive_s=chance.uniform(*ALIVE_S),
    )


def strike(arena: Arena, fault_round: Round) -> None:
    """Begin, hold and end it. The pauses are drawn, not awaited: what must hold holds at whatever
    moment they end.
    """
    if fault_round.kind is Kind.MASS_CREATION:
        _create_and_delete(arena, fault_round.held_s)
        return
    with FAULTS[fault_round.kind](arena, fault_round.choice):
        time.sleep(fault_round.held_s)


def one_of(many: Sequence[T], choice: float) -> T:
    """By a number from 0 up to 1."""
    return many[int(choice * len(many))]


# ---- processes ----------------------------------------------------------------------------------


@contextmanager
def _broker(arena: Arena, choice: float) -> Iterator[None]:
    with _killed(arena, one_of(BROKERS, choice)):
        yield


@contextmanager
def _worker(arena: Arena, choice: float) -> Iterator[None]:
    with _killed(arena, one_of(WORKERS, choice)):
        yield


@contextmanager
def _killed(arena: Arena, name: str) -> Iterator[None]:
    arena.lab.kill(name)
    yield
    arena.lab.start_process(name)


@contextmanager
def _daemon(arena: Arena, _: float) -> Iterator[None]:
    arena.product.kill_daemon()
    yield
    arena.product.start_daemon(ready=False)


@contextmanager
def _frozen(arena: Arena, _: float) -> Iterator[None]:
    arena.product.freeze_daemon()
    yield
    arena.product.wake_daemon()


@contextmanager
def _silent(arena: Arena, choice: float) -> Iterator[None]:
    pid = arena.lab.pids[one_of(WORKERS, choice)]
    os.kill(pid, signal.SIGSTOP)
    time.sleep(SESSION_S)
    yield
    os.kill(pid, signal.SIGCONT)


# ---- the network, and Connect -------------------------------------------------------------------


@contextmanager
def _apart(arena: Arena, choice: float) -> Iterator[None]:
    ways = tuple(itertools.product((BROKERS, BROKERS[:1], BROKERS[1:]), ("hold", "answers", "cut")))
    names, how = one_of(ways, choice)
    relays = [arena.brokers[name] for name in names]
    for relay in relays:
        {"hold": relay.hold, "answers": relay.hold_answers, "cut": relay.cut}[how]()
    yield
    for relay in relays:
        relay.release()


def _connect(*troubles: Trouble) -> Callable[[Arena, float], AbstractContextManager[None]]:
    """One of these, for all that is asked."""

    @contextmanager
    def begun(arena: Arena, choice: float) -> Iterator[None]:
        arena.connect.weather(one_of(troubles, choice))
        yield
        arena.connect.calm()

    return begun


def _said(body: bytes, *, status: int = 200, kind: str = "application/json") -> Trouble:
    return Trouble(Fault.ANSWER, "GET", ANY_PATH, status=status, body=body, content_type=kind)


def _huge(size: int) -> Trouble:
    return _said(b'{"file-source": "' + b"x" * size + b'"}')


_PAGE = b"<!doctype html><title>Sign in</title><p>This page is not for programs."
_WRONG = (
    b"[]",
    b"null",
    b'{"file-source": 7}',
    b'{"file-source": {"status": [], "info": null}}',
    b'{"file-source": {"status": {"name": "file-source", "connec',
    b'{"offsets": {"partition": 1}}',
    b"\xff\xfe{\x00}\x00",
    b"",
)


# ---- the machine --------------------------------------------------------------------------------


@contextmanager
def _clock(arena: Arena, choice: float) -> Iterator[None]:
    arena.step(one_of(STEPS_S, choice))
    yield
    arena.step(0.0)


@contextmanager
def _disk(arena: Arena, choice: float) -> Iterator[None]:
    """With something to write down: a sink that fails is an incident, and belongs in a journal."""
    name = f"failing-{int(choice * MASS_NAMES)}"
    arena.disk.fill(arena.product.daemon_pid)
    arena.lab.create(name, connector_configs.failing_sink(arena.lab.directory / f"{name}.out"))
    yield
    arena.disk.free(arena.product.daemon_pid)
    arena.lab.delete(name)


def _create_and_delete(arena: Arena, held_s: float) -> None:
    """Connectors made and deleted one after the other: each time the workers share all anew."""
    lab, ends = arena.lab, time.monotonic() + held_s
    there: list[str] = []
    for number in itertools.count():
        name = f"storm-{number % MASS_NAMES}"
        path = lab.directory / f"{name}.txt"
        path.touch()
        make = connector_configs.file_sink if number % 2 else connector_configs.file_source
        lab.create(name, make(path))
        there.append(name)
        if len(there) == MASS_NAMES or time.monotonic() >= ends:
            while there:
                lab.delete(there.pop())
            if time.monotonic() >= ends:
                return
        time.sleep(MASS_PAUSE_S)


FAULTS: Mapping[Kind, Callable[[Arena, float], AbstractContextManager[None]]] = {
    Kind.BROKER: _broker,
    Kind.WORKER: _worker,
    Kind.DAEMON: _daemon,
    Kind.APART: _apart,
    Kind.SILENT: _silent,
    Kind.SLOW: _connect(
        Trouble(Fault.DELAY, "GET", ANY_PATH, delay_s=4.0),
        Trouble(Fault.TRICKLE, "GET", ANY_PATH, delay_s=0.3),
    ),
    Kind.ERROR: _connect(
        _said(b'{"error_code":500,"message":"a rebalance"}', status=500),
        _said(_PAGE, status=500, kind="text/html"),
        _said(b"", status=503, kind="text/plain"),
        _said(b'{"error_code":409,"message":"a rebalance"}', status=409),
        _said(b'{"error_code":404,"message":"HTTP 404 Not Found"}', status=404),
    ),
    Kind.HTML: _connect(_said(_PAGE, kind="text/html"), _said(_PAGE)),
    Kind.WRONG: _connect(*map(_said, _WRONG)),
    Kind.HUGE: _connect(*map(_huge, HUGE_BYTES)),
    Kind.BROKEN: _connect(
        Trouble(Fault.HALF, "GET", ANY_PATH),
        Trouble(Fault.CUT_AFTER, "GET", ANY_PATH),
        Trouble(Fault.CUT_BEFORE, "GET", ANY_PATH),
    ),
    Kind.CLOCK: _clock,
    Kind.DISK: _disk,
    Kind.FROZEN: _frozen,
}
