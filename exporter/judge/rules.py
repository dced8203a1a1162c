"""What can be found wrong: numbered rules over one judged snapshot, each a small function that
yields findings. Called by register.py, which knows since when and what was mended.

A rule says what is wrong at `seen.snapshot.at` and gives that moment as `since`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from exporter.judge.settings import Settings
from exporter.model.findings import Finding
from exporter.state.snapshot import Snapshot


@dataclass(slots=True)
class Memory:
    """What rules have to know of earlier moments."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a rule is given: a snapshot with its judgements, and what was before."""

    snapshot: Snapshot
    settings: Settings
    memory: Memory


Rule = Callable[[Seen], Iterator[Finding]]

RULES: Final[tuple[Rule, ...]] = ()
