"""Tests."""

from __future__ import annotations

import pytest

from offsetwatch.decode.stack_trace import (
    FAILURE_CHARS_MAX,
    TRACE_CHARS_MAX,
    ExceptionHeader,
    OmittedFrames,
    StackFrame,
    failure_of,
    find_origin,
    is_start_failure,
    lines_of,
    parse_exception_class,
)
from tests.corpus.cases import CORPUS, Case


def line(text):
    """As any but the first."""
    return list(lines_of(f"x\n{text}"))[1]


@pytest.mark.parametrize(
    ("text", "header"),
    [
        pytest.param(
            "Caused by: a.B: no: no", ExceptionHeader(0, "Caused by", "a.B", "no: no"), id="cause"
        ),
        pytest.param("Caused by: a.B", ExceptionHeader(0, "Caused by", "a.B", ""), id="no-message"),
        pytest.param(
            "Caused by: a.B:", ExceptionHeader(0, "Caused by", "a.B", ""), id="empty-message"
        ),
        pytest.param(
            "\tSuppressed: a.b.C$D: no",
            ExceptionHeader(1, "Suppressed", "a.b.C$D", "no"),
            id="suppressed",
        ),
        pytest.param(
            "\t\tCaused by: a.B: no",
            ExceptionHeader(2, "Caused by", "a.B", "no"),
            id="cause-of-suppressed",
        ),
        pytest.param(
            "Caused by: a.B: no\r", ExceptionHeader(0, "Caused by", "a.B", "no"), id="windows"
        ),
        pytest.param(
            "Caused by: a.B: \u2028 \x0b x",
            ExceptionHeader(0, "Caused by", "a.B", "\u2028 \x0b x"),
            id="characters-that-end-lines-elsewhere",
        ),
        pytest.param(
            "Caused by: no class", ExceptionHeader(0, "Caused by", None, ""), id="no-class"
        ),
        pytest.param(
            "Caused by: a.b: x", ExceptionHeader(0, "Caused by", None, ""), id="small-letters"
        ),
        pytest.param(
            "Caused by: [CIRCULAR REFERENCE: a.B: x]",
            ExceptionHeader(0, "Caused by", None, ""),
            id="circle",
        ),
        pytest.param(
            "Caused by: a.\u00c4: x", ExceptionHeader(0, "Caused by", None, ""), id="no-ascii"
        ),
    ],
)
def test_what_begins_an_exception_is_read_or_known_to_be_unreadable(text, header):
    assert line(text) == header


@pytest.mark.parametrize(
    ("text", "location"),
    [
        pytest.param("\tat a.b.C.d(C.java:1)", "a.b.C.d", id="plain"),
        pytest.param("\tat java.base/a.C.<init>(C.java)", "a.C.<init>", id="module"),
        pytest.param("\tat app//a.C.d(Native Method)", "a.C.d", id="loader"),
        pytest.param("\tat l/m@1.2/a.C$D.d(Unknown Source)", "a.C$D.d", id="loader-and-module"),
        pytest.param("\tat a.C.d(C.java:1) ~[a-1.jar:?]", "a.C.d", id="logback"),
        pytest.param("\tat a.C.d(C.java:1)\r", "a.C.d", id="windows"),
        pytest.param("\tat Main.main(Main.java:1)", "Main.main", id="no-package"),
    ],
)
def test_a_call_is_a_package_a_class_and_a_method(text, location):
    stack_frame = line(text)
    assert isinstance(stack_frame, StackFrame)
    assert (stack_frame.depth, stack_frame.qualified_method) == (1, location)


def test_a_call_of_another_shape_is_a_call_without_a_method():
    assert line("\t\tat a.C$$Lambda/0x01.d(x)") == StackFrame(2, "", None, "a.C$$Lambda/0x01.d(x)")


@pytest.mark.parametrize("answer", ["more", "common frames omitted"])
def test_what_is_left_out_is_a_number(answer):
    assert line(f"\t... 14 {answer}") == OmittedFrames(1, 14)


@pytest.mark.parametrize(
    "text", ["at a.C.d(C.java:1)", "\t... more", "\t... 1234567890 more", "a.B: x", "", "Caused by"]
)
def test_other_lines_are_part_of_a_message(text):
    assert line(text) is None


def test_only_the_first_line_begins_an_exception_without_a_word_before_it():
    first, second, _ = lines_of("a.B: x\na.B: x\n")
    assert (first, second) == (ExceptionHeader(0, "", "a.B", "x"), None)


def test_where_a_failure_comes_from_is_not_made_up_by_what_was_suppressed():
    trace = "a.B\n\tat a.B.c(B.java:1)\n\tSuppressed: a.D\n\t\tat a.D.e(D.java:1)\n"
    assert find_origin(lines_of(trace)) == ("a.B", "a.B.c")


def test_causes_without_frames_borrow_them_however_far_out_they_are():
    trace = "a.B\n\tat a.B.c(B.java:1)\nCaused by: a.D\nCaused by: a.E\n"
    assert find_origin(lines_of(trace)) == ("a.E", "a.B.c")


def test_a_first_line_that_begins_no_exception_is_no_line_of_a_traces_own():
    assert list(lines_of("hunter2 and more")) == [None]


# --- failure -------------------------------------------------------------------------------------

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
