"""What is left of a daemon that a library written in C has ended: where each thread was."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path

import httpx

from lab.http import NO_AUTHORITIES
from lab.processes.child import Child
from lab.processes.ports import free_port
from lab.product.program import EXPORTER
from lab.waiting import NotYet, until

DEADLINE_S = 60.0
TEXT = """
kafka:
  east: {{bootstrap: "127.0.0.1:1"}}
connect:
  - {{name: lab, kafka: east, url: "http://127.0.0.1:1"}}
listen: "127.0.0.1:{port}"
state_dir: "{state}"
"""


def test_a_daemon_that_crashes_says_where_each_of_its_threads_was(tmp_path: Path):
    port = free_port()
    file = tmp_path / "offsetwatch.yaml"
    file.write_text(TEXT.format(port=port, state=tmp_path / "state"))
    daemon = Child("daemon", (*EXPORTER, "run", "--config", str(file)), directory=tmp_path)

    def serving() -> None:
        try:
            httpx.get(f"http://127.0.0.1:{port}/-/healthy", trust_env=False, verify=NO_AUTHORITIES)
        except httpx.TransportError as exc:
            raise NotYet(str(exc)) from exc

    def over() -> None:
        if daemon.running:
            raise NotYet("it runs")

    daemon.start()
    with ExitStack() as ended:
        ended.callback(daemon.kill)
        until("an answer", serving, timeout_s=DEADLINE_S, evidence=daemon.tail)
        daemon.signal(signal.SIGSEGV)
        until("its end", over, timeout_s=DEADLINE_S, evidence=daemon.tail)
    assert daemon.status == -signal.SIGSEGV
    text = daemon.log.read_text()
    assert "Fatal Python error: Segmentation fault" in text
    assert "/daemon/run.py" in text
