"""Command-line options that several verbs share, and parsers of times on the command line.

The options of a change (dry run, confirmation, state directory) are the same for all verbs.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Callable
from datetime import datetime
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from offsetwatch.cli.common.light_imports import block_drawing_imports
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.errors import ConfigError
from offsetwatch.formatting import format_duration, parse_duration

if TYPE_CHECKING:
    from offsetwatch.cli.common.document_source import ReadOptions

FILE_TYPE: Final = click.Path(dir_okay=False, path_type=Path)
CONFIG_VARIABLE: Final = "OFFSETWATCH_CONFIG"
READ_URL_VARIABLE: Final = "OFFSETWATCH_URL"
_JSON_META_KEY: Final = "offsetwatch.json"
CONFIG_DEFAULT: Final = Path("/etc/offsetwatch/config.yaml")
_NO_CONFIG: Final = f"Name the file, or set {CONFIG_VARIABLE}; there is no {CONFIG_DEFAULT}"
_NO_DAEMON: Final = (
    f"{_NO_CONFIG}. To ask a daemon on another host: --url http://host:9640, or {READ_URL_VARIABLE}"
)

CommandFunction = Callable[..., Any]
OptionDecorator = Callable[[CommandFunction], CommandFunction]


def is_typed(context: click.Context, name: str) -> bool:
    """Return whether an option was typed, and does not come from the environment or a default."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def add_config_option(command: str) -> str:
    """Return an offsetwatch command with the `--config` that was typed for this one.

    The command can then be run as it is printed.
    """
    context = click.get_current_context(silent=True)
    if context is None or not is_typed(context, "config_path"):
        return command
    words = shlex.split(command)
    position = words.index("--") if "--" in words else len(words)  # what follows is no option
    return shlex.join(
        (*words[:position], "--config", str(context.params["config_path"]), *words[position:])
    )


def _require_config(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path:
    if value is None:
        raise click.MissingParameter(_NO_CONFIG, context, parameter)
    return value


def _allow_no_config(
    context: click.Context, parameter: click.Parameter, value: Path | None
) -> Path | None:
    """Return None for the configuration if only --worker-config was typed: it needs no other file.

    click processes the options that were typed first.
    """
    alone = is_typed(context, "worker_config") and not is_typed(context, "kafka")
    return None if alone and not is_typed(context, parameter.name or "") else value


def _build_config_option(text: str, callback: Callable[..., Path | None]) -> OptionDecorator:
    return click.option(
        "-c",
        "--config",
        "config_path",
        type=FILE_TYPE,
        envvar=CONFIG_VARIABLE,
        show_envvar=True,
        default=lambda: CONFIG_DEFAULT if CONFIG_DEFAULT.exists() else None,
        show_default=str(CONFIG_DEFAULT),
        callback=callback,
        help=text,
    )


CONFIG_HELP: Final = "offsetwatch's configuration (YAML)."
config_option = _build_config_option(CONFIG_HELP, _require_config)


def optional_config_option(text: str) -> OptionDecorator:
    """Return the `--config` option of a verb that --worker-config can replace."""
    return _build_config_option(text, _allow_no_config)


def _require_url_or_config(
    context: click.Context, parameter: click.Parameter, value: Path | None
) -> Path | None:
    """Raise MissingParameter if there is neither a configuration nor the address of a daemon.

    click processes the options that were typed first.
    """
    if value is None and not (is_typed(context, "url") or os.environ.get(READ_URL_VARIABLE)):
        raise click.MissingParameter(_NO_DAEMON, context, parameter)
    return value


class WholeNumber(click.IntRange):
    """A whole number within bounds; messages call it "whole number"."""

    name = "whole number"


class DurationType(click.ParamType[float]):
    """A duration such as 30s, converted to seconds; a plain number is seconds.

    minimum, maximum    bounds in seconds, both included
    """

    name = "duration"

    def __init__(self, minimum: float = 0.0, maximum: float = math.inf) -> None:
        self._minimum = minimum
        self._maximum = maximum

    @property
    def bounds(self) -> tuple[str, ...]:
        """Return the bounds as help shows them, without a minimum of 0 or an infinite maximum."""
        least = (f"at least {format_duration(self._minimum)}",) if self._minimum > 0 else ()
        most = (f"at most {format_duration(self._maximum)}",) if self._maximum < math.inf else ()
        return (*least, *most)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the duration in seconds. Raises BadParameter with the value and the right form."""
        try:
            seconds = parse_duration(str(value))
        except ValueError as exc:
            self.fail(str(exc), param, ctx)
        if seconds < self._minimum:
            self.fail(f"{value} is less than {format_duration(self._minimum)}", param, ctx)
        if seconds > self._maximum:
            self.fail(f"{value} is more than {format_duration(self._maximum)}", param, ctx)
        return seconds


def combine_options(*options: OptionDecorator) -> OptionDecorator:
    """Return a decorator that adds these options, in the order in which help shows them."""

    def add(verb: CommandFunction) -> CommandFunction:
        for option in reversed(options):
            verb = option(verb)
        return verb

    return add


def timeout_option(default: str = "30s") -> OptionDecorator:
    """Return the `--timeout` option of a command.

    A change has a longer default: Strimzi's operator may take two minutes to begin with one.
    """
    return click.option(
        "--timeout",
        "timeout_s",
        type=DurationType(1.0),
        default=default,
        show_default=True,
        help="How long to wait for clusters to answer, and for each step of a change.",
    )


# Reach the daemon, for a verb with a `--config` of its own kind.
daemon_options = combine_options(
    click.option(
        "--url",
        envvar=READ_URL_VARIABLE,
        show_envvar=True,
        help="The read listener of a daemon, as http://host:9640; by default that of --config.",
    ),
    click.option("--direct", is_flag=True, help="Read from the clusters, not from the daemon."),
    timeout_option(),
)
# Of a verb that asks the daemon first, and otherwise the clusters. `take_read_options` reads them.
read_options = combine_options(
    _build_config_option(CONFIG_HELP, _require_url_or_config), daemon_options
)


def take_read_options(options: dict[str, Any]) -> ReadOptions:
    """Remove the options of `read_options` from `options` and return them as ReadOptions.

    A `--config` that was typed overrides the daemon that the environment names.
    """
    from offsetwatch.cli.common.document_source import ReadOptions  # noqa: PLC0415 - heavy

    context = click.get_current_context()
    url = options.pop("url")
    if is_typed(context, "config_path") and not is_typed(context, "url"):
        url = None
    if is_typed(context, "direct") and is_typed(context, "url"):
        raise click.UsageError("--url names a daemon, and --direct asks none: leave one out")
    reading = ReadOptions(
        options.pop("config_path"), url, options.pop("timeout_s"), direct=options.pop("direct")
    )
    if reading.direct and reading.config_path is None:
        raise click.UsageError("--direct: the clusters are those of a configuration: -c FILE")
    return reading


def _note_json(context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's own signature
    context.meta[_JSON_META_KEY] = value


def _choose_output_format(
    context: click.Context, parameter: click.Parameter, value: str
) -> OutputFormat:
    chosen = OutputFormat(value)
    if not context.meta.get(_JSON_META_KEY):
        return chosen
    if is_typed(context, parameter.name or "") and chosen is not OutputFormat.JSON:
        raise click.UsageError(f"--json is -o json: leave one of --json and -o {value} out")
    return OutputFormat.JSON


# Choose `output_format`, for a command that lists or shows something.
output_options = combine_options(
    click.option(
        "-o",
        "output_format",
        type=click.Choice([output_format.value for output_format in OutputFormat]),
        default=OutputFormat.TABLE.value,
        show_default=True,
        callback=_choose_output_format,
        help="What to print: a table, or all of it as one document.",
    ),
    click.option(
        "--json",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_note_json,
        help="The same as -o json.",
    ),
)
watch_options = combine_options(
    click.option(
        "--watch",
        is_flag=True,
        help="Read again at each --interval and redraw, until Ctrl-C; the exit code is then 0.",
    ),
    click.option(
        "--interval",
        "interval_s",
        type=DurationType(0.5),
        default="2s",
        show_default=True,
        help="With --watch: the time between two readings.",
    ),
)


def take_watch_options(
    options: dict[str, Any], output_format: OutputFormat
) -> Callable[[Callable[[], int]], int]:
    """Remove the options of `watch_options` from `options` and return a runner of the verb.

    It runs the verb once, or with --watch until Ctrl-C.
    """
    watched, interval_s = options.pop("watch"), options.pop("interval_s")
    if not watched:
        if is_typed(click.get_current_context(), "interval_s"):
            raise click.UsageError("--interval goes with --watch")
        return lambda draw: draw()
    from offsetwatch.cli.common.live_output import watch  # noqa: PLC0415 - heavy

    return lambda draw: watch(draw, interval_s, output_format)


def calls(function: str) -> OptionDecorator:
    """Return a decorator of a command that only declares its options and its help.

    The command calls `module:function` of `offsetwatch.cli` with the options. The module is
    imported then: what it needs takes longer to load than help takes to print.
    """

    def declare(verb: CommandFunction) -> CommandFunction:
        @wraps(verb)
        def run(**options: Any) -> Any:
            module, _, name = function.partition(":")
            with block_drawing_imports():
                loaded = import_module(f"offsetwatch.cli.{module}")
            return getattr(loaded, name)(**options)

        return run

    return declare


def reads(function: str, *more: OptionDecorator) -> OptionDecorator:
    """Return a decorator of a command that reads from the daemon or the clusters.

    It adds the options, `more` among them. As `calls` does, the command calls the function with
    ReadOptions and the rest: once, or with --watch until Ctrl-C.
    """

    def declare(verb: CommandFunction) -> CommandFunction:
        @wraps(verb)
        def run(*, output_format: OutputFormat, **options: Any) -> int:
            repeat = take_watch_options(options, output_format)
            reading = take_read_options(options)
            call = calls(function)(verb)
            return repeat(partial(call, reading=reading, output_format=output_format, **options))

        return combine_options(read_options, *more, output_options, watch_options)(run)

    return declare


yes_option = click.option(
    "--yes", is_flag=True, help="Do not ask for the connector's name to be typed first."
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Show what would be done, step by step, and do nothing."
)
state_dir_option = click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of journal and backups; default: state_dir of the configuration, or "
    "$XDG_STATE_HOME/offsetwatch where there is none.",
)
change_timeout_option = timeout_option("3m")
allow_new_option = click.option(
    "--allow-new",
    is_flag=True,
    help="Accept source partitions that were never there, and offsets that cannot be checked.",
)
watch_option = click.option(
    "--watch",
    "watch_s",
    type=DurationType(maximum=3600.0),
    default="10s",
    show_default=True,
    help="How long its tasks have to run without a failure.",
)
# Of every verb that changes offsets.
change_options = combine_options(
    dry_run_option,
    yes_option,
    state_dir_option,
    change_timeout_option,
    allow_new_option,
    watch_option,
)


TIME_HELP: Final = "ISO 8601 with a zone, Unix seconds, or how long ago: '10m ago' (s, m, h, d)."
UNTIL_HELP: Final = f"{TIME_HELP} Default: now."
_FORMS: Final = "ISO 8601 with a zone, Unix seconds, or how long ago: 10m ago"


def parse_time(text: str, now: float, option: str = "--time") -> float:
    """Return Unix seconds. Raises ConfigError for a text that is no time or has no time zone."""
    bare = text.strip()
    try:
        if bare.endswith("ago"):
            return now - parse_duration(bare.removesuffix("ago"))
        if re.fullmatch(r"\d+(\.\d+)?", bare):
            return float(bare)
        try:
            moment = datetime.fromisoformat(bare)
        except ValueError:
            raise ValueError(f"not a time: write {_FORMS}") from None
        if moment.tzinfo is None:
            raise ValueError("say the zone: Z, +02:00")
        return moment.timestamp()
    except ValueError as exc:
        raise ConfigError((f"{option} {text}: {exc}",)) from exc


def parse_span(text: str, option: str) -> float:
    """Return seconds: negative, or positive if the text begins with +. Raises ConfigError."""
    bare = text.strip()
    try:
        seconds = parse_duration(bare[1:] if bare[:1] in {"+", "-"} else bare)
        if seconds < 0:
            raise ValueError("one sign in front of a duration")
    except ValueError as exc:
        raise ConfigError((f"{option} {text}: {exc}; + in front is forward",)) from exc
    return seconds if bare.startswith("+") else -seconds
