"""What must hold once all is quiet; the numbers are those of invariants.py."""

from __future__ import annotations

from offsetwatch.remedy.journal.journal import Journal
from offsetwatch.remedy.model.journal_records import (
    PlanEnded,
    PlanOpened,
    PlanParked,
    RollbackStarted,
    StepAnswered,
    StepIntended,
)
from offsetwatch.remedy.model.plan import Alter, PlanStatus, RequestedState, ToState
from tests.sim.invariants import Broken, InvariantChecks, must
from tests.sim.logs import NAME
from tests.sim.world import PLACE, STOP_TOTAL_S

SLACK_S = 30.0  # a look, a pause
HELD_S_MAX = 300.0  # whatever was under way when the time was up
RUN_S_MAX = 3600.0
LATER_S = 250.0  # all that was late has come by then


def at_the_end(watch: InvariantChecks, journal: Journal) -> None:
    must(
        watch.world.line.now() - watch.began <= RUN_S_MAX + watch.down_s + 2 * 3600.0,
        "I11",
        "it takes for ever",
    )
    _in_time(watch)
    watch.world.connect.advance(LATER_S)
    _chain(watch, journal)
    ended = next(watch.of(PlanEnded), None)
    is_open = journal.open_plan(PLACE, NAME) is not None
    begun = any(watch.of(PlanOpened))
    must(is_open == (begun and ended is None), "I11", "the lock is not as the plan is")
    if begun and ended is None:
        last = watch.records[-1][1]
        must(isinstance(last, PlanParked), "I11", f"neither ended nor parked: {last}")
    watch.nothing_is_lost()
    if not begun:
        return
    if ended is not None:
        _nothing_later(watch)
        _check_running(watch, ended)
        _truth(watch, ended)


def _chain(watch: InvariantChecks, journal: Journal) -> None:
    try:
        count = journal.verify()
    except Exception as exc:
        raise Broken("I13", str(exc)) from exc
    must(count >= len(watch.records), "I13", "records are missing")


def _in_time(watch: InvariantChecks) -> None:
    """From the first stop that was asked for until it is asked to run again, if nothing was
    changed. A request that is under way when the time is up is waited for.
    """
    if not watch.world.skips:
        return
    request: float | None = None
    sent = due = 0.0
    for moment, record in watch.records:
        if request is not None and isinstance(record, StepAnswered):
            due = max(due, moment) if sent - request <= STOP_TOTAL_S else due
        elif isinstance(record, StepIntended):
            step = watch.path(record.undoing)[record.index]
            if isinstance(step, Alter):
                return
            if step == ToState(RequestedState.STOPPED):
                request, sent = request or moment, moment
            elif request is not None:
                break
        elif request is not None and isinstance(record, RollbackStarted | PlanEnded | PlanParked):
            break
    else:
        return
    if request is not None:
        late_s = moment - watch.down_s - max(request + STOP_TOTAL_S, due)
        answer = f"held stopped for {moment - request:.0f} s, {late_s:.0f} s too long"
        must(late_s <= SLACK_S and moment - watch.down_s - request <= HELD_S_MAX, "I11", answer)


def _nothing_later(watch: InvariantChecks) -> None:
    moment = next(when for when, record in watch.records if isinstance(record, PlanEnded))
    for effect in watch.world.connect.effects:
        if effect.by in watch.requests and effect.at > moment:
            raise Broken("I9", f"{effect.what} {effect.detail} came after the end")


def _check_running(watch: InvariantChecks, ended: PlanEnded) -> None:
    world = watch.world
    if watch.plan.final is RequestedState.STOPPED:
        return
    states = [effect for effect in world.connect.effects if effect.what == "state"]
    own = bool(states) and states[-1].by in watch.requests
    must(not (own and states[-1].detail == "STOPPED"), "I11", f"{ended.ending}, stopped by us")
    if world.foreign or world.troubled:
        return
    must(
        world.state() == "RUNNING" and bool(world.tasks()),
        "I11",
        f"{ended.ending} and left {world.state()}, tasks {world.tasks()}",
    )


def _truth(watch: InvariantChecks, ended: PlanEnded) -> None:
    """What the last record says is so."""
    world, done = watch.world, ended.ending is PlanStatus.SUCCEEDED
    if world.foreign or world.troubled:
        return
    if world.case == "stop":
        must((world.state() == "STOPPED") == done, "I4", f"{ended.ending}, not so")
    if not world.skips:
        return
    index, lag = world.next_read() or 0, world.numbers.to + 1 - world.log.ahead
    skipped = {offset for offset in world.hashes if offset < index} - world.log.delivered()
    changed = ended.ending in {PlanStatus.SUCCEEDED, PlanStatus.INEFFECTIVE}
    must((index >= lag) == changed, "I3", f"{ended.ending}, and it stands at {index}")
    if changed:
        must(skipped == world.quarantined(), "I3", f"skipped {skipped}")
    if done:
        everything = {record.offset for record in world.records()}
        lost = everything - world.log.delivered() - world.quarantined()
        must(not lost, "I4", f"{ended.ending}, and {sorted(lost)} never came")
