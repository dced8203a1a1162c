"""What is tried: a name, the good records that bad ones are made of, and what must hold of any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.fuzz.mutations import mutated

Parts = tuple[bytes | None, ...]


@dataclass(frozen=True)
class Target:
    """`run` is given one record, part by part, and raises for what must not be.

    share    of all records, in proportion to the other targets
    pieces   what means something to these readers alone
    often    how often a part is changed
    """

    name: str
    seeds: Sequence[Parts]
    run: Callable[..., Any]
    share: int = 1
    pieces: Sequence[bytes] = ()
    often: Sequence[float] = ()
    _pools: list[list[bytes]] = field(default_factory=list, compare=False, repr=False)

    def __post_init__(self) -> None:
        assert self.seeds, self.name
        for number in range(len(self.seeds[0])):
            result = {seed[number] for seed in self.seeds} - {None}
            self._pools.append(sorted(result) or [b""])

    def record(self, seed: int, number: int) -> Parts:
        """The record of this number: always the same bytes."""
        random = Random(f"{self.name}/{seed}/{number}")
        parts = list(random.choice(self.seeds))
        for location, pool in enumerate(self._pools):
            chance = random.random()
            if chance < 0.02:
                parts[location] = None
            elif chance < 0.1:
                parts[location] = random.choice(pool)
            elif chance < (self.often[location] if self.often else 0.8):
                parts[location] = mutated(random, parts[location] or b"", pool, self.pieces)
        return tuple(parts)
