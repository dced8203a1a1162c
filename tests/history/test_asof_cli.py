"""`history as-of`: what goes to standard output, what to standard error, and the exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from offsetwatch.cli import cli
from offsetwatch.cli.common.options import parse_time
from offsetwatch.cli.history.queries import asof
from offsetwatch.errors import ConfigError
from offsetwatch.history.tables.schemas import BRONZE_SOURCE_ENDS
from tests.fakes.worker import Worker, ok
from tests.history.delta import Row, write
from tests.history.rows import at, offset_key
from tests.history.test_asof import (
    DAY,
    HASHED,
    IN,
    LINKED,
    MORNING,
    OUT,
    Commit,
    format_position,
    lake,
)

THERE, LATER = {"filename": "/there"}, {"filename": "/later"}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """IN moves at 0, 10 and 20; OUT is forgotten at 5 and back at 15; THERE never moves; LATER
    appears at 30, and then the numbers are too great for 64 bits.
    """
    return lake(
        tmp_path / "history",
        Commit(0, '{"position":1}'),
        Commit(1, '{"position":4}', partition=OUT),
        Commit(2, '{"position":36893488147419103232}', partition=THERE),
        Commit(5, None, partition=OUT),
        Commit(10, '{"position":2}'),
        Commit(15, '{"position":5}', partition=OUT),
        Commit(20, '{"position":1}'),
        Commit(30, '{"position":36893488147419103233}', partition=LATER),
        read_at=60,
    )


def history(base: Path, *arguments: str, url: str | None = None) -> Result:
    where = f'url: "{url}"' if url else "offsets_topic: connect-offsets"
    path = base / "offsetwatch.yaml"
    path.write_text(
        f'kafka: {{east: {{bootstrap: "127.0.0.1:1"}}}}\n'
        f"connect: [{{name: payments, kafka: east, {where}, poll: {{timeout_s: 0.5}}}}]\n"
        f"history: {{path: {base}}}\n"
    )
    return CliRunner().invoke(cli, ["history", "as-of", "--config", str(path), *arguments])


def moment(second: float) -> str:
    return str(MORNING + second)


def pairs(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {it["partition"]["filename"]: it["offset"] for it in entries}


def test_kip_199_names_what_a_task_would_have_been_handed(base: Path) -> None:
    done = history(base, "--time", moment(12), "--connector", "file")
    assert (done.exit_code, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document.keys() == {"file"}
    assert pairs(document["file"]) == {
        "/in": {"position": 2},
        "/there": {"position": 36893488147419103232},
    }


def test_a_patch_takes_back_what_came_after(base: Path) -> None:
    done = history(base, "--time", moment(12), "--connector", "file", "--format", "patch")
    assert (done.exit_code, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document.keys() == {"offsets"}
    assert pairs(document["offsets"]) == {
        "/in": {"position": 2},
        "/out": None,  # a tombstone then, an offset now
        "/there": {"position": 36893488147419103232},
        "/later": None,
    }


def test_what_is_gone_now_needs_no_null(base: Path) -> None:
    lake(base, Commit(40, None, partition=LATER), first=8, read_at=60)
    done = history(base, "--time", moment(16), "--connector", "file", "--format", "patch")
    offsets = pairs(json.loads(done.stdout)["offsets"])
    assert offsets.keys() == {"/in", "/out", "/there"}


def test_a_value_that_cannot_be_decoded_is_left_out_said_and_no_success(base: Path) -> None:
    lake(base, Commit(40, "{", partition=OUT), first=8, read_at=60)
    lake(base, Commit(50, '{"position":6}', partition=OUT), first=9, read_at=60)
    for form in ("kip199", "patch"):
        done = history(base, "--time", moment(41), "--connector", "file", "--format", form)
        assert done.exit_code == 1
        assert '{"filename":"/out"} is left out, its value cannot be decoded' in done.stderr
        document = json.loads(done.stdout)
        assert "/out" not in pairs(document.get("file") or document["offsets"])


@pytest.mark.parametrize(
    ("class_name", "way"),
    [("FileStreamSource", "behind"), ("org.example.CameraSource", "unordered"), ("", "unordered")],
)
def test_the_difference_says_which_way_it_goes_where_the_class_reports(
    base: Path, monkeypatch: pytest.MonkeyPatch, class_name: str, way: str
) -> None:
    monkeypatch.setattr(asof, "_read_class_name", lambda *_: class_name)
    done = history(base, "--time", moment(12), "--diff")
    assert done.exit_code == 0
    words = {line.split()[1]: line.split()[-1] for line in done.stdout.splitlines()[2:]}
    assert words == {
        '{"filename":"/in"}': way,
        '{"filename":"/later"}': "new",
        '{"filename":"/out"}': "new",
    }


@pytest.fixture
def worker() -> Iterator[Worker]:
    offsets = [
        {"partition": IN, "offset": {"position": 2}},
        {"partition": {"filename": "/newest"}, "offset": {"position": 1}},
        {"partition": {"filename": "/variant"}, "offset": None},
    ]
    built = Worker(ok(json.dumps({"offsets": offsets}).encode()))
    yield built
    built.stop()


def test_now_is_what_connect_says_where_it_can_be_queried(base: Path, worker: Worker) -> None:
    of_file = ("--time", moment(12), "--connector", "file")
    done = history(base, *of_file, "--diff", url=worker.url)
    words = {line.split()[1]: line.split()[-1] for line in done.stdout.splitlines()[2:]}
    assert words == {'{"filename":"/newest"}': "new", '{"filename":"/there"}': "gone"}
    done = history(base, *of_file, "--format", "patch", url=worker.url)
    assert pairs(json.loads(done.stdout)["offsets"]) == {
        "/in": {"position": 2},
        "/there": {"position": 36893488147419103232},
        "/newest": None,
    }


def test_a_worker_that_does_not_answer_is_said_and_the_tables_are_used(base: Path) -> None:
    arguments = ("--time", moment(12), "--connector", "file", "--format", "patch")
    done = history(base, *arguments, url="http://127.0.0.1:1")
    assert done.exit_code == 0
    assert "with the newest in the tables instead" in done.stderr
    assert pairs(json.loads(done.stdout)["offsets"])["/later"] is None


def test_what_no_patch_reaches_is_said_with_the_way_that_does(tmp_path: Path) -> None:
    lake(
        tmp_path / "history",
        *(Commit(n, format_position(n), key=LINKED) for n in range(3)),
        read_at=60,
    )
    of_file = ("--time", moment(12), "--connector", "file")
    done = history(tmp_path / "history", *of_file, "--format", "patch")
    assert "has no effect on 1 of 1 source partition," in done.stderr
    assert LINKED.decode() in done.stderr
    assert "offsets alter file --worker-config" in done.stderr
    (entry,) = json.loads(history(tmp_path / "history", *of_file).stdout)["file"]
    assert entry["key"] == LINKED.decode()


def test_what_a_patch_reaches_is_decided_by_the_raw_key_of_now(tmp_path: Path) -> None:
    """The task that runs now reads the offset, under its own raw key."""
    base = tmp_path / "history"
    lake(
        base,
        *(Commit(n, format_position(n), key=LINKED) for n in range(3)),
        *(Commit(60 + n, format_position(n), key=HASHED) for n in range(4)),
        read_at=70,
    )
    before = ("--time", moment(12), "--connector", "file")
    assert "has no effect" not in history(base, *before, "--format", "patch").stderr
    then = history(base, *before).stderr
    assert "had raw keys that a PATCH over REST does not write" in then
    assert f"its task looked up {LINKED.decode()}" in then
    assert "has no effect" not in then


def test_the_table_names_raw_keys_that_no_patch_reaches(tmp_path: Path) -> None:
    base = tmp_path / "history"
    lake(base, Commit(0, '{"position":1}', key=LINKED), Commit(1, '{"position":2}'), read_at=60)
    arguments = ("--time", moment(12), "--connector", "file", "--format", "table")
    done = history(base, *arguments)
    assert "raw key" in done.stdout
    assert LINKED.decode() in "".join(done.stdout.split())
    assert offset_key("file", IN).decode() not in "".join(done.stdout.split())


def test_the_table_says_where_each_offset_was_found(base: Path) -> None:
    done = history(base, "--time", moment(12), "--format", "table")
    assert "as of 2026-11-21T06:40:12.000Z" in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if "/in" in line]
    assert line.split() == [
        *("file", '{"filename":"/in"}', '{"position":2}', "2026-11-21T06:40:10.000Z"),
        *("east/connect-offsets", "0", "4"),
    ]


def test_the_table_says_how_far_behind_its_source_each_offset_was(base: Path) -> None:
    def sample(second: float, lag: int, partition: dict[str, str], **changes: Any) -> Row:
        read_at = at(round((MORNING + second) * 1000))
        return {
            "at": read_at,
            "connect_cluster": "payments",
            "connector": "file",
            "source_partition": json.dumps(partition, separators=(",", ":")),
            "source": "lines",
            "kind": "file",
            "lag_bytes": lag,
            "behind_since": at(round((MORNING + second - 9) * 1000)),
            "caught_up": False,
            "day": read_at.date(),
            **changes,
        }

    gone = {"lag_bytes": None, "behind_since": None, "caught_up": None, "problem": "it is gone"}
    rows = (
        sample(2, 500, IN),
        sample(11, 924, IN),
        sample(13, 7, IN),
        sample(11, 0, THERE, **gone),
    )
    write(base, BRONZE_SOURCE_ENDS, *rows)
    done = history(base, "--time", moment(12), "--format", "table")
    lines = {line.split()[1]: line.split()[7:] for line in done.stdout.splitlines() if "{" in line}
    assert lines['{"filename":"/in"}'] == ["924", "bytes", "9", "s", "2026-11-21T06:40:11.000Z"]
    assert lines['{"filename":"/there"}'][:3] == ["it", "is", "gone"]
    later = history(base, "--time", moment(2000), "--format", "table")
    assert "source read" not in later.stdout  # the newest sample is too old


def test_verbose_names_the_files_and_how_many_were_not_needed(base: Path) -> None:
    lake(base, Commit(2 * DAY, '{"position":9}'), first=8, read_at=60)
    done = history(base, "--time", moment(12), "--connector", "file", "-v")
    assert "opened 1 file, skipped 1" in done.stderr
    assert done.stderr.count("day=2026-11-21") == 1
    json.loads(done.stdout)


def test_a_moment_after_the_last_reading_is_answered_with_a_warning(base: Path) -> None:
    done = history(base, "--time", moment(61), "--connector", "file")
    assert done.exit_code == 0
    assert "payments was last read at 2026-11-21T06:41:00.000Z" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--time", moment(-1)), "nothing is known as of 2026-11-21T06:39:59.000Z"),
        (("--time", moment(1), "--connector", "none"), "none: no record of it was read"),
        (("--time", moment(1), "--connect", "none"), "only of payments"),
    ],
    ids=["before", "connector", "cluster"],
)
def test_what_the_tables_cannot_report_exits_1_and_prints_no_answer(
    base: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = history(base, *arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert message in done.stderr


def test_all_source_partitions_forgotten_is_an_answer_and_said(base: Path) -> None:
    lake(base, Commit(40, None, connector="reset"), first=8, read_at=60)
    done = history(base, "--time", moment(41), "--connector", "reset")
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"reset": []})
    assert "reset: no offset then, of 1 source partition" in done.stderr


def test_a_connector_without_source_partitions_is_not_in_a_patch(base: Path) -> None:
    lake(base, Commit(40, '{"a":1}', connector="bare", key=b'["bare",null]'), first=8, read_at=60)
    done = history(base, "--time", moment(41), "--connector", "bare")
    assert json.loads(done.stdout) == {"bare": [{"partition": None, "offset": {"a": 1}}]}
    done = history(base, "--time", moment(41), "--connector", "bare", "--format", "patch")
    assert json.loads(done.stdout) == {"offsets": []}
    assert "no PATCH sets it" in done.stderr


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-21T06:40:00Z", MORNING),
        ("2026-11-21T08:40:00.5+02:00", MORNING + 0.5),
        ("1795243200", MORNING),
        ("10m ago", MORNING - 600),
        ("1.5h ago", MORNING - 5400),
        ("2d ago", MORNING - 2 * DAY),
    ],
)
def test_a_time_may_be_written_in_several_ways(text: str, seconds: float) -> None:
    assert parse_time(text, now=MORNING) == seconds


@pytest.mark.parametrize("text", ["2026-11-21T06:40:00", "noon", "10m", "", "nan", "1e9"])
def test_what_is_no_time_or_has_no_zone_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--time"):
        parse_time(text, now=MORNING)
