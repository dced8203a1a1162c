"""What a plan's records say to people, and what a person must decide where a plan cannot."""

from __future__ import annotations

import shlex

from offsetwatch.decode.dialects import has_own_order
from offsetwatch.decode.jsontext import parse_flat_map
from offsetwatch.model.commands import PROGRAM, connector_command
from offsetwatch.model.connectors import ConnectorKind
from offsetwatch.remedy.engine.progress import Progress
from offsetwatch.remedy.model.driver import Answer
from offsetwatch.remedy.model.journal_records import (
    AbortAsked,
    Answered,
    AnyRecord,
    Approved,
    BreakerSet,
    Cause,
    Ended,
    Ending,
    IncidentOver,
    IncidentSeen,
    Intended,
    Kept,
    Lapsed,
    Led,
    ModeSet,
    Opened,
    Parked,
    PauseSet,
    Proposed,
    Refused,
    Rejected,
    Replayed,
    Resumed,
    StepRecord,
    Turned,
    Verified,
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
    Pair,
    Prove,
    RecordAt,
    Reset,
    Restart,
    Settle,
    State,
    ToState,
    Watch,
    Write,
)

COMMAND = PROGRAM
_REQUESTS = {State.STOPPED: "stop", State.PAUSED: "pause", State.RUNNING: "resume"}


def doing(step: AnyStep) -> str:
    """A step, as something that is being done."""
    match step:
        case ToState():
            return f"{_REQUESTS[step.state]} the connector"
        case Settle():
            return "wait until the connector writes nothing"
        case Freeze():
            return "read all offsets and back them up"
        case Alter():
            return f"set the offsets of {_partitions(len(step.pairs))}"
        case Reset():
            return "reset all offsets"
        case Write():
            return f"write {_records(len(step.records))} to {step.where}"
        case Create():
            return "create the connector, stopped"
        case Delete():
            return "delete the connector"
        case Restart():
            return "restart the connector"
        case Watch():
            return f"check that it runs for {step.quiet_s:.0f} s"
        case DeleteTopic():
            return f"delete the topic {step.kafka}/{step.topic}"
        case _:
            return _of_one_record(step)


def _of_one_record(step: Copy | Expect | Prove) -> str:
    match step:
        case Copy():
            return f"copy {_where(step.record)} to {step.to}"
        case Expect():
            return f"check that {'; '.join(_pair(at) for at in step.pairs)} is unchanged"
        case Prove():
            return f"check that it passes {_where(step.record)} and runs for {step.quiet_s:.0f} s"


def _where(at: RecordAt) -> str:
    return f"{at.kafka}/{at.topic}-{at.partition}@{at.offset}"


def _pair(at: Pair) -> str:
    return f"{at.partition} -> {at.offset or 'none'}"


def _partitions(count: int) -> str:
    return "one source partition" if count == 1 else f"{count} source partitions"


def _records(count: int) -> str:
    return "one record" if count == 1 else f"{count} records"


def of_record(record: StepRecord, progress: Progress) -> str:
    """What the record says while the plan is carried out; nothing where that says nothing new."""
    match record:
        case Intended():
            again = "" if progress.sent <= 1 else f" (request {progress.sent})"
            return f"{progress.plan.subject.connector}: {doing(progress.step)}{again}"
        case Kept():
            return f"{len(record.frozen.pairs)} offsets backed up in {record.frozen.backup}"
        case Answered(answer=Answer.ACK):
            return ""
        case Answered():
            return f"{_WORTH[record.answer]}: {record.said}"
        case Turned():
            return f"rolling back: {record.said}"
        case Verified():
            return f"{progress.plan.subject.connector}: {record.said}" if record.said else ""
        case Opened() | Resumed() | Parked() | Ended():
            return ""


_WORTH = {
    Answer.ACK: "done",
    Answer.RETRY: "not yet",
    Answer.NACK: "refused",
    Answer.FAILED: "failed, reading back what has changed",
    Answer.IN_DOUBT: "in doubt, looking whether it happened",
}


def waiting(said: str) -> str:
    """While nothing can be done but to wait."""
    return f"waiting: {said}" if said else ""


def taken_up(progress: Progress) -> str:
    """When another process's plan is gone on with."""
    plan = progress.plan
    return f"continuing plan {plan.plan_id} ({plan.verb}), which was not finished"


def ending(progress: Progress, options: str) -> str:
    """How the plan stands, with what a person must decide if it cannot go on by itself."""
    name = progress.plan.subject.connector
    if progress.parked is not None:
        return _to_decide(progress, options)
    ended = progress.ended
    if ended is None:
        return cut_off(progress, options)
    match ended.ending:
        case Ending.SUCCEEDED:
            return f"{name}: {progress.plan.verb}: done and read back{_vouched(progress)}"
        case Ending.RESTORED:
            return f"{name}: not done, and everything is as it was: {ended.said}"
        case Ending.UNCHANGED:
            return f"{name}: not done, nothing was changed: {ended.said}"
        case Ending.INEFFECTIVE if ended.cause is Cause.INTERRUPTED:
            return f"{name}: {progress.plan.verb}: done, and not watched to the end: {ended.said}"
        case Ending.INEFFECTIVE:
            return f"{name}: {progress.plan.verb}: done, and it did not help: {ended.said}"
        case _:
            return f"{name}: closed by a person: {ended.said}"


def _vouched(progress: Progress) -> str:
    if progress.definite is None:
        return ""
    if progress.definite and _as_hash_map(progress):
        explain = connector_command("explain", progress.plan.subject.connector)
        return (
            "; Connect wrote them in the order of a Java HashMap, and whether its task reads them "
            f"shows when it has started and committed: `{explain}`. If it goes on "
            "from where it was, stop the workers and change them with --worker-config"
        )
    if progress.definite:
        return "; the connector confirms its new offsets"
    return (
        "; the connector does not confirm them: if it keeps offsets anywhere else, "
        "change them there too"
    )


def _as_hash_map(progress: Progress) -> bool:
    """Does it change an offset over REST of which the connector's own map may have another order?
    Of a reset, offsets tell that Connect lists and cannot look up.
    """
    plan = progress.plan
    if plan.subject.kind != ConnectorKind.SOURCE:
        return False
    pairs = [pair for step in plan.steps if isinstance(step, Alter) for pair in step.pairs]
    if progress.frozen is not None and any(isinstance(step, Reset) for step in plan.steps):
        pairs += [pair for pair in progress.frozen.pairs if pair.offset is None]
    return any(has_own_order(parse_flat_map(pair.partition.encode())) for pair in pairs)


def _to_decide(progress: Progress, options: str) -> str:
    plan, parked = progress.plan, progress.parked
    assert parked is not None
    on = f" {options}" if options else ""
    step = f"{'roll back: ' if progress.undoing else ''}{doing(progress.step)}"
    said = [f"{plan.subject.connector}: stopped half way, at the step: {step}: {parked.said}."]
    if progress.turned is not None:
        said.append(f"It had to be rolled back: {progress.turned.said}.")
    said.append(_what_stands(progress))
    if parked.ending is Ending.IN_DOUBT:
        said.append(
            "The request may still take effect: resume the connector only once it has, or once no "
            "worker works on it any more."
        )
    said.append(
        f"Inspect the connector, then decide: to let the plan go on from what it finds, "
        f"`{COMMAND} plan recover {plan.plan_id}{on}`; to leave everything as it is now, "
        f'`{COMMAND} plan resolve {plan.plan_id} --because "..."{on}`{_and_restore(progress, on)}. '
        "Until then no other change of this connector is begun."
    )
    return " ".join(said)


def cut_off(progress: Progress, options: str) -> str:
    """Of a plan that nobody works on any more, though it is not at an end."""
    plan = progress.plan
    on = f" {options}" if options else ""
    begun = progress.sent > 0
    step = f"{'roll back: ' if progress.undoing else ''}{doing(progress.step)}"
    return (
        f"{plan.subject.connector}: interrupted at the step: {step}"
        f"{', which may have happened' if begun else ''}. "
        f"{_what_stands(progress)} `{COMMAND} plan recover {plan.plan_id}{on}` finishes it or puts "
        f"everything back; the next change of this connector does that first."
    )


def pairs_of(step: AnyStep) -> tuple[str, ...]:
    """What a step gives each source partition."""
    return tuple(map(_pair, step.pairs)) if isinstance(step, Alter | Write) else ()


def recorded(record: AnyRecord) -> str:
    """A record of the past, on a line."""
    match record:
        case Opened():
            return f"{record.plan.subject.connector}: {record.plan.verb}"
        case Resumed():
            return "taken up by another process"
        case Kept():
            return f"{len(record.frozen.pairs)} offsets in {record.frozen.backup}"
        case Intended():
            return f"{_way(record.undoing)} step {record.index + 1} is about to be tried"
        case Answered():
            return f"{record.answer}: {record.said}"
        case Verified():
            return f"{_way(record.undoing)} step {record.index + 1}: {record.said or 'done'}"
        case Turned():
            return f"{record.cause}: {record.said}"
        case Parked():
            return f"{record.cause}: {record.said}"
        case Ended():
            return f"{record.ending}: {record.said}"
        case _:
            return _decided(record)


def _decided(record: AnyRecord) -> str:
    """Of a record that is no step of a plan."""
    match record:
        case Proposed():
            return f"{record.plan.subject.connector}: proposed: {record.plan.verb}"
        case Approved() | Rejected() | AbortAsked():
            said = {Approved: "approved", Rejected: "rejected", AbortAsked: "rollback requested"}
            because = f": {record.because}" if record.because else ""
            return f"{said[type(record)]} by {record.by}{because}"
        case Lapsed():
            return f"{'void' if record.void else 'not approved in time'}: {record.said}"
        case ModeSet():
            return f"mode {record.mode or 'as configured'} by {record.by}: {record.because}"
        case PauseSet():
            return f"{'paused' if record.paused else 'resumed'} by {record.by}: {record.because}"
        case BreakerSet():
            now = "open" if record.open else "closed"
            return f"breaker of {record.scope} {now} by {record.by}: {record.because}"
        case IncidentSeen():
            return f"{record.connector}: {record.said}"
        case IncidentOver():
            return f"incident over: {record.incident}"
        case Refused():
            return f"{record.connector}: {record.action}: {refusal(record)}"
        case Replayed():
            wrote = "was not written" if record.failed else "written"
            return f"{record.receipt} {wrote} to {record.to} by {record.by}"
        case Led():
            return f"{record.name} leads from here on"
        case _:
            raise AssertionError(record)


def refusal(record: Refused) -> str:
    """Why nothing was done."""
    if record.would:
        return f"would be done; the mode is {record.mode}"
    return "; ".join(f"{at.guard}: {at.said}" for at in record.answers)


def _way(undoing: bool) -> str:  # noqa: FBT001 - of a record
    return "back," if undoing else "forward,"


def _and_restore(progress: Progress, on: str) -> str:
    """How a person puts the old offsets back, where they may not be there any more."""
    at, frozen = progress.plan.subject, progress.frozen
    if not progress.changed or frozen is None or not frozen.pairs:
        return ""
    if at.driver == "rest" and " --connect " not in on:
        on = f" --connect {shlex.quote(at.place)}{on}"
    if at.driver == "strimzi" and " --strimzi " not in on:
        # The place is the resource, or the entry of the configuration that is linked to it.
        resource = at.place if "/" in at.place else "NAMESPACE/NAME"
        on = f" --strimzi {shlex.quote(resource)}{on}"
    command = f"{COMMAND} offsets import --offsets {shlex.quote(frozen.backup)}{on}"
    return f", and after that, for the old offsets, `{command}`"


def _what_stands(progress: Progress) -> str:
    """What is known of the world, for a person who has to decide."""
    asked = any(isinstance(progress.plan.steps[at], ToState) for at in progress.touched)
    original = progress.plan.original
    state = f" It was {original} before, and may be stopped now." if asked and original else ""
    if not progress.changed:
        return f"Its offsets are unchanged.{state}"
    frozen = progress.frozen
    kept = f" As they were before, they are in {frozen.backup}." if frozen is not None else ""
    return f"Its offsets may be the old ones, the new ones, or some of each.{kept}{state}"
