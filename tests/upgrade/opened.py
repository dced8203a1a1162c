"""What an earlier version has left on disk, put there again."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from offsetwatch.remedy.journal.journal import FILE_NAME

MADE = Path(__file__).parent / "made"


def milestones(what: str) -> list[str]:
    """Those that have left one, oldest first."""
    result = sorted(path.parent.name for path in MADE.glob(f"*/{what}"))
    assert result, f"no milestone has left a {what}"
    return result


def expected(milestone: str, what: str) -> dict[str, Any]:
    """What that milestone's own code said of it."""
    return json.loads((MADE / milestone / what / "expected.json").read_text())


def journal(milestone: str, folder: Path) -> Path:
    """A state directory with the journal and its backups."""
    path = MADE / milestone / "journal"
    shutil.copytree(path / "backups", folder / "backups")
    with closing(sqlite3.connect(folder / FILE_NAME)) as db:
        db.executescript((path / "journal.sql").read_text())
    (folder / FILE_NAME).chmod(0o600)
    return folder


def topic(milestone: str) -> list[bytes]:
    """The values of a journal's topic, in order."""
    return (MADE / milestone / "topic" / "records.jsonl").read_bytes().splitlines()


def state(milestone: str) -> dict[str, bytes]:
    """What the daemon's parts remembered, by their names."""
    path = MADE / milestone / "state"
    return {file.stem: file.read_bytes() for file in path.glob("*.json") if file.stem != "expected"}


def table(milestone: str, path: str) -> dict[str, Any]:
    """A table as it is kept."""
    return json.loads((MADE / milestone / "tables" / f"{path.replace('/', '-')}.json").read_text())


def tables(milestone: str, base: Path) -> Path:
    """All tables of then."""
    from tests.upgrade import lakes

    for file in (MADE / milestone / "tables").glob("*-*.json"):
        path = file.stem.replace("-", "/", 1)
        lakes.rebuilt(table(milestone, path), base / path)
    return base
