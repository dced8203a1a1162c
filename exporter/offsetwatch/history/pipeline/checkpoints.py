"""The generations of each Kafka cluster's stream on disk, and what Spark wrote of their progress.

`_ckpt/<kafka>/g<N>` is Spark's own folder; beside it `g<N>.json` says what that generation reads
and where it began. Of Spark's files only the two that say how far it is are read; where they are
not as expected, the checkpoint counts as gone, which costs nothing (generations.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from offsetwatch.errors import HistoryError
from offsetwatch.history.tables.stream_generations import Held, Place, Plan

_GENERATION = re.compile(r"g(\d+)(\.json)?")

Vector = dict[str, dict[str, int]]  # topic -> partition -> offset, as Spark's Kafka source has it


def folder(base: Path, kafka: str, number: int) -> Path:
    """Where Spark keeps the progress of a generation; a cluster's name may hold a slash."""
    return _of(base, kafka) / f"g{number}"


def held(base: Path, kafka: str) -> Held | None:
    """The newest generation; None if there was none yet."""
    place = _of(base, kafka)
    names = [] if not place.is_dir() else [entry.name for entry in place.iterdir()]
    found = [_GENERATION.fullmatch(name) for name in names]
    numbers = [int(match[1]) for match in found if match is not None]
    if not numbers:
        return None
    number = max(numbers)
    try:
        document = json.loads((place / f"g{number}.json").read_text(encoding="utf-8"))
        topics, starts = dict(document["topics"]), places(document["starts"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        topics, starts = {}, {}  # lost or damaged: the next generation begins
    checkpoint = folder(base, kafka, number)
    committed, planned = _progress(checkpoint)
    return Held(
        number=number,
        topics=topics,
        starts=starts,
        committed=committed,
        planned=planned or {},
        batch=None if planned is None else _newest_batch(checkpoint),
    )


def begin(base: Path, kafka: str, plan: Plan) -> None:
    """Write down what a generation is, before Spark starts it. Raises HistoryError."""
    place = _of(base, kafka)
    document = {"topics": dict(plan.topics), "starts": vector(plan.starts)}
    partial = place / f"g{plan.number}.json.partial"
    try:
        place.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(document, indent=1, sort_keys=True), encoding="utf-8")
        partial.replace(place / f"g{plan.number}.json")
    except OSError as exc:
        raise HistoryError(f"{place} cannot be written: {exc}") from exc


def vector(offsets: Mapping[Place, int]) -> Vector:
    """As Spark's Kafka source wants its offsets."""
    found: Vector = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def places(offsets: Vector) -> dict[Place, int]:
    """The reverse of vector."""
    return {
        (topic, int(partition)): offset
        for topic, by_partition in offsets.items()
        for partition, offset in by_partition.items()
    }


def _of(base: Path, kafka: str) -> Path:
    return base / "_ckpt" / quote(kafka, safe="")


def _progress(checkpoint: Path) -> tuple[dict[Place, int] | None, dict[Place, int] | None]:
    """How far the batches are done, and how far the newest one goes; None if nobody knows."""
    planned = _newest(checkpoint / "offsets")
    if planned is None:
        return None, None
    done = _newest(checkpoint / "commits")
    try:
        goes_to = _batch(checkpoint, planned)
        # The first batch begins where the generation does.
        return ({} if done is None else _batch(checkpoint, done)), goes_to
    except (OSError, ValueError, TypeError, AttributeError):
        return None, None


def _newest_batch(checkpoint: Path) -> tuple[str, int] | None:
    number = _newest(checkpoint / "offsets")
    try:
        query = json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return None if number is None else (str(query), number)


def _newest(log: Path) -> int | None:
    if not log.is_dir():
        return None
    return max((int(file.name) for file in log.iterdir() if file.name.isdecimal()), default=None)


def _batch(checkpoint: Path, number: int) -> dict[Place, int]:
    lines = (checkpoint / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()
    return places(json.loads(lines[-1]))
