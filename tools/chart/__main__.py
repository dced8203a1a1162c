"""`python -m tools.chart` writes what is made; with --check it says what is out of date."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.chart import readme, schema
from tools.chart.values import values

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = Path("helm") / "offsetwatch"


def made(root: Path = ROOT) -> dict[Path, str]:
    """Every file of the chart that is made, and what it should hold."""
    chart, alerts = root / FOLDER, root / "alerts"
    tree = values((chart / "values.yaml").read_text(encoding="utf-8"))
    page = chart / "README.md"
    return {
        chart / "values.schema.json": schema.render(tree, schema.optional_rules(alerts)),
        page: readme.render(page.read_text(encoding="utf-8"), tree),
    }


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Write the files, or say which are out of date."""
    parser = argparse.ArgumentParser(prog="python -m tools.chart")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if out of date")
    check = parser.parse_args(arguments).check
    expected = made(root)
    stale = {
        file for file, text in expected.items() if not file.exists() or file.read_text() != text
    }
    for path in sorted(stale):
        if not check:
            path.write_text(expected[path], encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(root)}: {'out of date' if check else 'written'}\n")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
