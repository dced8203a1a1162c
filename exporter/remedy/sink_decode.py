"""Our own decode of what a sink was about to take: which records its converters refuse.

Pure; called by poison_sinks.py. Says where and why, and nothing of what records hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from exporter.model.records import RawRecord
from exporter.remedy.connector_facts import SinkFacts
from exporter.remedy.formats import Converter, Converters, read, read_headers
from exporter.remedy.json_format import Reading, Said
from exporter.remedy.poison import Evidence, Suspect

# The order in which a record goes through them.
CONVERTERS: Final = ("converter_key", "converter_value", "converter_header")
STAGES: Final = (*CONVERTERS, "transform", "put")
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

    def evidence(self, converter: Converter) -> Evidence:
        """For people."""
        shown = tuple(
            ("fails", f"{at.record.topic}-{at.record.partition}@{at.record.offset}: {at.why}")
            for at in self.bad[:SHOWN_MAX]
        )
        return (
            ("converter", converter.name),
            ("records that fail our own decode", str(len(self.bad))),
            ("records not decoded", str(self.unknown + self.framed)),
            *shown,
        )


def decode(suspects: Iterable[Suspect], facts: SinkFacts, stage: str) -> Decoded:
    """`stage`: where the task failed."""
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
            elif stage in found:
                unknown += found[stage].reading is Reading.UNKNOWN
                framed += found[stage].reading is Reading.FRAMED
    return Decoded(tuple(bad), unknown, framed, records, whole)


def against(record: RawRecord, facts: SinkFacts, stage: str) -> str | None:
    """Why this record cannot be the one that fails at this stage, if it cannot."""
    found = _readings(facts.converters, record)
    for earlier in CONVERTERS:
        reading = found[earlier].reading
        if earlier == stage:
            return f"{stage} takes it" if reading is Reading.FINE else None
        if reading is Reading.FAILS:
            return f"it would not even get past {earlier}"
    return None


def converter_of(converters: Converters, stage: str) -> Converter:
    """The one that is at work there."""
    return dict(
        zip(CONVERTERS, (converters.key, converters.value, converters.header), strict=True)
    )[stage]


def _readings(by: Converters, record: RawRecord) -> dict[str, Said]:
    """By stage, in the order in which Connect asks."""
    return {
        "converter_key": read(by.key, record.key, record.headers),
        "converter_value": read(by.value, record.value, record.headers),
        "converter_header": read_headers(by.header, record.headers),
    }
