"""Answers of guards (pass, deny, unknown), and the stages at which guards are evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


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


@dataclass(frozen=True, slots=True)
class GuardAnswer:
    """Answer of one guard.

    guard   its name, which never changes
    number  as in the table of guards
    said    the fact it rests on, for users; without secrets
    """

    guard: str
    number: int
    answer: GuardResult
    said: str


class GuardReply(NamedTuple):
    """Reply of a guard's function: result and text."""

    answer: GuardResult
    said: str


def reply_pass_if(said: str, *, if_: bool) -> GuardReply:
    """Return a pass if `if_` holds, else a denial.

    `said` is true in both cases: it states the actual value beside the required one.
    """
    return GuardReply(GuardResult.PASS if if_ else GuardResult.DENY, said)


def reply_pass(said: str) -> GuardReply:
    """Return a pass."""
    return GuardReply(GuardResult.PASS, said)


def reply_deny(said: str) -> GuardReply:
    """Return a denial."""
    return GuardReply(GuardResult.DENY, said)


def reply_unknown(said: str) -> GuardReply:
    """Return an unknown result, which denies."""
    return GuardReply(GuardResult.UNKNOWN, said)
