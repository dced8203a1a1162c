"""Stack traces of failed tasks, printed as Java does: classes and calls are those of 4.3, messages
are whatever a record or a library puts there.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_CONNECT: Final = "org.apache.kafka.connect.runtime."
_OPERATOR: Final = _CONNECT + "errors.RetryWithToleranceOperator."
_CLIENTS: Final = "org.apache.kafka.clients.consumer.internals."
_TRANSFORMS: Final = "org.apache.kafka.connect.transforms."
_ERRORS: Final = "org.apache.kafka.common.errors."

Calls = tuple[str, ...]

_THREAD: Final[Calls] = (
    _CONNECT + "WorkerTask.doRun(WorkerTask.java:231)",
    _CONNECT + "WorkerTask.run(WorkerTask.java:286)",
    "java.base/java.util.concurrent.Executors$RunnableAdapter.call(Executors.java:539)",
    "java.base/java.util.concurrent.ThreadPoolExecutor$Worker.run(ThreadPoolExecutor.java:635)",
    "java.base/java.lang.Thread.run(Thread.java:840)",
)
_SINK: Final[Calls] = (
    _CONNECT + "WorkerSinkTask.poll(WorkerSinkTask.java:341)",
    _CONNECT + "WorkerSinkTask.iteration(WorkerSinkTask.java:242)",
    _CONNECT + "WorkerSinkTask.execute(WorkerSinkTask.java:211)",
    *_THREAD,
)
_SOURCE: Final[Calls] = (
    _CONNECT + "AbstractWorkerSourceTask.execute(AbstractWorkerSourceTask.java:376)",
    *_THREAD,
)
_EXECUTE: Final = _OPERATOR + "execute(RetryWithToleranceOperator.java:180)"
_CONVERT: Final[Calls] = (
    _CONNECT + "WorkerSinkTask.convertAndTransformRecord(WorkerSinkTask.java:539)",
    _CONNECT + "WorkerSinkTask.convertMessages(WorkerSinkTask.java:513)",
    *_SINK,
)
_CHAIN: Final = _CONNECT + "TransformationChain.apply(TransformationChain.java:54)"


_SENT: Final = "WorkerSourceTask.maybeThrowProducerSendException(WorkerSourceTask.java:332)"


class _Thrown(NamedTuple):
    """What it says, and its calls, innermost first. Kafka's own errors have none: they are made
    without.
    """

    says: str
    calls: Calls = ()


class _Stage(NamedTuple):
    """Where it fails: what the runtime throws there, and through which calls the cause came."""

    thrown: _Thrown
    through: Calls


def _tolerated(call: str, around: Calls) -> _Stage:
    """What an operator that counts errors is asked to call, from there."""
    return _Stage(
        _Thrown(
            "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler",
            (
                _OPERATOR + "execAndHandleError(RetryWithToleranceOperator.java:260)",
                _EXECUTE,
                *around,
            ),
        ),
        (
            call,
            _OPERATOR + "execAndRetry(RetryWithToleranceOperator.java:208)",
            _OPERATOR + "execAndHandleError(RetryWithToleranceOperator.java:244)",
            _EXECUTE,
            *around,
        ),
    )


def _conversion(which: int) -> _Stage:
    lambda_ = f"{_CONNECT}WorkerSinkTask.lambda$convertAndTransformRecord${which}"
    return _tolerated(f"{lambda_}(WorkerSinkTask.java:539)", _CONVERT)


_STAGES: Final = {
    "key_converter": _conversion(0),
    "value_converter": _conversion(1),
    "header_converter": _conversion(2),
    "transform": _tolerated(
        _CONNECT + "TransformationStage.apply(TransformationStage.java:71)", (_CHAIN, *_CONVERT)
    ),
    "source_transform": _tolerated(
        _CONNECT + "TransformationStage.apply(TransformationStage.java:71)",
        (
            _CHAIN,
            _CONNECT + "AbstractWorkerSourceTask.sendRecords(AbstractWorkerSourceTask.java:405)",
            *_SOURCE,
        ),
    ),
    "put": _Stage(
        _Thrown(
            "org.apache.kafka.connect.errors.ConnectException: Exiting WorkerSinkTask due to "
            "unrecoverable exception.",
            (_CONNECT + "WorkerSinkTask.deliverMessages(WorkerSinkTask.java:632)", *_SINK),
        ),
        (
            "org.example.sink.RowSinkTask.put(RowSinkTask.java:44)",
            _CONNECT + "WorkerSinkTask.deliverMessages(WorkerSinkTask.java:602)",
            *_SINK,
        ),
    ),
    "producer_send": _Stage(
        _Thrown(
            "org.apache.kafka.connect.errors.ConnectException: Unrecoverable exception from "
            "producer send callback",
            (
                _CONNECT + _SENT,
                _CONNECT + "WorkerSourceTask.prepareToSendRecord(WorkerSourceTask.java:136)",
                _CONNECT
                + "AbstractWorkerSourceTask.sendRecords(AbstractWorkerSourceTask.java:415)",
                *_SOURCE,
            ),
        ),
        (),
    ),
    "corrupt": _Stage(
        _Thrown(
            "org.apache.kafka.common.KafkaException: Received exception when fetching the next "
            "record from {topic}-{partition}. If needed, please seek past the record to continue "
            "consumption.",
            (
                _CLIENTS + "CompletedFetch.fetchRecords(CompletedFetch.java:318)",
                _CONNECT + "WorkerSinkTask.pollConsumer(WorkerSinkTask.java:486)",
                *_SINK,
            ),
        ),
        (),
    ),
    "poll": _Stage(
        _Thrown(
            "org.apache.kafka.connect.errors.ConnectException: could not read",
            (
                "org.example.source.RowSourceTask.poll(RowSourceTask.java:63)",
                _CONNECT + "AbstractWorkerSourceTask.poll(AbstractWorkerSourceTask.java:488)",
                *_SOURCE,
            ),
        ),
        (
            "org.example.source.RowSourceTask.poll(RowSourceTask.java:60)",
            _CONNECT + "AbstractWorkerSourceTask.poll(AbstractWorkerSourceTask.java:488)",
            *_SOURCE,
        ),
    ),
    "start": _Stage(
        _Thrown(
            "org.apache.kafka.connect.errors.ConnectException: could not start",
            (
                "org.example.sink.RowSinkTask.start(RowSinkTask.java:31)",
                _CONNECT + "WorkerSinkTask.initializeAndStart(WorkerSinkTask.java:329)",
                *_THREAD,
            ),
        ),
        (
            "org.example.sink.RowSinkTask.start(RowSinkTask.java:28)",
            _CONNECT + "WorkerSinkTask.initializeAndStart(WorkerSinkTask.java:329)",
            *_THREAD,
        ),
    ),
}
_CONVERTED: Final[Calls] = (
    "org.apache.kafka.connect.json.JsonConverter.toConnectData(JsonConverter.java:331)",
    "org.apache.kafka.connect.storage.Converter.toConnectData(Converter.java:86)",
)

# By name, outermost first; calls are those below where the stage came through.
_CAUSES: Final[dict[str, tuple[_Thrown, ...]]] = {
    "data": (
        _Thrown(
            "org.apache.kafka.connect.errors.DataException: Converting byte[] to Kafka Connect "
            "data failed due to serialization error: ",
            _CONVERTED,
        ),
        _Thrown(
            _ERRORS + "SerializationException: com.fasterxml.jackson.core.JsonParseException: "
            "Unrecognized token 'not'"
        ),
    ),
    "transform": (
        _Thrown(
            "org.apache.kafka.connect.errors.DataException: Only Struct objects supported for "
            "[field insertion], found: java.lang.String",
            (
                _TRANSFORMS + "util.Requirements.requireStruct(Requirements.java:52)",
                _TRANSFORMS + "InsertField.applyWithSchema(InsertField.java:160)",
            ),
        ),
    ),
    "sink_data": (
        _Thrown(
            "org.example.sink.BadRowException: value too long for column 3",
            ("org.example.sink.RowWriter.write(RowWriter.java:81)",),
        ),
    ),
    "connectivity": (
        _Thrown("org.apache.kafka.connect.errors.ConnectException: could not reach it"),
        _Thrown(
            "java.net.ConnectException: Connection refused",
            ("java.base/sun.nio.ch.Net.pollConnect(Native Method)",),
        ),
    ),
    "auth": (
        _Thrown(_ERRORS + "TopicAuthorizationException: Not authorized to access topics: [orders]"),
    ),
    "registry": (
        _Thrown(
            "org.apache.kafka.connect.errors.DataException: Failed to deserialize data", _CONVERTED
        ),
        _Thrown(_ERRORS + "SerializationException: Error retrieving schema"),
        _Thrown(
            "java.net.SocketTimeoutException: Read timed out",
            ("java.base/sun.nio.ch.NioSocketImpl.timedRead(NioSocketImpl.java:288)",),
        ),
    ),
    "resource": (_Thrown("java.lang.OutOfMemoryError: Java heap space"),),
    "too_large": (
        _Thrown(
            _ERRORS + "RecordTooLargeException: The message is {size} bytes when serialized which "
            "is larger than {limit}, which is the value of the max.request.size configuration."
        ),
    ),
    "corrupt": (
        _Thrown(
            _ERRORS + "CorruptRecordException: Record batch for partition {topic}-{partition} at "
            "offset {offset} is invalid, cause: Record is corrupt"
        ),
    ),
}


def trace(stage: str, cause: str, **facts: object) -> str:
    """The trace of a failure at a stage. `facts`: topic, partition, offset, size, limit. A cause
    that is not known here is the class of an exception.
    """
    thrown, through = _STAGES[stage]
    lines = [thrown.says, *(f"\tat {call}" for call in thrown.calls)]
    around = thrown.calls
    for each in _CAUSES.get(cause, (_Thrown(cause, ("org.example.Some.where(Some.java:1)",)),)):
        lines.append(f"Caused by: {each.says}")
        if each.says.startswith(_ERRORS):
            continue
        calls = (*each.calls, *through)
        shared = _shared(calls, around)
        lines += [f"\tat {call}" for call in calls[: len(calls) - shared]]
        if shared:
            lines.append(f"\t... {shared} more")
        around = calls
    text = "\n".join(lines) + "\n"
    for name, value in facts.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def _shared(calls: Calls, around: Calls) -> int:
    """How many of the outermost calls a cause has in common with what it caused."""
    count = 0
    while count < min(len(calls), len(around)) and calls[-1 - count] == around[-1 - count]:
        count += 1
    return count
