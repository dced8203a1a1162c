"""Two whole daemons that share a journal: who answers, who acts, and what happens when one stands
still. Connect is away throughout; what is carried out is tried elsewhere (tests/failovers).
"""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from lab.cluster.lone_broker import lone_broker
from lab.http import NO_AUTHORITIES
from lab.processes.child import Child
from lab.processes.ports import LOOPBACK, free_port
from lab.product.program import EXPORTER
from lab.waiting import NotYet, until
from offsetwatch.remedy.journal.journal import ChainLine, Journal

# A broker and two daemons: a minute.
pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.full]

WAIT_S = 240.0
TOKEN, ALERTS = "t" * 40, "a" * 40
HOOK = {
    "version": "4",
    "groupKey": "g",
    "status": "firing",
    "receiver": "offsetwatch",
    "groupLabels": {},
    "commonLabels": {},
    "commonAnnotations": {},
    "externalURL": "",
    "alerts": [],
}
CONFIG = """\
kafka: {{east: {{bootstrap: "{bootstrap}"}}}}
connect: [{{name: lab, kafka: east, url: "http://{loopback}:1", offsets_topic: none}}]
listen: "{loopback}:{port}"
tick_s: 0.2
state_dir: {state}
control:
  listen: "{loopback}:{control}"
  tokens:
    - {{name: ada, role: operator, token_sha256: {sha256}}}
    - {{name: alerts, role: hook, token_sha256: {hook}}}
remedy:
  mode: propose
  quarantine: {{kafka: east}}
  journal: {{kafka: east, replication_factor: 1, min_insync_replicas: 1, name: {name},
             session_timeout_s: 10}}
"""


@dataclass
class Daemon:
    name: str
    folder: Path
    bootstrap: str

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.port, self.control = free_port(), free_port()
        self.config = self.folder / "offsetwatch.yaml"
        self.config.write_text(
            CONFIG.format(
                bootstrap=self.bootstrap,
                loopback=LOOPBACK,
                port=self.port,
                control=self.control,
                state=self.state,
                sha256=hashlib.sha256(TOKEN.encode()).hexdigest(),
                hook=hashlib.sha256(ALERTS.encode()).hexdigest(),
                name=self.name,
            )
        )
        self.child = Child(
            self.name,
            (*EXPORTER, "run", "--config", str(self.config)),
            directory=self.folder,
        )

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def gauge(self, name: str) -> float | None:
        text = httpx.get(
            f"http://{LOOPBACK}:{self.port}/metrics", timeout=WAIT_S, verify=NO_AUTHORITIES
        ).text
        for line in text.splitlines():
            if line.startswith(f"offsetwatch_{name} "):
                return float(line.split()[1])
        return None

    def request(
        self, method: str, path: str, body: object = None, token: str = TOKEN
    ) -> httpx.Response:
        url = f"http://{LOOPBACK}:{self.control}/api/v1{path}"
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.request(
            method, url, json=body, headers=headers, timeout=WAIT_S, verify=NO_AUTHORITIES
        )

    def lines(self) -> tuple[ChainLine, ...]:
        with closing(Journal(self.state)) as journal:
            return journal.lines(1, 1000)

    def verb(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (*EXPORTER, *words),
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, Daemon]]:
    folder = tmp_path_factory.mktemp("daemons")
    with lone_broker(folder / "broker") as broker:
        built = (
            Daemon("a", folder / "a", broker.address),
            Daemon("b", folder / "b", broker.address),
        )
        try:
            done = built[0].verb("journal", "create", "--config", str(built[0].config))
            assert done.returncode == 0, done.stderr
            for daemon in built:
                daemon.child.start()
            yield built
        finally:
            for daemon in built:
                daemon.child.kill()


def eventually(what: str, holds: Callable[[], bool], *daemons: Daemon) -> None:
    def probe() -> None:
        try:
            if not holds():
                raise NotYet("not so")
        except httpx.TransportError as exc:
            raise NotYet(str(exc)) from exc

    tails = lambda: "\n".join(daemon.child.tail() for daemon in daemons)  # noqa: E731
    until(what, probe, timeout_s=WAIT_S, evidence=tails)


def ordered(daemons: tuple[Daemon, Daemon]) -> tuple[Daemon, Daemon]:
    """Who leads, and who follows."""

    def has_one_leader() -> bool:
        return sorted(daemon.gauge("remediation_leader") or 0.0 for daemon in daemons) == [0.0, 1.0]

    eventually("one leader and one that follows", has_one_leader, *daemons)
    a, b = daemons
    return (a, b) if a.gauge("remediation_leader") else (b, a)


def test_the_follower_answers_and_takes_nothing_down(daemons):
    leader, follower = ordered(daemons)

    def knows() -> bool:
        return follower.gauge("remediation_journal_seq") == leader.gauge("remediation_journal_seq")

    eventually("the same journal", knows, *daemons)
    refused = follower.request("POST", "/pause", {"indefinite": True, "because": "to see"})
    assert refused.status_code == 503
    assert refused.json()["error"] == "not_leader"
    assert f"{leader.name} was the last to say that it does" in refused.json()["message"]
    assert follower.request("GET", "/mode").json()["mode"] == "propose"
    hint = follower.request("POST", "/hooks/alertmanager", HOOK, ALERTS)
    assert hint.status_code == 202
    assert hint.json()["status"] == "follows"
    assert leader.request("POST", "/hooks/alertmanager", HOOK, ALERTS).json()["status"] == "taken"


def test_what_the_leader_takes_down_the_follower_reports(daemons):
    leader, follower = ordered(daemons)
    done = leader.request("POST", "/pause", {"indefinite": True, "because": "to see"})
    assert done.status_code == 200, done.text
    eventually(
        "the pause",
        lambda: (follower.request("GET", "/mode").json()["pause"] or {}).get("by") == "ada",
        *daemons,
    )
    assert leader.request("POST", "/unpause", {"because": "seen"}).status_code == 200
    assert follower.request("GET", "/journal/verify").json()["intact"]


def test_verbs_on_the_state_directory_look_and_say_whom_to_query(daemons):
    leader, _ = ordered(daemons)
    where = ("--config", str(leader.config))
    refused = leader.verb("pause", "--indefinitely", "--because", "to see", *where)
    assert refused.returncode == 3, refused.stderr
    assert "a copy of the topic offsetwatch-journal" in refused.stderr
    assert "--url" in refused.stderr
    assert leader.verb("journal", "verify", *where).returncode == 0
    again = leader.verb("journal", "create", *where)
    assert again.returncode == 0
    assert "nothing was done" in again.stderr


def test_one_that_stood_still_follows_the_one_that_took_over(daemons):
    leader, follower = ordered(daemons)
    leader.child.signal(signal.SIGSTOP)
    try:
        eventually("another leader", lambda: follower.gauge("remediation_leader") == 1.0, follower)
        body = {"indefinite": True, "because": "meanwhile"}
        assert follower.request("POST", "/pause", body).status_code == 200
    finally:
        leader.child.signal(signal.SIGCONT)
    eventually("that it follows", lambda: leader.gauge("remediation_leader") == 0.0, *daemons)
    late = leader.request("POST", "/unpause", {"because": "late"})
    assert late.status_code == 503
    eventually("the same journals", lambda: leader.lines() == follower.lines(), *daemons)
    assert follower.request("GET", "/mode").json()["pause"]["because"] == "meanwhile"


def test_one_that_ends_is_followed_at_once_and_comes_back_as_a_follower(daemons):
    leader, follower = ordered(daemons)
    leader.child.terminate()
    eventually("another leader", lambda: follower.gauge("remediation_leader") == 1.0, follower)
    leader.child.start()
    assert ordered(daemons) == (follower, leader)
    events = [json.loads(line)["event"] for line in follower.child.log.read_text().splitlines()]
    assert "leadership_taken" in events
    eventually("the same journals", lambda: leader.lines() == follower.lines(), *daemons)
