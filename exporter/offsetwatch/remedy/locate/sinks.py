"""Identification of the record that blocks a sink. Pure.

A sink takes a batch of up to max.poll.records, converts it, transforms it and passes it to put().
When a batch fails, only the offsets before it are committed. So the record is in the window that
begins at the committed offset of a partition that does not advance, and a skip is exact only if it
is the first there.

Each method below names a record only if it excludes all others. All methods must name the same
record, decoding must not contradict them, and its offset must be the committed one. Otherwise no
record is identified, and settings of Connect are recommended instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from offsetwatch.formatting import format_count
from offsetwatch.model.findings import PARTITIONS, RECORDS, Evidence, EvidenceItem
from offsetwatch.model.records import Headers, RawRecord
from offsetwatch.model.topology import TopicPartition
from offsetwatch.remedy.classify.trace_meanings import CONVERTER, HEADER, KEY, PUT, TRANSFORM, VALUE
from offsetwatch.remedy.locate import recommendations
from offsetwatch.remedy.locate.converters import (
    ConnectorConverters,
    ConversionCheck,
    ConversionVerdict,
    Converter,
    check_conversion,
    check_header_conversion,
)
from offsetwatch.remedy.locate.search import (
    NoIdentification,
    PartitionReading,
    ReadPosition,
    SearchAnswer,
    SinkFacts,
    SinkSubject,
    Suspect,
    build_identified_record,
    find_only_corrupt,
    find_suspects,
    parse_fields,
    read_whole_number,
    refuse_by_failure,
    refuse_by_offsets,
)
from offsetwatch.remedy.model.plan import PartitionOffset

# The order in which a record goes through them.
CONVERTER_STAGES: Final = (KEY, VALUE, HEADER)
STAGES: Final = (*CONVERTER_STAGES, CONVERTER, TRANSFORM, PUT)
EXAMPLES_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class FailingRecord:
    """A record that fails, and the first stage at which it does."""

    suspect: Suspect
    record: RawRecord
    stage: str
    why: str


@dataclass(frozen=True, slots=True)
class DecodeResult:
    """Result of decoding all windows.

    unknown    records for which it is unknown whether the failing stage accepts them
    framed     records with a valid frame whose content was not decoded
    whole      every record that may have been in the failing batch is included
    """

    bad: tuple[FailingRecord, ...]
    unknown: int
    framed: int
    records: int
    whole: bool

    def evidence(self, by: ConnectorConverters, stage: str) -> Evidence:
        """Return the result as evidence for users."""
        names = [
            _map_converters(by)[converter_stage].name
            for converter_stage in find_converter_stages(stage)
        ]
        if not names:
            return ()
        items = tuple(
            EvidenceItem(
                "fails",
                f"{failing.record.topic}-{failing.record.partition}@{failing.record.offset}: "
                f"{failing.why}",
            )
            for failing in self.bad[:EXAMPLES_MAX]
        )
        return (
            EvidenceItem("converter", ", ".join(dict.fromkeys(names))),
            EvidenceItem("fail our own decode", len(self.bad), RECORDS),
            EvidenceItem("not decoded", self.unknown + self.framed, RECORDS),
            *items,
        )


def decode_suspects(suspects: Iterable[Suspect], facts: SinkFacts, stage: str) -> DecodeResult:
    """Decode the windows of all suspects. `stage` is where the task failed."""
    converter_stages = find_converter_stages(stage)
    bad: list[FailingRecord] = []
    unknown = framed = records = 0
    whole = True
    for suspect in suspects:
        window = suspect.window
        whole &= len(window.records) >= facts.batch or window.next_offset >= window.end
        for record in window.records[: facts.batch]:
            records += 1
            checks = _check_record(facts.converters, record)
            failing = next(
                (name for name in checks if checks[name].reading is ConversionVerdict.FAILS), None
            )
            if failing is not None:
                bad.append(FailingRecord(suspect, record, failing, checks[failing].why))
                continue
            readings = {checks[name].reading for name in converter_stages}
            unknown += ConversionVerdict.UNKNOWN in readings
            framed += (
                ConversionVerdict.FRAMED in readings and ConversionVerdict.UNKNOWN not in readings
            )
    return DecodeResult(tuple(bad), unknown, framed, records, whole)


def find_contradiction(record: RawRecord, facts: SinkFacts, stage: str) -> str | None:
    """Return why this record cannot be the one that fails at this stage; None if it can."""
    verdicts = {
        name: said.reading for name, said in _check_record(facts.converters, record).items()
    }
    converter_stages = find_converter_stages(stage)
    for earlier in CONVERTER_STAGES:
        if earlier in converter_stages:
            break
        if verdicts[earlier] is ConversionVerdict.FAILS:
            return f"it would not even get past {earlier}"
    if converter_stages and all(
        verdicts[name] is ConversionVerdict.FINE for name in converter_stages
    ):
        return f"{stage} takes it"
    return None


def find_converter_stages(stage: str) -> tuple[str, ...]:
    """Return the converter stages that may have failed: all if the trace does not name one."""
    if stage == CONVERTER:
        return CONVERTER_STAGES
    return (stage,) if stage in CONVERTER_STAGES else ()


def has_unknown_converter(by: ConnectorConverters, stage: str) -> bool:
    """Return whether a converter that may have failed at this stage is unknown."""
    return any(
        _map_converters(by)[converter_stage].class_name is None
        for converter_stage in find_converter_stages(stage)
    )


def _map_converters(by: ConnectorConverters) -> dict[str, Converter]:
    return dict(zip(CONVERTER_STAGES, (by.key, by.value, by.header), strict=True))


def _check_record(by: ConnectorConverters, record: RawRecord) -> dict[str, ConversionCheck]:
    return {
        KEY: check_conversion(by.key, record.key, record.headers),
        VALUE: check_conversion(by.value, record.value, record.headers),
        HEADER: check_header_conversion(by.header, record.headers),
    }


OFFSET_FIELD: Final = "kafka_offset"
SINGLE_FAILURES_MIN: Final = 2  # failures, one record at a time, at the same offset

_METHODS: Final = ("decode", "only_record", "one_at_a_time", "error_log", "dead_letter", "checksum")


class _Pointer(NamedTuple):
    method: str
    partition: TopicPartition
    offset: int


def parse_sink_position(pair: PartitionOffset) -> ReadPosition | None:
    """Return the next record's position, which is committed; None if the pair is not a sink's."""
    partition, offset = parse_fields(pair.partition), parse_fields(pair.offset)
    topic, number = partition.get("kafka_topic"), read_whole_number(partition, "kafka_partition")
    committed = read_whole_number(offset, OFFSET_FIELD)
    if not isinstance(topic, str) or number is None or committed is None:
        return None
    return ReadPosition(TopicPartition(topic, number), committed)


def find_in_sink(
    subject: SinkSubject,
    readings: Mapping[TopicPartition, PartitionReading],
    letters: tuple[Headers, ...] | None = (),
    uncommitted: frozenset[TopicPartition] | None = None,
) -> SearchAnswer:
    """Identify the record that blocks a sink, or return why none can be identified.

    letters        the headers of its newest dead letters; None if they could not be read
    uncommitted    partitions with records for which it has committed no offset yet; None if unknown
    """
    denied = refuse_sink(subject)
    if denied is not None:
        return denied
    assert subject.failure is not None
    suspects = find_suspects(subject.partitions, parse_sink_position, readings)
    if isinstance(suspects, NoIdentification):
        return suspects
    if subject.failure.kind == "corrupt":
        return _find_corrupt_record(subject, suspects)
    return _Search(subject, suspects, letters, uncommitted).answer()


def refuse_sink(subject: SinkSubject) -> NoIdentification | None:
    """Return why no log needs to be read; None if logs have to be read."""
    return _refuse_by_stage(subject) or refuse_by_offsets(subject.partitions, parse_sink_position)


def _refuse_by_stage(subject: SinkSubject) -> NoIdentification | None:
    failure, facts = subject.failure, subject.facts
    if failure is None:
        return NoIdentification(
            "no_failure",
            "no task of it has failed: it waits or retries, as for a target that is unreachable; "
            "no record is known to be the cause",
        )
    denied = refuse_by_failure(failure)
    if denied is not None or failure.kind == "corrupt":
        return denied
    if failure.stage not in STAGES:
        return NoIdentification(
            "stage_unknown",
            "it is unknown at which stage it failed, so a record may not be the cause",
        )
    if failure.stage != PUT and facts.tolerant is not False:
        return NoIdentification(
            "tolerance_already_on",
            "it tolerates errors (errors.tolerance), or may: a record that cannot be converted or "
            "transformed would not have ended its task",
        )
    return None


def _find_corrupt_record(subject: SinkSubject, suspects: tuple[Suspect, ...]) -> SearchAnswer:
    suspect = find_only_corrupt(suspects)
    if isinstance(suspect, NoIdentification):
        return suspect
    record = suspect.reading.salvaged
    assert record is not None
    if record.offset != suspect.position.next:
        return _explain_gap(suspect, record)
    return build_identified_record(
        subject.kafka, suspect, record, ("checksum",), (), (recommendations.OTHER_REPLICAS,)
    )


def _explain_gap(suspect: Suspect, record: RawRecord) -> NoIdentification:
    return NoIdentification(
        "gap_at_committed",
        f"{suspect.position.next} is committed, where no record is any more: {record.offset} is "
        "the first after it; only a person skips over what is not there",
    )


class _Search:
    """A search for the record on which a converter, a transform or put() fails."""

    def __init__(
        self,
        subject: SinkSubject,
        suspects: tuple[Suspect, ...],
        letters: tuple[Headers, ...] | None,
        uncommitted: frozenset[TopicPartition] | None,
    ) -> None:
        assert subject.failure is not None
        self._subject = subject
        self._facts = subject.facts
        self._stage = subject.failure.stage or ""
        self._suspects = suspects
        self._letters = letters
        self._uncommitted = uncommitted
        self._converters = find_converter_stages(self._stage)
        self._decoded = decode_suspects(suspects, self._facts, self._stage)
        recommended = recommendations.recommend_for_sink(
            self._stage, subject.class_name, subject.profile
        )
        followed = recommendations.ONE_AT_A_TIME if self._facts.batch_max == 1 else None
        self._recommend = tuple(text for text in recommended if text != followed)

    def answer(self) -> SearchAnswer:
        """Return the record that all methods name, if its offset is the committed one."""
        if any(suspect.window.corrupt_at is not None for suspect in self._suspects):
            return self._refuse(
                "window_corrupt",
                "a record that it will come to is corrupt, which is not what it failed for",
            )
        if len(self._decoded.bad) > 1:
            return NoIdentification(
                "more_than_one_record_fails",
                f"{len(self._decoded.bad)} of {self._decoded.records} records fail our own decode: "
                "that is what is written there, and not one record",
                self._evidence(),
                (recommendations.CHECK_PRODUCER, *self._recommend),
            )
        pointers = sorted(
            set(self._pointers()), key=lambda candidate: _METHODS.index(candidate.method)
        )
        if len({(pointer.partition, pointer.offset) for pointer in pointers}) > 1:
            return self._disagree(pointers)
        if not pointers:
            return self._explain_no_method()
        return self._check_pointers(pointers)

    # --- methods -------------------------------------------------------------------------------

    def _pointers(self) -> Iterator[_Pointer]:
        decoded = self._decoded
        if decoded.whole and not decoded.unknown:
            yield from (
                _Pointer("decode", failing.suspect.position.partition, failing.record.offset)
                for failing in decoded.bad
                if failing.stage in self._converters
            )
        yield from self._point_to_only_record()
        if self._facts.logs_records and self._subject.log is not None:
            said = parse_error_log(self._subject.log, self._subject.connector)
            yield from self._point_by_report("error_log", said)
        if self._facts.dead_letters is not None and self._letters is not None:
            said = parse_dead_letters(self._letters, self._subject.connector)
            yield from self._point_by_report("dead_letter", said)

    def _point_to_only_record(self) -> Iterator[_Pointer]:
        """Yield the only record in the window, if there is no other that it could have failed on.

        An exception from put() may be about an earlier record, unless the sink is known not to
        buffer.
        """
        suspect = self._find_only_suspect()
        if suspect is None:
            return
        window = suspect.window
        pointer = _Pointer("", suspect.position.partition, window.records[0].offset)
        if len(window.records) == 1 and window.next_offset >= window.end:
            yield pointer._replace(method="only_record")
        if self._facts.batch_max == 1 and self._subject.failures_alone >= SINGLE_FAILURES_MIN:
            yield pointer._replace(method="one_at_a_time")

    def _find_only_suspect(self) -> Suspect | None:
        """Return the partition in whose window the record certainly is; None if that is unknown."""
        put_is_certain = self._stage != PUT or self._subject.put_at_once
        all_known = self._uncommitted is not None and not self._uncommitted
        if len(self._suspects) != 1 or not all_known or not put_is_certain:
            return None
        suspect = self._suspects[0]
        if suspect.partition.moved is not False:
            return None  # what is committed may be another one than when it failed
        return suspect if suspect.window.records else None

    def _point_by_report(
        self, method: str, coordinates: frozenset[Coordinates]
    ) -> Iterator[_Pointer]:
        """Yield the records that Connect reported for this stage from the committed offset on."""
        positions = (parse_sink_position(partition.pair) for partition in self._subject.partitions)
        committed = {
            position.partition: position.next for position in positions if position is not None
        }
        for said in coordinates:
            here = said.stage == self._stage or said.stage in self._converters
            if here and said.offset >= committed.get(said.partition, 0):
                yield _Pointer(method, said.partition, said.offset)

    # --- answers -------------------------------------------------------------------------------

    def _check_pointers(self, pointers: list[_Pointer]) -> SearchAnswer:
        _, partition, offset = pointers[0]
        suspect = next(
            (suspect for suspect in self._suspects if suspect.position.partition == partition), None
        )
        if suspect is None:
            return self._disagree(pointers, "nothing there stands still")
        where, window = f"{partition.topic}-{partition.partition}@{offset}", suspect.window
        record = next((record for record in window.records if record.offset == offset), None)
        if record is None and offset < window.next_offset:
            return self._refuse("record_is_gone", f"{where} failed, and is no longer there")
        if record is None or record is not window.records[0]:
            return self._refuse(
                "committed_before_poison",
                f"{where} fails, and {suspect.position.next} is committed: a skip would also skip "
                "the good records in between",
                EvidenceItem("fails", where),
            )
        if offset != suspect.position.next:
            return _explain_gap(suspect, record)
        contradiction = find_contradiction(record, self._facts, self._stage)
        if contradiction is not None:
            return self._disagree(pointers, contradiction)
        methods = tuple(pointer.method for pointer in pointers)
        assert record.offset == suspect.position.next
        return build_identified_record(
            self._subject.kafka, suspect, record, methods, self._evidence(), self._recommend
        )

    def _disagree(self, pointers: list[_Pointer], contradiction: str = "") -> NoIdentification:
        said = tuple(
            EvidenceItem(method, f"{partition.topic}-{partition.partition}@{offset}")
            for method, partition, offset in pointers
        )
        more = (EvidenceItem("against it", contradiction),) if contradiction else ()
        return NoIdentification(
            "methods_disagree",
            "what is known of the record that fails contradicts itself",
            (*said, *more, *self._evidence()),
            self._recommend,
        )

    def _explain_no_method(self) -> NoIdentification:
        decoded = self._decoded
        if not self._converters:
            return self._explain_too_few_failures() or self._explain_ambiguous_window()
        if not decoded.whole:
            return self._refuse(
                "window_too_large", "what it takes at once is more than is read of a log here"
            )
        if decoded.bad and not decoded.unknown:
            bad = decoded.bad[0]
            return self._refuse(
                "methods_disagree",
                f"{bad.record.offset} fails our own decode at {bad.stage}, and the task failed at "
                f"{self._stage}",
            )
        if decoded.unknown or decoded.framed:
            too_few = self._explain_too_few_failures()
            if too_few is not None:
                return too_few
            if has_unknown_converter(self._facts.converters, self._stage):
                self._recommend = (*self._recommend, recommendations.GIVE_WORKER_PROPERTIES)
            return self._refuse(
                "not_decoded",
                f"{decoded.unknown + decoded.framed} of {format_count(decoded.records, 'record')} "
                "cannot be decoded here as its converter does it",
            )
        return self._refuse(
            "nothing_fails_here",
            f"none of {format_count(decoded.records, 'record')} fails our own decode",
        )

    def _explain_ambiguous_window(self) -> NoIdentification:
        records = f"any of {format_count(self._decoded.records, 'record')}"
        if self._stage == PUT and not self._subject.put_at_once:
            said = (
                f"{records}, or an earlier one, may be the one: a put() that retains records may "
                "throw for one that it was given before"
            )
        else:
            said = (
                f"{records} may be the one: what a transform or put() makes of them is not visible "
                "from outside"
            )
        return self._refuse("ambiguous_window", said)

    def _explain_too_few_failures(self) -> NoIdentification | None:
        """Return that it has to fail again; None if that would identify no record."""
        if self._facts.batch_max != 1 or self._find_only_suspect() is None:
            return None
        return self._refuse(
            "not_failed_again",
            "it takes one record at a time (max.poll.records=1), and has yet to fail "
            f"{SINGLE_FAILURES_MIN} times since offsetwatch observed that: restart its failed "
            "task, and again after its next failure",
        )

    def _refuse(self, reason: str, said: str, *more: EvidenceItem) -> NoIdentification:
        return NoIdentification(reason, said, (*more, *self._evidence()), self._recommend)

    def _evidence(self) -> Evidence:
        """Return the evidence for users, without content of records."""
        evidence = (
            EvidenceItem("stage", self._stage),
            EvidenceItem("stand still", len(self._suspects), PARTITIONS),
            EvidenceItem("inspected", self._decoded.records, RECORDS),
        )
        dead_letters = EvidenceItem("dead letters", "could not be read")
        unread = (dead_letters,) if self._letters is None else ()
        return (*evidence, *unread, *self._decoded.evidence(self._facts.converters, self._stage))


# --- records that Connect itself reports as failed ------------------------------------------------
# Writers of records can forge both: a log line follows a trace that quotes records, and a record
# may have headers of the same names. So coordinates are only a hint, which is compared with all
# other facts. A line that is not exactly as Connect writes it invalidates the whole log. Of
# repeated headers the last counts, because Connect appends its own.

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
REPORTED_STAGES: Final = {
    "KEY_CONVERTER": "converter_key",
    "VALUE_CONVERTER": "converter_value",
    "HEADER_CONVERTER": "converter_header",
    "TRANSFORMATION": "transform",
    "TASK_PUT": "put",
}


class Coordinates(NamedTuple):
    """A record that Connect reports as failed: classify's stage and the class that threw."""

    partition: TopicPartition
    offset: int
    stage: str
    class_name: str


def parse_error_log(text: str, connector: str) -> frozenset[Coordinates]:
    """Parse the failed records of this connector from the end of a worker's log.

    The result is empty if a line about the connector names no record, or differs from Connect's
    format.
    """
    coordinates = set()
    pattern = re.compile(re.escape(connector) + r"-[0-9]{1,9}\. ", re.ASCII)
    for line in text[-LOG_CHARS_MAX:].splitlines():
        before, _, rest = line.partition(_MARK)
        task = pattern.match(rest)
        if task is None:
            continue
        is_short = len(line) <= LINE_CHARS_MAX
        is_plain = is_short and "ERROR" in before and not set(before) & set("'\"{}")
        said = _REST.fullmatch(rest[task.end() :].rstrip()) if is_plain else None
        if said is None or said["record"] is None or said["stage"] not in REPORTED_STAGES:
            return frozenset()
        partition = TopicPartition(said["topic"], int(said["partition"]))
        stage = REPORTED_STAGES[said["stage"]]
        coordinates.add(Coordinates(partition, int(said["offset"]), stage, said["class"]))
    return frozenset(coordinates)


def parse_dead_letters(records: Iterable[Headers], connector: str) -> frozenset[Coordinates]:
    """Parse the failed records of this connector from the headers of dead letters.

    Letters of another connector, or without context headers, are left out.
    """
    coordinates = set()
    for headers in records:
        said = {
            name.removeprefix(_HEADER): value.decode(errors="replace")
            for name, value in headers
            if name.startswith(_HEADER) and value is not None and len(value) <= LINE_CHARS_MAX
        }
        stage = REPORTED_STAGES.get(said.get("stage", ""))
        number, offset = said.get("partition", ""), said.get("offset", "")
        numbers = _NUMBER.fullmatch(number) and _NUMBER.fullmatch(offset)
        if said.get("connector.name") == connector and stage is not None and numbers:
            partition = TopicPartition(said.get("topic", ""), int(number))
            coordinates.add(Coordinates(partition, int(offset), stage, said.get("class.name", "")))
    return frozenset(coordinates)
