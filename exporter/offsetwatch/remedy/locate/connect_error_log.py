"""Records that Connect itself reports as failed, in the worker's error log and in dead letters.

Writers of records can forge both: a log line follows a trace that quotes records, and a record may
have headers of the same names. So coordinates are only a hint, which the caller compares with all
other facts. A line that is not exactly as Connect writes it invalidates the whole log. Of repeated
headers the last counts, because Connect appends its own. Pure and total.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from offsetwatch.model.records import Headers
from offsetwatch.model.topology import TopicPartition

LOG_CHARS_MAX: Final = 2_000_000  # of the end of a log
LINE_CHARS_MAX: Final = 4_000
_MARK: Final = "Error encountered in task "
_REST: Final = re.compile(
    r"Executing stage '(?P<stage>[A-Z_]{1,40})' with class '(?P<class>[\w.$]{1,300})'"
    r"(?P<record>, where consumed record is \{topic='(?P<topic>[\w.-]{1,249})'"
    r", partition=(?P<partition>[0-9]{1,10}), offset=(?P<offset>[0-9]{1,19})"
    r"(?:, timestamp=-?[0-9]{1,19}, timestampType=[A-Za-z]{1,20})?\})?\."
    r"(?: ?\([\w.$:]{1,200}\))?",
    re.ASCII,
)
_HEADER: Final = "__connect.errors."
_NUMBER: Final = re.compile(r"[0-9]{1,19}", re.ASCII)

# Connect's words for its stages -> classify's.
STAGES: Final = {
    "KEY_CONVERTER": "converter_key",
    "VALUE_CONVERTER": "converter_value",
    "HEADER_CONVERTER": "converter_header",
    "TRANSFORMATION": "transform",
    "TASK_PUT": "put",
}


class Coordinates(NamedTuple):
    """A record that Connect reports as failed: classify's stage and the class that threw."""

    at: TopicPartition
    offset: int
    stage: str
    class_name: str


def parse_error_log(text: str, connector: str) -> frozenset[Coordinates]:
    """Parse the failed records of this connector from the end of a worker's log.

    The result is empty if a line about the connector names no record, or differs from Connect's
    format.
    """
    found = set()
    ours = re.compile(re.escape(connector) + r"-[0-9]{1,9}\. ", re.ASCII)
    for line in text[-LOG_CHARS_MAX:].splitlines():
        before, _, rest = line.partition(_MARK)
        task = ours.match(rest)
        if task is None:
            continue
        said = _REST.fullmatch(rest[task.end() :].rstrip()) if _is_plain(before, line) else None
        coordinates = None if said is None or said["record"] is None else _parse_coordinates(said)
        if coordinates is None:
            return frozenset()
        found.add(coordinates)
    return frozenset(found)


def _is_plain(before: str, line: str) -> bool:
    return len(line) <= LINE_CHARS_MAX and "ERROR" in before and not set(before) & set("'\"{}")


def _parse_coordinates(said: re.Match[str]) -> Coordinates | None:
    stage = STAGES.get(said["stage"])
    if stage is None:
        return None
    partition = TopicPartition(said["topic"], int(said["partition"]))
    return Coordinates(partition, int(said["offset"]), stage, said["class"])


def parse_dead_letters(records: Iterable[Headers], connector: str) -> frozenset[Coordinates]:
    """Parse the failed records of this connector from the headers of dead letters."""
    found = (_parse_dead_letter(headers, connector) for headers in records)
    return frozenset(partition for partition in found if partition is not None)


def _parse_dead_letter(headers: Headers, connector: str) -> Coordinates | None:
    """Parse one dead letter; None for another connector's, or one without context headers."""
    said: dict[str, str] = {}
    for name, value in headers:
        if name.startswith(_HEADER) and value is not None and len(value) <= LINE_CHARS_MAX:
            said[name.removeprefix(_HEADER)] = value.decode(errors="replace")
    stage = STAGES.get(said.get("stage", ""))
    partition, offset = said.get("partition", ""), said.get("offset", "")
    numbers = _NUMBER.fullmatch(partition) and _NUMBER.fullmatch(offset)
    if said.get("connector.name") != connector or stage is None or not numbers:
        return None
    topic_partition = TopicPartition(said.get("topic", ""), int(partition))
    return Coordinates(topic_partition, int(offset), stage, said.get("class.name", ""))
