"""The means by which faults are done, each on its own: a clock, a disk, a relay."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lab.faults.small_disk import small_disk
from lab.faults.tcp_relay import Relay, relay
from lab.faults.wall_clock import WallClock
from lab.processes.ports import LOOPBACK, free_port
from lab.waiting import NotYet, until

DEADLINE_S = 60.0
HOUR_S = 3600.0

# Both by Python and by a wait of librdkafka's, whose deadline is a moment of the wall clock.
TELLS = """
import sys, time
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "clock", "log_level": 0})
for _ in sys.stdin:
    began = time.monotonic()
    consumer.poll(0.2)
    print(time.time(), time.monotonic() - began, flush=True)
"""


def test_a_clock_is_set_for_one_process_and_what_waits_for_a_while_waits_no_longer(tmp_path: Path):
    clock = WallClock(tmp_path)
    command = (*clock.before, sys.executable, "-c", TELLS)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for ahead_s in (0.0, HOUR_S, -400 * 24 * HOUR_S, 0.0):
            clock.set(ahead_s)
            before = time.time()
            process.stdin.write("\n")
            process.stdin.flush()
            answer, waited_s = map(float, process.stdout.readline().split())
            assert before <= answer - ahead_s <= time.time()
            assert 0.1 < waited_s < DEADLINE_S
        process.stdin.close()


def test_a_full_disk_takes_not_a_byte_and_then_again(tmp_path: Path):
    fills = "import sys; open(sys.argv[1], 'w').write('x' * 9000)"
    with small_disk(tmp_path / "disk") as disk:
        # Of another process: this one may be forbidden to write, and could not report then.
        with subprocess.Popen(("sleep", "300")) as other:
            disk.fill(other.pid)
            if disk.mounted:
                with pytest.raises(OSError, match="No space left"):
                    (disk.folder / "file").write_text("x" * 9000)
            disk.free(other.pid)
            other.kill()
        subprocess.run((sys.executable, "-c", fills, str(disk.folder / "file")), check=True)
    assert not os.path.ismount(tmp_path / "disk")


def test_without_a_mountable_disk_writes_fail_with_efbig_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    refuses = tmp_path / "bin" / "mount"
    refuses.parent.mkdir()
    refuses.write_text("#!/bin/sh\nexit 1\n")
    refuses.chmod(0o755)
    monkeypatch.setenv("PATH", str(refuses.parent))
    with small_disk(tmp_path / "disk") as disk:
        assert not disk.mounted
        script = (
            "import errno, sys\n"
            "for line in sys.stdin:\n"
            "    try:\n"
            "        with open(sys.argv[1], 'w') as file: file.write('x' * 9000)\n"
            "        print('written', flush=True)\n"
            "    except OSError as exc: print(errno.errorcode[exc.errno], flush=True)\n"
        )
        with subprocess.Popen(
            (sys.executable, "-c", script, str(disk.folder / "file")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            request, answers = process.stdin, process.stdout
            assert request is not None
            assert answers is not None

            def tried() -> str:
                request.write("\n")
                request.flush()
                return answers.readline().strip()

            heard = [tried()]
            disk.fill(process.pid)
            heard.append(tried())
            disk.free(process.pid)
            heard.append(tried())
            request.close()
    assert heard == ["written", "EFBIG", "written"]


class Echo:
    """A server that sends back what it gets, in capitals."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self._server = socket.create_server((LOOPBACK, 0))
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                taken, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(taken,), daemon=True).start()

    def _serve(self, taken: socket.socket) -> None:
        with taken:
            while piece := taken.recv(1024):
                self.heard.append(piece)
                taken.sendall(piece.upper())

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    with closing(Echo()) as built:
        yield built


@pytest.fixture
def between(echo: Echo) -> Iterator[Relay]:
    with relay(free_port(), echo.port) as built:
        yield built


@pytest.fixture
def client(between: Relay) -> Iterator[socket.socket]:
    with socket.create_connection((LOOPBACK, between.port), timeout=DEADLINE_S) as connection:
        connection.sendall(b"a")
        assert connection.recv(1) == b"A"
        yield connection


def test_a_relay_that_is_held_lets_nothing_through_until_it_is_released(
    echo: Echo, between: Relay, client: socket.socket
):
    between.hold()
    # Both are done by the relay's thread, in the order they were asked for.
    with socket.create_connection((LOOPBACK, between.port), timeout=DEADLINE_S) as other:
        client.sendall(b"b")
        other.sendall(b"c")
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(1)
        assert echo.heard == [b"a"]
        client.settimeout(DEADLINE_S)
        between.release()
        assert client.recv(1) == b"B"
        assert other.recv(1) == b"C"


def test_a_relay_that_holds_answers_lets_questions_through(
    echo: Echo, between: Relay, client: socket.socket
):
    between.hold_answers()
    client.sendall(b"b")

    def heard() -> None:
        if echo.heard != [b"a", b"b"]:
            raise NotYet(str(echo.heard))

    until("the question", heard, timeout_s=DEADLINE_S)
    client.settimeout(0.1)
    with pytest.raises(TimeoutError):
        client.recv(1)
    client.settimeout(DEADLINE_S)
    between.release()
    assert client.recv(1) == b"B"


def test_what_passes_late_arrives_in_order(
    between: Relay, client: socket.socket, monkeypatch: pytest.MonkeyPatch
):
    loop, late = between._loop, []
    assert loop is not None
    later = loop.call_later

    def at_once(delay_s: float, *what: Any) -> asyncio.TimerHandle:
        late.append(delay_s)
        return later(0, *what)

    monkeypatch.setattr(loop, "call_later", at_once)
    between.late_s = HOUR_S
    for piece in (b"b", b"c", b"d"):
        client.sendall(piece)
    heard = b""
    while len(heard) < 3:
        heard += client.recv(10)
    assert heard == b"BCD"
    between.late_s = 0.0  # its end is not to be late
    assert len(late) >= 2  # on both ways
    assert set(late) == {HOUR_S}


def test_a_relay_that_is_cut_breaks_what_there_is_and_what_comes(
    between: Relay, client: socket.socket
):
    between.cut()
    assert _broken(client)
    with socket.create_connection((LOOPBACK, between.port), timeout=DEADLINE_S) as other:
        assert _broken(other)
    between.release()
    with socket.create_connection((LOOPBACK, between.port), timeout=DEADLINE_S) as third:
        third.sendall(b"d")
        assert third.recv(1) == b"D"


def _broken(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
