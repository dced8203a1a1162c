"""Table of all guards: their stages, actions, connector kinds and reach.

A guard that is not in the table is not evaluated.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from offsetwatch.remedy.guards import connector as world
from offsetwatch.remedy.guards import daemon as ourselves
from offsetwatch.remedy.guards import evidence
from offsetwatch.remedy.guards import limits as bounds
from offsetwatch.remedy.model.facts import SubjectKind
from offsetwatch.remedy.model.guard_answer import GuardReply, Stage
from offsetwatch.remedy.model.plan import Action


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
    law         one sentence: the condition that must hold
    default     its threshold, with fields of Policy in braces
    takes       the facts that it is called with
    needs       those of them without which its answer is unknown
    """

    number: int
    name: str
    law: str
    judge: Callable[..., GuardReply]
    stages: frozenset[Stage]
    actions: frozenset[Action]
    kinds: frozenset[SubjectKind]
    reach: GuardReach
    default: str
    takes: tuple[str, ...]
    needs: tuple[str, ...]


_PLAN, _ADMIT, _ALTER = Stage.PLAN, Stage.ADMIT, Stage.ALTER
_ALWAYS = (_PLAN, _ADMIT, _ALTER)
_RESTART, _STOP, _SKIP, _RESTORE = (
    Action.RESTART_FAILED,
    Action.STOP,
    Action.SKIP_ONE,
    Action.RESTORE,
)
_ANY = (_RESTART, _STOP, _SKIP, _RESTORE)
_UNATTENDED = (_RESTART, _STOP, _SKIP)  # what may be done without a person
_MOVES = (_SKIP, _RESTORE)
_SINK, _MIRROR, _SOURCE = SubjectKind.SINK, SubjectKind.MIRROR, SubjectKind.SOURCE
_STORED = (_MIRROR, _SOURCE)  # in an offsets topic
_LOGGED = (_SINK, _MIRROR)  # offsets are those of a log


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
        law=" ".join(paragraph.split()),
        judge=judge,
        stages=frozenset(stages),
        actions=frozenset(actions),
        kinds=frozenset(kinds),
        reach=reach,
        default=default,
        takes=takes,
        needs=tuple(name for name in takes if type(None) not in typing.get_args(hints[name])),
    )


_DETECTED, _AUTOMATIC = GuardReach.DETECTED, GuardReach.AUTOMATIC

GUARDS: Final[tuple[PlanGuard, ...]] = (
    _guard(1, ourselves.mode, _ALWAYS, _ANY, default="mode {p.mode.value}"),
    _guard(1, ourselves.mode_auto, _ALWAYS, _UNATTENDED, _AUTOMATIC, "mode {p.mode.value}"),
    _guard(2, ourselves.kill_switch, _ALWAYS, _ANY, default="{p.stop_file}"),
    _guard(2, ourselves.pause, _ALWAYS, _ANY),
    _guard(3, ourselves.auto_connector, (_PLAN, _ALTER), _UNATTENDED, _AUTOMATIC, "none is listed"),
    _guard(4, ourselves.auto_action, _ALWAYS, _UNATTENDED, _AUTOMATIC, "nothing is listed"),
    _guard(5, ourselves.operator, (_PLAN, _ADMIT), (_STOP, *_MOVES)),
    _guard(5, ourselves.unmanaged, (_PLAN, _ADMIT), (_STOP, _SKIP), _AUTOMATIC, "unmanaged: false"),
    _guard(6, world.version, (_PLAN,), (_STOP, *_MOVES), default="3.6"),
    _guard(6, world.offsets_api, (_PLAN,), _MOVES),
    _guard(7, world.same_place, _ALWAYS, _ANY),
    _guard(8, world.follows_its_group, (_PLAN,), (_SKIP,), kinds=(_SINK,)),
    _guard(8, world.writes_before_it_commits, (_PLAN,), (_SKIP,), _AUTOMATIC, kinds=(_SINK,)),
    _guard(8, world.opaque, (_PLAN,), (_SKIP,), kinds=(_SOURCE,)),
    _guard(9, world.wanted_running, (_PLAN, _ADMIT), _UNATTENDED),
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
    _guard(15, world.first_of_the_batch, (_PLAN, _ALTER), (_SKIP,), kinds=(_SINK,)),
    _guard(15, world.first_that_exists, (_PLAN, _ALTER), (_SKIP,), kinds=(_MIRROR,)),
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
        18, bounds.storm, _ALWAYS, _UNATTENDED, default="more than 3 and 10 %, or 3 and half; 900 s"
    ),
    _guard(
        19, bounds.blast, (_ADMIT,), _ANY, default="{p.per_connect} per Connect, {p.total} in all"
    ),
    _guard(20, bounds.cool_down, (_PLAN, _ADMIT), (_SKIP,), _DETECTED, "{p.cool_down_s:.0f} s"),
    _guard(
        21,
        bounds.budget_connector,
        (_ADMIT,),
        (_SKIP,),
        _DETECTED,
        "{b.connector_hour} an hour, {b.connector_day} a day, {b.connector_week} in 7 days",
    ),
    _guard(
        22,
        bounds.budget_fleet,
        (_ADMIT,),
        (_SKIP,),
        _DETECTED,
        "{b.fleet_hour} an hour, {b.fleet_day} a day",
    ),
    _guard(23, bounds.one_record, (_PLAN,), (_SKIP,), default=f"{bounds.RECORDS_PER_PLAN}"),
    _guard(24, world.one_step, (_PLAN, _ALTER), (_SKIP,), kinds=_LOGGED),
    _guard(
        25, bounds.progress, (_PLAN,), (_SKIP,), _AUTOMATIC, f"{bounds.PROGRESS_RECORDS} records"
    ),
    _guard(26, world.receipt, (_ALTER,), (_SKIP,), kinds=_LOGGED),
    _guard(27, world.backup, (_ALTER,), _MOVES),
    _guard(28, world.in_the_log, (_PLAN, _ALTER), (_SKIP,), kinds=_LOGGED),
    _guard(28, world.same_topic, (_ADMIT, _ALTER), (_SKIP,), kinds=_LOGGED),
    _guard(29, world.one_raw_key, (_PLAN, _ALTER), _MOVES, kinds=_STORED),
    _guard(30, world.read_just_now, _ALWAYS, _ANY, default="60 s, 10 s before an offset is set"),
    _guard(30, world.views_agree, _ALWAYS, (_SKIP,)),
    _guard(31, world.fence, (_ADMIT, _ALTER), (_SKIP,)),  # a person restores over whatever there is
    _guard(31, world.stands_still, (_ALTER,), _MOVES),
    _guard(31, world.group_empty, (_ALTER,), _MOVES, kinds=(_SINK,)),
    _guard(32, world.settled, (_ALTER,), _MOVES, default=f"{world.SETTLE_S:.0f} s"),
    _guard(33, world.nobody_else, (_ADMIT, _ALTER), _ANY),
    _guard(34, world.same_config, (_ADMIT, _ALTER), _ANY),
    _guard(35, world.same_incarnation, (_ADMIT, _ALTER), _ANY),
    _guard(36, world.in_time, (_ALTER,), (_SKIP,), default="{p.stop_total_s:.0f} s"),
    _guard(38, ourselves.plan_age, (_ADMIT,), _ANY, default="3600 s proposed, 600 s approved"),
    _guard(39, ourselves.maintenance, (_PLAN, _ADMIT), _ANY),
    _guard(40, ourselves.approver, (_ADMIT,), _ANY),
    _guard(41, ourselves.approved_plan, (_ADMIT, _ALTER), _ANY),
    _guard(
        42, ourselves.clock, _ALWAYS, _UNATTENDED, _AUTOMATIC, f"{ourselves.CLOCK_SKEW_S:.0f} s"
    ),
    _guard(43, ourselves.journal, _ALWAYS, _ANY, default="100 MB"),
    _guard(44, ourselves.start_grace, (_PLAN,), _UNATTENDED, _DETECTED, "{p.start_grace_s:.0f} s"),
    _guard(45, evidence.shown_first, (_PLAN,), _UNATTENDED, _AUTOMATIC, "{p.alert_before_s:.0f} s"),
    _guard(46, bounds.breaker, (_PLAN, _ADMIT), (_RESTART, _SKIP)),
    _guard(47, bounds.proven, (_PLAN,), _UNATTENDED, _AUTOMATIC, "1"),
    _guard(
        48,
        bounds.small,
        (_PLAN,),
        (_STOP, _SKIP),
        _AUTOMATIC,
        f"{bounds.TASKS_MAX} tasks, {bounds.PARTITIONS_MAX} partitions",
    ),
    _guard(49, world.not_internal, (_PLAN,), (_STOP, *_MOVES)),
    _guard(50, ourselves.same_policy, (_ADMIT, _ALTER), _ANY),
    _guard(51, evidence.restarts_left, (_PLAN, _ADMIT), (_RESTART,), _DETECTED, "2, 300 s apart"),
    _guard(52, evidence.restart_helps, (_PLAN,), (_RESTART,), _DETECTED),
    _guard(53, evidence.harmful, (_PLAN,), (_STOP,), _DETECTED, "{stop_on}"),
    _guard(54, ourselves.restored_by_a_person, _ALWAYS, (_RESTORE,)),
)

RULES_ELSEWHERE: Final = {
    37: "how often and how long a step is tried is the engine's own (progress.Limits)",
}

# What is not asked of a plan that a person has approved.
AUTOMATIC_GUARDS: Final = frozenset(
    guard.name for guard in GUARDS if guard.reach is GuardReach.AUTOMATIC
)
