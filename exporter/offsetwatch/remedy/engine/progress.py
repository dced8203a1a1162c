"""Progress of a plan, folded from its records so that any process can go on, and its rollback."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from msgspec import structs

from offsetwatch.remedy.model.driver import AttemptResult
from offsetwatch.remedy.model.journal_records import (
    AnyRecord,
    OffsetsBackedUp,
    PlanEnded,
    PlanOpened,
    PlanParked,
    PlanResumed,
    RollbackStarted,
    StepAnswered,
    StepIntended,
    StepRecord,
    StepVerified,
)
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
    RequestedState,
    Reset,
    Settle,
    ToState,
    VerificationStep,
    Write,
)

AWAKE_S: Final = 10.0  # time enough for a task to start, where it can


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """Limits of the engine's waits, in seconds, and of its requests.

    step_s      for a step to show, from when this process began with it
    doubt_s     for an unanswered request to show: Connect stops waiting after 90 s and may go on
                working
    ack_s       for an acknowledged request to show, before it is made again
    attempts    number of requests for one step that may have had an effect
    """

    step_s: float = 180.0
    doubt_s: float = 120.0
    ack_s: float = 30.0
    attempts: int = 3


@dataclass(frozen=True, slots=True)
class PlanProgress:
    """Progress of a plan: first what the journal shows, then what only this process knows.

    path        the plan's steps, or those of the rollback
    index       of the next step
    sent        requests for this step that may have had an effect
    spent       of these, the number since a process last took the plan over
    requested_at    when the last request was recorded
    answer      its result; None while there is no answer
    doubt_until when the unanswered requests of this step are assumed to have no effect any more
    late_until  the same of earlier steps
    touched     indexes of the plan's steps that may have had an effect
    definite    whether the connector confirms its new offsets (see driver.Outcome)
    stopped_at  when a connector that is to run again was first requested to stop; 0 if it was not
    heard_at    a moment that has passed, by the clock of the records' writer

    since       when this process began with the step
    inspections       number of inspections or attempts without success since then
    waited_s    how long it has waited since; time in which the process was suspended does not count
    failed_inspections       number of consecutive inspections that could read nothing
    identified  whether the plan's PlanSubject.identity was verified
    taken_up    whether the direction of a plan taken over has yet to be decided
    refused     why the last attempt was put off
    """

    plan: Plan
    path: tuple[AnyStep, ...]
    limits: EngineLimits = field(default_factory=EngineLimits)
    index: int = 0
    undoing: bool = False
    frozen: FrozenOffsets | None = None
    sent: int = 0
    spent: int = 0
    requested_at: float = 0.0
    answer: AttemptResult | None = None
    doubt_until: float = 0.0
    late_until: float = 0.0
    touched: frozenset[int] = frozenset()
    definite: bool | None = None
    stopped_at: float = 0.0
    heard_at: float = 0.0
    turned: RollbackStarted | None = None
    parked: PlanParked | None = None
    ended: PlanEnded | None = None

    since: float = 0.0
    inspections: int = 0
    waited_s: float = 0.0
    failed_inspections: int = 0
    identified: bool = False
    taken_up: bool = False
    refused: str = ""

    @property
    def step(self) -> AnyStep:
        """Return the next step."""
        return self.path[self.index]

    def over(self, seconds: float, now: float) -> bool:
        """Check whether this step had so many seconds.

        A process that was suspended, and wakes after them, still waits up to AWAKE_S (10 s): it has
        not inspected the connector, which had time to act.
        """
        quiet_s = self.step.quiet_s if isinstance(self.step, VerificationStep) else 0.0
        awake_s = min(AWAKE_S, seconds) + quiet_s
        return now >= self.since + seconds + quiet_s and self.waited_s >= awake_s

    @property
    def read_back(self) -> bool:
        """Check whether the last request was refused or failed, so that its effect must be read."""
        return self.answer in {AttemptResult.NACK, AttemptResult.FAILED}

    @property
    def last(self) -> bool:
        """Check whether this is the last step that requests anything."""
        return all(isinstance(step, VerificationStep) for step in self.path[self.index + 1 :])

    @property
    def effects(self) -> frozenset[int]:
        """Return the indexes of `touched` whose steps are not harmless."""
        return frozenset(
            number for number in self.touched if not is_harmless(self.plan.steps[number])
        )

    @property
    def copied(self) -> str | None:
        """Return the hash of the record that was copied to quarantine; None before that.

        The copy was read back.
        """
        done = self.plan.steps if self.undoing else self.path[: self.index]
        hashes = [step.sha256 for step in done if isinstance(step, Copy)]
        return hashes[0] if hashes else None

    @property
    def changed(self) -> bool:
        """Check whether more than the connector's state may have been changed."""
        return any(is_change(self.plan.steps[number]) for number in self.touched)

    @property
    def before(self) -> FrozenOffsets | None:
        """Return the offsets that this step should find; None before they were read."""
        if self.frozen is None:
            return None
        forward = self.plan.steps
        done = tuple(forward[number] for number in sorted(self.touched)) if self.undoing else ()
        return compute_expected_offsets(self.frozen, (*done, *self.path[: self.index]))


def replay_records(records: tuple[AnyRecord, ...], limits: EngineLimits) -> PlanProgress:
    """Return the progress that the writer of these records had reached.

    The first step record is PlanOpened; how the plan was approved does not matter here
    (remedy/model/approval.py).
    """
    opened, *rest = (record for record in records if isinstance(record, StepRecord))
    assert isinstance(opened, PlanOpened)
    progress = PlanProgress(plan=opened.plan, path=opened.plan.steps, limits=limits)
    for record in rest:
        progress = apply_record(progress, record)
    return progress


def apply_record(progress: PlanProgress, record: StepRecord) -> PlanProgress:
    """Return the progress after this record."""
    match record:
        case PlanResumed():
            taken = replace(
                progress, parked=None, spent=0, since=record.at, inspections=0, waited_s=0.0
            )
            return _restart_waits(taken, record.at)
        case OffsetsBackedUp():
            return replace(progress, frozen=record.frozen)
        case StepIntended():
            return _apply_intent(progress, record)
        case StepAnswered():
            return _apply_answer(progress, record)
        case StepVerified():
            # One request has landed; of several without an answer another may yet. Where it is no
            # person's plan, a person may have done the same meanwhile: then ours may come yet.
            others = progress.sent > 1 or progress.plan.remedy is not None
            late = progress.doubt_until if others else 0.0
            return _move_to_step(progress, index=progress.index + 1, late=late, now=record.at)
        case RollbackStarted():
            late = progress.doubt_until
            turned = replace(progress, path=record.steps, undoing=True, turned=record)
            if progress.answer is AttemptResult.NACK and not any(
                is_change(step) for step in record.steps
            ):
                # Refused, and nothing to put back: whoever turned knew that it was as before.
                turned = replace(turned, touched=turned.touched - {progress.index})
            return _move_to_step(turned, index=0, late=late, now=record.at)
        case PlanParked():
            return replace(progress, parked=record)
        case PlanEnded():
            return replace(progress, ended=record, parked=None)
        case PlanOpened():
            raise AssertionError(record)


def _restart_waits(progress: PlanProgress, now: float) -> PlanProgress:
    """Restart the waits of another process.

    Its clock may have been set since, and no one knows by how much. Only what had passed by its own
    clock has passed.
    """
    until = now + progress.limits.doubt_s
    late = progress.late_until > progress.heard_at
    restarted = replace(progress, late_until=until if late else 0.0, heard_at=now)
    if not progress.sent:
        return restarted
    answered = progress.answer is AttemptResult.ACK or progress.read_back
    doubtful = not answered or progress.doubt_until > progress.heard_at
    return replace(
        restarted,
        requested_at=now,
        answer=progress.answer if answered else AttemptResult.IN_DOUBT,
        doubt_until=until if doubtful else 0.0,
    )


def _move_to_step(progress: PlanProgress, *, index: int, late: float, now: float) -> PlanProgress:
    return replace(
        progress,
        index=index,
        sent=0,
        spent=0,
        answer=None,
        doubt_until=0.0,
        late_until=max(progress.late_until, late),
        heard_at=now,
        since=now,
        inspections=0,
        waited_s=0.0,
        failed_inspections=0,
        refused="",
    )


def _apply_intent(progress: PlanProgress, record: StepIntended) -> PlanProgress:
    assert (record.index, record.undoing) == (progress.index, progress.undoing)
    touched, stopped_at = progress.touched, progress.stopped_at
    stops = isinstance(progress.step, ToState) and progress.step.state is RequestedState.STOPPED
    if stops and not progress.undoing and progress.plan.final is not RequestedState.STOPPED:
        stopped_at = stopped_at or record.at
    return replace(
        progress,
        sent=progress.sent + 1,
        spent=progress.spent + 1,
        requested_at=record.at,
        heard_at=record.at,
        answer=None,
        touched=touched if progress.undoing else touched | {progress.index},
        stopped_at=stopped_at,
    )


def _apply_answer(progress: PlanProgress, record: StepAnswered) -> PlanProgress:
    match record.answer:
        case AttemptResult.ACK if progress.undoing:
            return replace(progress, answer=record.answer)
        case AttemptResult.ACK:
            known = [flag for flag in (progress.definite, record.definite) if flag is not None]
            definite = all(known) if known else None
            return replace(progress, answer=record.answer, definite=definite)
        case AttemptResult.IN_DOUBT:
            return _mark_in_doubt(progress)
        case AttemptResult.FAILED:
            return replace(progress, answer=record.answer, refused=record.said)
        case AttemptResult.NACK if _must_read_back(progress):
            return replace(progress, answer=record.answer, refused=record.said)
        case AttemptResult.RETRY | AttemptResult.NACK:
            refused = progress.refused if progress.read_back else record.said
            return _withdraw_attempt(replace(progress, refused=refused))


def _mark_in_doubt(progress: PlanProgress) -> PlanProgress:
    until = max(progress.doubt_until, progress.requested_at + progress.limits.doubt_s)
    return replace(progress, answer=AttemptResult.IN_DOUBT, doubt_until=until)


def _must_read_back(progress: PlanProgress) -> bool:
    """Check whether a refusal is trusted only after the offsets were read.

    It may be the second of two changes of a sink that Connect was refused, and a connector refuses
    in words of its own.
    """
    return (
        not progress.undoing
        and not progress.read_back
        and progress.plan.subject.driver in {"rest", "strimzi"}
        and isinstance(progress.step, Alter | Reset)
    )


def _withdraw_attempt(progress: PlanProgress) -> PlanProgress:
    # By the last request; an earlier one of the same step may have been carried out.
    sent, touched = progress.sent - 1, progress.touched
    if progress.read_back and not progress.doubt_until:
        sent = 0  # each of them has ended
    if sent:
        return replace(progress, sent=sent, answer=AttemptResult.IN_DOUBT)
    if not progress.undoing:
        touched -= {progress.index}
    return replace(progress, sent=0, spent=0, answer=None, touched=touched)


# --- rollback -------------------------------------------------------------------------------------


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
    were = {
        values_before: record.value
        for values_before, record in frozen.records_of(step.where).items()
    }
    restored = dict.fromkeys((record.kpartition, record.key) for record in step.records)
    return tuple(
        RawOffsetRecord(key=key, value=were.get((kpartition, key)), kpartition=kpartition)
        for kpartition, key in restored
    )
