"""One connector that Strimzi owns, changed through its resource: Strimzi puts back whatever is done
to it over REST.

The operator is asked by annotations, and answers by removing them. It tries again at every
reconciliation what it could not do: so an annotation of ours is taken back before anything else,
however an operation ends. Every patch names the version of the resource that it was made for.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from exporter.clients.connect_write import Reply, without_secrets
from exporter.clients.kube_access import Access
from exporter.clients.kube_read import KubeReader, config_map_path
from exporter.clients.kube_write import KubeWriter
from exporter.clock import Clock, SteadyClock
from exporter.decode.connect_rest import decode_offsets
from exporter.errors import Conflict, Malformed, NotFound, Refused, TimedOut
from exporter.model.offsets import Undecodable
from exporter.remedy.driver import Answer, Found, Look, Outcome, Standing
from exporter.remedy.drivers.rest import as_expected, compared
from exporter.remedy.drivers.rest_answers import of_offsets
from exporter.remedy.drivers.strimzi_seen import (
    KINDS,
    Op,
    Owner,
    Seen,
    meaning,
    own_map,
)
from exporter.remedy.plan import (
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
from exporter.remedy.requests import body_of

QUIET_S: Final = 6.0  # longer than the 5 s that a task is given for its last commit
OPERATION_S: Final = 150.0  # a reconciliation that was missed comes again after 120 s
EDITS_MAX: Final = 8  # the operator writes the status of what we patch, at about the same time
_PAUSES_S: Final = (0.2, 0.3, 0.5, 1.0)
_MANAGED: Final = "app.kubernetes.io/managed-by"
_OURS: Final = "offsetwatch"
_CONFIG_MAP_OF: Final = {
    "list": ("listOffsets", "toConfigMap"),
    "alter": ("alterOffsets", "fromConfigMap"),
}

_RETURNED: Final = re.compile(r"returned (\d{3}) \([^)]*\): ?(.*)", re.DOTALL)
# Said by the operator before it asks Connect for anything.
_NOT_ASKED: Final = re.compile(
    r"missing property|missing annotation|does not exist|is missing|Failed to parse"
    r"|not in STOPPED state|Unknown connector"
)


class OperatorRefused(Refused):
    """The operator could not do it; its own words."""

    reason = "operator"


class StrimziDriver:
    """See Driver and the module.

    wait_s      for the operator, of one operation
    """

    def __init__(
        self,
        access: Access,
        owner: Owner,
        *,
        wait_s: float = OPERATION_S,
        reader: KubeReader | None = None,
        writer: KubeWriter | None = None,
        clock: Clock | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._owner = owner
        self._read = KubeReader(access) if reader is None else reader
        self._write = KubeWriter(access) if writer is None else writer
        self._wait_s = wait_s
        self._clock = SteadyClock() if clock is None else clock
        self._pause = pause
        self._asked: set[AnyStep] = set()
        self._quiet: tuple[tuple[Pair, ...], float] | None = None

    def identity(self) -> str | None:
        """The resource itself: one that was deleted and created again is another."""
        return str(self.seen().metadata.get("uid"))

    def offsets(self) -> Found:
        """What the operator lists."""
        return Found(self.listed())

    def seen(self) -> Seen:
        """The resource as it is now. Raises NotFound where it has no such connector any more."""
        at = self._owner
        found = Seen(at, self._read.resource(at.plural, at.namespace, at.name))
        if found.base is None:
            raise NotFound(self._read.name, f"{at.said} has no connector {at.connector} any more")
        return found

    # --- looking ---------------------------------------------------------------------------------

    def look(self, step: AnyStep, frozen: Frozen | None) -> Look:
        """Offsets are looked at through the operator, which lists them."""
        try:
            return self._look(step, frozen)
        except NotFound as exc:
            return Look(Standing.FOREIGN, exc.detail)

    def _look(self, step: AnyStep, frozen: Frozen | None) -> Look:
        seen = self.seen()
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
                return as_expected(self.listed(), pairs)
            case Freeze():
                return Look(Standing.READY, "offsets can be looked up")
        return Look(Standing.IMPOSSIBLE, "this cannot be done through Strimzi's resources")

    def _look_for_stop(self, step: AnyStep, seen: Seen) -> Look:
        if seen.wanted is not State.STOPPED:
            if step in self._asked:
                said = f"somebody has set {self._owner.said} back: {seen.said}"
                return Look(Standing.FOREIGN, said)
            return Look(Standing.READY, seen.said)
        if seen.observed and not _stands(seen):
            # The operator asked Connect right after the stop, and asks again when it is asked for
            # anything; left alone, two minutes later.
            self.listed()
            seen = self.seen()
        done = seen.observed and _stands(seen)
        return Look(Standing.DONE if done else Standing.NOT_YET, _with_warnings(seen))

    def _look_for_quiet(self, seen: Seen, wanted_s: float) -> Look:
        if seen.wanted is not State.STOPPED:
            return Look(Standing.FOREIGN, f"it is no longer to be stopped: {seen.said}")
        pairs, now = self.listed(), self._clock.now()
        if not _stands(self.seen()):
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
        now = _offsets(self.listed())
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
                self._edit(lambda seen: self._to_state(seen, state))
                self._asked.add(step)
                return Outcome(Answer.ACK, f"{self._owner.said} says {state}")
            case Alter(pairs=pairs):
                return self._changed("alter", body_of(pairs))
            case Reset():
                return self._changed("reset", None)
            case Settle() | Freeze() | Expect():
                return Outcome(Answer.ACK, "nothing to ask for")
        return Outcome(Answer.NACK, "this cannot be done through Strimzi's resources")

    def _to_state(self, seen: Seen, state: State) -> list[Op]:
        """Exactly what was there before, where that means the same."""
        held = seen.held
        if held is None:
            raise Refused(self._read.name, f"{self._owner.said} is held for another connector")
        if state is State.STOPPED:
            if seen.wanted is State.STOPPED:
                return []
            return seen.changed({"state": state.value})
        was = {**seen.part, "state": held.get("state")}
        if "state" in held and meaning(was) is state:
            return seen.restored({"state": State.STOPPED.value, **_ours(self._owner)})
        kept = {"state": None, **_ours(self._owner)}
        return [*seen.field("state", state.value), *seen.restored(kept)]

    def _changed(self, operation: str, body: bytes | None) -> Outcome:
        seen = self.seen()
        if not _stands(seen):
            return Outcome(Answer.NACK, f"nothing was asked for: {seen.said}")
        try:
            if body is not None:
                self._put(seen, own_map(self._owner, "alter"), body.decode())
            self._through(operation)
        except OperatorRefused as exc:
            return of_words(exc.detail)
        except TimedOut as exc:
            return Outcome(Answer.IN_DOUBT, exc.detail)
        return Outcome(Answer.ACK, "the operator has done it, and removed the annotation")

    # --- through the operator --------------------------------------------------------------------

    def listed(self) -> tuple[Pair, ...]:
        """All offsets of the connector, sorted. Raises OperatorRefused; TimedOut where the operator
        gives no sign; Conflict where somebody else has it do something just now.
        """
        seen = self._through("list")
        at = self._owner
        name = self._map_of(seen, "list")
        try:
            document = self._read.config_map(at.namespace, name)
        except NotFound as exc:
            said = f"the operator has listed, and there is no ConfigMap {at.namespace}/{name}"
            raise Malformed(self._read.name, said) from exc
        text = (document.get("data") or {}).get(seen.key)
        if text is None:
            said = f"ConfigMap {at.namespace}/{name} has no {seen.key}"
            raise Malformed(self._read.name, said)
        found = decode_offsets(str(text).encode())
        if isinstance(found, Undecodable):
            said = f"ConfigMap {at.namespace}/{name}, {seen.key}: {found.reason}"
            raise Malformed(self._read.name, said)
        pairs = (Pair(partition, offset) for partition, offset in found)
        return tuple(sorted(pairs, key=lambda pair: pair.partition))

    def requests(self, step: AnyStep) -> tuple[str, ...]:
        """What a step would patch as things are now, for people."""
        seen = self.seen()
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
        ops = seen.asked_for(operation, self._fields(seen, operation))
        return (_patch(seen, ops), "and, once the operator is done with it, all of that taken back")

    def _map_of(self, seen: Seen, operation: str) -> str:
        """A person's own ConfigMap for listings is taken; what is set is ours alone."""
        field, inner = _CONFIG_MAP_OF[operation]
        if operation == "list" and field in seen.part:
            return str(seen.part[field][inner]["name"])
        return own_map(self._owner, operation)

    def _fields(self, seen: Seen, operation: str) -> dict[str, Any]:
        """What has to stand in the specification meanwhile, and does not."""
        if operation not in _CONFIG_MAP_OF:
            return {}
        field, inner = _CONFIG_MAP_OF[operation]
        ours = {inner: {"name": self._map_of(seen, operation)}}
        return {} if seen.part.get(field) == ours else {field: ours}

    def _through(self, operation: str) -> Seen:
        """Ask, wait, and take everything of ours back: what it was when that was asked for."""
        self._take_back()  # what a process that was killed has left
        known: list[frozenset[tuple[str, str]]] = []

        def ask(seen: Seen) -> list[Op]:
            if seen.operation is not None:
                said = f"somebody else has the operator do this with it just now: {seen.operation}"
                raise Conflict(self._read.name, f"{self._owner.said}: {said}")
            if seen.held is None:
                raise Conflict(self._read.name, f"{self._owner.said} is held for another connector")
            known[:] = [seen.warnings]
            return seen.asked_for(operation, self._fields(seen, operation))

        try:
            asked = self._edit(ask)
            self._await(operation, known[0])
        finally:
            self._take_back()
        return asked

    def _take_back(self) -> None:
        """The annotation first: it is what makes the operator act."""

        def undo(seen: Seen) -> list[Op]:
            fields = _ours(self._owner)
            if "state" in (seen.held or {}):  # of a plan that lists again: each change of it is
                del fields["listOffsets"]  # one more generation for the operator to look at
            return seen.taken_back(fields)

        with suppress(NotFound):  # and with it all that was there
            self._edit(undo)

    def _await(self, operation: str, known: frozenset[tuple[str, str]]) -> None:
        """Until the annotation is gone. Complaints that were there before are told at the end."""
        since, looks = self._clock.now(), 0
        while True:
            seen = self.seen()
            if seen.operation is None:
                return
            if seen.operation != seen.operation_of(operation):
                said = f"somebody else asked the operator for something else: {seen.operation}"
                raise Conflict(self._read.name, f"{self._owner.said}: {said}")
            for reason, message in sorted(seen.warnings - known):
                if reason in _ABOUT_OFFSETS:
                    raise OperatorRefused(self._read.name, without_secrets(message))
            if self._clock.now() - since >= self._wait_s:
                raise TimedOut(self._read.name, self._silence(operation, seen))
            self._pause(_PAUSES_S[min(looks, len(_PAUSES_S) - 1)])
            looks += 1

    def _silence(self, operation: str, seen: Seen) -> str:
        said = "; ".join(without_secrets(f"{why}: {text}") for why, text in sorted(seen.warnings))
        heard = f"; the operator complains: {said}" if said else "; is the operator running?"
        waited = f"the operator did not {operation} the offsets within {self._wait_s:.0f} s"
        return f"{self._owner.said}: {waited}, and is no longer asked to{heard}"

    def _edit(self, edit: Callable[[Seen], list[Op]]) -> Seen:
        """Patch what was just read; anew where the operator was there meanwhile."""
        for attempt in range(EDITS_MAX):
            seen = self.seen()
            ops = edit(seen)
            if not ops:
                return seen
            try:
                return Seen(self._owner, self._write.patch(seen.path, seen.version, ops))
            except Conflict:
                if attempt + 1 == EDITS_MAX:
                    raise
                self._pause(_PAUSES_S[min(attempt, len(_PAUSES_S) - 1)])
        raise AssertionError

    def _put(self, seen: Seen, name: str, text: str) -> None:
        """Our ConfigMap, with what is to be set."""
        namespace = self._owner.namespace
        try:
            there = self._read.config_map(namespace, name)
        except NotFound:
            document = _config_map(seen, name, text)
            self._write.create(config_map_path(namespace), document)
            return
        metadata = there.get("metadata") or {}
        if (metadata.get("labels") or {}).get(_MANAGED) != _OURS:
            said = f"there is a ConfigMap {namespace}/{name} that is not ours"
            raise Refused(self._read.name, said)
        data = {**(there.get("data") or {}), seen.key: text}
        ops: list[Op] = [{"op": "add", "path": "/data", "value": data}]
        version = str(metadata.get("resourceVersion"))
        self._write.patch(config_map_path(namespace, name), version, ops)


_ABOUT_OFFSETS: Final = frozenset({"ListOffsets", "AlterOffsets", "ResetOffsets", "ManageOffsets"})


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


def _ours(owner: Owner) -> dict[str, Any]:
    """What we set beside the state, while that is needed."""
    return {
        field: {inner: {"name": own_map(owner, what)}}
        for what, (field, inner) in _CONFIG_MAP_OF.items()
    }


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


def _config_map(seen: Seen, name: str, text: str) -> dict[str, Any]:
    """It goes when the resource goes."""
    owner = {
        "apiVersion": seen.document.get("apiVersion"),
        "kind": KINDS[seen.owner.plural],
        "name": seen.owner.name,
        "uid": seen.metadata.get("uid"),
    }
    metadata = {
        "name": name,
        "namespace": seen.owner.namespace,
        "labels": {_MANAGED: _OURS},
        "ownerReferences": [owner],
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {seen.key: text}}
