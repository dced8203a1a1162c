from __future__ import annotations

import ast

import pytest

from tools.mutation import passage
from tools.mutation.mutants import Mutant, mutants
from tools.mutation.passage import Passage, imported, lines_seen


def changed(source: str) -> list[str]:
    """The module as each of its mutants has it."""
    return [ast.unparse(each.apply()) for each in fresh(source)]


def fresh(source: str) -> list[Mutant]:
    """Each of another tree: a change is not undone."""
    return [mutants("m.py", source)[at] for at in range(len(mutants("m.py", source)))]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", ["a <= b"]),
        ("a in b", ["a not in b"]),
        ("a < 5", ["a <= 5"]),  # one more would be the same
        ("a <= 5", ["a < 5", "a <= 6"]),
        ("0 <= a < b", ["0 < a < b", "0 <= a <= b", "1 <= a < b"]),
        ("a and b", ["b", "a"]),
        ("a or b or c", ["b or c", "a or c", "a or b"]),
        ("not a", ["a"]),
        ("x = a - 1", ["x = a + 1", "x = a - 2"]),
        ("x = True", ["x = False"]),
        ("x = any(a)", ["x = all(a)"]),
        ("x = sorted(a, key=k)", ["x = list(a)"]),
        ("x = b if a else c", ["x = b if not a else c"]),
        ("x = [a for a in b if a]", ["x = [a for a in b if not a]"]),
        ("x = a['k']", ["x = a['kXX']"]),
        ("x = a.get('k', 'd')", ["x = a.get('kXX', 'd')", "x = a.get('k', 'dXX')"]),
        ("a.b = c", ["pass"]),
        ("f(a)", ["pass"]),
        ("x += a", ["pass"]),
    ],
)
def test_what_matters_is_changed_once_in_each_way(source, expected):
    assert changed(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "x = 'only words'",
        "x = f'{a + 1} of {b}'",
        "assert a < b",
        "import a",
        "x: dict[str, 'a | b']",
        "'''What it is for.'''",
        "x = zip(a, b, strict=True)",
    ],
)
def test_words_annotations_and_assertions_are_left_as_they_are(source):
    assert changed(source) == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return a", ["return None"]),
        ("return None", []),
        ("raise Bad(5)", ["pass"]),
        ("yield a", ["None if True else (yield a)"]),
    ],
)
def test_a_function_may_lose_what_it_gives_and_stays_of_its_kind(body, expected):
    found = changed(f"def f(a):\n    {body}")
    assert found == [f"def f(a):\n    {each}" for each in expected]


def test_a_mutant_names_its_function_and_equal_ones_are_told_apart():
    source = "class A:\n    def f(self, a=1):\n        def g():\n            return a < a, a < a\n"
    found = mutants("m.py", source)
    assert [(each.function, each.name.rsplit(": ", 1)[1]) for each in found] == [
        ("", "`1` → `2`"),
        ("A.f", "`return (a < a, a < a)` → `return None`"),
        ("A.f", "`a < a` → `a <= a`"),
        ("A.f", "`a < a` → `a <= a (2)`"),
    ]


def test_a_mutant_is_tried_with_the_tests_that_pass_by_it_near_ones_first_and_within_their_time():
    (mutant,) = mutants("m.py", "def f(a):\n    f(a)\n")
    passage = Passage({("m.py", 2): frozenset({0, 1, 2, 3})}, {0: 1.0, 1: 2.0, 2: 0.5, 3: 99.0})
    assert passage.tests(mutant, frozenset({1}), s_max=20.0) == [1, 2, 0]
    assert Passage({("m.py", 1): frozenset({0})}, {0: 1.0}).tests(mutant, frozenset({0}), 1.0) == []


def test_a_constant_is_tried_with_what_imports_its_module_beside_what_passes_by_it():
    (mutant,) = mutants("m.py", "MOST = 5\n")
    passage = Passage({("m.py", 9): frozenset({0})}, {0: 1.0, 1: 2.0, 2: 0.5})
    near = frozenset({1, 2})
    assert passage.tests(mutant, near, 20.0, naming=frozenset({1, 3})) == [1, 0]
    assert Passage({}, passage.took_s).tests(mutant, near, 20.0) == [2, 1]  # nothing names it


def test_what_a_file_imports_is_told_by_its_paths():
    found = imported("import a.b\nfrom a.c import d as e\nfrom . import f\n")
    modules = {"a/b.py", "a/c.py", "a/c/d.py"}
    assert found == modules | {each.replace(".py", "/__init__.py") for each in modules}


def test_the_lines_that_run_are_seen_and_no_others():
    def asked(a):
        if a:
            return 1
        return 2

    first = asked.__code__.co_firstlineno
    seen = set()
    with lines_seen({__file__: "here"}, seen):
        asked(True)
    assert {("here", first + 1), ("here", first + 2)} <= seen
    assert ("here", first + 3) not in seen


@pytest.mark.parametrize(("calls", "found"), [(3, True), (4, False)])
def test_what_is_called_over_and_over_with_nothing_new_is_not_followed_any_more(
    calls, found, monkeypatch
):
    monkeypatch.setattr(passage, "CALLS_WITHOUT_NEWS", 3)

    def asked(late: bool) -> int:
        if late:
            return 1
        return 2

    seen: set[tuple[str, int]] = set()
    with lines_seen({__file__: "here"}, seen):
        for _ in range(calls):
            asked(False)
        asked(True)
    assert (("here", asked.__code__.co_firstlineno + 2) in seen) is found
