"""Guards, whatever the facts are: they never fail, never guess, and never let through what is not
known; nothing is done in mode observe or by itself for whom nobody has named.
"""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetwatch.remedy import guards
from offsetwatch.remedy.guards import GuardAnswer, GuardResult, Permission, Stage
from offsetwatch.remedy.model.facts import GuardFacts, PlanApproval, PoisonSignal, SubjectKind
from offsetwatch.remedy.model.fleet_state import RecordSkip
from offsetwatch.remedy.model.plan import Action, RecordLocation
from offsetwatch.remedy.model.policy import (
    Budgets,
    MassFailure,
    Policy,
    Rule,
    Window,
    is_selected,
    update_mass_failure,
)
from offsetwatch.remedy.model.service_api import Breaker, Mode
from tests.unit.remedy.permitting_facts import (
    APPROVED,
    CONNECT,
    CONNECTOR,
    NOW,
    POLICY,
    build_standing_facts,
    changed,
    facts,
)

names = st.sampled_from(["", "plan", "record", "config", "token", "first", "lab", CONNECTOR, "*"])
numbers = st.one_of(st.integers(-2, 3), st.integers(), st.sampled_from([1_234, 1_235, 99_999]))
seconds = st.one_of(
    st.floats(0, 1e4).map(lambda moment: NOW - moment),
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12),
)
connector_keys = st.tuples(names, names)
skips = st.builds(
    RecordSkip,
    seconds,
    names,
    connector_keys,
    st.builds(RecordLocation, names, names, names, numbers, numbers),
    st.one_of(st.none(), names),
)
storms = st.builds(MassFailure, st.booleans(), st.one_of(st.none(), seconds))
OF_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: numbers,
    float: seconds,
    str: names,
    Mode: st.sampled_from(Mode),
    MassFailure: storms,
    PlanApproval: st.builds(PlanApproval, by=names, at=seconds, plan_sha256=names),
    frozenset[str]: st.frozensets(names),
    frozenset[PoisonSignal]: st.frozensets(st.sampled_from(PoisonSignal)),
    frozenset[tuple[str, str]]: st.frozensets(connector_keys, max_size=6),
    tuple[int, ...]: st.lists(numbers, max_size=4).map(tuple),
    tuple[float, ...]: st.lists(seconds, max_size=4).map(tuple),
    tuple[RecordSkip, ...]: st.lists(skips, max_size=6).map(tuple),
    tuple[Breaker, ...]: st.lists(st.builds(Breaker, names, seconds, names), max_size=3).map(tuple),
}


def any_fact(hint: Any) -> st.SearchStrategy[Any]:
    known = next(
        arg for arg in (*typing.get_args(hint), hint) if arg is not type(None) and arg in OF_TYPE
    )
    return st.one_of(st.none(), OF_TYPE[known])


KNOWN = {
    field.name: typing.get_type_hints(type(getattr(facts(), group.name)))[field.name]
    for group in dataclasses.fields(GuardFacts)
    if group.name not in {"now", "target"}
    for field in dataclasses.fields(getattr(facts(), group.name))
}
windows = st.builds(
    Window,
    st.lists(st.integers(0, 6), min_size=1, max_size=7).map(tuple),
    st.integers(0, 86_399),
    st.integers(0, 86_399),
)
rules = st.builds(
    Rule,
    st.sampled_from([CONNECT, "other"]),
    st.lists(st.sampled_from([CONNECTOR, "*", "orders*", "", ".*"]), max_size=2).map(tuple),
    st.lists(st.sampled_from([action.value for action in Action]), max_size=4).map(tuple),
    st.booleans(),
)
budgets = st.builds(Budgets, *[st.integers(0, 5)] * 5)
policies = st.builds(
    Policy,
    mode=st.sampled_from(Mode),
    auto=st.lists(rules, max_size=2).map(tuple),
    budgets=budgets,
    deny=st.lists(windows, max_size=1).map(tuple),
    only_in=st.lists(windows, max_size=1).map(tuple),
    stop_on=st.sampled_from([(), ("recopy",)]),
)
# Mostly facts with which a guard passes, so that each of the others is reached alone, too.
changes = st.one_of(
    st.lists(st.sampled_from(sorted(KNOWN)), max_size=3, unique=True).flatmap(
        lambda some: st.fixed_dictionaries({name: any_fact(KNOWN[name]) for name in some})
    ),
    st.fixed_dictionaries({name: any_fact(hint) for name, hint in KNOWN.items()}),
)


@st.composite
def anything(draw: Any) -> tuple[GuardFacts, Policy, Stage, bool]:
    stage = draw(st.sampled_from(Stage))
    base = build_standing_facts if stage is Stage.ALTER else facts
    policy = draw(st.one_of(st.just(POLICY), policies))
    guard_facts = base(
        draw(st.sampled_from(Action)),
        draw(st.sampled_from(SubjectKind)),
        **({"policy_sha256": policy.sha256} | draw(changes)),
    )
    return guard_facts, policy, stage, draw(st.booleans())


def acts(answers: tuple[GuardAnswer, ...]) -> bool:
    return guards.derive_permission(answers) is Permission.ACT


@given(anything())
def test_every_guard_answers_whatever_it_is_queried_and_always_the_same(inputs):
    guard_facts, policy, stage, by_person = inputs
    once = guards.evaluate(guard_facts, policy, stage, by_person=by_person)
    again = guards.evaluate(guard_facts, policy, stage, by_person=by_person)
    assert once == again
    assert all(answer.said and isinstance(answer.answer, GuardResult) for answer in once)
    assert acts(once) == (bool(once) and all(answer.answer is GuardResult.PASS for answer in once))


@given(anything())
def test_in_mode_observe_nothing_is_ever_done(inputs):
    guard_facts, policy, stage, by_person = inputs
    for watching, lowered in (
        (dataclasses.replace(policy, mode=Mode.OBSERVE), guard_facts),
        (policy, changed(guard_facts, mode_lowered=Mode.OBSERVE)),
    ):
        assert not acts(guards.evaluate(lowered, watching, stage, by_person=by_person))


@given(anything())
def test_no_action_is_automatic_for_a_connector_that_auto_does_not_list(inputs):
    guard_facts, policy, stage, _ = inputs
    unlisted = dataclasses.replace(policy, auto=())
    unapproved = changed(guard_facts, approval=None)
    assert not acts(guards.evaluate(unapproved, unlisted, stage, by_person=False))


@given(anything())
def test_what_an_operator_may_do_by_a_plan_of_his_own_is_never_less_than_what_is_done_by_itself(
    inputs,
):
    guard_facts, policy, stage, _ = inputs
    by_itself = guards.evaluate(guard_facts, policy, stage, by_person=False)
    answers = guards.evaluate(guard_facts, policy, stage, by_person=True)
    if acts(by_itself) and answers:
        assert acts(answers)


RELEVANT = [
    (stage, kind, name)
    for stage in Stage
    for kind in (SubjectKind.SINK, SubjectKind.MIRROR)
    for name in sorted(
        {
            need
            for guard in guards.GUARDS
            if stage in guard.stages and kind in guard.kinds and Action.SKIP_ONE in guard.actions
            for need in guard.needs
        }
        & set(KNOWN)
    )
]


@pytest.mark.parametrize(("stage", "kind"), sorted({(item[0], item[1]) for item in RELEVANT}))
@given(data=st.data())
def test_a_skip_is_not_done_while_anything_that_it_rests_on_is_not_known(data, stage, kind):
    """Whatever else is known, and whatever is configured."""
    name = data.draw(st.sampled_from([item[2] for item in RELEVANT if item[:2] == (stage, kind)]))
    base = build_standing_facts if stage is Stage.ALTER else facts
    policy = data.draw(st.one_of(st.just(POLICY), policies))
    guard_facts = base(
        Action.SKIP_ONE,
        kind,
        **({"policy_sha256": policy.sha256} | data.draw(changes) | {name: None, "approval": None}),
    )
    answers = guards.evaluate(guard_facts, policy, stage, by_person=False)
    assert not acts(answers)
    assert any(answer.answer is GuardResult.UNKNOWN for answer in answers)


@given(anything(), st.frozensets(connector_keys, max_size=40))
def test_more_that_are_unhealthy_never_end_a_storm(inputs, more):
    guard_facts, policy, stage, by_person = inputs
    held = guard_facts.others.unhealthy
    if held is None:
        return
    for worse in (
        changed(guard_facts, unhealthy=held | more),
        changed(guard_facts, in_remedy=(guard_facts.others.in_remedy or frozenset()) | more),
    ):
        before, after = (
            {
                answer.guard: answer.answer
                for answer in guards.evaluate(one, policy, stage, by_person=by_person)
            }
            for one in (guard_facts, worse)
        )
        if before.get("mass_failure") is GuardResult.DENY:
            assert after["mass_failure"] is GuardResult.DENY


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 40), st.floats(0, 600)),
        min_size=1,
        max_size=60,
    )
)
def test_a_storm_ends_after_a_quarter_of_an_hour_below_and_not_before(looks):
    """Held against the same said in words: when too many were ill last."""
    failure, now, last = MassFailure(), NOW, None
    calm_from = None
    for connectors, unhealthy, later_s in looks:
        now += later_s
        failure = update_mass_failure(failure, connectors=connectors, unhealthy=unhealthy, now=now)
        if unhealthy > max(3, connectors / 10) or (unhealthy >= 3 and unhealthy > connectors / 2):
            last, calm_from = now, None
        elif calm_from is None:
            calm_from = now
        over = last is None or (calm_from is not None and now - calm_from >= 900)
        if over:
            last, calm_from = None, None
        assert failure.rages is not over


@given(st.lists(st.sampled_from(["a", "b", "*", "ab", ""]), max_size=6).map("".join), st.text("ab"))
def test_a_selector_means_what_a_reader_takes_it_for(selector, name):
    def means(pattern: str, text: str) -> bool:
        if not pattern:
            return not text
        if pattern[0] == "*":
            return any(means(pattern[1:], text[number:]) for number in range(len(text) + 1))
        return bool(text) and text[0] == pattern[0] and means(pattern[1:], text[1:])

    assert is_selected(selector, name) == (name != "" and means(selector, name))


@given(anything())
def test_who_approves_is_not_queried_what_only_holds_back_the_automatic(inputs):
    guard_facts, policy, stage, _ = inputs
    answers = guards.evaluate(guard_facts, policy, stage, by_person=False)
    expected = changed(guard_facts, approval=APPROVED, created_by="detector", plan_sha256="plan")
    approved = guards.evaluate(expected, policy, stage, by_person=False)
    assert {answer.guard for answer in approved} <= {answer.guard for answer in answers}
