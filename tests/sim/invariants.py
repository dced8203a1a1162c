"""What must hold of every run, looked at whenever something happens: at each record of the journal,
at each request, and (final_checks.py) once all is quiet. The numbers are those of the design.

I1   no change without a backup, no skip without a copy
I2   one effect at a time, one process at work
I3   what is skipped was copied, and is what the plan says
I4   nothing else is lost
I5   an intent before each request, a look before each verdict, a claim before a skip
I6   budgets, and how many plans there may be at once (bounds.py)
I7   no change after a foreign one was seen
I8   the target is behind what is skipped, and in the log
I9   nothing after the end
I10  nothing that nobody has allowed, or guards long ago; nothing in mode observe (bounds.py)
I11  it ends or parks, in time, and leaves nothing stopped that no plan is open for
I12  what is carried out is what was approved
I13  the journal has no gap
I14  (campaign.py) the same seed is the same run
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from offsetwatch.decode.json_text import encode_sorted
from offsetwatch.remedy.engine import AbortEvent, InterruptEvent
from offsetwatch.remedy.engine.requests import build_step_request
from offsetwatch.remedy.gather.live_queries import compute_config_sha256
from offsetwatch.remedy.journal.journal import Journal
from offsetwatch.remedy.model.driver import AttemptResult
from offsetwatch.remedy.model.journal_records import (
    AnyRecord,
    OffsetsBackedUp,
    PlanApproved,
    PlanEnded,
    PlanOpened,
    PlanRejected,
    PlanResumed,
    RollbackStarted,
    StepAnswered,
    StepIntended,
    StepVerified,
)
from offsetwatch.remedy.model.plan import Alter, AnyStep, RequestedState, ToState, parse_position
from tests.sim.logs import NAME
from tests.sim.world import SETTLED_S, STOP_TOTAL_S, World

if TYPE_CHECKING:
    from tests.sim.bounds import Bounds

LOOK_S_MAX = 31.0  # between a look and what is asked for because of it
GUARDS_S_MAX = 61.0  # between the guards' answers and the beginning
Q_S = 120.0  # how long what was asked for in doubt may still happen


class Broken(AssertionError):
    """An invariant does not hold."""

    def __init__(self, invariant: str, answer: str) -> None:
        super().__init__(f"{invariant}: {answer}")
        self.invariant = invariant


def must(holds: bool, invariant: str, answer: str) -> None:
    if not holds:
        raise Broken(invariant, answer)


@dataclass
class Sighting:
    """The newest answer to a look; `turn` orders it among everything else, `at` is its time."""

    turn: int
    at: float
    value: object


class InvariantChecks:
    """One run's. `clock` is that of the processes, `disk_full_for` how many records find no room,
    `allowed` whether the configuration, or a person, wants any of it.
    """

    def __init__(self, world: World, clock: object) -> None:
        self.world, self.clock, self.plan = world, clock, world.plan
        self.records: list[tuple[float, AnyRecord]] = []
        self.disk_full_from: float | None = None
        self.disk_full_for = 0
        self.allowed = True
        self.want: tuple[float, InterruptEvent | AbortEvent] | None = None
        self.down_s = 0.0
        self._turn = 0
        self._used: set[int] = set()
        self.requests: set[str] = set()
        self._in_flight = 0
        self.bounds: Bounds
        self._state: Sighting | None = None
        self._offsets: Sighting | None = None
        self._config: Sighting | None = None
        self._end: int | None = None
        self._stopped_since: float | None = None
        self.began = self.guards_at = world.line.now()
        self._opened_turn = self._begun_turn = self._intended_turn = 0

    @staticmethod
    def broken(invariant: str, answer: str) -> None:
        raise Broken(invariant, answer)

    # --- what a schedule does to the processes ---------------------------------------------------

    def disk_full(self) -> bool:
        if self.disk_full_from is None or self.world.line.now() < self.disk_full_from:
            return False
        self.disk_full_for -= 1
        return self.disk_full_for >= 0

    def full_no_more(self) -> None:
        """Somebody has made room."""
        self.disk_full_from = None

    def interruption(self) -> InterruptEvent | AbortEvent | None:
        if self.want is None or self.world.line.now() < self.want[0]:
            return None
        return self.want[1]

    # --- looks -----------------------------------------------------------------------------------

    def saw(self, path: str, status: int, body: bytes) -> None:
        self._turn += 1
        now = self.world.line.now()
        if path.endswith("/status") and status == 200:
            text = msgspec.json.decode(body)
            state = text["connector"]["state"]
            tasks = [task["state"] for task in text["tasks"]]
            self._state = Sighting(self._turn, now, (state, tasks))
            if state != "STOPPED":
                self._stopped_since = None
            elif self._stopped_since is None:
                self._stopped_since = now
        elif path.endswith("/offsets") and status == 200:
            pairs = {
                encode_sorted(offset["partition"]).decode(): offset["offset"]
                for offset in msgspec.json.decode(body)["offsets"]
            }
            self._offsets = Sighting(self._turn, now, pairs)
        elif path.endswith("/config") and status == 200:
            self._config = Sighting(
                self._turn, now, compute_config_sha256(NAME, msgspec.json.decode(body))
            )

    def saw_end(self, end: int) -> None:
        self._end = end

    # --- records ---------------------------------------------------------------------------------

    def appended(self, journal: Journal, records: tuple[AnyRecord, ...]) -> None:
        self.journal = journal
        for record in records:
            self._check_record(record)
            self._turn += 1
            self.records.append((self.world.line.now(), record))
        self.nothing_is_lost()

    def _check_record(self, record: AnyRecord) -> None:
        must(not any(self.of(PlanEnded)), "I9", f"{type(record).__name__} after the end")
        match record:
            case PlanOpened():
                rejected = any(
                    isinstance(stored_record, PlanRejected)
                    for stored_record in self.journal.records(self.plan.plan_id)
                )
                must(not rejected, "I12", "what is carried out was rejected")
                approved = list(self.of(PlanApproved))
                must(
                    bool(approved) and approved[-1].plan_sha256 == record.plan.sha256,
                    "I12",
                    "what is carried out is not what was approved",
                )
                age_s = self.world.line.now() - self.guards_at
                must(
                    age_s <= GUARDS_S_MAX, "I10", f"begun {age_s:.0f} s after the guards were asked"
                )
                self._opened_turn = self._begun_turn = self._turn
                self.bounds.opened_at = self.world.line.now()
            case PlanResumed():
                self._opened_turn = self._begun_turn = self._turn
            case StepIntended():
                self._intended_turn = self._turn
                self._one_at_a_time(record)
            case StepVerified():
                self._check_inspected(record)
                self._begun_turn = self._turn
            case RollbackStarted():
                self._begun_turn = self._turn
            case _:
                pass

    def of(self, kind: type) -> Iterator[AnyRecord]:
        return (record for _, record in self.records if isinstance(record, kind))

    def _one_at_a_time(self, new: StepIntended) -> None:
        """What may still happen is not asked for again."""
        answer: AttemptResult | None = None
        for moment, record in reversed(self.records):
            if isinstance(record, StepAnswered) and answer is None:
                answer = record.answer
            elif isinstance(record, StepIntended):
                same = (record.index, record.undoing) == (new.index, new.undoing)
                doubtful = answer in {None, AttemptResult.IN_DOUBT}
                waited_s = self.world.line.now() - moment
                if same and doubtful and waited_s < Q_S:
                    raise Broken("I2", f"asked again {waited_s:.0f} s after a request in doubt")
                answer = None
            elif isinstance(record, StepVerified | RollbackStarted | PlanOpened):
                return

    def _check_inspected(self, record: StepVerified) -> None:
        """A verdict rests on a look that came after what was asked for."""
        step = self.path(record.undoing)[record.index]
        since = self._opened_turn
        intents = list(self.of(StepIntended))
        if intents and (intents[-1].index, intents[-1].undoing) == (record.index, record.undoing):
            since = max(since, self._intended_turn)
        if isinstance(step, ToState):
            sighting = self._state
            must(
                sighting is not None and sighting.turn > since and _is(step.state, sighting.value),
                "I5",
                f"{step} was not seen",
            )
        elif isinstance(step, Alter):
            sighting = self._offsets
            fits = sighting is not None and sighting.turn > since
            must(fits and _has(sighting.value, step), "I5", f"{step} was not seen")

    def path(self, undoing: bool) -> tuple[AnyStep, ...]:
        if not undoing:
            return self.plan.steps
        turns = list(self.of(RollbackStarted))
        must(bool(turns), "I5", "on the way back, and nothing says so")
        return turns[-1].steps

    # --- requests --------------------------------------------------------------------------------

    @contextmanager
    def around_request(self, method: str, path: str, body: bytes | None) -> Iterator[None]:
        """Around a request that changes something."""
        must(self._in_flight == 0, "I2", "two requests at once")
        self._before(method, path, body)
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            self._turn += 1
        self.nothing_is_lost()

    def sends(self) -> None:
        """The next request is one of ours."""
        self.requests.add(f"#{len(self.world.connect.requests) + 1}")

    def _before(self, method: str, path: str, body: bytes | None) -> None:
        allowed = self.allowed and any(self.of(PlanApproved))
        must(allowed, "I10", "nobody has allowed this")
        must(not any(self.of(PlanEnded)), "I9", "a request after the end")
        must(bool(self.records), "I5", "a request of no plan")
        number, (_, last) = len(self.records) - 1, self.records[-1]
        if not isinstance(last, StepIntended) or number in self._used:
            raise Broken("I5", f"{method} {path} was not written down first")
        self._used.add(number)
        step = self.path(last.undoing)[last.index]
        expected = build_step_request(NAME, step)
        must(expected == (method, path, body), "I5", f"{method} {path} {body} is not {step}")
        opened = next(self.of(PlanOpened))
        must(opened.plan.sha256 == self.plan.sha256, "I12", "another plan is carried out")
        must(
            self.world.connect.broker.cluster_id == self.plan.subject.identity,
            "I7",
            "this is another cluster",
        )
        sighting = self._state
        must(sighting is not None, "I7", "asked for without a look")
        age_s = self.world.line.now() - sighting.at
        must(age_s <= LOOK_S_MAX, "I7", f"last looked at {age_s:.0f} s ago")
        if isinstance(step, Alter):
            self._before_altering(step, undoing=last.undoing)
            key = self.plan.remedy.skip_key
            if key is not None and not last.undoing:
                must(self.journal.skipped_by(key) == self.plan.plan_id, "I5", "it is not claimed")

    def _before_altering(self, step: Alter, *, undoing: bool) -> None:
        self._allowed_still(undoing=undoing)
        retained = list(self.of(OffsetsBackedUp))
        must(bool(retained), "I1", "a change without a backup")
        frozen = retained[-1].frozen
        wrong = _wrong(Path(frozen.backup), frozen.backup_sha256)
        must(wrong is None, "I1", f"a change without a backup: {wrong}")
        must(
            self._state is not None and _is(RequestedState.STOPPED, self._state.value),
            "I7",
            f"it was last seen {self._state}",
        )
        for sighting in (self._state, self._offsets):
            fresh = sighting is not None and sighting.turn > self._begun_turn
            must(fresh, "I7", "changed without a fresh look")
        if undoing:
            return
        world, numbers = self.world, self.world.numbers
        if world.skips:
            must(numbers.to in self._list_quarantined(), "I1", "a skip without a copy")
        request = sum(self.path(False)[each.index] == step for each in self.of(StepIntended)) > 1
        if not request and world.skips:
            held_s = world.line.now() - self._first_stop()
            must(held_s <= STOP_TOTAL_S + LOOK_S_MAX, "I11", f"changed after {held_s:.0f} s")
        unchanged_s = world.line.now() - (self._stopped_since or world.line.now())
        must(
            unchanged_s >= SETTLED_S - 1.0, "I7", f"it has stood still for {unchanged_s:.0f} s only"
        )
        offset = self._read_target(step)
        allowed = {numbers.frm, numbers.to} if request else {numbers.frm}
        if world.skips:
            must(offset in allowed, "I7", f"it was last seen at {offset}, and not {numbers.frm}")
            target = parse_position(step.pairs[0])
            end = self._end if self._end is not None else -1
            above = target is not None and numbers.frm < target <= end - 1 + world.log.ahead
            must(above, "I8", f"{target} is not in ({numbers.frm}, {end}]")
        if self._config is not None:
            expected = self.plan.remedy.config_sha256
            must(self._config.value == expected, "I7", "its configuration was changed")

    def _allowed_still(self, *, undoing: bool) -> None:
        """The guards are asked once all offsets are kept: had the mode been lowered by then?"""
        backups_at = [
            moment for moment, record in self.records if isinstance(record, OffsetsBackedUp)
        ]
        observed = bool(backups_at) and self.bounds.before(backups_at[-1])
        must(undoing or not observed, "I10", "changed in mode observe")

    def _first_stop(self) -> float:
        """When it was first asked to stop; now if it was never, a person having done so."""
        stop = ToState(RequestedState.STOPPED)
        request = (
            moment
            for moment, record in self.records
            if isinstance(record, StepIntended)
            and not record.undoing
            and self.plan.steps[record.index] == stop
        )
        return next(request, self.world.line.now())

    def _list_quarantined(self) -> set[int]:
        """The offsets behind which the copied records stand, counted as `numbers` are."""
        return {offset + self.world.log.ahead for offset in self.world.quarantined()}

    def _read_target(self, step: Alter) -> int | None:
        if self._offsets is None:
            return None
        offset = self._offsets.value.get(step.pairs[0].partition)
        return None if offset is None else offset.get(self.world.log.field)

    # --- the world -------------------------------------------------------------------------------

    def nothing_is_lost(self) -> None:
        """Whatever the connector has put behind itself was delivered, or is kept."""
        world = self.world
        self.bounds.hold(world, self.requests)
        if world.moved:
            return
        index = world.next_read()
        if index is None:
            return
        hashes = {offset for offset in world.hashes if offset < index}
        lost = hashes - world.log.delivered() - world.quarantined()
        if lost:
            raise Broken("I3", f"{sorted(lost)} skipped without a copy")


def _is(state: RequestedState, observed: object) -> bool:
    output, tasks = observed
    if state is RequestedState.STOPPED:
        return output == "STOPPED" and not tasks
    return (
        output in {"RUNNING", "FAILED"} if state is RequestedState.RUNNING else output == "PAUSED"
    )


def _has(observed: object, step: Alter) -> bool:
    return all(
        observed.get(pair.partition)
        == (None if pair.offset is None else msgspec.json.decode(pair.offset))
        for pair in step.pairs
    )


def _wrong(path: Path, sha256: str) -> str | None:
    """Whether a backup is not what was written."""
    if not path.exists():
        return "it is not there"
    if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        return "it is not what was written"
    return None
