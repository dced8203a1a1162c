"""The command line: each verb makes one call and prints its result; no logic.

In: arguments, the configuration, answers of a daemon or of an own inspection. Out: tables, JSON and
YAML on standard output, and an exit code, the same for every verb: 0 ok, 1 findings present,
2 usage or configuration, 3 denied by a guard, 4 the world changed, 5 in doubt or parked,
6 unauthorised, 7 the outside world could not be reached, 70 a bug, 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback

import click

from offsetwatch.cli.commands import cli
from offsetwatch.cli.common import output
from offsetwatch.cli.common.parallel import exit_if_threads_remain
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    ConfigError,
    HistoryError,
    RemedyError,
    ResponseTimeout,
    SettingsRefused,
    TargetUnreachable,
)

_DISK_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
USAGE, DENIED, UNAUTHORISED, UNREACHABLE, BUG = 2, 3, 6, 7, 70
_UNREACHABLE_ADVICE = (
    "`offsetwatch doctor`, with the same --config, checks each cluster and says what to do"
)
INTERRUPTED = 130  # by Ctrl-C, as shells count


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
        output.print_error(*exc.mistakes)
        sys.exit(USAGE)
    except ClientError as exc:
        if type(exc) in {TargetUnreachable, ResponseTimeout} and exc.advice is None:
            exc.advice = _UNREACHABLE_ADVICE
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
