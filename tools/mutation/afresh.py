"""Tests in a fork that forgets the project and imports it again, with one module changed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Final

import pytest

OURS: Final = frozenset({"bench", "conftest", "dashboards", "exporter", "lab", "tests"})


class _Chosen:
    """A pytest plugin: of what is collected, these alone, in this order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._order = {test: at for at, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """In place, as pytest wants it."""
        items[:] = sorted(
            (item for item in items if item.nodeid in self._order),
            key=lambda item: self._order[item.nodeid],
        )


def passes(file: str, changed: CodeType | None, tests: Sequence[str]) -> bool:
    """Do all these tests pass, where a file's code is another (or none is)?

    Only for a fork that ends after it: what it takes away is not brought back.
    """
    usual = SourceFileLoader.get_code

    def code_of(loader: SourceFileLoader, name: str) -> CodeType | None:
        return changed if changed is not None and loader.path == file else usual(loader, name)

    # Whoever imports it: pytest's own hook ends here as well.
    SourceFileLoader.get_code = code_of  # type: ignore[method-assign,assignment]
    for name in [name for name in sys.modules if name.split(".")[0] in OURS]:
        del sys.modules[name]
    files = dict.fromkeys(test.split("::")[0] for test in tests)
    options = ["-x", "-q", "-s", "-p", "no:cacheprovider", "--tb=line", "--assert=plain"]
    ended = pytest.main([*options, *files], plugins=[_Chosen(tests)])
    return ended == pytest.ExitCode.OK
