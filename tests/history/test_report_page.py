"""The report as people get it: a page, a file of minutes, a table."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from offsetwatch.cli import cli
from offsetwatch.errors import ConfigError, HistoryError
from offsetwatch.history.failover_report.files import SCHEMA, write_page
from offsetwatch.history.failover_report.html import STEPS_MAX, PlotLine, plot, render_page
from tests.history.past_hour import NOON, Past, build_typical_hour
from tests.history.test_failover_report import build

HOSTILE = "<script>alert('1')</script>&"


def parsed(text: str) -> ET.Element:
    kind, rest = text.split("\n", 1)
    assert kind == "<!doctype html>"
    return ET.fromstring(rest)


def drawn(figure: str, by: str) -> str:
    (path,) = (
        element for element in ET.fromstring(figure).iter("path") if element.get("class") == by
    )
    return path.get("d", "")


# --- the page ------------------------------------------------------------------------------------


def test_the_page_is_well_formed_and_requests_nothing(tmp_path: Path) -> None:
    past = build_typical_hour()
    past.add_samples(0, 10, group=HOSTILE)
    text = render_page(build(past.write(tmp_path)))
    tree = parsed(text)
    tags = {element.tag for element in tree.iter()}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "image", "use", "a"}
    names = {name for element in tree.iter() for name in element.attrib}
    assert not {name for name in names if name.startswith("on")} | (names & {"src", "href"})
    assert not re.search(r"https?:|url\(|@import", text)
    (policy,) = (
        element.get("content") for element in tree.iter("meta") if element.get("http-equiv")
    )
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    assert "prefers-color-scheme: dark" in text
    assert "width=device-width" in text


def test_what_others_have_named_is_text_on_it(tmp_path: Path) -> None:
    past = build_typical_hour()
    past.add_samples(0, 10, group=HOSTILE)
    text = render_page(build(past.write(tmp_path)))
    assert HOSTILE not in text
    assert any(HOSTILE in (element.text or "") for element in parsed(text).iter("h2"))


def test_every_group_has_its_curves_its_worst_moment_and_what_is_not_known(
    tmp_path: Path,
) -> None:
    past = build_typical_hour()
    past.add_samples(0, 10, group="reports")
    tree = parsed(render_page(build(past.write(tmp_path))))
    assert len(list(tree.iter("figure"))) == 2 + 2 * 4
    text = " ".join("".join(element.itertext()) for element in tree.iter("li"))
    assert "12:00:00Z: 2 699 records read again (orders-0: 2 699, from 2700 it lands on 1" in text
    assert "by a checkpoint of 2026-11-21 11:58:20Z, best would be 2700" in text
    assert "neither a commit of its own nor a checkpoint on the target (6 times)" in text
    assert "the group's position was not sampled (5 times)" in text


def test_a_curve_ends_where_it_is_not_known_and_begins_again() -> None:
    minutes = [NOON + 60.0 * number for number in range(5)]
    figure = plot("t", minutes, [PlotLine("l", "a", [1, None, 3, 4, None])], str)
    assert drawn(figure, "a") == "M0.0 150.0H200.0M400.0 50.0H600.0V0.0H800.0"
    gaps = [
        element for element in ET.fromstring(figure).iter("rect") if element.get("class") == "gap"
    ]
    assert [(gap.get("x"), gap.get("width")) for gap in gaps] == [
        ("200.0", "200.0"),
        ("800.0", "200.0"),
    ]


def test_a_curve_of_nothing_and_one_of_zeroes_are_distinguished() -> None:
    minutes = [float(NOON), NOON + 60.0]
    assert drawn(plot("t", minutes, [PlotLine("l", "a", [None, None])], str), "a") == ""
    assert drawn(plot("t", minutes, [PlotLine("l", "a", [0, 0])], str), "a") == (
        "M0.0 200.0H500.0V200.0H1000.0"
    )


def test_of_many_minutes_each_step_is_the_worst_and_says_so() -> None:
    count = STEPS_MAX * 2
    values: list[float | None] = [0] * count
    values[7], values[100] = 9, None
    minutes = [NOON + 60.0 * number for number in range(count)]
    figure = plot("t", minutes, [PlotLine("l", "a", values)], str)
    assert "each step is the worst of 2 minutes" in figure
    assert drawn(figure, "a").count("V0.0") == 1
    assert len(list(ET.fromstring(figure).iter("rect"))) == 1  # of the step that has it
    assert drawn(figure, "a").count("M") == 1


# --- as it is typed ------------------------------------------------------------------------------


def typed(base: Path, *arguments: str, until: float = 600) -> Result:
    path = base / "offsetwatch.yaml"
    path.write_text(
        'kafka: {east: {bootstrap: "127.0.0.1:1"}}\n'
        "connect: [{name: lab, kafka: east, offsets_topic: connect-offsets}]\n"
        f"history: {{path: {base / 'tables'}}}\n"
    )
    window = ("--from", str(NOON), "--to", str(NOON + until))
    command = ("history", "report", "--flow", "west->east", "--config", str(path))
    return CliRunner().invoke(cli, [*command, *window, *arguments])


def minutes(done: Result) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_figures_and_worst_moments_are_reported_as_json(tmp_path: Path) -> None:
    build_typical_hour().write(tmp_path / "tables")
    done = typed(tmp_path, "--json")
    assert done.exit_code == 0
    result = minutes(done)
    begin, end = "2026-11-21T12:00:00Z", "2026-11-21T12:10:00Z"
    assert (result["from"], result["to"], result["minutes"]) == (begin, end, 11)
    (billing,) = result["groups"]
    assert billing["figures"]["reread"] == {
        "known": 11,
        "of": 11,
        "median": 2699,
        "p95": 2699,
        "max": 2699,
    }
    assert billing["worst"]["reread"] == [
        {"at": begin, "value": 2699},
        {"at": end, "value": 2699},
    ]
    assert result["flow"]["figures"]["missing"]["max"] == 0
    assert "reread" not in result["flow"]["figures"]


def test_a_table_says_which_group_what_and_when(tmp_path: Path) -> None:
    build_typical_hour().write(tmp_path / "tables")
    done = typed(tmp_path)
    assert "west->east of lab, 2026-11-21 12:00:00Z to 2026-11-21 12:10:00Z" in done.stdout
    assert re.search(r"billing +records read again +11 of 11 +2 699 +2 699 +2 699", done.stdout)
    assert re.search(r"\(the flow\) +records not on the target +11 of 11 +0", done.stdout)


def test_what_is_not_known_is_said_and_ends_with_1_if_it_is_all(tmp_path: Path) -> None:
    past = Past()
    past.sync(-300, 0)
    past.add_samples(0, 100)
    past.write(tmp_path / "tables")
    done = typed(tmp_path, "--group", "billing", "--group", "nobody")
    assert done.exit_code == 1
    assert "nobody: no position of it was sampled" in done.stderr
    assert "billing: not known: it had neither" in done.stderr


def test_every_minute_of_every_partition_is_stored(tmp_path: Path) -> None:
    past = build_typical_hour()
    past.add_samples(300, 2700, partition=1, here=None, there=None)
    past.write(tmp_path / "tables")
    file = tmp_path / "minutes.parquet"
    typed(tmp_path, "--parquet", str(file))
    table = pq.read_table(file)
    assert table.schema.equals(SCHEMA)
    rows = table.to_pylist()
    assert [(row["group_id"], row["partition"]) for row in rows[::11]] == [
        (None, 0),
        ("billing", 0),
        ("billing", 1),
    ]
    alone, first, other = rows[0], rows[11], rows[22]
    assert (alone["position"], alone["log_end"], alone["missing"]) == (None, 3000, 0)
    assert (first["position"], first["start_offset"], first["best"]) == (2700, 1, 2700)
    assert (first["reread"], first["skip"], first["unknown"]) == (2699, 0, None)
    assert (first["replicated"], first["missing_age_s_max"]) == (2999, 0.0)
    assert first["minute"].timestamp() == first["sampled_at"].timestamp() == NOON
    assert (other["position"], other["unknown"]) == (None, None)  # it had not begun
    assert rows[27]["unknown"] == "no_log_ends"
    assert rows[32]["position"] == 2700  # five minutes later it still counts


def test_files_are_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    build_typical_hour().write(tmp_path / "tables")
    html, parquet = tmp_path / "r.html", tmp_path / "r.parquet"
    requests = ("--html", str(html), "--parquet", str(parquet))
    html.write_text("old")
    parquet.write_text("old")
    failed = typed(tmp_path, *requests, until=-1)
    assert isinstance(failed.exception, ConfigError)
    failed = typed(tmp_path, *requests, "--connect", "other")
    assert isinstance(failed.exception, HistoryError)
    assert html.read_text() == parquet.read_text() == "old"
    assert typed(tmp_path, *requests).exit_code == 0
    parsed(html.read_text())
    assert pq.read_table(parquet).num_rows == 22
    assert {path.name for path in tmp_path.iterdir()} == {
        *("tables", "offsetwatch.yaml", "r.html", "r.parquet")
    }


def test_a_file_that_cannot_be_written_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"nowhere/r.html cannot be written: No such file"):
        write_page(tmp_path / "nowhere" / "r.html", "x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(HistoryError, match="folder cannot be written"):
        write_page(tmp_path / "folder", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
