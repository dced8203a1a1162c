"""Evidence of verdicts: the numbers that a verdict rests on, the most important first.

Each is as of the evaluation. Times are moments and not ages, so that the evidence stays valid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from offsetwatch.judge.findings.list_phrases import build_time_item
from offsetwatch.judge.progress.observation_window import ObservationWindow
from offsetwatch.judge.progress.subjects import JudgedPartition
from offsetwatch.judge.progress.verdict_rules import WORST_FIRST
from offsetwatch.model.findings import (
    OFFSET,
    PARTITIONS,
    RECORDS,
    TIMES,
    Evidence,
    EvidenceItem,
    Verdict,
)
from offsetwatch.state.snapshot import MirrorPartitionView, SinkPartitionView, SourcePartitionView

_NO_PARTITIONS: Final = EvidenceItem("partitions", 0, PARTITIONS)
_NONE_WAIT: Final = EvidenceItem("readable records wait", "no")
_SOME_WAIT: Final = EvidenceItem("readable records wait", "yes")


def build_partition_evidence(subject: JudgedPartition, states: str) -> Evidence:
    """Return the evidence for a source partition, replicated or not, or for a sink's partition."""
    window, source, mirror = subject.window, subject.source, subject.mirror
    found: list[EvidenceItem] = []
    if window is None:
        return (_build_states_item(states),)
    if subject.read is not None:
        found += [
            *_build_log_items(subject.read.committed, subject.read),
            *_build_rewind_items(window),
        ]
    elif mirror is not None:
        position = mirror.replicated if mirror.lag_position is None else mirror.lag_position
        found += [*_build_log_items(position, mirror), *_build_rewind_items(window)]
    elif source is not None and source.offset is not None:
        found.append(EvidenceItem("offset", source.offset.text))
        if window.furthest is not None:
            found.append(EvidenceItem("went back from", window.furthest))
    if source is not None:
        found += build_raw_key_evidence(source)
        found += _build_time_items(source)
    if window.repeats:
        found.append(EvidenceItem("commits of the same offset", window.repeats, TIMES))
    found.append(_build_states_item(states))
    return tuple(found)


def build_raw_key_evidence(source: SourcePartitionView) -> Evidence:
    """Return the raw keys that a task may look up, or that it looked up one after the other."""
    unsure = tuple(
        EvidenceItem(
            "raw key", f"{format_raw_key(raw_key)} = {'null' if offset is None else offset.text}"
        )
        for raw_key, offset in source.unsure
    )
    change = source.restarted
    if change is None:
        return unsure
    before = "null" if change.offset is None else change.offset.text
    return (
        EvidenceItem("raw key before", f"{format_raw_key(change.before)} = {before}"),
        EvidenceItem("raw key now", format_raw_key(change.after)),
        *unsure,
    )


def format_raw_key(raw_key: bytes) -> str:
    """Return a raw key as text, byte for byte where it is UTF-8."""
    return raw_key.decode(errors="backslashreplace")


def build_summary_evidence(
    counts: Counter[Verdict], worst: tuple[str, Evidence] | None
) -> Evidence:
    """Return the evidence for a connector or flow: verdict counts and the worst partition."""
    found = tuple(
        EvidenceItem(verdict.value, counts[verdict], PARTITIONS)
        for verdict in WORST_FIRST
        if counts[verdict]
    ) or (_NO_PARTITIONS,)
    return found if worst is None else (*found, EvidenceItem("for instance", worst[0]), *worst[1])


@lru_cache(maxsize=1000)
def _build_states_item(states: str) -> EvidenceItem:
    """Return the states as evidence; cached, because connectors in equal states share the item."""
    return EvidenceItem("states", states)


def _build_log_items(
    position: int | None, view: MirrorPartitionView | SinkPartitionView
) -> Iterator[EvidenceItem]:
    yield EvidenceItem("position", position, OFFSET)
    if view.log_end is not None:
        yield EvidenceItem("log end", view.log_end, OFFSET)
    if view.lag is not None:
        yield EvidenceItem("lag", view.lag, RECORDS)
    if view.caught_up is not None and view.lag:
        yield _NONE_WAIT if view.caught_up else _SOME_WAIT
    if view.behind_since is not None:
        yield build_time_item("oldest record waits since", view.behind_since)


def _build_rewind_items(window: ObservationWindow) -> Iterator[EvidenceItem]:
    if window.behind:
        yield EvidenceItem("went back from", window.high, OFFSET)


def _build_time_items(source: SourcePartitionView) -> Iterator[EvidenceItem]:
    if source.committed_at is not None:
        yield _build_cached_time_item("last commit", int(source.committed_at // 1))
    if source.advanced_at is not None:
        yield _build_cached_time_item("last advance", int(source.advanced_at // 1))


@lru_cache(maxsize=4096)
def _build_cached_time_item(name: str, second: int) -> EvidenceItem:
    """Return a time as evidence; cached, because a flush commits many partitions at once."""
    return build_time_item(name, second)
