"""What guarded remediation says of itself, for metrics and pages. The read API has plans, refusals
and guards as they are here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from offsetwatch.model.moments import Moment

FOLLOWER_MODE: Final = "follows"  # in place of a mode: another replica acts, and tells of it


@dataclass(frozen=True, slots=True)
class GuardRow:
    """The answer of one guard.

    answer   pass, deny or unknown, which denies as well
    asks     it denies only a plan without approval
    """

    number: int
    guard: str
    answer: str
    said: str
    asks: bool = False


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step of a plan, in words, and the requests that it makes."""

    step: str
    requests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpenPlan:
    """A plan that is not over.

    steps        of one that has not begun
    expires_at   until when it can be approved; None of one that cannot be any more
    guards       as they answered when it was proposed, or held back
    """

    plan_id: str
    sha256: str
    state: str
    connect_cluster: str
    connector: str
    verb: str
    said: str
    created_at: Moment
    created_by: str
    expires_at: Moment | None
    steps: tuple[StepRow, ...]
    guards: tuple[GuardRow, ...]


@dataclass(frozen=True, slots=True)
class RefusalRow:
    """The reason why an action is not taken, at the time of the evaluation.

    would    every guard passed, and the mode is to observe
    """

    at: Moment
    connect_cluster: str
    connector: str
    action: str
    would: bool
    guards: tuple[GuardRow, ...]
    recommend: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplicaReported:
    """How this replica stands among those that share a journal; an observation as well.

    leading     it acts
    leader      who was the last to say that it leads, "" if nobody has
    since       when that was, by the clock of who said it
    seq         the newest record of the journal that this one has
    problem     why it neither follows nor leads; empty if it does
    """

    leading: bool = False
    leader: str = ""
    since: float = 0.0
    seq: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RemediationReported:
    """As of one round of its loop; an observation like those of observations.py.

    at              when that was
    mode            observe, propose or auto, as it is in force; or FOLLOWS
    plans           (state, how many)
    actions         (Connect cluster, connector, action, how it ended, how often) since the start
    blocked         (Connect cluster, connector, action, guard, how often) since the start
    stopped_by_us   (Connect cluster, connector, since when) of those that we hold stopped
    open_plans      those that are not over, the newest first
    refusals        why nothing is done about what is wrong now, the newest first
    untold          how many of these two were cut
    """

    at: float
    mode: str
    plans: tuple[tuple[str, int], ...] = ()
    actions: tuple[tuple[str, str, str, str, int], ...] = ()
    blocked: tuple[tuple[str, str, str, str, int], ...] = ()
    stopped_by_us: tuple[tuple[str, str, float], ...] = ()
    open_plans: tuple[OpenPlan, ...] = ()
    refusals: tuple[RefusalRow, ...] = ()
    untold: int = 0


RemediationObservation = RemediationReported | ReplicaReported
