"""Our own decode of what a sink was about to take: which records its converters refuse.

Pure; called by sinks.py. Says where and why, and nothing of what records hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from offsetwatch.model.evidence import RECORDS, Evidence, EvidenceItem
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
    """A record that fails, and where first."""

    suspect: Suspect
    record: RawRecord
    stage: str
    why: str


@dataclass(frozen=True, slots=True)
class DecodeResult:
    """Of all windows.

    unknown    records of which it cannot be told whether the failing stage takes them
    framed     records of which it is seen that they begin as they should, and no more
    whole      nothing that may have been in the failing batch is missing
    """

    bad: tuple[FailingRecord, ...]
    unknown: int
    framed: int
    records: int
    whole: bool

    def evidence(self, by: ConnectorConverters, stage: str) -> Evidence:
        """For people."""
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
    """`stage`: where the task failed."""
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
    """Why this record cannot be the one that fails at this stage, if it cannot."""
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
    """Those that may have failed there: all, where the trace does not tell which."""
    if stage == CONVERTER:
        return CONVERTER_STAGES
    return (stage,) if stage in CONVERTER_STAGES else ()


def has_unknown_converter(by: ConnectorConverters, stage: str) -> bool:
    """Whether one of those that may have failed there is not known at all."""
    return any(
        _map_converters(by)[converter_stage].class_name is None
        for converter_stage in find_converter_stages(stage)
    )


def _map_converters(by: ConnectorConverters) -> dict[str, Converter]:
    return dict(zip(CONVERTER_STAGES, (by.key, by.value, by.header), strict=True))


def _check_record(by: ConnectorConverters, record: RawRecord) -> dict[str, ConversionCheck]:
    """By stage, in the order in which Connect asks."""
    return {
        KEY: check_conversion(by.key, record.key, record.headers),
        VALUE: check_conversion(by.value, record.value, record.headers),
        HEADER: check_header_conversion(by.header, record.headers),
    }
