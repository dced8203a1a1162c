"""What passes between the engine and the runner: commands one way, events the other."""

from __future__ import annotations

from typing import NamedTuple

from offsetwatch.remedy.engine.progress import PlanProgress
from offsetwatch.remedy.model.driver import Outcome, StepInspection
from offsetwatch.remedy.model.journal_records import PlanFailureCause, StepRecord
from offsetwatch.remedy.model.plan import AnyStep, FrozenOffsets


class IdentifyCommand(NamedTuple):
    """Ask which place this is."""


class InspectCommand(NamedTuple):
    """Look how the world stands to the step."""

    step: AnyStep
    before: FrozenOffsets | None


class AttemptCommand(NamedTuple):
    """Try the step once."""

    step: AnyStep
    before: FrozenOffsets | None


class BackUpCommand(NamedTuple):
    """Look all offsets up and back them up."""


class RecheckCommand(NamedTuple):
    """Ask whoever made the plan whether it still holds with these offsets."""

    frozen: FrozenOffsets


class WaitCommand(NamedTuple):
    """Wait this long; `said` is what for."""

    seconds: float
    said: str = ""


class EndCommand(NamedTuple):
    """Nothing more to do here: the last record says why."""


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
    """A new plan was opened."""


class TakeOverEvent(NamedTuple):
    """Another process goes on with a plan."""


class IdentityEvent(NamedTuple):
    """What the place says it is."""

    identity: str | None


class InspectionEvent(NamedTuple):
    """What was seen of the step."""

    look: StepInspection


class UnavailableEvent(NamedTuple):
    """Nothing could be seen; `said` is why."""

    cause: PlanFailureCause
    said: str


class AttemptEvent(NamedTuple):
    """What an attempt was worth, and what a refusal of it is put down to."""

    outcome: Outcome
    cause: PlanFailureCause = PlanFailureCause.REFUSED


class BackupEvent(NamedTuple):
    """The offsets, backed up."""

    frozen: FrozenOffsets


class BackupFailureEvent(NamedTuple):
    """They could not be backed up; `said` is why."""

    said: str


class RecheckEvent(NamedTuple):
    """What speaks against going on; nothing if nothing does."""

    problems: tuple[str, ...]


class WaitOverEvent(NamedTuple):
    """The wait is over."""


class InterruptEvent(NamedTuple):
    """Whoever started it wants it to stop."""


class AbortEvent(NamedTuple):
    """A person wants it undone, as far as it can be; `said` is who, and why."""

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
    """Append the records; when they are on the disk, carry out the command."""

    progress: PlanProgress
    command: Command
    records: tuple[StepRecord, ...] = ()
