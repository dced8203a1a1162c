"""What a class of exceptions says of a failure: the tables that classification reads.

A name said in full wins over a beginning, the longer beginning over the shorter one, and both over
an ending. Every kind of rule may forbid; only a name in full may allow.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

from offsetwatch.remedy.classify.throwables.jvm import JDBC, JVM
from offsetwatch.remedy.classify.throwables.kafka import KAFKA
from offsetwatch.remedy.classify.throwables.kinds import FailureKind, Rule, Word
from offsetwatch.remedy.classify.throwables.places import PLACES
from offsetwatch.remedy.classify.throwables.plugins import CONNECTORS, FORMATS, NAMES, REGISTRIES

RULES: Final[tuple[Rule, ...]] = (
    *KAFKA,
    *JVM,
    *JDBC,
    *FORMATS,
    *REGISTRIES,
    *CONNECTORS,
    *NAMES,
)

_NAMED: Final = tuple(chain.from_iterable(((n, r.word) for n in r.names) for r in RULES))
_WHOLE: Final = {name: word for name, word in _NAMED if "*" not in name}
_BEGINNINGS: Final = tuple(
    sorted(
        ((name[:-1], word) for name, word in _NAMED if name.endswith("*")),
        key=lambda begins: -len(begins[0]),
    )
)
_ENDINGS: Final = tuple((name[1:], word) for name, word in _NAMED if name.startswith("*"))
_ANY_PLACE: Final = tuple(begins for begins, _ in PLACES)  # most calls are none of these


def word_of(name: str) -> Word | None:
    """What the class says; None if nobody has read it."""
    whole = _WHOLE.get(name)
    if whole is not None:
        return whole
    for begins, word in _BEGINNINGS:
        if name.startswith(begins):
            return word
    for ends, word in _ENDINGS:
        if name.endswith(ends):
            return word
    return None


def veto_of_place(place: str) -> FailureKind | None:
    """What a call forbids, `package.Class.method`."""
    if not place.startswith(_ANY_PLACE):
        return None
    return next(kind for begins, kind in PLACES if place.startswith(begins))
