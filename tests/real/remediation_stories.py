"""Stories of daemons that may act: what each was shown, what it made of that, and what reached
Connect. What remediable_failures.py and refused_failures.py have in common.

A skip waits for a quarter of a minute by design, so several stories are told at the same time, each
with a daemon of its own: what fails in one of them is nothing that another one knows of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import Lab
from lab.faults.recording_proxy import Exchange
from lab.product.remediating_daemon import Guarded
from lab.stories import sinks
from lab.stories.sinks import Sink
from lab.waiting import NotYet, until
from tests.real.daemon_series import total

Json = dict[str, Any]

VISIBLE_S_MAX = 150.0
# Each has a daemon, and starting is what costs a daemon most.
AT_ONCE = 4
QUARANTINE = {"kafka": "east", "topic": "offsetwatch.quarantine"}
SKIP = ["PUT /stop", "PATCH /offsets", "PUT /resume"]


@dataclass(slots=True)
class StoryResult:
    """What came of a story, by the names of its moments."""

    plans: dict[str, Json] = field(default_factory=dict)
    ends: dict[str, Json] = field(default_factory=dict)
    changes: dict[str, list[Exchange]] = field(default_factory=dict)
    refusals: dict[str, Json] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


class Stories:
    """All of them, a few at a time, in this order; each is told when it is asked for."""

    def __init__(self, lab: Lab, directory: Path, stories: Mapping[str, Story]) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="story")
        self._futures: dict[str, Future[StoryResult]] = {
            name: self._pool.submit(tell, lab, directory / name) for name, tell in stories.items()
        }

    def __getitem__(self, name: str) -> StoryResult:
        """What came of it, once it is over. Raises what it raised."""
        return self._futures[name].result()

    def await_all(self) -> None:
        """Wait until all are over, however they ended."""
        wait(self._futures.values())

    def stop(self) -> None:
        """When all are over, however they ended."""
        self._pool.shutdown(wait=True)


Story = Callable[[Lab, Path], StoryResult]


@contextmanager
def guarded(
    lab: Lab,
    directory: Path,
    connectors: Sequence[str],
    interval_s: float = 3.0,
    sources: Sequence[Mapping[str, object]] = (),
    **remedy: object,
) -> Iterator[Guarded]:
    """A daemon that proposes, unless told otherwise. With `sources` it reads its worker's files."""
    built = Guarded(
        lab,
        directory=directory,
        connectors=connectors,
        remedy={"mode": "propose", "quarantine": QUARANTINE, "stop_on": [], **remedy},
        interval_s=interval_s,
        worker_files=bool(sources),
        sources=sources,
    )
    try:
        built.start()
        yield built
    finally:
        built.stop()


@contextmanager
def sink_of(lab: Lab, name: str, *, records: int = 5) -> Iterator[Sink]:
    """A sink that has taken its first records. Afterwards it is gone, and fails no more."""
    sink = sinks.begin(Sink(lab, name), records=records)
    try:
        yield sink
    finally:
        lab.delete(sink.connector)


def list_requests(changes: list[Exchange]) -> list[str]:
    """What was asked for, without the connector's name and without what was asked how."""
    return [
        f"{change.method} /{change.path.split('/', 3)[-1].partition('?')[0]}" for change in changes
    ]


def against(plan_record: Json) -> set[str]:
    """The guards that do not let a proposed plan be carried out without a person."""
    return {answer["guard"] for answer in plan_record["answers"] if answer["answer"] != "pass"}


def proposal(daemon: Guarded, plan: Json) -> Json:
    """The journal's record of it."""
    return next(
        entry
        for entry in daemon.journal()
        if entry["plan_id"] == plan["plan_id"] and entry["record"] == "proposed"
    )


def evidence_of(daemon: Guarded, plan: Json) -> Json:
    """What a plan rests on, by name."""
    evidence = proposal(daemon, plan)["plan"]["remedy"]["evidence"]
    return {item["name"]: item["value"] for item in evidence}


def await_rounds(daemon: Guarded, rounds: int = 3) -> None:
    """Wait until the loop of remedies has turned so often once more."""
    name = "remediation_engine_heartbeat_timestamp_seconds"
    for _ in range(rounds):
        before = total(daemon.product, name)

        def turned(before: float | None = before) -> None:
            now = total(daemon.product, name)
            if now is None or now == before:
                raise NotYet(f"heartbeat {now}")

        until("another round", turned, timeout_s=VISIBLE_S_MAX, evidence=daemon.product.evidence)


def plan_of(daemon: Guarded, connector: str, plan_id: str) -> Json:
    """How a plan stands now."""
    return next(row for row in daemon.plans(connector) if row["plan_id"] == plan_id)
