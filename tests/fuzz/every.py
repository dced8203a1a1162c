"""All targets, by name and by what is counted of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.fuzz import configs, documents, listener, rest, topics
from tests.fuzz.targets import Target

Targets = dict[str, Target]


def _named(targets: Iterable[Target]) -> Targets:
    results: Targets = {}
    for target in targets:
        assert target.name not in results, target.name
        results[target.name] = target
    return results


RECORDS: Final = _named([*topics.TARGETS, *rest.TARGETS, *documents.TARGETS])


def bodies(folder: Path) -> Targets:
    """Requests to the control listener; journals are in the folder."""
    return _named(listener.in_folder(folder))


def files(folder: Path) -> Targets:
    """Configuration files; what they name is in the folder."""
    return _named(configs.in_folder(folder))


def every(folder: Path) -> Targets:
    """All of these."""
    parts = (RECORDS, bodies(folder), files(folder))
    return _named(target for part in parts for target in part.values())
