"""Guards of plans: numbered predicates over facts, each a small pure function.

A guard passes, denies, or does not know, which denies too. It names the facts it rests on by its
parameters, so that one of them unknown is an unknown answer without its doing. Nothing here looks
anything up, and no guard is passed over because it was not asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from offsetwatch.remedy.guards.table import (
    AUTOMATIC_GUARDS,
    GUARDS,
    RULES_ELSEWHERE,
    GuardReach,
    PlanGuard,
)
from offsetwatch.remedy.model.facts import GuardFacts, SubjectKind
from offsetwatch.remedy.model.guard_answer import GuardAnswer, GuardResult, Stage, select_denying
from offsetwatch.remedy.model.plan import Action
from offsetwatch.remedy.model.policy import FLEET_SCOPE, Policy, scope_of

__all__ = [
    "GUARDS",
    "RULES_ELSEWHERE",
    "GuardAnswer",
    "GuardDescription",
    "GuardFacts",
    "GuardReach",
    "GuardResult",
    "Permission",
    "Policy",
    "Stage",
    "derive_permission",
    "describe_guards",
    "evaluate",
    "find_tripped_breakers",
]


def evaluate(
    facts: GuardFacts, policy: Policy, stage: Stage, *, by_person: bool
) -> tuple[GuardAnswer, ...]:
    """Return the answer of each guard that concerns this action, in the order of their numbers.

    An action without answers is not permitted.

    by_person   the plan is an operator's own: guards about evidence, about budgets and about acting
                without approval are skipped. An approval of the daemon's own plan is in its facts.
    """
    values = facts.by_name() | {"policy": policy, "stage": stage, "by_person": by_person}
    approved = facts.plan.approval is not None
    return tuple(
        _ask_guard(guard, values)
        for guard in GUARDS
        if stage in guard.stages
        and facts.target.action in guard.actions
        and facts.target.kind in guard.kinds
        and not _is_exempt(guard.reach, by_person=by_person, approved=approved)
    )


def _is_exempt(reach: GuardReach, *, by_person: bool, approved: bool) -> bool:
    match reach:
        case GuardReach.EVERYONE:
            return False
        case GuardReach.DETECTED:
            return by_person
        case GuardReach.AUTOMATIC:
            return by_person or approved


def _ask_guard(guard: PlanGuard, values: dict[str, Any]) -> GuardAnswer:
    missing = [name for name in guard.needs if values[name] is None]
    if missing:
        said = f"not known: {', '.join(missing)}"
        return GuardAnswer(guard.number, guard.name, GuardResult.UNKNOWN, said)
    result, said = guard.judge(**{name: values[name] for name in guard.takes})
    return GuardAnswer(guard.number, guard.name, result, said)


class Permission(StrEnum):
    """The permission that follows from the guards' answers.

    no          a guard denies it, whoever approves it
    would       the mode is observe, and no guard denies it that approval cannot satisfy
    propose     it needs an operator's approval
    act         it may be executed now
    """

    NO = "no"
    WOULD = "would"
    PROPOSE = "propose"
    ACT = "act"


def derive_permission(answers: Iterable[GuardAnswer]) -> Permission:
    """Return the permission that follows from the answers of `evaluate`; NO if there are none."""
    given = tuple(answers)
    if not given:
        return Permission.NO
    denying = select_denying(given)
    if not denying:
        return Permission.ACT
    firm = {
        answer.guard: answer.answer for answer in denying if answer.guard not in AUTOMATIC_GUARDS
    }
    if not firm:
        return Permission.PROPOSE
    return Permission.WOULD if firm == {"mode": GuardResult.DENY} else Permission.NO


def find_tripped_breakers(
    answers: Iterable[GuardAnswer], facts: GuardFacts
) -> tuple[tuple[str, str], ...]:
    """Return the scopes of the breakers that these answers open, each with its reason.

    A breaker opens when a budget is exceeded; only an operator closes it.
    """
    scopes = {
        "budget_connector": scope_of(facts.target.connect, facts.target.connector),
        "budget_fleet": FLEET_SCOPE,
    }
    return tuple(
        (scopes[answer.guard], answer.said)
        for answer in answers
        if answer.guard in scopes and answer.answer is GuardResult.DENY
    )


@dataclass(frozen=True, slots=True)
class GuardDescription:
    """A guard in words; `default` is its threshold under a policy."""

    number: int
    name: str
    law: str
    default: str
    stages: tuple[Stage, ...]
    actions: tuple[Action, ...]
    kinds: tuple[SubjectKind, ...]
    reach: GuardReach


def describe_guards(policy: Policy) -> Iterator[GuardDescription]:
    """Yield the description of each guard, in the order of their numbers."""
    for guard in GUARDS:
        yield GuardDescription(
            number=guard.number,
            name=guard.name,
            law=guard.law,
            default=guard.default.format(
                p=policy, b=policy.budgets, stop_on=", ".join(policy.stop_on)
            ),
            stages=tuple(stage for stage in Stage if stage in guard.stages),
            actions=tuple(action for action in Action if action in guard.actions),
            kinds=tuple(
                subject_kind for subject_kind in SubjectKind if subject_kind in guard.kinds
            ),
            reach=guard.reach,
        )
