"""The way back from wherever a plan is: pure, and made of the same steps as the way forward."""

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
    Frozen,
    Pair,
    Plan,
    Proof,
    Raw,
    RawFound,
    Reset,
    Settle,
    ToState,
    Write,
)


def changes(step: AnyStep) -> bool:
    """Whether a step changes more than a state."""
    return isinstance(step, Alter | Reset | Write | Create | Delete | DeleteTopic)


def harmless(step: AnyStep) -> bool:
    """Whether a step leaves the connector alone, and nothing that would have to be taken back."""
    return isinstance(step, Copy | Expect | Proof | Settle | Freeze)


def irreversible(step: AnyStep) -> bool:
    """Whether nothing brings back what a step removes."""
    return isinstance(step, Delete | DeleteTopic)


def expected(frozen: Frozen, done: Iterable[AnyStep]) -> Frozen:
    """What the offsets are after these steps, if they were `frozen` before."""
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
                        (step.where, record.kpartition, record.key): RawFound(
                            **structs.asdict(record), where=step.where
                        )
                        for record in step.records
                    }
            case _:
                pass
    return Frozen(
        pairs=tuple(pairs[name] for name in sorted(pairs) if pairs[name].offset is not None),
        backup=frozen.backup,
        backup_sha256=frozen.backup_sha256,
        raw=tuple(record for record in raw.values() if record.value is not None),
    )


def way_back(plan: Plan, frozen: Frozen | None, touched: frozenset[int]) -> tuple[AnyStep, ...]:
    """The steps that put everything back, if these of the plan's steps may have had an effect.

    Offsets first, while the connector is still stopped; of a connector that was created they are
    what a namesake left behind, and stay when it is deleted again.
    """
    done = [plan.steps[at] for at in sorted(touched)]
    created = [step for step in done if isinstance(step, Create)]
    back: list[AnyStep] = []
    if frozen is not None:
        back.extend(_offsets_back(frozen, done))
    if created:
        back.append(Delete(created[0].config_sha256))
    elif plan.original is not None and any(isinstance(step, ToState) for step in done):
        back.append(ToState(plan.original))
    return tuple(back)


def _offsets_back(frozen: Frozen, done: list[AnyStep]) -> Iterable[AnyStep]:
    were = {pair.partition: pair for pair in frozen.pairs}
    named: dict[str, Pair] = {}
    for step in done:
        # Over REST no bytes were seen: to write none would remove what was there.
        if isinstance(step, Write) and (frozen.raw or not frozen.pairs):
            yield Write(step.where, _records_back(frozen, step), _pairs_back(were, step.pairs))
        elif isinstance(step, Reset):
            named |= were
        elif isinstance(step, Alter | Write):
            named |= {pair.partition: pair for pair in step.pairs}
    if named:
        yield Alter(_pairs_back(were, named.values()))


def _pairs_back(were: dict[str, Pair], pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    names = sorted({pair.partition for pair in pairs})
    return tuple(were.get(name, Pair(name, None)) for name in names)


def _records_back(frozen: Frozen, step: Write) -> tuple[Raw, ...]:
    """Each record as it was: the very bytes of before, or none."""
    were = {place: record.value for place, record in frozen.records_of(step.where).items()}
    places = dict.fromkeys((record.kpartition, record.key) for record in step.records)
    return tuple(
        Raw(key=key, value=were.get((kpartition, key)), kpartition=kpartition)
        for kpartition, key in places
    )
