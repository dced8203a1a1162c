"""
Child processes of a lab: each with a log of its own, ended by its own pid, none outliving us.

Must not know what the processes are.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab.errors import LabError
from lab.waiting import NotYet, until

RUN_WITH_PARENT = Path(__file__).with_name("run_with_parent.py")
# Connect lets its tasks finish for 5 s, a broker hands over its partitions; twice that is plenty.
TERMINATE_S_MAX = 20.0
KILL_S_MAX = 10.0
TAIL_LINES = 25
TAIL_BYTES_MAX = 64 * 1024

# The kernel sends the parent-death signal when the *thread* that forked ends, not the process. One
# thread that lives as long as the interpreter does all the forking, so that a lab may be started
# from a short-lived thread. When the interpreter exits, this thread ends and the children with it.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lab-spawner")


class Child:
    """One process that can be started, ended and started again; its log is appended to."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        directory: Path,
        end_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        self._directory = directory
        self._command = tuple(command)
        self._end_signal = end_signal
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The pid while the process runs, else None."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def status(self) -> int | None:
        """How it ended, as Popen tells it; None while it runs and before it was started."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start it; says nothing about whether it will serve."""
        if self.running:
            raise LabError(f"{self.name} is running already, as pid {self.pid}")
        self._process = _SPAWNER.submit(self._spawn).result()

    def expect_success(self, *, timeout_s: float) -> None:
        """Wait for a started process that ends by itself, and well."""
        assert self._process is not None
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired as exc:
            raise LabError(f"{self.name} did not end in {timeout_s:.0f} s\n{self.tail()}") from exc
        if status != 0:
            raise LabError(f"{self.name} failed\n{self.tail()}")

    def kill(self) -> None:
        """SIGKILL, and reaped before this returns; nothing when it does not run."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(KILL_S_MAX)

    def kill_group(self) -> None:
        """SIGKILL to it and to all that it started; nothing when it does not run.

        Returns when none of them is left: what an orphan still wrote, the next one could not know.
        """
        pid = self.pid
        if pid is None:
            return
        os.killpg(pid, signal.SIGKILL)
        self.kill()
        until(f"the end of all that {self.name} started", lambda: gone(pid), timeout_s=KILL_S_MAX)

    def request_end(self) -> None:
        """Send the signal that ends it in order, as a rule SIGTERM; does not wait."""
        self.signal(self._end_signal)

    def terminate(self) -> None:
        """Request its end, and kill one that does not listen; nothing when it does not run."""
        self.request_end()
        try:
            if self._process is not None:
                self._process.wait(TERMINATE_S_MAX)
        except subprocess.TimeoutExpired:
            self.kill()

    def freeze(self) -> None:
        """SIGSTOP; none of its threads runs any more when this returns. SIGCONT wakes it."""
        pid = self.pid
        if pid is None:
            raise LabError(f"{self.name} does not run")
        self.signal(signal.SIGSTOP)
        until(f"{self.name} standing still", lambda: _still(pid), timeout_s=KILL_S_MAX)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, by pid, unless the process has ended."""
        if self._process is not None:
            # Popen looks first whether the process was reaped, so the pid is still its own.
            self._process.send_signal(number)

    def tail(self) -> str:
        """The end of the log, with a heading, for error messages."""
        try:
            with self.log.open("rb") as handle:
                handle.seek(0, os.SEEK_END)
                handle.seek(max(0, handle.tell() - TAIL_BYTES_MAX))
                lines = handle.read().decode(errors="replace").splitlines()[-TAIL_LINES:]
        except FileNotFoundError:
            lines = ["(no log)"]
        state = "running" if self.running else f"ended with {self.status}"
        return "\n".join([f"--- {self.name} ({state}), end of {self.log}:", *lines])

    def _spawn(self) -> subprocess.Popen[bytes]:
        self._directory.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*_build_parent_watch(), *self._command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._directory,
                # A group of its own: Ctrl-C in the terminal is for us, and stop() has an order.
                process_group=0,
            )


def finished(
    command: Sequence[str],
    *,
    called: str,
    directory: Path,
    timeout_s: float,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run to its end; `called` is its name in the LabError of one that takes longer.

    To be called from the main thread, so that the parent-death signal means what it says.
    """
    inputs = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    try:
        return subprocess.run(
            (*_build_parent_watch(), *command),
            cwd=directory,
            env=env,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            text=True,
            **inputs,
        )
    except subprocess.TimeoutExpired as exc:
        raise LabError(f"{called}: not within {timeout_s:.0f} s") from exc


def _build_parent_watch() -> tuple[str, ...]:
    """What ends a process with us, before its command."""
    return (sys.executable, "-I", "-S", str(RUN_WITH_PARENT), str(os.getpid()))


def _still(pid: int) -> None:
    """NotYet while a thread of this child runs."""
    if os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is None:
        raise NotYet("it runs")


def gone(group: int) -> None:
    """NotYet while a process of this group lives. One that only waits for its parent is dead."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # Behind the name, which may hold anything: state, parent, group.
            state, _parent, its_group, *_ = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(its_group) == group and state not in "ZX":
            raise NotYet(f"process {stat.parent.name}")
