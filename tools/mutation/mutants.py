"""
What may be changed in a module: each operator, boundary, constant and statement that matters.

Left out on purpose: the wording of messages, annotations, decorators, assertions. `and` does not
become `or`: each of its sides is dropped, which no test notices that would not notice the other.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TEXT_CHARS_MAX: Final = 90  # as much as names a change; longer ones are cut
_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
_UNSEEN: Final = {"annotation", "returns", "decorator_list", "type_params", "format_spec"}
_BOOLEAN: Final = (ast.Compare, ast.BoolOp, ast.Constant)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module, and where it is. `apply` makes it, for good."""

    path: str
    function: str  # the outermost function or method it is in; empty: the module itself
    lines: range  # of the statement, or of the head of one that has a body
    old: str
    new: str
    tree: ast.Module
    parent: ast.AST
    field: str
    index: int | None
    replacement: ast.AST

    @property
    def name(self) -> str:
        """How it is told, and told apart from the others of its function."""
        return f"`{self.path}` `{self.function or '(module)'}`: `{self.old}` → `{self.new}`"

    def apply(self) -> ast.Module:
        """The module's tree with the change in it; there is no way back."""
        if self.index is None:
            setattr(self.parent, self.field, self.replacement)
        else:
            getattr(self.parent, self.field)[self.index] = self.replacement
        return ast.fix_missing_locations(self.tree)


def mutants(path: str, source: str) -> list[Mutant]:
    """All of one module, in the order of its text; same source, same names."""
    tree = ast.parse(source, filename=path)
    found: list[Mutant] = []
    _Walk(path, tree, found).visit(tree, function="", lines=range(0), inside=())
    seen: Counter[str] = Counter()
    named = []
    for each in found:
        seen[each.name] += 1
        again = seen[each.name]
        named.append(each if again == 1 else _renamed(each, f"{each.new} ({again})"))
    return named


def of_files(root: Path, paths: Sequence[str]) -> list[Mutant]:
    """All of several modules, whose paths are told from the root."""
    return [
        each for path in paths for each in mutants(path, (root / path).read_text(encoding="utf-8"))
    ]


def _renamed(mutant: Mutant, new: str) -> Mutant:
    fields = {name: getattr(mutant, name) for name in Mutant.__dataclass_fields__}
    return Mutant(**{**fields, "new": new})


class _Walk:
    def __init__(self, path: str, tree: ast.Module, found: list[Mutant]) -> None:
        self._path = path
        self._tree = tree
        self._found = found

    def visit(self, node: ast.AST, *, function: str, lines: range, inside: tuple[str, ...]) -> None:
        """Everything below a node; `inside` are the classes and functions around it."""
        for field, value in ast.iter_fields(node):
            if field in _UNSEEN:
                continue
            several = isinstance(value, list)
            for index, child in enumerate(value if several else [value]):
                if isinstance(child, ast.AST):
                    where = index if several else None
                    self._child(node, field, where, child, function, lines, inside)

    def _child(
        self,
        parent: ast.AST,
        field: str,
        index: int | None,
        child: ast.AST,
        function: str,
        lines: range,
        inside: tuple[str, ...],
    ) -> None:
        if isinstance(child, ast.stmt):
            lines = _head(child)
        if _is_left_out(parent, field, child):
            return
        for replacement in _changes(parent, field, child):
            old, new = _told(parent, field, index, child, replacement)
            self._found.append(
                Mutant(
                    path=self._path,
                    function=function,
                    lines=lines,
                    old=old,
                    new=new,
                    tree=self._tree,
                    parent=parent,
                    field=field,
                    index=index,
                    replacement=ast.copy_location(replacement, child),
                )
            )
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            within = ".".join((*inside, child.name))
            # Defaults are made where the function is: by the module.
            self.visit(child.args, function=function, lines=lines, inside=inside)
            for at, statement in enumerate(child.body):
                self._child(
                    child, "body", at, statement, function or within, lines, (*inside, child.name)
                )
            return
        if isinstance(child, ast.ClassDef):
            inside = (*inside, child.name)
        self.visit(child, function=function, lines=lines, inside=inside)


def _head(statement: ast.stmt) -> range:
    body = getattr(statement, "body", None)
    if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
        return range(statement.lineno, max(statement.lineno + 1, body[0].lineno))
    return range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)


def _is_left_out(parent: ast.AST, field: str, child: ast.AST) -> bool:
    return (
        isinstance(child, ast.Assert | ast.Import | ast.ImportFrom | ast.JoinedStr)
        or (isinstance(parent, ast.Raise) and field in {"exc", "cause"})
        or (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant))
        or (isinstance(child, ast.keyword) and child.arg == "strict")  # of zip: an assertion
        or isinstance(child, ast.MatchClass | ast.MatchSingleton)
    )


def _changes(  # noqa: PLR0912 - one `match` over the kinds of nodes reads best in one place
    parent: ast.AST, field: str, node: ast.AST
) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[operator], left=left, comparators=comparators):
            changed = _COMPARISONS[type(operator)]()
            yield ast.Compare(left=left, ops=[changed], comparators=comparators)
        case ast.Compare(ops=ops, left=left, comparators=comparators):
            for at, operator in enumerate(ops):
                others = [*ops[:at], _COMPARISONS[type(operator)](), *ops[at + 1 :]]
                yield ast.Compare(left=left, ops=others, comparators=comparators)
        case ast.BoolOp(op=operator, values=values):
            for at in range(len(values)):
                rest = [*values[:at], *values[at + 1 :]]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op=operator, values=rest)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _ARITHMETIC:
            yield ast.BinOp(left=left, op=_ARITHMETIC[type(operator)](), right=right)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(value=not value)
        case ast.Constant(value=int() | float() as value) if not _is_a_bound(parent, field):
            yield ast.Constant(value=value + 1)
        case ast.Constant(value=str(text)) if text and _is_a_key(parent, field):
            yield ast.Constant(value=f"{text}XX")
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in _CALLS:
            kept = keywords if name != "sorted" else []
            changed_name = ast.Name(id=_CALLS[name], ctx=ast.Load())
            yield ast.Call(func=changed_name, args=args, keywords=kept)
        case ast.stmt():
            yield from _statements(node)
    if _is_asked(parent, field) and isinstance(node, ast.expr) and not _has_own(node):
        yield ast.UnaryOp(op=ast.Not(), operand=node)


def _statements(node: ast.stmt) -> Iterator[ast.AST]:
    match node:
        case ast.Return(value=ast.expr() as value) if not isinstance(value, _BOOLEAN):
            yield ast.Return(value=ast.Constant(value=None))
        case ast.Expr(value=ast.Yield() | ast.YieldFrom() as value):
            # The function stays a generator.
            yield ast.Expr(
                ast.IfExp(test=ast.Constant(value=True), body=ast.Constant(None), orelse=value)
            )
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield ast.Pass()
        case ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Delete():
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()


def _is_a_bound(parent: ast.AST, field: str) -> bool:
    """Would one more be what the comparison's own change is already?"""
    return (
        isinstance(parent, ast.Compare)
        and field == "comparators"
        and isinstance(parent.ops[-1], ast.Lt | ast.GtE)
    )


def _is_a_key(parent: ast.AST, field: str) -> bool:
    """Is a text compared, or looked up? All others are words for people."""
    match parent:
        case ast.Compare() | ast.MatchValue() | ast.Set():
            return True
        case ast.Subscript():
            return field == "slice"
        case ast.Call(func=ast.Attribute(attr="get" | "pop" | "startswith" | "endswith")):
            return field == "args"
        case ast.Dict() | ast.MatchMapping():
            return field == "keys"
    return False


def _is_asked(parent: ast.AST, field: str) -> bool:
    if isinstance(parent, ast.comprehension):
        return field == "ifs"
    return field == "test" and isinstance(parent, ast.If | ast.While | ast.IfExp)


def _has_own(node: ast.expr) -> bool:
    """Has a condition changes of its own, which turn it round?"""
    return isinstance(node, ast.Compare | ast.BoolOp | ast.Constant) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )


def _told(
    parent: ast.AST, field: str, index: int | None, child: ast.AST, replacement: ast.AST
) -> tuple[str, str]:
    """Both as text; a bare constant says nothing, so with what is around it."""
    around = isinstance(parent, ast.expr | ast.pattern | ast.Return | ast.keyword | ast.Assign)
    if not (isinstance(child, ast.Constant) and around):
        return _text(child), _text(replacement)
    before = _text(parent)
    if index is None:
        setattr(parent, field, replacement)
        after = _text(parent)
        setattr(parent, field, child)
    else:
        getattr(parent, field)[index] = replacement
        after = _text(parent)
        getattr(parent, field)[index] = child
    if before == after:  # what differs is beyond the cut
        return _text(child), _text(replacement)
    return before, after


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Pass):
        return "(nothing)"
    text = " ".join(ast.unparse(node).split()).replace("`", "'")
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[: TEXT_CHARS_MAX - 1]}…"
