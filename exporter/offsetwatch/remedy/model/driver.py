"""The seam between the engine and the world: what a driver must be able to do.

A driver knows one way to one connector. It keeps nothing between calls, so that another process can
go on where this one ended.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

from offsetwatch.remedy.model.plan import AnyStep, FrozenOffsets, LocatedRawRecord, PartitionOffset


class StepStatus(StrEnum):
    """How the world stands to a step.

    done        it is as the step wants it
    ready       it is as it should be before: the step can be carried out
    partly      some of it is as the step wants it and the rest as before: carry it out again
    not_yet     on its way there: look again
    foreign     neither: somebody else was here
    impossible  it can never be carried out here, and nothing was
    """

    DONE = "done"
    READY = "ready"
    PARTLY = "partly"
    NOT_YET = "not_yet"
    FOREIGN = "foreign"
    IMPOSSIBLE = "impossible"


class StepInspection(NamedTuple):
    """What a look at the world says of a step; `said` is for people, without secrets."""

    standing: StepStatus
    said: str


class AttemptResult(StrEnum):
    """What an attempt to carry a step out is worth.

    ack         the other side says that it is done, or will be
    retry       it says no, nothing happened, and a little later it may say yes
    nack        it says no, nothing happened
    failed      it says that it failed: the attempt has ended, and may have had a part of its effect
    in_doubt    it may have happened, or may happen yet
    """

    ACK = "ack"
    RETRY = "retry"
    NACK = "nack"
    FAILED = "failed"
    IN_DOUBT = "in_doubt"


class Outcome(NamedTuple):
    """See Answer.

    said        the other side's words, cleaned of secrets
    definite    of an ack for offsets: whether the connector vouches for it (KIP-875: a connector
                may keep offsets elsewhere, which Connect then says); None where that is no question
    """

    answer: AttemptResult
    said: str
    definite: bool | None = None


class DriverOffsets(NamedTuple):
    """Every offset of a connector, and the records behind them where the place shows them."""

    pairs: tuple[PartitionOffset, ...]
    raw: tuple[LocatedRawRecord, ...] = ()


class Driver(Protocol):
    """Every call may raise ClientError: of `look` and `offsets` it means that nothing is known, of
    `carry_out` that it was not even tried (TargetUnreachable, RemoteRefusal) or is in doubt (all
    others); a driver that can say it better returns an Outcome.
    """

    def identity(self) -> str | None:
        """What the place is, to be held against `Subject.identity`."""

    def offsets(self) -> DriverOffsets:
        """All there are now: what `Freeze` keeps."""

    def look(self, step: AnyStep, frozen: FrozenOffsets | None) -> StepInspection:
        """How the world stands to this step; `frozen` once it is known."""

    def carry_out(self, step: AnyStep, frozen: FrozenOffsets | None) -> Outcome:
        """Try once: one request, or one transaction."""
