"""offsetwatch itself beside a lab: its configuration, its daemon and its pipeline as processes."""

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from lab.cluster.lab import Lab
from lab.errors import LabError
from lab.http import NO_AUTHORITIES
from lab.moments import seconds
from lab.processes.child import Child, finished
from lab.processes.ports import LOOPBACK
from lab.product.program import EXPORTER
from lab.waiting import NotYet, until

READY_S_MAX = 120.0
PIPELINE_S_MAX = 600.0

# The smallest useful configuration, as the documentation gives it; all else is discovered.
CONFIG = """\
kafka:
  east: {{bootstrap: "{east}"}}
  west: {{bootstrap: "{west}"}}
connect:
{connects}
"""


class Product:
    """
    The daemon and the pipeline for one lab. `stop()` ends whatever runs.

    `directory` holds the configuration, logs and tables. `extra` is YAML added to the
    configuration, `connect_extra` to its Connect cluster; `connect_url` is what stands before its
    worker; `connects`, a YAML mapping each, are watched instead of that one. `config` is clusters
    and Connect in place of all these. Not for use from several threads at once.
    """

    def __init__(
        self,
        lab: Lab,
        *,
        directory: Path,
        port: int,
        extra: str = "",
        connect_extra: str = "",
        connect_url: str | None = None,
        connects: Sequence[str] = (),
        config: str | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.history = directory / "history"
        self.state = directory / "state"
        """What the daemon keeps, unless `extra` has it elsewhere."""
        self.url = f"http://{LOOPBACK}:{port}"
        self.config = directory / "offsetwatch.yaml"
        more = f", {connect_extra}" if connect_extra else ""
        self.connect_url = lab.connect_urls[0] if connect_url is None else connect_url
        baseline = f'{{name: lab, kafka: east, url: "{self.connect_url}"{more}}}'
        if config is None:
            config = CONFIG.format(
                east=lab.east,
                west=lab.west,
                connects="\n".join(f"  - {one}" for one in connects or (baseline,)),
            )
        self.config.write_text(f'{config}listen: "{LOOPBACK}:{port}"\n{extra}')
        self._command: tuple[str, ...] = EXPORTER
        self._daemon = self._child("daemon", "run")
        self._pipeline = self._child("pipeline", "history", "run", "--continuous")

    def wrap_command(self, *command: str) -> None:
        """Before any start: have a command that becomes the one it is given, as `env` does, stand
        before each of the product's.
        """
        self._command = (*command, *self._command)
        self._daemon = self._child("daemon", "run")
        self._pipeline = self._child("pipeline", "history", "run", "--continuous")

    def start_daemon(self, *, ready: bool = True) -> None:
        """Start the daemon; with `ready`, wait until it says it is."""
        self._daemon.start()
        if ready:
            self.wait_ready()

    def kill_daemon(self) -> None:
        """SIGKILL."""
        self._daemon.kill()

    def freeze_daemon(self) -> None:
        """SIGSTOP: it stands still when this returns. To be woken before it is stopped."""
        self._daemon.freeze()

    def wake_daemon(self) -> None:
        """SIGCONT; nothing where it runs."""
        self._daemon.signal(signal.SIGCONT)

    def start_pipeline(self) -> None:
        """Start `history run --continuous`; says nothing about whether it has read anything."""
        self._pipeline.start()

    def kill_pipeline(self) -> None:
        """SIGKILL, to its JVM as well; returns when nothing of it is left."""
        self._pipeline.kill_group()

    @property
    def daemon_running(self) -> bool:
        """Whether the daemon's process lives."""
        return self._daemon.running

    @property
    def daemon_pid(self) -> int | None:
        """Of the daemon's process, while it lives."""
        return self._daemon.pid

    @property
    def pipeline_running(self) -> bool:
        """Whether the continuous pipeline's process lives."""
        return self._pipeline.running

    def stop(self) -> None:
        """End both."""
        self._pipeline.terminate()
        self._daemon.terminate()

    def evidence(self) -> str:
        """The ends of both logs."""
        return f"{self._daemon.tail()}\n{self._pipeline.tail()}"

    def run_pipeline(self, up_to: Mapping[str, Mapping[str, int]] | None = None) -> dict[str, Any]:
        """`history run --available-now --json`, optionally with gold at a given log end."""
        arguments = ["history", "run", "--available-now", "--json"]
        if up_to is not None:
            cut = self.directory / "log-end.json"
            cut.write_text(json.dumps(up_to))
            arguments += ["--up-to", str(cut)]
        report: dict[str, Any] = json.loads(self.cli(*arguments, timeout_s=PIPELINE_S_MAX))
        return report

    def cli(self, *arguments: str, timeout_s: float = 60.0, status: int = 0) -> str:
        """One verb with this configuration: its standard output. Raises for another exit status."""
        command = (*self._command, *arguments, "--config", str(self.config))
        done = finished(
            command, called=" ".join(arguments), directory=self.directory, timeout_s=timeout_s
        )
        if done.returncode != status:
            raise LabError(
                f"{' '.join(arguments)}: exit status {done.returncode}, not {status}\n"
                f"{_ends(done.stdout)}\n{done.stderr[-4000:]}"
            )
        return done.stdout

    def in_terminal(self, *arguments: str, timeout_s: float | None = None) -> int:
        """One verb in this terminal, which it may ask: its exit status."""
        done = subprocess.run(
            (*self._command, *arguments, "--config", str(self.config)),
            cwd=self.directory,
            # Where it is no terminal, both outputs are to come in the order they were written in.
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            timeout=timeout_s,
            check=False,
        )
        return done.returncode

    def wait_ready(self, timeout_s: float = READY_S_MAX) -> None:
        """Wait for 200 from /-/ready."""

        def ready() -> None:
            try:
                answer = httpx.get(f"{self.url}/-/ready", trust_env=False, verify=NO_AUTHORITIES)
            except httpx.TransportError as exc:
                raise NotYet(str(exc)) from exc
            if answer.status_code != httpx.codes.OK:
                raise NotYet(answer.text)

        until("the daemon ready", ready, timeout_s=timeout_s, evidence=self._daemon.tail)

    def get(self, path: str) -> dict[str, Any]:
        """A JSON document of the daemon."""
        answer = self._answer(path)
        if answer.status_code != httpx.codes.OK:
            raise LabError(f"GET {path}: HTTP {answer.status_code}")
        document: dict[str, Any] = answer.json()
        return document

    def metrics(self, accept: str = "text/plain") -> str:
        """The exposition."""
        answer = self._answer("/metrics", accept=accept)
        answer.raise_for_status()
        return answer.text

    def _answer(self, path: str, accept: str = "*/*") -> httpx.Response:
        """Raises LabError with the end of its log for a daemon that is not there any more."""
        try:
            return httpx.get(
                f"{self.url}{path}",
                headers={"Accept": accept},
                trust_env=False,
                timeout=10.0,
                verify=NO_AUTHORITIES,
            )
        except httpx.TransportError as exc:
            if self.daemon_running:
                raise
            raise LabError(f"GET {path}: {exc}\n{self.evidence()}") from exc

    def _child(self, name: str, *arguments: str) -> Child:
        return Child(
            name,
            (*self._command, *arguments, "--config", str(self.config)),
            directory=self.directory,
        )


def _ends(text: str, retained: int = 2000) -> str:
    """What is wrong stands first, what is last stands last."""
    return text if len(text) <= 2 * retained else f"{text[:retained]}\n...\n{text[-retained:]}"


def not_read_since(document: Mapping[str, Any], since: float) -> list[Mapping[str, Any]]:
    """The inputs of a document of /api/v1/connectors that were not read after this moment."""
    return [
        view
        for view in document["inputs"]
        if view["last_success_at"] is None or seconds(view["last_success_at"]) <= since
    ]
