"""Write down what this code leaves on disk, for later code to open.

python -m tests.upgrade.make NAME [PART ...]
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from tests.upgrade import (
    baselines,
    journals,
    lakes,
    remediation_journals,
    source_ends,
    state_files,
    topics,
)

MADE = Path(__file__).parent / "made"
# A journal names its backups by path, and its records cannot be edited: one path for everybody.
WORK = Path(tempfile.gettempdir()) / "offsetwatch-upgrade"


def main(name: str, *only: str) -> None:
    """All that this code keeps, or these parts alone."""
    for part, make in PARTS.items():
        if not only or part in only:
            shutil.rmtree(MADE / name / part, ignore_errors=True)
            make(MADE / name / part)
            print(f"{name}: {part}")  # noqa: T201 - for whoever makes it


def _journal(into: Path) -> None:
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    expected = journals.write(WORK / "state", journals.cases() | remediation_journals.cases())
    _text(into / "journal.sql", "\n".join(journals.dumped(WORK / "state")) + "\n")
    _json(into / "expected.json", expected)
    shutil.copytree(WORK / "state" / "backups", into / "backups")
    shutil.rmtree(WORK)


def _topic(into: Path) -> None:
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    values, expected = topics.write(WORK / "state")
    _text(into / "records.jsonl", "".join(f"{value.decode()}\n" for value in values))
    _json(into / "expected.json", expected)
    shutil.rmtree(WORK)


def _state(into: Path) -> None:
    remaining, observed = state_files.act()
    for part, document in remaining.items():
        _text(into / f"{part}.json", document.decode())
    _json(into / "expected.json", observed)


def _sources(into: Path) -> None:
    document, observed = source_ends.act()
    _text(into / "sources.json", document.decode())
    _json(into / "expected.json", observed)


def _baselines(into: Path) -> None:
    document, observed = baselines.learn()
    _text(into / "baselines.json", document.decode())
    _json(into / "expected.json", observed)


def _tables(into: Path) -> None:
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    built, observed = lakes.make(WORK)
    shutil.rmtree(WORK)
    for path, table in built.items():
        _json(into / f"{path.replace('/', '-')}.json", table)
    _json(into / "expected.json", observed)


def _json(path: Path, document: Any) -> None:
    plain = msgspec.to_builtins(document)
    _text(path, json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def _text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


PARTS = {
    "tables": _tables,
    "state": _state,
    "sources": _sources,
    "journal": _journal,
    "topic": _topic,
    "baselines": _baselines,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
