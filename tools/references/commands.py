"""docs/reference/cli.md: every verb with its arguments and options, from the declarations."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Final

import click

from offsetwatch.cli.commands import cli
from offsetwatch.cli.common.options import DurationType
from tools.references.markdown import MADE, code, flowing, table

PROGRAM: Final = "offsetwatch"
EXIT_CODES: Final = (
    (0, "done as requested; nothing is wrong"),
    (1, "findings or differences, or the answer is unknown"),
    (2, "wrong usage or configuration, or a connector that no cluster has; all is as before"),
    (3, "denied: by a guard, out of bounds, or not confirmed; everything is as before"),
    (4, "the cluster changed in the meantime; everything is as before"),
    (5, "a plan is in doubt or parked: an operator must decide"),
    (6, "unauthorised: credentials, ACLs, or the role of a token"),
    (7, "a cluster or the daemon could not be reached, or tables could not be read"),
    (70, "a bug in offsetwatch"),
    (130, "interrupted by Ctrl-C"),
)

_HEAD: Final = f"""\
# Command line

{MADE} Every command prints the same with `--help`.

Results go to standard output, progress and errors to standard error. Commands that print a table
print the same as one document with `-o json` (in short `--json`) or `-o yaml`. For a change of
offsets the exit codes are explained in
[offsets-toolbox.md](../offsets-toolbox.md#exit-codes), and for plans in
[remediation.md](../remediation.md#exit-codes).

## Exit codes

The same for every verb.

"""


def render() -> str:
    """The whole page."""
    codes = table(("code", "means"), ((str(number), text) for number, text in EXIT_CODES))
    verbs = tuple(_verbs(cli, (PROGRAM,)))
    parts = [_HEAD + codes, "", "## Verbs", "", *(_line(context) for context in verbs), ""]
    for verb in verbs:
        parts += _verb(verb)
    return "\n".join(parts)


def _verbs(group: click.Group, path: tuple[str, ...]) -> Iterator[click.Context]:
    """A context for each verb, which knows by what it was reached."""
    for name in sorted(group.commands):
        result, words = group.commands[name], (*path, name)
        if isinstance(result, click.Group):
            yield from _verbs(result, words)
        else:
            yield click.Context(result, info_name=" ".join(words))


def _line(verb: click.Context) -> str:
    name = verb.info_name or ""
    first = _help(verb).split(". ")[0].split("\n\n")[0].removesuffix(".")
    return f"- [`{name}`](#{name.replace(' ', '-')}): {first}"


def _help(verb: click.Context) -> str:
    text = flowing(inspect.cleandoc(verb.command.help or "").replace("\b\n", ""))
    assert text, f"{verb.info_name} has no help"
    return text


def _verb(verb: click.Context) -> Iterator[str]:
    usage = " ".join(verb.command.collect_usage_pieces(verb))
    yield from (f"## {verb.info_name}", "", f"    {verb.info_name} {usage}".rstrip(), "")
    yield from (_help(verb), "")
    arguments = [param for param in verb.command.params if isinstance(param, click.Argument)]
    if arguments:
        yield table(
            ("argument", "takes", "required"), (_argument(argument) for argument in arguments)
        )
        yield ""
    options = [
        param
        for param in verb.command.params
        if isinstance(param, click.Option) and not param.hidden
    ]
    if options:
        rows = (
            _option(verb, option)
            for option in sorted(options, key=lambda option: not option.required)
        )
        yield table(("option", "default", "meaning"), rows)
        yield ""


def _argument(argument: click.Argument) -> tuple[str, str, str]:
    kind = argument.type
    takes = kind.name if not isinstance(kind, click.Choice) else " or ".join(kind.choices)
    inputs = "yes" if argument.required else "no"
    return (code(argument.human_readable_name.upper()), takes, inputs)


def _option(verb: click.Context, option: click.Option) -> tuple[str, str, str]:
    names = ", ".join(option.opts)
    if option.secondary_opts:
        names = f"{names} / {', '.join(option.secondary_opts)}"
    if not option.is_flag and not option.count:
        names = f"{names} {option.make_metavar(verb).removesuffix(' RANGE')}"
    meaning = flowing(option.help or "")
    if isinstance(option.type, (click.IntRange, click.FloatRange)):
        meaning = f"{meaning} {_range(option.type)}"
    if isinstance(option.type, DurationType) and option.type.bounds:
        meaning = f"{meaning} ({', '.join(option.type.bounds)})"
    if option.multiple and "repeat" not in meaning:
        meaning = f"{meaning} Repeatable."
    return (code(names), _default(verb, option), meaning)


def _range(kind: click.IntRange | click.FloatRange) -> str:
    words = []
    if kind.min is not None:
        words.append(f"{'more than' if kind.min_open else 'at least'} {kind.min:.10g}")
    if kind.max is not None:
        words.append(f"{'less than' if kind.max_open else 'at most'} {kind.max:.10g}")
    return f"({', '.join(words)})"


def _default(verb: click.Context, option: click.Option) -> str:
    if option.required:
        return "*required*"
    default = option.get_default(verb)
    if option.is_flag and not option.secondary_opts:
        return ""
    if isinstance(default, bool):
        return code(next(iter(option.opts if default else option.secondary_opts)))
    if isinstance(default, (str, int, float)) and default != "":
        return code(str(default))
    return ""
