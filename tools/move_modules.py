"""
Move modules as a list says, and rewrite every import, dotted name and path of them.

    python -m tools.move_modules tools/moves.txt state judge

A line of the list is `old/path new/path`, below the package and without `.py`; the arguments after
it choose the packages. Unit tests named after a module move with it. A module whose last name
changes is imported under its old one (`import reader as read`) where that name stands for
something else, too. Run `ruff check --fix --select I` and `ruff format` after it. Goes when the
moves are done.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

SOURCES: Final = "exporter/"
PACKAGE: Final = "exporter/offsetwatch"
TESTS: Final = "tests/unit"
TEXTS: Final = re.compile(
    r"\.(py|toml|cfg|ini|yaml|yml|md|txt|sh)$|Makefile$|Dockerfile$|\.importlinter$|^\.ci/"
)
LEFT_ALONE: Final = frozenset({"CHANGELOG.md", "tools/moves.txt"})
# A new name is marked until all are in: it may be the old one of another module.
MARK: Final = "\u00a7"
DROPPED: Final = "\0"


def chosen(listing: Path, packages: list[str]) -> dict[str, str]:
    """Return old and new paths of the packages' modules, and of the tests named after them."""
    pairs = [line.split() for line in listing.read_text().splitlines() if line.strip()]
    modules = {old: new for old, new in pairs if old.partition("/")[0] in packages}
    moves = {f"{PACKAGE}/{old}": f"{PACKAGE}/{new}" for old, new in modules.items()}
    for old, new in modules.items():
        moves |= _tests(Path(old), Path(new), modules)
    return moves


def _tests(old: Path, new: Path, modules: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for test in sorted((Path(TESTS) / old.parent).glob(f"test_{old.name}*.py")):
        rest = test.stem.removeprefix(f"test_{old.name}")
        other = f"{old.parent}/{test.stem.removeprefix('test_')}"
        if rest and (not rest.startswith("_") or other in modules):
            continue
        if rest and Path(f"{PACKAGE}/{other}.py").exists():
            continue
        yield (
            str(test.with_suffix("")),
            f"{TESTS}/{new.parent}/test_{new.name}{rest}",
        )


def dotted(path: str) -> str:
    """Return the dotted name of a module's path."""
    return path.removeprefix(SOURCES).replace("/", ".")


def rewritten(text: str, moves: Mapping[str, str], *, python: bool) -> str:
    """Return a file's text with the new names."""
    names = {dotted(old): MARK + dotted(new) for old, new in moves.items()}
    if python:
        text = _imports(text, names)
    longest = sorted(names, key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w.{MARK}])({'|'.join(map(re.escape, longest))})(?!\w)")
    text = pattern.sub(lambda match: names[match[1]], text)
    paths = {f"{old}.py": f"{MARK}{new}.py" for old, new in moves.items()}
    longest = sorted(paths, key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w/.{MARK}-])({'|'.join(map(re.escape, longest))})")
    return pattern.sub(lambda match: paths[match[1]], text).replace(MARK, "")


def _imports(text: str, names: Mapping[str, str]) -> str:
    """Rewrite `from package import module`, of which the dotted name stands nowhere whole."""
    tree = ast.parse(text)
    lines: list[str] = text.split("\n")
    renamed: dict[str, str] = {}
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    for node in sorted(nodes, key=lambda node: node.lineno, reverse=True):
        found = [*_statements(node, names, tree, renamed)] if node.module and not node.level else []
        if not found or node.end_lineno is None:
            continue
        ends = (lines[node.end_lineno - 1], lines[node.lineno - 1])
        comment = next((match[0] for end in ends if (match := re.search(r"  #.*$", end))), "")
        indent = " " * node.col_offset
        joined = "\n".join(indent + line + comment for line in found)
        # As many lines as before, so that those of other nodes keep their numbers.
        dropped = [DROPPED] * (node.end_lineno - node.lineno)
        lines[node.lineno - 1 : node.end_lineno] = [joined, *dropped]
    _rename(tree, lines, renamed)
    return "\n".join(line for line in lines if line != DROPPED)


def _may_rename(tree: ast.Module, old: str, new: str) -> bool:
    """Return whether a file reads a name as one module only, and has no use of the other."""
    if new in dir(builtins) or keyword.iskeyword(new) or new in sys.stdlib_module_names:
        return False
    imports = 0
    for node in ast.walk(tree):
        bound = _bound(node)
        if new in bound or (isinstance(node, ast.Name) and node.id == new):
            return False
        if old in bound:
            if not isinstance(node, ast.alias):
                return False
            imports += 1
        # Python 3.11 has wrong positions for what stands in an f-string.
        if isinstance(node, ast.JoinedStr) and any(
            isinstance(part, ast.Name) and part.id == old for part in ast.walk(node)
        ):
            return False
    return imports == 1


def _bound(node: ast.AST) -> tuple[str, ...]:
    """Return the names that a node binds."""
    match node:
        case ast.Name(id=name) if not isinstance(node.ctx, ast.Load):
            return (name,)
        case ast.arg(arg=name) | ast.keyword(arg=str(name)):
            return (name,) if isinstance(node, ast.arg) else ()
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.alias(name=name, asname=other):
            return ((other or name).partition(".")[0],)
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return (name,)
        case ast.MatchMapping(rest=str(name)):
            return (name,)
        case ast.Global(names=found) | ast.Nonlocal(names=found):
            return tuple(found)
        case ast.ExceptHandler(name=str(name)):
            return (name,)
    return ()


def _rename(tree: ast.Module, lines: list[str], renamed: Mapping[str, str]) -> None:
    """Replace the names by which a file called modules."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in renamed]
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        line = lines[node.lineno - 1].encode()
        end = node.col_offset + len(node.id.encode())
        if line[node.col_offset : end].decode() != node.id:
            raise ValueError(f"{node.id} is not where it should be: {line!r}")
        before, after = line[: node.col_offset], line[end:]
        lines[node.lineno - 1] = (before + renamed[node.id].encode() + after).decode()


def _statements(
    node: ast.ImportFrom,
    names: Mapping[str, str],
    tree: ast.Module,
    renamed: dict[str, str],
) -> Iterator[str]:
    """Yield the statements that take the place of one; nothing where it may stay."""
    module = node.module or ""
    if module not in names and not any(f"{module}.{alias.name}" in names for alias in node.names):
        return
    groups: dict[str, list[str]] = {}
    for alias in node.names:
        moved = names.get(f"{module}.{alias.name}")
        package, name = names.get(module, MARK + module), alias.name
        local = alias.asname or alias.name
        if moved is not None:
            package, _, name = moved.rpartition(".")
            fresh = name != local and name not in renamed.values()
            if alias.asname is None and fresh and _may_rename(tree, local, name):
                renamed[local] = name
                local = name
        groups.setdefault(package, []).append(name if name == local else f"{name} as {local}")
    for package, imported in groups.items():
        yield f"from {package} import {', '.join(imported)}"


def move(moves: Mapping[str, str]) -> None:
    """Move the files, in two steps: a new name may be that of a module which moves, too."""
    for old in moves:
        _git("mv", f"{old}.py", f"{old}.py.moving")
    for old, new in moves.items():
        target = Path(f"{new}.py")
        target.parent.mkdir(parents=True, exist_ok=True)
        for folder in target.parents:
            package = folder / "__init__.py"
            if folder in {Path(PACKAGE), Path(TESTS)} or package.exists():
                break
            package.touch()
            _git("add", str(package))
        _git("mv", f"{old}.py.moving", str(target))
        deeper = new.count("/") - old.count("/")
        text = target.read_text()
        if deeper and "__file__" in text:
            target.write_text(
                re.sub(
                    r"(?<=Path\(__file__\)\.parents\[)\d+(?=\])",
                    lambda match, deeper=deeper: str(int(match[0]) + deeper),
                    text,
                )
            )
            if re.search(r"Path\(__file__\)\.(parent\b|with_name)", text):
                sys.stdout.write(f"look at the paths of {target}\n")
        folder = Path(old).parent
        left = {path.name for path in folder.glob("*") if path.name != "__pycache__"}
        if left == {"__init__.py"}:
            sys.stdout.write(f"{folder} has no module left\n")


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
