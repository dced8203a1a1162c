"""docs/reference/configuration.md: every key of the YAML file, from the shape itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from tools.references.markdown import MADE, code, flowing, table
from tools.references.settings import EXAMPLES, Setting, default_of, describe_settings

_HEAD: Final = f"""\
# Configuration

{MADE} The same as one file that can be
used as it stands: `config-reference.yaml`.

One YAML file. Unknown keys are errors; `offsetwatch check --config F` prints every mistake at once,
each with its path, without a connection. `${{NAME}}` inside any string is the environment variable
NAME; one that is not set is a mistake. A path is relative to the folder of the configuration file,
wherever a command is started; of what a `_file` holds nothing is ever printed. Durations
are written as `30s`, `5m`, `1h30m` or `500ms` (units `d`, `h`, `m`, `s`, `ms`); a plain number is
seconds, in `retention_days` days.

`SIGHUP` or `POST /-/reload` reads the file again. A wrong one changes nothing; `listen`, `log` and
`state_dir` need a restart.

In the paths below `NAME` is a name of your own, and `[]` stands for each entry of a list. A key
without a default is left out unless it is needed; *required* ones have to be there where their
section is.
"""

# Where no default and no example of the YAML file says anything: those have to stay as they are
# there, because the file is used as it stands.
EXAMPLES_BESIDE: Final[dict[str, Any]] = {
    "Connect.worker_logs": ["/var/log/kafka/connect.log"],
    "Patterns.include": ["orders-.*"],
    "Patterns.exclude": [".*-test"],
    "SourceConnectors.include": ["shop-.*"],
    "SourceConnectors.exclude": [".*-test"],
    "RemedyConfig.skip_safe_sinks": ["com.example.LedgerSinkConnector"],
}


def render() -> str:
    """The whole page."""
    setting = describe_settings()
    parts = [_HEAD, "- [Top level](#top-level)", *_contents(setting), "", "## Top level", ""]
    parts.append(_table(setting))
    parts += _sections(setting)
    return "\n".join(parts) + "\n"


def example(setting: Setting) -> object:
    """What the key may be set to."""
    for examples in (EXAMPLES, EXAMPLES_BESIDE):
        if setting.key in examples:
            return examples[setting.key]
    return default_of(setting.field)


def title(setting: Setting) -> str:
    """How a section is called in the page: by what its keys begin with."""
    return setting.inner[0].path.rpartition(".")[0]


def _contents(results: tuple[Setting, ...], depth: int = 0) -> Iterator[str]:
    for setting in results:
        if setting.inner:
            name = title(setting)
            yield f"{'  ' * depth}- [`{name}`](#{_anchor(name)})"
            yield from _contents(setting.inner, depth + 1)


def _anchor(name: str) -> str:
    """As GitHub makes it of a heading."""
    return "".join(value for value in name.lower() if value.isalnum() or value in "_-")


def _sections(results: tuple[Setting, ...]) -> Iterator[str]:
    for setting in results:
        if setting.inner:
            yield from ("", f"## `{title(setting)}`", "", flowing(setting.about), "")
            yield _table(setting.inner)
            yield from _sections(setting.inner)


def _table(setting: tuple[Setting, ...]) -> str:
    return table(("key", "type", "default", "meaning", "example"), map(_row, setting))


def _row(setting: Setting) -> tuple[str, ...]:
    name = code(setting.path.rpartition(".")[2])
    if setting.inner:
        where = f"[`{title(setting)}`](#{_anchor(title(setting))})"
        return (name, setting.takes, _default(setting), flowing(setting.meaning), where)
    output = code(json.dumps(example(setting), ensure_ascii=False))
    return (name, setting.takes, _default(setting), flowing(setting.meaning), output)


def _default(setting: Setting) -> str:
    if setting.required:
        return "*required*"
    return "" if setting.default is None else code(setting.default)
