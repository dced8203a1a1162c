"""The table at the end of a run, and which tests the inner loop takes for those of a change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import check, timing


def part(folder: Path, name: str, **changes: object) -> None:
    document = {"part": name, "tests": 3, "seconds": 61.4, "labs": 1, "slowest": {"a::b": 9.5}}
    (folder / f"{name}.json").write_text(json.dumps({**document, **changes}))


def test_a_table_is_read_back_as_it_was_written(tmp_path: Path):
    part(tmp_path, "test-lab")
    part(tmp_path, "test-python", tests=9000, labs=0)
    parts, slowest = timing.read(tmp_path)

    result = timing.committed(timing.table(parts, slowest, {}))

    assert result == {
        "test-lab": timing.Part("test-lab", 3, 61.0, 1),
        "test-python": timing.Part("test-python", 9000, 61.0, 0),
    }


def test_a_part_stands_beside_what_it_took_when_the_table_was_committed(tmp_path: Path):
    part(tmp_path, "test-lab", seconds=90)
    before = {"test-lab": timing.Part("test-lab", 2, 45.0, 1)}

    result = timing.table(*timing.read(tmp_path), before)

    assert "| test-lab | 3 | 90 | 1 | 2 | 45 |" in result


def test_only_the_slowest_tests_of_all_parts_are_listed(tmp_path: Path):
    part(tmp_path, "one", slowest={f"one::{number}": number for number in range(20)})
    part(tmp_path, "two", slowest={f"two::{number}": number + 0.5 for number in range(20)})

    _, slowest = timing.read(tmp_path)

    assert len(slowest) == timing.SLOWEST
    assert list(slowest)[:2] == ["two::19", "one::19"]


@pytest.mark.parametrize(
    ("changed", "imported"),
    [
        (
            "exporter/offsetwatch/decode/mirror_maker.py",
            "from offsetwatch.decode.mirror_maker import sync",
        ),
        (
            "exporter/offsetwatch/decode/mirror_maker.py",
            "from offsetwatch.decode import dialects, mirror_maker",
        ),
        (
            "exporter/offsetwatch/decode/mirror_maker.py",
            "from offsetwatch.decode import (\n    dialects,\n    mirror_maker,\n)",
        ),
        (
            "exporter/offsetwatch/decode/mirror_maker.py",
            'setattr("offsetwatch.decode.mirror_maker.sync", None)',
        ),
        (
            "exporter/offsetwatch/remedy/guards/__init__.py",
            "from offsetwatch.remedy.guards import evaluate",
        ),
        ("lab/waiting.py", "from lab.waiting import until"),
    ],
)
def test_a_test_that_imports_what_changed_is_one_of_the_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str, imported: str
):
    monkeypatch.setattr(check, "ROOT", tmp_path)
    test = tmp_path / "test_it.py"
    test.write_text(f"{imported}\n")

    assert list(check.tests_of([changed], [test])) == [test]
    assert list(check.tests_of(["exporter/offsetwatch/decode/other.py", "README.md"], [test])) == []


def test_a_test_that_changed_is_one_of_the_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(check, "ROOT", tmp_path)
    test = tmp_path / "test_it.py"
    test.write_text("")

    assert list(check.tests_of(["test_it.py"], [test])) == [test]
