"""A journal in a topic, as the code that it is run with writes one: first that of a daemon which
was alone, as `journal create` puts it there, then what a replica writes that leads and carries out
a plan.

Run by make.py; see journals.py. Without a broker: what is handed to one is kept, record by record.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from offsetwatch.remedy.journal.journal import ChainLine, Journal
from offsetwatch.remedy.model.journal_records import LeadershipTaken
from offsetwatch.remedy.replicas.topic_copy import JournalTopicCopy, encode_line
from tests.unit.remedy.plans import Bench, plan_of
from tests.upgrade import journals, remediation_journals

TOPIC, TOPIC_ID = "offsetwatch-journal", "7Gk0bN6pQ0yX1nZs8H3dVw"
# What a topic adds is around the records, which journals.py has of every kind.
ALONE = ("altered", "in-doubt", "skipped", "skip-cut-off-after", "waiting", "rejected", "put-back")
_ALL = 100_000


def write(folder: Path) -> tuple[list[bytes], dict[str, Any]]:
    """The values of the topic's records in order, and what this code says of the copy."""
    result = journals.cases() | remediation_journals.cases()
    for name in ALONE:
        journals.played(folder, journals.named(result[name].plan, name), result[name])
    with closing(Journal(folder)) as journal:
        values = [encode_line(line) for line in journal.lines(1, _ALL)]
    JournalTopicCopy(folder, TOPIC, TOPIC_ID, begin=True).close()
    values += led(folder, "replica-1", "led")
    return values, describe(folder)


def led(folder: Path, replica: str, plan_id: str) -> list[bytes]:
    """What a replica puts into the topic that takes over and carries out a plan."""
    published: list[bytes] = []

    def publish(lines: Iterable[ChainLine]) -> None:
        published.extend(encode_line(line) for line in lines)

    bench = Bench(folder)
    bench.journal.close()
    bench.journal = Journal(folder, publish)
    with closing(bench.journal):
        bench.journal.control(LeadershipTaken(at=bench.clock.now(), name=replica))
        bench.runner().run(journals.named(plan_of(), plan_id))
    return published


def describe(folder: Path) -> dict[str, Any]:
    """What the verbs say of a copy, and where its chain ends."""
    with closing(JournalTopicCopy(folder, TOPIC, TOPIC_ID)) as copy:
        return {**journals.describe(folder), "head": list(copy.head)}
