"""Bytes that are nearly good ones: what a decoder is most likely to stumble over.

What is made depends on the seeds and on the random numbers alone, so that a record is told by its
number. Cheap, as millions are made: no text is parsed, and tokens are looked for from one place on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

SIZE_MAX: Final = 256 * 1024  # a record of a topic may be larger, but no kind of it is
STEPS: Final = (1, 1, 1, 2, 2, 3, 5)
LARGE_EVERY: Final = 2000  # one in so many is long or deep: it takes as much time as all others

Change = Callable[[Random, bytes, Sequence[bytes]], bytes]

# A string, a number or a word of a JSON text, or one of its brackets.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null|[\[\]{},:]')
_NUMBER = re.compile(rb"-?[0-9]+")
_VALUES: Final = (
    b"null",
    b"true",
    b"false",
    b"0",
    b"-0",
    b"-1",
    b"1.5",
    b"7.0",
    b"007",
    b"1e400",
    b"-1e-400",
    b"1E2",
    b"NaN",
    b"-Infinity",
    b"9007199254740993",
    b"2147483648",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"18446744073709551616",
    b"253402300800000",
    b'""',
    b'"x"',
    b'"0"',
    b'"-7"',
    b'"RUNNING"',
    b'"\\ud83d"',
    b'"\\udead\\ud83d"',
    b'"\\ud83d\\ude00"',
    b'"\\u0000"',
    b'"\xff"',
    b'"\xed\xa0\x80"',
    b"[]",
    b"{}",
    b"[[]]",
    b'{"a":{}}',
    b'{"a":1,"a":2}',
    b'{"schema":null,"payload":null}',
    b'{"state":"FAILED","trace":"a.B: c"}',
)
_PIECES: Final = (
    b"\x00",
    b"\xff",
    b"\x80",
    b"\xc0\xaf",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xef\xbb\xbf",
    "é".encode(),
    "\u2028".encode(),
    "\u202e".encode(),
    "\U0001f600".encode(),
    b"\r\n",
    b"\t",
    b" ",
    b'"',
    b"\\",
    b"\\u",
    b"-",
    b".",
    b"~",
    b"%00",
    b"../",
    b"\n\tat a.B.c(D.java:1)",
    b"\nCaused by: a.b.C: d",
    b":connector-",
    *_VALUES,
)
_LENGTHS: Final = (0, 1, 2, 3, 7, 127, 128, 255, 256, 32767, 32768, 65535, 2**31 - 1, 2**31)
_OPENED: Final = ((b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]"), (b"[", b""), (b'{"a":', b""))
_DEPTHS: Final = (*range(1, 60, 7), *range(150, 1100, 19), 5_000, 50_000)
_REPEATED: Final = (b"9", b'"', b'\\"', b"\\", b"0", b"a.", b"a/", b"\tat a.B.c(D)\n", b"-", b"(")
_TIMES: Final = (10, 100, 1_000, 4_300, 4_301, 20_000, 100_000)


def flipped(random: Random, raw: bytes, _: Sequence[bytes]) -> bytes:
    offset = random.randrange(len(raw) + 1)
    if offset == len(raw):
        return raw
    return raw[:offset] + bytes((raw[offset] ^ (1 << random.randrange(8)),)) + raw[offset + 1 :]


def cut(random: Random, raw: bytes, _: Sequence[bytes]) -> bytes:
    begin, end = _span(random, raw)
    return raw[:begin] + raw[end:]


def ended(random: Random, raw: bytes, _: Sequence[bytes]) -> bytes:
    return raw[: random.randrange(len(raw) + 1)]


def repeated(random: Random, raw: bytes, _: Sequence[bytes]) -> bytes:
    begin, end = _span(random, raw)
    return raw[:begin] + raw[begin:end] * random.choice((2, 2, 3, 17)) + raw[end:]


def spliced(random: Random, raw: bytes, others: Sequence[bytes]) -> bytes:
    other = random.choice(others)
    return raw[: random.randrange(len(raw) + 1)] + other[random.randrange(len(other) + 1) :]


def inserted(random: Random, raw: bytes, _: Sequence[bytes]) -> bytes:
    offset = random.randrange(len(raw) + 1)
    return raw[:offset] + random.choice(_PIECES) + raw[offset:]


def replaced(random: Random, raw: bytes, others: Sequence[bytes]) -> bytes:
    """A token of JSON by another value, which may be one of another seed."""
    match = _near(random, raw, _TOKEN)
    if match is None:
        return inserted(random, raw, others)
    new = random.choice(_VALUES)
    if random.random() < 0.3:
        taken = _near(random, random.choice(others), _TOKEN)
        new = new if taken is None else taken[0]
    return raw[: match.start()] + new + raw[match.end() :]


def counted(random: Random, raw: bytes, _: Sequence[bytes]) -> bytes:
    """A number that is one more or less, of another sign, or much longer."""
    match = _near(random, raw, _NUMBER)
    if match is None:
        return raw
    text = match[0]
    whole = int(text) if len(text) < 30 else 0
    new = random.choice(
        (
            b"%d" % (whole + 1),
            b"%d" % (whole - 1),
            b"%d" % -whole,
            text * 3,
            b"0" + text,
            text + b".0",
        )
    )
    return raw[: match.start()] + new + raw[match.end() :]


def measured(random: Random, raw: bytes, _: Sequence[bytes]) -> bytes:
    """Two, four or eight bytes of a length or an offset by another one."""
    size = random.choice((2, 2, 4, 8))
    offset = random.choice((0, random.randrange(len(raw) + 1)))
    number = random.choice((*_LENGTHS, len(raw), len(raw) - size, -1, 2**63 - 1))
    return raw[:offset] + (number % 2 ** (8 * size)).to_bytes(size, "big") + raw[offset + size :]


def wrapped(random: Random, raw: bytes, _: Sequence[bytes]) -> bytes:
    """In a little more, as converters do."""
    before, after = random.choice(
        ((b"[", b"]"), (b'{"schema":null,"payload":', b"}"), (b'"', b'"'))
    )
    return before + raw + after


def deep(random: Random, raw: bytes, _: Sequence[bytes]) -> bytes:
    """Something nested, in place of a token."""
    begun, closed = random.choice(_OPENED)
    depth = random.choice(_DEPTHS)
    new = begun * depth + random.choice((b"1", b"", b'"x"')) + closed * depth
    match = _near(random, raw, _TOKEN)
    if match is None:
        return new
    return raw[: match.start()] + new + raw[match.end() :]


def long(random: Random, raw: bytes, _: Sequence[bytes]) -> bytes:
    offset = random.randrange(len(raw) + 1)
    return raw[:offset] + random.choice(_REPEATED) * random.choice(_TIMES) + raw[offset:]


_USUAL: Final[tuple[Change, ...]] = (
    flipped,
    cut,
    ended,
    repeated,
    spliced,
    inserted,
    inserted,
    replaced,
    replaced,
    replaced,
    counted,
    measured,
    wrapped,
)
_LARGE: Final[tuple[Change, ...]] = (deep, deep, long)


def mutated(
    random: Random, raw: bytes, others: Sequence[bytes], pieces: Sequence[bytes] = ()
) -> bytes:
    """`raw` after some changes; at most SIZE_MAX bytes. `pieces`: what else to put in."""
    if pieces and random.randrange(2):
        offset = random.randrange(len(raw) + 1)
        raw = raw[:offset] + random.choice(pieces) + raw[offset:]
    if random.randrange(LARGE_EVERY) == 0:
        raw = random.choice(_LARGE)(random, raw, others)
    for _ in range(random.choice(STEPS)):
        raw = random.choice(_USUAL)(random, raw, others)
    return raw[:SIZE_MAX]


def _span(random: Random, raw: bytes) -> tuple[int, int]:
    begin = random.randrange(len(raw) + 1)
    return begin, min(len(raw), begin + random.choice((1, 1, 2, 3, 8, 64)))


def _near(random: Random, raw: bytes, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
    """The first one from somewhere on, or else the first of all."""
    return pattern.search(raw, random.randrange(len(raw) + 1)) or pattern.search(raw)
