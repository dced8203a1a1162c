"""The verbs `plan recover` and `resolve`: continue an open plan, or close it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from offsetwatch import config
from offsetwatch.cli.common import output
from offsetwatch.cli.offsets import execute
from offsetwatch.cli.offsets.offset_store import open_offset_store
from offsetwatch.cli.offsets.store_options import OffsetStoreOptions
from offsetwatch.cli.plans.approve import build_unknown_plan_error
from offsetwatch.cli.plans.service_access import build_service_access, open_service
from offsetwatch.errors import ConfigError
from offsetwatch.formatting import PROGRAM
from offsetwatch.remedy.drivers.common_steps import add_topic_deletion
from offsetwatch.remedy.drivers.factory import open_remediation_driver
from offsetwatch.remedy.engine.progress import EngineLimits, replay_records
from offsetwatch.remedy.journal.journal import Journal
from offsetwatch.remedy.model.approval import build_plan_history
from offsetwatch.remedy.model.driver import Driver
from offsetwatch.remedy.model.plan import Plan
from offsetwatch.remedy.model.service_api import ChangeRecorded, RequestTargetNotFound
from offsetwatch.remedy.views.plan_text import describe_ending

OK, DENIED, OPEN = 0, 3, 5
_STORE_PARAMETERS: Final = ("connect", "kubeconfig", "strimzi", "worker_config", "kafka", "flow")


@dataclass(frozen=True, slots=True)
class JournalOptions:
    """Location of a journal with its backups, and the options for its plans' offset stores."""

    state_dir: Path | None
    where: OffsetStoreOptions

    @property
    def folder(self) -> Path:
        """Return the state folder as execute.find_state_folder chooses it."""
        path = self.where.config_path
        return execute.find_state_folder(
            self.state_dir, None if path is None else config.load(path)
        )


def build_journal_options(state_dir: Path | None = None, **where: Any) -> JournalOptions:
    """Return the options of `plan_store_options`, of which a verb may have some only."""
    return JournalOptions(
        state_dir,
        OffsetStoreOptions(
            **{"connect": None, "config_path": None, "worker_config": None, **where}
        ),
    )


def recover_plan(plan_id: str, *, timeout_s: float, **where: Any) -> int:
    """Continue an open plan; return the exit code."""
    home = build_journal_options(**where)
    how = execute.ExecutionOptions(home.folder, options=home.where.options, timeout_s=timeout_s)
    with closing(Journal(execute.require_journal_folder(home.folder))) as journal:
        history = build_plan_history(journal.records(plan_id))
        if history is None:
            raise build_unknown_plan_error(plan_id)
        if not history.status.has_begun:
            output.print_error(
                f"plan {plan_id} was never begun ({history.status.value}): there is nothing to "
                f"recover; `{PROGRAM} plan show {plan_id}` says what can be done"
            )
            return OK
        progress = replay_records(journal.records(plan_id), EngineLimits())
        if progress.ended is not None:
            output.print_error(f"plan {plan_id} is over: {describe_ending(progress, '')}")
            return OK
        with open_driver(history.plan, home) as driver, execute.interrupt_on_signals():
            result = execute.build_runner(how, journal, driver).recover(plan_id)
    output.print_error(result.said)
    return OK if result.over else OPEN


@contextmanager
def open_driver(plan: Plan, home: JournalOptions) -> Iterator[Driver]:
    """Yield a driver for a plan of the journal.

    Raises ConfigError that names the missing option.
    """
    subject, where = plan.subject, home.where
    if subject.driver == "rest" or plan.remedy is not None:
        if where.config_path is None:
            raise ConfigError((f"--config: it names the Connect cluster {subject.store}",))
        if plan.remedy is not None:
            with open_remediation_driver(
                plan, config.load(where.config_path), home.folder
            ) as driver:
                yield driver
            return
        where = replace(where, connect=subject.store, worker_config=None, strimzi=None)
    elif subject.driver == "strimzi":
        where = _choose_strimzi(where, subject.store)
    elif where.worker_config is None:
        raise ConfigError((f"--worker-config: the file that names {subject.store}",))
    else:
        where = replace(where, connect=None, strimzi=None)
    clusters = {} if where.config_path is None else config.load(where.config_path).kafka
    with open_offset_store(where) as store:
        store_name = store.lock_name(subject.connector)
        if store_name != subject.store:
            option = "--strimzi" if subject.driver == "strimzi" else "--worker-config"
            raise ConfigError((f"{option}: it names {store_name}, not {subject.store}",))
        yield add_topic_deletion(store.driver(subject.connector), clusters)


def _choose_strimzi(where: OffsetStoreOptions, store_name: str) -> OffsetStoreOptions:
    """Return the options with the plan's Strimzi resource.

    It is named by --strimzi, by the linked entry under connect, or by the plan itself.
    """
    named = where.strimzi
    if named is None and where.config_path is not None:
        for connect in config.load(where.config_path).connect:
            if connect.name == store_name and connect.strimzi is not None:
                named = f"{connect.strimzi.namespace}/{connect.strimzi.name}"
    # A plan that has begun is brought to its end, also if GitOps owns the resource.
    return replace(
        where, connect=None, worker_config=None, strimzi=named or store_name, even_if_gitops=True
    )


def resolve_plan(plan_id: str, *, because: str, **where: Any) -> int:
    """Close an open plan; return the exit code."""
    # They are taken so that the command of `plan recover` works with the other verb.
    for name in _STORE_PARAMETERS:
        del where[name]
    with open_service(build_service_access(**where)) as session:
        answer = session.service.resolve(plan_id, session.by, because)
        plan_details = session.service.plan(plan_id)
    if isinstance(answer, RequestTargetNotFound) or plan_details is None:
        raise build_unknown_plan_error(plan_id)
    row = plan_details.row
    if isinstance(answer, ChangeRecorded):
        name = f"{row.connector} ({row.connect_cluster})"
        output.print_error(f"plan {plan_id} is closed; {name} was left as it is")
        return OK
    if row.state.is_open:
        output.print_error(
            f"another process works on plan {plan_id}: nothing was done; `{PROGRAM} plan show "
            f"{plan_id}` shows how far it is"
        )
        return DENIED
    over = "over already" if row.state.has_begun else "never begun"
    output.print_error(f"plan {plan_id} was {over} ({row.state})")
    return OK
