"""Which tests pass by which lines: those alone can notice a change there."""

from __future__ import annotations

import ast
import contextlib
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Final

from tools.mutation.mutants import Mutant

# After so many calls of a function in which no line of it is new it is not followed any more: what
# is called a hundred thousand times would take most of a walk.
CALLS_WITHOUT_NEWS: Final = 200


@dataclass(frozen=True, slots=True)
class Passage:
    """Which tests, by number, pass by which lines, what each computed, and what cannot be used."""

    by_line: Mapping[tuple[str, int], frozenset[int]]
    took_s: Mapping[int, float]
    failing: tuple[str, ...] = ()  # when they are looked at

    def tests(
        self,
        mutant: Mutant,
        near: frozenset[int],
        s_max: float,
        naming: frozenset[int] = frozenset(),
    ) -> list[int]:
        """Those to try a mutant with: the near ones first, and each time the quickest.

        The lines of a module itself were run when it was imported, by no test: so a change there
        is tried with all that pass by the module or import it by name, or with what is near.
        """
        if mutant.function:
            found = self._by(mutant.path, mutant.lines)
        else:
            found = {
                test
                for (path, _), tests in self.by_line.items()
                for test in tests
                if path == mutant.path
            } | {test for test in naming if test in self.took_s}
            found = found or {test for test in near if test in self.took_s}
        chosen, left_s = [], s_max
        for test in sorted(found, key=lambda test: (test not in near, self.took_s[test], test)):
            if self.took_s[test] <= left_s:
                left_s -= self.took_s[test]
                chosen.append(test)
        return chosen

    def _by(self, path: str, lines: range) -> set[int]:
        return {test for line in lines for test in self.by_line.get((path, line), ())}


def imported(source: str) -> set[str]:
    """The paths of modules, as they would be, of all that a file imports: a name may be one."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{name.name}" for name in node.names)
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
    return {f"{name.replace('.', '/')}{end}" for name in found for end in (".py", "/__init__.py")}


@contextlib.contextmanager
def lines_seen(files: Mapping[str, str], seen: set[tuple[str, int]]) -> Iterator[None]:
    """Adds (path, line) of what is run meanwhile of these files, in all threads."""
    calls: dict[CodeType, int] = {}  # since a line of it was new

    def line(frame: FrameType, event: str, _: object) -> Any:
        where = (files[frame.f_code.co_filename], frame.f_lineno)
        if event == "line" and where not in seen:
            seen.add(where)
            calls[frame.f_code] = 0
        return line

    def call(frame: FrameType, _event: str, _: object) -> Any:
        code = frame.f_code
        if code.co_filename not in files:
            return None
        calls[code] = calls.get(code, 0) + 1
        return line if calls[code] <= CALLS_WITHOUT_NEWS else None

    threading.settrace(call)
    sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(None)
        threading.settrace(None)
