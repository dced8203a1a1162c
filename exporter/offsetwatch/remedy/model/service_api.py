"""The desk: what people and alerts may ask of remedy, and what they can be told.

The control listener talks to remedy through this alone, and whoever keeps the journal implements
it. Who may ask is settled before: `by` is the name of a principal that was recognised, whose role
allows the call and whose scope has the connector. What cannot be done is an answer and not an
exception; the one exception is JournalDamaged, as nothing is decided without a journal.

Three threads call it at most, at once: `hint` from one, what may take its time (`propose` and
`verify`) from another, everything else from the third, `inventory` from each of them. Another
process may write the same journal meanwhile: of two that decide the same thing exactly one is told
that it did.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import msgspec

from offsetwatch.model.moments import Moment
from offsetwatch.remedy.model.plan import PartitionOffset, Plan


class Wish(StrEnum):
    """What a person may ask for; the same words as the actions of a plan."""

    RESTART_FAILED = "restart_failed"
    STOP = "stop"
    SKIP_ONE = "skip_one"
    RESTORE = "restore"


class PlanState(StrEnum):
    """How a plan stands.

    proposed    waits for somebody to approve it
    approved    will be carried out as soon as its guards let it
    running     is being carried out, or undone
    parked      a person must decide; holds its connector
    in_doubt    something asked for may yet happen; holds its connector
    rejected, lapsed        nobody wanted it, or not in time; nothing was begun
    succeeded, ineffective, restored, unchanged, resolved   over; see Ending
    """

    PROPOSED = "proposed"
    APPROVED = "approved"
    RUNNING = "running"
    PARKED = "parked"
    IN_DOUBT = "in_doubt"
    REJECTED = "rejected"
    LAPSED = "lapsed"
    SUCCEEDED = "succeeded"
    INEFFECTIVE = "ineffective"
    RESTORED = "restored"
    UNCHANGED = "unchanged"
    RESOLVED = "resolved"


class Mode(StrEnum):
    """How far remedy goes by itself: it looks, it proposes, it acts where that is allowed."""

    OBSERVE = "observe"
    PROPOSE = "propose"
    AUTO = "auto"


class _ApiStruct(msgspec.Struct, frozen=True):
    """`said` is for people, and without secrets."""


# --- what is asked --------------------------------------------------------------------------------


class AlertHint(_ApiStruct, frozen=True):
    """An alert about a connector of the inventory: a reason to look there, and never evidence.

    fingerprint, starts_at, firing   which alert it is; these together are seen many times
    topic, partition                 where it says that the trouble is, if it does
    """

    fingerprint: str
    starts_at: str
    firing: bool
    connect_cluster: str
    connector: str
    topic: str | None = None
    partition: int | None = None


class PlanRequest(_ApiStruct, frozen=True):
    """A plan that a person wants.

    pair    of skip_one: the partition as `GET /offsets` names it, and the offset that it is to have
            afterwards: a sink's names the record after the one that is skipped, MirrorMaker's the
            skipped one itself. Both JSON with sorted keys.
    backup  of restore: the name of a backup, without a folder
    key     the caller's own word for this wish: asked again under it, it is the same plan
    """

    wish: Wish
    connect_cluster: str
    connector: str
    because: str
    key: str
    pair: PartitionOffset | None = None
    backup: str | None = None


# --- what is told ---------------------------------------------------------------------------------


class PlanRow(_ApiStruct, frozen=True):
    """A plan in a list.

    verb        what it does, in words
    expires_at  when it expires unless an operator approves it
    not_before  when the cool-down is over that it waits for, approved or not; None if for none
    cause       why it did not go on, of one that is parked or over; see records.Cause
    """

    plan_id: str
    sha256: str
    state: PlanState
    action: str
    connect_cluster: str
    connector: str
    created_at: Moment
    created_by: str
    said: str
    verb: str = ""
    expires_at: Moment | None = None
    not_before: Moment | None = None
    cause: str | None = None


class GuardAnswerRow(_ApiStruct, frozen=True):
    """What one guard says: pass, deny or unknown, which denies."""

    guard: str
    number: int
    answer: str
    said: str


class PlanStepRow(_ApiStruct, frozen=True):
    """A step in words, with the exact requests it makes, and what has become of it."""

    step: str
    requests: tuple[str, ...]
    standing: str


class PlanDetails(_ApiStruct, frozen=True):
    """Everything about one plan. second_person: who asked for it may not approve it."""

    row: PlanRow
    plan: Plan
    steps: tuple[PlanStepRow, ...]
    guards: tuple[GuardAnswerRow, ...]
    second_person: bool = True


class BreakerRow(_ApiStruct, frozen=True):
    """What stays open until a person has looked. scope: `connector/lab/orders`, `fleet`, …"""

    scope: str
    opened_at: Moment
    said: str


class RemediationPause(_ApiStruct, frozen=True):
    """Nothing new is begun. until: None for until somebody ends it."""

    until: Moment | None
    by: str
    at: Moment
    because: str


class Switches(_ApiStruct, frozen=True):
    """What a person has set, and what only a person can close."""

    mode: Mode
    pause: RemediationPause | None
    breakers: tuple[BreakerRow, ...]


class JournalLine(_ApiStruct, frozen=True):
    """One record of the journal with its place in the chain; `record` is its JSON."""

    seq: int
    plan_id: str
    prev_sha256: str
    sha256: str
    record: msgspec.Raw


class JournalCheckPassed(_ApiStruct, frozen=True):
    """The journal is what was written to it: so many records."""

    records: int


class JournalCheckFailed(_ApiStruct, frozen=True):
    """It is not; nothing is changed any more."""

    said: str


class QuarantineRow(_ApiStruct, frozen=True):
    """A record that was copied before it was skipped; where: see quarantine.Receipt."""

    skip_key: str
    plan_id: str
    connect_cluster: str
    connector: str
    kafka: str
    topic: str
    partition: int
    offset: int
    sha256: str
    size_bytes: int
    where: str
    at: Moment


class BackupRow(_ApiStruct, frozen=True):
    """A backup; connectors with their numbers of pairs."""

    name: str
    at: Moment
    sha256: str
    connectors: tuple[tuple[str, int], ...]


# --- answers --------------------------------------------------------------------------------------


class ChangeRecorded(_ApiStruct, frozen=True):
    """It is in the journal. row: the plan as it stands now, where it was about one."""

    row: PlanRow | None = None


class ProposalAccepted(_ApiStruct, frozen=True):
    """There is a plan for it. new: False if the same was asked under this key before."""

    row: PlanRow
    new: bool


class KeyReused(_ApiStruct, frozen=True):
    """Under this key something else was asked before."""


class ProposalRefused(_ApiStruct, frozen=True):
    """It cannot be planned, or not now. guards: those that do not let it."""

    said: str
    guards: tuple[GuardAnswerRow, ...] = ()


class RequestTargetNotFound(_ApiStruct, frozen=True):
    """There is no such plan, connector, backup or open breaker."""


class PlanHashMismatch(_ApiStruct, frozen=True):
    """The plan is not the one that was looked at: this is its hash."""

    sha256: str


class ProposalExpired(_ApiStruct, frozen=True):
    """Its time to be approved is over."""

    at: Moment


class SelfApproval(_ApiStruct, frozen=True):
    """Who asked for a plan does not approve it."""


class AlreadyDecided(_ApiStruct, frozen=True):
    """The plan is past the point where this could be decided. by: who did; None for itself."""

    state: PlanState
    by: str | None


class OperatorApi(Protocol):
    """The part of it that is for people."""

    def inventory(self) -> frozenset[tuple[str, str]]:
        """Every known (Connect cluster, connector), as they were seen last. At once."""
        ...

    def plans(self, state: PlanState | None = None) -> tuple[PlanRow, ...]:
        """Newest first."""
        ...

    def plan(self, plan_id: str) -> PlanDetails | None:
        """One plan, None if there is none of this id."""
        ...

    def propose(
        self, request: PlanRequest, by: str
    ) -> ProposalAccepted | KeyReused | ProposalRefused | RequestTargetNotFound:
        """Plan what a person asks for. `key` counts among the wishes of the same `by` alone."""
        ...

    def approve(
        self, plan_id: str, sha256: str, by: str, because: str
    ) -> (
        ChangeRecorded
        | RequestTargetNotFound
        | PlanHashMismatch
        | ProposalExpired
        | SelfApproval
        | AlreadyDecided
    ):
        """Let exactly this plan be carried out."""
        ...

    def reject(
        self, plan_id: str, by: str, because: str
    ) -> ChangeRecorded | RequestTargetNotFound | AlreadyDecided:
        """Nobody is to carry it out. Before it has begun."""
        ...

    def abort(
        self, plan_id: str, by: str, because: str
    ) -> ChangeRecorded | RequestTargetNotFound | AlreadyDecided:
        """Turn back what has begun, as far as that goes; asking is what is done here."""
        ...

    def resolve(
        self, plan_id: str, by: str, because: str
    ) -> ChangeRecorded | RequestTargetNotFound | AlreadyDecided:
        """A person has seen to it: close what is parked or in doubt."""
        ...

    def ack_breaker(
        self, scope: str, by: str, because: str
    ) -> ChangeRecorded | RequestTargetNotFound:
        """Close a breaker."""
        ...

    def switches(self) -> Switches:
        """Mode, pause and open breakers."""
        ...

    def set_mode(self, mode: Mode, by: str, because: str) -> ChangeRecorded:
        """From now on."""
        ...

    def pause(self, until: float | None, by: str, because: str) -> ChangeRecorded:
        """Begin nothing new until then; None: until `unpause`."""
        ...

    def unpause(self, by: str, because: str) -> ChangeRecorded:
        """Go on. Without a pause it changes nothing."""
        ...

    def journal(self, from_seq: int, count_max: int) -> tuple[JournalLine, ...]:
        """Records from this one on, in order."""
        ...

    def verify(self) -> JournalCheckPassed | JournalCheckFailed:
        """Read the whole journal, and hold it against its own hashes."""
        ...

    def quarantine(self) -> tuple[QuarantineRow, ...]:
        """What was set aside, newest first; no record's bytes."""
        ...

    def backups(self) -> tuple[BackupRow, ...]:
        """What can be restored, newest first; no offsets."""
        ...


class RemediationApi(OperatorApi, Protocol):
    """See the module."""

    def hint(self, hint: AlertHint) -> bool:
        """Look there soon. False if this very hint was given before. Never waits for the world."""
        ...
