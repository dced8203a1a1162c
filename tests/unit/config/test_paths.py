"""Every path of the file is relative to its folder, wherever a command is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from offsetwatch.config import load, parse
from offsetwatch.config.load import PATH_PROPERTIES

PATHS = """\
kafka:
  k:
    bootstrap: "a:1"
    properties:
      {security.protocol: SSL, ssl.ca.location: ca.pem, https.ca.location: probe, client.id: ca.pem}
connect: [{name: lab, kafka: k, url: "http://a:1", worker_logs: [connect.log, /var/log/c.log]}]
state_dir: ../state
history: {path: tables}
remedy: {kill_switch: STOP}
"""


def _paths(path: Path) -> dict[str, Any]:
    config = load(path)
    return {
        "state_dir": config.state_dir,
        "history": config.history.path,
        "kill_switch": config.remedy.kill_switch,
        "worker_logs": config.connect[0].worker_logs,
        "properties": config.kafka["k"].properties,
    }


@pytest.mark.parametrize("named", ["whole", "from its folder", "from beside it", "by a link"])
def test_paths_are_the_same_from_everywhere(tmp_path, monkeypatch, named):
    home, elsewhere = tmp_path / "etc", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    path = home / "offsetwatch.yaml"
    path.write_text(PATHS)
    cwd, name = {
        "whole": (elsewhere, path),
        "from its folder": (home, Path(path.name)),
        "from beside it": (elsewhere, Path("../etc") / path.name),
        "by a link": (tmp_path, Path("link") / path.name),
    }[named]
    (tmp_path / "link").symlink_to(home)
    monkeypatch.chdir(cwd)
    assert _paths(name) == {
        "state_dir": str(tmp_path / "state"),
        "history": str(home / "tables"),
        "kill_switch": str(home / "STOP"),
        "worker_logs": [str(home / "connect.log"), "/var/log/c.log"],
        "properties": {
            "security.protocol": "SSL",
            "ssl.ca.location": str(home / "ca.pem"),
            "https.ca.location": "probe",
            "client.id": "ca.pem",
        },
    }


def test_defaults_are_beside_the_file_too(tmp_path):
    connect = {"connect": [{"name": "lab", "url": "http://a:1"}]}
    config = parse(connect, {}, folder=tmp_path)
    assert (config.state_dir, config.history.path) == (
        str(tmp_path / "state"),
        str(tmp_path / "history"),
    )


@pytest.mark.parametrize("name", sorted(PATH_PROPERTIES))
def test_every_path_that_librdkafka_takes_is_relative_to_the_file(name, tmp_path):
    tls = {"security.protocol": "SSL", "ssl.key.location": "/key"}
    kafka = {"k": {"bootstrap": "a:1", "properties": {**tls, name: "secrets/x"}}}
    connect = [{"name": "lab", "kafka": "k", "url": "http://a:1"}]
    config = parse({"kafka": kafka, "connect": connect}, {}, folder=tmp_path)
    assert config.kafka["k"].properties == {**tls, name: str(tmp_path / "secrets/x")}
