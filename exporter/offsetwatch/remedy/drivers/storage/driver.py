"""Driver that writes offsets to Connect's storage while no worker runs.

It cannot stop workers: it checks that none runs, before and right before the write.
"""

from __future__ import annotations

import base64
from typing import Final

from offsetwatch.clock import UnixClock
from offsetwatch.errors import AccessDenied, ClientError
from offsetwatch.remedy.drivers.storage.stores import Storage
from offsetwatch.remedy.model.driver import (
    AttemptResult,
    DriverOffsets,
    Outcome,
    StepInspection,
    StepStatus,
)
from offsetwatch.remedy.model.plan import (
    AnyStep,
    Freeze,
    FrozenOffsets,
    RawOffsetRecord,
    Settle,
    Write,
)
from offsetwatch.remedy.model.stored_offsets import (
    OffsetStoreContents,
    decode_record_value,
    index_by_key,
    list_pairs,
    list_raw_records,
)

_STOP: Final = "stop every worker first"


class StorageDriver:
    """Driver for one connector in the offset storage of its workers."""

    def __init__(self, storage: Storage, connector: str, clock: UnixClock) -> None:
        self._storage = storage
        self._connector = connector
        self._clock = clock

    def identity(self) -> str | None:
        """Return the identity of the storage."""
        return self._storage.identity()

    def offsets(self) -> DriverOffsets:
        """Return the offsets that a task would receive, and every record behind them."""
        contents = self._storage.contents()
        return DriverOffsets(
            list_pairs(contents, self._connector), list_raw_records(contents, self._connector)
        )

    def look(self, step: AnyStep, frozen: FrozenOffsets | None) -> StepInspection:
        """Inspect a step. A running worker means NOT_YET: it may be about to end."""
        match step:
            case Settle():
                return self._settled()
            case Freeze():
                return StepInspection(StepStatus.READY, "")
            case Write():
                return self._written(step, frozen)
            case _:
                return StepInspection(StepStatus.IMPOSSIBLE, _describe_unsupported_step(step))

    def carry_out(self, step: AnyStep, frozen: FrozenOffsets | None) -> Outcome:
        """Write all records once, if no worker has started in the meantime."""
        if not isinstance(step, Write):
            return Outcome(AttemptResult.NACK, _describe_unsupported_step(step))
        try:
            before = self._written(step, frozen)
            busy = self._storage.busy()
        except ClientError as exc:
            answer = AttemptResult.NACK if isinstance(exc, AccessDenied) else AttemptResult.RETRY
            return Outcome(answer, f"nothing was written: {exc}")
        if busy:
            return Outcome(AttemptResult.NACK, f"nothing was written: {'; '.join(busy)}; {_STOP}")
        if before.standing in {StepStatus.FOREIGN, StepStatus.IMPOSSIBLE}:
            return Outcome(AttemptResult.NACK, f"nothing was written: {before.said}")
        return self._storage.write(step.records)

    def _settled(self) -> StepInspection:
        try:
            busy = self._storage.busy()
        except AccessDenied as exc:
            return StepInspection(
                StepStatus.IMPOSSIBLE, f"it is unknown whether a worker runs: {exc}"
            )
        if busy:
            return StepInspection(StepStatus.NOT_YET, f"{'; '.join(busy)}; {_STOP}")
        contents = self._storage.contents()
        why = self._storage.unsettled(contents, self._clock.now())
        if why is not None:
            return StepInspection(StepStatus.NOT_YET, why)
        again = self._storage.busy()
        if again:
            return StepInspection(StepStatus.NOT_YET, "; ".join(again))
        return StepInspection(StepStatus.DONE, f"no worker writes to {self._storage.where}")

    def _written(self, step: Write, frozen: FrozenOffsets | None) -> StepInspection:
        if step.where != self._storage.where:
            return StepInspection(
                StepStatus.IMPOSSIBLE, f"the plan writes to {step.where}, this is not it"
            )
        return inspect_write(self._storage.contents(), self._connector, step, frozen)


def inspect_write(
    contents: OffsetStoreContents, connector: str, step: Write, frozen: FrozenOffsets | None
) -> StepInspection:
    """Compare the records of a connector with those before a step, and those it writes."""
    now = index_by_key(contents)
    were = {} if frozen is None else frozen.records_of(step.where)
    before = {_build_record_key(record): decode_record_value(record) for record in were.values()}
    wanted = {_build_record_key(record): decode_record_value(record) for record in step.records}
    others = _find_other_records(contents, connector, wanted)
    if frozen is not None and others != {
        place: value for place, value in before.items() if place not in wanted
    }:
        return StepInspection(
            StepStatus.FOREIGN, f"other offsets of {connector} are not what they were"
        )
    there = {place for place, value in wanted.items() if now.get(place) == value}
    if len(there) == len(wanted):
        return _check_read_back(contents, connector, step)
    left = wanted.keys() - there
    if frozen is None or all(now.get(place) == before.get(place) for place in left):
        some = StepStatus.PARTLY if _has_new_values(there, before, wanted) else StepStatus.READY
        return StepInspection(
            some, f"{len(left)} of {len(wanted)} record(s) are still to be written"
        )
    said = f"{len(left)} of {len(wanted)} record(s) are neither as they were nor as wanted"
    return StepInspection(StepStatus.FOREIGN, said)


def _check_read_back(contents: OffsetStoreContents, connector: str, step: Write) -> StepInspection:
    """Check whether the written records give a task the requested offsets."""
    found = {pair.partition: pair.offset for pair in list_pairs(contents, connector)}
    wrong = [pair for pair in step.pairs if found.get(pair.partition) != pair.offset]
    if wrong:
        said = f"{wrong[0].partition}: written, and a task would still be handed another offset"
        return StepInspection(StepStatus.FOREIGN, said)
    return StepInspection(StepStatus.DONE, f"{contents.where} holds what was to be written")


StoredRecordKey = tuple[bytes | None, int | None]


def _build_record_key(record: RawOffsetRecord) -> StoredRecordKey:
    return (base64.b64decode(record.key), record.kpartition)


def _find_other_records(
    contents: OffsetStoreContents, connector: str, wanted: dict[StoredRecordKey, bytes | None]
) -> dict[StoredRecordKey, bytes | None]:
    """Return the connector's records except those to be written."""
    found = {
        _build_record_key(raw_record): decode_record_value(raw_record)
        for raw_record in list_raw_records(contents, connector)
    }
    return {place: value for place, value in found.items() if place not in wanted}


def _has_new_values(
    there: set[StoredRecordKey],
    before: dict[StoredRecordKey, bytes | None],
    wanted: dict[StoredRecordKey, bytes | None],
) -> bool:
    """Return whether any of these records has its requested value and did not have it before."""
    return any(before.get(place) != wanted[place] for place in there)


def _describe_unsupported_step(step: AnyStep) -> str:
    name = type(step).__name__
    return f"{name}: Connect is not asked here; over REST it could be (--connect)"
