"""What a guard can say, and when it is asked. Read by guards.py and by every guard."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Answer(StrEnum):
    """Unknown denies, too."""

    PASS = "pass"  # noqa: S105 - no password
    DENY = "deny"
    UNKNOWN = "unknown"


class Stage(StrEnum):
    """When guards are asked.

    plan    before a plan is made of an incident
    admit   before its first step, when connector and budget are about to be taken
    alter   before the offset is changed, while the connector stands still
    """

    PLAN = "plan"
    ADMIT = "admit"
    ALTER = "alter"


@dataclass(frozen=True, slots=True)
class GuardAnswer:
    """What one guard said.

    guard   its name, which stays
    number  as in the table of guards
    said    the fact it rests on, for people; without secrets
    """

    guard: str
    number: int
    answer: Answer
    said: str


class Reply(NamedTuple):
    """What a guard's own function says."""

    answer: Answer
    said: str


def held(said: str, *, if_: bool) -> Reply:
    """Passes if so. `said` is true either way: it says what is, beside what has to be."""
    return Reply(Answer.PASS if if_ else Answer.DENY, said)


def passes(said: str) -> Reply:
    """Nothing speaks against it."""
    return Reply(Answer.PASS, said)


def denies(said: str) -> Reply:
    """This speaks against it."""
    return Reply(Answer.DENY, said)


def unknown(said: str) -> Reply:
    """Nothing tells, and so it denies."""
    return Reply(Answer.UNKNOWN, said)
