"""Ports for a lab: the fixed ones, or free ones that no other lab here is about to take."""

import fcntl
import random
import socket
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Literal

from lab.cluster.options import Ports
from lab.errors import LabError

LOOPBACK = "127.0.0.1"
# Below 32768 begins no kernel's default ephemeral range; below 10000 live other people's services.
FREE_PORT_MIN = 10000
FREE_PORT_MAX = 32767
ATTEMPTS_MAX = 500


class PortLease:
    """
    Numbers that are this lab's until release().

    A free port is only known to be free at the moment of looking, and a broker binds it seconds
    later. So each number is also held by a file lock that every lab takes first; the kernel drops
    it with the process.
    """

    def __init__(self, expected: Literal["fixed", "free"] | Ports, *, locks: Path) -> None:
        self._held = ExitStack()
        self._locks = locks
        if expected == "free":
            self.ports = Ports(*(self._free() for _ in fields(Ports)))
        else:
            self.ports = Ports() if expected == "fixed" else expected
            self._take_all()

    def release(self) -> None:
        """Give the numbers back; call it when nothing of the lab can still bind them."""
        self._held.close()

    def _free(self) -> int:
        for _ in range(ATTEMPTS_MAX):
            port = random.randint(FREE_PORT_MIN, FREE_PORT_MAX)
            if self._take(port):
                return port
        self.release()
        raise LabError(f"no free port between {FREE_PORT_MIN} and {FREE_PORT_MAX}")

    def _take_all(self) -> None:
        for field in fields(self.ports):
            port = getattr(self.ports, field.name)
            if not self._take(port):
                self.release()
                raise LabError(f"port {port} ({field.name}) is taken; is another lab up?")

    def _take(self, port: int) -> bool:
        self._locks.mkdir(parents=True, exist_ok=True)
        with ExitStack() as attempt:
            handle = attempt.enter_context((self._locks / f"{port}.lock").open("w"))
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            if not _bindable(port):
                return False
            self._held.push(attempt.pop_all())
            return True


def _bindable(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Java's servers do: connections of an earlier lab in TIME_WAIT are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """A port that could be bound just now, for a server that is started at once."""
    for _ in range(ATTEMPTS_MAX):
        port = random.randint(FREE_PORT_MIN, FREE_PORT_MAX)
        if _bindable(port):
            return port
    raise LabError(f"no free port between {FREE_PORT_MIN} and {FREE_PORT_MAX}")
