"""Classification of a stack trace: the kind of failure, and whether one record may be to blame.

In: a trace as Connect returns it. Out: a kind of failure, or UNKNOWN. Classes and calls decide, and
no message but a server's own texts (error_texts.py): messages quote records, and the author of a
record can make up lines that look like classes and calls. A made-up line can only forbid a skip:

* What forbids counts wherever it is. No message can remove a line of Java's (stack_trace.py),
  so a class that forbids is found whatever is written around it.
* What allows has to be where no message reaches. The first line's class is Java's. Where Connect
  throws with texts of its own, its frames follow at once and are none but Connect's and the JDK's:
  the line after them is Java's again, and with it the first cause's class. _find_root also refuses
  a trace in which the first exception's frames could be anywhere else. That class must itself be
  one that a record can cause in that part of Connect.
* Where the first cause only wraps, its message may have made up all that follows, but not the last
  line of the text: it is Java's, and it counts the frames that the last cause has in common with
  what it caused. If those are more than any of the wrappers can have in common with its own, the
  last cause is none of them, but one of those that a record can cause (_is_last_cause_certain).

Whatever is less clear is UNKNOWN, and so is what was cut. Two things are taken on trust: a line of
Java's that begins an exception has its class in front (a class may override toString), and
Connect's own texts hold no line breaks of a record's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from offsetwatch.decode.stack_trace import (
    RUNTIME_PACKAGE,
    TRACE_CHARS_MAX,
    ExceptionHeader,
    OmittedFrames,
    StackFrame,
    TraceLine,
    find_origin,
    lines_of,
)
from offsetwatch.remedy.classify.error_texts import rename_by_text
from offsetwatch.remedy.classify.trace_meanings import (
    CONVERTER,
    POLL,
    PRODUCER_SEND,
    PUT,
    SKIPPABLE,
    TRANSFORM,
    FailureKind,
    ThrowableHint,
    ThrowableMeaning,
    converter_stage_of,
    find_call_veto,
    find_meaning,
    stage_of,
)

__all__ = ["CHAIN_MAX", "SKIPPABLE", "Failure", "FailureKind", "classify", "may_be_listed"]

CHAIN_MAX: Final = 64  # causes; Java's own chains have a handful
UNREAD_CLASS: Final = "?"  # stands in a chain for a class that could not be read

_CONNECT = "org.apache.kafka.connect.errors.ConnectException"
_KAFKA = "org.apache.kafka.common.KafkaException"
_ERRORS = "org.apache.kafka.common.errors."
_TOO_LARGE = _ERRORS + "RecordTooLargeException"
_INVALID = "org.apache.kafka.common.InvalidRecordException"

# Where Connect throws with a text of its own and the trouble as its cause.
_THROWS: Final = {
    RUNTIME_PACKAGE
    + "errors.RetryWithToleranceOperator.execAndHandleError": None,  # the others tell
    RUNTIME_PACKAGE + "WorkerSinkTask.deliverMessages": PUT,
    RUNTIME_PACKAGE + "WorkerSourceTask.maybeThrowProducerSendException": PRODUCER_SEND,
    RUNTIME_PACKAGE + "WorkerSourceTask.producerSendFailed": PRODUCER_SEND,
    RUNTIME_PACKAGE + "ExactlyOnceWorkerSourceTask.maybeWrapProducerSendException": PRODUCER_SEND,
}
_OWN_PACKAGES: Final = (RUNTIME_PACKAGE, "java.", "jdk.")
_QUOTING_FRAME: Final = (
    "WorkerSourceTask.maybeCreateTopic"  # says a topic's name, which a record may have
)

# A sink's consumer does the same when it comes upon bytes that it cannot read. The class of the
# cause is no finer, but the calls are: the checksum is checked in one place.
_CLIENTS = "org.apache.kafka.clients."
_FETCH = re.compile(
    re.escape(_CLIENTS + "consumer.internals.")
    + r"(?:CompletedFetch|Fetcher\$CompletedFetch|Fetcher\$PartitionRecords)\.(\w+)"
)
_CHECKSUM_CALLS: Final = ("maybeEnsureValid", "nextFetchedRecord", "fetchRecords")

_SIZE = re.compile(r"The message is (\d{1,10}) bytes when serialized which is larger than [\w ,.]+")
_NUMBER = re.compile(r"\d+")
_SIGNATURE_CHARS: Final = 16

# What a converter hears from the network it hears from its schema registry.
_REMOTE_KINDS: Final = frozenset({FailureKind.CONNECTIVITY, FailureKind.TIMEOUT})
# What reads a record's bytes, and never a socket: an end that these meet is not the registry's.
_DECODERS: Final = (
    "com.fasterxml.jackson.",
    "com.google.protobuf.",
    "org.apache.avro.generic.",
    "org.apache.avro.io.",
)

# What makes a record a suspect, where.
_ALLOWED_KINDS: Final[dict[tuple[str, ThrowableMeaning], FailureKind]] = {
    (CONVERTER, ThrowableHint.VALUE): FailureKind.DESERIALIZATION,
    (CONVERTER, ThrowableHint.CODE): FailureKind.DESERIALIZATION,
    (CONVERTER, ThrowableHint.SCHEMA): FailureKind.SCHEMA,
    (TRANSFORM, ThrowableHint.VALUE): FailureKind.TRANSFORM,
    (TRANSFORM, ThrowableHint.CODE): FailureKind.TRANSFORM,
    (TRANSFORM, ThrowableHint.SCHEMA): FailureKind.SCHEMA,
    (PRODUCER_SEND, ThrowableHint.SIZE): FailureKind.PRODUCER_SIZE,
    (POLL, ThrowableHint.CORRUPT): FailureKind.CORRUPT,
}


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure as classified from its stack trace.

    kind        UNKNOWN if no class or call is clear enough
    stage       see trace_meanings.py
    chain       classes of exceptions, the outermost first
    signature   the same for the same failure, whatever the record
    veto        the kind by which a class or call in the trace forbids a skip; `kind` is then the
                same. None alone does not allow a skip: `kind` must be one of SKIPPABLE
    size_bytes  of a record that is too large, where its producer named the size
    """

    kind: FailureKind
    stage: str | None
    chain: tuple[str, ...]
    signature: str
    veto: FailureKind | None
    size_bytes: int | None


class _Root(NamedTuple):
    """Connect's own exception, which no message can have forged.

    frames  how many it has
    cause   index of the line of its cause
    """

    stage: str
    frames: int
    cause: int


def classify(trace: str, sink_data: frozenset[str] = frozenset()) -> Failure | None:
    """Classify a stack trace as the module describes; None if it has no line of a trace.

    `trace` is from Connect's REST API or its status topic, whole, with its last line break.
    `sink_data` has the classes that this sink throws for a bad record.
    """
    lines = tuple(lines_of(trace))
    if not any(isinstance(line, ExceptionHeader | StackFrame) for line in lines):
        return None
    chain = _read_chain(lines)
    frames = [line for line in lines if isinstance(line, StackFrame) and line.depth == 1]
    root = _find_root(lines) if _is_whole(trace, lines) and len(chain) <= CHAIN_MAX else None
    stage = stage_of(frames) if root is None else root.stage
    listed = sink_data if root is not None and stage == PUT else frozenset()
    renamed = rename_by_text(trace[:TRACE_CHARS_MAX], lines)
    veto = _find_veto(renamed, stage, listed)
    kind = veto
    if kind is None and root is not None:
        kind = _find_kind(renamed, root, listed)
    if stage == CONVERTER:
        stage = converter_stage_of(frames)
    chain = chain[:CHAIN_MAX]
    return Failure(
        kind=kind or FailureKind.UNKNOWN,
        stage=stage,
        chain=chain,
        signature=_compute_signature(lines, chain, stage),
        veto=veto,
        size_bytes=_parse_size(lines) if kind is FailureKind.PRODUCER_SIZE else None,
    )


def may_be_listed(name: str) -> bool:
    """Return whether configuration may list the class as a sink's exception for bad data.

    A class that forbids always does, and a class that wraps others has no meaning.
    """
    word = find_meaning(name)
    return not isinstance(word, FailureKind) and word is not ThrowableHint.WRAPS


def _read_chain(lines: Sequence[TraceLine]) -> tuple[str, ...]:
    first = lines[0]
    outermost = first.name if isinstance(first, ExceptionHeader) and not first.link else None
    causes = (
        line.name for line in lines[1:] if isinstance(line, ExceptionHeader) and _is_cause(line)
    )
    return tuple(name or UNREAD_CLASS for name in (outermost, *causes))


def _is_cause(line: TraceLine) -> bool:
    return isinstance(line, ExceptionHeader) and line.depth == 0 and line.link == "Caused by"


def _is_whole(trace: str, lines: Sequence[TraceLine]) -> bool:
    """Return whether the trace has its end: a last line break, and a last line that ends a stack.

    A stack ends with a count of common frames or with the call that began the thread. Frames with
    Connect's runtime in them must parse: rewritten ones (with spaces for a tab) are not recognized.
    """
    if len(trace) > TRACE_CHARS_MAX or not trace.endswith("\n"):
        return False
    if any(
        line is None and RUNTIME_PACKAGE in text
        for line, text in zip(lines, trace.split("\n"), strict=True)
    ):
        return False
    match lines[-2]:
        case OmittedFrames():
            return True
        case StackFrame() as last:
            return (last.method or "").endswith(".run")
        case last:
            headers = (line for line in reversed(lines) if isinstance(line, ExceptionHeader))
            header = next(headers, None)
            return header is not None and _may_lack_frames(header, alone=header is last)


def _may_lack_frames(header: ExceptionHeader, *, alone: bool) -> bool:
    """Return whether an exception of this class may have no frames.

    Kafka's own exceptions have none, and JDK exceptions often have neither frames nor text.
    """
    name = header.name or ""
    if name.startswith(_ERRORS) or name == _INVALID:
        return True
    return alone and find_meaning(name) is ThrowableHint.CODE and not header.said


def _find_root(lines: Sequence[TraceLine]) -> _Root | None:
    """Find Connect's own exception; None unless the module's second point holds."""
    first = lines[0]
    if not isinstance(first, ExceptionHeader) or first.link:
        return None
    frames = _read_frames(lines, 1)
    cause = 1 + len(frames)
    if not frames or not _is_cause(lines[cause]) or _may_begin_later(lines[cause:]):
        return None
    stage = None
    if first.name == _CONNECT and _are_frames_of(frames, _OWN_PACKAGES):
        stage = _find_throwing_stage(frames)
    elif first.name == _KAFKA and _are_frames_of(frames, (*_OWN_PACKAGES, _CLIENTS)):
        fetched = [_is_fetch(frame, "fetchRecords") for frame in frames]
        stage = stage_of(frames) if fetched[0] and sum(fetched) == 1 else None
    return None if stage is None else _Root(stage, len(frames), cause)


def _are_frames_of(frames: Sequence[StackFrame], packages: tuple[str, ...]) -> bool:
    return all(
        frame.package.startswith(packages) and not frame.qualified_method.endswith(_QUOTING_FRAME)
        for frame in frames
    )


def _read_frames(lines: Sequence[TraceLine], start: int) -> list[StackFrame]:
    frames = []
    for line in lines[start:]:
        if not isinstance(line, StackFrame) or line.depth != 1:
            break
        frames.append(line)
    return frames


def _find_throwing_stage(frames: Sequence[StackFrame]) -> str | None:
    """Return the stage if the first call, and no other, is one that throws; None otherwise.

    If another call throws too, the lines above it may be the message of its exception.
    """
    throws = [frame.qualified_method for frame in frames if frame.qualified_method in _THROWS]
    if throws != [frames[0].qualified_method]:
        return None
    known = _THROWS[throws[0]]
    stage = known or stage_of(frames)
    return stage if known or stage in {CONVERTER, TRANSFORM} else None


def _may_begin_later(lines: Sequence[TraceLine]) -> bool:
    """Return whether the first exception's frames might be here, with all above being its message.

    They go through Connect's runtime, and are never cut short with a count: only what was caused by
    it has frames in common with another. Nor are those of a cause below an exception without
    frames, of which there were many before 3.0: they cannot be distinguished from the first
    exception's.
    """
    pending = False
    for line in lines:
        match line:
            case StackFrame(depth=1):
                pending = pending or RUNTIME_PACKAGE in line.text
            case OmittedFrames(depth=1):
                pending = False
            case _ if pending:
                return True
            case _:
                pass
    return pending


def _find_veto(
    lines: Sequence[TraceLine], stage: str, listed: frozenset[str]
) -> FailureKind | None:
    """Return the kind by the deepest cause that forbids; a known kind is preferred to UNKNOWN."""
    vetoes = [
        kind
        for line in reversed(lines)
        if isinstance(line, ExceptionHeader)
        and (kind := _find_forbidden_kind(line.name, listed)) is not None
    ]
    vetoes += [
        kind
        for line in lines
        if isinstance(line, StackFrame)
        and (kind := find_call_veto(line.qualified_method)) is not None
    ]
    said = next((kind for kind in vetoes if kind is not FailureKind.UNKNOWN), None)
    if said in _REMOTE_KINDS and stage == CONVERTER:
        return FailureKind.UNKNOWN if _may_end_in_record(lines) else FailureKind.REGISTRY_DOWN
    return said or (FailureKind.UNKNOWN if vetoes else None)


def _may_end_in_record(lines: Sequence[TraceLine]) -> bool:
    """Return whether the stream that ended may be the record itself: a decoder reached its end.

    It may also be another stream, because a message may quote such lines.
    """
    ended = False
    for line in lines:
        match line:
            case ExceptionHeader(name=name) if name is not None:
                ended = name == "java.io.EOFException"
            case StackFrame() if ended and line.package.startswith(_DECODERS):
                return True
            case _:
                pass
    return False


def _find_forbidden_kind(name: str | None, listed: frozenset[str]) -> FailureKind | None:
    word = None if name is None else find_meaning(name)
    if isinstance(word, FailureKind):
        return word
    return FailureKind.UNKNOWN if word is None and name not in listed else None


def _find_kind(
    lines: Sequence[TraceLine], root: _Root, listed: frozenset[str]
) -> FailureKind | None:
    """Return the kind of failure from all causes, none of which forbids; None if it is unclear."""
    names = {
        index: line.name
        for index, line in enumerate(lines)
        if isinstance(line, ExceptionHeader) and _is_cause(line) and line.name is not None
    }
    said = {number: _find_allowed_kind(name, root.stage, listed) for number, name in names.items()}
    if root.stage == POLL and _is_checksum_failure(lines, root):
        said[root.cause] = FailureKind.CORRUPT
    if said[root.cause] is None:
        wrappers = [
            number for number, name in names.items() if find_meaning(name) is ThrowableHint.WRAPS
        ]
        if not all(said[number] for number in said if number not in wrappers):
            return None
        if not _is_last_cause_certain(lines, root, wrappers):
            return None
    return next(
        (said[number] for number in sorted(said, reverse=True) if said[number] is not None), None
    )


def _find_allowed_kind(name: str, stage: str, listed: frozenset[str]) -> FailureKind | None:
    if name in listed and may_be_listed(name):
        return FailureKind.SINK_DATA
    word = find_meaning(name)
    return None if word is None else _ALLOWED_KINDS.get((stage, word))


def _is_last_cause_certain(
    lines: Sequence[TraceLine], root: _Root, wrappers: Sequence[int]
) -> bool:
    """Return whether the last cause is certainly none of the wrappers: the module's third point.

    A wrapper has frames, and so ends with one or with a count. The text above it may be more than
    Java's, but never less. Connect's own exception has one frame fewer in common with its cause
    than it has: it is thrown on another line than the one where the call failed.
    """
    if any(isinstance(line, ExceptionHeader) and line.link == "Suppressed" for line in lines):
        return False
    last = lines[-2]
    if not isinstance(last, StackFrame | OmittedFrames):
        return True
    common = last.common if isinstance(last, OmittedFrames) else 0
    most = (
        root.frames - 1 if wrapper == root.cause else _count_frames_above(lines, wrapper)
        for wrapper in wrappers
    )
    return all(common > frames for frames in most)


def _count_frames_above(lines: Sequence[TraceLine], end: int) -> int:
    """Return the most frames that the exception before this line can have."""
    above = lines[end - 1]
    common = above.common if isinstance(above, OmittedFrames) else 0
    position = end - 2 if isinstance(above, OmittedFrames) else end - 1
    own = 0
    while isinstance(lines[position], StackFrame):
        own, position = own + 1, position - 1
    return own + common


def _is_checksum_failure(lines: Sequence[TraceLine], root: _Root) -> bool:
    """Return whether the cause, which is the last, was thrown where a fetched record is checked."""
    header = lines[root.cause]
    frames = _read_frames(lines, root.cause + 1)
    after = root.cause + 1 + len(frames)
    return (
        isinstance(header, ExceptionHeader)
        and header.name == _KAFKA
        and len(frames) == len(_CHECKSUM_CALLS)
        and all(map(_is_fetch, frames, _CHECKSUM_CALLS))
        and lines[after] == OmittedFrames(1, root.frames - 1)
        and after == len(lines) - 2
    )


def _is_fetch(frame: StackFrame, method: str) -> bool:
    match = _FETCH.fullmatch(frame.qualified_method)
    return match is not None and match[1] == method


def _parse_size(lines: Sequence[TraceLine]) -> int | None:
    """Return the size that the producer named; None unless exactly one line names it."""
    headers = [
        line for line in lines if isinstance(line, ExceptionHeader) and line.name == _TOO_LARGE
    ]
    match = _SIZE.fullmatch(headers[0].said) if len(headers) == 1 else None
    return None if match is None else int(match[1])


def _compute_signature(lines: Sequence[TraceLine], chain: Sequence[str], stage: str) -> str:
    """Return a hash of the classes, the origin and the stage.

    It excludes numbers, because compilers and runtimes number anonymous classes and lambdas.
    """
    frame_text = find_origin(lines)[1] or ""
    text = "\n".join((*chain, _NUMBER.sub("0", frame_text), stage))
    return hashlib.sha256(text.encode()).hexdigest()[:_SIGNATURE_CHARS]
