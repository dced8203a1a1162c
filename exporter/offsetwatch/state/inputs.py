"""Health of all inputs: which exist, when they last worked, and their errors.

An input that has not worked for its `stale_after_s` is no longer live: the book then leaves out all
that depends on it. The same holds for a tail that has not read to the end of its topic for as long,
however much it reads: after an outage old facts would otherwise be shown until it has caught up.
Used by the book only.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from offsetwatch.model.observations import (
    OPEN_TRANSACTION,
    Frozen,
    InputFailed,
    InputId,
    InputSucceeded,
    SourceRecord,
    TailRead,
)
from offsetwatch.model.topology import KafkaTopic
from offsetwatch.state.snapshot import InputView, TailView


@dataclass(slots=True)
class TailState:
    """Progress of a tail; counts are of live records."""

    topic: KafkaTopic
    caught_up: bool = False
    behind: int | None = None
    as_of: float | None = None
    values: int = 0
    tombstones: int = 0
    undecodable: int = 0
    positions: dict[int, int] = field(default_factory=dict)
    frozen: tuple[Frozen, ...] = ()
    held: dict[int, int] = field(default_factory=dict)

    def apply(self, read: TailRead) -> bool:
        """Count the live records of a batch and move on. Return True if the positions advanced."""
        counting = not read.whole  # what a bootstrap read counts nowhere
        before, self.positions = self.positions, dict(read.positions)
        self.caught_up = read.caught_up
        self.frozen = read.frozen
        self.behind = read.behind if read.behind is not None else self.behind
        self.as_of = read.as_of
        self.undecodable += sum(count for _, count in read.undecodable)
        for record in read.records:
            if not isinstance(record, SourceRecord):
                self.values += counting
            elif record.live and record.offset is None:
                self.tombstones += 1
            elif record.live:
                self.values += 1
        return any(
            number > before.get(partition, -1) for partition, number in self.positions.items()
        )

    def newly_frozen(self) -> bool:
        """Return whether a partition is frozen for the first time, or now at another offset."""
        before = self.held
        now = {frozen.partition: frozen.offset for frozen in self.frozen}
        self.held = before | now
        return any(before.get(partition) != offset for partition, offset in now.items())

    def view(self, *, heard: bool) -> TailView:
        """Return an immutable copy. `behind` is None without a recent success (`heard`)."""
        return TailView(
            topic=self.topic,
            caught_up=self.caught_up,
            behind=self.behind if heard else None,
            values=self.values,
            tombstones=self.tombstones,
            undecodable=self.undecodable,
            positions=tuple(sorted(self.positions.items())),
            frozen=self.frozen,
        )


@dataclass(slots=True)
class InputState:
    """State of one input that has answered or failed at least once."""

    id: InputId
    up: bool = False
    last_success_at: float | None = None
    lasts_s: float | None = None
    last_error: str | None = None
    last_reason: str | None = None
    errors: Counter[str] = field(default_factory=Counter)
    tail: TailState | None = None

    def succeeded(self, moment: float, lasts_s: float | None = None) -> None:
        """Record that an attempt succeeded. `lasts_s` is as in InputSucceeded."""
        self.up = True
        self.last_success_at = moment
        self.lasts_s = lasts_s
        self.last_error = None
        self.last_reason = None

    def read(self, tail: TailRead) -> None:
        """Apply what a tail read, or the end of its topic that it found.

        The tail works if it moves, or has nothing left to read. Records held back by a transaction
        or an unreadable partition are not its fault, but still an error. Each is counted once,
        however often it is reported.
        """
        if self.tail is None:
            self.tail = TailState(tail.topic)
        moved = self.tail.apply(tail)
        hidden = sum(frozen.hidden for frozen in tail.frozen)
        works = moved or (tail.behind is not None and tail.behind <= hidden)
        if not tail.frozen:
            if works:
                self.succeeded(tail.at)
            return
        if works:
            self.last_success_at = tail.at
        detail = "; ".join(frozen.detail for frozen in tail.frozen)
        reasons = [frozen.reason for frozen in tail.frozen if frozen.reason != OPEN_TRANSACTION]
        reason = next(iter(reasons), OPEN_TRANSACTION)
        self.failed(reason, detail, counted=self.tail.newly_frozen())

    def failed(
        self, reason: str, detail: str, *, counted: bool = True, partial: bool = False
    ) -> None:
        """Record a failed attempt; with `partial` an input that is up stays up."""
        self.up = self.up and partial
        self.last_error = detail
        self.last_reason = reason
        self.errors[reason] += counted


class Inputs:
    """States of all inputs by id, with the age at which each kind goes stale."""

    def __init__(self, stale_after_s: dict[str, float]) -> None:
        self._stale_after_s = stale_after_s
        self._by_id: dict[InputId, InputState] = {}

    def of(self, input_id: InputId) -> InputState:
        """Return the state of this input, created on first use."""
        input_state = self._by_id.get(input_id)
        if input_state is None:
            input_state = self._by_id[input_id] = InputState(input_id)
        return input_state

    def apply(self, result: InputSucceeded | InputFailed) -> None:
        """Apply the result of an attempt."""
        state = self.of(result.input)
        if isinstance(result, InputSucceeded):
            state.succeeded(result.at, result.lasts_s)
        else:
            state.failed(result.reason, result.detail, partial=result.partial)

    def find(self, input_id: InputId) -> InputState | None:
        """Return the state of this input; None if it was never reported."""
        return self._by_id.get(input_id)

    def retire(self, input_id: InputId) -> None:
        """Forget an input that is no longer read."""
        self._by_id.pop(input_id, None)

    def live(self, input_id: InputId, now: float) -> bool:
        """Return whether the data of this input may still be shown."""
        state = self._by_id.get(input_id)
        if state is None or not self._recent(state, state.last_success_at, now):
            return False
        tail = state.tail
        return tail is None or (tail.caught_up and self._recent(state, tail.as_of, now))

    def _recent(self, state: InputState, moment: float | None, now: float) -> bool:
        # After a step back of the clock it may lie in the future: that says nothing either.
        lasts_s = state.lasts_s
        if lasts_s is None:
            lasts_s = self._stale_after_s[state.id.kind]
        return moment is not None and abs(now - moment) <= lasts_s

    def recent(self, kind: str, moment: float, now: float) -> bool:
        """Return whether data of an input of this kind and time may still be shown."""
        return abs(now - moment) <= self._stale_after_s[kind]

    def whole(self, input_id: InputId, now: float) -> bool:
        """Return whether this tail is live and has no frozen partition."""
        state = self._by_id.get(input_id)
        frozen = state is not None and state.tail is not None and state.tail.frozen
        return not frozen and self.live(input_id, now)

    def views(self, now: float) -> tuple[InputView, ...]:
        """Return immutable copies of all states, in a stable order."""
        return tuple(self._view(state, now) for _, state in sorted(self._by_id.items()))

    def _view(self, state: InputState, now: float) -> InputView:
        heard = self._recent(state, state.last_success_at, now)
        return InputView(
            id=state.id,
            up=state.up,
            live=self.live(state.id, now),
            last_success_at=state.last_success_at,
            errors=tuple(sorted(state.errors.items())),
            last_error=state.last_error,
            last_reason=state.last_reason,
            tail=state.tail.view(heard=heard) if state.tail is not None else None,
        )
