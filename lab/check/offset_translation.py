"""
Offset translation held against Kafka's own OffsetSyncStore, on seeded random commands.

Translations.java beside this file is the harness around the class: it is compiled on the spot,
against the jars of the lab.
"""

import argparse
import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lab.cluster.options import KAFKA_VERSION
from lab.errors import LabError
from lab.processes.jars import jars
from lab.processes.java import tool
from offsetwatch.state.mirror.offset_translation import OffsetSyncStore

HARNESS = Path(__file__).with_name("Translations.java")
ANSWER_S_MAX = 500.0
LONG_MAX = 2**63 - 1
# Where the distance between neighbours doubles, and where Java's arithmetic wraps.
_EDGES = tuple(2**bit + off for bit in range(63) for off in (-1, 0, 1) if 2**bit + off < LONG_MAX)


def commands(seed: int, count: int) -> Iterator[str]:
    """A run of random commands, made of stores that live for some hundreds each."""
    dice = random.Random(seed)
    built = 0
    while built < count:
        for command in _commands(dice, dice.randrange(20, 400)):
            yield command
            built += 1


def _commands(dice: random.Random, length: int) -> Iterator[str]:
    """One store: what it finds at its start, then records and questions mixed."""
    position = dice.choice((0, 0, dice.randrange(10_000), dice.choice(_EDGES)))
    steps = dice.choice(_STEPS)
    yield f"start {dice.choice(('true', 'false'))}"
    observed = []
    for _ in range(dice.choice((0, 1, 5, 60))):
        position = _next(dice, position, steps)
        observed.append(position)
        yield f"sync {position} {_downstream(dice, position)}"
        if dice.random() < 0.1:
            yield f"translate {position}"
    yield "end"
    for _ in range(length):
        if dice.random() < 0.02:
            steps = dice.choice(_STEPS)
        position = _next(dice, position, steps)
        observed.append(position)
        yield f"sync {position} {_downstream(dice, position)}"
        yield f"translate {_question(dice, observed)}"
        yield f"translate {_question(dice, observed)}"
        if dice.random() < 0.3:
            yield "array"


# How far apart syncs may be: contiguous, by offset.lag.max, by a flush, by anything.
_STEPS = ((1,), (1, 2), (100, 101), (1, 100, 3000), tuple(2**bit for bit in range(62)), (0, 1), ())


def _next(dice: random.Random, position: int, steps: tuple[int, ...]) -> int:
    if dice.random() < 0.005:
        return dice.choice((0, position // 2, max(0, position - 1), LONG_MAX, dice.choice(_EDGES)))
    step = dice.choice(steps) if steps else dice.randrange(2 ** dice.randrange(1, 40))
    return min(LONG_MAX, position + step)


def _downstream(dice: random.Random, upstream: int) -> int:
    return dice.choice((upstream, upstream // 3, dice.randrange(10_000), LONG_MAX))


def _question(dice: random.Random, observed: list[int]) -> int:
    near = dice.choice(observed) + dice.randrange(-3, 4)
    result = dice.choice(
        (near, dice.randrange(observed[-1] + 2), dice.choice(_EDGES), observed[-1])
    )
    return max(0, min(LONG_MAX, result))


def translate_by_product(lines: list[str]) -> Iterator[str]:
    """What our store answers to these commands."""
    store = OffsetSyncStore()
    for line in lines:
        match line.split():
            case ["start", must_read_to_end]:
                store = OffsetSyncStore(loads_all=must_read_to_end == "false")
            case ["end"]:
                store.started()
            case ["sync", upstream, downstream]:
                store.read(int(upstream), int(downstream))
            case ["translate", upstream]:
                result = store.translate(int(upstream))
                yield "none" if result is None else str(result)
            case _:
                yield " ".join(f"{up}:{down}" for up, down in store.syncs()) or "none"


def theirs(lines: list[str]) -> list[str]:
    """What Kafka's store answers. Raises LabError if it does not compile or fails."""
    classpath = f"{jars(KAFKA_VERSION)}/*"
    with tempfile.TemporaryDirectory() as classes:
        _run((tool("javac"), "-nowarn", "-cp", classpath, "-d", classes, str(HARNESS)), "")
        main = "org.apache.kafka.connect.mirror.Translations"
        # -ea: the class asserts its own invariants, and a fault of the harness should show.
        command = (tool("java"), "-ea", "-Xmx256m", "-cp", f"{classes}:{classpath}", main)
        return _run(command, "".join(f"{line}\n" for line in lines)).splitlines()


def _run(command: tuple[str, ...], answer: str) -> str:
    ended = subprocess.run(
        command, input=answer, capture_output=True, text=True, check=False, timeout=ANSWER_S_MAX
    )
    if ended.returncode:
        raise LabError(f"{command[0]}: {ended.stderr[-2000:]}")
    return ended.stdout


def difference(seed: int, count: int) -> str | None:
    """The first answer on which the two do not agree, with what led to it; None if there is none.

    Raises LabError if they do not answer the same number of questions.
    """
    lines = list(commands(seed, count))
    expected = theirs(lines)
    requests = [
        index for index, line in enumerate(lines) if line.startswith(("translate", "array"))
    ]
    answers = list(translate_by_product(lines))
    if not len(answers) == len(expected) == len(requests):
        raise LabError(f"{len(requests)} questions, {len(expected)} and {len(answers)} answers")
    for offset, want, got in zip(requests, expected, answers, strict=True):
        if want != got:
            near = lines[max(0, offset - 5) : offset + 1]
            return f"seed {seed}, line {offset}: {near}: {want}, not {got}"
    return None


def main() -> None:
    """`python -m lab.check.offset_translation --seed N --commands N`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--commands", type=int, default=1_000_000)
    options = parser.parse_args()
    result = difference(options.seed, options.commands)
    if result is not None:
        raise SystemExit(result)
    print(f"{options.commands} commands, seed {options.seed}: no difference")


if __name__ == "__main__":
    main()
