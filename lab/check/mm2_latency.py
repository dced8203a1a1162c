"""
What MirrorMaker says of its own replication latency over JMX, from outside the worker.

The JVM is asked by a Java program of one file (MirrorLatency.java), as nothing else speaks JMX; it
attaches by pid, so a worker needs no setting and opens no port before.
"""

import math
import selectors
import subprocess
from pathlib import Path
from typing import Self

from lab.errors import LabError
from lab.processes.java import tool

PROGRAM = Path(__file__).with_name("MirrorLatency.java")
ANSWER_S_MAX = 30.0  # the first one waits until the program is compiled


class MirrorLatency:
    """
    Latencies of the worker with this pid; a context manager.

    The program ends with its input, so it does not outlive this process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [tool("java"), "-XX:TieredStopAtLevel=1", str(PROGRAM), str(self._pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        try:
            self._answer()
        except LabError:
            self._end()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self._end()

    def read(self) -> dict[tuple[str, int], float]:
        """
        (topic as it is called on the target, partition) -> seconds, as `replication-latency-ms`
        says now. A partition of which nothing was replicated yet, or whose task has ended, is
        absent.
        """
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        results = {}
        for word in self._answer().split():
            name, _, value = word.partition("=")
            topic, _, partition = name.rpartition("-")
            if not math.isnan(float(value)):
                results[topic, int(partition)] = float(value) / 1000
        return results

    def _answer(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(ANSWER_S_MAX):
                raise LabError(f"JMX of {self._pid}: no answer in {ANSWER_S_MAX:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            raise LabError(f"JMX of {self._pid}: the program ended")
        return line.strip()

    def _end(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(ANSWER_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
