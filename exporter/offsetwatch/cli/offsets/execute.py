"""Execution of prepared changes: show them, confirm them, carry them out with a journal, report.

Progress goes to standard error. Exit codes: 0 as requested, or nothing to do; 3 denied; 4 the state
of the cluster changed; 5 a person must decide; 6 unauthorised; 7 unreachable.
"""

from __future__ import annotations

import getpass
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGHUP, SIGTERM

import click

from offsetwatch.cli.common import output
from offsetwatch.cli.offsets.export import print_changes
from offsetwatch.clock import SteadyClock, SystemClock, UnixClock
from offsetwatch.config import Config
from offsetwatch.errors import AccessDenied, ConfigError, PlanUnfinished, RemedyError
from offsetwatch.remedy.engine.progress import EngineLimits
from offsetwatch.remedy.execute.runner import PlanResult, Runner, format_options, read_plan
from offsetwatch.remedy.journal.journal import FILE_NAME, Journal, create_plan_id
from offsetwatch.remedy.model.driver import Driver
from offsetwatch.remedy.model.plan import Plan, PlanStatus
from offsetwatch.remedy.views.plan_text import COMMAND, describe_step
from offsetwatch.toolbox.change import Author, PreparedChange
from offsetwatch.toolbox.validation import UnknownConnector, ValidationProblem

OK, USAGE, DENIED, UNAUTHORISED = 0, 2, 3, 6
_NO_HOME = "HOME is not set, and this user has none: name a folder by --state-dir"
_NO_DAEMON_RAN = (
    "no daemon has run there. --config or --state-dir names the folder of one on this host"
)


@dataclass(frozen=True, slots=True)
class ExecutionOptions:
    """Options for the execution of a change.

    folder      of journal and backups
    options     what a person adds to our commands to reach the same store
    """

    folder: Path
    options: str = ""
    yes: bool = False
    dry_run: bool = False
    timeout_s: float = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """Options of a change; `--help` of the verbs describes them."""

    dry_run: bool
    yes: bool
    state_dir: Path | None
    timeout_s: float
    allow_new: bool = False
    watch_s: float = 0.0

    def build_execution(self, loaded: Config | None, options: str) -> ExecutionOptions:
        """Return the options of its execution; `options` as in ExecutionOptions."""
        folder = find_state_folder(self.state_dir, loaded)
        return ExecutionOptions(folder, options, self.yes, self.dry_run, self.timeout_s)


def find_state_folder(path: Path | None, loaded: Config | None) -> Path:
    """Return the folder of journal and backups: as given, as configured, or the user's own.

    Raises ConfigError for a user without a home folder.
    """
    if path is not None:
        return path.resolve()
    if loaded is not None:
        return Path(loaded.state_dir)
    named = os.environ.get("XDG_STATE_HOME")
    try:
        home = Path(named) if named else Path.home() / ".local" / "state"
    except RuntimeError as exc:  # of a user without HOME and without an entry in passwd
        raise ConfigError((_NO_HOME,)) from exc
    return home / "offsetwatch"


def require_used_folder(folder: Path) -> Path:
    """Return the folder. Raises ConfigError if it is missing or empty.

    An empty list would say that there is nothing, of a folder that no daemon has used.
    """
    try:
        if any(folder.iterdir()):
            return folder
    except OSError as exc:
        raise _build_unused_folder_error(folder, str(exc.strerror)) from exc
    raise _build_unused_folder_error(folder, "it is empty")


def _build_unused_folder_error(folder: Path, wrong: str) -> ConfigError:
    """Return the error with how to name a daemon by the options that the current command has."""
    context = click.get_current_context(silent=True)
    advice = ": type this command on the daemon's host"
    if context is not None and any(param.name == "url" for param in context.command.params):
        advice = ", --url a daemon elsewhere"
    return ConfigError((f"state_dir {folder}: {wrong}: {_NO_DAEMON_RAN}{advice}",))


def require_journal_folder(folder: Path) -> Path:
    """Return the folder. Raises ConfigError if it has no journal."""
    if not (require_used_folder(folder) / FILE_NAME).exists():
        raise _build_unused_folder_error(folder, "there is no journal in it")
    return folder


def create_author(clock: UnixClock | None = None) -> Author:
    """Return the author of a new plan: a plan id, the current time and the user's name."""
    now = (SystemClock() if clock is None else clock).now()
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = str(os.getuid())  # a container's user need not have a name
    return Author(create_plan_id(now), now, name)


def change_connector(
    how: ExecutionOptions,
    *,
    store_name: str,
    connector: str,
    driver: Driver,
    prepare: Callable[[Author], PreparedChange],
    is_done: Callable[[Plan], bool] = lambda _earlier: False,
) -> int:
    """Finish an earlier plan for the connector, then carry out what `prepare` returns.

    Returns the exit code. `driver` recovers an earlier plan for the same place and connector.
    `is_done` returns whether an earlier plan that succeeded leaves nothing to do.
    """
    if how.dry_run:
        return print_rehearsal(prepare(create_author()))
    try:
        code = _finish_earlier_plan(how, store_name, connector, driver, is_done)
        if code is not None:
            return code
        prepared = prepare(create_author())
        code = print_prepared(prepared)
        if code is not None:
            return code
        if not confirm_by_name(connector, yes=how.yes):
            return DENIED
        with closing(Journal(how.folder)) as journal:
            return carry_out_plan(how, journal, prepared).exit_code
    except RemedyError as exc:
        output.print_error(str(exc))
        return DENIED
    except AccessDenied as exc:
        output.print_client_error(exc)
        return UNAUTHORISED


def _finish_earlier_plan(
    how: ExecutionOptions,
    store_name: str,
    connector: str,
    driver: Driver,
    is_done: Callable[[Plan], bool],
) -> int | None:
    """Finish an earlier plan; return the exit code if nothing remains to be done.

    A journal that does not exist is not created.
    """
    if not (how.folder / FILE_NAME).exists():
        return None
    with closing(Journal(how.folder)) as journal:
        earlier = finish_plan(how, journal, lambda: driver, (store_name, connector))
        if earlier is None:
            return None
        succeeded = earlier.ending is PlanStatus.SUCCEEDED
        all_done = succeeded and is_done(read_plan(journal, earlier.plan_id))
        return earlier.exit_code if all_done or not earlier.over else None


def finish_plan(
    how: ExecutionOptions,
    journal: Journal,
    open_driver: Callable[[], Driver],
    key: tuple[str, str],
) -> PlanResult | None:
    """Finish the open plan of a (place, connector), and print how it ended; None without a plan."""
    refuse_daemon_plan(journal, journal.open_plan(*key), how.options)
    earlier = build_runner(how, journal, open_driver()).finish_earlier(*key)
    if earlier is not None:
        output.print_error(earlier.said)
    return earlier


def refuse_daemon_plan(journal: Journal, plan_id: str | None, options: str) -> None:
    """Raise PlanUnfinished if the open plan is a remediation of the daemon.

    Such a plan has steps of its own, and a person must name it to continue it.
    """
    if plan_id is None:
        return
    plan = read_plan(journal, plan_id)
    if plan.remedy is None:
        return
    on = format_options(journal.folder, options)
    raise PlanUnfinished(
        plan_id,
        f"plan {plan_id} is open: {plan.verb}. The daemon goes on with it; where none runs, "
        f"`{COMMAND} plan recover {plan_id} {on}`",
    )


def choose_refusal_code(problems: Iterable[ValidationProblem]) -> int:
    """Return USAGE if there is no connector of a given name, as for every verb; else DENIED."""
    return USAGE if any(isinstance(problem, UnknownConnector) for problem in problems) else DENIED


def print_prepared(prepared: PreparedChange) -> int | None:
    """Print problems, notes and changes; return the exit code if nothing remains to be done."""
    output.print_error(*(str(problem) for problem in prepared.problems))
    if prepared.problems:
        return choose_refusal_code(prepared.problems)
    output.print_error(*prepared.notes)
    if prepared.plan is not None and prepared.changes:
        rows = ((prepared.connector, change) for change in prepared.changes)
        print_changes("Offsets", rows, after="then")
    return OK if prepared.plan is None else None


def print_rehearsal(prepared: PreparedChange) -> int:
    """Print every step that would be done on standard output; return the exit code."""
    code = print_prepared(prepared)
    if code is not None:
        return code
    assert prepared.plan is not None
    first, *others = describe_steps(prepared.plan)
    output.print_lines(first, others)
    return OK


def describe_steps(plan: Plan) -> tuple[str, ...]:
    """Return the steps in words, in order."""
    return tuple(
        f"{number}. {describe_step(step)}" for number, step in enumerate(plan.steps, start=1)
    )


def confirm_by_name(name: str, *, yes: bool, of: str = "connector") -> bool:
    """Return whether a person agrees, by --yes or by typing the name."""
    if yes:
        return True
    if not sys.stdin.isatty():
        output.print_error("there is no terminal to confirm on: say --yes to agree beforehand")
        return False
    sys.stderr.write(f"Type the {of}'s name ({output.escape_controls(name)}) to go on: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() == name:
        return True
    output.print_error("that is not its name: nothing was done; run it again, and type it exactly")
    return False


def carry_out_plan(how: ExecutionOptions, journal: Journal, prepared: PreparedChange) -> PlanResult:
    """Run the plan, print how it ended and return the result."""
    assert prepared.plan is not None
    assert prepared.driver is not None
    with interrupt_on_signals():
        result = build_runner(how, journal, prepared.driver).run(prepared.plan, prepared.recheck)
    output.print_error(result.said)
    return result


@contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP as Ctrl-C inside the block.

    The runner then ends safely. An immediate exit would leave the connector stopped until the plan
    is recovered.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are not for threads
        return
    before = {
        number: signal.signal(number, signal.default_int_handler) for number in (SIGTERM, SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def build_runner(how: ExecutionOptions, journal: Journal, driver: Driver) -> Runner:
    """Build a runner on this journal that reports on standard error."""
    return Runner(
        journal=journal,
        driver=driver,
        clock=SteadyClock(),
        report=output.print_error,
        limits=EngineLimits(step_s=how.timeout_s),
        options=how.options,
    )
