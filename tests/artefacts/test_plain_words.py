"""Texts for people use the words of Kafka, Connect and Prometheus, and no private ones."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsetwatch.judge.progress.verdict_rules import RULE_TEXTS

ROOT = Path(__file__).parents[2]

# Each with the words that say it.
PRIVATE = {
    "told|untold|tells|telling": "reports, shows, persisted, notified",
    "laws?": "rule",
    "anew": "again, recreated",
    "somebody|nobody|anybody|whoever": "the operator, the user, or no one named by role",
    "strangers?": "unknown members",
    "lapse|lapses|lapsed": "expires",
    "has it go back": "rolls it back",
    "mend|mends|mended": "fix, recover",
    "says no": "denies",
    "in vain": "ineffective",
    "another world": "outdated",
    "glances?|look around|(?:a|one|each) look|two looks": "poll, inspect, compare",
    "asked for|looked at": "requested, read, inspected",
    "rhythm|habit": "interval, baseline",
    "pace": "rate",
    "trail|news": "syncs since the last poll",
    "crowd": "small files",
    "fate": "loss accounting",
    "leap": "position jump",
    "storm|ill": "mass failure, unhealthy",
    "courier": "delivery queue",
    "pulse": "heartbeat",
    "tether": "parent watch",
    "desk|office": "remediation API",
    "landings?": "failover cost, position after failover",
    "blind|sight": "unavailable input",
    "sites?": "Connect cluster",
    # `remedy` is a key of the configuration, too.
    "(?<![.\"'/$#])remed(?:y|ies)(?![:/]|\\.\\w)": "remediation",
}
WORDS = re.compile(rf"(?<![\w/-])(?:{'|'.join(PRIVATE)})(?![\w-])", re.IGNORECASE)


def visible(path: Path) -> Iterator[tuple[int, str]]:
    """Texts of a file that reach a person, with the line on which each begins."""
    text = path.read_text(encoding="utf-8")
    match path.suffix:
        case ".py":
            yield from of_python(text)
        case ".json":
            yield from ((1, value) for value in of_json(json.loads(text)))
        case ".js":
            bare = re.sub(r"/\*.*?\*/|^\s*//.*?$", blank, text, flags=re.DOTALL | re.MULTILINE)
            for match in re.finditer(r"\"[^\"\n]*\"|'[^'\n]*'|`[^`]*`", bare):
                yield bare.count("\n", 0, match.start()) + 1, re.sub(r"`|\$\{.*?\}", "", match[0])
        case _:
            yield from enumerate(text.splitlines(), start=1)


def of_python(text: str) -> Iterator[tuple[int, str]]:
    """Literals of more than one word that are no docstring; values inside them become `{}`."""
    tree = ast.parse(text)
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant() as docstring):
                skipped.add(docstring)
            case ast.JoinedStr(values=parts):
                skipped.update(part for part in parts if isinstance(part, ast.Constant))
                pieces = (p.value if isinstance(p, ast.Constant) else "{}" for p in parts)
                yield node.lineno, "".join(str(piece) for piece in pieces)
            case ast.Constant(value=str(value)) if node not in skipped and " " in value.strip():
                yield node.lineno, value
            case _:
                pass


def of_json(value: object) -> Iterator[str]:
    """Strings of a document, without the queries of a board."""
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from of_json(item)
        case dict():
            for key, item in value.items():
                if key != "expr":
                    yield from of_json(item)


def blank(match: re.Match[str]) -> str:
    """As many lines, with nothing on them."""
    return "\n" * match[0].count("\n")


def private_words(path: Path) -> list[str]:
    """`file:line: word in its text` for each. Names in code spans are of contracts, and stay."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {match[0]!r} in {text.strip()}"
        for number, text in visible(path)
        for match in WORDS.finditer(re.sub(r"`[^`]*`", "``", text))
    ]


def files() -> Iterator[Path]:
    for pattern in (
        "README.md",
        "CHANGELOG.md",
        "config-reference.yaml",
        "docs/**/*.md",
        "docs/**/*.svg",
        "alerts/**/*.md",
        "alerts/*.yaml",
        "alerts/optional/*.yaml",
        "dashboards/*.json",
        "helm/offsetwatch/*.md",
        "helm/offsetwatch/values.yaml",
        "helm/offsetwatch/values.schema.json",
        "helm/offsetwatch/templates/*",
        "exporter/offsetwatch/**/*.py",
        "exporter/offsetwatch/serve/static/*.js",
        "exporter/offsetwatch/serve/static/*.html",
    ):
        globs = [path for path in ROOT.glob(pattern) if path.is_file()]
        assert globs, pattern
        yield from globs


FILES = {str(path.relative_to(ROOT)): path for path in files()}


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_text_for_operators_has_no_private_word(name: str) -> None:
    assert private_words(FILES[name]) == []


@pytest.mark.parametrize("number", sorted(RULE_TEXTS))
def test_a_rule_of_a_verdict_has_no_private_word(number: int) -> None:
    assert WORDS.search(RULE_TEXTS[number]) is None


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.py", '"""Told."""\nX = "was told so"\nY = "told"\n', [2]),
        ("a.py", 'def f(n: int) -> str:\n    """Anew."""\n    return f"{n} told {n}"\n', [3]),
        ("a.py", 'X = "is `told` so"\nY = {"remedy.mode is auto": "see remedy.auto"}\n', []),
        ("a.json", '{"told": 1, "title": "What a law says", "expr": "law"}', [1]),
        ("a.js", '// told anew\nshow("told")\n/* law\n*/ show(`not told`);\n', [2, 4]),
        ("a.md", "Nothing.\nIt is told.\n\n```yaml\nremedy:  # of remedies\n```\n", [2, 5]),
    ],
)
def test_a_private_word_is_found_where_an_operator_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, lines: list[int]
) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    (tmp_path / name).write_text(text)
    result = private_words(tmp_path / name)
    assert [int(line.split(":")[1]) for line in result] == lines
