"""`offsets import`, `alter` and `reset`: a wish is prepared, shown, confirmed and carried out.

Several connectors are several plans, one after the other; all are checked before the first is
begun. One that does not end as asked ends them all: whoever is there then decides.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing

from offsetwatch.cli.common import output
from offsetwatch.cli.offsets import execute
from offsetwatch.cli.offsets.arguments import Changing, Wanted, Where
from offsetwatch.cli.offsets.documents import print_changes, read_document
from offsetwatch.cli.offsets.execute import DENIED, OK, UNAUTHORISED
from offsetwatch.cli.offsets.open_store import AnyWay, loaded, way_of
from offsetwatch.errors import (
    ClientError,
    ConfigError,
    Denied,
    Refused,
    RemedyError,
    Unreachable,
)
from offsetwatch.remedy.drivers.strimzi.driver import StrimziDriver
from offsetwatch.remedy.execute.runner import planned
from offsetwatch.remedy.journal.journal import NAME, Journal
from offsetwatch.remedy.model.journal_records import Ending
from offsetwatch.remedy.model.plan import Alter, Pair, Plan, Write
from offsetwatch.toolbox.change import Asked, Prepared, prepare
from offsetwatch.toolbox.documents import Document, Section, parse_pair, same_twice
from offsetwatch.toolbox.suggestions import nearest, told
from offsetwatch.toolbox.validation import Problem, Request


def import_document(where: Where, wanted: Wanted, changing: Changing) -> int:
    """Set what a document names, of all its connectors or of those that are wanted."""
    document = read_document(wanted)
    sections = _chosen(document, wanted)
    asked = tuple(
        Asked(_request(section, changing), f"import offsets of {section.connector}")
        for section in sections
    )
    return change(where, asked, changing, typed=not wanted.from_stdin)


def _chosen(document: Document, wanted: Wanted) -> tuple[Section, ...]:
    names = wanted.connectors
    if names is None:
        return document.sections
    there = document.connectors()
    missing = sorted(names - set(there))
    if missing:
        raise ConfigError(
            tuple(
                f"--connectors: the document has no {name} (it has: {told(there) or 'none'})"
                for name in missing
            )
        )
    return tuple(section for section in document.sections if section.connector in names)


def alter(
    where: Where,
    connector: str,
    given: tuple[tuple[str, str], ...],
    wanted: Wanted,
    changing: Changing,
) -> int:
    """Set pairs of one connector, from the command line or from a document."""
    section = _pairs(connector, given) if given else _only(connector, wanted)
    asked = Asked(_request(section, changing), f"alter offsets of {connector}")
    return change(where, (asked,), changing, typed=bool(given) or not wanted.from_stdin)


def _pairs(connector: str, given: tuple[tuple[str, str], ...]) -> Section:
    """Raises ConfigError with all that is wrong with them."""
    found: list[Pair] = []
    problems: list[Problem] = []
    for index, (partition, offset) in enumerate(given):
        pair = parse_pair(partition, offset, f"pair[{index}]")
        if isinstance(pair, Pair):
            found.append(pair)
        else:
            problems.extend(pair)
    problems += same_twice("pair", tuple(found))
    if problems:
        raise ConfigError(tuple(str(problem) for problem in problems))
    return Section(connector, tuple(found), "pair")


def _only(connector: str, wanted: Wanted) -> Section:
    """Raises ConfigError for a document that is not about this connector alone."""
    document = read_document(wanted, patch_of=connector)
    others = [name for name in document.connectors() if name != connector]
    if others or not document.sections:
        meant = nearest(connector, others)
        right = f"did you mean {meant}?" if meant else "`offsets import` takes several connectors"
        about = f"is about {told(others) or 'no connector'} and not only about {connector}"
        raise ConfigError((f"--offsets: {about}: {right}",))
    return document.sections[0]


def reset(where: Where, connector: str, changing: Changing) -> int:
    """Leave no offset of a connector."""
    request = Request(connector, (), connector, allow_new=changing.allow_new)
    asked = Asked(request, f"reset offsets of {connector}", whole=True)
    return change(where, (asked,), changing, typed=True)


def _request(section: Section, changing: Changing) -> Request:
    return Request(section.connector, section.pairs, section.where, allow_new=changing.allow_new)


# --- for all of them -----------------------------------------------------------------------------


def change(where: Where, asked: tuple[Asked, ...], changing: Changing, *, typed: bool) -> int:
    """What is asked for, of one connector each; see changed."""
    names = tuple(one.request.connector for one in asked)

    def prepared(way: AnyWay) -> list[Prepared]:
        if len(asked) == 1:
            return [prepare(way, asked[0], execute.author())]
        return [_prepared_or_why(way, one) for one in asked]

    return changed(where, names, prepared, changing, typed=typed)


def _prepared_or_why(way: AnyWay, asked: Asked) -> Prepared:
    """Return the change of one connector among several. Where it cannot be read, that is its
    problem: those of the others are found as well before all of them are refused.
    """
    name = asked.request.connector
    try:
        return prepare(way, asked, execute.author())
    except Unreachable:
        raise
    except ClientError as exc:
        right = "`--connectors` imports the others without it"
        return Prepared(name, (Problem(name, f"not read: {output.client_text(exc)}", right),))


def changed(
    where: Where,
    connectors: tuple[str, ...],
    prepared_by: Callable[[AnyWay], list[Prepared]],
    changing: Changing,
    *,
    typed: bool,
) -> int:
    """Finish what an earlier run left, prepare, show, have confirmed, carry out; the exit code.

    connectors  all that may be changed
    typed       standard input is free for a person to type there
    """
    how = execute.How(
        folder=execute.state_folder(changing.state_dir, loaded(where)),
        options=where.options,
        yes=changing.yes,
        dry_run=changing.dry_run,
        timeout_s=changing.timeout_s,
    )
    try:
        earlier = _finish_earlier(where, connectors, how)
        if isinstance(earlier, int):
            return earlier
        with way_of(where, wait_s=changing.timeout_s) as way:
            asked = prepared_by(way)
            prepared = _left_to_do(asked, earlier)
            if asked and not prepared:
                return OK
            code = _shown(prepared, dry_run=how.dry_run)
            if code is not None:
                return code
            plans = [one for one in prepared if one.plan is not None]
            if how.dry_run:
                return _rehearsed(plans)
            _say_steps(plans)
            return _carried_out(plans, how) if _confirmed(plans, how, typed=typed) else DENIED
    except RemedyError as exc:
        output.error(str(exc))
        return DENIED
    except Denied as exc:
        output.client_error(exc)
        return UNAUTHORISED
    except Refused as exc:
        output.client_error(exc)
        return DENIED


def _left_to_do(prepared: list[Prepared], earlier: dict[str, Plan]) -> list[Prepared]:
    """Without what an earlier run of the same command was cut off in, and has come to its end just
    now: a flow that is set back a second time copies a second time.
    """
    left = []
    for one in prepared:
        before = earlier.get(one.connector)
        if one.plan is not None and before is not None and _same(one.plan, before):
            output.error(f"{one.connector}: that was this very change: it is not made once more")
        else:
            left.append(one)
    return left


def _same(plan: Plan, before: Plan) -> bool:
    pairs, known = (
        {
            (at.partition, at.offset)
            for step in each.steps
            if isinstance(step, Alter | Write)
            for at in step.pairs
        }
        for each in (plan, before)
    )
    return plan.verb == before.verb and pairs <= known


def _finish_earlier(
    where: Where, connectors: tuple[str, ...], how: execute.How
) -> dict[str, Plan] | int:
    """The plans that came to the end they were made for, by connector; the exit code if a person
    must decide first. A journal that is not there is not made.
    """
    done: dict[str, Plan] = {}
    if not (how.folder / NAME).exists():
        return done
    with closing(Journal(how.folder)) as journal, way_of(where) as way:
        for name in connectors:
            plan_id = journal.open_plan(way.lock(name), name)
            if plan_id is None:
                continue
            if how.dry_run:
                output.error(f"{name}: plan {plan_id} is open, and would be finished first")
                continue
            execute.leave_to_the_daemon(journal, plan_id, how.options)
            runner = execute.runner_of(how, journal, way.driver(name))
            earlier = runner.finish_earlier(way.lock(name), name)
            if earlier is not None:
                output.error(earlier.said)
                if not earlier.over:
                    return earlier.exit_code
                if earlier.ending is Ending.SUCCEEDED:
                    done[name] = planned(journal, plan_id)
    return done


def _shown(prepared: list[Prepared], *, dry_run: bool) -> int | None:
    """Say all there is to say; the exit code if that is all. A rehearsal shows what would change
    although the change itself would be refused.
    """
    rows = [(one.connector, at) for one in prepared for at in one.changes]
    problems = [(one.connector, problem) for one in prepared for problem in one.problems]
    for name, problem in problems:
        output.error(str(problem) if str(problem).startswith(name) else f"{name}: {problem}")
    if problems and dry_run:
        print_changes("Changes", rows, after="then")
        output.error("dry run: nothing was written; the run itself would be refused")
        return DENIED
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        output.error(f"{count}: nothing was changed")
        return DENIED
    for one in prepared:
        for note in one.notes:
            output.error(f"{one.connector}: {note}")
    if all(one.plan is None for one in prepared):
        output.error("there is nothing to change: all offsets are as requested")
        return OK
    print_changes("Changes" if rows else "No offset is changed", rows, after="then")
    return None


def _say_steps(plans: list[Prepared]) -> None:
    for one in plans:
        assert one.plan is not None
        output.error(f"{one.connector}: " + ", ".join(execute.steps_of(one.plan)))


def _rehearsed(plans: list[Prepared]) -> int:
    for one in plans:
        assert one.plan is not None
        told = [f"\n{one.connector}: would be done, step by step"]
        for line, step in zip(execute.steps_of(one.plan), one.plan.steps, strict=True):
            told.append(f"  {line}")
            if isinstance(one.driver, StrimziDriver):
                told += [f"       {request}" for request in one.driver.requests(step)]
        sys.stdout.write("".join(f"{output.visible(line)}\n" for line in told))
    output.error("dry run: nothing was written")
    return OK


def _confirmed(plans: list[Prepared], how: execute.How, *, typed: bool) -> bool:
    if not typed and not how.yes:
        output.error("standard input has the offsets, so it cannot be used to confirm: say --yes")
        return False
    return all(execute.confirmed(one.connector, yes=how.yes) for one in plans)


def _carried_out(plans: list[Prepared], how: execute.How) -> int:
    """One after the other, until one does not end as asked."""
    code = OK
    ended: dict[str, tuple[str, str | None]]
    ended = {one.connector: ("not begun", None) for one in plans}
    with closing(Journal(how.folder)) as journal:
        for one in plans:
            result = execute.carried_out(how, journal, one)
            ended[one.connector] = (result.ending.value, result.backup)
            code = result.exit_code
            if code != OK:
                break
    if len(plans) > 1:
        rows = ((name, ending, backup) for name, (ending, backup) in ended.items())
        output.table("Ended", ("connector", "as", "backup"), rows)
    return code
