"""The page of all guards, made from their table.

`python -m offsetwatch.remedy.guards_page > docs/guards.md` makes it; a test holds it to the code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from offsetwatch.config.schema.remediation import Remedy
from offsetwatch.remedy.guards import ELSEWHERE, Described, describe
from offsetwatch.remedy.model.facts import Kind
from offsetwatch.remedy.policy_settings import policy_of

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
    """The whole page."""
    rows = "\n".join(_row(guard) for guard in describe(policy_of(Remedy())))
    return f"{_HEAD}{rows}\n\n" + "\n".join(_elsewhere()) + "\n"


def _row(guard: Described) -> str:
    cells = (
        str(guard.number),
        f"`{guard.name}`",
        guard.law,
        guard.default.replace("|", "\\|"),
        ", ".join(guard.stages),
        ", ".join(guard.actions) + _only(guard),
        guard.reach.value,
    )
    return f"| {' | '.join(cells)} |"


def _only(guard: Described) -> str:
    if len(guard.kinds) == len(Kind):
        return ""
    return f" ({', '.join(f'{kind.value} only' for kind in guard.kinds)})".replace(" only, ", ", ")


def _elsewhere() -> Iterator[str]:
    for number, where in sorted(ELSEWHERE.items()):
        yield f"- {number}: {where}"


if __name__ == "__main__":
    sys.stdout.write(render())
