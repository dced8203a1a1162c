"""The daemon's log in the runbooks: a line that somebody is told to look for is written, with these
fields.

A runbook quotes it as: event `name`, and where fields matter, event `name` (`field`, `field`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from .test_runbooks import RUNBOOKS, every_runbook

EXPORTER = Path(__file__).parents[2] / "exporter" / "offsetwatch"
LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
QUOTED = re.compile(r"event\s+`(\w+)`(?:\s+\(([^)]*)\))?")
LOG = re.compile(r"daemon's(?:\s+own)?\s+log|\bThe\s+log\s+says")


def written(source: str) -> Iterator[tuple[str, frozenset[str]]]:
    """The events that a module writes, each with its fields."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="log" | "_log"), attr=level),
                args=[ast.Constant(value=str(event)), *_],
                keywords=fields,
            ) if level in LEVELS:
                yield event, frozenset(field.arg for field in fields if field.arg is not None)


@cache
def events() -> dict[str, set[frozenset[str]]]:
    """Return the field sets of each event that the product writes."""
    result: dict[str, set[frozenset[str]]] = {}
    for path in sorted(EXPORTER.rglob("*.py")):
        for event, fields in written(path.read_text(encoding="utf-8")):
            result.setdefault(event, set()).add(fields)
    return result


def quoted(text: str) -> Iterator[tuple[str, frozenset[str]]]:
    """The events that a text tells people to look for, each with the fields that it names."""
    for event, fields in QUOTED.findall(text):
        yield event, frozenset(re.findall(r"`(\w+)`", fields))


@every_runbook
def test_an_event_of_the_log_is_written_with_the_fields_that_are_named(name: str) -> None:
    for event, fields in quoted(RUNBOOKS[name]):
        assert any(fields <= there for there in events().get(event, ())), (event, fields)


@every_runbook
def test_a_sentence_of_a_runbook_about_the_log_names_the_event_to_search_for(
    name: str,
) -> None:
    sentences = re.split(r"(?<=[.?!])\s+(?=[A-Z*`|])", RUNBOOKS[name])
    for sentence in sentences:
        assert not LOG.search(sentence) or list(quoted(sentence)), sentence


def test_some_runbooks_send_operators_to_the_log() -> None:
    sent = [name for name, text in RUNBOOKS.items() if LOG.search(text)]
    assert {"OffsetwatchNotificationsFailing", "OffsetwatchStateNotSaved"} <= set(sent)
    assert {"tail_caught_up", "notification_failed"} <= events().keys()


@pytest.mark.parametrize(
    "text",
    ["event `memory_not_kept`", "event `memory_not_saved` (`why`)"],
    ids=["an event that is never written", "a field that it has not"],
)
def test_what_is_not_written_would_be_noticed(text: str) -> None:
    ((event, fields),) = quoted(text)
    assert not any(fields <= there for there in events().get(event, ()))
