"""Guards of plans: numbered predicates over facts, each a small pure function.

A guard passes, denies, or does not know, which denies too. It names the facts it rests on by its
parameters, so that one of them unknown is an unknown answer without its doing. Nothing here looks
anything up, and no guard is passed over because it was not asked.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

from offsetwatch.remedy.guards import connector, daemon, evidence, limits
from offsetwatch.remedy.model.facts import GuardFacts, SubjectKind
from offsetwatch.remedy.model.guard_answer import (
    GuardAnswer,
    GuardReply,
    GuardResult,
    Stage,
    select_denying,
)
from offsetwatch.remedy.model.plan import Action
from offsetwatch.remedy.model.policy import FLEET_SCOPE, Policy, scope_of


class GuardReach(StrEnum):
    """The plans that a guard can deny.

    everyone    plans of anyone
    detected    plans that no operator has requested: an operator's plan rests on his own evidence
    automatic   plans that no operator has requested or approved; if no other guard denies such a
                plan, it is proposed
    """

    EVERYONE = "everyone"
    DETECTED = "detected"
    AUTOMATIC = "automatic"


@dataclass(frozen=True, slots=True)
class PlanGuard:
    """A guard and the conditions under which it is evaluated.

    number      of the design's table up to 50; later guards have higher numbers
    condition   one sentence: the condition that must hold
    default     its threshold, with fields of Policy in braces
    takes       the facts that it is called with
    needs       those of them without which its answer is unknown
    """

    number: int
    name: str
    condition: str
    judge: Callable[..., GuardReply]
    stages: tuple[Stage, ...]
    actions: tuple[Action, ...]
    kinds: tuple[SubjectKind, ...]
    reach: GuardReach
    default: str
    takes: tuple[str, ...]
    needs: tuple[str, ...]


_PLAN, _ADMIT, _ALTER = Stage.PLAN, Stage.ADMIT, Stage.ALTER
_ALWAYS = (_PLAN, _ADMIT, _ALTER)
_RESTART, _STOP, _SKIP = Action.RESTART_FAILED, Action.STOP, Action.SKIP_ONE
_RESTORE = Action.RESTORE
_ANY = (_RESTART, _STOP, _SKIP, _RESTORE)
_UNATTENDED = (_RESTART, _STOP, _SKIP)  # what may be done without a person
_MOVES = (_SKIP, _RESTORE)
_SINK, _MIRROR, _SOURCE = SubjectKind.SINK, SubjectKind.MIRROR, SubjectKind.SOURCE
_STORED = (_SOURCE, _MIRROR)  # in an offsets topic


def _guard(
    number: int,
    judge: Callable[..., GuardReply],
    stages: tuple[Stage, ...],
    actions: tuple[Action, ...],
    reach: GuardReach = GuardReach.EVERYONE,
    default: str = "",
    kinds: tuple[SubjectKind, ...] = tuple(SubjectKind),
) -> PlanGuard:
    hints = typing.get_type_hints(judge)
    takes = tuple(inspect.signature(judge).parameters)
    paragraph = (inspect.getdoc(judge) or "").partition("\n\n")[0]
    return PlanGuard(
        number=number,
        name=judge.__name__,
        condition=" ".join(paragraph.split()),
        judge=judge,
        stages=stages,
        actions=actions,
        kinds=kinds,
        reach=reach,
        default=default,
        takes=takes,
        needs=tuple(name for name in takes if type(None) not in typing.get_args(hints[name])),
    )


_DETECTED, _AUTOMATIC = GuardReach.DETECTED, GuardReach.AUTOMATIC

GUARDS: Final[tuple[PlanGuard, ...]] = (
    _guard(1, daemon.mode, _ALWAYS, _ANY, default="mode {p.mode.value}"),
    _guard(1, daemon.mode_auto, _ALWAYS, _UNATTENDED, _AUTOMATIC, "mode {p.mode.value}"),
    _guard(2, daemon.kill_switch, _ALWAYS, _ANY, default="{p.stop_file}"),
    _guard(2, daemon.pause, _ALWAYS, _ANY),
    _guard(3, daemon.auto_connector, (_PLAN, _ALTER), _UNATTENDED, _AUTOMATIC, "none is listed"),
    _guard(4, daemon.auto_action, _ALWAYS, _UNATTENDED, _AUTOMATIC, "nothing is listed"),
    _guard(5, daemon.operator, (_PLAN, _ADMIT), (_STOP, *_MOVES)),
    _guard(5, daemon.unmanaged, (_PLAN, _ADMIT), (_STOP, _SKIP), _AUTOMATIC, "unmanaged: false"),
    _guard(6, connector.version, (_PLAN,), (_STOP, *_MOVES), default="3.6"),
    _guard(6, connector.offsets_api, (_PLAN,), _MOVES),
    _guard(7, connector.same_connect_cluster, _ALWAYS, _ANY),
    _guard(8, connector.follows_its_group, (_PLAN,), (_SKIP,), kinds=(_SINK,)),
    _guard(8, connector.writes_before_it_commits, (_PLAN,), (_SKIP,), _AUTOMATIC, kinds=(_SINK,)),
    _guard(9, connector.wanted_running, (_PLAN, _ADMIT), _UNATTENDED),
    _guard(10, evidence.observed, (_PLAN,), _UNATTENDED, _DETECTED),
    _guard(
        11,
        evidence.repeated,
        (_PLAN,),
        (_SKIP,),
        _DETECTED,
        "{p.failures} failures, {p.failures_span_s:.0f} s, {p.restarts} restarts",
    ),
    _guard(12, evidence.poison_class, (_PLAN,), (_SKIP,), _DETECTED),
    _guard(13, evidence.no_veto, (_PLAN, _ADMIT), (_SKIP,), _DETECTED),
    _guard(14, evidence.identified, (_PLAN,), (_SKIP,), _DETECTED),
    _guard(15, connector.first_of_the_batch, (_PLAN, _ALTER), (_SKIP,), kinds=(_SINK,)),
    _guard(15, connector.first_that_exists, (_PLAN, _ALTER), (_SKIP,), kinds=_STORED),
    _guard(16, evidence.quorum, (_PLAN,), (_SKIP,), _DETECTED, f"{evidence.SIGNALS_MIN} signals"),
    _guard(
        17,
        evidence.alone,
        (_PLAN, _ADMIT),
        (_SKIP,),
        _DETECTED,
        f"fewer than {evidence.SIMILAR_FAILURES_MAX}",
    ),
    _guard(
        18,
        limits.mass_failure,
        _ALWAYS,
        _UNATTENDED,
        default="more than 3 and 10 %, or 3 and half; 900 s",
    ),
    _guard(
        19, limits.blast, (_ADMIT,), _ANY, default="{p.per_connect} per Connect, {p.total} in all"
    ),
    _guard(20, limits.cool_down, (_PLAN, _ADMIT), (_SKIP,), _DETECTED, "{p.cool_down_s:.0f} s"),
    _guard(
        21,
        limits.budget_connector,
        (_ADMIT,),
        (_SKIP,),
        _DETECTED,
        "{b.connector_hour} an hour, {b.connector_day} a day, {b.connector_week} in 7 days",
    ),
    _guard(
        22,
        limits.budget_fleet,
        (_ADMIT,),
        (_SKIP,),
        _DETECTED,
        "{b.fleet_hour} an hour, {b.fleet_day} a day",
    ),
    _guard(23, limits.one_record, (_PLAN,), (_SKIP,), default=f"{limits.RECORDS_PER_PLAN}"),
    _guard(24, connector.one_step, (_PLAN, _ALTER), (_SKIP,)),
    _guard(
        25, limits.progress, (_PLAN,), (_SKIP,), _AUTOMATIC, f"{limits.PROGRESS_RECORDS} records"
    ),
    _guard(26, connector.receipt, (_ALTER,), (_SKIP,)),
    _guard(27, connector.backup, (_ALTER,), _MOVES),
    _guard(28, connector.in_the_log, (_PLAN, _ALTER), (_SKIP,)),
    _guard(28, connector.same_topic, (_ADMIT, _ALTER), (_SKIP,)),
    _guard(29, connector.one_raw_key, (_PLAN, _ALTER), _MOVES, kinds=_STORED),
    _guard(
        30, connector.read_just_now, _ALWAYS, _ANY, default="60 s, 10 s before an offset is set"
    ),
    _guard(30, connector.views_agree, _ALWAYS, (_SKIP,)),
    # An operator restores over whatever there is.
    _guard(31, connector.fence, (_ADMIT, _ALTER), (_SKIP,)),
    _guard(31, connector.connector_stopped, (_ALTER,), _MOVES),
    _guard(31, connector.group_empty, (_ALTER,), _MOVES, kinds=(_SINK,)),
    _guard(32, connector.settled, (_ALTER,), _MOVES, default=f"{connector.SETTLE_S:.0f} s"),
    _guard(33, connector.nobody_else, (_ADMIT, _ALTER), _ANY),
    _guard(34, connector.same_config, (_ADMIT, _ALTER), _ANY),
    _guard(35, connector.same_incarnation, (_ADMIT, _ALTER), _ANY),
    _guard(36, connector.in_time, (_ALTER,), (_SKIP,), default="{p.stop_total_s:.0f} s"),
    _guard(38, daemon.plan_age, (_ADMIT,), _ANY, default="3600 s proposed, 600 s approved"),
    _guard(39, daemon.maintenance, (_PLAN, _ADMIT), _ANY),
    _guard(40, daemon.approver, (_ADMIT,), _ANY),
    _guard(41, daemon.approved_plan, (_ADMIT, _ALTER), _ANY),
    _guard(42, daemon.clock, _ALWAYS, _UNATTENDED, _AUTOMATIC, f"{daemon.CLOCK_SKEW_S:.0f} s"),
    _guard(43, daemon.journal, _ALWAYS, _ANY, default="100 MB"),
    _guard(44, daemon.start_grace, (_PLAN,), _UNATTENDED, _DETECTED, "{p.start_grace_s:.0f} s"),
    _guard(
        45,
        evidence.reported_long_enough,
        (_PLAN,),
        _UNATTENDED,
        _AUTOMATIC,
        "{p.alert_before_s:.0f} s",
    ),
    _guard(46, limits.breaker, (_PLAN, _ADMIT), (_RESTART, _SKIP)),
    _guard(47, limits.proven, (_PLAN,), _UNATTENDED, _AUTOMATIC, "1"),
    _guard(
        48,
        limits.small,
        (_PLAN,),
        (_STOP, _SKIP),
        _AUTOMATIC,
        f"{limits.TASKS_MAX} tasks, {limits.PARTITIONS_MAX} partitions",
    ),
    _guard(49, connector.not_internal, (_PLAN,), (_STOP, *_MOVES)),
    _guard(50, daemon.same_policy, (_ADMIT, _ALTER), _ANY),
    _guard(51, evidence.restarts_left, (_PLAN, _ADMIT), (_RESTART,), _DETECTED, "2, 300 s apart"),
    _guard(52, evidence.restart_helps, (_PLAN,), (_RESTART,), _DETECTED),
    _guard(53, evidence.harmful, (_PLAN,), (_STOP,), _DETECTED, "{stop_on}"),
    _guard(54, daemon.restored_by_a_person, _ALWAYS, (_RESTORE,)),
)

# What is not asked of a plan that a person has approved.
AUTOMATIC_GUARDS: Final = frozenset(
    guard.name for guard in GUARDS if guard.reach is GuardReach.AUTOMATIC
)


def evaluate(
    facts: GuardFacts, policy: Policy, stage: Stage, *, by_person: bool
) -> tuple[GuardAnswer, ...]:
    """Return the answer of each guard that concerns this action, in the order of their numbers.

    An action without answers is not permitted.

    by_person   the plan is an operator's own: guards about evidence, about budgets and about acting
                without approval are skipped. An approval of the daemon's own plan is in its facts.
    """
    values = index_facts(facts) | {"policy": policy, "stage": stage, "by_person": by_person}
    exempt: set[GuardReach] = set()
    if by_person:
        exempt = {GuardReach.DETECTED, GuardReach.AUTOMATIC}
    elif facts.plan.approval is not None:
        exempt = {GuardReach.AUTOMATIC}
    return tuple(
        _ask_guard(guard, values)
        for guard in GUARDS
        if stage in guard.stages
        and facts.target.action in guard.actions
        and facts.target.kind in guard.kinds
        and guard.reach not in exempt
    )


def index_facts(facts: GuardFacts) -> dict[str, Any]:
    """Return every fact by its own name."""
    facts_by_name: dict[str, Any] = {"now": facts.now}
    for each in fields(facts)[1:]:
        group = getattr(facts, each.name)
        facts_by_name |= {field.name: getattr(group, field.name) for field in fields(group)}
    return facts_by_name


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
    all_answers = tuple(answers)
    if not all_answers:
        return Permission.NO
    denying = select_denying(all_answers)
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
