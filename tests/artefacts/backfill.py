"""A Prometheus with a past: the text of one scrape, repeated over ten minutes, or of many scrapes.

The past is where the samples want it to be: no clock is read, and every age is the same each time.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from lab.http import NO_AUTHORITIES
from tests.waiting import until
from tools.promtool import binaries

from .promql import SCRAPE

SCRAPES = 40
INTERVAL_S = 15
START_S_MAX = 180.0
RETENTION = "100y"  # samples may be of any day

Series = tuple[dict[str, str], float]


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running server, and the time of its newest sample. What it holds does not change, so each
    question is put to it once.
    """

    url: str
    at: int
    client: httpx.Client
    answers: dict[str, list[Series]] = field(default_factory=dict)

    def query(self, expr: str) -> list[Series]:
        """The answer of an instant query."""
        if expr not in self.answers:
            params = {"query": expr, "time": str(self.at)}
            answer = self.client.get(f"{self.url}/api/v1/query", params=params).json()
            assert answer["status"] == "success", answer
            self.answers[expr] = [
                (item["metric"], float(item["value"][1])) for item in answer["data"]["result"]
            ]
        return self.answers[expr]


@contextmanager
def serving(folder: Path, openmetrics: str, offset: int) -> Iterator[Prometheus]:
    """Serve these samples, each with its time; the newest is of `at`."""
    result = binaries()
    scrapes = folder / "scrapes.om"
    scrapes.write_text(openmetrics, encoding="utf-8")
    data = folder / "data"
    create = ["tsdb", "create-blocks-from", "openmetrics", str(scrapes), str(data)]
    subprocess.run([result.promtool, *create], check=True, capture_output=True, timeout=START_S_MAX)
    (folder / "prometheus.yaml").write_text("{}\n", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        str(result.prometheus),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={data}",
        f"--storage.tsdb.retention.time={RETENTION}",
        f"--web.listen-address={address}",
    ]
    with (
        httpx.Client(trust_env=False, timeout=START_S_MAX, verify=NO_AUTHORITIES) as client,
        (folder / "log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log, cwd=folder) as process,
    ):
        try:
            _wait(process, client, f"http://{address}/-/ready", folder / "log")
            yield Prometheus(url=f"http://{address}", at=offset, client=client)
        finally:
            process.terminate()
            process.wait(START_S_MAX)


def repeated(text: str, targets: Sequence[Mapping[str, str]], offset: int) -> str:
    """Every sample once per target and time, in the order that OpenMetrics demands, and beside them
    what Prometheus itself says of a target.
    """
    times = [offset - INTERVAL_S * back for back in reversed(range(SCRAPES))]
    own = "".join(f"# TYPE {name} gauge\n{name} 1\n" for name in SCRAPE)
    text = text.replace("# EOF", f"{own}# EOF")
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("#"):
            lines.append(line)
            continue
        name, value = line.rsplit(" ", 1)
        name, _, labels = name.rstrip("}").partition("{")
        for target in targets:
            every = [f'{label}="{text}"' for label, text in target.items()] + [labels]
            series = f"{name}{{{','.join(filter(None, every))}}}"
            lines += [f"{series} {value} {item}" for item in times]
    return "\n".join(lines) + "\n"


def _wait(process: subprocess.Popen[bytes], client: httpx.Client, url: str, log: Path) -> None:
    def said() -> str:
        return log.read_text()[-4000:]

    def ready() -> bool:
        assert process.poll() is None, f"prometheus has ended:\n{said()}"
        try:
            return client.get(url).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    until(ready, "prometheus becomes ready", timeout_s=START_S_MAX, evidence=said)
