"""Protocol between engine and runner: commands to the runner, events to the engine."""

from __future__ import annotations

from typing import NamedTuple

from offsetwatch.remedy.engine.progress import PlanProgress
from offsetwatch.remedy.model.driver import Outcome, StepInspection
from offsetwatch.remedy.model.journal_records import PlanFailureCause, StepRecord
from offsetwatch.remedy.model.plan import AnyStep, FrozenOffsets


class IdentifyCommand(NamedTuple):
    """Command to read the id of the Connect cluster or storage (Driver.identity)."""


class InspectCommand(NamedTuple):
    """Command to inspect the connector for the step."""

    step: AnyStep
    before: FrozenOffsets | None


class AttemptCommand(NamedTuple):
    """Command to try the step once."""

    step: AnyStep
    before: FrozenOffsets | None


class BackUpCommand(NamedTuple):
    """Command to read all offsets and back them up."""


class RecheckCommand(NamedTuple):
    """Command to check with the plan's maker that it is still valid with these offsets."""

    frozen: FrozenOffsets


class WaitCommand(NamedTuple):
    """Command to wait this long; `said` is the reason."""

    seconds: float
    said: str = ""


class EndCommand(NamedTuple):
    """Command to stop: the last record has the reason."""


Command = (
    IdentifyCommand
    | InspectCommand
    | AttemptCommand
    | BackUpCommand
    | RecheckCommand
    | WaitCommand
    | EndCommand
)


class BeginEvent(NamedTuple):
    """Opening of a new plan."""


class TakeOverEvent(NamedTuple):
    """Takeover of a plan by another process."""


class IdentityEvent(NamedTuple):
    """Id of the Connect cluster or storage; None if unknown."""

    identity: str | None


class InspectionEvent(NamedTuple):
    """Result of inspecting the step."""

    look: StepInspection


class UnavailableEvent(NamedTuple):
    """Failure to read anything; `said` is the reason."""

    cause: PlanFailureCause
    said: str


class AttemptEvent(NamedTuple):
    """Outcome of an attempt; `cause` applies if it was refused."""

    outcome: Outcome
    cause: PlanFailureCause = PlanFailureCause.REFUSED


class BackupEvent(NamedTuple):
    """Backup of the offsets that was made."""

    frozen: FrozenOffsets


class BackupFailureEvent(NamedTuple):
    """Failure to back up the offsets; `said` is the reason."""

    said: str


class RecheckEvent(NamedTuple):
    """Result of checking the plan again; `problems` is empty if it is still valid."""

    problems: tuple[str, ...]


class WaitOverEvent(NamedTuple):
    """End of the wait."""


class InterruptEvent(NamedTuple):
    """Interruption of the plan by whoever started it."""


class AbortEvent(NamedTuple):
    """Request of an operator for a rollback, as far as possible; `said` is who, and why."""

    said: str


Event = (
    BeginEvent
    | TakeOverEvent
    | IdentityEvent
    | InspectionEvent
    | UnavailableEvent
    | AttemptEvent
    | BackupEvent
    | BackupFailureEvent
    | RecheckEvent
    | WaitOverEvent
    | InterruptEvent
    | AbortEvent
)


class Move(NamedTuple):
    """Move of the engine: append the records, then, once on the disk, carry out the command."""

    progress: PlanProgress
    command: Command
    records: tuple[StepRecord, ...] = ()
