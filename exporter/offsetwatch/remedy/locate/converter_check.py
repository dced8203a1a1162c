"""Decoding of a sink's next records, to find those that its converters refuse.

Results have positions and reasons, and no content of records. Pure; called by sinks.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from offsetwatch.model.findings import RECORDS, Evidence, EvidenceItem
from offsetwatch.model.records import RawRecord
from offsetwatch.remedy.classify.stages import CONVERTER, HEADER, KEY, PUT, TRANSFORM, VALUE
from offsetwatch.remedy.locate.connector_settings import SinkFacts
from offsetwatch.remedy.locate.converters import (
    ConnectorConverters,
    Converter,
    check_conversion,
    check_header_conversion,
)
from offsetwatch.remedy.locate.json_converter import ConversionCheck, ConversionVerdict
from offsetwatch.remedy.locate.search import Suspect

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
        shown = tuple(
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
            *shown,
        )


def decode_suspects(suspects: Iterable[Suspect], facts: SinkFacts, stage: str) -> DecodeResult:
    """Decode the windows of all suspects. `stage` is where the task failed."""
    looked_at = find_converter_stages(stage)
    bad: list[FailingRecord] = []
    unknown = framed = records = 0
    whole = True
    for suspect in suspects:
        window = suspect.window
        whole &= len(window.records) >= facts.batch or window.next_offset >= window.end
        for record in window.records[: facts.batch]:
            records += 1
            found = _check_record(facts.converters, record)
            failing = next(
                (name for name in found if found[name].reading is ConversionVerdict.FAILS), None
            )
            if failing is not None:
                bad.append(FailingRecord(suspect, record, failing, found[failing].why))
                continue
            readings = {found[name].reading for name in looked_at}
            unknown += ConversionVerdict.UNKNOWN in readings
            framed += (
                ConversionVerdict.FRAMED in readings and ConversionVerdict.UNKNOWN not in readings
            )
    return DecodeResult(tuple(bad), unknown, framed, records, whole)


def find_contradiction(record: RawRecord, facts: SinkFacts, stage: str) -> str | None:
    """Return why this record cannot be the one that fails at this stage; None if it can."""
    found = {name: said.reading for name, said in _check_record(facts.converters, record).items()}
    looked_at = find_converter_stages(stage)
    for earlier in CONVERTER_STAGES:
        if earlier in looked_at:
            break
        if found[earlier] is ConversionVerdict.FAILS:
            return f"it would not even get past {earlier}"
    if looked_at and all(found[name] is ConversionVerdict.FINE for name in looked_at):
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
    """Check the record at each stage, in Connect's order."""
    return {
        KEY: check_conversion(by.key, record.key, record.headers),
        VALUE: check_conversion(by.value, record.value, record.headers),
        HEADER: check_header_conversion(by.header, record.headers),
    }
