"""What sources read: files of lines, and tables of rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from tests.fakes.connect_model.broker import Trouble


class Files:
    """By path or by the name of a table. `troubles` has what a connector that reads a line or a row
    fails with, by its bytes.
    """

    def __init__(self) -> None:
        self.troubles: dict[bytes, Trouble] = {}
        self._content: dict[str, bytes] = defaultdict(bytes)
        self._rows: dict[str, list[bytes | None]] = defaultdict(list)
        self._watching: dict[str, dict[object, Callable[[], None]]] = defaultdict(dict)

    def append(self, path: str, *lines: str) -> None:
        """Whole lines."""
        self._content[path] += "".join(f"{line}\n" for line in lines).encode()
        self._notify(path)

    def insert(self, table: str, *rows: str) -> None:
        self._rows[table] += [row.encode() for row in rows]
        self._notify(table)

    def replace(self, path: str, *lines: str) -> None:
        """The file has these lines and no others."""
        self._content[path] = b""
        self.append(path, *lines)

    def delete(self, table: str, until: int) -> None:
        """The rows up to this number are gone; the others keep theirs."""
        self._rows[table][:until] = [None] * min(until, len(self._rows[table]))

    def drop(self, table: str) -> None:
        """The table has no rows, and counts from 1 again."""
        self._rows[table].clear()

    def size(self, path: str) -> int:
        return len(self._content[path])

    def lines(self, path: str, position: int) -> tuple[list[tuple[bytes, int]], int]:
        """The whole lines from this byte on, each with the position behind it, and the last one."""
        rest = self._content[path][position:]
        results = []
        for line in rest.split(b"\n")[:-1]:
            position += len(line) + 1
            results.append((line, position))
        return results, position

    def rows(self, table: str, after: int) -> list[tuple[int, bytes]]:
        """The rows after this one, each with its number; the first has 1."""
        rows = enumerate(self._rows[table][after:], after + 1)
        return [(number, row) for number, row in rows if row is not None]

    def subscribe(self, name: str, who: object, report: Callable[[], None]) -> None:
        self._watching[name][who] = report

    def unwatch(self, who: object) -> None:
        for watching in self._watching.values():
            watching.pop(who, None)

    def _notify(self, name: str) -> None:
        for report in list(self._watching[name].values()):
            report()
