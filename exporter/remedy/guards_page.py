"""The page of all guards, made from their table.

`python -m exporter.remedy.guards_page > docs/guards.md` makes it; a test holds it to the code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from exporter.config.remedy import Remedy
from exporter.remedy.guards import ELSEWHERE, Described, describe
from exporter.remedy.model.facts import Kind
from exporter.remedy.policies import policy_of

_HEAD: Final = """\
# Guards

Before a connector is touched because of a finding, everything below is asked. A guard passes,
denies, or does not know, and what is not known is a no. Every refusal is written to the journal,
with the guards that spoke against it.

A guard is asked before a plan is made (*plan*), before its first step (*admit*), and while the
connector stands still, before its offset is set (*alter*). What they say before the first step
counts for a minute, and only as long as nobody has set the mode, held everything, or begun with
another plan meanwhile: else they are asked once more. Those that hold back

- **everyone** are asked whoever wants it, a person with a plan of his own too;
- **detected** plans are not asked of a person's own plan, which rests on his own evidence;
- **automatic** plans are asked only where nobody approves. Where no other guard speaks against a
  plan it is proposed.

Numbers up to 50 are those of the design; one that is missing is elsewhere: see below the table.
What a guard is measured by is shown as it is without configuration; what can be configured is in
`config-reference.yaml` under `remedy:`.

| | guard | law | measured by | asked before | of | holds back |
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
