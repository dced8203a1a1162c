"""Answers of guards (pass, deny, unknown), and the stages at which guards are evaluated."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec


class GuardResult(StrEnum):
    """Result of a guard. `UNKNOWN` denies, too."""

    PASS = "pass"  # noqa: S105 - no password
    DENY = "deny"
    UNKNOWN = "unknown"


class Stage(StrEnum):
    """Stage of a plan at which guards are evaluated.

    plan    before a plan is made for an incident
    admit   before its first step, when connector and budget are about to be taken
    alter   before the offset is changed, while the connector is stopped
    """

    PLAN = "plan"
    ADMIT = "admit"
    ALTER = "alter"


class GuardAnswer(msgspec.Struct, frozen=True):
    """Answer of one guard, as the journal has it.

    number  as in the table of guards
    guard   its name, which never changes
    said    the fact it rests on, for users; without secrets
    """

    number: int
    guard: str
    answer: GuardResult
    said: str


def select_denying(answers: Iterable[GuardAnswer]) -> tuple[GuardAnswer, ...]:
    """Return the answers of the guards that do not pass."""
    return tuple(answer for answer in answers if answer.answer is not GuardResult.PASS)


GuardReply = tuple[GuardResult, str]
"""Result of a guard's function, and the fact it rests on."""


def allow_if(said: str, *, if_: bool) -> GuardReply:
    """Return a pass if `if_` holds, else a denial.

    `said` is true in both cases: it states the actual value beside the required one.
    """
    return (GuardResult.PASS if if_ else GuardResult.DENY, said)


def allow(said: str) -> GuardReply:
    """Return a pass."""
    return (GuardResult.PASS, said)


def deny(said: str) -> GuardReply:
    """Return a denial."""
    return (GuardResult.DENY, said)


def unknown(said: str) -> GuardReply:
    """Return an unknown result, which denies."""
    return (GuardResult.UNKNOWN, said)
