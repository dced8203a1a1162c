"""The check of a stretch of a log by its checksums, in a process of its own.

librdkafka finds a batch that fails its sum, tells it, and goes on at a wrong place of the broker's
answer. What it takes that for is chance: seen with 2.16 were a jump to another offset and an
assertion that ends the process. The daemon must not end by what it is to find. So a child reads the
stretch again, one batch at a time, and says how far it got; if it dies on the way, there it was.

Called by clients.records_read.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from signal import SIGABRT, SIGBUS, SIGFPE, SIGSEGV
from typing import Any, Final, NamedTuple

import confluent_kafka as ck

from exporter.model.topology import TopicPartition

POLL_S: Final = 0.1
_CHILD: Final = (
    "import json, sys; asked = json.load(sys.stdin); sys.path[:] = asked['path']; "
    "from exporter.clients.records_check import main; main(asked)"
)
_FINE, _BAD, _GIVEN_UP = 0, 3, 4  # 1 and 2 are Python's own
_DIED: Final = {-SIGABRT, -SIGBUS, -SIGFPE, -SIGSEGV}  # and not by somebody's hand
_BAD_BATCH: Final = {
    ck.KafkaError._BAD_MSG,  # noqa: SLF001 - librdkafka's local codes are spelt like this
    ck.KafkaError._BAD_COMPRESSION,  # noqa: SLF001
    ck.KafkaError._NOT_IMPLEMENTED,  # noqa: SLF001 - a batch of no format there is
    ck.KafkaError.INVALID_MSG,
}


class Checked(NamedTuple):
    """How far the stretch is known to be sound, and whether what comes next is known not to be."""

    sound_to: int
    corrupt: bool


def bad_batch(error: ck.KafkaError) -> bool:
    """Whether this event is about a batch that fails its sum or cannot be decoded."""
    return error.code() in _BAD_BATCH


def check(
    settings: Mapping[str, Any], at: TopicPartition, start: int, end: int, timeout_s: float
) -> Checked:
    """Read from `start` to before `end`, both offsets of the log, with checksums. `settings` are a
    consumer's.
    """
    if start >= end:
        return Checked(end, corrupt=False)
    asked = {
        "path": sys.path,
        "settings": {
            name: value
            for name, value in settings.items()
            if not callable(value) and name != "logger"  # of no use there
        },
        "hooks": {name: _named(value) for name, value in settings.items() if name == "oauth_cb"},
        "topic": at.topic,
        "partition": at.partition,
        "start": start,
        "end": end,
        "timeout_s": timeout_s,
    }
    child = subprocess.Popen(  # noqa: S603 - this Python, these words; the rest goes over a pipe
        [sys.executable, "-c", _CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # an assertion of librdkafka's
        text=True,
    )
    with child:
        try:
            told, _ = child.communicate(json.dumps(asked), timeout=timeout_s)
        except subprocess.TimeoutExpired:
            child.kill()
            told, _ = child.communicate()
            return Checked(_reached(told, start), corrupt=False)
    reached = _reached(told, start)
    if child.returncode == _FINE:
        return Checked(end, corrupt=False)
    return Checked(min(reached, end), corrupt=child.returncode in {_BAD, *_DIED})


def _named(hook: Any) -> str:
    return f"{hook.__module__}:{hook.__qualname__}"


def _reached(told: str, start: int) -> int:
    """By its last whole line."""
    lines = told.split("\n")[:-1]
    return max(start, int(lines[-1])) if lines else start


# --- the child ------------------------------------------------------------------------------------


def main(asked: dict[str, Any]) -> None:
    """Read what is asked for; one line for each position that was reached."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # records are nobody's business
    settings = {
        **asked["settings"],
        "check.crcs": True,
        "enable.partition.eof": True,
        "fetch.message.max.bytes": 1,  # a broker gives one batch then, whole
        "log_level": 0,
    }
    if asked["hooks"]:
        from exporter.config.types import function_of  # noqa: PLC0415 - pydantic takes its time

        settings |= {name: function_of(hook) for name, hook in asked["hooks"].items()}
    consumer = ck.Consumer(settings)
    consumer.assign([ck.TopicPartition(asked["topic"], asked["partition"], asked["start"])])
    code = _read(consumer, asked)
    sys.stdout.flush()
    os._exit(code)  # a client that has met a bad batch may not come to an end


def _read(consumer: ck.Consumer, asked: Mapping[str, Any]) -> int:
    deadline = time.monotonic() + asked["timeout_s"]
    while time.monotonic() < deadline:
        message = consumer.poll(POLL_S)
        if message is None:
            continue
        error, offset = message.error(), message.offset() or 0
        if error is None:
            if offset >= asked["end"] - 1:
                return _FINE
            print(offset + 1, flush=True)  # noqa: T201 - this is what it is for
        elif error.code() == ck.KafkaError._PARTITION_EOF:  # noqa: SLF001
            return _FINE
        elif bad_batch(error):
            print(max(offset, asked["start"]), flush=True)  # noqa: T201
            return _BAD
        elif message.topic() == asked["topic"]:
            return _GIVEN_UP
    return _GIVEN_UP
