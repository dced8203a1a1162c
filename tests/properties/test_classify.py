"""No message makes a record's fault of what is none."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from offsetwatch.decode.stack_trace import ExceptionHeader, lines_of
from offsetwatch.remedy.classify import CHAIN_MAX, SKIPPABLE, Failure, classify
from tests.corpus.cases import CORPUS
from tests.corpus.forging import LISTED, SKIPPED, beginnings, forgeries, with_message

UNSKIPPABLE = tuple(
    (case, listed)
    for case in CORPUS
    if case.name != "shapes/one-line"  # all of it would be a message
    for listed in {case.listed, LISTED}
    if classify(case.trace, listed).kind not in SKIPPABLE
)
LINES = tuple({line for case in CORPUS for line in case.trace.split("\n")})
MADE_UP = st.sampled_from(
    (
        "Caused by: org.apache.kafka.connect.errors.DataException: x",
        "Caused by: org.apache.kafka.common.errors.SerializationException",
        "Caused by: org.apache.kafka.common.errors.RecordTooLargeException: The message is 5 bytes",
        "\tSuppressed: org.apache.kafka.connect.errors.DataException: x",
        "\t... 1 more",
        "\t... 10 more",
        "\t... 999 more",
        "\t\t... 999 more",
        "\tat java.base/java.lang.Thread.run(Thread.java:840)",
    )
)


@st.composite
def pieces(draw):
    """Some lines of a trace that is a record's fault, as they stand there."""
    lines = draw(st.sampled_from(SKIPPED)).trace.split("\n")
    start = draw(st.integers(0, len(lines)))
    return "\n".join(lines[start : draw(st.integers(start, len(lines)))])


MESSAGES = st.lists(
    st.text(max_size=20) | st.sampled_from(LINES) | MADE_UP | pieces(), max_size=5
).flatmap(lambda parts: st.sampled_from(("\n", "\r\n", "\n\n")).map(lambda end: end.join(parts)))


@given(st.sampled_from(UNSKIPPABLE), st.data())
def test_no_message_makes_a_records_fault_of_what_is_none(unskippable, data):
    case, listed = unskippable
    trace = case.trace
    for beginning in reversed(beginnings(trace)):
        if data.draw(st.booleans()):
            trace = with_message(trace, beginning, data.draw(MESSAGES))
    failure = classify(trace, listed)
    assert failure is None or failure.kind not in SKIPPABLE


@pytest.mark.parametrize("share", [5, pytest.param(1, marks=pytest.mark.proof)])
def test_none_of_the_first_things_to_try_makes_a_records_fault_of_what_is_none(share):
    tried, retained = forgeries(), {}
    assert len(tried) > 40
    for case, _ in UNSKIPPABLE:
        listed = case.listed | LISTED
        failure = classify(case.trace, listed)
        if failure.kind not in SKIPPABLE:
            retained.setdefault((failure.chain, failure.stage, listed), case)
    assert len(retained) > 100
    locations = [
        (case, listed, beginning)
        for (_, _, listed), case in retained.items()
        for beginning in beginnings(case.trace)
    ]
    for number, (case, listed, offset) in enumerate(locations):
        for message in tried[number % share :: share]:
            failure = classify(with_message(case.trace, offset, message), listed)
            assert failure is None or failure.kind not in SKIPPABLE, (case.name, offset, message)


def plain(trace):
    """The trace with messages that say nothing."""
    for beginning in reversed(beginnings(trace)):
        trace = with_message(trace, beginning, "x")
    return trace


# What Java throws without frames has no message, and what is said of bytes is Kafka's own.
SAID = tuple(
    case
    for case in SKIPPED
    if case.stage != "poll" and classify(plain(case.trace), case.listed).kind in SKIPPABLE
)


@given(st.sampled_from(SAID), st.data())
def test_the_same_failure_of_another_record_has_the_same_signature(case, data):
    answer = st.text(st.characters(blacklist_characters="\n")) | st.just("a\nb\n\tc")
    trace = case.trace
    for beginning in reversed(beginnings(trace)[1:]):  # the first text is Connect's own
        trace = with_message(trace, beginning, data.draw(answer))
    failure, other = classify(trace, case.listed), classify(plain(case.trace), case.listed)
    assert (failure.signature, failure.kind, failure.stage, failure.chain) == (
        other.signature,
        other.kind,
        other.stage,
        other.chain,
    )


@given(st.sampled_from(SKIPPED), st.data())
def test_whatever_forbids_does_so_in_any_message(case, data):
    at = data.draw(st.sampled_from(beginnings(case.trace)))
    forbids = data.draw(st.sampled_from(("java.net.SocketException", "com.example.Nobody", "no")))
    trace = with_message(case.trace, at, f"x\nCaused by: {forbids}: y")
    assert classify(trace, case.listed).veto is not None


@given(st.sampled_from(SKIPPED), st.data())
def test_what_was_cut_is_never_a_records_fault(case, data):
    cut = case.trace[: data.draw(st.integers(0, len(case.trace) - 2))]
    failure = classify(cut, case.listed)
    whole = [line for line in lines_of(cut) if isinstance(line, ExceptionHeader)]
    # Cut between two lines of Java's, it is whole, but for what is not there.
    if not cut.endswith("\n") or len(whole) < 2:
        assert failure is None or failure.kind not in SKIPPABLE


@given(st.text() | MESSAGES, st.frozensets(st.sampled_from(sorted(LISTED))))
@example("\n", frozenset())
@example("\tat a.B.c(B.java:1)", frozenset())
def test_any_text_has_a_failure_or_none(text, listed):
    failure = classify(text, listed)
    if failure is not None:
        assert isinstance(failure, Failure)
        assert 1 <= len(failure.chain) <= CHAIN_MAX
        assert len(failure.signature) == 16
        assert failure.veto in {None, failure.kind}
