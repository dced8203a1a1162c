"""By which class an exception is classified whose own class stands for every error of a server."""

from __future__ import annotations

import pytest

from offsetwatch.decode.stack_trace import lines_of
from offsetwatch.remedy.classify import FailureKind, classify
from offsetwatch.remedy.classify.error_texts import (
    DATA_CLASSES,
    SQLSTATE,
    TEXTS,
    find_class_by_text,
    rename_by_text,
)
from offsetwatch.remedy.classify.trace_meanings import ThrowableHint, find_meaning

POSTGRES = "org.postgresql.util.PSQLException"
SYNTAX = "java.sql.SQLSyntaxErrorException"
SQL = "java.sql.SQLException"
SERVER = "com.microsoft.sqlserver.jdbc.SQLServerException"
REGISTRY = "io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException"
DATA, CONSTRAINT = DATA_CLASSES["22"], DATA_CLASSES["23"]
TOO_LONG = "ERROR: value too long for type character varying(10)"
DUPLICATE = (
    "Violation of PRIMARY KEY constraint 'pk'. Cannot insert duplicate key in object 'dbo.t'. The "
    "duplicate key value is (1)."
)
RUNTIME = "\tat org.apache.kafka.connect.runtime."
PUT = (
    "org.apache.kafka.connect.errors.ConnectException: Exiting WorkerSinkTask due to "
    "unrecoverable exception.\n"
    f"{RUNTIME}WorkerSinkTask.deliverMessages(WorkerSinkTask.java:636)\n"
    f"{RUNTIME}WorkerSinkTask.poll(WorkerSinkTask.java:345)\n"
    f"{RUNTIME}WorkerTask.run(WorkerTask.java:281)\n"
    "\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
)
LISTED = frozenset({DATA, CONSTRAINT})


def chained(*exceptions: str, title: str = "") -> str:
    """A sink that puts all exceptions of a batch into the text of one of its own."""
    text = "\n".join(([title] if title else []) + list(exceptions))
    return (
        f"{PUT}Caused by: org.apache.kafka.connect.errors.ConnectException: {SQL}: {text}\n\n"
        "\tat io.aiven.connect.jdbc.sink.JdbcSinkTask.put(JdbcSinkTask.java:104)\n"
        f"{RUNTIME}WorkerSinkTask.deliverMessages(WorkerSinkTask.java:606)\n\t... 3 more\n"
        f"Caused by: {SQL}: {text}\n\n\t... 5 more\n"
    )


def batch(said: str, quoted: str = "'a'") -> str:
    return (
        f'java.sql.BatchUpdateException: Batch entry 4 INSERT INTO "t" VALUES ({quoted}) was '
        f"aborted: {said}  Call getNextException to see other errors in the batch."
    )


def kind_of(trace: str) -> FailureKind:
    failure = classify(trace, LISTED)
    assert failure is not None
    return failure.kind


@pytest.mark.parametrize(
    ("name", "said", "found"),
    [
        (POSTGRES, TOO_LONG, DATA),
        (POSTGRES, "ERROR: value too long for type character(3)", DATA),
        (POSTGRES, 'ERROR: invalid byte sequence for encoding "UTF8": 0x00', DATA),
        (POSTGRES, "ERROR: invalid input syntax for type json", DATA),
        (POSTGRES, 'ERROR: invalid input syntax for type uuid: "x"', DATA),
        (POSTGRES, "ERROR: integer out of range", DATA),
        (POSTGRES, 'ERROR: date/time field value out of range: "2020-13-01"', DATA),
        (POSTGRES, 'ERROR: null value in column "a" violates not-null constraint', CONSTRAINT),
        (
            POSTGRES,
            'ERROR: null value in column "a" of relation "t" violates not-null constraint',
            CONSTRAINT,
        ),
        (POSTGRES, 'ERROR: duplicate key value violates unique constraint "t_pkey"', CONSTRAINT),
        (POSTGRES, "ERROR: deadlock detected", "SQLSTATE.40P01"),
        (POSTGRES, "FATAL: the database system is shutting down", "SQLSTATE.57P03"),
        (POSTGRES, "FATAL: sorry, too many clients already", "SQLSTATE.53300"),
        (POSTGRES, "ERROR: permission denied for table t", "SQLSTATE.42501"),
        (POSTGRES, 'ERROR: relation "t" does not exist', "SQLSTATE.42P01"),
        (POSTGRES, "This connection has been closed.", "SQLSTATE.08003"),
        (POSTGRES, "ERROR: something of a trigger's own", None),
        (POSTGRES, "FEHLER: Wert zu lang f\u00fcr Typ character varying(10)", None),
        (SYNTAX, "(conn=12) Data too long for column 'name' at row 1", DATA),
        (SYNTAX, "(conn=12) Out of range value for column 'n' at row 1", DATA),
        (SYNTAX, "(conn=12) Incorrect datetime value: 'x' for column `a`.`b`.`c` at row 1", DATA),
        (SQL, "Incorrect string value: '\\xF0\\x9F' for column 'c' at row 1", DATA),
        (SYNTAX, "(conn=12) Table 'shop.t' doesn't exist", None),
        (SYNTAX, "(conn=12) INSERT command denied to user 'a'@'b' for table 't'", "SQLSTATE.42501"),
        (SQL, "(conn=12) Lock wait timeout exceeded; try restarting transaction", "SQLSTATE.40001"),
        (SQL, 'ORA-12899: value too large for column "S"."T"."C" (actual: 41, maximum: 10)', DATA),
        (SERVER, "String or binary data would be truncated.", DATA),
        (SERVER, DUPLICATE, CONSTRAINT),
        (SERVER, "Transaction (Process ID 52) was deadlocked on lock resources", "SQLSTATE.40001"),
        ("com.ibm.db2.jcc.am.SqlException", "DB2 SQL Error: SQLCODE=-302, SQLSTATE=22001, x", DATA),
        (
            "com.ibm.db2.jcc.am.SqlException",
            "DB2 SQL Error: SQLCODE=-911, SQLSTATE=40001, x",
            "SQLSTATE.40001",
        ),
        (REGISTRY, "Schema not found; error code: 40403", "HTTP.40403"),
        (REGISTRY, "Unauthorized; error code: 401", "HTTP.401"),
        (REGISTRY, "x; error code: 7", None),
        ("com.example.Anything", TOO_LONG, None),
    ],
)
def test_a_text_of_a_server_says_which_error_it_is(name, said, found):
    assert find_class_by_text(name, [said]) == found


@pytest.mark.parametrize(
    ("more", "found"),
    [
        pytest.param(["  Detail: Key (id)=(1) already exists.", ""], DATA, id="of-the-driver"),
        pytest.param(["  Where: unnamed portal parameter $3"], DATA, id="a-parameter"),
        pytest.param(["x"], None, id="anything-else"),
        pytest.param(["  Detail: a", "b"], None, id="below-it"),
    ],
)
def test_what_allows_is_the_whole_text(more, found):
    assert find_class_by_text(POSTGRES, [TOO_LONG, *more]) == found
    assert find_class_by_text(POSTGRES, [f"{TOO_LONG} ", *more]) is None
    assert find_class_by_text(POSTGRES, ["ERROR: deadlock detected", *more]) == "SQLSTATE.40P01"


def test_each_code_has_a_meaning_that_fits_it():
    for texts in TEXTS.values():
        for text in texts:
            if text.code is None:
                continue
            name = DATA_CLASSES.get(text.code[:2], f"{text.scheme}.{text.code}")
            allows = find_meaning(name) is ThrowableHint.VALUE
            assert allows == (text.scheme == SQLSTATE and text.code[:2] in DATA_CLASSES)
            assert isinstance(find_meaning(name), FailureKind) or allows or text.code == "01000"


@pytest.mark.parametrize(
    ("trace", "kind"),
    [
        pytest.param(
            chained(batch(TOO_LONG), f"{POSTGRES}: {TOO_LONG}"), FailureKind.SINK_DATA, id="data"
        ),
        pytest.param(
            chained(
                batch(TOO_LONG),
                f"{POSTGRES}: {TOO_LONG}",
                f"{POSTGRES}: {TOO_LONG}",
                title="Exception chain:",
            ),
            FailureKind.SINK_DATA,
            id="data-with-a-title",
        ),
        pytest.param(
            chained(
                "java.sql.BatchUpdateException: (conn=1) Data too long for column 'a' at row 1",
                f"{SYNTAX}: (conn=1) Data too long for column 'a' at row 1",
            ),
            FailureKind.SINK_DATA,
            id="mariadb",
        ),
        pytest.param(
            chained(
                batch('ERROR: duplicate key value violates unique constraint "t_pkey"'),
                f'{POSTGRES}: ERROR: duplicate key value violates unique constraint "t_pkey"',
                "  Detail: Key (id)=(1) already exists.",
            ),
            FailureKind.SINK_DATA,
            id="with-a-detail",
        ),
        pytest.param(
            chained(
                batch("ERROR: deadlock detected"),
                f"{POSTGRES}: ERROR: deadlock detected",
                "  Detail: Process 1 waits for ShareLock",
            ),
            FailureKind.CONNECTIVITY,
            id="deadlock",
        ),
        pytest.param(
            chained(f"{POSTGRES}: An I/O error occurred while sending to the backend."),
            FailureKind.CONNECTIVITY,
            id="connection",
        ),
        pytest.param(
            chained(batch("ERROR: permission denied for table t"), f"{POSTGRES}: {TOO_LONG}", SQL),
            FailureKind.UNKNOWN,
            id="another-of-no-meaning",
        ),
        pytest.param(chained(batch(TOO_LONG)), FailureKind.UNKNOWN, id="batch-alone"),
        pytest.param(chained("x"), FailureKind.UNKNOWN, id="none"),
        pytest.param(
            chained(f"{POSTGRES}: {TOO_LONG}", batch(TOO_LONG)),
            FailureKind.UNKNOWN,
            id="not-the-last",
        ),
    ],
)
def test_exceptions_that_a_sink_writes_into_a_text_count_as_causes(trace, kind):
    assert kind_of(trace) is kind


CAUSE = f"Caused by: {POSTGRES}: {TOO_LONG}\n\t... 9 more\n"
MADE_UP = (
    f"'x\n{POSTGRES}: {TOO_LONG}\n'",
    f"'x\n{POSTGRES}: {TOO_LONG}\n\n\t... 5 more\n'",
    f"'x\n{POSTGRES}: {TOO_LONG}\n\n\t... 5 more\n{CAUSE}'",
    f"'x\n{CAUSE}'",
    f"'x\nCaused by: {SQL}: {POSTGRES}: {TOO_LONG}\n\n\t... 9 more\n'",
    f"'x\nCaused by: {DATA}: {TOO_LONG}\n\n\t... 9 more\n'",
)


@pytest.mark.parametrize("quoted", MADE_UP)
@pytest.mark.parametrize(
    "said",
    [
        "ERROR: deadlock detected",
        "ERROR: what nobody knows",
        "An I/O error occurred while sending to the backend.",
    ],
)
def test_a_record_that_quotes_a_servers_text_is_not_believed(quoted, said):
    trace = chained(batch(said, quoted), f"{POSTGRES}: {said}")
    assert kind_of(trace) is not FailureKind.SINK_DATA


@pytest.mark.parametrize("quoted", MADE_UP)
def test_a_record_that_quotes_a_servers_text_is_not_believed_where_causes_are_apart(quoted):
    trace = (
        f"{PUT}Caused by: org.apache.kafka.connect.errors.ConnectException: x\n"
        "\tat org.example.RowSinkTask.put(RowSinkTask.java:1)\n\t... 3 more\n"
        f"Caused by: {batch('ERROR: deadlock detected', quoted)}\n"
        "\tat org.postgresql.jdbc.PgStatement.executeBatch(PgStatement.java:1)\n\t... 4 more\n"
        f"Caused by: {POSTGRES}: ERROR: deadlock detected\n"
        "\tat org.postgresql.core.v3.QueryExecutorImpl.execute(Q.java:1)\n\t... 5 more\n"
    )
    assert kind_of(trace) is FailureKind.CONNECTIVITY


def test_a_trace_without_such_an_exception_is_left_alone():
    lines = tuple(lines_of(PUT))
    assert rename_by_text(PUT, lines) == lines
