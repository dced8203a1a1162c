"""A journal with every kind of plan, as the code that it is run with writes one: by its own runner,
engine and records, on a connector in memory. Run by make.py.

Plans of the toolbox are here, those of guarded remediation in remediation_journals.py.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import msgspec
from click.testing import CliRunner, Result

from offsetwatch.cli import cli
from offsetwatch.errors import ResponseTimeout
from offsetwatch.remedy.journal.journal import FILE_NAME, Journal
from offsetwatch.remedy.model import journal_records, plan
from offsetwatch.remedy.model.driver import AttemptResult, Outcome
from offsetwatch.remedy.model.journal_records import (
    PlanEnded,
    PlanOpened,
    StepAnswered,
    StepIntended,
    StepVerified,
)
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Create,
    Delete,
    DeleteTopic,
    PartitionOffset,
    Plan,
    PlanStatus,
    PlanSubject,
    RawOffsetRecord,
    RequestedState,
    Reset,
    Restart,
    ToState,
    Write,
)
from tests.unit.remedy.killed_processes import Killed
from tests.unit.remedy.plans import Bench, plan_of

Misbehaviour = Callable[[Bench], Callable[[AnyStep], Any]]
SAID = frozenset({"said"})  # for people: words may be put better
_BLOB = re.compile(r"X'([0-9A-F]*)'")


@dataclass
class Case:
    """A plan, and what goes wrong while it is carried out.

    before      what is in the world, and in the journal, before it begins
    after       what is written once it was let go
    """

    plan: Plan
    misbehaves: Misbehaviour = lambda bench: lambda step: None
    before: Callable[[Bench, Plan], None] = lambda bench, plan: None
    after: Callable[[Bench, Plan], None] = lambda bench, plan: None
    recovered: bool = False
    runs: bool = True
    options: Callable[[Bench], dict[str, Any]] = lambda bench: {}


def named(plan: Plan, name: str) -> Plan:
    """Of a connector of its own, so that each may be open."""
    subject = msgspec.structs.replace(plan.subject, connector=f"c-{name}")
    return msgspec.structs.replace(plan, plan_id=name, subject=subject)


def refuses(kind: type | AnyStep) -> Misbehaviour:
    return lambda bench: lambda step: Outcome(AttemptResult.NACK, "no") if _is(step, kind) else None


def never_answers(kind: type | AnyStep) -> Misbehaviour:
    return lambda bench: (
        lambda step: ResponseTimeout("lab", "no answer") if _is(step, kind) else None
    )


def dies(kind: type | AnyStep, *, done: bool) -> Misbehaviour:
    """The process, once: while it asks for this, which happened all the same or did not."""

    def on(bench: Bench) -> Callable[[AnyStep], Any]:
        def misbehave(step: AnyStep) -> None:
            if _is(step, kind):
                if done:
                    bench.world.do(step)
                raise Killed

        return misbehave

    return on


def _is(step: AnyStep, kind: type | AnyStep) -> bool:
    return isinstance(step, kind) if isinstance(kind, type) else step == kind


def _remove_connector(bench: Bench, plan: Plan) -> None:
    bench.world.state, bench.world.offsets = None, {}


def _resolved(bench: Bench, plan: Plan) -> None:
    ended = PlanEnded(at=bench.clock.now(), ending=PlanStatus.RESOLVED, said="set by hand")
    bench.journal.append(plan.plan_id, (ended,))


def _on_storage(bench: Bench, plan: Plan) -> None:
    """By hand: the world in memory has neither storage nor topics."""
    now = bench.clock.now()
    bench.journal.open(plan, PlanOpened(at=now, plan=plan))
    last = len(plan.steps) - 1
    for index in range(last + 1):
        bench.journal.append(plan.plan_id, (StepIntended(at=now, index=index, undoing=False),))
        if index < last:
            answered = StepAnswered(at=now, answer=AttemptResult.ACK, said="done")
            verified = StepVerified(at=now, index=index, undoing=False, said="looked")
            bench.journal.append(plan.plan_id, (answered, verified))


def _stored() -> Plan:
    item = (
        RawOffsetRecord("WyJjIix7ImZpbGUiOiJhIn1d", None, 3),
        RawOffsetRecord("WyJjIix7ImZpbGUiOiJiIn1d", "eyJwIjo1fQ=="),
    )
    return msgspec.structs.replace(
        plan_of(),
        subject=PlanSubject("storage", "east/connect-offsets", "c", "mirror"),
        steps=(
            Write("east/connect-offsets", item, (PartitionOffset('{"file":"a"}', None),)),
            Restart(include_tasks=False, only_failed=True),
            DeleteTopic("east", "mm2-offset-syncs.west.internal", "7Gk0bN6pQ0yX1nZs8H3dVw"),
        ),
        original=None,
        final=None,
    )


def _ending_as_nothing(*steps: AnyStep) -> Plan:
    plan = plan_of(*steps, original=None)
    stop = (ToState(RequestedState.STOPPED),)
    return msgspec.structs.replace(
        plan, steps=(*stop, *plan.steps), original=RequestedState.RUNNING
    )


def cases() -> dict[str, Case]:
    """Of the toolbox, by the ids of their plans."""
    resume = ToState(RequestedState.RUNNING)
    return {
        "altered": Case(plan_of()),
        "reset": Case(plan_of(Reset())),
        "refused": Case(plan_of(), refuses(Alter)),
        "unchanged": Case(plan_of(), refuses(ToState)),
        "created": Case(plan_of(Create("0" * 64), original=None), before=_remove_connector),
        "deleted": Case(_ending_as_nothing(Delete())),
        "in-doubt": Case(plan_of(), never_answers(Alter)),
        "parked": Case(plan_of(), refuses(resume)),
        "resolved": Case(plan_of(), refuses(resume), after=_resolved),
        "taken-up": Case(plan_of(), dies(Alter, done=False), recovered=True),
        "cut-off-stopping": Case(plan_of(), dies(ToState(RequestedState.STOPPED), done=True)),
        "cut-off-before": Case(plan_of(), dies(Alter, done=False)),
        "cut-off-after": Case(plan_of(), dies(Alter, done=True)),
        "cut-off-resuming": Case(plan_of(), dies(resume, done=False)),
        "on-storage": Case(_stored(), after=_on_storage, runs=False),
    }


def write(folder: Path, result: dict[str, Case]) -> dict[str, Any]:
    """The journal, and what this code says of it: of the open plans also how the world stands and
    what becomes of it when they are taken up.
    """
    worlds = {name: played(folder, named(case.plan, name), case) for name, case in result.items()}
    _all_kinds(folder)
    expected = describe(folder)
    for row in expected["plans"]:
        name = row["plan_id"]
        if row["open"] and worlds[name]["state"] is not None and name != "on-storage":
            expected["open"][name] = {
                "world": worlds[name],
                "recovered": _tried(folder, name, worlds[name]),
            }
    return expected


def played(folder: Path, plan: Plan, case: Case) -> dict[str, Any]:
    """Into this journal; how the world is afterwards."""
    bench = Bench(folder)
    with closing(bench.journal):
        case.before(bench, plan)
        bench.driver.misbehave = case.misbehaves(bench)
        if case.runs:
            with suppress(Killed):
                bench.runner(**case.options(bench)).run(plan)
        bench.driver.misbehave = lambda step: None
        if case.recovered:
            bench.clock.advance(600.0)
            bench.runner().recover(plan.plan_id)
        case.after(bench, plan)
        return read_world(bench)


def read_world(bench: Bench) -> dict[str, Any]:
    """How the world is."""
    world = bench.world
    return {
        "now": bench.clock.now(),
        "state": world.state,
        "config": world.config,
        "offsets": dict(sorted(world.offsets.items())),
        "copies": sorted(world.copies),
    }


def restore_world(bench: Bench, world: dict[str, Any]) -> None:
    """As it was."""
    bench.clock.at = world["now"]
    bench.world.state = None if world["state"] is None else RequestedState(world["state"])
    bench.world.config = world["config"]
    bench.world.offsets = dict(world["offsets"])
    bench.world.copies = set(world["copies"])


def taken_up(folder: Path, plan_id: str, world: dict[str, Any]) -> dict[str, Any]:
    """What becomes of an open plan in a world like this, an hour later."""
    bench = Bench(folder)
    with closing(bench.journal):
        restore_world(bench, world)
        bench.clock.advance(3600.0)
        result = bench.runner().recover(plan_id)
        return {"ending": result.ending, "over": result.over, **read_world(bench)}


def _tried(folder: Path, plan_id: str, world: dict[str, Any]) -> dict[str, Any]:
    """The same, on a copy."""
    copy = folder.with_name("tried")
    shutil.copytree(folder, copy)
    try:
        result = taken_up(copy, plan_id, world)
    finally:
        shutil.rmtree(copy)
    return result


def describe(folder: Path) -> dict[str, Any]:
    """What the verbs say of a journal."""
    listed = json.loads(typed(folder, "plan", "list", "--json"))
    return {
        "records": len(rows(folder)),
        "plans": [{key: row[key] for key in row if key not in SAID} for row in listed],
        "steps": {row["plan_id"]: _steps(folder, row["plan_id"]) for row in listed},
        "skips": dict(skips(folder)),
        "open": {},
    }


def _steps(folder: Path, plan_id: str) -> list[Any]:
    """What each step is in words, and how it stands."""
    document = json.loads(typed(folder, "plan", "show", plan_id, "--json"))
    return [{"step": step["step"], "standing": step["status"]} for step in document["steps"]]


def skips(folder: Path) -> list[tuple[str, str]]:
    """What was skipped or may have been, and by which plan."""
    with closing(sqlite3.connect(folder / FILE_NAME)) as db:
        return db.execute("SELECT skip_key, plan_id FROM skips ORDER BY skip_key").fetchall()


def typed(folder: Path, *words: str) -> str:
    """What a verb prints of this journal."""
    return _done(folder, words).stdout


def typed_error(folder: Path, *words: str) -> str:
    """What it says beside that."""
    return _done(folder, words).stderr


def _done(folder: Path, words: tuple[str, ...]) -> Result:
    done = CliRunner().invoke(cli, [*words, "--state-dir", str(folder)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def rows(folder: Path) -> list[tuple[Any, ...]]:
    """The records as they are in the file."""
    with closing(sqlite3.connect(folder / FILE_NAME)) as db:
        return db.execute("SELECT seq, v, plan_id, body FROM records ORDER BY seq").fetchall()


def dumped(folder: Path) -> Iterator[str]:
    """The file as SQL, a record a line, its JSON to be read."""
    with closing(Journal(folder)), closing(sqlite3.connect(folder / FILE_NAME)) as db:
        for line in db.iterdump():
            yield _BLOB.sub(_readable, line)


def _readable(match: re.Match[str]) -> str:
    text = bytes.fromhex(match[1]).decode()
    return "CAST('" + text.replace("'", "''") + "' AS BLOB)"


def _all_kinds(folder: Path) -> None:
    """A kind of record or step that is not in the journal is one that nothing is proven of."""
    bodies = [body.decode() for _, _, _, body in rows(folder)]
    missing = [
        f"{of}: {kind.__struct_config__.tag}"
        for of, union in (("record", journal_records.AnyRecord), ("step", plan.AnyStep))
        for kind in get_args(union)
        if not any(f'"{of}":"{kind.__struct_config__.tag}"' in body for body in bodies)
    ]
    if missing:
        raise SystemExit(f"no plan of this journal has a {', '.join(missing)}: add one")
