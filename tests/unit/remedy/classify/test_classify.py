"""What classify says of the corpus, and how much of what is a record's fault it sees."""

from __future__ import annotations

from collections import Counter

import pytest

from offsetwatch.decode.stack_trace import TRACE_CHARS_MAX
from offsetwatch.remedy.classify import CHAIN_MAX, SKIPPABLE, FailureKind, classify, may_be_listed
from tests.corpus.cases import CORPUS

CONNECT = "org.apache.kafka.connect.errors.ConnectException"
DATA = "org.apache.kafka.connect.errors.DataException"
TOO_LARGE = "org.apache.kafka.common.errors.RecordTooLargeException"
LARGE = "The message is 2500088 bytes when serialized which is larger than 1048576"
RUNTIME = "\tat org.apache.kafka.connect.runtime."
BOTTOM = (
    f"{RUNTIME}WorkerTask.doRun(WorkerTask.java:243)\n"
    f"{RUNTIME}WorkerTask.run(WorkerTask.java:298)\n"
    "\tat java.base/java.lang.Thread.run(Thread.java:1583)\n"
)
POLL = (
    f"{RUNTIME}WorkerSinkTask.poll(WorkerSinkTask.java:359)\n"
    f"{RUNTIME}WorkerSinkTask.execute(WorkerSinkTask.java:225)\n{BOTTOM}"
)
PUT = (
    f"{CONNECT}: Exiting WorkerSinkTask due to unrecoverable exception.\n"
    f"{RUNTIME}WorkerSinkTask.deliverMessages(WorkerSinkTask.java:658)\n{POLL}"
)
PUT_FRAMES = 6
SENT = (
    f"{CONNECT}: Unrecoverable exception from producer send callback\n"
    f"{RUNTIME}WorkerSourceTask.maybeThrowProducerSendException(WorkerSourceTask.java:348)\n"
    f"{RUNTIME}AbstractWorkerSourceTask.execute(AbstractWorkerSourceTask.java:376)\n{BOTTOM}"
)
OPERATOR = f"{RUNTIME}errors.RetryWithToleranceOperator"
ROW = "\tat org.example.RowSinkTask.put(RowSinkTask.java:70)\n"
DELIVER = f"{RUNTIME}WorkerSinkTask.deliverMessages(WorkerSinkTask.java:628)\n"
MORE = "\t... 6 more\n"
REST = f"\t... {PUT_FRAMES - 1} more\n"


def converting(*calls, cause=DATA):
    """A sink's converter that failed: `calls` of Connect between it and what catches."""
    lambdas = "".join(f"{RUNTIME}{call}(WorkerSinkTask.java:560)\n" for call in calls)
    return (
        f"{CONNECT}: Tolerance exceeded in error handler\n"
        f"{OPERATOR}.execAndHandleError(RetryWithToleranceOperator.java:259)\n"
        f"{RUNTIME}WorkerSinkTask.convertAndTransformRecord(WorkerSinkTask.java:558)\n{POLL}"
        f"Caused by: {cause}: x\n"
        "\tat org.apache.kafka.connect.json.JsonConverter.toConnectData(JsonConverter.java:348)\n"
        f"{lambdas}"
        f"{OPERATOR}.execAndHandleError(RetryWithToleranceOperator.java:243)\n{MORE}"
    )


def kind_of(trace, *listed):
    return classify(trace, frozenset(listed)).kind


@pytest.mark.parametrize("text", ["", "\n", "hunter2", "x\norg.example.Bad: x\n"])
def test_a_text_without_a_line_of_a_trace_has_no_failure(text):
    assert classify(text) is None


@pytest.mark.parametrize(
    ("trace", "chain"),
    [
        ("org.example.Bad", ("org.example.Bad",)),
        ("ElasticsearchException[x]\n\tat a.B.c(B.java:1)\n", ("?",)),
        ("a.B: x\nCaused by: Error : 7\nCaused by: a.C\n", ("a.B", "?", "a.C")),
        ("x\n\tSuppressed: a.B: x\n", ("?",)),
        ("a.B: x\nSuppressed: a.C: x\n", ("a.B",)),
    ],
)
def test_what_cannot_be_read_is_an_unknown_failure(trace, chain):
    failure = classify(trace)
    assert (failure.kind, failure.chain) == (FailureKind.UNKNOWN, chain)


@pytest.mark.parametrize(
    ("calls", "stage"),
    [
        (("WorkerSinkTask.lambda$convertAndTransformRecord$0",), "converter_key"),
        (("WorkerSinkTask.lambda$convertAndTransformRecord$1",), "converter_value"),
        (("WorkerSinkTask.lambda$convertAndTransformRecord$2",), "converter_header"),
        (("WorkerSinkTask.lambda$convertAndTransformRecord$4",), "converter_value"),
        (("WorkerSinkTask.lambda$convertAndTransformRecord$9",), "converter"),
        (
            (
                "WorkerSinkTask.convertKey",
                "WorkerSinkTask.lambda$convertAndTransformRecord$4",
            ),
            "converter_key",
        ),
        ((), "converter"),
    ],
)
def test_which_converter_it_was_is_distinguished_from_connects_calls(calls, stage):
    failure = classify(converting(*calls))
    assert (failure.kind, failure.stage, failure.veto) == (FailureKind.DESERIALIZATION, stage, None)


def test_a_converter_that_does_not_reach_the_network_does_not_reach_its_registry():
    timed_out = "Caused by: java.net.SocketTimeoutException: x\n\t... 9 more\n"
    failure = classify(converting() + timed_out)
    assert (failure.kind, failure.veto) == (FailureKind.REGISTRY_DOWN, FailureKind.REGISTRY_DOWN)
    assert failure.chain == (CONNECT, DATA, "java.net.SocketTimeoutException")
    assert kind_of(
        PUT + f"Caused by: java.net.SocketTimeoutException: x\n{ROW}{DELIVER}{REST}"
    ) is (FailureKind.TIMEOUT)


def test_of_two_that_forbid_the_deeper_one_is_named_and_an_unknown_one_last():
    answer = (
        f"{DATA}: x\nCaused by: javax.net.ssl.SSLException\nCaused by: java.net.ConnectException"
    )
    assert kind_of(f"{answer}\n") is FailureKind.CONNECTIVITY
    assert kind_of(f"{answer}\nCaused by: org.example.Bad\n") is FailureKind.CONNECTIVITY
    assert kind_of(f"{DATA}: x\nCaused by: org.example.Bad\n") is FailureKind.UNKNOWN


def test_what_a_sink_throws_is_its_record_only_where_configuration_says_so():
    trace = PUT + f"Caused by: org.example.BadRow: x\n{ROW}{DELIVER}{REST}"
    assert kind_of(trace) is FailureKind.UNKNOWN
    assert kind_of(trace, "org.example.BadRow") is FailureKind.SINK_DATA
    assert kind_of(trace, "org.example.Other") is FailureKind.UNKNOWN


def test_what_configuration_lists_counts_in_a_sink_only():
    trace = converting(cause="org.example.BadRow")
    assert kind_of(trace, "org.example.BadRow") is FailureKind.UNKNOWN


@pytest.mark.parametrize(
    "name", ["java.net.SocketException", "org.postgresql.util.PSQLException", CONNECT]
)
def test_no_list_makes_a_record_of_what_forbids_or_says_nothing(name):
    trace = PUT + f"Caused by: {name}: x\n{ROW}{DELIVER}{REST}"
    assert kind_of(trace, name) is not FailureKind.SINK_DATA
    assert not may_be_listed(name)


@pytest.mark.parametrize("name", [DATA, "org.example.BadRow", "java.sql.SQLDataException"])
def test_what_is_a_records_or_unknown_may_be_listed(name):
    assert may_be_listed(name)


@pytest.mark.parametrize(
    ("common", "kind"),
    [
        pytest.param(PUT_FRAMES, FailureKind.SINK_DATA, id="more-than-the-wrapper-can-have"),
        pytest.param(PUT_FRAMES - 1, FailureKind.UNKNOWN, id="as-much-as-the-wrapper-has"),
        pytest.param(1, FailureKind.UNKNOWN, id="of-another-thread"),
    ],
)
def test_below_a_wrapper_the_last_count_says_whether_anything_is_below_it(common, kind):
    trace = (
        f"{PUT}Caused by: java.lang.RuntimeException: x\n{ROW}{DELIVER}{REST}"
        f"Caused by: {DATA}: x\n\tat org.example.RowSinkTask.row(RowSinkTask.java:90)\n"
    )
    assert kind_of(f"{trace}\t... {common} more\n", DATA) is kind


def test_a_cause_without_frames_is_below_a_wrapper_because_wrappers_have_frames():
    trace = f"{PUT}Caused by: java.lang.RuntimeException: x\n{ROW}{DELIVER}{REST}"
    bare = "org.apache.kafka.common.errors.SerializationException"
    assert kind_of(f"{trace}Caused by: {bare}: x\n", bare) is FailureKind.SINK_DATA
    assert kind_of(f"{trace}Caused by: {bare}: x\ny\n", bare) is FailureKind.SINK_DATA


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        pytest.param("java.lang.NullPointerException", FailureKind.SINK_DATA, id="thrown-by-java"),
        pytest.param("java.lang.NullPointerException: x", FailureKind.UNKNOWN, id="it-says-more"),
        pytest.param("java.lang.NullPointerException\nx", FailureKind.UNKNOWN, id="words-below"),
        pytest.param(DATA, FailureKind.UNKNOWN, id="always-with-frames"),
    ],
)
def test_an_exception_that_has_frames_and_shows_none_was_cut(cause, kind):
    assert kind_of(f"{PUT}Caused by: {cause}\n", "java.lang.NullPointerException", DATA) is kind


@pytest.mark.parametrize(
    "other",
    [
        pytest.param("\tSuppressed: a.B: x\n\t\t... 9 more\n\t... 9 more\n", id="suppressed"),
        pytest.param("Caused by: java.text.ParseException: x\n\t... 99 more\n", id="not-listed"),
        pytest.param("Caused by: java.lang.RuntimeException: x\n\t... 9 more\n", id="wrapper"),
    ],
)
def test_below_a_wrapper_nothing_else_may_be_the_last(other):
    below = f"Caused by: {DATA}: x\n\tat org.example.RowSinkTask.row(RowSinkTask.java:90)\n"
    trace = (
        f"{PUT}Caused by: java.lang.RuntimeException: x\n{ROW}{DELIVER}{REST}{below}\t... 9 more\n"
    )
    assert kind_of(trace, DATA, "a.B") is FailureKind.SINK_DATA
    assert kind_of(trace + other, DATA, "a.B") is FailureKind.UNKNOWN


FETCH = "\tat org.apache.kafka.clients.consumer.internals.CompletedFetch."
FETCHED = (
    "org.apache.kafka.common.KafkaException: Received exception when fetching the next record\n"
    f"{FETCH}fetchRecords(CompletedFetch.java:257)\n"
    f"{RUNTIME}WorkerSinkTask.pollConsumer(WorkerSinkTask.java:512)\n{BOTTOM}"
)
CHECKED = (
    "Caused by: org.apache.kafka.common.KafkaException: Record batch is invalid\n"
    f"{FETCH}maybeEnsureValid(CompletedFetch.java:158)\n"
    f"{FETCH}nextFetchedRecord(CompletedFetch.java:201)\n"
    f"{FETCH}fetchRecords(CompletedFetch.java:272)\n"
)


@pytest.mark.parametrize(
    ("trace", "kind"),
    [
        pytest.param(f"{FETCHED}{CHECKED}\t... 4 more\n", FailureKind.CORRUPT, id="as-kafka-does"),
        pytest.param(f"{FETCHED}{CHECKED}\t... 3 more\n", FailureKind.UNKNOWN, id="another-count"),
        pytest.param(
            f"{FETCHED}{CHECKED}\t... 4 more\nx\n\t... 4 more\n",
            FailureKind.UNKNOWN,
            id="something-below",
        ),
        pytest.param(
            f"{FETCHED}{CHECKED}{FETCH}x(C.java:1)\n\t... 4 more\n",
            FailureKind.UNKNOWN,
            id="another-call",
        ),
        pytest.param(
            FETCHED.replace(FETCH, f"{FETCH}fetchRecords(C.java:1)\n{FETCH}")
            + f"{CHECKED}\t... 5 more\n",
            FailureKind.UNKNOWN,
            id="fetched-twice",
        ),
        pytest.param(
            FETCHED.replace("fetchRecords", "close") + f"{CHECKED}\t... 4 more\n",
            FailureKind.UNKNOWN,
            id="not-fetching",
        ),
        pytest.param(
            FETCHED.replace(FETCH, f"{FETCH}x(C.java:1)\n{FETCH}") + f"{CHECKED}\t... 5 more\n",
            FailureKind.UNKNOWN,
            id="thrown-above-it",
        ),
        pytest.param(
            FETCHED.replace(BOTTOM, f"\tat org.example.Probe.call(Probe.java:1)\n{BOTTOM}")
            + f"{CHECKED}\t... 5 more\n",
            FailureKind.UNKNOWN,
            id="calls-of-others",
        ),
        pytest.param(
            f"{FETCHED}{CHECKED}\t... 4 more\n".replace(
                "org.apache.kafka.common.KafkaException: Received", "java.lang.RuntimeException: x"
            ),
            FailureKind.UNKNOWN,
            id="not-kafkas-own",
        ),
        pytest.param(
            f"{FETCHED}{CHECKED}\t... 4 more\n".replace(
                "org.apache.kafka.common.KafkaException: Record", "java.lang.RuntimeException: x"
            ),
            FailureKind.UNKNOWN,
            id="another-failed-there",
        ),
        pytest.param(
            f"{PUT}{CHECKED}\t... {PUT_FRAMES - 1} more\n",
            FailureKind.UNKNOWN,
            id="fetched-by-the-sinks-own-code",
        ),
        pytest.param(
            f"{FETCHED}Caused by: org.apache.kafka.common.InvalidRecordException: x\n",
            FailureKind.CORRUPT,
            id="an-exception-that-says-so",
        ),
        pytest.param(
            f"{SENT}Caused by: org.apache.kafka.common.InvalidRecordException: x\n",
            FailureKind.UNKNOWN,
            id="said-by-a-broker",
        ),
    ],
)
def test_bytes_are_corrupt_where_kafka_checks_what_it_fetched(trace, kind):
    assert kind_of(trace) is kind


@pytest.mark.parametrize(
    ("answer", "size"),
    [
        (f"{LARGE}, which is the value of the max.request.size configuration.", 2500088),
        ("The request included a message larger than the server will accept.", None),
        ("The message is 5 bytes when serialized which is larger than <b>", None),
        ("x The message is 5 bytes when serialized which is larger than 1", None),
        ("The message is 12345678901 bytes when serialized which is larger than 1", None),
        ("", None),
    ],
)
def test_how_large_a_record_is_is_in_the_producers_own_sentence(answer, size):
    failure = classify(f"{SENT}Caused by: {TOO_LARGE}: {answer}\n")
    assert (failure.kind, failure.size_bytes) == (FailureKind.PRODUCER_SIZE, size)


def test_what_is_said_twice_of_a_records_size_is_not_known():
    answer = (
        f"Caused by: {TOO_LARGE}: The message is 5 bytes when serialized which is larger than 1\n"
    )
    assert classify(SENT + answer).size_bytes == 5
    assert classify(SENT + answer * 2).size_bytes is None


def test_a_size_is_said_of_a_record_that_is_too_large_alone():
    answer = f"{TOO_LARGE}: The message is 5 bytes when serialized which is larger than 1\n"
    assert classify(f"{SENT}Caused by: {answer}Caused by: java.io.IOException\n").size_bytes is None
    assert classify(answer).size_bytes is None


def test_the_signature_knows_neither_the_line_nor_what_compilers_count():
    one, other = "WorkerSinkTask.convertKey", "WorkerSinkTask.convertValue"
    lambdas = [converting(f"org.example.Row$Lambda${n}", one) for n in (1, 22)]
    assert classify(lambdas[0]).signature == classify(lambdas[1]).signature
    assert classify(converting(one)).signature == (
        classify(converting(one).replace(":348)", ":1)")).signature
    )
    assert classify(converting(one)).signature != classify(converting(other)).signature
    assert classify(converting(one)).signature != (
        classify(converting(one, cause="java.lang.NullPointerException")).signature
    )
    assert classify(converting(one)).signature != (
        classify(converting(one).replace("JsonConverter.to", "TextConverter.to")).signature
    )


def test_nothing_is_known_for_sure_of_a_trace_that_is_longer_than_what_is_read():
    line = "x" * 1000 + "\n"
    long = converting().replace(f"{DATA}: x\n", f"{DATA}: x\n{line * (TRACE_CHARS_MAX // 1000)}")
    assert kind_of(converting().replace(f"{DATA}: x\n", f"{DATA}: x\n{line * 100}")) is (
        FailureKind.DESERIALIZATION
    )
    assert kind_of(long) is FailureKind.UNKNOWN


def test_more_causes_than_java_has_are_not_believed():
    causes = f"Caused by: {DATA}: x\n\tat a.B.c(B.java:1)\n\t... 9 more\n"
    assert kind_of(converting() + causes * (CHAIN_MAX - 2)) is FailureKind.DESERIALIZATION
    failure = classify(converting() + causes * (CHAIN_MAX - 1))
    assert (failure.kind, len(failure.chain)) == (FailureKind.UNKNOWN, CHAIN_MAX)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda t: t[:-1], id="no-last-line-break"),
        pytest.param(lambda t: "ERROR x\n" + t, id="a-line-before-it"),
        pytest.param(
            lambda t: t.replace(RUNTIME, "    at org.apache.kafka.connect.runtime."), id="no-tabs"
        ),
        pytest.param(
            lambda t: t.replace(POLL, f"\tat org.example.Probe.call(Probe.java:1)\n{POLL}"),
            id="calls-of-others",
        ),
        pytest.param(lambda t: t.replace(POLL, f"{RUNTIME}x y\n{POLL}"), id="a-call-of-no-shape"),
        pytest.param(lambda t: t.replace(POLL, f"x\n{POLL}"), id="words-between"),
        pytest.param(
            lambda t: t.replace(POLL, f"\t{RUNTIME}WorkerTask.x(WorkerTask.java:1)\n{POLL}"),
            id="a-call-of-something-suppressed",
        ),
        pytest.param(lambda t: t.replace("\nCaused by: ", "\nx\nCaused by: "), id="words-below"),
        pytest.param(lambda t: f"{CONNECT}: x\n{t[t.index('Caused by: ') :]}", id="no-calls"),
        pytest.param(lambda t: t.replace(POLL, f"\t... 3 more\n{POLL}"), id="a-count-between"),
        pytest.param(
            lambda t: t.replace("\nCaused by: ", "\n\tSuppressed: a.B: x\nCaused by: ", 1),
            id="something-suppressed",
        ),
        pytest.param(
            lambda t: t.replace(POLL, f"{OPERATOR}.execAndHandleError(R.java:1)\n{POLL}"),
            id="thrown-twice",
        ),
        pytest.param(
            lambda t: t.replace(
                POLL, f"{RUNTIME}WorkerSourceTask.maybeCreateTopic(W.java:1)\n{POLL}"
            ),
            id="a-topics-name",
        ),
        pytest.param(
            lambda t: t.replace(f"{CONNECT}: T", "java.lang.RuntimeException: T"),
            id="not-connects-own",
        ),
        pytest.param(
            lambda t: t.removesuffix("\t... 6 more\n") + f"{POLL}", id="a-whole-stack-below"
        ),
        pytest.param(
            lambda t: f"{t.removesuffix(MORE)}{POLL}\t\t... 6 more\n",
            id="a-whole-stack-and-a-count-of-something-else",
        ),
        pytest.param(lambda t: t[: t.rindex(OPERATOR)], id="cut-between-calls"),
        pytest.param(
            lambda t: t.replace(f"{DATA}: x\n", f"{DATA}: x\n  {RUNTIME.strip()}\n"),
            id="calls-with-spaces-before-them",
        ),
    ],
)
def test_what_is_not_quite_as_connect_writes_it_is_unknown(change):
    assert kind_of(change(converting())) is FailureKind.UNKNOWN


RUN = "\tat org.example.Sender.run(Sender.java:240)\n"


@pytest.mark.parametrize(
    ("last", "kind"),
    [
        pytest.param(RUN, FailureKind.SINK_DATA, id="of-another-thread"),
        pytest.param(RUN.replace(".run(", ".runOnce("), FailureKind.UNKNOWN, id="cut"),
        pytest.param(RUN.replace("(", " ("), FailureKind.UNKNOWN, id="of-no-shape"),
    ],
)
def test_a_stack_without_a_count_ends_with_the_call_that_began_its_thread(last, kind):
    trace = f"{PUT}Caused by: org.example.BadRow: x\n\tat org.example.Row.of(Row.java:7)\n{last}"
    assert kind_of(trace, "org.example.BadRow") is kind


def test_calls_without_an_exception_are_a_failure_of_which_nothing_is_known():
    failure = classify(f"x\n{ROW}y\n")
    assert (failure.kind, failure.chain, failure.stage) == (FailureKind.UNKNOWN, ("?",), "unknown")


def test_an_exception_that_something_above_was_caused_by_is_not_the_outermost():
    failure = classify(f"Caused by: {converting()}")
    assert (failure.kind, failure.chain) == (FailureKind.UNKNOWN, ("?", DATA))


def test_what_was_suppressed_reports_neither_the_stage_nor_a_cause():
    closing = f"\t{ROW}\t{RUNTIME}WorkerSinkTask.deliverMessages(WorkerSinkTask.java:628)\n"
    trace = f"a.B: x\n\tSuppressed: a.C: x\n{closing}\tCaused by: a.D: x\n\t\t... 9 more\n{ROW}"
    failure = classify(trace)
    assert (failure.stage, failure.chain) == ("unknown", ("a.B",))


def test_what_configuration_lists_forbids_as_anything_unknown_where_the_trace_is_cut():
    trace = PUT + f"Caused by: org.example.BadRow: x\n{ROW}{DELIVER}{REST}"
    assert classify(trace, frozenset({"org.example.BadRow"})).veto is None
    assert classify(trace[:-1], frozenset({"org.example.BadRow"})).veto is FailureKind.UNKNOWN


def test_as_much_as_is_read_may_be_all_there_is():
    more = TRACE_CHARS_MAX - len(converting())
    messages = [
        converting().replace(f"{DATA}: x\n", f"{DATA}: x{'x' * (more + over)}\n") for over in (0, 1)
    ]
    assert [len(text) - TRACE_CHARS_MAX for text in messages] == [0, 1]
    assert [kind_of(text) for text in messages] == [
        FailureKind.DESERIALIZATION,
        FailureKind.UNKNOWN,
    ]


def test_a_configured_exception_class_is_the_cause_in_put_under_any_caller():
    trace = PUT.replace(
        POLL, f"{RUNTIME}WorkerSinkTask.convertMessages(WorkerSinkTask.java:1)\n{POLL}"
    )
    failure = classify(f"{trace}Caused by: a.B: x\n{ROW}{DELIVER}{REST}", frozenset({"a.B"}))
    assert (failure.kind, failure.stage) == (FailureKind.SINK_DATA, "put")


def test_what_was_suppressed_does_not_say_what_kind_it_is():
    closing = (
        "\tSuppressed: org.apache.kafka.connect.errors.SchemaBuilderException: x\n\t\t... 9 more\n"
    )
    assert kind_of(converting() + closing) is FailureKind.DESERIALIZATION


@pytest.mark.parametrize(
    ("wrapper", "frames"),
    [
        pytest.param(f"{ROW}{DELIVER}{REST}", 2 + PUT_FRAMES - 1, id="with-a-count"),
        pytest.param(RUN * 9, 9, id="of-another-thread"),
    ],
)
def test_below_two_wrappers_the_last_count_is_more_than_either_can_have(wrapper, frames):
    wrapped = "Caused by: java.lang.RuntimeException: x\n"
    trace = f"{PUT}{wrapped}{wrapper}{wrapped}{ROW}\t... 1 more\nCaused by: {DATA}: x\n{ROW}"
    assert kind_of(f"{trace}\t... {frames + 1} more\n", DATA) is FailureKind.SINK_DATA
    assert kind_of(f"{trace}\t... {frames} more\n", DATA) is FailureKind.UNKNOWN


def test_a_cause_that_has_nothing_in_common_is_not_known_to_be_below_its_wrapper():
    thrown = f"{RUNTIME}WorkerSinkTask.deliverMessages(WorkerSinkTask.java:658)\n"
    trace = f"{CONNECT}: x\n{thrown}Caused by: java.lang.RuntimeException: x\n{RUN}"
    assert kind_of(f"{trace}Caused by: {DATA}: x\n{RUN}", DATA) is FailureKind.UNKNOWN
    assert kind_of(f"{trace}Caused by: {DATA}: x\n\t... 1 more\n", DATA) is FailureKind.SINK_DATA


# --- corpus --------------------------------------------------------------------------------------

POISON = [case for case in CORPUS if case.is_poison]


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_a_trace_is_what_its_label_says(case):
    result = case.classified()
    assert (result.kind, result.stage) == (case.says, case.stage)


def test_nothing_that_forbids_is_taken_for_a_records_fault():
    others = [case for case in CORPUS if not case.is_poison]
    assert len(others) >= 200
    assert [case.name for case in others if case.classified().kind in SKIPPABLE] == []


def test_what_forbids_is_said_and_what_does_not_is_not():
    for case in CORPUS:
        failure = case.classified()
        assert failure.veto in {None, failure.kind}, case.name
        assert failure.veto not in SKIPPABLE, case.name


def test_every_kind_of_failure_is_in_the_corpus_and_no_trace_is_twice():
    assert len(CORPUS) >= 300
    assert {case.truth for case in CORPUS} == set(FailureKind)
    assert len({case.name for case in CORPUS}) == len(CORPUS)
    assert len({(case.trace, case.listed) for case in CORPUS}) == len(CORPUS)


def test_most_of_what_is_a_records_fault_is_observed_as_such():
    chosen = [case for case in POISON if not case.thread]
    observed = [case for case in chosen if case.classified().kind in SKIPPABLE]
    by_truth = Counter(case.truth for case in CORPUS)
    reports = [f"{len(CORPUS)} traces, {len(POISON)} of them one record's fault"]
    for kind in FailureKind:
        known = sum(case.truth is kind for case in observed)
        reports.append(f"{kind:16}{by_truth[kind]:4}" + f", {known} seen" * (kind in SKIPPABLE))
    reports.append(
        f"recall {len(observed) / len(chosen):.3f}, and none of the others taken for one"
    )
    print("\n".join(reports))  # noqa: T201 - what `pytest -rP` is for
    assert len(observed) / len(chosen) >= 0.8


def test_public_threads_report_many_classes_of_sinks():
    threads = [case for case in CORPUS if case.thread]
    assert len(threads) >= 80
    assert all(case.thread.startswith("https://") and case.restart for case in threads)
    assert len({case.thread.split("/")[4] for case in threads}) >= 30  # repositories
    assert {case.says for case in threads} >= {
        FailureKind.SINK_DATA,
        FailureKind.DESERIALIZATION,
        FailureKind.CONNECTIVITY,
        FailureKind.AUTH,
        FailureKind.CONFIG,
        FailureKind.UNKNOWN,
    }


def test_without_a_list_no_failure_in_a_sink_is_a_records_fault():
    for case in CORPUS:
        if case.stage == "put":
            failure = type(case)(
                case.name, case.trace, case.truth, case.says, case.stage, frozenset()
            ).classified()
            assert failure.kind not in SKIPPABLE, case.name
