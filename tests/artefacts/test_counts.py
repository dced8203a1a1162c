"""Counts in texts for people have the number of their noun: `1 record`, never `1 records`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsetwatch.formatting import format_count

ROOT = Path(__file__).parents[2]
NOUNS = (
    "backup broker byte character cluster connector copy entry file finding group guard key member "
    "minute offset partition plan problem record replica row task time topic week worker"
)
PLURALS = {"copy": "copies", "entry": "entries"}
COUNTED = re.compile(
    r" (?:(?:more|other|raw|source) )?"
    rf"({'|'.join(PLURALS.get(noun, f'{noun}s') for noun in NOUNS.split())})\b"
)
# By construction two or more, or a verb of ours.
SEVERAL = {
    "lines",
    "len(slices)",
    "len(times)",
    "len(able)",
    "len(rewind.connectors)",
    "len(moments)",
    "len(known.not_ours)",
    "len(self._decoded.bad)",
    "self._decoded.records",
    "len(stalled)",
    "len(source.unsure)",
    "facts.records",
    "record.size_bytes",
    "outgoing.size_bytes",
    "copy.size_bytes",
    "len(body)",
    "len(minutes)",
    "each",
    "times",
    "verb",
    "view.connect_cluster",
}


def wrong_counts(code: str) -> Iterator[tuple[int, str]]:
    """Lines and what is counted without format_count."""
    for node in ast.walk(ast.parse(code)):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and re.search(r"[a-z]\(s\)", text.replace("stopped(s)", "")):
            yield node.lineno, text
        if not isinstance(node, ast.JoinedStr):
            continue
        for part, after in zip(node.values, node.values[1:], strict=False):
            if not isinstance(part, ast.FormattedValue) or not isinstance(after, ast.Constant):
                continue
            shown = ast.unparse(part.value)
            constant = re.search(r"[A-Z]{2,}", shown) is not None
            if COUNTED.match(after.value) and not constant and shown not in SEVERAL:
                yield node.lineno, f"{shown}{after.value}"


def test_every_count_agrees_with_its_noun():
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in sorted((ROOT / "exporter").rglob("*.py"))
        for line, what in wrong_counts(path.read_text())
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "code", ["f'{count} records are lost'", "f'{len(x)} more keys'", "'3 record(s)'"]
)
def test_a_wrong_count_would_be_noticed(code: str):
    assert list(wrong_counts(code))


@pytest.mark.parametrize(
    ("count", "noun", "plural", "text"),
    [
        (0, "record", None, "0 records"),
        (1, "record", None, "1 record"),
        (2, "record", None, "2 records"),
        (1, "entry", "entries", "1 entry"),
        (3, "entry", "entries", "3 entries"),
        (1, "record is", "records are", "1 record is"),
    ],
)
def test_a_count_has_the_number_of_its_noun(count, noun, plural, text):
    assert format_count(count, noun, plural) == text
