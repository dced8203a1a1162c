"""Stack traces of failed tasks, in the shape that REST gives them in 4.3: classes and frames are
real, the messages are whatever a record or a library puts there.
"""

from __future__ import annotations

from typing import Final

_OPERATOR: Final = "org.apache.kafka.connect.runtime.errors.RetryWithToleranceOperator"
_THREAD: Final = """\
\tat org.apache.kafka.connect.runtime.WorkerTask.doRun(WorkerTask.java:231)
\tat org.apache.kafka.connect.runtime.WorkerTask.run(WorkerTask.java:286)
\tat java.base/java.util.concurrent.Executors$RunnableAdapter.call(Executors.java:539)
\tat java.base/java.util.concurrent.ThreadPoolExecutor$Worker.run(ThreadPoolExecutor.java:635)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""
_SINK: Final = f"""\
\tat org.apache.kafka.connect.runtime.WorkerSinkTask.poll(WorkerSinkTask.java:341)
\tat org.apache.kafka.connect.runtime.WorkerSinkTask.iteration(WorkerSinkTask.java:242)
\tat org.apache.kafka.connect.runtime.WorkerSinkTask.execute(WorkerSinkTask.java:211)
{_THREAD}"""
_SOURCE: Final = f"""\
\tat org.apache.kafka.connect.runtime.AbstractWorkerSourceTask.sendRecords\
(AbstractWorkerSourceTask.java:415)
\tat org.apache.kafka.connect.runtime.AbstractWorkerSourceTask.execute\
(AbstractWorkerSourceTask.java:376)
{_THREAD}"""
_TOLERANCE: Final = f"""\
org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler
\tat {_OPERATOR}.execAndHandleError(RetryWithToleranceOperator.java:260)
\tat {_OPERATOR}.execute(RetryWithToleranceOperator.java:180)
\tat org.apache.kafka.connect.runtime.WorkerSinkTask.convertAndTransformRecord\
(WorkerSinkTask.java:539)
\tat org.apache.kafka.connect.runtime.WorkerSinkTask.convertMessages(WorkerSinkTask.java:513)
{_SINK}"""
_PUT: Final = f"""\
org.apache.kafka.connect.errors.ConnectException: Exiting WorkerSinkTask due to unrecoverable \
exception.
\tat org.apache.kafka.connect.runtime.WorkerSinkTask.deliverMessages(WorkerSinkTask.java:632)
{_SINK}"""
_REFUSED: Final = f"""\
org.apache.kafka.connect.errors.ConnectException: Unrecoverable exception from producer send \
callback
\tat org.apache.kafka.connect.runtime.WorkerSourceTask.maybeThrowProducerSendException\
(WorkerSourceTask.java:332)
\tat org.apache.kafka.connect.runtime.WorkerSourceTask.prepareToSendRecord\
(WorkerSourceTask.java:136)
{_SOURCE}"""
_UNREADABLE: Final = f"""\
org.apache.kafka.common.KafkaException: Received exception when fetching the next record from \
{{topic}}-{{partition}}. If needed, please seek past the record to continue consumption.
\tat org.apache.kafka.clients.consumer.internals.CompletedFetch.fetchRecords\
(CompletedFetch.java:318)
\tat org.apache.kafka.connect.runtime.WorkerSinkTask.pollConsumer(WorkerSinkTask.java:486)
{_SINK}"""
_POLL: Final = f"""\
org.apache.kafka.connect.errors.ConnectException: could not read
\tat org.example.source.RowSourceTask.poll(RowSourceTask.java:63)
\tat org.apache.kafka.connect.runtime.AbstractWorkerSourceTask.poll\
(AbstractWorkerSourceTask.java:488)
\tat org.apache.kafka.connect.runtime.AbstractWorkerSourceTask.execute\
(AbstractWorkerSourceTask.java:360)
{_THREAD}"""
_START: Final = f"""\
org.apache.kafka.connect.errors.ConnectException: could not start
\tat org.example.sink.RowSinkTask.start(RowSinkTask.java:31)
\tat org.apache.kafka.connect.runtime.WorkerSinkTask.initializeAndStart(WorkerSinkTask.java:329)
{_THREAD}"""

# By stage: what the runtime says, and which lambda of it converts.
_HEADS: Final = {
    "key_converter": (_TOLERANCE, "0"),
    "value_converter": (_TOLERANCE, "1"),
    "header_converter": (_TOLERANCE, "2"),
    "transform": (_TOLERANCE, ""),
    "put": (_PUT, ""),
    "producer_send": (_REFUSED, ""),
    "corrupt": (_UNREADABLE, ""),
    "poll": (_POLL, ""),
    "start": (_START, ""),
}
_CONVERTER: Final = f"""\
\tat org.apache.kafka.connect.json.JsonConverter.toConnectData(JsonConverter.java:331)
\tat org.apache.kafka.connect.storage.Converter.toConnectData(Converter.java:86)
\tat org.apache.kafka.connect.runtime.WorkerSinkTask.lambda$convertAndTransformRecord${{which}}\
(WorkerSinkTask.java:539)
\tat {_OPERATOR}.execAndRetry(RetryWithToleranceOperator.java:208)"""

# By cause, outermost first, each with its frames if it has any.
_CAUSES: Final = {
    "data": f"""\
org.apache.kafka.connect.errors.DataException: Converting byte[] to Kafka Connect data failed due \
to serialization error:
{_CONVERTER}
\tat {_OPERATOR}.execAndHandleError(RetryWithToleranceOperator.java:244)
\t... 11 more
org.apache.kafka.common.errors.SerializationException: the text is no JSON
\tat org.apache.kafka.connect.json.JsonDeserializer.deserialize(JsonDeserializer.java:74)
\tat org.apache.kafka.connect.json.JsonConverter.toConnectData(JsonConverter.java:329)
\t... 15 more
com.fasterxml.jackson.core.JsonParseException: unexpected word
\tat com.fasterxml.jackson.core.JsonParser._constructReadException(JsonParser.java:2675)
\tat com.fasterxml.jackson.databind.ObjectMapper.readTree(ObjectMapper.java:3363)
\tat org.apache.kafka.connect.json.JsonDeserializer.deserialize(JsonDeserializer.java:72)
\t... 16 more""",
    "transform": f"""\
org.apache.kafka.connect.errors.DataException: Only Struct objects supported for [field \
insertion], found: java.lang.String
\tat org.apache.kafka.connect.transforms.util.Requirements.requireStruct(Requirements.java:52)
\tat org.apache.kafka.connect.transforms.InsertField.applyWithSchema(InsertField.java:160)
\tat org.apache.kafka.connect.runtime.TransformationStage.apply(TransformationStage.java:71)
\tat {_OPERATOR}.execAndRetry(RetryWithToleranceOperator.java:208)""",
    "sink_data": """\
org.example.sink.BadRowException: value too long for column 3
\tat org.example.sink.RowWriter.write(RowWriter.java:81)
\tat org.example.sink.RowSinkTask.put(RowSinkTask.java:44)""",
    "connectivity": """\
org.apache.kafka.connect.errors.ConnectException: could not reach it
\tat org.example.sink.RowSinkTask.put(RowSinkTask.java:52)
java.net.ConnectException: Connection refused
\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)""",
    "auth": """\
org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: \
[orders]""",
    "registry": f"""\
org.apache.kafka.connect.errors.DataException: Failed to deserialize data
{_CONVERTER}
org.apache.kafka.common.errors.SerializationException: Error retrieving schema
java.net.SocketTimeoutException: Read timed out
\tat java.base/sun.nio.ch.NioSocketImpl.timedRead(NioSocketImpl.java:288)""",
    "resource": "java.lang.OutOfMemoryError: Java heap space",
    "too_large": """\
org.apache.kafka.common.errors.RecordTooLargeException: The message is {size} bytes when \
serialized which is larger than {limit}, which is the value of the max.request.size \
configuration.""",
    "corrupt": """\
org.apache.kafka.common.errors.CorruptRecordException: Record batch for partition \
{topic}-{partition} at offset {offset} is invalid, cause: Record is corrupt""",
}
CAUSES: Final = frozenset(_CAUSES)
STAGES: Final = frozenset(_HEADS)


def trace(stage: str, cause: str, **facts: object) -> str:
    """The trace of a failure at a stage. `facts`: topic, partition, offset, size, limit. A cause
    that is not known here is the class of an exception.
    """
    head, which = _HEADS[stage]
    causes = [
        line if line.startswith("\t") else f"Caused by: {line}"
        for line in _CAUSES.get(cause, cause).split("\n")
    ]
    text = head + "\n".join(causes) + "\n"
    for name, value in {**facts, "which": which}.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text
