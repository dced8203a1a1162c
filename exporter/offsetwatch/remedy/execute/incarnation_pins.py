"""What a plan pins of its connector's life, and what a later look says against it. Pure.

Two looks know different amounts: a daemon has followed the status topic since it started, one that
has just started has the newest record of each connector, and a look that did not reach the topic
has the REST API alone. So a pin is a state and a record, and what is searched for afterwards is
evidence of a change. A look that knows less finds less of it; it never makes a change up.

Records are ordered by their place in the topic, as their timestamps are by the clocks of several
workers. A record that repeats a state under another generation of the worker group is a rebalance,
and nobody asked for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from offsetwatch.model.connect.connectors import DELETED, StateChange
from offsetwatch.state.clock_skew import is_later
from offsetwatch.state.connect.state_history import find_deletions

_REQUESTABLE_STATES: Final = frozenset({"stopped", "paused", "running"})
_BY_REST: Final = "rest"


class StatePin(NamedTuple):
    """The state that a connector was asked to be in.

    at          timestamp of its newest record in the status topic; None where REST alone was asked
    generation  of the worker group, by that record; None if a plan does not tell
    """

    state: str
    at: float | None
    generation: int | None = None

    @property
    def text(self) -> str:
        """Return the pin as plans carry it."""
        if self.at is None:
            return f"{self.state}@{_BY_REST}"
        generation = "" if self.generation is None else f"@{self.generation}"
        return f"{self.state}@{self.at!r}{generation}"


def parse_pin(text: str | None) -> StatePin | None:
    """Return the pin of a plan; None for one that is not there or that has another form."""
    state, mark, record = (text or "").partition("@")
    if not mark or state not in _REQUESTABLE_STATES:
        return None
    if record == _BY_REST:
        return StatePin(state, None)
    name, mark, generation = record.partition("@")
    try:
        return StatePin(state, float(name), int(generation) if mark else None)
    except ValueError:
        return None


def requested_state_of(state: str) -> str:
    """Return the state that was asked for: who has failed, or has no worker, was asked to run."""
    return state if state in {"stopped", "paused"} else "running"


def pin_state(state: str, changes: Sequence[StateChange]) -> StatePin:
    """Pin a connector as REST shows it (`state`) and as its status topic tells."""
    told = filter_requests(changes)
    if not told:
        return StatePin(requested_state_of(state), None)
    return StatePin(requested_state_of(state), told[-1].at, told[-1].generation)


def compare_state(
    pin: StatePin,
    state: str,
    changes: Sequence[StateChange],
    *,
    stopped_at: float | None = None,
    altering: bool = False,
) -> StatePin | None:
    """Return `pin` itself while nothing says that others asked for another state, the state they
    asked for otherwise. None where the witness of the pin cannot be asked now, or where clocks
    alone would tell whether they asked before or after.

    stopped_at    when the plan itself stopped the connector, by our clock; None if it did not
    altering      it has, and is about to set offsets: what REST shows is the plan's own doing
    """
    unordered: Sequence[StateChange] = ()
    if pin.at is not None:
        if not filter_requests(changes):
            return None
        later, unordered = _split_changes_since(pin, changes)
        others = _drop_own_stop(later, stopped_at)
        if others:
            return _pin_of(others[-1])
    shown = requested_state_of(state)
    if not altering and shown != pin.state:
        return StatePin(shown, None)
    return None if unordered else pin


def compare_incarnation(
    planned: str | None,
    pin: StatePin | None,
    changes: Sequence[StateChange],
    *,
    unlisted_at: Sequence[float] = (),
    created_at: float = 0.0,
) -> str | None:
    """Return `planned` unless the connector was deleted since: then when. None where the witness of
    the pin cannot be asked now, or where clocks alone would tell whether that was before or after.
    Without one the offset and the record tell one life from another, as they are compared too.

    unlisted_at    when lists of connectors agreed that it is deleted, by our clock
    created_at     when it was planned, perhaps by the clock of another replica. So an end that the
                   planner did not know of counts, unless it certainly came before
    """
    known, unordered = (planned or "").split(), False
    ends = [
        moment
        for moment in unlisted_at
        if repr(moment) not in known and not is_later(created_at, moment)
    ]
    if pin is not None and pin.at is not None:
        if not filter_requests(changes):
            return None
        later, rest = _split_changes_since(pin, changes)
        ends += [change.at for change in later if change.state == DELETED]
        unordered = any(change.state == DELETED for change in rest)
    return " ".join(map(repr, ends)) or (None if unordered else planned)


def _split_changes_since(
    pin: StatePin, changes: Sequence[StateChange]
) -> tuple[Sequence[StateChange], Sequence[StateChange]]:
    """Return what was asked for after the pinned record, and what may have been before or after."""
    for number in range(len(changes) - 1, -1, -1):
        change = changes[number]
        if change.at == pin.at and change.state in _REQUESTABLE_STATES:
            later = filter_requests(changes[number:])[1:]
            is_pinned = change.state != pin.state and later[:1] and later[0].state == pin.state
            return later[1:] if is_pinned else later, ()  # REST was quicker than the topic
    told = filter_requests(changes)
    assert pin.at is not None
    if told[0].state == pin.state and told[0].generation != pin.generation:
        told = told[1:]  # written again in a rebalance; nothing tells of a request
    later = [change for change in told if is_later(change.at, pin.at)]
    if later:
        return later, ()
    return (), [change for change in told if not is_later(pin.at, change.at)]


def find_deletion_times(changes: Sequence[StateChange]) -> list[float]:
    """Return when a connector was deleted, as far as its status topic tells."""
    return [changes[number].at for number in find_deletions(changes)]


def filter_requests(changes: Sequence[StateChange]) -> list[StateChange]:
    """Return what a connector was asked for. A status that was lost and is written again is none of
    that, and neither is one that is written again in a rebalance.
    """
    ends, found, is_lost, generation = find_deletions(changes), list[StateChange](), False, 0
    for number, change in enumerate(changes):
        if change.state == DELETED and number not in ends:
            is_lost = True
        elif change.state in _REQUESTABLE_STATES or change.state == DELETED:
            same = bool(found) and found[-1].state == change.state
            again = same and (
                change.generation != generation
                or (is_lost and replace(found[-1], at=change.at) == change)
            )
            is_lost, generation = False, change.generation
            if not again:
                found.append(change)
    return found


def _drop_own_stop(
    changes: Sequence[StateChange], stopped_at: float | None
) -> Sequence[StateChange]:
    """Return the changes without the stop of the plan itself, where nothing came after it."""
    own = (
        stopped_at is not None
        and bool(changes)
        and changes[-1].state == "stopped"
        and not is_later(stopped_at, changes[-1].at)
    )
    return changes[:-1] if own else changes


def _pin_of(change: StateChange) -> StatePin:
    return StatePin(change.state, change.at, change.generation)
