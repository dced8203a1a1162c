"""Checksum verification of a range of a log, in a child process.

librdkafka finds a batch with a wrong checksum, reports it, and continues at a wrong position of the
broker's answer. The result is random: with 2.16, a jump to another offset and an assertion that
ends the process were observed. The daemon must survive what it searches for.

So a child reads the range again, one batch at a time, and reports how far it got. If it dies, the
cause may be the following batch, which was fetched before the child could report that the current
one is sound. Other children then read the current offset alone. Only if all of them die, its batch
is corrupt.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from enum import Enum
from signal import SIGABRT, SIGBUS, SIGFPE, SIGSEGV
from typing import Any, Final, NamedTuple

import confluent_kafka as ck

from offsetwatch.model.topology import TopicPartition

POLL_S: Final = 0.1
SINGLE_BATCH_POLL_S: Final = 0.02
CHILD_DEATHS_MAX: Final = 4  # the first, and those that were asked for its place alone
SINGLE_BATCH_BACKOFF_MS: Final = 500  # in which a child says that what it was asked for has come
_CHILD_CODE: Final = (
    "import json, sys; request = json.load(sys.stdin); sys.path[:] = request['path']; "
    "from offsetwatch.clients.records.crc_check import main; main(request)"
)
_EXIT_FINE, _EXIT_BAD, _EXIT_ABANDONED = 0, 3, 4  # 1 and 2 are Python's own
_CRASH_EXIT_CODES: Final = {-SIGABRT, -SIGBUS, -SIGFPE, -SIGSEGV}  # and not by an operator
_BAD_BATCH_CODES: Final = {
    ck.KafkaError._BAD_MSG,  # noqa: SLF001 - librdkafka's local codes are spelt like this
    ck.KafkaError._BAD_COMPRESSION,  # noqa: SLF001
    ck.KafkaError._NOT_IMPLEMENTED,  # noqa: SLF001 - a batch of no format there is
    ck.KafkaError.INVALID_MSG,
}


class ChecksumResult(NamedTuple):
    """Offset up to which the range is known to be sound, and whether the next batch is corrupt."""

    sound_to: int
    corrupt: bool


def is_bad_batch(error: ck.KafkaError) -> bool:
    """Check whether an error is about a batch with a wrong checksum or that cannot be decoded."""
    return error.code() in _BAD_BATCH_CODES


def verify_checksums(
    settings: Mapping[str, Any], partition: TopicPartition, start: int, end: int, timeout_s: float
) -> ChecksumResult:
    """Read from `start` to before `end`, both log offsets, with checksums.

    `settings` are those of a consumer.
    """
    deadline = time.monotonic() + timeout_s
    request: dict[str, Any] = {
        "path": sys.path,
        "settings": {
            name: value
            for name, value in settings.items()
            if not callable(value) and name != "logger"  # of no use there
        },
        "hooks": {
            name: _format_hook_name(value) for name, value in settings.items() if name == "oauth_cb"
        },
        "topic": partition.topic,
        "partition": partition.partition,
    }

    def read(checksum_range: ChecksumRange) -> ChecksumChildResult:
        remaining_s = max(0.0, deadline - time.monotonic())
        part = {**checksum_range._asdict(), "timeout_s": remaining_s}
        return _read_in_child(request | part, remaining_s)

    return verify_range(read, start, end)


class ChecksumChildOutcome(Enum):
    """Outcome of a child: all was sound, a batch was bad, it died, or unknown."""

    FINE = "fine"
    BAD = "bad"
    DIED = "died"
    UNKNOWN = "unknown"


class ChecksumRange(NamedTuple):
    """Range from one offset to before another.

    alone: it is a single offset, and another child died there.
    """

    start: int
    end: int
    alone: bool = False


class ChecksumChildResult(NamedTuple):
    """Outcome of a child, and the offset before which everything is sound."""

    ended: ChecksumChildOutcome
    reached: int


def verify_range(
    read: Callable[[ChecksumRange], ChecksumChildResult], start: int, end: int
) -> ChecksumResult:
    """Return the result for a range; `read` lets a child read a part of it."""
    position, deaths = start, 0
    while position < end:
        alone = deaths > 0
        checksum_range = ChecksumRange(position, position + 1 if alone else end, alone=alone)
        ended, reached = read(checksum_range)
        if ended is ChecksumChildOutcome.FINE:
            position, deaths = checksum_range.end, 0
        elif ended is not ChecksumChildOutcome.DIED:
            return ChecksumResult(min(reached, end), corrupt=ended is ChecksumChildOutcome.BAD)
        elif reached > position:
            position, deaths = min(reached, end), 1
        else:
            deaths += 1
            if deaths == CHILD_DEATHS_MAX:
                return ChecksumResult(position, corrupt=True)
    return ChecksumResult(max(start, end), corrupt=False)


def _read_in_child(request: Mapping[str, Any], timeout_s: float) -> ChecksumChildResult:
    start = request["start"]
    if timeout_s <= 0:
        return ChecksumChildResult(ChecksumChildOutcome.UNKNOWN, start)
    child = subprocess.Popen(  # noqa: S603 - this Python, these words; the rest goes over a pipe
        [sys.executable, "-c", _CHILD_CODE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # an assertion of librdkafka's
        text=True,
    )
    outcomes = {
        _EXIT_FINE: ChecksumChildOutcome.FINE,
        _EXIT_BAD: ChecksumChildOutcome.BAD,
        **dict.fromkeys(_CRASH_EXIT_CODES, ChecksumChildOutcome.DIED),
    }
    with child:
        try:
            output, _ = child.communicate(json.dumps(request), timeout=timeout_s)
        except subprocess.TimeoutExpired:
            child.kill()
            output, _ = child.communicate()
            outcomes = {}
    lines = output.split("\n")[:-1]  # the complete ones, each with an offset that was reached
    return ChecksumChildResult(
        outcomes.get(child.returncode, ChecksumChildOutcome.UNKNOWN),
        max(start, int(lines[-1])) if lines else start,
    )


def _format_hook_name(hook: Any) -> str:
    return f"{hook.__module__}:{hook.__qualname__}"


# --- the child ------------------------------------------------------------------------------------


def main(request: dict[str, Any]) -> None:
    """Read the requested range in the child; print a line for each offset reached."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # records are not printed
    settings = {
        **request["settings"],
        "check.crcs": True,
        "enable.partition.eof": True,
        "fetch.message.max.bytes": 1,  # a broker gives one batch then, whole
        "log_level": 0,
    }
    if request["hooks"]:
        from offsetwatch.config.schema.types import import_function  # noqa: PLC0415 - pydantic takes its time

        settings |= {name: import_function(hook) for name, hook in request["hooks"].items()}
    if request["alone"]:  # a waiting reader takes a batch at once, and the next one is fetched
        settings["fetch.queue.backoff.ms"] = SINGLE_BATCH_BACKOFF_MS
    consumer = ck.Consumer(settings)
    consumer.assign([ck.TopicPartition(request["topic"], request["partition"], request["start"])])
    code = _read_range(consumer, request)
    sys.stdout.flush()
    os._exit(code)  # a client that has met a bad batch may not come to an end


def _read_range(consumer: ck.Consumer, request: Mapping[str, Any]) -> int:
    deadline = time.monotonic() + request["timeout_s"]
    while time.monotonic() < deadline:
        if request["alone"]:
            time.sleep(SINGLE_BATCH_POLL_S)
        message = consumer.poll(0 if request["alone"] else POLL_S)
        if message is None:
            continue
        error, offset = message.error(), message.offset() or 0
        if error is None:
            if offset >= request["end"] - 1:
                return _EXIT_FINE
            print(offset + 1, flush=True)  # noqa: T201 - this is what it is for
        elif error.code() == ck.KafkaError._PARTITION_EOF:  # noqa: SLF001
            return _EXIT_FINE
        elif is_bad_batch(error):
            print(max(offset, request["start"]), flush=True)  # noqa: T201
            return _EXIT_BAD
        elif message.topic() == request["topic"]:
            return _EXIT_ABANDONED
    return _EXIT_ABANDONED
