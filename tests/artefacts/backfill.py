"""A Prometheus with a past: the text of one scrape, repeated over the last minutes."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tools.promtool import binaries

SCRAPES = 40
INTERVAL_S = 15
START_S_MAX = 60.0

Series = tuple[dict[str, str], float]


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running server, and the time of its newest sample."""

    url: str
    at: int

    def query(self, expr: str) -> list[Series]:
        """The answer of an instant query."""
        answer = httpx.get(
            f"{self.url}/api/v1/query",
            params={"query": expr, "time": str(self.at)},
            trust_env=False,
        ).json()
        assert answer["status"] == "success", answer
        return [(at["metric"], float(at["value"][1])) for at in answer["data"]["result"]]


@contextmanager
def serving(
    folder: Path, openmetrics: str, targets: Sequence[Mapping[str, str]]
) -> Iterator[Prometheus]:
    """Serve these samples as if each target had shown them for the last minutes."""
    found = binaries()
    at = int(time.time())
    scrapes = folder / "scrapes.om"
    times = [at - INTERVAL_S * back for back in reversed(range(SCRAPES))]
    scrapes.write_text(repeated(openmetrics, targets, times), encoding="utf-8")
    data = folder / "data"
    create = ["tsdb", "create-blocks-from", "openmetrics", str(scrapes), str(data)]
    subprocess.run([found.promtool, *create], check=True, capture_output=True, timeout=START_S_MAX)
    (folder / "prometheus.yaml").write_text("{}\n", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        str(found.prometheus),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={data}",
        f"--web.listen-address={address}",
    ]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log, cwd=folder) as process,
    ):
        try:
            _wait(process, f"http://{address}/-/ready", folder / "log")
            yield Prometheus(url=f"http://{address}", at=at)
        finally:
            process.terminate()
            process.wait(START_S_MAX)


def repeated(text: str, targets: Sequence[Mapping[str, str]], times: Sequence[int]) -> str:
    """Every sample once per target and time, in the order that OpenMetrics demands."""
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
            lines += [f"{series} {value} {at}" for at in times]
    return "\n".join(lines) + "\n"


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(url, trust_env=False).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"prometheus did not become ready:\n{log.read_text()[-4000:]}")
