"""The command line: each verb makes one call and prints its result; no logic. Heavy imports wait.

In: arguments, the configuration, answers of a daemon or of an own inspection. Out: tables, JSON and
YAML on standard output, and an exit code, the same for every verb: 0 ok, 1 findings present,
2 usage or configuration, 3 denied by a guard, 4 the world changed, 5 in doubt or parked,
6 unauthorised, 7 the outside world could not be reached, 70 a bug, 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import errno
import faulthandler
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from offsetwatch import __version__
from offsetwatch.cli.common import output
from offsetwatch.cli.common.options import (
    config_option,
    output_options,
    read_options,
    take_read_options,
    take_watch_options,
    timeout_option,
    watch_options,
)
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.common.process_exit import exit_if_threads_remain
from offsetwatch.cli.history.commands import history
from offsetwatch.cli.offsets import commands
from offsetwatch.cli.offsets.connector_commands import connectors
from offsetwatch.cli.plans import commands as plan_commands
from offsetwatch.cli.plans import quarantine_commands, switch_commands
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    ConfigError,
    HistoryError,
    RemedyError,
    SettingsRefused,
)
from offsetwatch.model.topology import TopicKind

_DISK_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
USAGE, DENIED, UNAUTHORISED, UNREACHABLE, BUG = 2, 3, 6, 7, 70
INTERRUPTED = 130  # by Ctrl-C, as shells count


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="offsetwatch")
def cli() -> None:
    """Progress and lag of Kafka Connect source connectors and MirrorMaker 2."""


@cli.command()
@config_option
def run(config_path: Path) -> None:
    """Run the daemon."""
    from offsetwatch.daemon import tuning  # noqa: PLC0415 - see the module

    tuning.tune_memory()
    # Where a library written in C ends the process, only this says what each thread was doing.
    faulthandler.enable()
    with _block_drawing_imports():
        from offsetwatch import config  # noqa: PLC0415
        from offsetwatch.cli.common.logging import configure_logging  # noqa: PLC0415
        from offsetwatch.daemon import run as daemon  # noqa: PLC0415

        loaded = config.load(config_path)
        configure_logging(loaded.log.level, loaded.log.format)
        sys.exit(daemon.run(loaded, config_path))


@cli.command()
@config_option
def check(config_path: Path) -> None:
    """Check a configuration file, offline; print every mistake at once."""
    from offsetwatch import config  # noqa: PLC0415
    from offsetwatch.serve.web_config import current  # noqa: PLC0415

    loaded = config.load(config_path)
    from offsetwatch.clients.http.auth import find_tls_problems  # noqa: PLC0415
    from offsetwatch.clients.kafka.clients import find_refused_settings  # noqa: PLC0415

    mistakes = [
        f"kafka.{name}.properties.{error.detail}"
        for name, kafka in loaded.kafka.items()
        for error in find_refused_settings(name, kafka.properties)
    ]
    for path, tls in loaded.tls_settings():
        mistakes.extend(f"{path}.{problem}" for problem in find_tls_problems(tls))
    if loaded.control is not None and loaded.control.tls is not None:
        from offsetwatch.serve.control.tls import ServerTls  # noqa: PLC0415

        try:
            ServerTls(loaded.control)
        except ConfigError as exc:
            mistakes.extend(exc.mistakes)
    if mistakes:
        raise ConfigError(tuple(f"{config_path.name}: {mistake}" for mistake in mistakes))
    control = None if loaded.control is None else loaded.control.web_config_file
    for file in (loaded.web_config_file, control):
        if file is not None:
            current.check_web_config(file)
    click.echo(
        f"{config_path.name}: ok: {len(loaded.kafka)} Kafka and {len(loaded.connect)} Connect "
        f"cluster(s), listening on {loaded.listen}"
    )


@cli.command()
@read_options
@output_options
@watch_options
def status(*, output_format: OutputFormat, **how: Any) -> None:
    """Print findings, connectors, flows and sinks, from the daemon or, if none answers, from the
    clusters. Inputs that could not be read are named. Exit code 1 if something is wrong or was not
    read, 7 if nothing could be read.
    """
    run = take_watch_options(how, output_format)
    reading = take_read_options(how)
    from offsetwatch.cli.inspect import status as verbs  # noqa: PLC0415

    sys.exit(run(partial(verbs.print_status, reading, output_format=output_format)))


@cli.command("doctor")
@config_option
@output_options
@timeout_option()
def examine(config_path: Path, output_format: OutputFormat, timeout_s: float) -> None:
    """Check every cluster and worker, read-only, and print what to fix. Exit code 1 with warnings
    or failures, 7 if something does not answer.
    """
    from offsetwatch.cli.inspect import doctor  # noqa: PLC0415

    sys.exit(doctor.run_doctor(config_path, output_format=output_format, timeout_s=timeout_s))


@cli.command("explain")
@click.argument("connector")
@read_options
@click.option("--connect", "connect_cluster", help="Its Connect cluster, if several have one.")
@output_options
@watch_options
def explain_connector(
    connector: str, connect_cluster: str | None, *, output_format: OutputFormat, **how: Any
) -> None:
    """Print everything known about one connector, from the daemon or, if none answers, from the
    clusters. Inputs that could not be read are named. Exit code 1 if something is wrong with it or
    was not read, 7 if nothing could be read.
    """
    run = take_watch_options(how, output_format)
    reading = take_read_options(how)
    from offsetwatch.cli.inspect import explain  # noqa: PLC0415

    found = partial(
        explain.explain_connector, reading, connector, connect_cluster, output_format=output_format
    )
    sys.exit(run(found))


for group in (
    connectors,
    history,
    commands.offsets,
    plan_commands.plan,
    plan_commands.journal,
    plan_commands.backup,
    switch_commands.restore,
    switch_commands.mode,
    switch_commands.pause,
    switch_commands.unpause,
    switch_commands.breaker,
    quarantine_commands.quarantine,
):
    cli.add_command(group)


@cli.command()
@click.option(
    "--topic-role",
    required=True,
    type=click.Choice([role.value for role in TopicKind]),
    help="The role of the topic.",
)
@click.option(
    "--encoding",
    type=click.Choice(["hex", "base64"]),
    help="Of keys and values; by default hex where a record's key and value both can be hex.",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
def decode(topic_role: str, encoding: str | None, file: str) -> None:
    """Decode records of an internal topic, or print why they cannot be decoded.

    FILE (or -) holds JSON lines or one JSON array of {"key": ..., "value": ...}, either of them
    null where the record has none; other fields are passed on. Exit code 1 if a record is
    undecodable, 2 if a line is no record.
    """
    from offsetwatch.cli.inspect import decode as decoding  # noqa: PLC0415

    sys.exit(decoding.decode_file(file, TopicKind(topic_role), encoding))


@cli.command()
@click.option(
    "--strimzi",
    "namespace",
    metavar="NAMESPACE",
    required=True,
    help="The namespace of its resources.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A kubeconfig; default: the pod's service account, or kubectl's files.",
)
@click.option(
    "--secrets-to",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the named certificates and passwords here, each a file that only you can read.",
)
def discover(namespace: str, kubeconfig: Path | None, secrets_to: Path | None) -> None:
    """Print a configuration of what Strimzi runs in a namespace."""
    from offsetwatch.cli.inspect import discover as discovered  # noqa: PLC0415

    sys.exit(discovered.discover_strimzi(namespace, kubeconfig, secrets_to))


@cli.command()
@output_options
def metrics(output_format: OutputFormat) -> None:
    """Print the metric catalogue."""
    from offsetwatch.cli.inspect import status as verbs  # noqa: PLC0415

    verbs.print_metrics(output_format=output_format)


@cli.command()
@config_option
def healthcheck(config_path: Path) -> None:
    """Exit 0 if the local daemon is healthy (for a container's probe)."""
    from offsetwatch.cli.inspect import status as verbs  # noqa: PLC0415

    sys.exit(verbs.check_health(config_path))


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes this command in a shell."""
    from click.shell_completion import get_completion_class  # noqa: PLC0415

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "offsetwatch", "_OFFSETWATCH_COMPLETE").source())


@contextmanager
def _block_drawing_imports() -> Iterator[None]:
    """Block the import of pygments and rich, for a verb that draws nothing.

    structlog and httpx import both where they are installed, for features that are not used here.
    They are a tenth of all imports.
    """
    drawing = ("pygments", "rich")
    kept = {name: sys.modules[name] for name in drawing if name in sys.modules}
    # None: importing it fails, and both of them do without.
    sys.modules.update(dict.fromkeys(drawing))  # type: ignore[arg-type]  # typeshed leaves None out
    try:
        yield
    finally:
        for name in drawing:
            del sys.modules[name]
        sys.modules.update(kept)


def _is_local_error(error: OSError) -> bool:
    """Return whether the error is about a file, a folder or a full disk, and so is not a bug."""
    return error.filename is not None or error.errno in _DISK_ERRNOS


def entry() -> None:
    """Run the command and end the process with it, even if threads still wait for an answer."""
    try:
        main()
    except SystemExit as exc:
        exit_if_threads_remain(exc.code)
        raise


def main() -> None:
    """Run the command; print known errors as messages and turn them into exit codes."""
    output.escape_unencodable_output()
    try:
        sys.exit(cli(standalone_mode=False))
    except click.UsageError as exc:
        if exc.ctx is not None:  # KIP-199: wrong use prints the parameters and what they mean
            click.echo(exc.ctx.get_help(), err=True)
        click.echo(f"\nError: {exc.format_message()}", err=True)
        sys.exit(exc.exit_code)
    except click.ClickException as exc:
        exc.show()
        sys.exit(exc.exit_code)
    except click.Abort:
        output.print_error("interrupted; if a change had begun, `offsetwatch plan list` shows it")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # Whoever reads has enough. What is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except ConfigError as exc:
        for mistake in exc.mistakes:
            output.print_error(mistake)
        sys.exit(USAGE)
    except ClientError as exc:
        output.print_client_error(exc)
        codes: dict[type[ClientError], int] = {AccessDenied: UNAUTHORISED, SettingsRefused: USAGE}
        sys.exit(codes.get(type(exc), UNREACHABLE))
    except RemedyError as exc:
        output.print_error(str(exc))
        sys.exit(DENIED)
    except HistoryError as exc:
        output.print_error(f"history: {exc}")
        sys.exit(UNREACHABLE)
    except Exception as exc:  # noqa: BLE001 - the outermost line: a bug is printed with its trace
        if isinstance(exc, OSError) and _is_local_error(exc):
            output.print_error(f"{exc.filename or 'cannot write'}: {exc.strerror}")
            sys.exit(USAGE)
        traceback.print_exc()
        output.print_error("this is a bug in offsetwatch; please report the lines above")
        sys.exit(BUG)
