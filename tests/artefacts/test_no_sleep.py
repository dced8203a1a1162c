"""No test sleeps, and none asserts how long something took: a busy machine would fail it, and an
idle one wait for nothing. What is awaited is a condition, and what is asserted is a count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CLOCKS = {"time", "monotonic", "perf_counter"}
# Of a moment it makes another one, or a span of time.
ARITHMETIC = {"abs", "approx", "float", "int", "max", "min", "round"}
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
ASSIGNMENT = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)

MAY_SLEEP = {
    "waiting.py::until": "between two looks at what is awaited",
    "failovers/world.py::World._way": "a network: questions and answers are so long on their way",
    "failovers/run.py::Arena.strike": "a fault comes, and lasts, as drawn: nothing awaits it",
    "failovers/replica.py::Actor.act": "a process that looks for work until its term is over",
    "failovers/replica.py::main": "a process that looks whether it leads until it is killed",
}
MAY_COMPARE_TIMES = {
    "waiting.py::until": "its deadline",
    "unit/lab/faults/test_kinds.py"
    "::test_a_clock_is_set_for_one_process_and_what_waits_for_a_while_waits_no_longer": (
        "the clock of another process is between two readings of ours"
    ),
}


def read_sources() -> Iterator[tuple[str, str]]:
    for path in sorted(TESTS.rglob("*.py")):
        yield path.relative_to(TESTS).as_posix(), path.read_text()


def test_nothing_sleeps_but_a_wait_for_a_condition_and_what_stands_for_the_world():
    results = {f"{file}::{name}" for file, source in read_sources() for name in find_sleeps(source)}
    assert results == MAY_SLEEP.keys()


def test_nothing_asserts_how_long_something_took():
    results = {
        f"{file}::{name}"
        for file, source in read_sources()
        for name in find_timed_assertions(source)
    }
    assert results == MAY_COMPARE_TIMES.keys()


# --- what is looked for ---------------------------------------------------------------------------


def find_sleeps(source: str) -> set[str]:
    """Name the functions that sleep, or wait for an event that nothing in the module sets."""
    if "sleep(" not in source and "Event(" not in source:
        return set()
    tree = ast.parse(source)
    events = {
        last_name(target) for target, value in iterate_assignments(tree) if is_call(value, "Event")
    }
    attributes = [item for item in ast.walk(tree) if isinstance(item, ast.Attribute)]
    is_set = {last_name(attribute.value) for attribute in attributes if attribute.attr == "set"}
    return {
        name
        for name, function in iterate_functions(tree)
        for node in ast.walk(function)
        if is_call(node, "sleep")
        or (is_call(node, "wait") and is_unset_wait(node, events - is_set))
    }


def is_unset_wait(node: ast.AST, events: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=event)):
            return is_call(event, "Event") or last_name(event) in events
    return False


def find_timed_assertions(source: str) -> set[str]:
    """Name the functions that assert how a reading of a clock compares, or what is reckoned from
    one. Names are known by function, attributes and what is global by module.
    """
    if not any(f"{clock}(" in source for clock in CLOCKS):
        return set()
    tree = ast.parse(source)
    clocks = {f"time.{clock}" for clock in CLOCKS} | {
        each.asname or each.name
        for item in ast.walk(tree)
        if isinstance(item, ast.ImportFrom) and item.module == "time"
        for each in item.names
        if each.name in CLOCKS
    }
    shared = [pair for pair in iterate_assignments(tree) if isinstance(pair[0], ast.Attribute)]
    shared += [
        pair
        for item in tree.body
        if isinstance(item, ASSIGNMENT)
        for pair in iterate_assignments(item)
    ]
    return {
        name
        for name, function in iterate_functions(tree)
        if has_time_comparison(
            function, collect_times([*shared, *iterate_assignments(function)], clocks)
        )
    }


def has_time_comparison(function: ast.AST, known: set[str]) -> bool:
    return any(
        is_time(side, known)
        for node in ast.walk(function)
        for condition in iterate_assertions(node)
        for item in ast.walk(condition)
        if isinstance(item, ast.Compare)
        for side in (item.left, *item.comparators)
    )


def collect_times(pairs: list[tuple[ast.AST, ast.AST]], clocks: set[str]) -> set[str]:
    """Add to the clocks what is given their readings."""
    known = set(clocks)
    while fresh := {ast.unparse(node) for node, value in pairs if is_time(value, known)} - known:
        known |= fresh
    return known


def is_time(node: ast.AST, known: set[str]) -> bool:
    match node:
        case ast.Name() | ast.Attribute():
            return ast.unparse(node) in known
        case ast.Call():
            reckoned = last_name(node.func) in ARITHMETIC and any(
                is_time(arg, known) for arg in node.args
            )
            return reckoned or is_time(node.func, known)
        case ast.BinOp():
            return is_time(node.left, known) or is_time(node.right, known)
        case ast.UnaryOp():
            return is_time(node.operand, known)
        case ast.NamedExpr():
            return is_time(node.value, known)
    return False


def iterate_assertions(node: ast.AST) -> Iterable[ast.expr]:
    """Give what has to hold, or must not, for the test to go on."""
    match node:
        case ast.Assert():
            yield node.test
        case ast.If() if any(is_failure(item) for part in node.body for item in ast.walk(part)):
            yield node.test


def is_failure(node: ast.AST) -> bool:
    raises = isinstance(node, ast.Raise) and "AssertionError" in ast.unparse(node)
    return raises or is_call(node, "fail")


# --- trees ----------------------------------------------------------------------------------------


def iterate_functions(tree: ast.AST, within: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Give every function that is in no other one, named with its class, and what is in none."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, FUNCTION):
            yield f"{within}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from iterate_functions(node, f"{within}{node.name}.")
        elif isinstance(node, ast.stmt) and any(
            isinstance(item, FUNCTION) for item in ast.walk(node)
        ):
            yield from iterate_functions(node, within)
        else:
            yield within, node


def iterate_assignments(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Give (target, value) of each assignment, of tuples one by one."""
    for node in ast.walk(tree):
        if not isinstance(node, ASSIGNMENT) or node.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from zip(target.elts, node.value.elts, strict=False)
            else:
                yield target, node.value


def is_call(node: ast.AST, what: str) -> bool:
    """Tell whether it is a call of something of this name, wherever it is from."""
    return isinstance(node, ast.Call) and last_name(node.func) == what


def last_name(node: ast.AST) -> str:
    """Give the last part of a dotted name; "" of anything else."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


# --- that it is found -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "time.sleep(1)",
        "sleep(1)",
        "await asyncio.sleep(0.1)",
        "threading.Event().wait(1)",
        "never = threading.Event(); never.wait(1)",
        "self._never = Event(); self._never.wait(1)",
        "def inner():\n        time.sleep(1)",
    ],
)
def test_a_sleep_is_found(body: str):
    assert find_sleeps(f"async def test_one(self):\n    {body}\n") == {"test_one"}
    assert find_sleeps(f"class Bed:\n  async def test_one(self):\n    {body}\n") == {"Bed.test_one"}


@pytest.mark.parametrize(
    "body",
    [
        "over = threading.Event(); tail(over.set); over.wait(1)",
        "asleep(1); sleep = 1",
        "process.wait(1)",
        "'time.sleep(1)'",
        "run(pause=time.sleep)",
    ],
)
def test_what_is_awaited_or_only_named_is_no_sleep(body: str):
    assert find_sleeps(f"async def test_one(self):\n    {body}\n") == set()


@pytest.mark.parametrize(
    "body",
    [
        "assert time.time() - began < 5",
        "assert deadline > time.monotonic()",
        "began = perf_counter(); do(); took = round(perf_counter() - began, 1); assert took < 5",
        "began, other = time.monotonic(), 1; assert other and not began + 1 < other",
        "self.took_s = time.time() - 5; assert 0 <= self.took_s <= 1",
        "assert (now := time.time()) > then",
        "assert age == pytest.approx(time.time() - first)",
        "assert NOW < then",
        "if time.time() > until:\n        pytest.fail('too late')",
        "if time.time() > until:\n        raise AssertionError('too late')",
    ],
)
def test_an_assertion_about_the_time_that_passed_is_found(body: str):
    head = "from time import perf_counter\nNOW = time.time()\n"
    assert find_timed_assertions(f"{head}def test_one(self):\n    {body}\n") == {"test_one"}


@pytest.mark.parametrize(
    "body",
    [
        "assert time.process_time() - began < 5",
        "assert clock.now() - began < 5",
        "now = time.time(); assert seen(now) == 1",
        "if time.time() < shown:\n        raise NotYet",
        "assert took_s > 20 * MINUTE",
    ],
)
def test_what_a_clock_of_the_test_s_own_says_may_be_asserted(body: str):
    assert find_timed_assertions(f"def test_one(self):\n    {body}\n") == set()
