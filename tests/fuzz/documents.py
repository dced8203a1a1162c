"""What was written down to be read again, here or by another version, and what people hand in: the
value, or the one kind of error that each reader promises.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any, Final

import msgspec

from offsetwatch.cli.remote.control_client import (
    ControlClient,
    ControlClientReply,
    ControlEndpoint,
    ControlProblem,
)
from offsetwatch.clients.kafka.inspector import parse_api_versions
from offsetwatch.config import properties
from offsetwatch.decode.pgoutput import parse_pgoutput
from offsetwatch.documents import decode as decode_document
from offsetwatch.errors import ClientError, JournalDamaged, MalformedResponse
from offsetwatch.judge.findings.register import FindingsRegister
from offsetwatch.judge.judge import SnapshotJudge
from offsetwatch.judge.settings import JudgeSettings
from offsetwatch.model import history_documents
from offsetwatch.model.records import RawRecord
from offsetwatch.notify import notifier
from offsetwatch.remedy.journal import backups
from offsetwatch.remedy.journal.journal import ChainLine, hash_line
from offsetwatch.remedy.locate import converters
from offsetwatch.remedy.model import journal_records, plan
from offsetwatch.remedy.model.driver import AttemptResult
from offsetwatch.remedy.model.plan import (
    FrozenOffsets,
    PartitionOffset,
    PlanStatus,
    RequestedState,
    ToState,
)
from offsetwatch.remedy.model.quarantine import (
    DamagedCopy,
    QuarantineContext,
    QuarantinedRecord,
    build_file_lines,
    parse_file_head,
    parse_file_lines,
)
from offsetwatch.remedy.replicas import topic_copy
from offsetwatch.serve.documents import findings
from offsetwatch.state.loss import persistence
from offsetwatch.state.loss.accounting import LossAccounting
from offsetwatch.toolbox import documents, lifecycle
from tests.fuzz.targets import Target
from tests.properties.test_decoders import KEYS, VALUES
from tests.unit.remedy.plans import plan_of, skip_of
from tests.unit.serve.worlds import USUAL, full
from tests.unit.state.sources.worlds import World, wal

Read = Callable[[bytes], Any]

_LEAP: Final = {"mark": 7, "first": 3, "cause": "recreated", "since": 1.0, "harmless": False}
_ROW: Final = {
    "partition": 0,
    "behind": 0,
    "position": 5,
    "settled": 5,
    "start": 0,
    "end": 9,
    "moved_at": 1.0,
    "doubt_since": None,
    "leap": tuple(_LEAP.values()),
    "tail": None,
    "lost": (0, 2, 1),
    "pace": (None, None, 1.5, 0.5, ()),
}
_TOPIC: Final = {
    "at": 1.0,
    "id": "abc",
    "recreations": 1,
    "recreated_at": 1.0,
    "before": None,
    "after": "abc",
    "partitions": [tuple(_ROW.values())],
}
_FATES: Final = {
    "version": persistence.VERSION,
    "flows": [{"flow": ["lab", "west", "east"], "topics": {"orders": _TOPIC}}],
    "losses": [],
}
_JOURNAL: Final = (
    journal_records.PlanOpened(at=1.0, plan=plan_of()),
    journal_records.StepIntended(at=1.0, index=0, undoing=False),
    journal_records.StepAnswered(at=1.0, answer=AttemptResult.ACK, said="HTTP 200", definite=True),
    journal_records.OffsetsBackedUp(
        at=1.0,
        frozen=FrozenOffsets((PartitionOffset('{"a":1}', '{"b":2}'),), "backups/x.json", "0" * 64),
    ),
    journal_records.RollbackStarted(
        at=1.0,
        steps=(ToState(RequestedState.RUNNING),),
        cause=next(iter(journal_records.PlanFailureCause)),
        said="a person",
    ),
    journal_records.PlanProposed(at=1.0, plan=skip_of(), mode="propose", expires_at=2.0),
    journal_records.ModeSet(at=1.0, mode=None, by="ada", because="x"),
    journal_records.PauseSet(at=1.0, paused=True, until=None, by="ada", because="x"),
    journal_records.PlanEnded(at=1.0, ending=PlanStatus.SUCCEEDED, said="done"),
    journal_records.LeadershipTaken(at=1.0, name="replica-1"),
)
_RECORD: Final = RawRecord(
    topic="orders",
    partition=0,
    offset=7,
    leader_epoch=None,
    timestamp_ms=1_700_000_000_000,
    timestamp_type="create",
    key=b"k",
    value=b'{"a":1}',
    headers=(("h", b"\x00"), ("i", None)),
)


def _or(read: Read, *errors: type[Exception]) -> Read:
    """It, with the errors that it promises taken as an answer."""

    def run(raw: bytes | None) -> None:
        with suppress(*errors):
            read(raw or b"")

    return run


def _again(
    decode: Callable[[bytes], Any], encode: Callable[[Any], bytes], *errors: type[Exception]
) -> Read:
    """What was read can be written, and then says the same."""

    def run(raw: bytes | None) -> None:
        try:
            text = decode(raw or b"")
        except errors:
            return
        assert decode(encode(text)) == text

    return run


def _quarantined(raw: bytes) -> None:
    lines = raw.splitlines(keepends=True)
    assert isinstance(parse_file_lines(lines), QuarantinedRecord | DamagedCopy)
    parse_file_head(raw)


def _recalled(raw: bytes) -> None:
    accounting = LossAccounting()
    persistence.restore_losses(accounting, raw)
    assert persistence.encode_losses(accounting)


def _recalled_sources(raw: bytes) -> None:
    world = World()
    world.restart(document=raw)
    world.commit(lsn=100)
    world.read(wal(900, sent=100))
    assert world.ends.remembered()


def _build_sources_state() -> bytes:
    world = World()
    world.commit(lsn=100)
    for end in (100, 400):
        world.read(wal(end, sent=100, system_id="7", timeline=1))
    return world.ends.remembered() or b""


def _noticed(raw: bytes) -> None:
    assert isinstance(notifier._decode_entries((msgspec.Raw(raw),)), tuple)


def _converted(raw: bytes) -> None:
    for name in ("json.JsonConverter", "converters.LongConverter", "storage.StringConverter"):
        for envelope in (True, False, None):
            converter = converters.Converter(f"org.apache.kafka.connect.{name}", envelope=envelope)
            assert isinstance(
                converters.check_conversion(converter, raw), converters.ConversionCheck
            )


def _handed_in(raw: bytes) -> None:
    for more in ({}, {"patch_of": "c"}, {"list_of": "c"}):
        document = documents.parse_document(raw, **more)
        if isinstance(document, documents.OffsetsDocument):
            text = documents.format_kip199(
                [(section.connector, section.pairs) for section in document.sections]
            )
            assert text.encode()
    document = lifecycle.parse_request("c", raw)
    assert isinstance(document, lifecycle.CreationRequest | tuple)


def _answered(raw: bytes) -> None:
    """By another daemon's listener."""
    with suppress(MalformedResponse):
        assert isinstance(_build_client().decode(raw, ControlProblem), ControlProblem)
    assert isinstance(
        _build_client().build_error(ControlClientReply(500, raw)), ClientError | JournalDamaged
    )


@cache
def _build_client() -> ControlClient:
    return ControlClient(ControlEndpoint("http://127.0.0.1:1"))


def _line(record: journal_records.AnyRecord) -> bytes:
    body, before = journal_records.encode_record(record), "0" * 64
    sha256 = hash_line(1, 2, "p1", body, before)
    return topic_copy.encode_line(ChainLine(1, 2, "p1", before, sha256, msgspec.Raw(body)))


_BASELINES: Final = history_documents.encode_baselines(
    history_documents.Baselines(made_at=2.0, until=1.0, connectors=(USUAL,))
)
_ABOUT: Final = QuarantineContext("k", "p1", "i1", "orders", "lab", "east")
_DOCUMENTS: Final = (
    b'{"orders":[{"partition":{"f":"a"},"offset":{"p":10}},{"partition":{"f":"b"},"offset":null}]}',
    b'{"offsets":[{"partition":{"kafka_topic":"t","kafka_partition":0},"offset":{"kafka_offset":7}}]}',
    b'[{"partition":{"file":"a"},"offset":{"position":10}}]',
    b'{"name":"c","config":{"connector.class":"FileStreamSource","tasks.max":"1"}}',
    b'{"connector.class":"FileStreamSource","tasks.max":1,"x":true}',
)


# A commit, a relation, an insert, and the truncation of two tables.
_MESSAGES: Final = tuple(
    bytes.fromhex(text)
    for text in (
        "43000000000001d7f6500000000001d7f6800003047ae6219830",
        "52000040057075626c6963006f726465727300640003016964000000001400",
        "4900004005",
        "540000000200000040050000400600",
    )
)
_PROBLEM: Final = (
    b'{"error":"refused","message":"x",'
    b'"guards":[{"guard":"bounds","number":28,"answer":"deny","said":"y"}]}'
)


def _judged() -> tuple[bytes, bytes]:
    judge = SnapshotJudge(JudgeSettings())
    judge.judged(full())
    return judge.remembered() or b"", judge.findings.remembered() or b""


def _targets() -> list[Target]:
    journal = [(journal_records.encode_record(item),) for item in _JOURNAL]
    lines = [(_line(item),) for item in _JOURNAL]
    entry = msgspec.json.encode(notifier.DeliveryEntry(finding=full().findings[0]))
    versions = bytes.fromhex(
        "00000001 0000 00000002 0000 0000 0009 0001 0000 000b".replace(" ", "")
    )
    broken = msgspec.DecodeError
    verdicts, result = _judged()
    table: tuple[tuple[str, Any, Read], ...] = (
        (
            "journal_records",
            journal,
            _again(journal_records.decode_record, journal_records.encode_record, broken),
        ),
        ("journal_lines", lines, _or(topic_copy.decode_line, broken)),
        (
            "plans",
            [(plan.encode_plan(plan_of()),)],
            _again(plan.decode_plan, plan.encode_plan, broken),
        ),
        (
            "backups",
            [(document,) for document in _DOCUMENTS[:1]],
            _or(backups.parse_entries, broken),
        ),
        (
            "baselines",
            [(_BASELINES,)],
            _or(history_documents.decode_baselines, history_documents.DamagedBaselines),
        ),
        ("memory_of_fates", [(msgspec.json.encode(_FATES),)], _or(_recalled, ValueError)),
        (
            "memory_of_verdicts",
            [(verdicts,)],
            _or(lambda raw: SnapshotJudge(JudgeSettings()).recall(raw), ValueError),
        ),
        (
            "memory_of_findings",
            [(result,)],
            _or(FindingsRegister(JudgeSettings()).recall, ValueError),
        ),
        ("memory_of_sources", [(_build_sources_state(),)], _or(_recalled_sources, ValueError)),
        ("memory_of_notices", [(entry,)], _or(_noticed)),
        (
            "findings",
            [(findings.encode_findings(full()),)],
            _or(
                lambda raw: decode_document(raw, findings.FindingsDocument),
                broken,
                UnicodeDecodeError,
                RecursionError,
            ),
        ),
        (
            "quarantine_files",
            [(b"".join(build_file_lines(_RECORD, _ABOUT, 1.0)),)],
            _or(_quarantined),
        ),
        ("converted_records", [(key,) for key in (*KEYS, *VALUES)], _or(_converted)),
        ("handed_in", [(document,) for document in _DOCUMENTS], _or(_handed_in)),
        (
            "worker_files",
            [(b"bootstrap.servers=a:1\n# c\nkey\\ =a\\\n  b\\u00e9\n!x\n",)],
            _or(properties.parse_properties),
        ),
        ("listener_answers", [(_PROBLEM,)], _or(_answered)),
        (
            "api_versions",
            [(versions,)],
            _or(partial(parse_api_versions, "east"), MalformedResponse),
        ),
        ("pgoutput_messages", [(message,) for message in _MESSAGES], _or(parse_pgoutput)),
    )
    return [Target(name, seeds, run) for name, seeds, run in table]


TARGETS: Final = _targets()
