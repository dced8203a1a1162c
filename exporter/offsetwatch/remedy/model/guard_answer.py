"""What a guard can say, and when it is asked. Read by guards.py and by every guard."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class GuardResult(StrEnum):
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
    answer: GuardResult
    said: str


class GuardReply(NamedTuple):
    """What a guard's own function says."""

    answer: GuardResult
    said: str


def reply_pass_if(said: str, *, if_: bool) -> GuardReply:
    """Passes if so. `said` is true either way: it says what is, beside what has to be."""
    return GuardReply(GuardResult.PASS if if_ else GuardResult.DENY, said)


def reply_pass(said: str) -> GuardReply:
    """Nothing speaks against it."""
    return GuardReply(GuardResult.PASS, said)


def reply_deny(said: str) -> GuardReply:
    """This speaks against it."""
    return GuardReply(GuardResult.DENY, said)


def reply_unknown(said: str) -> GuardReply:
    """Nothing tells, and so it denies."""
    return GuardReply(GuardResult.UNKNOWN, said)
