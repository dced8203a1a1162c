"""
Trying mutants: each in a fork of one interpreter that has collected the tests and run none.

A change inside of a function is put into the functions that are there already; one of a module
itself (a constant, a default) into a fork that imports the project again. Of the tests, those run
that pass by the changed lines, quickest first, until one fails.
"""

from __future__ import annotations

import gc
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final

import pytest
from hypothesis import Phase, settings

from tools.mutation import afresh
from tools.mutation.forks import Forks, answer_of
from tools.mutation.mutants import Mutant
from tools.mutation.passage import Passage, imported, lines_seen

HANGS_AFTER_S: Final = 20.0  # of computing, on top of ten times what the tests took unchanged

Functions = dict[tuple[str, str, int], list[FunctionType]]


class Fate(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    HUNG = "timeout"  # noticed, as a test that never ends is


@dataclass(frozen=True, slots=True)
class Tried:
    """A mutant, what became of it, and how many tests could have noticed it."""

    mutant: Mutant
    fate: Fate
    tests: int


class Runs:
    """A pytest plugin: instead of running the tests once, it tries every mutant with them."""

    def __init__(
        self,
        root: Path,
        mutants: Sequence[Mutant],
        *,
        workers: int,
        told: Callable[[Tried], None],
        tests_s_max: float,
    ) -> None:
        self._root = root
        self._mutants = mutants
        self._forks = Forks(workers)
        self._told = told
        self._tests_s_max = tests_s_max
        self._failed = False
        self._near: dict[str, frozenset[int]] = {}
        self._naming: dict[str, frozenset[int]] = {}  # by module, those whose file imports it
        self.passage = Passage({}, {})
        self.left_out: set[str] = set()  # modules whose tests fail where all is imported again

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Before tests are imported: hypothesis is to fail at once, and not to look for less."""
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutation", parent=settings.get_profile("fixed"), phases=phases)
        settings.load_profile("mutation")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails, in whichever phase, has noticed the change."""
        self._failed = self._failed or report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """All of it, in forks: this process itself runs no test, so that none is influenced."""
        self.passage = answer_of(lambda: self._walk(session))
        self._near = {
            package: frozenset(
                at for at, item in enumerate(session.items) if f"/unit/{package}/" in item.nodeid
            )
            for package in {_package(each) for each in self._mutants}
        }
        self._naming = _naming(session.items)
        gc.collect()
        functions = _functions(self._root)
        gc.freeze()  # what is collected is not looked at again by every fork
        living = {(path, name) for path, name, _ in functions}
        for mutant in self._mutants:
            if (self._file(mutant), mutant.function) in living:
                self._try_in_place(session, mutant, functions)
        self._forks.finish()
        self._try_afresh(
            session,
            [each for each in self._mutants if (self._file(each), each.function) not in living],
        )
        return True

    def _walk(self, session: pytest.Session) -> Passage:
        files = {self._file(each): each.path for each in self._mutants}
        by_line: dict[tuple[str, int], set[int]] = defaultdict(set)
        took_s = {}
        failing = []
        for at, item in enumerate(session.items):
            seen: set[tuple[str, int]] = set()
            began = time.process_time()
            with lines_seen(files, seen):
                passed = self._pass(session, [at])
            if not passed:
                failing.append(item.nodeid)
                continue
            took_s[at] = time.process_time() - began
            for where in seen:
                by_line[where].add(at)
        lines = {where: frozenset(tests) for where, tests in by_line.items()}
        return Passage(lines, took_s, tuple(failing))

    def _pass(self, session: pytest.Session, tests: Sequence[int]) -> bool:
        """Until one fails."""
        self._failed = False
        for at, following in zip(tests, [*tests[1:], None], strict=True):
            item = session.items[at]
            after = None if following is None else session.items[following]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if self._failed:
                return False
        return True

    def _try_in_place(self, session: pytest.Session, mutant: Mutant, functions: Functions) -> None:
        tests = self._tests(mutant)

        def passes() -> bool:
            _put(mutant, self._file(mutant), functions)
            return self._pass(session, tests)

        self._start(mutant, tests, passes)

    def _try_afresh(self, session: pytest.Session, mutants: Sequence[Mutant]) -> None:
        """Where the tests of a module fail with nothing changed, they would tell nothing."""
        names = {
            each.path: [session.items[at].nodeid for at in self._tests(each)] for each in mutants
        }
        for path, tests in names.items():
            self._forks.start(
                lambda path=path, tests=tests: afresh.passes(path, None, tests),  # type: ignore[misc]
                limit_s=20 * HANGS_AFTER_S,
                then=lambda passed, path=path: (  # type: ignore[misc]
                    None if passed else self.left_out.add(path)
                ),
            )
        self._forks.finish()
        for mutant in mutants:
            if mutant.path not in self.left_out:
                self._start(mutant, self._tests(mutant), self._afresh(mutant, names[mutant.path]))
        self._forks.finish()

    def _afresh(self, mutant: Mutant, tests: Sequence[str]) -> Callable[[], bool]:
        file = self._file(mutant)
        return lambda: afresh.passes(file, compile(mutant.apply(), file, "exec"), tests)

    def _start(self, mutant: Mutant, tests: Sequence[int], passes: Callable[[], bool]) -> None:
        def then(passed: bool | None) -> None:  # noqa: FBT001 - as the forks call it
            fate = {None: Fate.HUNG, True: Fate.SURVIVED, False: Fate.KILLED}[passed]
            self._told(Tried(mutant, fate, len(tests)))

        if not tests:
            then(True)
            return
        took_s = sum(self.passage.took_s[at] for at in tests)
        self._forks.start(passes, limit_s=HANGS_AFTER_S + 10 * took_s, then=then)

    def _tests(self, mutant: Mutant) -> list[int]:
        near, naming = self._near[_package(mutant)], self._naming.get(mutant.path, frozenset())
        return self.passage.tests(mutant, near, self._tests_s_max, naming)

    def _file(self, mutant: Mutant) -> str:
        return str(self._root / mutant.path)


def _package(mutant: Mutant) -> str:
    return mutant.path.split("/")[1]


def _naming(items: Sequence[pytest.Item]) -> dict[str, frozenset[int]]:
    named = {path: imported(path.read_text(encoding="utf-8")) for path in {i.path for i in items}}
    found = defaultdict(set)
    for at, item in enumerate(items):
        for path in named[item.path]:
            found[path].add(at)
    return {path: frozenset(tests) for path, tests in found.items()}


def _functions(root: Path) -> Functions:
    """Every function of the project that exists, by where its code is from."""
    found: Functions = defaultdict(list)
    for each in gc.get_objects():
        if isinstance(each, FunctionType):
            code = each.__code__
            if code.co_filename.startswith(str(root)):
                found[code.co_filename, code.co_qualname, code.co_firstlineno].append(each)
    return found


def _put(mutant: Mutant, file: str, functions: Functions) -> None:
    """The changed code into every function that was made of the unchanged one."""
    for code in _codes(compile(mutant.apply(), file, "exec")):
        for function in functions.get((file, code.co_qualname, code.co_firstlineno), []):
            if code.co_qualname == mutant.function:
                function.__code__ = code


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)
