"""Check of a requested cut against what a run has read, before gold is computed at it."""

from __future__ import annotations

from collections.abc import Mapping

from offsetwatch.errors import HistoryError
from offsetwatch.model.topology import KafkaTopic

Cut = Mapping[KafkaTopic, Mapping[int, int]]
"""The next offset of every partition: a cut includes the records below it and nothing else."""


def refuse_unread(cut: Cut, reached: Cut) -> None:
    """Raise HistoryError if the cut names an unread offset: gold there would be a guess."""
    for topic, offsets in cut.items():
        for partition, offset in offsets.items():
            read_to = reached.get(topic, {}).get(partition)
            if read_to is None:
                raise HistoryError(
                    f"the cut names {topic} partition {partition}, which was not read"
                )
            if offset > read_to:
                raise HistoryError(
                    f"the cut asks for {topic} partition {partition} up to {offset}, "
                    f"but it could be read up to {read_to} only"
                )
