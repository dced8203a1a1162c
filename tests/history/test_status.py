"""The file in which a run says how it goes: whole, carried on, and readable without Spark."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from offsetwatch.errors import HistoryError, SparkTerminated, TargetUnreachable
from offsetwatch.history.tables.pipeline_status import (
    BYTES_MAX,
    PipelineStatusWriter,
    path_of,
    read_status,
)
from offsetwatch.history.tables.schemas import OPS_GAPS
from offsetwatch.model.history_documents import FeedStatus, PipelineStatus
from tests.fakes.clock import VirtualClock

NOON = 1_795_262_400.0


def saved(base: Path) -> PipelineStatus:
    status = read_status(base)
    assert status is not None
    return status


def test_before_the_first_run_there_is_nothing(tmp_path: Path) -> None:
    assert read_status(tmp_path / "nowhere") is None


def test_batches_add_up_on_what_bronze_was_counted_to_hold(tmp_path: Path) -> None:
    with PipelineStatusWriter(tmp_path, ["east", "west"]) as status:
        status.stored({"east": (100, 2)})
        status.batch("east", decoded=10, undecodable=1, behind=7)
        status.batch("east", decoded=5, undecodable=0, behind=0)
        status.gaps("east", 3)
        status.read_up_to(NOON)
    assert saved(tmp_path) == PipelineStatus(
        batch_at=NOON,
        feeds=(FeedStatus("east", 115, 3, behind=0, gaps=3), FeedStatus("west", behind=None)),
        tables=(("bronze", NOON),),
    )


def test_what_ended_a_run_is_counted_on_through_later_runs(tmp_path: Path) -> None:
    def run(error: BaseException, *, reading: bool = False, computing: bool = False) -> None:
        with suppress(type(error)), PipelineStatusWriter(tmp_path, ["east"]) as status:
            if reading:
                status.read_up_to(None)
            if computing:
                with status.computing("gold", newest=True):
                    raise error
            raise error

    run(HistoryError("no topic"))
    run(HistoryError("no record"), reading=True)
    run(HistoryError("no memory"), reading=True, computing=True)
    run(TargetUnreachable("east", "no route"), reading=True)
    run(SparkTerminated("no answer"), reading=True)
    run(ZeroDivisionError())
    run(ZeroDivisionError())
    run(KeyboardInterrupt())  # an operator's request
    assert dict(saved(tmp_path).errors) == {
        "starting": 1,
        "reading": 1,
        "computing": 1,
        "unreachable": 1,
        "spark_gone": 1,
        "bug": 2,
    }


def test_a_run_that_cannot_start_leaves_the_moments_of_the_last_one(tmp_path: Path) -> None:
    with PipelineStatusWriter(tmp_path, ["east"]) as status:
        status.read_up_to(NOON)
        with status.computing("silver", "gold", newest=True):
            pass
    with pytest.raises(HistoryError), PipelineStatusWriter(tmp_path, ["east"]):
        raise HistoryError("no broker")
    assert saved(tmp_path).batch_at == NOON
    assert dict(saved(tmp_path).tables) == {"bronze": NOON, "silver": NOON, "gold": NOON}


def test_a_table_is_as_old_as_the_batch_it_was_computed_from(tmp_path: Path) -> None:
    with PipelineStatusWriter(tmp_path, ["east"]) as status:
        status.read_up_to(NOON)
        with status.computing("gold", newest=True):
            status.read_up_to(NOON + 60)  # while it is computed
        assert dict(saved(tmp_path).tables) == {"bronze": NOON + 60, "gold": NOON}
        status.up_to_date("gold")
    assert dict(saved(tmp_path).tables) == {"bronze": NOON + 60, "gold": NOON + 60}


def test_a_table_computed_as_of_an_earlier_cut_has_no_age(tmp_path: Path) -> None:
    with PipelineStatusWriter(tmp_path, ["east"]) as status:
        status.read_up_to(NOON)
        with status.computing("gold", newest=True):
            pass
        with status.computing("gold", newest=False):
            pass
    assert dict(saved(tmp_path).tables) == {"bronze": NOON}


def test_a_table_whose_computation_failed_keeps_its_age(tmp_path: Path) -> None:
    with PipelineStatusWriter(tmp_path, ["east"]) as status:
        status.read_up_to(NOON)
        with status.computing("gold", newest=True):
            pass
    with suppress(HistoryError), PipelineStatusWriter(tmp_path, ["east"]) as status:
        status.read_up_to(NOON + 60)
        with status.computing("gold", newest=True):
            raise HistoryError("no memory")
    assert dict(saved(tmp_path).tables) == {"bronze": NOON + 60, "gold": NOON}


def test_a_cluster_that_is_no_longer_read_is_no_longer_reported(tmp_path: Path) -> None:
    with PipelineStatusWriter(tmp_path, ["east", "west"]) as status:
        status.gaps("west", 1)
    with PipelineStatusWriter(tmp_path, ["east"]):
        pass
    assert [feed.kafka for feed in saved(tmp_path).feeds] == ["east"]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="cut"),
        pytest.param(b"[]", id="another-shape"),
        pytest.param(b'{"batch_at":"noon"}', id="a-text-for-a-time"),
        pytest.param(b'{"batch_at":1e999}', id="no-number"),
        pytest.param(b'{"feeds":[{"kafka":"\xff"}]}', id="no-text"),
        pytest.param(b'{"feeds":' + b"[" * 100_000, id="deep"),
        pytest.param(b" " * (BYTES_MAX + 1), id="large"),
    ],
)
def test_a_file_that_no_run_wrote_is_refused_and_the_next_run_begins_again(
    tmp_path: Path, content: bytes
) -> None:
    path_of(tmp_path).parent.mkdir()
    path_of(tmp_path).write_bytes(content)
    with pytest.raises(HistoryError, match=r"ops/status\.json is not what a run writes"):
        read_status(tmp_path)
    with PipelineStatusWriter(tmp_path, ["east"]):
        pass
    assert saved(tmp_path) == PipelineStatus(feeds=(FeedStatus("east"),))


def test_what_a_later_version_adds_is_passed_over(tmp_path: Path) -> None:
    path_of(tmp_path).parent.mkdir()
    path_of(tmp_path).write_bytes(b'{"batch_at":1.5,"news":[],"feeds":[{"kafka":"e","more":1}]}')
    assert saved(tmp_path) == PipelineStatus(batch_at=1.5, feeds=(FeedStatus("e"),))


def test_that_it_cannot_be_written_ends_no_run(tmp_path: Path) -> None:
    (tmp_path / "ops").touch()  # a file, where a folder has to be
    with PipelineStatusWriter(tmp_path, ["east"]) as status:
        status.read_up_to(NOON)
    assert read_status(tmp_path) is None


def test_reading_it_brings_in_neither_spark_nor_the_readers_of_tables() -> None:
    script = (
        "import sys, offsetwatch.history.tables.pipeline_status\n"
        "sys.exit(bool({'pyspark', 'deltalake', 'pyarrow', 'pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.spark
@pytest.mark.parametrize(
    ("latest", "reached", "expected"),
    [
        ('{"a":{"0":10,"1":5}}', '{"a":{"0":7,"1":5}}', 3),
        ('{"a":{"0":7}}', '{"a":{"0":7}}', 0),
        ('{"a":{"0":5},"b":{"0":9}}', '{"a":{"0":7},"b":{"0":7}}', 2),  # an end that moved back
        ('{"a":{"0":7,"1":1}}', '{"a":{"0":7}}', None),  # a partition that is not known yet
        ('{"a":{"0":7},"b":{"0":7}}', '{"a":{"0":7}}', None),
        (None, '{"a":{"0":7}}', None),
        ('{"a":{"0":7}}', None, None),
    ],
)
def test_behind_is_said_only_where_both_vectors_report(
    latest: str | None, reached: str | None, expected: int | None
) -> None:
    from offsetwatch.history.pipeline.run import count_unread

    assert count_unread(latest, reached) == expected


class Query:
    """As much of Spark's handle on a stream as tells that it ended."""

    def __init__(self, run: str, *, active: bool = True) -> None:
        self.runId = run
        self.isActive = active
        self.status = {"isTriggerActive": True}
        self.recentProgress: tuple[object, ...] = ()


@dataclass(eq=False)
class Stream:
    query: Query
    kafka: str = "east"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("observed", "ended"),
    [
        pytest.param([("a", True), ("a", True)], 0, id="goes-on"),
        pytest.param([("a", True), ("a", False), ("a", False)], 1, id="stays-ended"),
        pytest.param([("a", True), ("b", True), ("b", True)], 1, id="replaced-unseen"),
        pytest.param([("a", True), ("a", False), ("b", True)], 1, id="replaced"),
        pytest.param([("a", True), ("b", False), ("c", True)], 2, id="twice"),
        pytest.param([("a", False), ("b", False)], 2, id="never-runs"),
    ],
)
def test_each_query_of_a_continuous_run_that_ends_is_counted_once(
    tmp_path: Path, observed: list[tuple[str, bool]], ended: int
) -> None:
    from offsetwatch.history.pipeline import commits
    from offsetwatch.history.pipeline.run import StreamProgressMonitor

    def errors(every_s: float | None) -> dict[str, int]:
        base = tmp_path / str(every_s)
        commits.create(base, OPS_GAPS)  # as a run does before it watches
        stream: Any = Stream(Query("a"))
        with PipelineStatusWriter(base, ["east"]) as status:
            watch = StreamProgressMonitor(status, base, [stream], VirtualClock(), every_s=every_s)
            for run, active in observed:
                stream.query = Query(run, active=active)
                watch.poll()
        return dict(saved(base).errors)

    assert errors(every_s=60.0) == ({"stream_ended": ended} if ended else {})
    assert errors(every_s=None) == {}  # a run that reads what is there means its streams to end
