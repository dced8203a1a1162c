"""Driver interface: what the engine needs to inspect and change one connector.

A driver reaches one connector in one way. It keeps nothing between calls, so another process can
continue where this one ended.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

from offsetwatch.remedy.model.plan import AnyStep, FrozenOffsets, LocatedRawRecord, PartitionOffset


class StepStatus(StrEnum):
    """Status of a step, by what was found at the connector.

    done        the step's target state is reached
    ready       the state before the step is found: the step can be carried out
    partly      part has the target state and the rest the state before: carry the step out again
    not_yet     the target state is being reached: inspect again
    foreign     neither state is found: another client has changed something
    impossible  the step can never be carried out here, and nothing was changed
    """

    DONE = "done"
    READY = "ready"
    PARTLY = "partly"
    NOT_YET = "not_yet"
    FOREIGN = "foreign"
    IMPOSSIBLE = "impossible"


class StepInspection(NamedTuple):
    """Result of inspecting a step; `said` is for users, without secrets."""

    status: StepStatus
    said: str


class AttemptResult(StrEnum):
    """Result of an attempt to carry out a step.

    ack         the other side reports that it is done, or will be
    retry       it refuses, nothing happened, and a little later it may accept
    nack        it refuses, and nothing happened
    failed      it reports a failure: the attempt has ended, and may have had part of its effect
    in_doubt    the attempt may have happened, or may yet happen
    """

    ACK = "ack"
    RETRY = "retry"
    NACK = "nack"
    FAILED = "failed"
    IN_DOUBT = "in_doubt"


class Outcome(NamedTuple):
    """Outcome of an attempt; `answer` is its AttemptResult.

    said        the other side's words, without secrets
    definite    of an ack for offsets: whether the connector confirms them (KIP-875: a connector may
                keep offsets elsewhere, which Connect then reports); None where that does not apply
    """

    answer: AttemptResult
    said: str
    definite: bool | None = None


class DriverOffsets(NamedTuple):
    """Offsets of a connector, with the records behind them if the offset store shows these."""

    pairs: tuple[PartitionOffset, ...]
    raw: tuple[LocatedRawRecord, ...] = ()


class Driver(Protocol):
    """Driver of one connector. Every call may raise ClientError.

    From `inspect` and `offsets` the error means that the state is unknown. From `carry_out` it
    means that nothing was tried (TargetUnreachable, RemoteRefusal), or that the attempt is in doubt
    (all others). A driver that knows better returns an Outcome.
    """

    def identity(self) -> str | None:
        """Return the id of the cluster or storage, to be compared with `PlanSubject.identity`."""

    def offsets(self) -> DriverOffsets:
        """Return all current offsets, as `Freeze` backs them up."""

    def inspect(self, step: AnyStep, frozen: FrozenOffsets | None) -> StepInspection:
        """Inspect the connector for this step; `frozen` is None until offsets are backed up."""

    def carry_out(self, step: AnyStep, frozen: FrozenOffsets | None) -> Outcome:
        """Try the step once: one request, or one transaction."""
