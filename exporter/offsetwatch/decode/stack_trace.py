r"""Lines of a Java stack trace, as Throwable.printStackTrace writes them.

    org.example.Outer: what it says, over as many lines as it likes
    \tat org.example.Outer.wrap(Outer.java:1)
    \tSuppressed: org.example.Closing: what it says
    \t\tat org.example.Closing.close(Closing.java:9)
    Caused by: org.example.Inner: what it says
    \tat org.example.Inner.go(Inner.java:2)
    \t... 14 more

Messages quote records, and the producer of a record may write lines of this shape: such a line may
be part of a message. But a message removes nothing: each line that Java wrote is among them, whole,
and a message stands between the header of its exception and that exception's frames. Pure and
total.
"""

from __future__ import annotations

import re
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
    def place(self) -> str:
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
            case ExceptionHeader(depth=0, name=str() as found) if line.link == link:
                name, own, inherited = found, None, own or inherited
            case StackFrame(depth=1, method=str()) if own is None or _is_jdk(own):
                if own is None or not _is_jdk(line):
                    own = line
            case _:
                pass
    best = own or inherited
    return name, None if best is None else best.place


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
    found = _NAME.fullmatch(text)
    if found is None:
        return ExceptionHeader(depth, link, None, "")
    return ExceptionHeader(depth, link, found[1], (found[2] or "").removeprefix(" "))
