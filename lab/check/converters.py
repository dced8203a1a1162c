"""
Our own decode held against Connect's converters, on seeded random bytes.

Conversions.java beside this file is the harness around the converters: it is compiled on the spot,
against the jars of the lab.
"""

import argparse
import base64
import json
import random
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lab.cluster.options import KAFKA_VERSION
from lab.errors import LabError
from lab.processes.jars import jars
from lab.processes.java import tool
from offsetwatch.remedy.locate.converters import ConversionVerdict, Converter, check_conversion

HARNESS = Path(__file__).with_name("Conversions.java")
ANSWER_S_MAX = 500.0
_PACKAGE = "org.apache.kafka.connect."
_JSON = f"{_PACKAGE}json.JsonConverter"
_PLAIN = (
    f"{_PACKAGE}storage.StringConverter",
    *(
        f"{_PACKAGE}converters.{name}Converter"
        for name in ("ByteArray", "Short", "Integer", "Float", "Long", "Double", "Boolean")
    ),
)
_WORDS = ("a", "schema", "payload", "", "José", "\u0000", "😀", '"', "\\", "x" * 40)
_NUMBERS = (0, 1, -1, 7, 2**31, 2**63, -(2**63), 2**70, 0.5, -1e-7, 1e22)
_NOISE = (b"{", b"}", b"[", b"]", b'"', b",", b":", b"0", b"-", b".", b"e5", b"\\", b"\n", b" ")
_BYTES = (b"\x00", b"\xe9", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5", b"\x1f", b"\xef\xbb\xbf", b"nul")
_TYPES = ("boolean", "int8", "int16", "int32", "int64", "float", "double", "bytes", "string", "odd")


class Question(NamedTuple):
    """Would this converter take these bytes?"""

    converter: Converter
    raw: bytes | None


class Differences(NamedTuple):
    """wrong: where we said for certain what is not so. known: how often which reading met what."""

    wrong: list[str]
    known: Counter[str]


def questions(seed: int, count: int) -> Iterator[Question]:
    """A run of them: documents whole and damaged, envelopes right and wrong, and plain bytes."""
    dice = random.Random(seed)
    for _ in range(count):
        kind = dice.random()
        if kind < 0.15:
            yield Question(Converter(dice.choice(_PLAIN)), _plain(dice))
        elif kind < 0.6:
            raw = _damaged(dice, _text(dice, _document(dice, 3)))
            yield Question(Converter(_JSON, envelope=dice.random() < 0.1), raw)
        else:
            raw = _text(dice, _envelope(dice))
            damaged = _damaged(dice, raw) if dice.random() < 0.2 else raw
            yield Question(Converter(_JSON, envelope=True), damaged)


def _plain(dice: random.Random) -> bytes | None:
    if dice.random() < 0.1:
        return None
    return dice.choice((b"", dice.randbytes(dice.choice((1, 2, 4, 8, 9))), b"\x00", b"\x01"))


def _document(dice: random.Random, depth: int) -> Any:
    kind = dice.randrange(7 if depth else 5)
    match kind:
        case 0:
            return None
        case 1:
            return dice.random() < 0.5
        case 2 | 3:
            return dice.choice(_NUMBERS)
        case 4:
            return dice.choice(_WORDS)
        case 5:
            return [_document(dice, depth - 1) for _ in range(dice.randrange(3))]
    return {dice.choice(_WORDS): _document(dice, depth - 1) for _ in range(dice.randrange(3))}


def _text(dice: random.Random, document: Any) -> bytes:
    text = json.dumps(
        document, ensure_ascii=dice.random() < 0.5, indent=dice.choice((None, None, 1))
    )
    return text.encode(dice.choice(("utf-8",) * 30 + ("utf-16-be", "utf-16", "utf-32-le")))


def _damaged(dice: random.Random, raw: bytes) -> bytes | None:
    """None, or the bytes with up to two of them changed, gone or new."""
    if dice.random() < 0.01:
        return None
    for _ in range(dice.randrange(3)):
        offset = dice.randrange(len(raw) + 1)
        match dice.randrange(4):
            case 0:
                raw = raw[:offset]
            case 1:
                raw = raw[:offset] + raw[offset + 1 :]
            case 2:
                raw = raw[:offset] + dice.choice(_NOISE + _BYTES) + raw[offset:]
            case 3:
                raw = raw[:offset] + dice.randbytes(1) + raw[offset + 1 :]
    return raw


def _envelope(dice: random.Random) -> Any:
    schema = _schema(dice, 2)
    payload = _fitting(dice, schema) if dice.random() < 0.7 else _document(dice, 2)
    document = {"schema": schema, "payload": payload}
    match dice.randrange(12):
        case 0:
            del document[dice.choice(("schema", "payload"))]
        case 1:
            document["more"] = 1
        case 2:
            return dice.choice((payload, schema))
    return document


def _schema(dice: random.Random, depth: int) -> Any:
    kind = dice.randrange(14 if depth else 10)
    schema: dict[str, Any] = {"type": _TYPES[min(kind, 8)], "optional": dice.random() < 0.4}
    if dice.random() < 0.05:
        schema["name"] = dice.choice(("n", "org.apache.kafka.connect.data.Timestamp"))
    if dice.random() < 0.03:
        schema["default"] = dice.choice((1, "x", None))
    match kind:
        case 10:
            schema |= {"type": "array", "items": _schema(dice, depth - 1)}
        case 11:
            schema |= {
                "type": "map",
                "keys": {"type": "string"},
                "values": _schema(dice, depth - 1),
            }
        case 12 | 13:
            fields = [
                {**inner, "field": name}
                for name in dice.sample(("a", "b", "c"), dice.randrange(4))
                if isinstance(inner := _schema(dice, depth - 1), dict)
            ]
            schema |= {"type": "struct", "fields": fields}
    return _spoilt(dice, schema) if dice.random() < 0.05 else schema


def _spoilt(dice: random.Random, schema: dict[str, Any]) -> Any:
    match dice.randrange(4):
        case 0:
            return dice.choice((None, 1, "string", [], {}))
        case 1:
            schema.pop(dice.choice(list(schema)))
        case 2:
            schema["type"] = dice.choice(("odd", 1, None, "STRING"))
        case 3:
            schema[dice.choice(("items", "keys", "values", "fields"))] = dice.choice((None, 1, [1]))
    return schema


def _fitting(dice: random.Random, schema: Any) -> Any:
    """A payload that this schema allows, mostly."""
    if not isinstance(schema, dict) or dice.random() < 0.05:
        return _document(dice, 1)
    if schema.get("optional") is True and dice.random() < 0.2:
        return None
    match schema.get("type"):
        case "boolean":
            return dice.random() < 0.5
        case "float" | "double":
            return dice.choice(_NUMBERS)
        case "bytes":
            return base64.b64encode(dice.randbytes(3)).decode()
        case "string":
            return dice.choice(_WORDS)
        case "array":
            return [_fitting(dice, schema.get("items")) for _ in range(dice.randrange(3))]
        case "map":
            return {dice.choice(_WORDS): _fitting(dice, schema.get("values"))}
        case "struct":
            fields = schema.get("fields")
            known = (
                [field for field in fields if isinstance(field, dict)]
                if isinstance(fields, list)
                else []
            )
            return {
                entry.get("field"): _fitting(dice, entry) for entry in known if dice.random() < 0.95
            }
    return dice.choice((0, 1, 100, 127, 128, -129, 40_000, 2**40))


def theirs(question: list[Question], kafka_version: str) -> list[str]:
    """What the converters say: `fine` or `fails`. Raises LabError if it does not compile or run."""
    classpath = f"{jars(kafka_version)}/*"
    lines = (
        f"{item.converter.class_name} {str(bool(item.converter.envelope)).lower()} "
        f"{'-' if item.raw is None else base64.b64encode(item.raw).decode()}\n"
        for item in question
    )
    with tempfile.TemporaryDirectory() as classes:
        _run((tool("javac"), "-nowarn", "-cp", classpath, "-d", classes, str(HARNESS)), "")
        main = "offsetwatch.lab.Conversions"
        command = (tool("java"), "-Xmx256m", "-cp", f"{classes}:{classpath}", main)
        return _run(command, "".join(lines)).splitlines()


def _run(command: tuple[str, ...], answer: str) -> str:
    ended = subprocess.run(
        command, input=answer, capture_output=True, text=True, check=False, timeout=ANSWER_S_MAX
    )
    if ended.returncode:
        raise LabError(f"{command[0]}: {ended.stderr[-2000:]}")
    return ended.stdout


def differences(seed: int, count: int, kafka_version: str = KAFKA_VERSION) -> Differences:
    """Everything that we said for certain and a converter sees otherwise."""
    request = list(questions(seed, count))
    answers = theirs(request, kafka_version)
    if len(answers) != len(request):
        raise LabError(f"{len(request)} questions, {len(answers)} answers")
    results = Differences([], Counter())
    for question, answer in zip(request, answers, strict=True):
        check = check_conversion(question.converter, question.raw)
        results.known[f"{check.reading.value}, {answer}"] += 1
        if check.reading is not ConversionVerdict.UNKNOWN and check.reading.value != answer:
            results.wrong.append(f"seed {seed}: {question}: {check}, but it {answer}")
    return results


def main() -> None:
    """`python -m lab.check.converters --seed N --count N --kafka-version V`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--kafka-version", default=KAFKA_VERSION)
    options = parser.parse_args()
    results = differences(options.seed, options.count, options.kafka_version)
    if results.wrong:
        raise SystemExit("\n".join(results.wrong[:20]))
    print(f"{options.count} questions, seed {options.seed}: no difference; {dict(results.known)}")


if __name__ == "__main__":
    main()
