"""Who has an offsets file, asked of this machine's own processes."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.processes.ports import free_port
from offsetwatch.clients.connect.standalone_offsets_file import (
    find_worker_evidence,
    read_offsets_entries,
)
from offsetwatch.decode.offsets_file import write_offsets_file
from offsetwatch.errors import MalformedResponse, NotFound

ENTRIES = ((b"k", b"v"),)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "connect.offsets"
    path.write_bytes(write_offsets_file(ENTRIES))
    return path


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "worker.properties"
    path.touch()
    return path


def closed() -> str:
    return f"http://127.0.0.1:{free_port()}"


def started(script: str, *arguments: str, cwd: Path) -> Iterator[int]:
    """A process of ours that has done what the script does, and now waits for its input to end."""
    code = f"{script}\nprint('ready', flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=cwd,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.stdin.write(b"\n")
        process.stdin.close()


@pytest.fixture
def reader(file: Path) -> Iterator[int]:
    yield from started("import sys; held = open(sys.argv[1])", str(file), cwd=file.parent)


@pytest.fixture
def worker(properties: Path) -> Iterator[int]:
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    yield from started("", main, properties.name, "file.properties", cwd=properties.parent)


def test_without_a_worker_there_is_no_evidence_of_one(file, properties):
    assert find_worker_evidence(file, properties, (closed(),)) == ()
    assert find_worker_evidence(file.with_name("none"), properties, ()) == ()


def test_a_process_that_has_the_file_open_is_named(file, properties, reader):
    assert find_worker_evidence(file, properties, ()) == (f"process {reader} has the file open",)


def test_a_worker_is_known_by_its_properties_file(file, properties, worker):
    answer = f"process {worker} is a standalone worker with worker.properties"
    assert find_worker_evidence(file, properties, ()) == (answer,)
    other = properties.with_name("other.properties")
    other.touch()
    assert find_worker_evidence(file, other, ()) == ()


def test_whatever_answers_where_the_worker_would_is_taken_for_it(file, properties):
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert find_worker_evidence(file, properties, (closed(), url)) == (
            f"something answers at {url}",
        )


def test_half_a_file_is_never_an_empty_one(file):
    whole = file.read_bytes()
    assert read_offsets_entries(file) == ENTRIES
    for size in (0, 30, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(MalformedResponse, match="truncated"):
            read_offsets_entries(file)


def test_another_file_is_not_one_of_offsets(file):
    file.write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(MalformedResponse, match="not_an_offsets_file"):
        read_offsets_entries(file)
    with pytest.raises(NotFound):
        read_offsets_entries(file.with_name("none"))
