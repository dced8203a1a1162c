"""The reference file says what the code says, and can be used as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from offsetwatch.config import load
from offsetwatch.errors import ConfigError
from tools.references.reference_file import render_reference

REFERENCE = Path(__file__).parents[2] / "config-reference.yaml"
HASH = "$2y$10$X0h1gDsPszWURQaxFh.zoubFi6DXncSjhoQNJgRrnGs7EsimhC7zG"
VARIABLES = ("CONNECT_PASSWORD", "CONNECT_TOKEN", "KEY_PASSWORD", "SHOP_PASSWORD")
FILES = {
    "secrets/shop-dsn": "postgresql://watcher@db-1/shop\n",
    "web.yaml": "http_server_config: {http2: false}\n",
    "web-control.yaml": f"basic_auth_users: {{ada: {HASH}}}\n",
    "worker.properties": "key.converter=a.B\nvalue.converter=a.B\n",
}


def test_the_file_is_what_the_code_makes_of_it():
    assert REFERENCE.read_text() == render_reference(), "run: python -m tools.references"


def test_the_file_loads_and_its_defaults_are_those_of_the_smallest_file(tmp_path):
    reference = tmp_path / REFERENCE.name  # paths are relative to the file's folder
    reference.write_text(REFERENCE.read_text())
    path = tmp_path / "smallest.yaml"
    path.write_text(
        'kafka: {east: {bootstrap: "broker-1:9092,broker-2:9092"}}\n'
        'connect: [{name: lab, kafka: east, url: "http://worker-1:8083"}]\n'
    )
    assert load(reference, {}) == load(path, {})


def test_every_setting_that_is_not_given_could_be(tmp_path):
    """With all of them given, all that is wrong is that some exclude each other."""
    text = re.sub(r"^#(?!#)", "", REFERENCE.read_text(), flags=re.MULTILINE)
    text = text.replace("package.module:function", "tests.unit.config.hooks.working:token")
    for name in re.findall(r'_file: "(.*)"', text):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(FILES.get(name, "secret-" * 5))
        (tmp_path / name).chmod(0o600)
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path, dict.fromkeys(VARIABLES, "x"))
    access = (
        ".auth: give a username and its password or a bearer token, not both",
        ".auth: give password or password_file, not both",
        ".auth: give bearer_token or bearer_token_file, not both",
        ".tls: give key_password or key_password_file, not both",
    )
    expected = [f"connect[0]{mistake}" for mistake in (": give url or urls, not both", *access)]
    expected += [
        "sources[0].columns: of no use for kind postgresql",
        "sources[0].folder: of no use for kind postgresql",
        "sources[0]: give dsn or dsn_file, not both",
        "sources[0]: give password or password_file, not both",
        ("sources[0]: give dsn or host, port, database, user, password, password_file, not both"),
    ]
    expected += [f"notify.alertmanagers[0]{mistake}" for mistake in access]
    expected += [
        f"notify.webhooks[0]{mistake}" for mistake in (*access, ": give url or url_file, not both")
    ]
    expected += [f"own_access{mistake}" for mistake in access]
    expected += [
        "own_access.auth: a username and its password, as web_config_file knows no tokens",
        (
            "control.web_config_file: verifies no certificates, so control.clients cannot "
            "authenticate"
        ),
        "control.tokens[0].connectors: names none; for all of them leave it out",
        "control.clients[0].connectors: names none; for all of them leave it out",
        "control.users[0].connectors: names none; for all of them leave it out",
        "control.tokens[0]: give token_sha256 or token_file, not both",
    ]
    assert caught.value.mistakes == tuple(f"config.yaml: {mistake}" for mistake in expected)
