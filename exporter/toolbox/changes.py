"""From a request to a plan that has been checked: the one way to every change of the toolbox.

Called by the command line, which shows what was prepared, has it confirmed and hands the plan to
remedy's runner. Nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from exporter.remedy.driver import Driver
from exporter.remedy.plan import Frozen, Plan
from exporter.toolbox.bounds import Problem
from exporter.toolbox.differences import Change

Recheck = Callable[[Frozen], tuple[str, ...]]
"""Called by the runner once the connector has stopped: why the plan no longer holds, if it does
not."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """One connector's change, as far as it came.

    problems    why it cannot be: then there is no plan
    changes     what would be different afterwards, and nothing else: empty, there is nothing to do
    notes       what a person should know before saying yes, a sentence each
    """

    connector: str
    problems: tuple[Problem, ...]
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    plan: Plan | None = None
    driver: Driver | None = None
    recheck: Recheck | None = None
