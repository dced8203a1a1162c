"""Reference page of all guards (docs/guards.md), rendered from the guard table."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from offsetwatch.config.schema.remediation import RemedyConfig
from offsetwatch.remedy.guards import GUARDS, PlanGuard
from offsetwatch.remedy.model.facts import SubjectKind
from offsetwatch.remedy.model.policy import Policy
from offsetwatch.remedy.policy_settings import build_policy

RULES_ELSEWHERE: Final = {
    37: "how often and how long a step is tried is the engine's own (progress.Limits)",
}

_HEAD: Final = """\
# Guards

Guards are rules that are evaluated before a connector is changed because of a finding. A guard
passes, denies, or does not know; a guard that does not know denies. The journal records every
refusal with the guards that denied.

Guards are evaluated before a plan is made (*plan*), before its first step (*admit*), and while the
connector is stopped, before its offset is set (*alter*). Their answers before the first step are
valid for a minute. A change of the mode, a pause, or the start of another plan invalidates them.
Guards that hold back

- **everyone** apply to every plan, an operator's own too;
- **detected** plans do not apply to an operator's own plan, whose evidence is the operator's;
- **automatic** plans apply only to plans without approval. If only these deny, the plan is
  proposed.

Numbers up to 50 are those of the design; a missing one is listed below the table. The table has
each guard's default threshold. `config-reference.yaml` has under `remedy:` what can be configured.

| | guard | rule | threshold | evaluated before | of | holds back |
|---|---|---|---|---|---|---|
"""


def render() -> str:
    """Return the whole page as Markdown."""
    rows = "\n".join(_format_row(guard) for guard in describe_guards(build_policy(RemedyConfig())))
    elsewhere = "\n".join(f"- {number}: {rule}" for number, rule in sorted(RULES_ELSEWHERE.items()))
    return f"{_HEAD}{rows}\n\n{elsewhere}\n"


def describe_guards(policy: Policy) -> tuple[PlanGuard, ...]:
    """Return the guards with their thresholds under this policy."""
    stop_on = ", ".join(policy.stop_on)
    return tuple(
        replace(guard, default=guard.default.format(p=policy, b=policy.budgets, stop_on=stop_on))
        for guard in GUARDS
    )


def _format_row(guard: PlanGuard) -> str:
    cells = (
        str(guard.number),
        f"`{guard.name}`",
        guard.condition,
        guard.default.replace("|", "\\|"),
        ", ".join(guard.stages),
        ", ".join(guard.actions) + _format_kinds(guard),
        guard.reach.value,
    )
    return f"| {' | '.join(cells)} |"


def _format_kinds(guard: PlanGuard) -> str:
    if len(guard.kinds) == len(SubjectKind):
        return ""
    return f" ({', '.join(f'{kind.value} only' for kind in guard.kinds)})".replace(" only, ", ", ")
