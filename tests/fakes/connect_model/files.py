"""What sources read: files of lines, and tables of rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable


class Files:
    """By path or by the name of a table."""

    def __init__(self) -> None:
        self._content: dict[str, bytes] = defaultdict(bytes)
        self._rows: dict[str, list[bytes]] = defaultdict(list)
        self._watching: dict[str, dict[object, Callable[[], None]]] = defaultdict(dict)

    def append(self, path: str, *lines: str) -> None:
        """Whole lines."""
        self._content[path] += "".join(f"{line}\n" for line in lines).encode()
        self._notify(path)

    def insert(self, table: str, *rows: str) -> None:
        self._rows[table] += [row.encode() for row in rows]
        self._notify(table)

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

    def rows(self, table: str, first: int) -> list[bytes]:
        return self._rows[table][first:]

    def subscribe(self, name: str, who: object, report: Callable[[], None]) -> None:
        self._watching[name][who] = report

    def unwatch(self, who: object) -> None:
        for watching in self._watching.values():
            watching.pop(who, None)

    def _notify(self, name: str) -> None:
        for report in list(self._watching[name].values()):
            report()
