"""What a stranger finds the right file and function by: names, and how much is in one folder."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "exporter" / "offsetwatch"
MODULES = sorted(PACKAGE.rglob("*.py"))
TESTS = Path(__file__).parents[1]
MODULES_IN_A_FOLDER = 15

# Words that name nothing in the field of Kafka, Connect and Prometheus.
_BANNED = """
told tell asked wanted seen stood shown met kept given considered looked whose who ill vague
office desk courier diary trail crowd fate fates hands tether pulse landing site sites standing
stands place way habit usual look looks glance anew sight blind law laws life lives rhythm news
stretch storm wish wishes picture together alike edge
"""
BANNED = frozenset(_BANNED.split())
BANNED_IN_TESTS = {"nobody", "nobodys", "somebody", "somebodys", "whoever", "told", "anew"}
# Words after which a docstring leaves its subject out.
_VAGUE_BEGINNINGS = "Of What Whether Where Who Whose How One That As When Which"
VAGUE_BEGINNINGS = frozenset(_VAGUE_BEGINNINGS.split())
OF_THE_FIELD = {
    "LAST_SEEN",
    "_HALF_LIFE_WEEKS",  # of a weight
    "LOOK_BACK_S",
    "_add_last_seen",
    "_find_last_seen_w",
    "_seen_at",
    "last_seen",
    "seen_at",
    "shown_at",
    "wanted_running",
}


def names_of(module: Path) -> Iterator[str]:
    """Yield each name that a module gives: of classes, functions, parameters, fields, variables."""
    for node in ast.walk(ast.parse(module.read_text())):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)}


def test_the_words_of_a_name_are_distinguished():
    assert words("_build_TCPSite2_at") == {"build", "tcp", "site2", "at"}
    assert words("ConnectorRow") == {"connector", "row"}


def test_a_public_class_has_a_name_of_its_own():
    entries = defaultdict(list)
    for module in MODULES:
        for node in ast.parse(module.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                entries[node.name].append(str(module.relative_to(PACKAGE)))
    assert len(entries) > 500
    assert {name: modules for name, modules in entries.items() if len(modules) > 1} == {}


def test_a_folder_shows_its_parts_in_one_view():
    folders = {module.parent for module in MODULES}
    counts = {
        str(folder.relative_to(PACKAGE)): len([*folder.glob("*.py")]) - 1 for folder in folders
    }
    assert len(counts) > 40
    assert {name: count for name, count in counts.items() if count > MODULES_IN_A_FOLDER} == {}


@pytest.mark.parametrize("package", sorted({m.relative_to(PACKAGE).parts[0] for m in MODULES}))
def test_names_are_words_of_the_field(package):
    wrong = [
        f"{module.relative_to(PACKAGE)}: {name}"
        for module in MODULES
        if module.relative_to(PACKAGE).parts[0] == package
        for name in (module.stem, *names_of(module))
        if words(name) & BANNED and name not in OF_THE_FIELD
    ]
    assert wrong == []


def test_a_docstring_begins_with_a_noun_or_a_verb():
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    docstrings = [
        (str(module.relative_to(PACKAGE)), docstring)
        for module in MODULES
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, documented) and (docstring := ast.get_docstring(node)) is not None
    ]
    assert len(docstrings) > 4000
    assert [item for item in docstrings if item[1].split()[0] in VAGUE_BEGINNINGS] == []


def test_only_a_method_that_another_class_documents_has_no_docstring():
    methods = [
        (f"{module.relative_to(PACKAGE)}: {class_.name}", method.name, ast.get_docstring(method))
        for module in MODULES
        for class_ in ast.walk(ast.parse(module.read_text()))
        if isinstance(class_, ast.ClassDef) and not class_.name.startswith("_")
        for method in class_.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
        and not method.name.startswith("_")
    ]
    documented = {name for _, name, docstring in methods if docstring is not None}
    assert len(documented) > 500
    assert [item for item in methods if item[2] is None and item[1] not in documented] == []


def test_a_test_is_named_by_condition_and_result_in_words_of_the_field():
    names = [
        (str(module.relative_to(TESTS)), node.name)
        for module in sorted(TESTS.rglob("test_*.py"))
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert len(names) > 5000
    assert [item for item in names if words(item[1]) & BANNED_IN_TESTS] == []
