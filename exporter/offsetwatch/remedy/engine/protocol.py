"""What passes between the engine and the runner: commands one way, events the other."""

from __future__ import annotations

from typing import NamedTuple

from offsetwatch.remedy.engine.progress import Progress
from offsetwatch.remedy.model.driver import Look, Outcome
from offsetwatch.remedy.model.journal_records import Cause, StepRecord
from offsetwatch.remedy.model.plan import AnyStep, Frozen


class Identify(NamedTuple):
    """Ask which place this is."""


class LookAt(NamedTuple):
    """Look how the world stands to the step."""

    step: AnyStep
    before: Frozen | None


class CarryOut(NamedTuple):
    """Try the step once."""

    step: AnyStep
    before: Frozen | None


class Keep(NamedTuple):
    """Look all offsets up and back them up."""


class Recheck(NamedTuple):
    """Ask whoever made the plan whether it still holds with these offsets."""

    frozen: Frozen


class Pause(NamedTuple):
    """Wait this long; `said` is what for."""

    seconds: float
    said: str = ""


class End(NamedTuple):
    """Nothing more to do here: the last record says why."""


Command = Identify | LookAt | CarryOut | Keep | Recheck | Pause | End


class Begun(NamedTuple):
    """A new plan was opened."""


class TakenUp(NamedTuple):
    """Another process goes on with a plan."""


class Identified(NamedTuple):
    """What the place says it is."""

    identity: str | None


class Looked(NamedTuple):
    """What was seen of the step."""

    look: Look


class Blind(NamedTuple):
    """Nothing could be seen; `said` is why."""

    cause: Cause
    said: str


class Tried(NamedTuple):
    """What an attempt was worth, and what a refusal of it is put down to."""

    outcome: Outcome
    cause: Cause = Cause.REFUSED


class Found(NamedTuple):
    """The offsets, backed up."""

    frozen: Frozen


class Unkept(NamedTuple):
    """They could not be backed up; `said` is why."""

    said: str


class Rechecked(NamedTuple):
    """What speaks against going on; nothing if nothing does."""

    problems: tuple[str, ...]


class Paused(NamedTuple):
    """The wait is over."""


class Interrupted(NamedTuple):
    """Whoever started it wants it to stop."""


class Aborted(NamedTuple):
    """A person wants it undone, as far as it can be; `said` is who, and why."""

    said: str


Event = (
    Begun
    | TakenUp
    | Identified
    | Looked
    | Blind
    | Tried
    | Found
    | Unkept
    | Rechecked
    | Paused
    | Interrupted
    | Aborted
)


class Move(NamedTuple):
    """Append the records; when they are on the disk, carry out the command."""

    progress: Progress
    command: Command
    records: tuple[StepRecord, ...] = ()
