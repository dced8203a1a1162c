"""The driver that writes offsets where Connect keeps them, while Connect is not there.

Nobody can be asked to stop: that no worker runs is looked for, before and right before the write.
Called by the runner.
"""

from __future__ import annotations

import base64
from typing import Final

from offsetwatch.clock import Clock
from offsetwatch.errors import ClientError, Denied
from offsetwatch.remedy.drivers.storage.stores import Storage
from offsetwatch.remedy.model.driver import Answer, Found, Look, Outcome, Standing
from offsetwatch.remedy.model.plan import AnyStep, Freeze, Frozen, Raw, Settle, Write
from offsetwatch.remedy.model.stored_offsets import (
    Contents,
    contents_by_key,
    pairs,
    raw,
    value_bytes,
)

_STOP: Final = "stop every worker first"


class StorageDriver:
    """See the module; a Driver of one connector."""

    def __init__(self, storage: Storage, connector: str, clock: Clock) -> None:
        self._storage = storage
        self._connector = connector
        self._clock = clock

    def identity(self) -> str | None:
        """What the storage is."""
        return self._storage.identity()

    def offsets(self) -> Found:
        """What a task would be handed, and every record behind it."""
        contents = self._storage.contents()
        return Found(pairs(contents, self._connector), raw(contents, self._connector))

    def look(self, step: AnyStep, frozen: Frozen | None) -> Look:
        """See Standing. A worker that runs is `not_yet`: it may be about to end."""
        match step:
            case Settle():
                return self._settled()
            case Freeze():
                return Look(Standing.READY, "")
            case Write():
                return self._written(step, frozen)
            case _:
                return Look(Standing.IMPOSSIBLE, _impossible(step))

    def carry_out(self, step: AnyStep, frozen: Frozen | None) -> Outcome:
        """One write of all records, if nobody has come meanwhile."""
        if not isinstance(step, Write):
            return Outcome(Answer.NACK, _impossible(step))
        try:
            before = self._written(step, frozen)
            busy = self._storage.busy()
        except ClientError as exc:
            answer = Answer.NACK if isinstance(exc, Denied) else Answer.RETRY
            return Outcome(answer, f"nothing was written: {exc}")
        if busy:
            return Outcome(Answer.NACK, f"nothing was written: {'; '.join(busy)}; {_STOP}")
        if before.standing in {Standing.FOREIGN, Standing.IMPOSSIBLE}:
            return Outcome(Answer.NACK, f"nothing was written: {before.said}")
        return self._storage.write(step.records)

    def _settled(self) -> Look:
        try:
            busy = self._storage.busy()
        except Denied as exc:
            return Look(Standing.IMPOSSIBLE, f"it is unknown whether a worker runs: {exc}")
        if busy:
            return Look(Standing.NOT_YET, f"{'; '.join(busy)}; {_STOP}")
        contents = self._storage.contents()
        why = self._storage.unsettled(contents, self._clock.now())
        if why is not None:
            return Look(Standing.NOT_YET, why)
        again = self._storage.busy()
        if again:
            return Look(Standing.NOT_YET, "; ".join(again))
        return Look(Standing.DONE, f"no worker writes to {self._storage.where}")

    def _written(self, step: Write, frozen: Frozen | None) -> Look:
        if step.where != self._storage.where:
            return Look(Standing.IMPOSSIBLE, f"the plan writes to {step.where}, this is not it")
        return inspect_write(self._storage.contents(), self._connector, step, frozen)


def inspect_write(contents: Contents, connector: str, step: Write, frozen: Frozen | None) -> Look:
    """Compare the records of a connector with those before a step, and those it writes."""
    now = contents_by_key(contents)
    were = {} if frozen is None else frozen.records_of(step.where)
    before = {_place(record): value_bytes(record) for record in were.values()}
    wanted = {_place(record): value_bytes(record) for record in step.records}
    others = _others(contents, connector, wanted)
    if frozen is not None and others != {
        place: value for place, value in before.items() if place not in wanted
    }:
        return Look(Standing.FOREIGN, f"other offsets of {connector} are not what they were")
    there = {place for place, value in wanted.items() if now.get(place) == value}
    if len(there) == len(wanted):
        return _read_back(contents, connector, step)
    left = wanted.keys() - there
    if frozen is None or all(now.get(place) == before.get(place) for place in left):
        some = Standing.PARTLY if _changed(there, before, wanted) else Standing.READY
        return Look(some, f"{len(left)} of {len(wanted)} record(s) are still to be written")
    said = f"{len(left)} of {len(wanted)} record(s) are neither as they were nor as wanted"
    return Look(Standing.FOREIGN, said)


def _read_back(contents: Contents, connector: str, step: Write) -> Look:
    """The records are there; do they say to a task what they were written for?"""
    found = {pair.partition: pair.offset for pair in pairs(contents, connector)}
    wrong = [pair for pair in step.pairs if found.get(pair.partition) != pair.offset]
    if wrong:
        said = f"{wrong[0].partition}: written, and a task would still be handed another offset"
        return Look(Standing.FOREIGN, said)
    return Look(Standing.DONE, f"{contents.where} holds what was to be written")


Place = tuple[bytes | None, int | None]


def _place(record: Raw) -> Place:
    return (base64.b64decode(record.key), record.kpartition)


def _others(
    contents: Contents, connector: str, wanted: dict[Place, bytes | None]
) -> dict[Place, bytes | None]:
    """The connector's records beside those that are to be written."""
    found = {_place(at): value_bytes(at) for at in raw(contents, connector)}
    return {place: value for place, value in found.items() if place not in wanted}


def _changed(
    there: set[Place], before: dict[Place, bytes | None], wanted: dict[Place, bytes | None]
) -> bool:
    """Is any of them as it should be that was not so before?"""
    return any(before.get(place) != wanted[place] for place in there)


def _impossible(step: AnyStep) -> str:
    name = type(step).__name__
    return f"{name}: Connect is not asked here; over REST it could be (--connect)"
