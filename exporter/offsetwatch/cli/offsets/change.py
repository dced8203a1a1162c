"""The verbs `offsets import` and `alter`: prepare, show, confirm and carry out a change of offsets.

Each connector has a plan of its own, and plans run one after the other. All are checked before the
first begins. One that does not succeed ends the run: the operator decides how to continue.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import fields
from functools import partial
from typing import Any

import click

from offsetwatch.cli.common import output
from offsetwatch.cli.offsets import execute
from offsetwatch.cli.offsets.execute import DENIED, OK, UNAUTHORISED, ChangeOptions
from offsetwatch.cli.offsets.export import (
    DocumentOptions,
    print_changes,
    read_document,
    take_document_options,
)
from offsetwatch.cli.offsets.offset_store import load_optional_config, open_offset_store
from offsetwatch.cli.offsets.store_options import OffsetStoreOptions, take_store_options
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    ConfigError,
    RemedyError,
    RemoteRefusal,
    TargetUnreachable,
)
from offsetwatch.formatting import format_count
from offsetwatch.remedy.drivers.strimzi.driver import StrimziDriver
from offsetwatch.remedy.execute.runner import read_plan
from offsetwatch.remedy.journal.journal import FILE_NAME, Journal
from offsetwatch.remedy.model.plan import Alter, PartitionOffset, Plan, PlanStatus, Write
from offsetwatch.toolbox.change import (
    Author,
    ConnectorChangeRequest,
    PreparedChange,
    prepare_change,
)
from offsetwatch.toolbox.documents import OffsetsDocument, OffsetsSection, parse_pairs
from offsetwatch.toolbox.offset_locations import TypedPairsLocation
from offsetwatch.toolbox.store.offset_store import OffsetStore
from offsetwatch.toolbox.suggestions import find_nearest, format_names
from offsetwatch.toolbox.validation import OffsetsRequest, ValidationProblem


def take_change_options(options: dict[str, Any]) -> ChangeOptions:
    """Remove the options of a change from `options` and return them."""
    return ChangeOptions(**{field.name: options.pop(field.name) for field in fields(ChangeOptions)})


def import_offsets(**options: Any) -> int:
    """Set the offsets in a document; return the exit code."""
    where, changing = take_store_options(options), take_change_options(options)
    source = take_document_options(options)
    requests = tuple(
        _build_request(section, changing, "import")
        for section in _choose_sections(read_document(source), source)
    )
    return change_offsets(where, requests, changing, typed=not source.from_stdin)


def _choose_sections(
    document: OffsetsDocument, options: DocumentOptions
) -> tuple[OffsetsSection, ...]:
    names = options.connectors
    if names is None:
        return document.sections
    there = document.connectors()
    has = format_names(there) or "none"
    missing = sorted(names - set(there))
    if missing:
        raise ConfigError(
            tuple(f"--connectors: the document has no {name} (it has: {has})" for name in missing)
        )
    return tuple(section for section in document.sections if section.connector in names)


def alter_offsets(
    connector: str, partition: tuple[str, ...], offset: tuple[str, ...], **options: Any
) -> int:
    """Set offsets of one connector, from pairs or from a document; return the exit code."""
    where, changing = take_store_options(options), take_change_options(options)
    source = take_document_options(options)
    if len(partition) != len(offset):
        raise click.UsageError("as many --partition as --offset, in the same order")
    if bool(partition) == (source.document is not None):
        raise click.UsageError("--partition with --offset, or --offsets")
    section = (
        _parse_typed_pairs(
            connector, TypedPairsLocation(tuple(zip(partition, offset, strict=True)))
        )
        if partition
        else _require_single_section(connector, source)
    )
    request = _build_request(section, changing, "alter")
    typed = bool(partition) or not source.from_stdin
    return change_offsets(where, (request,), changing, typed=typed)


def _parse_typed_pairs(connector: str, location: TypedPairsLocation) -> OffsetsSection:
    """Return the pairs as a section. Raises ConfigError with all their mistakes."""
    pairs: list[PartitionOffset] = []
    problems: list[str] = []
    for parsed in parse_pairs(location):
        if isinstance(parsed, PartitionOffset):
            pairs.append(parsed)
        else:
            problems.append(str(parsed))
    if problems:
        raise ConfigError(tuple(problems))
    return OffsetsSection(connector, tuple(pairs), location)


def _require_single_section(connector: str, options: DocumentOptions) -> OffsetsSection:
    """Return the only section. Raises ConfigError if there are other connectors or none."""
    document = read_document(options, patch_of=connector)
    others = [name for name in document.connectors() if name != connector]
    if others or not document.sections:
        meant = find_nearest(connector, others)
        right = f"did you mean {meant}?" if meant else "`offsets import` takes several connectors"
        about = f"is about {format_names(others) or 'no connector'} and not only about {connector}"
        raise ConfigError((f"--offsets: {about}: {right}",))
    return document.sections[0]


def _build_request(
    section: OffsetsSection, changing: ChangeOptions, verb: str
) -> ConnectorChangeRequest:
    name = section.connector
    request = OffsetsRequest(name, section.pairs, section.where, allow_new=changing.allow_new)
    return ConnectorChangeRequest(request, f"{verb} offsets of {name}", watch_s=changing.watch_s)


# --- for all of them -----------------------------------------------------------------------------


def change_offsets(
    where: OffsetStoreOptions,
    requests: tuple[ConnectorChangeRequest, ...],
    changing: ChangeOptions,
    *,
    typed: bool,
) -> int:
    """Change the offsets of each requested connector, as run_changes does."""
    names = tuple(one.request.connector for one in requests)
    prepare_one = prepare_change if len(requests) == 1 else _prepare_or_report

    def prepare(store: OffsetStore) -> list[PreparedChange]:
        return [prepare_one(store, one, execute.create_author()) for one in requests]

    return run_changes(where, names, prepare, changing, typed=typed)


def _prepare_or_report(
    store: OffsetStore, request: ConnectorChangeRequest, author: Author
) -> PreparedChange:
    """Return the change of one connector among several.

    If it cannot be read, the change has that as its problem. Problems of the other connectors are
    found as well before all changes are refused.
    """
    name = request.request.connector
    try:
        return prepare_change(store, request, author)
    except TargetUnreachable:
        raise
    except ClientError as exc:
        right = "`--connectors` imports the others without it"
        wrong = f"not read: {output.format_client_error(exc)}"
        return PreparedChange(name, (ValidationProblem(name, wrong, right),))


def run_changes(
    where: OffsetStoreOptions,
    connectors: tuple[str, ...],
    prepare: Callable[[OffsetStore], list[PreparedChange]],
    changing: ChangeOptions,
    *,
    typed: bool,
) -> int:
    """Finish an earlier run, prepare, show, confirm and carry out; return the exit code.

    connectors  all that may be changed
    typed       standard input is free for a person to type there
    """
    how = changing.build_execution(load_optional_config(where), where.options)
    try:
        earlier = _finish_earlier_plans(where, connectors, how)
        if isinstance(earlier, int):
            return earlier
        with open_offset_store(where, wait_s=changing.timeout_s) as store:
            changes = prepare(store)
            remaining = _drop_finished(changes, earlier)
            if changes and not remaining:
                return OK
            code = _print_prepared(remaining, dry_run=how.dry_run)
            if code is not None:
                return code
            plans = [one for one in remaining if one.plan is not None]
            if how.dry_run:
                return _print_rehearsal(plans)
            for one in plans:
                assert one.plan is not None
                steps = ", ".join(execute.describe_steps(one.plan))
                output.print_error(f"{one.connector}: {steps}")
            return _carry_out_all(plans, how) if _confirm_all(plans, how, typed=typed) else DENIED
    except RemedyError as exc:
        output.print_error(str(exc))
    except AccessDenied as exc:
        output.print_client_error(exc)
        return UNAUTHORISED
    except RemoteRefusal as exc:
        output.print_client_error(exc)
    return DENIED


def _drop_finished(
    prepared: list[PreparedChange], earlier: dict[str, Plan]
) -> list[PreparedChange]:
    """Return the changes without those that an interrupted earlier run has just completed.

    A flow that is reset twice copies records twice.
    """
    remaining = []
    for one in prepared:
        before = earlier.get(one.connector)
        if one.plan is not None and before is not None and _is_same_change(one.plan, before):
            said = "that was this very change: it is not made once more"
            output.print_error(f"{one.connector}: {said}")
        else:
            remaining.append(one)
    return remaining


def _is_same_change(plan: Plan, before: Plan) -> bool:
    pairs, known = (
        {
            (pair.partition, pair.offset)
            for step in each.steps
            if isinstance(step, Alter | Write)
            for pair in step.pairs
        }
        for each in (plan, before)
    )
    return plan.verb == before.verb and pairs <= known


def _finish_earlier_plans(
    where: OffsetStoreOptions, connectors: tuple[str, ...], how: execute.ExecutionOptions
) -> dict[str, Plan] | int:
    """Return the earlier plans that have now succeeded, by connector.

    Return the exit code instead if a person must decide first. A journal that does not exist is not
    created.
    """
    done: dict[str, Plan] = {}
    if not (how.folder / FILE_NAME).exists():
        return done
    with closing(Journal(how.folder)) as journal, open_offset_store(where) as store:
        for name in connectors:
            key = (store.lock_name(name), name)
            plan_id = journal.open_plan(*key)
            if plan_id is None:
                continue
            if how.dry_run:
                output.print_error(f"{name}: plan {plan_id} is open, and would be finished first")
                continue
            earlier = execute.finish_plan(how, journal, partial(store.driver, name), key)
            if earlier is not None and not earlier.over:
                return earlier.exit_code
            if earlier is not None and earlier.ending is PlanStatus.SUCCEEDED:
                done[name] = read_plan(journal, plan_id)
    return done


def _print_prepared(prepared: list[PreparedChange], *, dry_run: bool) -> int | None:
    """Print problems, notes and changes; return the exit code if nothing remains to be done.

    A dry run prints the changes even if the change itself would be refused.
    """
    rows = [(one.connector, change) for one in prepared for change in one.changes]
    problems = [(one.connector, problem) for one in prepared for problem in one.problems]
    for name, problem in problems:
        named = problem.where.startswith(name) or f": {name}" in problem.where
        output.print_error(str(problem) if named else f"{name}: {problem}")
    refusal = execute.choose_refusal_code(problem for _, problem in problems)
    if problems and dry_run:
        print_changes("Changes", rows, after="then")
        output.print_error("dry run: nothing was written; the run itself would be refused")
        return refusal
    if problems:
        output.print_error(f"{format_count(len(problems), 'problem')}: nothing was changed")
        return refusal
    for one in prepared:
        for note in one.notes:
            output.print_error(f"{one.connector}: {note}")
    if all(one.plan is None for one in prepared):
        output.print_error("there is nothing to change: all offsets are as requested")
        return OK
    print_changes("Changes" if rows else "No offset is changed", rows, after="then")
    return None


def _print_rehearsal(plans: list[PreparedChange]) -> int:
    for one in plans:
        assert one.plan is not None
        lines = []
        for line, step in zip(execute.describe_steps(one.plan), one.plan.steps, strict=True):
            lines.append(f"  {line}")
            if isinstance(one.driver, StrimziDriver):
                lines += [f"       {request}" for request in one.driver.requests(step)]
        output.print_lines(f"\n{one.connector}: would be done, step by step", lines)
    output.print_error("dry run: nothing was written")
    return OK


def _confirm_all(
    plans: list[PreparedChange], how: execute.ExecutionOptions, *, typed: bool
) -> bool:
    if not typed and not how.yes:
        output.print_error(
            "standard input has the offsets, so it cannot be used to confirm: say --yes"
        )
        return False
    return all(execute.confirm_by_name(one.connector, yes=how.yes) for one in plans)


def _carry_out_all(plans: list[PreparedChange], how: execute.ExecutionOptions) -> int:
    """Carry out the plans one after the other until one does not succeed; return the exit code."""
    code = OK
    ended: dict[str, tuple[str, str | None]]
    ended = {one.connector: ("not begun", None) for one in plans}
    with closing(Journal(how.folder)) as journal:
        for one in plans:
            result = execute.carry_out_plan(how, journal, one)
            ended[one.connector] = (result.ending.value, result.backup)
            code = result.exit_code
            if code != OK:
                break
    if len(plans) > 1:
        rows = ((name, *ending) for name, ending in ended.items())
        output.print_table("Ended", ("connector", "as", "backup"), rows)
    return code
