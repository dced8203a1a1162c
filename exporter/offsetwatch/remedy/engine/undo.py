"""Rollback of a plan from wherever it is, made of the same steps as the plan. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Copy,
    Create,
    Delete,
    DeleteTopic,
    Expect,
    Freeze,
    FrozenOffsets,
    LocatedRawRecord,
    PartitionOffset,
    Plan,
    RawOffsetRecord,
    Reset,
    Settle,
    ToState,
    VerificationStep,
    Write,
)


def is_change(step: AnyStep) -> bool:
    """Check whether a step changes more than the connector's state."""
    return isinstance(step, Alter | Reset | Write | Create | Delete | DeleteTopic)


def is_harmless(step: AnyStep) -> bool:
    """Check whether a step leaves the connector alone, and nothing that must be rolled back."""
    return isinstance(step, Copy | Expect | VerificationStep | Settle | Freeze)


def is_irreversible(step: AnyStep) -> bool:
    """Check whether nothing restores what a step removes."""
    return isinstance(step, Delete | DeleteTopic)


def compute_expected_offsets(frozen: FrozenOffsets, done: Iterable[AnyStep]) -> FrozenOffsets:
    """Return the offsets after these steps, if they were `frozen` before."""
    pairs = {pair.partition: pair for pair in frozen.pairs}
    raw = {(record.where, record.kpartition, record.key): record for record in frozen.raw}
    for step in done:
        match step:
            case Reset():
                pairs = {}
            case Alter() | Write():
                pairs |= {pair.partition: pair for pair in step.pairs}
                if isinstance(step, Write):
                    raw |= {
                        (step.where, record.kpartition, record.key): LocatedRawRecord(
                            **structs.asdict(record), where=step.where
                        )
                        for record in step.records
                    }
            case _:
                pass
    return FrozenOffsets(
        pairs=tuple(pairs[name] for name in sorted(pairs) if pairs[name].offset is not None),
        backup=frozen.backup,
        backup_sha256=frozen.backup_sha256,
        raw=tuple(record for record in raw.values() if record.value is not None),
    )


def build_rollback_steps(
    plan: Plan, frozen: FrozenOffsets | None, touched: frozenset[int]
) -> tuple[AnyStep, ...]:
    """Build the steps that restore everything, if these steps of the plan may have had an effect.

    Offsets come first, while the connector is still stopped. Those of a connector that the plan
    created were left by an earlier one of that name, and stay when it is deleted again.
    """
    done = [plan.steps[number] for number in sorted(touched)]
    created = [step for step in done if isinstance(step, Create)]
    back: list[AnyStep] = []
    if frozen is not None:
        back.extend(_build_offset_steps(frozen, done))
    if created:
        back.append(Delete(created[0].config_sha256))
    elif plan.original is not None and any(isinstance(step, ToState) for step in done):
        back.append(ToState(plan.original))
    return tuple(back)


def _build_offset_steps(frozen: FrozenOffsets, done: list[AnyStep]) -> Iterable[AnyStep]:
    were = {pair.partition: pair for pair in frozen.pairs}
    named: dict[str, PartitionOffset] = {}
    for step in done:
        # Over REST no bytes were seen: to write none would remove what was there.
        if isinstance(step, Write) and (frozen.raw or not frozen.pairs):
            yield Write(
                step.where, _restore_records(frozen, step), _restore_pairs(were, step.pairs)
            )
        elif isinstance(step, Reset):
            named |= were
        elif isinstance(step, Alter | Write):
            named |= {pair.partition: pair for pair in step.pairs}
    if named:
        yield Alter(_restore_pairs(were, named.values()))


def _restore_pairs(
    were: dict[str, PartitionOffset], pairs: Iterable[PartitionOffset]
) -> tuple[PartitionOffset, ...]:
    names = sorted({pair.partition for pair in pairs})
    return tuple(were.get(name, PartitionOffset(name, None)) for name in names)


def _restore_records(frozen: FrozenOffsets, step: Write) -> tuple[RawOffsetRecord, ...]:
    """Return each record as it was before: its exact bytes, or none."""
    were = {place: record.value for place, record in frozen.records_of(step.where).items()}
    places = dict.fromkeys((record.kpartition, record.key) for record in step.records)
    return tuple(
        RawOffsetRecord(key=key, value=were.get((kpartition, key)), kpartition=kpartition)
        for kpartition, key in places
    )
