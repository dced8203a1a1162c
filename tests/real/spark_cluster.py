"""A Spark of its own on this machine: a standalone master and workers, as whoever runs one has."""

from __future__ import annotations

import json
import os
import re
import site
import subprocess
import venv
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import pyspark

from lab.http import NO_AUTHORITIES
from lab.processes.child import Child
from lab.processes.ports import LOOPBACK, free_port
from lab.waiting import NotYet, until

HOME = Path(pyspark.__file__).parent
UP_S_MAX = 180.0
SUBMIT_S_MAX = 480.0
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# On loopback, and with nothing of ours: what workers know of this repository, they were sent.
_ENVIRONMENT = {
    "SPARK_HOME": str(HOME),
    "SPARK_LOCAL_IP": LOOPBACK,
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": _QUICK,
    "PYTHONPATH": "",
}


class SparkCluster:
    """One master, and workers of one core each."""

    def __init__(self, directory: Path, *, workers: int) -> None:
        self._directory = directory
        self._worker_count = workers
        self.port = free_port()
        self._page = f"http://{LOOPBACK}:{free_port()}/json/"
        self._running = ExitStack()

    @property
    def master(self) -> str:
        return f"spark://{LOOPBACK}:{self.port}"

    def __enter__(self) -> Self:
        web = self._page.split(":")[2].split("/")[0]
        try:
            self._start("master", "master.Master", "--port", str(self.port), "--webui-port", web)
            self._until_alive(0)
            for number in range(self._worker_count):
                self._start_worker(f"worker-{number}")
            self._until_alive(self._worker_count)
        except BaseException:
            self._running.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._running.close()

    def _start_worker(self, name: str) -> None:
        self._start(
            name,
            "worker.Worker",
            *("--cores", "1", "--memory", "1g", "--webui-port", str(free_port())),
            *("--work-dir", str(self._directory / f"{name}-work"), self.master),
        )

    def _start(self, name: str, what: str, *arguments: str) -> None:
        settings = [f"{key}={value}" for key, value in _ENVIRONMENT.items()]
        java = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}"]
        command = ["env", *settings, *java, "--host", LOOPBACK, *arguments]
        child = Child(name, command, directory=self._directory)
        child.start()
        self._running.callback(child.terminate)

    def _until_alive(self, workers: int) -> None:
        def alive() -> None:
            try:
                answer = httpx.get(self._page, trust_env=False, verify=NO_AUTHORITIES)
            except httpx.TransportError as exc:
                raise NotYet(str(exc)) from exc
            if answer.json()["aliveworkers"] != workers:
                raise NotYet(answer.text)

        until(f"{workers} Spark workers", alive, timeout_s=UP_S_MAX)

    def submit(self, *arguments: str, python: Path, driver_python: str) -> Submitted:
        """Run an application to its end, in client mode."""
        events = self._directory / "events"
        events.mkdir(exist_ok=True)
        settings = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.dir": events.as_uri(),
            "spark.executor.memory": "500m",
            "spark.executor.extraJavaOptions": _QUICK,
            "spark.driver.memory": "700m",
            "spark.driver.extraJavaOptions": _QUICK,
            "spark.sql.shuffle.partitions": "2",
            "spark.pyspark.python": str(python),
            "spark.pyspark.driver.python": driver_python,
            # Both executors from the first task on.
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            # As on a cluster with an HDFS; this one cannot even be asked.
            "spark.hadoop.fs.defaultFS": "hdfs://nowhere.invalid:8020",
        }
        inputs = [part for pair in settings.items() for part in ("--conf", "=".join(pair))]
        done = subprocess.run(
            [str(HOME / "bin" / "spark-submit"), "--master", self.master, *inputs, *arguments],
            cwd=self._directory,
            env={**os.environ, **_ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SUBMIT_S_MAX,
            check=False,
        )
        logs = [event for file in sorted(events.iterdir()) for event in _events(file)]
        return Submitted(done.returncode, done.stdout, done.stderr, tuple(logs))

    def texts(self) -> list[str]:
        """All that master, workers and executors have written."""
        files = [file for file in self._directory.rglob("*") if file.is_file()]
        return [file.read_text(errors="replace") for file in files if file.suffix != ".jar"]


@dataclass(frozen=True)
class Submitted:
    status: int
    stdout: str
    stderr: str
    events: tuple[dict[str, Any], ...]

    def executors(self) -> dict[str, int]:
        """Tasks that ended well, by executor."""
        results: dict[str, int] = {}
        for event in self.events:
            if event["Event"] == "SparkListenerTaskEnd":
                assert event["Task End Reason"] == {"Reason": "Success"}
                executor = event["Task Info"]["Executor ID"]
                results[executor] = results.get(executor, 0) + 1
        return results


def _events(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def bare_python(folder: Path, requirements: Path) -> Path:
    """An interpreter that has these distributions and what they need, and nothing else."""
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    expected = [line.split("==")[0] for line in requirements.read_text().split()]
    here = Path(site.getsitepackages()[0])
    for name in sorted(_with_dependencies(expected)):
        for top in {file.parts[0] for file in metadata.files(name) or ()}:
            if top != ".." and not (packages / top).exists():
                (packages / top).symlink_to(here / top)
    return folder / "bin" / "python"


def _with_dependencies(names: list[str]) -> set[str]:
    result: set[str] = set()
    while names:
        name = names.pop()
        if name not in result:
            result.add(name)
            needs = metadata.requires(name) or []
            names += [re.split(r"[^\w.-]", need)[0] for need in needs if "extra ==" not in need]
    return result
