"""Every board as a file. `python -m dashboards.build` writes the JSON beside this file; `--check`
only says whether that would change anything.

What is on a board stands in the module of its name.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dashboards import connector, failover, fleet, flow, health, remediation

FOLDER = Path(__file__).parent
BOARDS: Final = {
    "fleet": fleet.board,
    "connector": connector.board,
    "flow": flow.board,
    "failover": failover.board,
    "remediation": remediation.board,
    "health": health.board,
}


def boards() -> dict[Path, str]:
    """Every file and what it should hold."""
    return {
        FOLDER / f"{name}.json": json.dumps(board(), indent=2) + "\n"
        for name, board in BOARDS.items()
    }


def main(arguments: Sequence[str]) -> int:
    """Write the files, or say which of them are out of date."""
    parser = argparse.ArgumentParser(prog="python -m dashboards.build")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if out of date")
    check = parser.parse_args(arguments).check
    stale = {
        path: text
        for path, text in boards().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    for path, text in stale.items():
        if not check:
            path.write_text(text, encoding="utf-8")
        print(f"{path.name}: {'out of date' if check else 'written'}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
