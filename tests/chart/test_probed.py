"""A daemon that is started as the chart says, asked as the chart's probes ask it.

As a plain process: what Kubernetes would mount is files below a folder, and no cluster answers.
"""

from __future__ import annotations

import os
import shlex
import ssl
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import bcrypt
import httpx
import pytest

from lab.kubernetes import chart
from lab.kubernetes.api_server import Json
from lab.processes.child import Child
from lab.processes.ports import LOOPBACK, free_port
from lab.waiting import NotYet, until
from tests.chart.reading import LEAST, containers
from tests.chart.secrets import substitute_secrets

DATA = "/var/lib/offsetwatch"
PROBED_S_MAX = 120.0
PASSWORD = "a password"
TLS = {
    "cert_file": "/run/secrets/offsetwatch/listener/tls.crt",
    "key_file": "/run/secrets/offsetwatch/listener/tls.key",
}
USERS = {"probe": bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()}
ACCESS = {
    "own_access": {
        "auth": {
            "username": "probe",
            "password_file": "/run/secrets/offsetwatch/listener/probe-password",
        }
    }
}
ALL_OF_THEM = "tls and passwords"
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "tls": {"webConfig": {"tls_server_config": TLS}},
    "passwords": {"webConfig": {"basic_auth_users": USERS}, "config": ACCESS},
    ALL_OF_THEM: {
        "webConfig": {"tls_server_config": TLS, "basic_auth_users": USERS},
        "config": ACCESS,
    },
}


def rendered(values: dict[str, Any], folder: Path) -> list[Json]:
    """For this machine: nothing answers at the addresses, and the port is free."""
    dead = f"{LOOPBACK}:{free_port()}"
    own = {
        "config": {
            "kafka": {"east": {"bootstrap": dead}},
            "connect": [{**LEAST["config"]["connect"][0], "url": f"http://{dead}"}],
        },
        "listenAddress": LOOPBACK,
        "containerPort": free_port(),
        "secretMounts": [{"secretName": "listener"}],
    }
    files = [
        chart.values_file(inputs, folder / f"{number}.yaml")
        for number, inputs in enumerate((own, values))
    ]
    return chart.documents(chart.render(*files))


def here(words: list[str], config: Path) -> list[str]:
    """A command of the container, on this machine."""
    return [str(config) if word == "/etc/offsetwatch/config.yaml" else word for word in words]


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        pytest.param(values, id=name, marks=[] if name == ALL_OF_THEM else pytest.mark.full)
        for name, values in CASES.items()
    ],
)
def test_the_probes_of_the_chart_find_the_daemon_that_it_configures(
    values: dict[str, Any], tmp_path: Path
):
    documents = rendered(values, tmp_path)
    result = containers(documents)["daemon/offsetwatch"]
    _, environment = substitute_secrets(documents, tmp_path)
    config = tmp_path / "config.yaml"
    text = config.read_text()
    assert DATA in text
    config.write_text(text.replace(DATA, str(tmp_path / "data")))
    words = [f"{name}={value}" for name, value in environment.items()]
    program = ["env", *words, sys.executable, "-m", "offsetwatch"]
    child = Child("daemon", [*program, *here(result["args"], config)], directory=tmp_path)
    child.start()
    try:
        for name in ("startup", "liveness"):
            probe = partial(passes, result, name, config)
            until(name, probe, timeout_s=PROBED_S_MAX, evidence=child.tail)
        if "httpGet" in result["readinessProbe"]:
            assert request_probe(result, "readiness").status_code == httpx.codes.SERVICE_UNAVAILABLE
    finally:
        child.terminate()
    assert child.status == 0


def request_probe(container: Json, name: str) -> httpx.Response:
    """As a kubelet does: it trusts any certificate."""
    get = container[f"{name}Probe"]["httpGet"]
    (port,) = [item["containerPort"] for item in container["ports"] if item["name"] == get["port"]]
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with httpx.Client(verify=trusting, trust_env=False) as client:
        return client.get(f"{get['scheme'].lower()}://{LOOPBACK}:{port}{get['path']}")


def passes(container: Json, name: str, config: Path) -> None:
    """Raises NotYet while it does not."""
    probe = container[f"{name}Probe"]
    if "httpGet" in probe:
        try:
            answer = request_probe(container, name)
        except httpx.TransportError as exc:
            raise NotYet(str(exc)) from exc
        if not answer.is_success:
            raise NotYet(answer.text)
        return
    program, *words = here(probe["exec"]["command"], config)
    assert program == "offsetwatch"
    done = subprocess.run(
        [sys.executable, "-m", "offsetwatch", *words],
        capture_output=True,
        text=True,
        timeout=PROBED_S_MAX,
        check=False,
        env=dict(os.environ),
    )
    if done.returncode != 0:
        raise NotYet(f"{shlex.join(words)}: {done.returncode}: {done.stderr}")
