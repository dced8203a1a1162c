"""Messages on a configuration are in its author's words, wherever and whatever the mistake is:
none of pydantic's, PyYAML's or Python's, and no regular expression.
"""

from __future__ import annotations

import re
from copy import deepcopy
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from offsetwatch.config import parse
from offsetwatch.config.document import parse_yaml
from offsetwatch.errors import ConfigError
from tests.unit.config.schema.test_root import folder, places, whole

__all__ = ["folder"]

LIBRARIES = re.compile(
    r"[Ii]nput should|instance of|dictionary|after validation|valid (string|integer|boolean)|"
    r"[Ee]xtra inputs|validation|field required|pattern '|\^\S*\$|\\[sdwx]|"
    r"token\b(?! file)|scalar|\bnode\b|<[a-z ]+>|\bstream\b|codec|what is there|Errno|"
    r"\bNone\b|NoneType|class '|object at|__",
)
WRONG = (
    None,
    True,
    7,
    -1,
    1.5,
    "",
    "x y",
    "a" * 5_000,
    ["x"],
    [],
    {"x": "y"},
    {},
    date(2026, 1, 1),
)
# What a configuration says of tokens of clients, and placeholders of ours.
OURS = re.compile(r"control\.tokens|token_(file|sha256)|bearer_token|a token|the token|same token")


def messages(folder: Path, document: Any) -> tuple[str, ...]:
    try:
        parse(document, {}, folder=folder)
    except ConfigError as exc:
        return exc.mistakes
    return ()


@pytest.mark.parametrize(
    "location", list(places(whole())), ids=lambda item: ".".join(map(str, item))
)
def test_no_message_is_in_the_words_of_a_library(folder: Path, location: tuple[Any, ...]):
    for wrong in WRONG:
        document = deepcopy(whole())
        inner = document
        for key in location[:-1]:
            inner = inner[key]
        inner[location[-1]] = wrong
        for message in messages(folder, document):
            assert not LIBRARIES.search(OURS.sub("", message)), message


def test_a_key_that_is_missing_or_misspelt_is_one_mistake(folder: Path):
    document = whole()
    address = document["kafka"]["east"].pop("bootstrap")
    missing = "config: kafka.east.bootstrap: required, and not given"
    assert messages(folder, document)[0] == missing
    document["kafka"]["east"]["bootstrap_server"] = address
    misspelt = 'config: kafka.east.bootstrap_server: unknown key, did you mean "bootstrap"?'
    assert misspelt in messages(folder, document)
    assert missing not in messages(folder, document)


TEXT = yaml.safe_dump(whole())
SIGNS = "\t@`%&*!|>'\"{}[],:?-#\\ \x00\n<"


def broken() -> list[str]:
    """The whole file with one character put in or left out, at places spread over it."""
    step = 37
    cut = [TEXT[:number] + TEXT[number + 1 :] for number in range(0, len(TEXT), step)]
    put = [
        TEXT[:offset] + SIGNS[number % len(SIGNS)] + TEXT[offset:]
        for number, offset in enumerate(range(0, len(TEXT), step // 3))
    ]
    begun = [f"a: {sign}\n" for sign in SIGNS] + [f"a: {sign}b c\n" for sign in SIGNS]
    return [*cut, *put, *begun, *(f"a: [b{sign}\nc: d" for sign in SIGNS)]


def test_what_is_no_yaml_is_described_without_the_words_of_its_parser():
    result = 0
    for text in broken():
        try:
            parse_yaml(text, "f")
        except ConfigError as exc:
            (message,) = exc.mistakes
            result += 1
            assert message.startswith("f: not YAML: ")
            assert not LIBRARIES.search(message), (message, text)
    assert result > 50
