from __future__ import annotations

import pytest

from offsetwatch.decode.stack_trace import (
    FAILURE_CHARS_MAX,
    TRACE_CHARS_MAX,
    failure_of,
    is_start_failure,
    parse_exception_class,
)
from tests.corpus.cases import CORPUS, Case

WRAPPED = """org.apache.kafka.connect.errors.ConnectException: Unrecoverable exception
\tat org.apache.kafka.connect.runtime.WorkerSourceTask.sendRecords(WorkerSourceTask.java:320)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: org.apache.kafka.common.errors.RecordTooLargeException: The message is 2500088 bytes
"""
CAUSED = """org.example.Outer: key=hunter2
\tat org.example.Outer.wrap(Outer.java:1)
\tSuppressed: org.example.Closing: hunter2
\t\tat org.example.Closing.close(Closing.java:9)
\tCaused by: org.example.Hidden: hunter2
Caused by: java.lang.NullPointerException
\tat java.base/java.util.Objects.requireNonNull(Objects.java:233)
\tat app//org.example.jdbc.Reader$Row.<init>(Reader.java:77) ~[jdbc.jar:?]
\t... 14 more
"""


@pytest.mark.parametrize(
    ("trace", "failure"),
    [
        pytest.param(
            WRAPPED,
            "org.apache.kafka.common.errors.RecordTooLargeException in "
            "WorkerSourceTask.sendRecords",
            id="a-cause-without-frames-borrows-them",
        ),
        pytest.param(
            CAUSED,
            "java.lang.NullPointerException in Reader$Row.<init>",
            id="the-last-cause-and-its-first-frame-outside-the-jdk",
        ),
        pytest.param(
            WRAPPED.replace("\n", "\r\n"),
            "org.apache.kafka.common.errors.RecordTooLargeException in "
            "WorkerSourceTask.sendRecords",
            id="lines-of-windows",
        ),
        pytest.param("org.example.Outer$Inner", "org.example.Outer$Inner", id="no-frames"),
        pytest.param(
            "java.lang.OutOfMemoryError: Java heap space\n\tat java.base/java.util.A.b(A.java:1)",
            "java.lang.OutOfMemoryError in A.b",
            id="nothing-but-the-jdk",
        ),
        pytest.param(
            "org.example.Bad: x\nat org.example.A.b(A.java:1)", "org.example.Bad", id="no-tab"
        ),
        pytest.param("x\norg.example.Bad: hunter2", None, id="a-message-that-begins-like-a-trace"),
        pytest.param("hunter2", None, id="words"),
        pytest.param("password: hunter2", None, id="a-pair"),
        pytest.param("org.example.Bad=hunter2", None, id="no-colon"),
        pytest.param("a." + "B" * FAILURE_CHARS_MAX, None, id="endless-name"),
        pytest.param(
            "org.example.Bad\n\tat org.example.A." + "b" * FAILURE_CHARS_MAX + "(A.java:1)",
            "org.example.Bad",
            id="endless-method",
        ),
        pytest.param("", None, id="empty"),
        pytest.param(None, None, id="none"),
        pytest.param(7, None, id="no-text"),
    ],
)
def test_a_failure_is_its_last_cause_and_where_it_came_from(trace, failure):
    assert failure_of(trace) == failure


def test_an_endless_trace_is_read_to_a_bound():
    endless = "org.example.Bad\n" + "x" * TRACE_CHARS_MAX + "\nCaused by: org.example.Worse"
    assert failure_of(endless) == "org.example.Bad"


def test_what_is_exactly_as_long_as_may_be_is_kept_whole():
    name = "a." + "B" * (FAILURE_CHARS_MAX - 2)
    assert failure_of(name) == name
    longest = "b" * (FAILURE_CHARS_MAX - len("a.Bad in C."))
    assert failure_of(f"a.Bad\n\tat a.C.{longest}(C.java:1)") == f"a.Bad in C.{longest}"
    assert failure_of(f"a.Bad\n\tat a.C.{longest}b(C.java:1)") == "a.Bad"


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CORPUS])
def test_a_failure_of_the_corpus_is_one_at_start_if_connect_was_starting_the_task(case: Case):
    failure = failure_of(case.trace)
    if failure is not None:
        # Connectors start in Worker.startConnector; tasks, which alone read records, do not.
        started = "initializeAndStart" in case.trace or "Worker.startTask" in case.trace
        assert is_start_failure(failure) is (case.stage == "start" and started)


RUNTIME = "org.apache.kafka.connect.runtime"
STARTING = f"\tat {RUNTIME}.WorkerSinkTask.initializeAndStart(WorkerSinkTask.java:338)"


def test_a_message_that_quotes_a_start_does_not_hide_connects_loop_over_records():
    trace = f"org.example.Bad: x\n{STARTING}\n\tat {RUNTIME}.WorkerSinkTask.execute(W.java:2)\n"
    assert failure_of(trace) == "org.example.Bad in WorkerSinkTask.initializeAndStart"


@pytest.mark.parametrize(
    "name", ["Bad", "B" * (FAILURE_CHARS_MAX - len("org.example. while starting"))]
)
def test_a_failure_at_start_says_so_within_the_bound(name):
    failure = failure_of(f"org.example.{name}: hunter2\n{STARTING}\n")
    assert failure is not None
    assert is_start_failure(failure)
    assert len(failure) <= FAILURE_CHARS_MAX
    assert parse_exception_class(failure) == f"org.example.{name}"


@pytest.mark.parametrize(
    "failure", ["a.Bad", "a.Bad in C.b", "a.Bad while starting", "a.Bad in C.b while starting"]
)
def test_the_class_of_a_failure_is_all_before_its_place(failure):
    assert parse_exception_class(failure) == "a.Bad"
