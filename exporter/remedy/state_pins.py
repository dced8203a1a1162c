"""What a plan pins of its connector's life, and what a later look says against it. Pure.

Two looks know different amounts: a daemon has followed the status topic since it started, one that
has just started has the newest record of each connector, and a look that did not reach the topic
has the REST API alone. So a pin is a state and a moment, and what is searched for afterwards is
evidence of a change. A look that knows less finds less of it; it never makes a change up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from exporter.model.connectors import DELETED, StateChange
from exporter.state.histories import deletions

_ASKED: Final = frozenset({"stopped", "paused", "running"})
_BY_REST: Final = "rest"
_OWN_STOP_S: Final = 1.0  # the status record of our stop may be stamped by a clock this much behind


class StatePin(NamedTuple):
    """The state that a connector was asked to be in.

    at    timestamp of its newest record in the status topic; None where REST alone was asked
    """

    state: str
    at: float | None

    @property
    def text(self) -> str:
        """Return the pin as plans carry it."""
        return f"{self.state}@{_BY_REST if self.at is None else repr(self.at)}"


def parse_pin(text: str | None) -> StatePin | None:
    """Return the pin of a plan; None for one that is not there or that has another form."""
    state, mark, at = (text or "").partition("@")
    if not mark or state not in _ASKED:
        return None
    try:
        return StatePin(state, None if at == _BY_REST else float(at))
    except ValueError:
        return None


def requested(state: str) -> str:
    """Return the state that was asked for: who has failed, or has no worker, was asked to run."""
    return state if state in {"stopped", "paused"} else "running"


def pin_state(state: str, changes: Sequence[StateChange]) -> StatePin:
    """Pin a connector as REST shows it (`state`) and as its status topic tells."""
    told = requests(changes)
    return StatePin(requested(state), told[-1].at if told else None)


def compare_state(
    pin: StatePin,
    state: str,
    changes: Sequence[StateChange],
    *,
    stopped_at: float | None = None,
    altering: bool = False,
) -> StatePin | None:
    """Return `pin` itself while nothing says that others asked for another state, the state they
    asked for otherwise. None where the witness of the pin cannot be asked now.

    stopped_at    when the plan itself stopped the connector
    altering      it has, and is about to set offsets: what REST shows is the plan's own doing
    """
    told = requests(changes)
    if pin.at is not None and not told:
        return None
    if pin.at is not None:
        since = pin.at
        others = _by_others([at for at in told if at.at > since], stopped_at)
        if others:
            return StatePin(others[-1].state, others[-1].at)
    shown = requested(state)
    return pin if altering or shown == pin.state else StatePin(shown, None)


def compare_incarnation(
    planned: str | None,
    pin: StatePin | None,
    changes: Sequence[StateChange],
    *,
    unlisted_at: Sequence[float] = (),
    created_at: float = 0.0,
) -> str | None:
    """Return `planned` unless the connector was deleted since: then when. None where the witness of
    the pin cannot be asked now. Without one the offset and the record tell one life from another,
    as they are compared too.

    unlisted_at    when lists of connectors agreed that it is deleted
    created_at     when it was planned; by our clock, both
    """
    ends = [at for at in unlisted_at if at > created_at]
    if pin is not None and pin.at is not None:
        if not requests(changes):
            return None
        since = pin.at
        ends += [at for at in deleted_at(changes) if at > since]
    return " ".join(map(repr, ends)) or planned


def deleted_at(changes: Sequence[StateChange]) -> list[float]:
    """Return when a connector was deleted, as far as its status topic tells."""
    return [changes[number].at for number in deletions(changes)]


def requests(changes: Sequence[StateChange]) -> list[StateChange]:
    """Return what a connector was asked for. A status that was lost and is written again is none of
    that.
    """
    ends, found, is_lost = deletions(changes), list[StateChange](), False
    for number, change in enumerate(changes):
        if change.state == DELETED and number not in ends:
            is_lost = True
        elif change.state in _ASKED or change.state == DELETED:
            again = is_lost and bool(found) and replace(found[-1], at=change.at) == change
            is_lost = False
            if not again:
                found.append(change)
    return found


def _by_others(changes: list[StateChange], stopped_at: float | None) -> Sequence[StateChange]:
    """Return the changes without the stop of the plan itself, where nothing came after it."""
    last = len(changes)
    while (
        stopped_at is not None
        and last
        and changes[last - 1].state == "stopped"
        and changes[last - 1].at >= stopped_at - _OWN_STOP_S
    ):
        last -= 1
    return changes[:last]
