"""
Move modules as a list says, and rewrite every import, dotted name and path of them.

    python -m tools.move_modules tools/moves.txt state judge

A line of the list is `old/path new/path`, below `exporter/` and without `.py`; the arguments after
it choose the packages. A module whose last name changes is imported under its old one
(`import reader as read`), so that no other line changes: names within modules are another step.
Run `ruff check --fix --select I` and `ruff format` after it. Goes when the moves are done.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = "exporter"
TEXTS: Final = re.compile(
    r"\.(py|toml|cfg|ini|yaml|yml|md|txt|sh)$|Makefile$|Dockerfile$|\.importlinter$|^\.ci/"
)
LEFT_ALONE: Final = frozenset({"CHANGELOG.md", "tools/moves.txt"})
# A new name is marked until all are in: it may be the old one of another module.
MARK: Final = "\u00a7"


def chosen(listing: Path, packages: list[str]) -> dict[str, str]:
    """Return old and new paths of the packages' modules."""
    pairs = (line.split() for line in listing.read_text().splitlines() if line.strip())
    return {old: new for old, new in pairs if old.partition("/")[0] in packages}


def dotted(path: str) -> str:
    """Return the dotted name of a path below ROOT."""
    return f"{ROOT}.{path.replace('/', '.')}"


def rewritten(text: str, moves: Mapping[str, str], *, python: bool) -> str:
    """Return a file's text with the new names."""
    names = {dotted(old): MARK + dotted(new) for old, new in moves.items()}
    if python:
        text = _imports(text, names)
    longest = sorted(names, key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w.{MARK}])({'|'.join(map(re.escape, longest))})(?!\w)")
    text = pattern.sub(lambda match: names[match[1]], text)
    paths = {f"{ROOT}/{old}.py": f"{ROOT}/{new}.py" for old, new in moves.items()}
    longest = sorted(paths, key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w/.-])({'|'.join(map(re.escape, longest))})")
    return pattern.sub(lambda match: paths[match[1]], text).replace(MARK + ROOT, ROOT)


def _imports(text: str, names: Mapping[str, str]) -> str:
    """Rewrite `from package import module`, of which the dotted name stands nowhere whole."""
    lines = text.split("\n")
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom))
    for node in sorted(nodes, key=lambda node: node.lineno, reverse=True):
        found = [*_statements(node, names)] if node.module and not node.level else []
        if not found or node.end_lineno is None:
            continue
        ends = (lines[node.end_lineno - 1], lines[node.lineno - 1])
        comment = next((match[0] for end in ends if (match := re.search(r"  #.*$", end))), "")
        indent = " " * node.col_offset
        lines[node.lineno - 1 : node.end_lineno] = [indent + line + comment for line in found]
    return "\n".join(lines)


def _statements(node: ast.ImportFrom, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the statements that take the place of one; nothing where it may stay."""
    module = node.module or ""
    if module not in names and not any(f"{module}.{alias.name}" in names for alias in node.names):
        return
    groups: dict[str, list[str]] = {}
    for alias in node.names:
        moved = names.get(f"{module}.{alias.name}")
        package, name = names.get(module, MARK + module), alias.name
        if moved is not None:
            package, _, name = moved.rpartition(".")
        local = alias.asname or alias.name
        groups.setdefault(package, []).append(name if name == local else f"{name} as {local}")
    for package, imported in groups.items():
        yield f"from {package} import {', '.join(imported)}"


def move(moves: Mapping[str, str]) -> None:
    """Move the files, in two steps: a new name may be that of a module which moves, too."""
    for old in moves:
        _git("mv", f"{ROOT}/{old}.py", f"{ROOT}/{old}.py.moving")
    for old, new in moves.items():
        target = Path(f"{ROOT}/{new}.py")
        target.parent.mkdir(parents=True, exist_ok=True)
        for folder in target.parents:
            package = folder / "__init__.py"
            if folder == Path(ROOT) or package.exists():
                break
            package.touch()
            _git("add", str(package))
        _git("mv", f"{ROOT}/{old}.py.moving", str(target))


def _git(*arguments: str) -> str:
    git = shutil.which("git") or "git"
    done = subprocess.run(  # noqa: S603 - a fixed program and paths of our own
        (git, *arguments), check=True, capture_output=True, text=True
    )
    return done.stdout


def main() -> None:
    """Rewrite every text of the repository, then move the modules."""
    moves = chosen(Path(sys.argv[1]), sys.argv[2:])
    for name in _git("ls-files").splitlines():
        path = Path(name)
        if not TEXTS.search(name) or name in LEFT_ALONE or not path.is_file():
            continue
        before = path.read_text()
        after = rewritten(before, moves, python=path.suffix == ".py")
        if after != before:
            path.write_text(after)
    move(moves)


if __name__ == "__main__":
    main()
