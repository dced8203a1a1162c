"""bench/results.md: a part for each figure, written anew one at a time."""

from __future__ import annotations

from bench.__main__ import FIGURES, part, parts, written


def test_what_is_written_can_be_read_again_and_one_part_be_measured_again():
    before = {name: part(["a machine", "commit 1"], f"{name}  1 ms\n") for name in FIGURES}
    assert parts(written(before)) == before
    after = {**parts(written(before)), "visible": part(["a machine", "commit 2"], "visible 2 ms")}
    assert parts(written(after)) == after
    assert after["render"] == "- a machine\n- commit 1\n\n```text\nrender  1 ms\n```"


def test_there_may_be_nothing_yet():
    assert parts("") == {}
    assert written({}).startswith("# Figures")
