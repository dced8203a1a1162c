"""What is mutated, and which tests have to notice."""

from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path
from typing import Final

TESTS: Final = {
    "decode": ("tests/unit/decode", "tests/properties"),
    "judge": ("tests/unit/judge", "tests/properties/test_findings.py", "tests/scenarios"),
    "remedy": ("tests/unit/remedy", "tests/properties"),
    "state": ("tests/unit/state", "tests/unit/serve", "tests/properties", "tests/scenarios"),
}


def files(root: Path, package: str) -> list[str]:
    """The modules of a package, as paths from the root. Of remedy: those that touch nothing."""
    if package == "remedy":
        contracts = ConfigParser()
        contracts.read(root / ".importlinter", encoding="utf-8")
        names = contracts["importlinter:contract:pure-remedy"]["source_modules"].split()
        places = [root / name.replace(".", "/") for name in names]
    else:
        places = [root / "exporter" / package]
    found = [
        path
        for place in places
        for path in (place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")])
    ]
    return sorted(str(path.relative_to(root)) for path in found)
