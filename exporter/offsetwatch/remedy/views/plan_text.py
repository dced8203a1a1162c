"""Texts about plans for users: steps, records, results, and what an operator must decide."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sized
from typing import Final

from offsetwatch.decode.dialects import has_own_order
from offsetwatch.decode.json_text import parse_flat_map
from offsetwatch.formatting import PROGRAM, format_connector_command, format_count
from offsetwatch.model.connectors import ConnectorKind
from offsetwatch.remedy.engine.progress import PlanProgress
from offsetwatch.remedy.model import journal_records as records
from offsetwatch.remedy.model import plan as steps
from offsetwatch.remedy.model.driver import AttemptResult
from offsetwatch.remedy.model.plan import PlanStatus

COMMAND = PROGRAM
_REQUESTS = {
    steps.RequestedState.STOPPED: "stop",
    steps.RequestedState.PAUSED: "pause",
    steps.RequestedState.RUNNING: "resume",
}


_STEP_TEXTS: Final[Mapping[type[steps.Step], str]] = {
    steps.Settle: "wait until the connector writes nothing",
    steps.Freeze: "read all offsets and back them up",
    steps.Reset: "reset all offsets",
    steps.Create: "create the connector, stopped",
    steps.Delete: "delete the connector",
    steps.Restart: "restart the connector",
}


def describe_step(step: steps.AnyStep) -> str:
    """Describe a step, as something that is being done."""
    match step:
        case steps.ToState():
            return f"{_REQUESTS[step.state]} the connector"
        case steps.Alter():
            return f"set the offsets of {_format_count(step.pairs, 'source partition')}"
        case steps.Write():
            return f"write {_format_count(step.records, 'record')} to {step.where}"
        case steps.Watch():
            return f"check that it runs for {step.quiet_s:.0f} s"
        case steps.DeleteTopic():
            return f"delete the topic {step.kafka}/{step.topic}"
        case steps.Copy():
            return f"copy {step.record.text} to {step.to}"
        case steps.Expect():
            return f"check that {'; '.join(map(_format_pair, step.pairs))} is unchanged"
        case steps.Prove():
            return f"check that it passes {step.record.text} and runs for {step.quiet_s:.0f} s"
        case _:
            return _STEP_TEXTS[type(step)]


def _format_pair(pair: steps.PartitionOffset) -> str:
    return f"{pair.partition} -> {pair.offset or 'none'}"


def _format_count(items: Sized, noun: str) -> str:
    return f"one {noun}" if len(items) == 1 else f"{len(items)} {noun}s"


def describe_live_record(record: records.StepRecord, progress: PlanProgress) -> str:
    """Describe a record while the plan is carried out; empty if it has nothing new."""
    match record:
        case records.StepIntended():
            again = "" if progress.sent <= 1 else f" (request {progress.sent})"
            return f"{progress.plan.subject.connector}: {describe_step(progress.step)}{again}"
        case records.OffsetsBackedUp():
            return (
                f"{format_count(len(record.frozen.pairs), 'offset')} backed up in "
                f"{record.frozen.backup}"
            )
        case records.StepAnswered(answer=AttemptResult.ACK):
            return ""
        case records.StepAnswered():
            return f"{_ANSWER_TEXTS[record.answer]}: {record.said}"
        case records.RollbackStarted():
            return f"rolling back: {record.said}"
        case records.StepVerified():
            return f"{progress.plan.subject.connector}: {record.said}" if record.said else ""
        case (
            records.PlanOpened()
            | records.PlanResumed()
            | records.PlanParked()
            | records.PlanEnded()
        ):
            return ""


_ANSWER_TEXTS = {
    AttemptResult.ACK: "done",
    AttemptResult.RETRY: "not yet",
    AttemptResult.NACK: "refused",
    AttemptResult.FAILED: "failed, reading back what has changed",
    AttemptResult.IN_DOUBT: "in doubt, looking whether it happened",
}


def describe_wait(said: str) -> str:
    """Return the line about a wait for people; "" if it is over."""
    return f"waiting: {said}" if said else ""


def describe_takeover(progress: PlanProgress) -> str:
    """Describe the continuation of another process's plan."""
    plan = progress.plan
    return f"continuing plan {plan.plan_id} ({plan.verb}), which was not finished"


def describe_ending(progress: PlanProgress, options: str) -> str:
    """Describe the plan's status, with what an operator must decide if it cannot go on."""
    name = progress.plan.subject.connector
    if progress.parked is not None:
        return _describe_decision(progress, options)
    ended = progress.ended
    if ended is None:
        return describe_interruption(progress, options)
    match ended.ending:
        case PlanStatus.SUCCEEDED:
            return (
                f"{name}: {progress.plan.verb}: done and read "
                f"back{_describe_confirmation(progress)}"
            )
        case PlanStatus.RESTORED:
            return f"{name}: not done, and everything is as it was: {ended.said}"
        case PlanStatus.UNCHANGED:
            return f"{name}: not done, nothing was changed: {ended.said}"
        case PlanStatus.INEFFECTIVE if ended.cause is records.PlanFailureCause.INTERRUPTED:
            return f"{name}: {progress.plan.verb}: done, and not watched to the end: {ended.said}"
        case PlanStatus.INEFFECTIVE if progress.changed and progress.plan.remedy is None:
            command = _format_restore_command(progress, f" {options}" if options else "")
            restore = f"; for the old offsets, `{command}`" if command else ""
            return (
                f"{name}: {progress.plan.verb}: done and read back, and it does not run: "
                f"{ended.said}{restore}"
            )
        case PlanStatus.INEFFECTIVE:
            return f"{name}: {progress.plan.verb}: done, and it did not help: {ended.said}"
        case _:
            return f"{name}: closed by a person: {ended.said}"


def _describe_confirmation(progress: PlanProgress) -> str:
    if progress.definite is None:
        return ""
    if progress.definite and _is_written_as_hash_map(progress):
        explain = format_connector_command("explain", progress.plan.subject.connector)
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


def _is_written_as_hash_map(progress: PlanProgress) -> bool:
    """Check whether the plan sets an offset over REST that the connector's map may order otherwise.

    For a reset, it checks the offsets that Connect lists but cannot look up.
    """
    plan = progress.plan
    if plan.subject.kind != ConnectorKind.SOURCE:
        return False
    pairs = [pair for step in plan.steps if isinstance(step, steps.Alter) for pair in step.pairs]
    if progress.frozen is not None and any(isinstance(step, steps.Reset) for step in plan.steps):
        pairs += [pair for pair in progress.frozen.pairs if pair.offset is None]
    return any(has_own_order(parse_flat_map(pair.partition.encode())) for pair in pairs)


def _describe_decision(progress: PlanProgress, options: str) -> str:
    plan, parked = progress.plan, progress.parked
    assert parked is not None
    on = f" {options}" if options else ""
    step = f"{'roll back: ' if progress.undoing else ''}{describe_step(progress.step)}"
    said = [f"{plan.subject.connector}: stopped half way, at the step: {step}: {parked.said}."]
    if progress.turned is not None:
        said.append(f"It had to be rolled back: {progress.turned.said}.")
    said.append(_describe_offsets_state(progress))
    if parked.ending is PlanStatus.IN_DOUBT:
        said.append(
            "The request may still take effect: resume the connector only once it has, or once no "
            "worker works on it any more."
        )
    said.append(
        f"Inspect the connector, then decide: to let the plan go on from what it finds, "
        f"`{COMMAND} plan recover {plan.plan_id}{on}`; to leave everything as it is now, "
        f"`{COMMAND} plan resolve {plan.plan_id} --because "
        f'"..."{on}`{_describe_restore(progress, on)}. '
        "Until then no other change of this connector is begun."
    )
    return " ".join(said)


def describe_interruption(progress: PlanProgress, options: str) -> str:
    """Describe a plan that no process works on any more, though it has not ended."""
    plan = progress.plan
    on = f" {options}" if options else ""
    begun = progress.sent > 0
    step = f"{'roll back: ' if progress.undoing else ''}{describe_step(progress.step)}"
    return (
        f"{plan.subject.connector}: interrupted at the step: "
        f"{step}{', which may have happened' if begun else ''}. "
        f"{_describe_offsets_state(progress)} `{COMMAND} plan recover {plan.plan_id}{on}` finishes "
        "it or puts everything back; the next change of this connector does that first."
    )


def format_pairs(step: steps.AnyStep) -> tuple[str, ...]:
    """Return the offsets that a step sets, one text for each source partition."""
    return (
        tuple(map(_format_pair, step.pairs)) if isinstance(step, steps.Alter | steps.Write) else ()
    )


def describe_past_record(record: records.AnyRecord) -> str:
    """Describe a record of the past on one line."""
    match record:
        case records.PlanOpened():
            return f"{record.plan.subject.connector}: {record.plan.verb}"
        case records.PlanResumed():
            return "taken up by another process"
        case records.OffsetsBackedUp():
            return f"{format_count(len(record.frozen.pairs), 'offset')} in {record.frozen.backup}"
        case records.StepIntended():
            return (
                f"{_format_direction(record.undoing)} step {record.index + 1} is about to be tried"
            )
        case records.StepAnswered():
            return f"{record.answer}: {record.said}"
        case records.StepVerified():
            return (
                f"{_format_direction(record.undoing)} step {record.index + 1}: "
                f"{record.said or 'done'}"
            )
        case records.RollbackStarted() | records.PlanParked():
            return f"{record.cause}: {record.said}"
        case records.PlanEnded():
            return f"{record.ending}: {record.said}"
        case _:
            return _describe_decision_record(record)


def _describe_decision_record(record: records.AnyRecord) -> str:
    """Describe a record that is no step of a plan."""
    match record:
        case records.PlanProposed():
            return f"{record.plan.subject.connector}: proposed: {record.plan.verb}"
        case records.PlanApproved() | records.PlanRejected() | records.AbortRequested():
            said = {
                records.PlanApproved: "approved",
                records.PlanRejected: "rejected",
                records.AbortRequested: "rollback requested",
            }
            because = f": {record.because}" if record.because else ""
            return f"{said[type(record)]} by {record.by}{because}"
        case records.PlanLapsed():
            return f"{'void' if record.void else 'not approved in time'}: {record.said}"
        case records.ModeSet():
            return f"mode {record.mode or 'as configured'} by {record.by}: {record.because}"
        case records.PauseSet():
            return f"{'paused' if record.paused else 'resumed'} by {record.by}: {record.because}"
        case records.BreakerSet():
            now = "open" if record.open else "closed"
            return f"breaker of {record.scope} {now} by {record.by}: {record.because}"
        case records.IncidentDetected():
            return f"{record.connector}: {record.said}"
        case records.IncidentEnded():
            return f"incident over: {record.incident}"
        case records.ActionRefused():
            return f"{record.connector}: {record.action}: {describe_refusal(record)}"
        case records.RecordReplayed():
            wrote = "was not written" if record.failed else "written"
            return f"{record.receipt} {wrote} to {record.to} by {record.by}"
        case records.LeadershipTaken():
            return f"{record.name} leads from here on"
        case _:
            raise AssertionError(record)


def describe_refusal(record: records.ActionRefused) -> str:
    """Describe why nothing was done."""
    if record.would:
        return f"would be done; the mode is {record.mode}"
    return "; ".join(f"{answer.guard}: {answer.said}" for answer in record.answers)


def _format_direction(undoing: bool) -> str:  # noqa: FBT001 - of a record
    return "back," if undoing else "forward,"


def _describe_restore(progress: PlanProgress, on: str) -> str:
    """Describe how to restore the old offsets, if they may have been changed."""
    command = _format_restore_command(progress, on)
    return f", and after that, for the old offsets, `{command}`" if command else ""


def _format_restore_command(progress: PlanProgress, on: str) -> str:
    """Return the command that restores the old offsets; "" if they are unchanged."""
    subject, frozen = progress.plan.subject, progress.frozen
    if not progress.changed or frozen is None or not frozen.pairs:
        return ""
    if subject.driver == "rest" and " --connect " not in on:
        on = f" --connect {shlex.quote(subject.store)}{on}"
    if subject.driver == "strimzi" and " --strimzi " not in on:
        # The place is the resource, or the entry of the configuration that is linked to it.
        resource = subject.store if "/" in subject.store else "NAMESPACE/NAME"
        on = f" --strimzi {shlex.quote(resource)}{on}"
    return f"{COMMAND} offsets import --offsets {shlex.quote(frozen.backup)}{on}"


def _describe_offsets_state(progress: PlanProgress) -> str:
    """Describe the known state of the offsets, for an operator who has to decide."""
    altered = any(
        isinstance(progress.plan.steps[number], steps.ToState) for number in progress.touched
    )
    original = progress.plan.original
    state = f" It was {original} before, and may be stopped now." if altered and original else ""
    if not progress.changed:
        return f"Its offsets are unchanged.{state}"
    frozen = progress.frozen
    backup_text = (
        f" As they were before, they are in {frozen.backup}." if frozen is not None else ""
    )
    return f"Its offsets may be the old ones, the new ones, or some of each.{backup_text}{state}"
