"""State of guarded remediation for metrics and pages.

The read API has plans, refusals and guards as they are here.
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
    """Plan that is not over.

    steps        steps of a plan that has not begun
    expires_at   until when it can be approved; None if it can no longer be
    guards       answers of the guards when it was proposed, or held back
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
    """Status of this replica among those that share a journal. It is an observation, too.

    leading     it acts
    leader      the replica that last reported to lead, "" if none has
    since       time of that report, by the reporter's clock
    seq         newest record of the journal that this replica has
    problem     why it neither follows nor leads; empty if it does
    """

    leading: bool = False
    leader: str = ""
    since: float = 0.0
    seq: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RemediationReported:
    """Report of one round of the remediation loop; an observation like those of observations.py.

    at              time of the round
    mode            observe, propose or auto, as in force; or FOLLOWER_MODE
    plans           (state, number of plans)
    actions         (Connect cluster, connector, action, outcome, count) since the start
    blocked         (Connect cluster, connector, action, guard, count) since the start
    stopped_by_us   (Connect cluster, connector, since when) of those that remediation holds stopped
    open_plans      plans that are not over, the newest first
    refusals        why no action is taken on what is wrong now, the newest first
    untold          number of plans and refusals that were left out
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
