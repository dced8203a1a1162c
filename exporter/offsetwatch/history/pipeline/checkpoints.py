"""Generations of each Kafka cluster's stream on disk, and Spark's checkpoints of their progress.

`_ckpt/<kafka>/g<N>` is Spark's own folder; beside it `g<N>.json` holds the topics and the start of
that generation. Of Spark's files only those that hold its progress are read; where they are not as
expected, the checkpoint counts as lost, which costs nothing (history/tables/stream_generations.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from offsetwatch.errors import HistoryError
from offsetwatch.history.tables.stream_generations import (
    StreamGeneration,
    StreamPartition,
    StreamPlan,
)

_GENERATION = re.compile(r"g(\d+)(\.json)?")

SparkOffsets = dict[
    str, dict[str, int]
]  # topic -> partition -> offset, as Spark's Kafka source has it


def find_checkpoint_folder(base: Path, kafka: str, number: int) -> Path:
    """Return Spark's folder for the progress of a generation; a cluster's name may hold a slash."""
    return _find_cluster_folder(base, kafka) / f"g{number}"


def read_generation(base: Path, kafka: str) -> StreamGeneration | None:
    """Return the newest generation; None if there was none yet."""
    path = _find_cluster_folder(base, kafka)
    names = [] if not path.is_dir() else [entry.name for entry in path.iterdir()]
    found = [_GENERATION.fullmatch(name) for name in names]
    numbers = [int(match[1]) for match in found if match is not None]
    if not numbers:
        return None
    number = max(numbers)
    try:
        document = json.loads((path / f"g{number}.json").read_text(encoding="utf-8"))
        topics, starts = dict(document["topics"]), parse_spark_offsets(document["starts"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        topics, starts = {}, {}  # lost or damaged: the next generation begins
    checkpoint = find_checkpoint_folder(base, kafka, number)
    committed, planned = _progress(checkpoint)
    return StreamGeneration(
        number=number,
        topics=topics,
        starts=starts,
        committed=committed,
        planned=planned or {},
        batch=None if planned is None else _newest_batch(checkpoint),
    )


def write_generation(base: Path, kafka: str, plan: StreamPlan) -> None:
    """Write the file of a generation, before Spark starts it. Raises HistoryError."""
    path = _find_cluster_folder(base, kafka)
    document = {"topics": dict(plan.topics), "starts": format_spark_offsets(plan.starts)}
    partial = path / f"g{plan.number}.json.partial"
    try:
        path.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(document, indent=1, sort_keys=True), encoding="utf-8")
        partial.replace(path / f"g{plan.number}.json")
    except OSError as exc:
        raise HistoryError(f"{path} cannot be written: {exc}") from exc


def format_spark_offsets(offsets: Mapping[StreamPartition, int]) -> SparkOffsets:
    """Return offsets in the format of Spark's Kafka source."""
    found: SparkOffsets = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def parse_spark_offsets(offsets: SparkOffsets) -> dict[StreamPartition, int]:
    """Return the offsets of Spark's format; the reverse of format_spark_offsets."""
    return {
        (topic, int(partition)): offset
        for topic, by_partition in offsets.items()
        for partition, offset in by_partition.items()
    }


def _find_cluster_folder(base: Path, kafka: str) -> Path:
    return base / "_ckpt" / quote(kafka, safe="")


def _progress(
    checkpoint: Path,
) -> tuple[dict[StreamPartition, int] | None, dict[StreamPartition, int] | None]:
    """Return the offsets of the last batch that is done, and of the newest one; None if unknown."""
    planned = _find_newest_number(checkpoint / "offsets")
    if planned is None:
        return None, None
    done = _find_newest_number(checkpoint / "commits")
    try:
        goes_to = _batch(checkpoint, planned)
        # The first batch begins where the generation does.
        return ({} if done is None else _batch(checkpoint, done)), goes_to
    except (OSError, ValueError, TypeError, AttributeError):
        return None, None


def _newest_batch(checkpoint: Path) -> tuple[str, int] | None:
    number = _find_newest_number(checkpoint / "offsets")
    try:
        query = json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return None if number is None else (str(query), number)


def _find_newest_number(log: Path) -> int | None:
    if not log.is_dir():
        return None
    return max((int(file.name) for file in log.iterdir() if file.name.isdecimal()), default=None)


def _batch(checkpoint: Path, number: int) -> dict[StreamPartition, int]:
    lines = (checkpoint / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()
    return parse_spark_offsets(json.loads(lines[-1]))
