"""`plan create` and `restore`, as they are typed, with a planner that says what a test wants."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from offsetwatch.cli.plans import create
from offsetwatch.cli.plans.service_access import find_operator_name
from offsetwatch.errors import ConfigError
from offsetwatch.remedy.journal import backups
from offsetwatch.remedy.model import service_api
from offsetwatch.remedy.model.journal_records import GuardAnswer, PlanProposed
from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.remedy.model.service_api import RequestedAction, RequestTargetNotFound
from offsetwatch.remedy.service import ServiceCallbacks
from tests.unit.cli.journal_host import configure, typed
from tests.unit.remedy.plans import NEXT, PARTITION
from tests.unit.remedy.services import ServiceBench

SKIP = (
    *("plan", "create", "skip", "--connector", "orders", "--because", "it is poison"),
    *("--partition", '{"kafka_topic": "orders", "kafka_partition": 0}'),
    *("--offset", '{"kafka_offset": 8}'),
)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceBench:
    built = ServiceBench(tmp_path / "state")
    configure(tmp_path)
    world = ServiceCallbacks(built.planner, built.woken.append, frozenset)
    monkeypatch.setattr(create, "open_plan_inputs", lambda *_: nullcontext(world))
    return built


def test_a_skip_is_planned_exactly_as_it_was_typed_and_waits_for_approval(bench):
    done = typed(*SKIP, bureau=bench)
    assert done.exit_code == 0, done.output
    ((request, by),) = bench.planner.requests
    assert (request.action, request.connect_cluster, request.connector) == (
        RequestedAction.SKIP_ONE,
        "lab",
        "orders",
    )
    assert (request.pair, request.because, by) == (
        PartitionOffset(PARTITION, NEXT),
        "it is poison",
        find_operator_name(),
    )
    assert "PATCH /connectors/orders/offsets" in done.stdout
    (row,) = json.loads(typed("plan", "list", "--json", bureau=bench).stdout)
    assert (row["stands"], row["created_by"]) == ("proposed", find_operator_name())
    approve = f"plan approve {row['plan_id']} --sha256 {row['sha256']} --config"
    assert approve in done.stderr


@pytest.mark.parametrize(
    ("action", "case"),
    [("stop", RequestedAction.STOP), ("restart", RequestedAction.RESTART_FAILED)],
)
def test_a_stop_and_a_restart_need_no_more_than_a_name(bench, action, case):
    inputs = ("--connector", "orders", "--connect", "lab", "--because", "x")
    typed("plan", "create", action, *inputs, bureau=bench)
    assert bench.planner.requests[0][0].action is case


def test_a_restart_while_nothing_has_failed_ends_with_0_as_on_the_daemons_host(bench):
    said = "no task is failed: there is nothing to restart"
    bench.planner.says = service_api.ProposalRefused(said=said)
    inputs = ("--connector", "orders", "--connect", "lab", "--because", "x")
    done = typed("plan", "create", "restart", *inputs, bureau=bench)
    assert (done.exit_code, done.stderr.strip()) == (0, said)


def test_a_dry_run_shows_the_whole_plan_and_writes_nothing(bench):
    done = typed(*SKIP, "--dry-run", "--json", bureau=bench)
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    assert [step["status"] for step in document["steps"]][:1] == ["not begun"]
    assert bench.bench.journal.tail(1) == ()


@pytest.mark.parametrize(
    ("setting", "answer"),
    [
        ("", "by another operator than"),
        ("second_person: true", "by another operator than"),
        ("second_person: false", "by any operator"),
    ],
)
def test_every_plan_says_who_may_approve_it(bench, setting, answer):
    path = bench.folder.parent / "offsetwatch.yaml"
    path.write_text(path.read_text().replace("{mode: propose}", f"{{mode: propose, {setting}}}"))
    assert answer in typed(*SKIP, bureau=bench).stdout
    (row,) = bench.office.plans()
    assert answer in typed("plan", "show", row.plan_id, bureau=bench).stdout
    own = ("--sha256", row.sha256, "--yes", "--no-wait")
    done = typed("plan", "approve", row.plan_id, *own, bureau=bench)
    if "any" in answer:
        assert done.exit_code == 0
    else:
        assert done.exit_code == 6
        assert "remedy.second_person: false" in done.stderr


def test_a_dry_run_ends_with_3_if_a_guard_would_not_let_it_begin(bench, monkeypatch):
    answers = (
        GuardAnswer(9, "running", "deny", "it is paused"),
        GuardAnswer(1, "mode", "unknown", "?"),
    )
    monkeypatch.setattr("tests.unit.remedy.services.GUARD_ANSWERS", answers)
    assert typed(*SKIP, "--dry-run", bureau=bench).exit_code == 3
    done = typed(*SKIP, bureau=bench)
    assert "as it is now it could not begin: running, mode" in done.stderr
    assert done.exit_code == 0


def test_queried_again_under_the_same_key_it_is_the_same_plan(bench):
    typed(*SKIP, "--key", "once", bureau=bench)
    again = typed(*SKIP, "--key", "once", bureau=bench)
    assert (again.exit_code, len(bench.office.plans())) == (0, 1)
    assert "was requested before" in again.stderr
    other = typed(
        *("plan", "create", "stop", "--connector", "orders"),
        *("--because", "x", "--key", "once"),
        bureau=bench,
    )
    assert other.exit_code == 4
    typed(*SKIP, bureau=bench)
    assert len(bench.office.plans()) == 2


def test_what_the_guards_do_not_let_pass_is_reported_guard_by_guard(bench):
    guard = service_api.GuardAnswerRow(
        guard="original_state", number=9, answer="deny", said="it is paused"
    )
    bench.planner.says = service_api.ProposalRefused(said="it is paused", guards=(guard,))
    done = typed(*SKIP, bureau=bench)
    assert done.exit_code == 3
    assert "original_state" in done.stdout
    assert bench.bench.journal.tail(1) == ()


def test_a_skip_of_an_unknown_connector_is_refused(bench):
    bench.planner.says = RequestTargetNotFound()
    with pytest.raises(ConfigError, match=r"no connector orders in lab$"):
        typed(*SKIP, bureau=bench)


@pytest.mark.parametrize(
    ("known", "answer"),
    [
        ({("lab", "order"), ("lab", "files")}, "did you mean order?"),
        ({("lab", "files"), ("lab", "lake")}, "it has: files, lake"),
        ({("lap", "orders")}, "did you mean lap?"),
        ({("east", "orders")}, "Connect clusters: east"),
    ],
)
def test_an_unknown_name_comes_with_the_one_that_was_meant(bench, monkeypatch, known, answer):
    bench.planner.says = RequestTargetNotFound()
    known = frozenset(known)
    world = ServiceCallbacks(bench.planner, bench.woken.append, lambda: known)
    monkeypatch.setattr(create, "open_plan_inputs", lambda *_: nullcontext(world))
    with pytest.raises(ConfigError, match=re.escape(f"({answer})")):
        typed(*SKIP, bureau=bench)


@pytest.mark.parametrize(
    ("arguments", "pair"),
    [((), None), (("--partition", '{"a": 1}'), PartitionOffset('{"a":1}', None))],
    ids=["nothing", "partition"],
)
def test_a_skip_without_an_offset_is_of_the_next_record(bench, arguments, pair):
    inputs = ("--connector", "orders", "--because", "x")
    assert typed("plan", "create", "skip", *arguments, *inputs, bureau=bench).exit_code == 0
    ((request, _),) = bench.planner.requests
    assert request.pair == pair


@pytest.mark.parametrize(
    "arguments",
    [
        ("stop", "--partition", "{}"),
        ("skip", "--offset", "{}"),
        ("restore",),
        ("stop", "--backup", "b.json"),
        ("reset",),
        ("stop", "--key", "two words"),
    ],
    ids=" ".join,
)
def test_what_does_not_go_together_is_a_usage_error(bench, arguments):
    inputs = ("--connector", "orders", "--because", "x")
    done = typed("plan", "create", *arguments, *inputs, bureau=bench)
    assert done.exit_code == 2
    assert "Usage:" in done.stderr
    assert bench.planner.requests == []


@pytest.mark.parametrize(
    ("partition", "offset"),
    [("{", "{}"), ('{"a": 1}', "null"), ("[]", "{}"), ('{"a": 1, "a": 2}', '{"o": 1}')],
    ids=["no JSON", "removes it", "no object", "twice"],
)
def test_a_pair_that_is_none_is_refused_before_anybody_is_queried(bench, partition, offset):
    inputs = ("--connector", "orders", "--because", "x")
    pair = ("--partition", partition, "--offset", offset)
    with pytest.raises(ConfigError):
        typed("plan", "create", "skip", *inputs, *pair, bureau=bench)
    assert bench.planner.requests == []


# --- restoring ------------------------------------------------------------------------------------


@pytest.fixture
def backup(bench: ServiceBench) -> Path:
    pairs = (PartitionOffset(PARTITION, NEXT),)
    return backups.write_backup(bench.folder, connector="orders", pairs=pairs, at=1.0).path


@pytest.mark.parametrize("how", ["path", "name"])
def test_a_backup_is_restored_to_the_connector_that_it_is_of(bench, backup, how):
    inputs = str(backup) if how == "path" else backup.name
    done = typed("restore", "--from", inputs, "--because", "x", bureau=bench)
    assert done.exit_code == 0, done.output
    ((request, _),) = bench.planner.requests
    assert (request.action, request.connector, request.backup) == (
        RequestedAction.RESTORE,
        "orders",
        backup.name,
    )


def test_plan_create_restore_is_the_same(bench, backup):
    inputs = ("--connector", "orders", "--backup", backup.name, "--because", "x")
    typed("plan", "create", "restore", *inputs, bureau=bench)
    assert bench.planner.requests[0][0].backup == backup.name


def test_only_what_the_daemon_keeps_itself_is_restored_by_a_plan(bench, backup, tmp_path):
    copy = tmp_path / backup.name
    copy.write_bytes(backup.read_bytes())
    with pytest.raises(ConfigError, match="offsets import"):
        typed("restore", "--from", str(copy), "--because", "x", bureau=bench)
    with pytest.raises(ConfigError, match="no such backup"):
        typed("restore", "--from", "none.json", "--because", "x", bureau=bench)


def test_of_a_backup_of_several_the_connector_is_named(bench, backup):
    both = backup.with_name("both.json")
    both.write_text('{"orders": [], "payments": []}')
    with pytest.raises(ConfigError, match="--connector"):
        typed("restore", "--from", "both.json", "--because", "x", bureau=bench)
    typed(
        "restore", "--from", "both.json", "--connector", "payments", "--because", "x", bureau=bench
    )
    assert bench.planner.requests[0][0].connector == "payments"


def test_why_is_in_the_journal(bench):
    typed(*SKIP, bureau=bench)
    (entry,) = bench.bench.journal.tail(1)
    assert isinstance(entry.record, PlanProposed)
    assert entry.record.because == "it is poison"


def test_a_plan_of_the_detector_is_for_any_approver(bench):
    bench.proposed("p7")
    assert "by any approver" in typed("plan", "show", "p7", bureau=bench).stdout
