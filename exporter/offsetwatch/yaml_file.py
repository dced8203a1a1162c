"""Parser of YAML files, with mistakes that say what is expected.

No message repeats a value of the file, which may be a password.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml
import yaml.reader

from offsetwatch.errors import ConfigError

_VALUES_MAX: Final = 100_000  # a configuration of a thousand connectors has a tenth of it
_DEPTH_MAX: Final = 50
_TOO_DEEP: Final = "it is nested too deep"
_ENDLESS_ALIASES: Final = (
    "it refers to its own parts, or to others so often that it unfolds without an end"
)
_QUOTED = re.compile(r"(?P<quote>['\"])(?P<text>.*?)(?P=quote)", re.DOTALL)
_ALIAS: Final = "a value that begins with * or & is an alias or an anchor: put it in quotes"
_TAG: Final = "a value that begins with ! is a tag: put it in quotes"
_WRONG_KIND: Final = "a value is not of its kind"
_MISFIT: Final = "this does not fit the lines above it: check indentation, quotes and brackets"
_BACKSLASH: Final = "a backslash in double quotes begins an escape: double it, or use single quotes"
# What PyYAML says, by a part of it, and what it means to the author of the file.
_YAML_HINTS = {
    "'\\t'": "a tab, which cannot indent in YAML: use spaces",
    "undefined alias": _ALIAS,
    "duplicate anchor": "an anchor (&) is given twice",
    "alphabetic or numeric character": _ALIAS,
    "a constructor for the tag": _TAG,
    "tag handle": _TAG,
    "while scanning a tag": _TAG,
    "mapping values are not allowed": (
        "a colon is not expected here: put a value that has one in quotes; otherwise check the "
        "indentation, and the line above"
    ),
    "could not find expected ':'": "a key without a colon and a blank, here or in the line above",
    "sequence entries are not allowed": "an entry of a list (-) has to begin on its own line",
    "mapping keys are not allowed": "a value that begins with ? has to be in quotes",
    "unknown escape": _BACKSLASH,
    "hexadecimal numbers": _BACKSLASH,
    "unexpected end of stream": "a quote before this is not closed",
    "unexpected document separator": "a quote before this is not closed",
    "or '}'": "a { before this is not closed, or a comma is missing",
    "or ']'": "a [ before this is not closed, or a comma is missing",
    "a single document": "a second document begins here (---): a configuration is one",
    "<document start>": _MISFIT,
    "<block end>": _MISFIT,
    "a comment or a line break": "| and > begin a text of several lines: put this value in quotes",
    "indentation indicator": "| and > begin a text of several lines: put this value in quotes",
    "'<stream end>'": "a { or a [ before this is not closed",
    "while parsing a node": "a value is missing or cannot begin so: put it in quotes",
    "node content": "a value is missing or cannot begin so: put it in quotes",
    "for merging": "<< needs a mapping, or a list of mappings",
    "node, but found": _WRONG_KIND,
    "unhashable key": "a key is a list or a mapping, and has to be a text",
    "directive": "a line that begins with % is a directive of YAML: put the value in quotes",
}
_CANNOT_BEGIN: Final = "cannot start any token"
_PUNCTUATION = re.compile(r"[-:?,{}\[\]&*!|>%@`#]")


def read_yaml(path: Path) -> object:
    """Return the parsed file. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as exc:
        reason = exc.strerror or type(exc).__name__
        raise ConfigError((f"{path}: cannot be read: {reason}",)) from exc
    except UnicodeDecodeError as exc:
        reason = f"it is not UTF-8 (byte {exc.start + 1}): save it as UTF-8"
        raise ConfigError((f"{path}: cannot be read: {reason}",)) from exc
    return parse_yaml(text, str(path))


def parse_yaml(text: str, source: str) -> object:
    """Return the parsed text of a file. Raises ConfigError."""
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
        _check_unfolding(document)
    except yaml.YAMLError as exc:
        raise ConfigError((f"{source}: not YAML: {_describe_yaml_error(exc, text)}",)) from None
    except RecursionError:
        raise ConfigError((f"{source}: not YAML: {_TOO_DEEP}",)) from None
    except (ValueError, OverflowError):  # PyYAML's scanner, of "\UFFFFFFFF"
        raise ConfigError((f"{source}: not YAML: an escape is no character",)) from None
    return document


class _Loader(yaml.SafeLoader):
    """A YAML loader that rejects duplicate keys and values that do not fit their tag.

    PyYAML would take the last of two keys. Its constructors raise other errors than YAMLError for a
    value that does not fit its tag or its form.
    """

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Reject duplicate keys, before merged keys are added."""
        node = super().compose_mapping_node(anchor)
        names: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in names:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value} is given twice", problem_mark=key.start_mark
                )
            names.add(key.value)
        return node

    def construct_object(
        self,
        node: yaml.Node,
        deep: bool = False,  # noqa: FBT001, FBT002 - PyYAML's own signature
    ) -> Any:
        """Raise MarkedYAMLError for a value that does not fit its tag."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError, LookupError, AttributeError, TypeError) as exc:
            raise yaml.MarkedYAMLError(problem=_WRONG_KIND, problem_mark=node.start_mark) from exc

    def fetch_flow_collection_start(self, TokenClass: type[yaml.Token]) -> None:  # noqa: N803
        """Limit the depth of brackets: PyYAML checks all open brackets at each further one."""
        if self.flow_level >= _DEPTH_MAX:
            raise yaml.MarkedYAMLError(problem=_TOO_DEEP, problem_mark=self.get_mark())
        super().fetch_flow_collection_start(TokenClass)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Limit the size of merged mappings: merges of merges double with every line."""
        super().flatten_mapping(node)
        if len(node.value) > _VALUES_MAX:
            raise yaml.MarkedYAMLError(problem=_ENDLESS_ALIASES, problem_mark=node.start_mark)


def _check_unfolding(node: object) -> None:
    """Raise YAMLError for a document that is endless or huge because it refers to its own parts."""
    pending: list[tuple[object, int]] = [(node, 0)]
    count = 0
    while pending:
        value, depth = pending.pop()
        inside = list(value.values()) if isinstance(value, dict) else value
        if not isinstance(inside, list | tuple):
            continue
        count += len(inside)
        if count > _VALUES_MAX or depth > _DEPTH_MAX:
            raise yaml.MarkedYAMLError(problem=_ENDLESS_ALIASES)
        pending.extend((item, depth + 1) for item in inside)


def _describe_yaml_error(error: yaml.YAMLError, text: str) -> str:
    """Return line, column and problem, without the text that PyYAML quotes.

    It may hold a password.
    """
    mark = getattr(error, "problem_mark", None)
    if getattr(error, "problem", None) == _ENDLESS_ALIASES:
        return _ENDLESS_ALIASES
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, int(error.position)) + 1
        return f"line {line}: a character that YAML does not allow, such as a control character"
    if mark is None:
        return "it holds characters that YAML does not allow"
    where = f"line {mark.line + 1}, column {mark.column + 1}"
    problem = str(getattr(error, "problem", None) or "cannot be parsed")
    said = f"{getattr(error, 'context', None) or ''} {problem}"
    for sign, meaning in _YAML_HINTS.items():
        if sign in said:
            return f"{where}: {meaning}"
    if _CANNOT_BEGIN in problem:
        quoted = _QUOTED.search(problem)
        character = quoted["text"] if quoted and _PUNCTUATION.fullmatch(quoted["text"]) else "this"
        return f"{where}: a value cannot begin with {character}: put it in quotes"
    return f"{where}: {_QUOTED.sub('what is there', problem)}"
