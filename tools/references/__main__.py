"""`python -m tools.references` writes the pages; with --check it says which are out of date."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from offsetwatch.serve.documents import openapi
from tools.references import commands, configuration, guards, metrics, reference_file

ROOT: Final = Path(__file__).parents[2]


def pages(root: Path = ROOT) -> dict[Path, str]:
    """Every file that is made from the code, and what it should hold."""
    folder = root / "docs" / "reference"
    return {
        folder / "metrics.md": metrics.render(),
        folder / "configuration.md": configuration.render(),
        folder / "cli.md": commands.render(),
        folder / "read-api.json": openapi.format_document(),
        root / "docs" / "guards.md": guards.render(),
        root / "config-reference.yaml": reference_file.render_reference(),
    }


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Write the files, or say which of them are out of date."""
    parser = argparse.ArgumentParser(prog="python -m tools.references")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if out of date")
    check = parser.parse_args(arguments).check
    stale = {
        path: text
        for path, text in pages(root).items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    for path, text in stale.items():
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path.name}: {'out of date' if check else 'written'}\n")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
