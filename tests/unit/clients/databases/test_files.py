"""Sizes and lines of files: up to the last complete line, whatever there is under a name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from offsetwatch.clients.databases import files
from offsetwatch.clients.databases.files import LAST_LINE_BYTES_MAX, FileReader
from offsetwatch.config.schema.sources import Source
from offsetwatch.errors import RemoteRefusal, SizeLimitExceeded
from offsetwatch.model.source_ends import FileState, SourceEndRequest


def read(name: str, **settings: Any) -> FileState:
    fields = {"name": "files", "kind": "file", "connectors": [{"connect": "lab"}], **settings}
    reader = FileReader(Source.model_validate(fields))
    state = reader.read(SourceEndRequest("files", files=(name,))).files[name]
    reader.close()
    return state


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (b"", 0),
        (b"one", 0),
        (b"one\n", 4),
        (b"one\ntwo", 4),
        (b"one\r\ntwo\r\n", 10),
        (b"x" * LAST_LINE_BYTES_MAX, 0),
        (b"one\n" + b"x" * (LAST_LINE_BYTES_MAX - 1), 4),
    ],
)
def test_the_end_is_after_the_last_complete_line(tmp_path: Path, text: bytes, size: int) -> None:
    file = tmp_path / "lines"
    file.write_bytes(text)
    assert read(str(file)) == FileState(size)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            b"one\n" + b"x" * LAST_LINE_BYTES_MAX,
            "its last line is not complete, and longer than 64 KiB",
        ),
        (
            "größer\n".encode(),
            "its file has characters that are not ASCII, which FileStream counts otherwise",
        ),
    ],
)
def test_an_end_that_cannot_be_compared(tmp_path: Path, text: bytes, error: str) -> None:
    file = tmp_path / "lines"
    file.write_bytes(text)
    assert read(str(file)) == FileState(None, error)


def test_a_folder_has_the_file_by_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"one\n")
    assert read("/on/the/worker/lines", folder=str(tmp_path)) == FileState(4)
    assert read("lines", folder=str(tmp_path)) == FileState(4)


def test_one_file_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "lines").write_bytes(b"one\n")
    settings = {"name": "files", "kind": "file", "connectors": [{"connect": "lab"}]}
    reader = FileReader(Source.model_validate({**settings, "folder": str(tmp_path)}))
    names = ("gone", "pipe", "..", "nul\0", "lines")
    states = reader.read(SourceEndRequest("files", files=names)).files
    assert states["gone"].error == "its file cannot be read: No such file or directory"
    assert states["pipe"].error == "it is not a file"
    assert states[".."].error == "it is not a file"
    assert states["nul\0"].error == "its file cannot be read: ValueError"
    assert states["lines"] == FileState(4)


def test_a_relative_path_needs_a_folder() -> None:
    state = read("lines")
    assert state == FileState(None, "its path is relative to a worker's folder: set folder")


def read_lines(file: Path, start: int, count: int = 9) -> list[tuple[int, bytes]]:
    settings = {"name": "files", "kind": "file", "connectors": [{"connect": "lab"}]}
    found = FileReader(Source.model_validate(settings)).read_records(str(file), start, count)
    assert found.end == read(str(file)).size
    return [(record.offset, record.content) for record in found.records]


@pytest.mark.parametrize(
    ("text", "start", "lines"),
    [
        (b"one\ntwo\nthr", 0, [(3, b"one\n"), (7, b"two\n")]),
        (b"one\ntwo\n", 4, [(7, b"two\n")]),
        (b"one\ntwo\n", 6, [(7, b"two\n")]),
        (b"one\ntwo\n", 8, []),
        (b"\n\n", 1, [(1, b"\n")]),
        (b"a\r\nb\rc\n", 0, [(2, b"a\r\n"), (4, b"b\r"), (6, b"c\n")]),
        (b"a\r\nb\n", 2, [(2, b"a\r\n"), (4, b"b\n")]),
        (b"a\rb\n", 2, [(3, b"b\n")]),
        (b"", 0, []),
    ],
)
def test_lines_are_read_as_a_task_reads_them(
    tmp_path: Path, text: bytes, start: int, lines: list[tuple[int, bytes]]
) -> None:
    file = tmp_path / "lines"
    file.write_bytes(text)
    assert read_lines(file, start) == lines
    assert read_lines(file, start, 1) == lines[:1]


@pytest.mark.parametrize(
    ("text", "start", "error"),
    [
        ("größer\none\n" + "x" * LAST_LINE_BYTES_MAX + "\n", 10, "not ASCII"),
        ("one\ngrößer\n" + "x" * LAST_LINE_BYTES_MAX + "\n", 4, "not ASCII"),
        ("one\n", 5, "its file ends at 4, before 5"),
    ],
)
def test_a_position_that_is_none_of_a_line_is_refused(
    tmp_path: Path, text: str, start: int, error: str
) -> None:
    file = tmp_path / "lines"
    file.write_bytes(text.encode())
    with pytest.raises(RemoteRefusal, match=error):
        read_lines(file, start)


def test_a_line_that_is_too_long_to_copy_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"one\nlonger\n")
    monkeypatch.setattr(files, "LINE_BYTES_MAX", 4)
    assert read_lines(file, 0, 1) == [(3, b"one\n")]
    with pytest.raises(SizeLimitExceeded, match="the line at 4 is too long"):
        read_lines(file, 4)
