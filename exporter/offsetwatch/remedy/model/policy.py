"""Policy of remediation: which actions are allowed by mode, selectors, budgets and windows.

Pure: `now` (Unix seconds) is an argument, and state between two calls is passed in and out.
remedy/policy_settings.py builds a Policy from the configuration; remedy/guards evaluates it.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from offsetwatch.remedy.model.fleet_state import ConnectorKey, RecordSkip
from offsetwatch.remedy.model.plan import Action
from offsetwatch.remedy.model.service_api import Mode, lowest_mode

_DAY_S: Final = 86_400
_HOUR_S: Final = 3_600
WEEK_S: Final = 7 * _DAY_S  # how far back skips are counted
MASS_FAILURE_FLOOR: Final = (
    3  # of few connectors a tenth is none; three at once can be three accidents
)
MASS_FAILURE_SHARE: Final = 0.1
MASS_FAILURE_CALM_S: Final = (
    900.0  # health flaps around a threshold: what is over stays over for so long
)


# --- what may be done for whom --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule that allows these actions on these connectors without approval.

    connectors  whole names, * stands for any characters
    unmanaged   the configuration asserts that no other program reverts these connectors
    """

    connect: str
    connectors: tuple[str, ...]
    actions: tuple[str, ...]
    unmanaged: bool = False


@dataclass(frozen=True, slots=True)
class Clock:
    """Time zone as a table: (moment, seconds east of UTC since then); the first holds from ever."""

    offsets: tuple[tuple[float, int], ...] = ((0.0, 0),)

    def local(self, now: float) -> float:
        """Return the zone's local time in seconds since 1970."""
        position = bisect_right([since for since, _ in self.offsets], now) - 1
        return now + self.offsets[max(position, 0)][1]


@dataclass(frozen=True, slots=True)
class Window:
    """Window of time on certain days of each week.

    days        on which it begins, 0 for Monday
    start_s, end_s  seconds since midnight, local time; it ends on the next day if end is not after
                    start
    """

    days: tuple[int, ...]
    start_s: int
    end_s: int
    clock: Clock = Clock()

    def holds(self, now: float) -> bool:
        """Check whether `now` is inside the window."""
        day, second = divmod(int(self.clock.local(now)), _DAY_S)
        today = (day + 3) % 7  # 1970 began on a Thursday
        if self.start_s < self.end_s:
            return today in self.days and self.start_s <= second < self.end_s
        begun = today in self.days and second >= self.start_s
        return begun or ((today - 1) % 7 in self.days and second < self.end_s)


@dataclass(frozen=True, slots=True)
class Budgets:
    """Numbers of records that may be skipped within an hour, a day or a week."""

    connector_hour: int = 3
    connector_day: int = 10
    connector_week: int = 30
    fleet_hour: int = 10
    fleet_day: int = 50


@dataclass(frozen=True, slots=True)
class Policy:
    """Policy of guarded remediation; config/schema/remediation.py explains each setting.

    skip_safe       classes of sinks known, or configured, to resume at their group's offset
    skip_unsafe     simple names of sinks that are known not to
    """

    mode: Mode = Mode.OBSERVE
    second_person: bool = True
    auto: tuple[Rule, ...] = ()
    skip_safe: tuple[str, ...] = ()
    skip_unsafe: tuple[str, ...] = ()
    sink_data_errors: tuple[tuple[str, tuple[str, ...]], ...] = ()
    failures: int = 3
    failures_span_s: float = 600.0
    restarts: int = 2
    alert_before_s: float = 900.0
    start_grace_s: float = 600.0
    cool_down_s: float = 900.0
    budgets: Budgets = Budgets()
    per_connect: int = 1
    total: int = 3
    stop_total_s: float = 180.0
    probation_s: float = 120.0
    deny: tuple[Window, ...] = ()
    only_in: tuple[Window, ...] = ()
    stop_file: str = ""
    stop_on: tuple[str, ...] = ()

    @property
    def sha256(self) -> str:
        """Return the hash by which a plan detects that it was made under another policy.

        Every value is plain and in order, so the same policy has the same hash.
        """
        return hashlib.sha256(repr(self).encode()).hexdigest()

    def allowed(self, connect: str, connector: str, action: Action) -> bool:
        """Check whether this action needs no approval here. Only what a rule names is allowed."""
        return any(action in rule.actions for rule in self._rules(connect, connector))

    def listed(self, connect: str, connector: str) -> bool:
        """Check whether any action needs no approval here."""
        return next(self._rules(connect, connector), None) is not None

    def unmanaged(self, connect: str, connector: str) -> bool:
        """Check whether a rule asserts that no other program reverts this connector."""
        return any(rule.unmanaged for rule in self._rules(connect, connector))

    def _rules(self, connect: str, connector: str) -> Iterator[Rule]:
        return (
            rule
            for rule in self.auto
            if rule.connect == connect
            and any(is_selected(selector, connector) for selector in rule.connectors)
        )

    def mode_of(
        self, connect: str, connector: str, action: Action, *, lowered_to: Mode | None = None
    ) -> Mode:
        """Return the mode for this action on this connector.

        It is the lowest of the configured mode, the one an operator has since lowered it to (None:
        not lowered), and what the rules allow for this connector.
        """
        here = Mode.AUTO if self.allowed(connect, connector, action) else Mode.PROPOSE
        return lowest_mode(self.mode, lowered_to or self.mode, here)

    def data_errors(self, class_name: str) -> frozenset[str]:
        """Return the exceptions by which this sink class reports a bad record."""
        return frozenset(
            name for of, names in self.sink_data_errors if of == class_name for name in names
        )

    def frozen(self, now: float) -> str | None:
        """Return why no plan may be made now; None if one may."""
        if any(window.holds(now) for window in self.deny):
            return "inside a maintenance window that forbids plans"
        if self.only_in and not any(window.holds(now) for window in self.only_in):
            return "outside the maintenance windows that allow plans"
        return None


def is_selected(selector: str, name: str) -> bool:
    """Check whether a selector matches the whole name."""
    pattern = re.sub(r"[?\[]", r"[\g<0>]", selector)  # only * stands for anything
    return name != "" and fnmatchcase(name, pattern)


class SinkProfile(StrEnum):
    """Profile of a sink class: whether the group's offset decides where the sink resumes."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    UNKNOWN = "unknown"


def classify_sink(policy: Policy, class_name: str) -> SinkProfile:
    """Return the profile of a sink class. A known unsafe class stays unsafe if configured safe."""
    if class_name.rpartition(".")[2].removesuffix("Connector") in policy.skip_unsafe:
        return SinkProfile.UNSAFE
    return SinkProfile.SAFE if class_name in policy.skip_safe else SinkProfile.UNKNOWN


# --- budgets --------------------------------------------------------------------------------------


def find_exceeded_budget(
    policy: Policy,
    skips: Sequence[RecordSkip],
    busy: frozenset[ConnectorKey],
    now: float,
    key: ConnectorKey | None = None,
) -> str | None:
    """Return which budget one more skip would exceed; None if none.

    held    connectors whose plans are not over: what these skipped, or are about to, always counts
    key     a connector, for its own budgets; None for those of all connectors together
    """
    budgets = policy.budgets
    bounds: tuple[tuple[int, int, str], ...] = (
        (budgets.fleet_hour, _HOUR_S, "hour"),
        (budgets.fleet_day, _DAY_S, "day"),
    )
    if key is not None:
        skips = [skip for skip in skips if skip.connector_key == key]
        busy &= {key}
        bounds = (
            (budgets.connector_hour, _HOUR_S, "hour"),
            (budgets.connector_day, _DAY_S, "day"),
            (budgets.connector_week, WEEK_S, "7 days"),
        )
    for most, window_s, name in bounds:
        # What seems to lie ahead, by a clock that was set back since, counts as just now.
        counted = [skip for skip in skips if skip.connector_key in busy or skip.at > now - window_s]
        count = len(counted) + len(busy - {skip.connector_key for skip in counted})
        if count >= most:
            return f"{count} skipped within the last {name}; at most {most} are allowed"
    return None


# --- breakers -------------------------------------------------------------------------------------

FLEET_SCOPE: Final = "*"  # the scope of the breaker that holds everything


def scope_of(connect: str, connector: str) -> str:
    """Return the scope of a connector's own breaker, as fleet_state.py has it."""
    return f"{connect}/{connector}"


# --- storms ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MassFailure:
    """Mass failure: whether too many connectors are unhealthy to remediate single ones.

    calm_since  during one: since when fewer are unhealthy; None while too many are
    """

    rages: bool = False
    calm_since: float | None = None


def update_mass_failure(
    mass_failure: MassFailure, *, connectors: int, unhealthy: int, now: float
) -> MassFailure:
    """Return the mass failure, given the numbers of all and of unhealthy connectors now.

    Those in remediation count as unhealthy. The limit of a small fleet is not rounded up to all of
    its connectors.
    """
    most = max(MASS_FAILURE_FLOOR, MASS_FAILURE_SHARE * connectors)
    if unhealthy > most or (unhealthy >= MASS_FAILURE_FLOOR and 2 * unhealthy > connectors):
        return MassFailure(rages=True)
    if not mass_failure.rages:
        return MassFailure()
    calm_since = now if mass_failure.calm_since is None else min(mass_failure.calm_since, now)
    if now - calm_since >= MASS_FAILURE_CALM_S:
        return MassFailure()
    return MassFailure(rages=True, calm_since=calm_since)
