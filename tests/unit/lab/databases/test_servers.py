"""Commands, users and connectors of the lab's database servers; none is started here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.cluster.connector_configs import debezium_mariadb, debezium_postgresql
from lab.databases import server
from lab.databases.mariadb import MariadbServer
from lab.databases.postgresql import PostgresqlServer
from lab.databases.server import ADMINISTRATOR, DEBEZIUM, WATCHER, DatabaseServer, as_other_user
from lab.stories.captures import Capture, configure_sources
from offsetwatch.config.load import load

CLUSTER = """\
kafka: {east: {bootstrap: "127.0.0.1:1"}}
connect: [{name: lab, kafka: east, url: "http://127.0.0.1:2"}]
"""


class SomeLab:
    def __init__(self, *databases: DatabaseServer) -> None:
        self.databases = databases


@pytest.fixture
def servers(tmp_path: Path) -> tuple[PostgresqlServer, MariadbServer]:
    made = PostgresqlServer(tmp_path, 15432), MariadbServer(tmp_path, 13306)
    for one in made:
        one.directory.mkdir()
    return made


def test_each_user_has_a_password_of_its_own_that_stays(servers):
    passwords = [one.password(user) for one in servers for user in (ADMINISTRATOR, WATCHER)]
    assert len({*passwords}) == len(passwords)
    assert passwords == [one.password(user) for one in servers for user in (ADMINISTRATOR, WATCHER)]


def test_a_connector_has_the_password_of_its_own_user_and_no_other(servers):
    postgres, mariadb = servers
    for one, config in (
        (postgres, debezium_postgresql(postgres)),
        (mariadb, debezium_mariadb(mariadb, bootstrap="127.0.0.1:1")),
    ):
        assert config["database.user"] == DEBEZIUM
        assert config["database.password"] == one.password(DEBEZIUM)
        assert one.password(WATCHER) not in config.values()


def test_a_slot_has_a_name_that_postgresql_takes(servers):
    name = debezium_postgresql(servers[0])["slot.name"]
    assert re.fullmatch("[a-z0-9_]+", name)
    assert Capture(SomeLab(*servers), servers[0]).slot == name


def test_the_daemon_takes_the_sources_of_a_lab(servers, tmp_path):
    path = tmp_path / "offsetwatch.yaml"
    path.write_text(CLUSTER + configure_sources(SomeLab(*servers)))
    sources = load(path).sources
    assert [(source.name, source.kind) for source in sources] == [
        ("postgres", "postgresql"),
        ("mariadb", "mysql"),
    ]
    for source, one in zip(sources, servers, strict=True):
        assert source.dsn_file is not None
        assert source.dsn_file.read_text() == one.url(WATCHER, one.watcher_database)
        assert source.dsn_file.stat().st_mode & 0o077 == 0


def test_root_gives_up_its_user_and_dies_with_its_parent(monkeypatch):
    monkeypatch.setattr(server, "is_root", lambda: True)
    command = as_other_user()
    assert command[0] == "setpriv"
    assert command[1:3] == ("--reuid", "nobody")
    assert command[-3:-1] == ("--pdeathsig", "KILL")


def test_another_user_runs_servers_as_itself(monkeypatch):
    monkeypatch.setattr(server, "is_root", lambda: False)
    assert as_other_user() == ()
