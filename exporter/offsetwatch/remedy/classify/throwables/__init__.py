"""Tables of exception classes, for classification: what each class says of a failure.

A name said in full wins over a beginning, the longer beginning over the shorter one, and both over
an ending. Every kind of rule may forbid; only a name in full may allow.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

from offsetwatch.remedy.classify.throwables.jvm import JDBC, JVM
from offsetwatch.remedy.classify.throwables.kafka import KAFKA
from offsetwatch.remedy.classify.throwables.kinds import (
    FailureKind,
    ThrowableMeaning,
    ThrowableRule,
)
from offsetwatch.remedy.classify.throwables.places import PLACES
from offsetwatch.remedy.classify.throwables.plugins import (
    CONNECTORS,
    FORMATS,
    NAME_PATTERNS,
    REGISTRIES,
)

RULES: Final[tuple[ThrowableRule, ...]] = (
    *KAFKA,
    *JVM,
    *JDBC,
    *FORMATS,
    *REGISTRIES,
    *CONNECTORS,
    *NAME_PATTERNS,
)

_NAME_MEANINGS: Final = tuple(chain.from_iterable(((n, r.word) for n in r.names) for r in RULES))
_EXACT_NAMES: Final = {name: word for name, word in _NAME_MEANINGS if "*" not in name}
_PREFIXES: Final = tuple(
    sorted(
        ((name[:-1], word) for name, word in _NAME_MEANINGS if name.endswith("*")),
        key=lambda begins: -len(begins[0]),
    )
)
_SUFFIXES: Final = tuple((name[1:], word) for name, word in _NAME_MEANINGS if name.startswith("*"))
_FRAME_PREFIXES: Final = tuple(begins for begins, _ in PLACES)  # most calls are none of these


def find_meaning(name: str) -> ThrowableMeaning | None:
    """Return the meaning of a class; None if no rule has it."""
    whole = _EXACT_NAMES.get(name)
    if whole is not None:
        return whole
    for begins, word in _PREFIXES:
        if name.startswith(begins):
            return word
    for ends, word in _SUFFIXES:
        if name.endswith(ends):
            return word
    return None


def find_frame_veto(place: str) -> FailureKind | None:
    """Return the kind by which a call, `package.Class.method`, forbids a skip; None if none."""
    if not place.startswith(_FRAME_PREFIXES):
        return None
    return next(kind for begins, kind in PLACES if place.startswith(begins))
