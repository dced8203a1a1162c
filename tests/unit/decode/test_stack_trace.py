from __future__ import annotations

import pytest

from offsetwatch.decode.stack_trace import (
    ExceptionHeader,
    OmittedFrames,
    StackFrame,
    find_origin,
    lines_of,
)


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
    assert (stack_frame.depth, stack_frame.place) == (1, location)


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
