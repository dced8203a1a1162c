"""The daemon's image beside real Kafka, Connect and MirrorMaker 2, where it may do least."""

from __future__ import annotations

import errno
import signal
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bcrypt
import httpx
import pytest
import yaml

from lab import Lab
from lab.check import compare
from lab.cluster.certificates import Authority
from lab.errors import LabError
from lab.processes.ports import LOOPBACK, free_port
from lab.product.offsetwatch import CONFIG
from lab.waiting import NotYet, until
from tests.image.building import Image
from tests.image.container import USER, Container, Volume, running, writable
from tests.image.secret import Secret
from tests.real.daemon_series import MIRRORED, await_replicated, becomes, scraped

pytestmark = [pytest.mark.image, pytest.mark.real, pytest.mark.full]

READY_S_MAX = 180.0
ROTATED_S_MAX = 120.0
USERNAME = "prometheus"
STATE = "/var/lib/offsetwatch"
FAST = "{state_s: 1.0, groups_s: 1.0, offsets_s: 10.0, timeout_s: 2.0}"
MORE = """\
listen: "{listen}"
web_config_file: web.yaml
own_access: {{auth: {{username: {username}, password_file: password}}}}
tick_s: 0.2
ends_s: {ends_s}
"""


class Keeper:
    """Who puts into the Secret what the daemon is to be configured with, and reads its metrics."""

    def __init__(self, lab: Lab, secret: Secret, folder: Path) -> None:
        self._lab = lab
        self._secret = secret
        self._authority = Authority(folder)
        self._port = free_port()
        self._password = ""
        self.container: Container

    def put(self, password: str, *, ends_s: float = 1.0) -> None:
        """Another password, another certificate, and a configuration."""
        connect = (
            f'  - {{name: lab, kafka: east, url: "{self._lab.connect_urls[0]}", poll: {FAST}}}'
        )
        config = CONFIG.format(east=self._lab.east, west=self._lab.west, connects=connect)
        config += f"state_dir: {STATE}/state\nhistory: {{path: {STATE}/history}}\n"
        config += MORE.format(listen=f"{LOOPBACK}:{self._port}", username=USERNAME, ends_s=ends_s)
        certificate = self._authority.issue(f"for-{password}")
        hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
        web = {
            "tls_server_config": {"cert_file": "tls.crt", "key_file": "tls.key"},
            "basic_auth_users": {USERNAME: hashed},
        }
        self._secret.hold(
            {
                "config.yaml": config,
                "web.yaml": yaml.safe_dump(web),
                "tls.crt": certificate.cert.read_text(),
                "tls.key": certificate.key.read_text(),
                "password": password,
            }
        )
        self._password = password

    def answer(self, path: str, password: str | None = None) -> httpx.Response:
        """As anybody who trusts the authority and has this password."""
        return httpx.get(
            f"https://{LOOPBACK}:{self._port}{path}",
            auth=(USERNAME, self._password if password is None else password),
            verify=ssl.create_default_context(cafile=str(self._authority.ca)),
            trust_env=False,
            timeout=20.0,
        )

    def wait_ready(self) -> None:
        def ready() -> None:
            try:
                answer = self.answer("/-/ready")
            except httpx.TransportError as exc:
                if not self.container.running:
                    raise LabError(f"it ended\n{self.evidence()}") from exc
                raise NotYet(str(exc)) from exc
            if answer.status_code != httpx.codes.OK:
                raise NotYet(answer.text)

        until("the daemon ready", ready, timeout_s=READY_S_MAX, evidence=self.evidence)

    # What the comparisons of the real tests ask of a Product.

    def get(self, path: str) -> dict[str, Any]:
        answer = self.answer(path)
        answer.raise_for_status()
        document: dict[str, Any] = answer.json()
        return document

    def metrics(self) -> str:
        answer = self.answer("/metrics")
        answer.raise_for_status()
        return answer.text

    def evidence(self) -> str:
        return self.container.evidence()


@contextmanager
def running_keeper(lab: Lab, daemon: Image, folder: Path) -> Iterator[Keeper]:
    """With a daemon that runs as its image says, from a Secret, and has caught up."""
    secret = Secret(folder / "secret", group=USER)
    keeper = Keeper(lab, secret, folder / "authority")
    keeper.put("first")
    container = Container(
        daemon,
        folder,
        volumes=(
            writable(folder / "state", STATE),
            Volume(secret.folder, "/etc/offsetwatch", read_only=True),
        ),
    )
    with running(container):
        keeper.container = container
        keeper.wait_ready()
        yield keeper


@pytest.fixture(scope="module")
def keeper(lab: Lab, daemon: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keeper]:
    with running_keeper(lab, daemon, tmp_path_factory.mktemp("daemon")) as built:
        yield built


def test_it_serves_what_rest_and_brokers_say(lab, keeper):
    lab.append_lines(23)
    lab.produce("west", "orders", 90)
    lab.produce("west", "payments", 14)
    await_replicated(lab, keeper)
    for tally in (compare.with_rest(keeper, lab), compare.with_brokers(keeper, lab)):
        print(tally.line)  # noqa: T201
        assert tally.mismatches == []
        assert tally.compared >= 7
    # And as Prometheus has it: Connect's position of each partition that is mirrored.
    reports = {
        (dict(item)["topic"], int(dict(item)["partition"])): position
        for item, position in scraped(keeper.metrics(), "mm2_replicated_offset").items()
    }
    assert reports == {
        (offset["partition"]["topic"], offset["partition"]["partition"]): offset["offset"]["offset"]
        for offset in lab.offsets("mm2-source")
    }
    assert reports.keys() == set(MIRRORED)


def test_it_ends_well_and_soon_when_it_is_reported_to(lab, daemon, tmp_path):
    with running_keeper(lab, daemon, tmp_path) as keeper:
        keeper.container.stop()
        assert not keeper.container.running
        assert '"event": "stopping"' in keeper.evidence()


def test_it_may_do_nothing_but_what_a_daemon_has_to(keeper):
    status = keeper.container.status()
    assert set(status["Uid"].split()) == set(status["Gid"].split()) == {str(USER)}
    assert status["Groups"] == ""
    assert status["NoNewPrivs"] == "1"
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[kind], 16) == 0


@pytest.mark.parametrize(
    "folder", ["/", "/etc/offsetwatch", "/opt/offsetwatch/lib", "/tmp", "/var/lib", "/root"]
)
def test_nothing_but_the_volume_can_be_written_to_by_root_either(keeper, folder):
    write = f"open('{folder}/new', 'w')"
    done = keeper.container.execute("/opt/offsetwatch/bin/python", "-c", write, privileged=True)
    assert f"[Errno {errno.EROFS}] Read-only file system: '{folder}/new'" in done.stderr


def test_the_volume_can_be_written_to_and_has_the_state(keeper):
    done = keeper.container.execute(
        "python", "-c", "open('new', 'w'); import os; print(os.getcwd())"
    )
    assert (done.stdout.strip(), done.stderr) == (STATE, "")
    done = keeper.container.execute("python", "-c", "import os; print(os.listdir('state'))")
    assert "lock" in done.stdout


def test_the_health_check_of_the_image_knows_the_daemon_by_tls_and_password(keeper):
    done = keeper.container.healthcheck()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    # Stopped in its tracks, it is not healthy: the answer above was its own.
    keeper.container.signal(signal.SIGSTOP)
    assert keeper.container.healthcheck().returncode == 7
    keeper.container.signal(signal.SIGCONT)
    assert keeper.container.healthcheck().returncode == 0


def test_a_secret_that_changes_is_taken_up_while_it_runs(keeper):
    reloaded = "config_last_reload_timestamp_seconds"
    (before,) = scraped(keeper.metrics(), reloaded).values()
    keeper.put("second", ends_s=2.0)

    def known() -> None:
        try:
            answer = keeper.answer("/metrics")
        except httpx.TransportError as exc:
            raise NotYet(str(exc)) from exc
        if answer.status_code != httpx.codes.OK:
            raise NotYet(f"{answer.status_code}")

    until("the new password", known, timeout_s=ROTATED_S_MAX, evidence=keeper.evidence)
    assert keeper.answer("/metrics", password="first").status_code == httpx.codes.UNAUTHORIZED
    assert keeper.container.healthcheck().returncode == 0
    # The configuration itself is read again when it is asked for.
    keeper.container.signal(signal.SIGHUP)

    def taken() -> None:
        (now,) = scraped(keeper.metrics(), reloaded).values()
        if now == before:
            raise NotYet("the reload is not done")

    until("the reload", taken, timeout_s=ROTATED_S_MAX, evidence=keeper.evidence)
    becomes(keeper, 1, "config_last_reload_successful")
