"""Ends of a simulated PostgreSQL server against what its connector truly has not done."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.state.sources.worlds import INTERVAL_S, T0, World, wal


@dataclass
class Database:
    """A server with one slot, and a connector that commits what it was sent one interval later.

    writes      (end of the WAL after it, time, whether the connector captures it)
    """

    writes: list[tuple[int, float, bool]] = field(default_factory=list)
    end: int = 1_000
    sent: int = 1_000
    committed: int = 1_000
    pending: int = 1_000
    active: bool = True
    frozen: bool = False

    def write(self, size: int, at: float, *, captured: bool) -> None:
        self.end += size
        self.writes.append((self.end, at, captured))

    def tick(self) -> None:
        """Commit what was sent an interval ago, and send all there is."""
        if not self.active:
            return
        self.committed = max(self.committed, self.pending)
        self.sent = self.sent if self.frozen else self.end
        self.pending = max(
            (end for end, _, captured in self.writes if captured and end <= self.sent),
            default=self.committed,
        )

    def stop(self) -> None:
        self.active = False

    def start(self) -> None:
        if not self.active:
            self.active, self.sent, self.pending = True, self.committed, self.committed

    def oldest(self, beyond: int, *, captured: bool) -> float | None:
        """Return when the oldest write beyond a position was made."""
        return next(
            (at for end, at, own in self.writes if end > beyond and (own or not captured)), None
        )


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["none", "freeze", "thaw", "stop", "start"]),
        st.lists(st.tuples(st.integers(1, 500), st.booleans()), max_size=3),
    ),
    max_size=40,
)


@given(STEPS)
@example([("none", [(5, True)]), ("stop", [(7, True)]), ("none", []), ("none", [])])
@example([("freeze", [(5, False)]), ("none", [(5, True)]), ("stop", []), ("start", [])])
def test_what_is_said_of_a_source_is_true_of_it(steps):
    database, world = Database(), World()
    before = database.end
    for number, (action, writes) in enumerate(steps):
        now = T0 + (number + 1) * INTERVAL_S
        if action in {"freeze", "thaw"}:
            database.frozen = action == "freeze"
        elif action != "none":
            getattr(database, action)()
        for index, (size, captured) in enumerate(writes):
            database.write(size, now - INTERVAL_S + index, captured=captured)
        database.tick()
        world.commit(lsn=database.committed)
        sent = database.sent if database.active else None
        view = world.read(wal(database.end, sent=sent, active=database.active))

        assert view.lag is not None
        assert view.lag >= 0
        waits_from = database.sent if database.active else database.committed
        waiting = [end for end, _, own in database.writes if own and end > waits_from]
        assert view.lag >= (database.end - waiting[0] if waiting else 0)
        if view.caught_up:
            assert not [end for end in waiting if end <= before]
        elif view.caught_up is False:
            assert database.sent < database.end
        seconds = world.seconds(view)
        if seconds is not None:
            assert seconds >= 0
            oldest = database.oldest(waits_from, captured=True)
            truth = 0.0 if oldest is None else now - oldest
            assert seconds >= truth - INTERVAL_S
            bound = database.oldest(database.committed, captured=False)
            assert seconds <= (0.0 if bound is None else now - bound + INTERVAL_S)
        before = database.end
