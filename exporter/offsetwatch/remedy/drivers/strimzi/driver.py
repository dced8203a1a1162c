"""One connector that Strimzi owns, changed through its resource: Strimzi puts back whatever is done
to it over REST.

How its operator is asked to do anything with offsets is in strimzi_operator.py.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Final

import msgspec

from offsetwatch.clients.http.redaction import without_secrets
from offsetwatch.clients.kubernetes.access import Access
from offsetwatch.clients.kubernetes.reader import KubeReader
from offsetwatch.clients.write.connect import Reply
from offsetwatch.clients.write.kubernetes import KubeWriter
from offsetwatch.clock import Clock, SteadyClock
from offsetwatch.errors import NotFound, Refused, TimedOut
from offsetwatch.remedy.drivers.rest.answers import of_offsets
from offsetwatch.remedy.drivers.rest.driver import as_expected, compared
from offsetwatch.remedy.drivers.strimzi.operator import (
    OPERATION_S,
    Operator,
    OperatorRefused,
    our_fields,
)
from offsetwatch.remedy.drivers.strimzi.resource_state import Op, Owner, Seen, meaning, own_map
from offsetwatch.remedy.engine.requests import body_of
from offsetwatch.remedy.model.driver import Answer, Found, Look, Outcome, Standing
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Expect,
    Freeze,
    Frozen,
    Pair,
    Reset,
    Settle,
    State,
    ToState,
)

QUIET_S: Final = 6.0  # longer than the 5 s that a task is given for its last commit

_RETURNED: Final = re.compile(r"returned (\d{3}) \([^)]*\): ?(.*)", re.DOTALL)
# Said by the operator before it asks Connect for anything.
_NOT_ASKED: Final = re.compile(
    r"missing property|missing annotation|does not exist|is missing|Failed to parse"
    r"|not in STOPPED state|Unknown connector"
)


class StrimziDriver:
    """See Driver and the module.

    wait_s      for the operator, of one operation
    stays       a stop is for good: nothing is kept of how it was before
    """

    def __init__(
        self,
        access: Access,
        owner: Owner,
        *,
        wait_s: float = OPERATION_S,
        stays: bool = False,
        reader: KubeReader | None = None,
        writer: KubeWriter | None = None,
        clock: Clock | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._owner = owner
        self._stays = stays
        self._clock = SteadyClock() if clock is None else clock
        self._operator = Operator(
            access,
            owner,
            wait_s=wait_s,
            reader=reader,
            writer=writer,
            clock=self._clock,
            pause=pause,
        )
        self._asked: set[AnyStep] = set()
        self._quiet: tuple[tuple[Pair, ...], float] | None = None

    def identity(self) -> str | None:
        """The resource itself: one that was deleted and created again is another."""
        return str(self._operator.seen().metadata.get("uid"))

    def offsets(self) -> Found:
        """What the operator lists."""
        return Found(self._operator.listed())

    # --- looking ---------------------------------------------------------------------------------

    def look(self, step: AnyStep, frozen: Frozen | None) -> Look:
        """Offsets are looked at through the operator, which lists them."""
        try:
            return self._look(step, frozen)
        except NotFound as exc:
            return Look(Standing.FOREIGN, exc.detail)

    def _look(self, step: AnyStep, frozen: Frozen | None) -> Look:
        seen = self._operator.seen()
        if not seen.reconciled:
            said = f"{self._owner.said} is paused: the operator does nothing with it"
            return Look(Standing.IMPOSSIBLE, said)
        match step:
            case ToState(state=State.STOPPED):
                return self._look_for_stop(step, seen)
            case ToState(state=state):
                return _look_for_state(state, seen)
            case Settle(quiet_s=quiet_s):
                return self._look_for_quiet(seen, QUIET_S if quiet_s is None else quiet_s)
            case Alter(pairs=pairs):
                target = {at.partition: at.offset for at in pairs}
                return self._look_for_offsets(seen, frozen, target)
            case Reset():
                return self._look_for_offsets(seen, frozen, None)
            case Expect(pairs=pairs):
                return as_expected(self._operator.listed(), pairs)
            case Freeze():
                return Look(Standing.READY, "offsets can be read")
        return Look(Standing.IMPOSSIBLE, "this cannot be done through Strimzi's resources")

    def declared(self, state: State) -> Look:
        """Whether the resource says so, whatever has come of that. Raises ClientError."""
        try:
            seen = self._operator.seen()
        except NotFound as exc:
            return Look(Standing.FOREIGN, exc.detail)
        held = state is not State.STOPPED and "state" in (seen.held or {})
        says = seen.wanted is state and not held
        return Look(Standing.DONE if says else Standing.READY, seen.said)

    def _look_for_stop(self, step: AnyStep, seen: Seen) -> Look:
        if seen.wanted is not State.STOPPED:
            if step in self._asked:
                said = f"another client has reverted {self._owner.said}: {seen.said}"
                return Look(Standing.FOREIGN, said)
            return Look(Standing.READY, seen.said)
        if seen.observed and not _stands(seen):
            # The operator asked Connect right after the stop, and asks again when it is asked for
            # anything; left alone, two minutes later.
            self._operator.listed()
            seen = self._operator.seen()
        done = seen.observed and _stands(seen)
        return Look(Standing.DONE if done else Standing.NOT_YET, _with_warnings(seen))

    def _look_for_quiet(self, seen: Seen, wanted_s: float) -> Look:
        if seen.wanted is not State.STOPPED:
            return Look(Standing.FOREIGN, f"it is no longer to be stopped: {seen.said}")
        pairs, now = self._operator.listed(), self._clock.now()
        if not _stands(self._operator.seen()):
            self._quiet = None
            return Look(Standing.NOT_YET, _with_warnings(seen))
        if self._quiet is None or self._quiet[0] != pairs or self._quiet[1] > now:
            self._quiet = (pairs, now)
        quiet = now - self._quiet[1]
        if quiet < wanted_s:
            return Look(Standing.NOT_YET, f"its offsets have to stand still for {wanted_s:.0f} s")
        return Look(Standing.DONE, f"its offsets have not changed for {quiet:.0f} s")

    def _look_for_offsets(
        self, seen: Seen, frozen: Frozen | None, target: dict[str, str | None] | None
    ) -> Look:
        now = _offsets(self._operator.listed())
        before = None if frozen is None else _offsets(frozen.pairs)
        wanted = dict.fromkeys({*now, *(before or {})}) if target is None else target
        look = compared(now=now, before=before, target=wanted)
        if look.standing not in {Standing.READY, Standing.PARTLY} or _stands(seen):
            return look
        if seen.wanted is not State.STOPPED:
            return Look(Standing.FOREIGN, f"it is no longer to be stopped: {seen.said}")
        return Look(Standing.NOT_YET, _with_warnings(seen))

    # --- changing --------------------------------------------------------------------------------

    def carry_out(self, step: AnyStep, frozen: Frozen | None) -> Outcome:
        """One operation, to its end: nothing of ours is asked for any more when this returns."""
        del frozen
        match step:
            case ToState(state=state):
                self._operator.take_back()  # what a process that was killed has left
                self._operator.edit(lambda seen: self._to_state(seen, state))
                self._asked.add(step)
                return Outcome(Answer.ACK, f"{self._owner.said} says {state}")
            case Alter(pairs=pairs):
                return self._changed("alter", body_of(pairs))
            case Reset():
                return self._changed("reset", None)
            case Settle() | Freeze() | Expect():
                return Outcome(Answer.ACK, "nothing to request")
        return Outcome(Answer.NACK, "this cannot be done through Strimzi's resources")

    def _to_state(self, seen: Seen, state: State) -> list[Op]:
        """Exactly what was there before, where that means the same."""
        held = seen.held
        if held is None:
            raise Refused(self._operator.name, f"{self._owner.said} is held for another connector")
        if state is State.STOPPED:
            if seen.wanted is State.STOPPED:
                return []
            if self._stays:
                return seen.field("state", state.value)
            return seen.changed({"state": state.value})
        was = {**seen.part, "state": held.get("state")}
        if "state" in held and meaning(was) is state:
            return seen.restored({"state": State.STOPPED.value, **our_fields(self._owner)})
        kept = {"state": None, **our_fields(self._owner)}
        return [*seen.field("state", state.value), *seen.restored(kept)]

    def _changed(self, operation: str, body: bytes | None) -> Outcome:
        seen = self._operator.seen()
        if not _stands(seen):
            return Outcome(Answer.NACK, f"nothing was requested: {seen.said}")
        try:
            if body is not None:
                self._operator.put(seen, own_map(self._owner, "alter"), body.decode())
            self._operator.through(operation)
        except OperatorRefused as exc:
            return of_words(exc.detail)
        except TimedOut as exc:
            return Outcome(Answer.IN_DOUBT, exc.detail)
        return Outcome(Answer.ACK, "the operator has done it, and removed the annotation")

    def requests(self, step: AnyStep) -> tuple[str, ...]:
        """What a step would patch as things are now, for people."""
        seen = self._operator.seen()
        match step:
            case ToState(state=State.STOPPED):
                return (_patch(seen, seen.changed({"state": "stopped"})),)
            case ToState(state=state):
                before = seen.part.get("state")
                value = before if meaning(seen.part) is state else state.value
                removed: Op = {"op": "remove", "path": f"{seen.base}/state"}
                return (_patch(seen, seen.field("state", value) if value else [removed]),)
            case Freeze():
                return self._operation(seen, "list")
            case Alter(pairs=pairs):
                name = own_map(self._owner, "alter")
                made = f"ConfigMap {self._owner.namespace}/{name}, {seen.key}: "
                return (made + body_of(pairs).decode(), *self._operation(seen, "alter"))
            case Reset():
                return self._operation(seen, "reset")
        return ()

    def _operation(self, seen: Seen, operation: str) -> tuple[str, ...]:
        ops = seen.asked_for(operation, self._operator.fields(seen, operation))
        return (_patch(seen, ops), "and, once the operator is done with it, all of that taken back")


def of_words(said: str) -> Outcome:
    """What a complaint of the operator is worth: it quotes Connect's answer, where it got one."""
    returned = _RETURNED.search(said)
    if returned is not None:
        return of_offsets(Reply(int(returned[1]), returned[2] or None))._replace(said=said)
    if _NOT_ASKED.search(said):
        return Outcome(Answer.NACK, said)
    return Outcome(Answer.IN_DOUBT, said)


def _stands(seen: Seen) -> bool:
    """Whether it is stopped, as far as the resource tells. That may be old: the operator asks
    Connect once more before it changes anything, and Connect refuses where it is not.
    """
    return seen.wanted is State.STOPPED and seen.state == "stopped" and not seen.tasks


def _look_for_state(state: State, seen: Seen) -> Look:
    """Also done where it has failed by then: what it was asked for it is."""
    if seen.wanted is not state or "state" in (seen.held or {}):
        return Look(Standing.READY, seen.said)
    there = {"running", "failed"} if state is State.RUNNING else {"paused", "failed"}
    return Look(Standing.DONE if seen.state in there else Standing.NOT_YET, _with_warnings(seen))


def _with_warnings(seen: Seen) -> str:
    said = [without_secrets(f"{why}: {text}") for why, text in sorted(seen.warnings)]
    return "; the operator complains: ".join((seen.said, *said[:1]))


def _offsets(pairs: tuple[Pair, ...]) -> dict[str, str]:
    return {at.partition: at.offset for at in pairs if at.offset is not None}


def _patch(seen: Seen, ops: list[Op]) -> str:
    return f"PATCH {seen.path} {msgspec.json.encode(ops).decode()}"
