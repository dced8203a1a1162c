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
from offsetwatch.remedy.locate.converters import Converter, Converters, read, read_headers
from offsetwatch.remedy.locate.json_converter import Reading, Said
from offsetwatch.remedy.locate.search import Suspect

# The order in which a record goes through them.
CONVERTERS: Final = (KEY, VALUE, HEADER)
STAGES: Final = (*CONVERTERS, CONVERTER, TRANSFORM, PUT)
SHOWN_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Bad:
    """A record that fails, and where first."""

    suspect: Suspect
    record: RawRecord
    stage: str
    why: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """Of all windows.

    unknown    records of which it cannot be told whether the failing stage takes them
    framed     records of which it is seen that they begin as they should, and no more
    whole      nothing that may have been in the failing batch is missing
    """

    bad: tuple[Bad, ...]
    unknown: int
    framed: int
    records: int
    whole: bool

    def evidence(self, by: Converters, stage: str) -> Evidence:
        """For people."""
        names = [_converters(by)[at].name for at in converters_at(stage)]
        if not names:
            return ()
        shown = tuple(
            EvidenceItem(
                "fails", f"{at.record.topic}-{at.record.partition}@{at.record.offset}: {at.why}"
            )
            for at in self.bad[:SHOWN_MAX]
        )
        return (
            EvidenceItem("converter", ", ".join(dict.fromkeys(names))),
            EvidenceItem("fail our own decode", len(self.bad), RECORDS),
            EvidenceItem("not decoded", self.unknown + self.framed, RECORDS),
            *shown,
        )


def decode(suspects: Iterable[Suspect], facts: SinkFacts, stage: str) -> Decoded:
    """`stage`: where the task failed."""
    looked_at = converters_at(stage)
    bad: list[Bad] = []
    unknown = framed = records = 0
    whole = True
    for suspect in suspects:
        window = suspect.window
        whole &= len(window.records) >= facts.batch or window.next_offset >= window.end
        for record in window.records[: facts.batch]:
            records += 1
            found = _readings(facts.converters, record)
            failing = next((at for at in found if found[at].reading is Reading.FAILS), None)
            if failing is not None:
                bad.append(Bad(suspect, record, failing, found[failing].why))
                continue
            readings = {found[at].reading for at in looked_at}
            unknown += Reading.UNKNOWN in readings
            framed += Reading.FRAMED in readings and Reading.UNKNOWN not in readings
    return Decoded(tuple(bad), unknown, framed, records, whole)


def against(record: RawRecord, facts: SinkFacts, stage: str) -> str | None:
    """Why this record cannot be the one that fails at this stage, if it cannot."""
    found = {at: said.reading for at, said in _readings(facts.converters, record).items()}
    looked_at = converters_at(stage)
    for earlier in CONVERTERS:
        if earlier in looked_at:
            break
        if found[earlier] is Reading.FAILS:
            return f"it would not even get past {earlier}"
    if looked_at and all(found[at] is Reading.FINE for at in looked_at):
        return f"{stage} takes it"
    return None


def converters_at(stage: str) -> tuple[str, ...]:
    """Those that may have failed there: all, where the trace does not tell which."""
    if stage == CONVERTER:
        return CONVERTERS
    return (stage,) if stage in CONVERTERS else ()


def untold(by: Converters, stage: str) -> bool:
    """Whether one of those that may have failed there is not known at all."""
    return any(_converters(by)[at].class_name is None for at in converters_at(stage))


def _converters(by: Converters) -> dict[str, Converter]:
    return dict(zip(CONVERTERS, (by.key, by.value, by.header), strict=True))


def _readings(by: Converters, record: RawRecord) -> dict[str, Said]:
    """By stage, in the order in which Connect asks."""
    return {
        KEY: read(by.key, record.key, record.headers),
        VALUE: read(by.value, record.value, record.headers),
        HEADER: read_headers(by.header, record.headers),
    }
