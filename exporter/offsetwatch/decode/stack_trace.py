r"""Lines of a Java stack trace, as Throwable.printStackTrace writes them, and its failure kind.

    org.example.Outer: what it says, over as many lines as it likes
    \tat org.example.Outer.wrap(Outer.java:1)
    \tSuppressed: org.example.Closing: what it says
    \t\tat org.example.Closing.close(Closing.java:9)
    Caused by: org.example.Inner: what it says
    \tat org.example.Inner.go(Inner.java:2)
    \t... 14 more

Messages quote records, and the producer of a record may write lines of this shape: such a line may
be part of a message. But a message removes nothing: each line that Java wrote is among them, whole,
and a message stands between the header of its exception and that exception's frames.

The failure kind classifies a trace in one line: the last cause's class, where it came from, and
whether the task had read nothing yet. Messages quote records, settings and credentials, so it has
only names of classes and methods. Pure and total.

    org.apache.kafka.common.errors.RecordTooLargeException in WorkerSourceTask.sendRecords
    org.apache.kafka.common.config.ConfigException in RowSinkTask.start while starting
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

TRACE_CHARS_MAX: Final = 262_144  # the last cause stands at the end; a deep recursion is longer
JDK_PACKAGES: Final = ("java.", "javax.", "jdk.", "sun.")
RUNTIME_PACKAGE: Final = "org.apache.kafka.connect.runtime."
# Where Connect starts a task, before it reads the first record.
TASK_STARTS: Final = (
    "WorkerSinkTask.initializeAndStart",
    "AbstractWorkerSourceTask.initializeAndStart",
    "WorkerSourceTask.initializeAndStart",
    "Worker.startTask",
)

_NAME = re.compile(r"((?:[a-z_][\w$]*\.)+[A-Z][\w$]*)(?::(.*))?", re.ASCII)
_LINKED = re.compile(r"(\t*)(Caused by|Suppressed): (.*)")
# `at [loader/][module@version/]package.Class.method(File.java:1)`; what was suppressed is indented.
_FRAME = re.compile(
    r"(?:[\w.@+-]*/)*((?:[\w$]+\.)*)([\w$]+\.[\w$<>]+)\([\w$. :-]*\)(?: ~?\[[^\[\]]*\])?",
    re.ASCII,
)
_FRAME_OR_MORE = re.compile(r"(\t+)(?:at (.*)|\.\.\. (\d{1,9}) (?:more|common frames omitted))")


class ExceptionHeader(NamedTuple):
    """First line of an exception.

    depth   tabs before it
    link    "" for the first line, else "Caused by" or "Suppressed"
    name    exception class; None if it cannot be read
    said    first line of the message, without the space before it
    """

    depth: int
    link: str
    name: str | None
    said: str


class StackFrame(NamedTuple):
    """Frame of a stack trace.

    package   with its last dot
    method    `Class.method`; None for a frame of an unusual shape, which has no package either
    text      all text after `at `
    """

    depth: int
    package: str
    method: str | None
    text: str

    @property
    def qualified_method(self) -> str:
        """Return `package.Class.method`, or the whole text for a frame of an unusual shape."""
        return self.text if self.method is None else self.package + self.method


class OmittedFrames(NamedTuple):
    """Number of omitted frames: the same as the last ones of the exception that this one caused."""

    depth: int
    common: int


TraceLine = ExceptionHeader | StackFrame | OmittedFrames | None  # None: anything else


def lines_of(trace: str) -> Iterator[TraceLine]:
    """Yield each line of the first TRACE_CHARS_MAX characters."""
    for number, text in enumerate(trace[:TRACE_CHARS_MAX].split("\n")):
        yield _parse_line(text.rstrip("\r"), first=number == 0)


def find_origin(lines: Iterable[TraceLine]) -> tuple[str | None, str | None]:
    """Return the last cause's class, and its first frame outside the JDK.

    A cause without frames (Kafka's own errors have none) gets those of the exception that wraps it.
    If all frames are the JDK's, it is the first frame.
    """
    name: str | None = None
    own: StackFrame | None = None
    inherited: StackFrame | None = None
    for number, line in enumerate(lines):
        link = "Caused by" if number else ""
        match line:
            case ExceptionHeader(depth=0, name=str() as class_name) if line.link == link:
                name, own, inherited = class_name, None, own or inherited
            case StackFrame(depth=1, method=str()) if own is None or _is_jdk(own):
                if own is None or not _is_jdk(line):
                    own = line
            case _:
                pass
    best = own or inherited
    return name, None if best is None else best.qualified_method


def _is_jdk(frame: StackFrame) -> bool:
    return frame.package.startswith(JDK_PACKAGES)


def _parse_line(text: str, *, first: bool) -> TraceLine:
    linked = _LINKED.fullmatch(text)
    if linked is not None:
        return _parse_header(len(linked[1]), linked[2], linked[3])
    call = _FRAME_OR_MORE.fullmatch(text)
    if call is None:
        header = _parse_header(0, "", text) if first else None
        return None if header is None or header.name is None else header
    if call[3] is not None:
        return OmittedFrames(len(call[1]), int(call[3]))
    frame = _FRAME.fullmatch(call[2])
    if frame is None:
        return StackFrame(len(call[1]), "", None, call[2])
    return StackFrame(len(call[1]), frame[1], frame[2], call[2])


def _parse_header(depth: int, link: str, text: str) -> ExceptionHeader:
    match = _NAME.fullmatch(text)
    if match is None:
        return ExceptionHeader(depth, link, None, "")
    return ExceptionHeader(depth, link, match[1], (match[2] or "").removeprefix(" "))


FAILURE_CHARS_MAX: Final = 200
WHILE_STARTING: Final = " while starting"

# WorkerTask.doRun calls `initializeAndStart`, then `execute`, which holds the loop over records.
_EXECUTE: Final = ".execute"


def failure_of(trace: object) -> str | None:
    """Return the failure kind of a trace: `class in Class.method`, with WHILE_STARTING if so.

    The class alone if the whole is too long. None if `trace` is no trace, or holds no name that may
    be retained, or the class alone is too long.
    """
    if not isinstance(trace, str):
        return None
    lines = tuple(lines_of(trace))
    root, frame = find_origin(lines)
    stage = WHILE_STARTING if _is_at_start(lines) else ""
    if root is None or len(root) + len(stage) > FAILURE_CHARS_MAX:
        return None
    line = root + stage
    if frame is not None:
        line = f"{root} in {'.'.join(frame.split('.')[-2:])}{stage}"
    # A hundred thousand tasks may fail alike.
    return sys.intern(line if len(line) <= FAILURE_CHARS_MAX else root + stage)


def parse_exception_class(failure: str) -> str:
    """Return the exception class of a failure kind that `failure_of` returned."""
    return sys.intern(failure.partition(" ")[0])


def is_start_failure(failure: str) -> bool:
    """Check whether a task failed before it read its first record, so that no record caused it."""
    return failure.endswith(WHILE_STARTING)


def _is_at_start(lines: Iterable[TraceLine]) -> bool:
    """Check whether a trace has a frame of Connect's start and none of its loop over records.

    A message may hold lines that look like frames, but it removes none of Java's:
    made up lines cannot make a failure in the loop look like one at start.
    """
    methods = {
        frame.method or ""
        for frame in lines
        if isinstance(frame, StackFrame) and frame.package == RUNTIME_PACKAGE
    }
    return not methods.isdisjoint(TASK_STARTS) and not any(
        method.endswith(_EXECUTE) for method in methods
    )
