"""Write down what the code of this milestone leaves on disk, for later code to open.

    python -m tests.upgrade.make NAME

See README.md for milestones before this one.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

MADE = Path(__file__).parent / "made"
# A journal names its backups by path, and its records cannot be edited: one path for everybody.
WORK = Path(tempfile.gettempdir()) / "offsetwatch-upgrade"


def main(name: str) -> None:
    into = MADE / name
    shutil.rmtree(into, ignore_errors=True)
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    try:
        if find_spec("exporter.remedy"):
            _journal(into / "journal")
    finally:
        shutil.rmtree(WORK)


def _journal(into: Path) -> None:
    from tests.upgrade import journals

    found = journals.cases()
    if find_spec("exporter.remedy.decisions"):
        from tests.upgrade import remedied

        found |= remedied.cases()
    expected = journals.write(WORK / "state", found)
    _text(into / "journal.sql", "\n".join(journals.dumped(WORK / "state")) + "\n")
    _json(into / "expected.json", expected)
    shutil.copytree(WORK / "state" / "backups", into / "backups")


def _json(path: Path, document: Any) -> None:
    plain = msgspec.to_builtins(document)
    _text(path, json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def _text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
