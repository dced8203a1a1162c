"""Pins of a plan on its connector's incarnation and state, and their later comparison. Pure.

Two observations may know different amounts: a daemon has followed the status topic since it
started, one that has just started has the newest record of each connector, and without the topic
there is only the REST API. So a pin is a state and a record, and a comparison searches for evidence
of a change. An observation that knows less finds less of it; it never invents a change.

Records are ordered by their position in the topic, as their timestamps are by the clocks of several
workers. A record that repeats a state under another generation of the worker group is a rebalance,
and no one requested it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from offsetwatch.model.connectors import DELETED, StateChange
from offsetwatch.state.clock_skew import is_later
from offsetwatch.state.connect.state_history import find_deletions

_REQUESTABLE_STATES: Final = frozenset({"stopped", "paused", "running"})
_BY_REST: Final = "rest"


class StatePin(NamedTuple):
    """State that was requested of a connector.

    at          timestamp of its newest record in the status topic; None if only REST was queried
    generation  of the worker group, by that record; None if the plan does not have it
    """

    state: str
    at: float | None
    generation: int | None = None

    @property
    def text(self) -> str:
        """Return the pin as plans have it."""
        if self.at is None:
            return f"{self.state}@{_BY_REST}"
        generation = "" if self.generation is None else f"@{self.generation}"
        return f"{self.state}@{self.at!r}{generation}"


def parse_pin(text: str | None) -> StatePin | None:
    """Return the pin of a plan; None if it is missing or has another form."""
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
    """Return the state that was requested: `running` for failed or unassigned."""
    return state if state in {"stopped", "paused"} else "running"


def pin_state(state: str, changes: Sequence[StateChange]) -> StatePin:
    """Pin a connector's state, as REST (`state`) and its status topic report it."""
    requests = filter_requests(changes)
    if not requests:
        return StatePin(requested_state_of(state), None)
    return StatePin(requested_state_of(state), requests[-1].at, requests[-1].generation)


def compare_state(
    pin: StatePin,
    state: str,
    changes: Sequence[StateChange],
    *,
    stopped_at: float | None = None,
    altering: bool = False,
) -> StatePin | None:
    """Return `pin` itself unless other clients requested another state: then that state.

    None if the source of the pin cannot be read now, or if only clocks could tell whether the
    request came before or after.

    stopped_at    when the plan itself stopped the connector, by our clock; None if it did not
    altering      it has, and is about to set offsets: the state in REST is the plan's own doing
    """
    unordered: Sequence[StateChange] = ()
    if pin.at is not None:
        if not filter_requests(changes):
            return None
        later, unordered = _split_changes_since(pin, changes)
        others = _drop_own_stop(later, stopped_at)
        if others:
            return StatePin(others[-1].state, others[-1].at, others[-1].generation)
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
    """Return `planned` unless the connector was deleted since the pin: then the times of that.

    None if the source of the pin cannot be read now, or if only clocks could tell whether that was
    before or after. Without a pin, the offset and the record distinguish the incarnations, as they
    are compared too.

    unlisted_at    when lists of connectors agreed that it is deleted, by our clock
    created_at     when it was planned, perhaps by the clock of another replica. So a deletion that
                   the planner did not know of counts, unless it certainly came before
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
    """Return the requests after the pinned record, and those that may be before or after it."""
    for number in range(len(changes) - 1, -1, -1):
        change = changes[number]
        if change.at == pin.at and change.state in _REQUESTABLE_STATES:
            later = filter_requests(changes[number:])[1:]
            is_pinned = change.state != pin.state and later[:1] and later[0].state == pin.state
            return later[1:] if is_pinned else later, ()  # REST was quicker than the topic
    requests = filter_requests(changes)
    assert pin.at is not None
    if requests[0].state == pin.state and requests[0].generation != pin.generation:
        requests = requests[1:]  # written again in a rebalance; nothing tells of a request
    later = [change for change in requests if is_later(change.at, pin.at)]
    if later:
        return later, ()
    return (), [change for change in requests if not is_later(pin.at, change.at)]


def find_deletion_times(changes: Sequence[StateChange]) -> list[float]:
    """Return when a connector was deleted, as far as its status topic shows."""
    return [changes[number].at for number in find_deletions(changes)]


def filter_requests(changes: Sequence[StateChange]) -> list[StateChange]:
    """Return the changes that were requested.

    A status that was lost and is written again is not one, nor is one that is written again in a
    rebalance.
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
    """Return the changes without the plan's own stop, if nothing came after it."""
    own = (
        stopped_at is not None
        and bool(changes)
        and changes[-1].state == "stopped"
        and not is_later(stopped_at, changes[-1].at)
    )
    return changes[:-1] if own else changes
