"""The reader of PostgreSQL against a connection that answers as a server would."""

from __future__ import annotations

import builtins
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from offsetwatch.clients.databases import bounded_psycopg
from offsetwatch.clients.databases import settings as databases_settings
from offsetwatch.clients.databases.postgresql import PostgresqlReader
from offsetwatch.config.schema.sources import Source
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    IncompleteResponse,
    NotFound,
    RemoteRefusal,
    ResponseTimeout,
    ServerError,
    SettingsRefused,
    TargetUnreachable,
    TooManyRequests,
)
from offsetwatch.model.source_ends import (
    PostgresqlEnd,
    ReplicationSlot,
    SlotMessage,
    SourceEndRequest,
)

REQUEST = SourceEndRequest("shop")
PRIMARY = [(False, "shop", Decimal(0x01000010), "0000000300000000000000AB")]


def source(**settings: Any) -> Source:
    fields = {"name": "shop", "kind": "postgresql", "connectors": [{"connect": "lab"}]}
    return Source.model_validate({**fields, **settings})


class FakeConnection:
    """Answers by a part of the statement; an exception is raised."""

    def __init__(self, version: int = 150000, **answers: Any) -> None:
        self.info = SimpleNamespace(server_version=version)
        defaults = {
            "pg_is_in_recovery": PRIMARY,
            "pg_control_system": [("77",)],
            "pg_replication_slots": [],
        }
        self.answers: dict[str, Any] = answers | {
            part: rows for part, rows in defaults.items() if part not in answers
        }
        self.statements: list[str] = []
        self.values: tuple[object, ...] | None = None
        self.closed = False

    def execute(self, statement: bytes, values: tuple[object, ...] | None) -> Any:
        text = statement.decode()
        self.statements.append(text)
        self.values = values
        answer = next((rows for part, rows in self.answers.items() if part in text), None)
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(description=answer, fetchall=lambda: answer)

    def close(self) -> None:
        self.closed = True


def connecting(monkeypatch: pytest.MonkeyPatch, *connections: Any) -> list[dict[str, str]]:
    """Have each connection be the next of these; an exception is raised."""
    calls: list[dict[str, str]] = []

    def connect(settings: dict[str, str], _timeout_s: float) -> Any:
        calls.append(settings)
        connection = connections[len(calls) - 1]
        if isinstance(connection, Exception):
            raise connection
        return connection

    monkeypatch.setattr(bounded_psycopg, "connect", connect)
    return calls


def test_the_end_and_the_slots_of_a_primary(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = [
        ("own", "shop", True, Decimal(20), Decimal(10), Decimal(30), "reserved", 4096),
        ("other", "books", False, None, None, None, "lost", None),
    ]
    connecting(monkeypatch, FakeConnection(pg_replication_slots=slots))
    assert PostgresqlReader(source()).read(REQUEST) == PostgresqlEnd(
        wal_end=0x01000010,
        slots={
            "own": ReplicationSlot("own", "shop", True, 20, 10, "reserved", 4096, 30),
            "other": ReplicationSlot("other", "books", False, wal_status="lost"),
        },
        system_id="77",
        timeline=3,
        in_recovery=False,
        database="shop",
    )


def test_a_standby_has_the_timeline_of_its_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    standby = [(True, "shop", Decimal(7), None)]
    connecting(monkeypatch, FakeConnection(pg_is_in_recovery=standby, pg_control_checkpoint=[(2,)]))
    end = PostgresqlReader(source()).read(REQUEST)
    assert (end.in_recovery, end.timeline, end.wal_end) == (True, 2, 7)


def test_a_standby_that_replayed_nothing_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    connecting(monkeypatch, FakeConnection(pg_is_in_recovery=[(True, "shop", None, None)]))
    with pytest.raises(ServerError, match="has not replayed anything"):
        PostgresqlReader(source()).read(REQUEST)


@pytest.mark.parametrize(("version", "has"), [(100023, False), (120018, False), (130001, True)])
def test_columns_are_asked_for_where_the_version_has_them(
    monkeypatch: pytest.MonkeyPatch, version: int, has: bool
) -> None:
    connection = FakeConnection(version)
    connecting(monkeypatch, connection)
    PostgresqlReader(source()).read(REQUEST)
    assert any("wal_status" in statement for statement in connection.statements) is has


def test_what_may_not_be_read_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = psycopg.errors.InsufficientPrivilege("permission denied for pg_control_system")
    connecting(monkeypatch, FakeConnection(pg_control_system=denied))
    assert PostgresqlReader(source()).read(REQUEST).system_id is None


def test_an_end_that_two_servers_behind_one_connection_reported_is_discarded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = FakeConnection(), FakeConnection(pg_control_system=[("78",)])
    connecting(monkeypatch, first, second)
    reader = PostgresqlReader(source())
    assert reader.read(REQUEST).system_id == "77"
    first.answers |= {"pg_control_system": [("78",)]}
    with pytest.raises(IncompleteResponse, match="led to server 77, and now to 78"):
        reader.read(REQUEST)
    assert first.closed
    assert reader.read(REQUEST).system_id == "78"


def test_a_connection_is_reused_and_opened_again_after_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = FakeConnection(), FakeConnection()
    calls = connecting(monkeypatch, first, second)
    reader = PostgresqlReader(source())
    reader.read(REQUEST)
    reader.read(REQUEST)
    assert len(calls) == 1
    first.answers["pg_is_in_recovery"] = psycopg.OperationalError("the server ended it")
    with pytest.raises(IncompleteResponse, match="the connection broke: the server ended it"):
        reader.read(REQUEST)
    assert first.closed
    reader.read(REQUEST)
    assert len(calls) == 2
    reader.close()
    assert second.closed


def test_a_session_is_read_only_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = FakeConnection()
    calls = connecting(monkeypatch, connection)
    PostgresqlReader(source(host="db", user="watcher")).read(REQUEST)
    assert connection.statements[:3] == [
        "SET statement_timeout = '2s'",
        "SET lock_timeout = '2s'",
        "SET default_transaction_read_only = on",
    ]
    assert calls[0]["application_name"] == "offsetwatch"
    assert calls[0]["connect_timeout"] == "5"


REFUSED = 'connection failed: connection to server at "::1", port 5432 failed: FATAL:  '


@pytest.mark.parametrize(
    ("error", "kind", "detail"),
    [
        (
            psycopg.OperationalError(f'{REFUSED}password authentication failed for user "w"'),
            AccessDenied,
            'password authentication failed for user "w"',
        ),
        (
            psycopg.OperationalError(
                f'{REFUSED}password authentication failed for user "w"\n{REFUSED}no encryption'
            ),
            AccessDenied,
            'password authentication failed for user "w"',
        ),
        (
            psycopg.OperationalError(f'{REFUSED}role "w" is not permitted to log in'),
            AccessDenied,
            'role "w" is not permitted to log in',
        ),
        (
            psycopg.OperationalError(f'{REFUSED}database "x" does not exist'),
            NotFound,
            'database "x" does not exist',
        ),
        (
            psycopg.OperationalError(f"{REFUSED}sorry, too many clients already"),
            TooManyRequests,
            "sorry, too many clients already",
        ),
        (
            psycopg.OperationalError(f"{REFUSED}the database system is starting up"),
            ServerError,
            "the database system is starting up",
        ),
        (psycopg.OperationalError(f"{REFUSED}Hä?"), RemoteRefusal, "Hä?"),
        (
            psycopg.OperationalError(
                'connection failed: connection to server at "::1", port 5432 failed: Connection '
                "refused\n\tIs the server running on that host?"
            ),
            TargetUnreachable,
            'connection to server at "::1", port 5432 failed: Connection refused',
        ),
        (
            psycopg.errors.ConnectionTimeout("connection timeout expired"),
            ResponseTimeout,
            "no connection within 5 s",
        ),
        (
            psycopg.ProgrammingError("near s3cret"),
            SettingsRefused,
            "libpq does not accept its address",
        ),
    ],
)
def test_errors_of_connections(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[ClientError], detail: str
) -> None:
    connecting(monkeypatch, error)
    with pytest.raises(ClientError) as raised:
        PostgresqlReader(source(dsn="postgresql://w:s3cret@db/x")).read(REQUEST)
    assert type(raised.value) is kind
    assert raised.value.detail == detail
    assert "s3cret" not in str(raised.value)
    assert raised.value.__context__ is None  # psycopg's has the password


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (psycopg.errors.QueryCanceled("canceled"), "a statement took longer than 2 s"),
        (bounded_psycopg.AnswerTimeout("no answer in time"), "no answer within 4 s"),
    ],
)
def test_slow_statements_are_timeouts(
    monkeypatch: pytest.MonkeyPatch, error: Exception, detail: str
) -> None:
    connecting(monkeypatch, FakeConnection(pg_is_in_recovery=error))
    with pytest.raises(ResponseTimeout, match=detail):
        PostgresqlReader(source()).read(REQUEST)


def test_an_extra_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(name: str, *args: Any, **named: Any) -> Any:
        if name.startswith("psycopg"):
            raise ImportError(name)
        return original(name, *args, **named)

    monkeypatch.setattr("importlib.import_module", without)
    with pytest.raises(SettingsRefused, match="package psycopg, which is not installed") as raised:
        PostgresqlReader(source()).read(REQUEST)
    assert raised.value.advice is not None
    assert "`pip install '.[postgresql]'` in a checkout" in raised.value.advice


def test_settings_of_a_connection(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("ca.pem", "both.pem", "password"):
        (tmp_path / name).write_text("s3cret\n")
    calls = connecting(monkeypatch, FakeConnection(), FakeConnection())
    reader = PostgresqlReader(
        source(
            host="db",
            port=5433,
            database="shop",
            user="watcher",
            password_file=str(tmp_path / "password"),
            tls={"ca_file": str(tmp_path / "ca.pem"), "cert_file": str(tmp_path / "both.pem")},
        )
    )
    reader.read(REQUEST)
    assert calls[0] == {
        "connect_timeout": "5",
        "application_name": "offsetwatch",
        "client_encoding": "UTF8",
        "host": "db",
        "port": "5433",
        "dbname": "shop",
        "user": "watcher",
        "password": "s3cret",
        "sslmode": "verify-full",
        "sslrootcert": str(tmp_path / "ca.pem"),
        "sslcert": str(tmp_path / "both.pem"),
        "sslkey": str(tmp_path / "both.pem"),
    }
    (tmp_path / "password").write_text("rotated")
    reader.close()
    reader.read(REQUEST)
    assert calls[1]["password"] == "rotated"


def test_a_secret_file_that_is_gone_is_an_error_without_its_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    file = tmp_path / "dsn"
    file.write_text("postgresql://db/x")
    reader = PostgresqlReader(source(dsn_file=str(file)))
    file.unlink()
    with pytest.raises(SettingsRefused, match="shop: dsn_file cannot be read: No such file"):
        reader.read(REQUEST)


@pytest.mark.parametrize(("version", "more"), [(130000, False), (140000, True)])
def test_a_slot_is_read_and_nothing_of_it_is_consumed(
    monkeypatch: pytest.MonkeyPatch, version: int, more: bool
) -> None:
    messages = [(Decimal(10), 751, memoryview(b"B")), (Decimal(20), 751, b"C")]
    answers = {"SELECT plugin": [("pgoutput",)], "peek_binary_changes": messages}
    connection = FakeConnection(version, **answers)
    connecting(monkeypatch, connection)
    found = PostgresqlReader(source()).read_messages("cdc", 'the "one"', 100)
    assert found == (SlotMessage(10, 751, b"B"), SlotMessage(20, 751, b"C"))
    assert connection.values == ("cdc", 100, '"the ""one"""', 100)
    assert ("'messages', 'true'" in connection.statements[-1]) is more
    assert not any("get_" in each and "peek" not in each for each in connection.statements)


@pytest.mark.parametrize("plugin", [[("decoderbufs",)], []])
def test_a_slot_of_another_plugin_is_not_read(
    monkeypatch: pytest.MonkeyPatch, plugin: list[Any]
) -> None:
    connection = FakeConnection(**{"SELECT plugin": plugin})
    connecting(monkeypatch, connection)
    with pytest.raises(RemoteRefusal, match="its slot cdc is not of the output plugin pgoutput"):
        PostgresqlReader(source()).read_messages("cdc", "dbz", 100)
    assert not any("peek" in each for each in connection.statements)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (psycopg.errors.ObjectInUse("replication slot is active for PID 7"), RemoteRefusal),
        (psycopg.errors.ObjectNotInPrerequisiteState("can no longer get changes"), RemoteRefusal),
        (psycopg.errors.UndefinedObject('publication "dbz" does not exist'), NotFound),
        (psycopg.errors.InsufficientPrivilege("must be replication role"), AccessDenied),
    ],
)
def test_a_slot_that_cannot_be_read_is_refused(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[ClientError]
) -> None:
    answers = {"SELECT plugin": [("pgoutput",)], "peek_binary_changes": error}
    connecting(monkeypatch, FakeConnection(**answers))
    with pytest.raises(kind, match=str(error)):
        PostgresqlReader(source()).read_messages("cdc", "dbz", 100)


def test_a_wait_ends_by_our_own_limit() -> None:
    def answering() -> Any:
        assert (yield "read") == "ready"
        return 7

    def silent() -> Any:
        while True:
            yield "read"

    waited = bounded_psycopg._limit(answering(), deadline=float("inf"))
    assert next(waited) == "read"
    with pytest.raises(StopIteration) as ended:
        waited.send("ready")
    assert ended.value.value == 7
    late = bounded_psycopg._limit(silent(), deadline=0.0)
    next(late)
    with pytest.raises(bounded_psycopg.AnswerTimeout):
        late.send("nothing")


def test_without_a_file_of_authorities_those_of_the_system_are_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("")
    calls = connecting(monkeypatch, FakeConnection(), FakeConnection(), FakeConnection())
    for known in ([str(tmp_path / "none"), str(file)], []):
        monkeypatch.setattr(databases_settings, "_AUTHORITIES_FILES", known)
        monkeypatch.setattr("ssl.get_default_verify_paths", lambda: SimpleNamespace(cafile=None))
        PostgresqlReader(source(host="db", user="w", tls={})).read(REQUEST)
    PostgresqlReader(source(host="db", user="w", tls={"verify": "none"})).read(REQUEST)
    assert [call.get("sslrootcert") for call in calls] == [str(file), "system", None]
    assert [call["sslmode"] for call in calls] == ["verify-full", "verify-full", "require"]


@pytest.mark.parametrize(
    "text", ["SSL error: certificate verify failed", "server does not support SSL"]
)
def test_what_is_wrong_with_tls_comes_with_advice(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    connecting(monkeypatch, psycopg.OperationalError(f"connection failed: {text}"))
    with pytest.raises(TargetUnreachable) as raised:
        PostgresqlReader(source(host="db", user="w", tls={})).read(REQUEST)
    assert str(raised.value.advice).startswith("check tls of this source")
