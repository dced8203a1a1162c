"""`plan approve`, `reject` and `abort` on the daemon's host, as they are typed."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import closing
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from offsetwatch.cli import cli
from offsetwatch.cli.offsets import execute
from offsetwatch.cli.offsets.store_options import (
    OffsetStoreOptions,
)
from offsetwatch.cli.plans import approve, recover, service_access
from offsetwatch.cli.plans.approve import ApprovalOptions
from offsetwatch.cli.plans.print import describe_next_step
from offsetwatch.cli.plans.service_access import ServiceAccess, find_operator_name, open_service
from offsetwatch.daemon.state_dir import StateDir
from offsetwatch.errors import ConfigError, PlanUnfinished, RemoteRefusal, TargetUnreachable
from offsetwatch.model.findings import EvidenceItem
from offsetwatch.remedy.journal.journal import Journal
from offsetwatch.remedy.model.driver import AttemptResult, Outcome, StepInspection, StepStatus
from offsetwatch.remedy.model.journal_records import (
    ActionRefused,
    GuardAnswer,
    PauseSet,
    PlanApproved,
    PlanLapsed,
    PlanOpened,
    PlanProposed,
)
from offsetwatch.remedy.model.plan import Alter, Plan, PlanStatus
from tests.unit.remedy.loops import ENDED, Agency
from tests.unit.remedy.plans import AT, PARTITION, plan_of, skip_of
from tests.unit.remedy.services import GUARD_ANSWERS, ServiceBench


@pytest.fixture
def bench(tmp_path: Path) -> ServiceBench:
    built = ServiceBench(tmp_path / "state")
    built.bench.world.offsets = {PARTITION: AT}
    return built


def typed(*arguments: str, bureau: ServiceBench, stdin: str = "") -> Result:
    result = CliRunner().invoke(cli, [*arguments, "--state-dir", str(bureau.folder)], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def state(bureau: ServiceBench, plan_id: str = "p1") -> PlanStatus:
    plan_details = bureau.office.plan(plan_id)
    assert plan_details is not None
    return plan_details.row.state


# --- what is shown --------------------------------------------------------------------------------


def test_a_proposal_is_listed_with_when_it_expires_and_is_no_bad_news(bench):
    bench.proposed()
    done = typed("plan", "list", "--json", bureau=bench)
    (row,) = json.loads(done.stdout)
    assert (row["plan_id"], row["stands"], row["open"]) == ("p1", "proposed", False)
    assert (row["action"], row["expires_at"]) == ("skip_one", "2027-01-15T09:00:00Z")
    assert done.exit_code == 0
    assert "proposed" in typed("plan", "list", bureau=bench).stdout


def test_a_proposal_is_shown_with_its_evidence_its_guards_and_its_exact_requests(bench):
    evidence = (
        EvidenceItem("decode", "offset 7 is no JSON"),
        EvidenceItem("inspected", 3, "records"),
    )
    bench.proposed(evidence=evidence)
    result = typed("plan", "show", "p1", bureau=bench)
    flat = re.sub(r"\s+", "", result.stdout)
    assert "offset7isnoJSON" in flat
    assert "G11repeatpassfailed3times" in flat
    assert "PUT/connectors/orders/stop" in flat
    assert (
        'PATCH/connectors/orders/offsets{"offsets":[{"partition":{"kafka_partition":0,'
        '"kafka_topic":"orders"},"offset":{"kafka_offset":8}}]}' in flat
    )
    assert "inspected3records" in flat
    assert f"plan approve p1 --sha256 {skip_of(evidence=evidence).sha256}" in result.stderr
    assert result.exit_code == 0


def test_guards_that_speak_against_it_are_shown_first(bench):
    plan = skip_of()
    answers = (*GUARD_ANSWERS, GuardAnswer(30, "freshness", "unknown", "the tail is behind"))
    now = bench.clock.now()
    bench.bench.journal.append(
        "p1",
        (PlanProposed(at=now, plan=plan, mode="propose", expires_at=now + 60.0, answers=answers),),
    )
    stdout = typed("plan", "show", "p1", bureau=bench).stdout
    assert stdout.index("freshness") < stdout.index("repeat")
    document = json.loads(typed("plan", "show", "p1", "--json", bureau=bench).stdout)
    assert [guard["guard"] for guard in document["guards"]] == ["repeat", "cool_down", "freshness"]


def test_a_proposal_has_nothing_to_recover_or_to_resolve(bench):
    bench.proposed()
    assert "was never begun" in typed("plan", "recover", "p1", bureau=bench).stderr
    done = typed("plan", "resolve", "p1", "--because", "gone", bureau=bench)
    assert "never begun (proposed)" in done.stderr
    assert state(bench) is PlanStatus.PROPOSED


def test_a_plan_is_resolved_elsewhere_with_the_options_of_recover(bench):
    arguments = ["plan", "resolve", "20261129-000000-abcdef", "--because", "gone"]
    url = ["--url", "http://127.0.0.1:1", "--strimzi", "kafka/connect", "--connect", "lab"]
    done = CliRunner().invoke(cli, [*arguments, *url])
    assert isinstance(done.exception, TargetUnreachable)


# --- approving ------------------------------------------------------------------------------------


def approved(bureau: ServiceBench, *more: str, stdin: str = "") -> Result:
    return typed("plan", "approve", "p1", "--no-wait", *more, bureau=bureau, stdin=stdin)


def test_approving_shows_the_plan_and_writes_down_who_and_why(bench):
    bench.proposed()
    done = approved(bench, "--yes", "--because", "I have looked at the record")
    assert done.exit_code == 0
    assert "stop the connector" in done.stdout
    record = bench.bench.journal.records("p1")[-1]
    assert isinstance(record, PlanApproved)
    assert (record.by, record.because) == (find_operator_name(), "I have looked at the record")


def test_without_a_terminal_an_approval_needs_yes(bench):
    bench.proposed()
    done = approved(bench, stdin="orders\n")
    assert done.exit_code == 3
    assert "say --yes" in done.stderr
    assert state(bench) is PlanStatus.PROPOSED


@pytest.mark.parametrize(
    ("typed_name", "code", "then"),
    [("orders", 0, PlanStatus.APPROVED), ("order", 3, PlanStatus.PROPOSED)],
)
def test_the_connectors_name_has_to_be_typed(bench, monkeypatch, typed_name, code, then):
    bench.proposed()
    monkeypatch.setattr("sys.stdin", Terminal(f"{typed_name}\n"))
    options = ApprovalOptions("p1", wait=False)
    assert approve.approve_plan(ServiceAccess(state_dir=bench.folder), options) == code
    assert state(bench) is then


class Terminal:
    def __init__(self, line: str) -> None:
        self.line = line

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self.line


def test_another_plan_than_the_one_that_was_inspected_is_not_approved(bench):
    bench.proposed()
    done = approved(bench, "--yes", "--sha256", "0" * 64)
    assert done.exit_code == 4
    assert "another hash" in done.stderr
    assert state(bench) is PlanStatus.PROPOSED


def test_who_has_requested_a_plan_is_not_who_approves_it(bench):
    plan = msgspec.structs.replace(skip_of(), created_by=find_operator_name())
    now = bench.clock.now()
    proposal = PlanProposed(at=now, plan=plan, mode="propose", expires_at=now + 3600.0)
    bench.bench.journal.append("p1", (proposal,))
    done = approved(bench, "--yes")
    assert done.exit_code == 6
    assert "another operator has to approve it" in done.stderr


def test_an_approval_of_an_expired_proposal_is_too_late(tmp_path):
    bureau = ServiceBench(tmp_path / "state")
    bureau.clock.at = 1_600_000_000.0
    bureau.proposed()
    done = approved(bureau, "--yes")
    assert done.exit_code == 4
    assert "too late: plan p1 is expired already" in done.stderr


def test_a_decision_on_an_unknown_plan_is_refused(bench):
    for verb in ("approve", "reject", "abort"):
        because = ("--because", "x")
        done = CliRunner().invoke(
            cli, ["plan", verb, "p9", *because, "--state-dir", str(bench.folder)]
        )
        assert "no plan p9" in str(done.exception)


def test_where_there_is_no_journal_nothing_is_decided_and_none_is_made(tmp_path):
    folder = tmp_path / "none"
    with pytest.raises(ConfigError, match="no daemon has run there"):
        approve.approve_plan(ServiceAccess(state_dir=folder), ApprovalOptions("p1"))
    assert not folder.exists()


@pytest.mark.parametrize("answer", ["", "  ", "two\nlines", "\x1b[2J", "x" * 501])
def test_a_reason_is_one_line_that_shows_all_that_is_in_it(bench, answer):
    bench.proposed()
    done = typed("plan", "reject", "p1", "--because", answer, bureau=bench)
    assert done.exit_code == 2
    assert state(bench) is PlanStatus.PROPOSED


# --- following ------------------------------------------------------------------------------------


class Daemon:
    """Does, each time that somebody waits, the next of what a test tells it to."""

    def __init__(self, bureau: ServiceBench, *does) -> None:
        self.bureau, self.does = bureau, list(does)
        self.home = StateDir(bureau.folder)

    def __call__(self, _seconds: float) -> None:
        self.does.pop(0)()

    def approved(self) -> int:
        with closing(self.home):
            at = ServiceAccess(state_dir=self.bureau.folder)
            return approve.approve_plan(at, ApprovalOptions("p1", yes=True), pause=self)


def test_an_approved_plan_is_followed_to_its_end(bench, capsys):
    plan = bench.proposed()
    assert Daemon(bench, lambda: bench.bench.runner().run(plan)).approved() == 0
    err = capsys.readouterr().err
    assert "plan p1 is approved" in err
    assert "2. stop the connector: done" in err
    assert err.endswith("skip one record of orders: succeeded\n")


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome(AttemptResult.NACK, "HTTP 400: no"), 3),
        (Outcome(AttemptResult.IN_DOUBT, "no answer"), 5),
    ],
    ids=["refused", "in-doubt"],
)
def test_the_exit_code_says_how_it_ended(bench, outcome, code):
    plan = bench.proposed()
    bench.bench.driver.misbehave = lambda step: outcome if isinstance(step, Alter) else None
    assert Daemon(bench, lambda: bench.bench.runner().run(plan)).approved() == code


def test_a_skip_that_did_not_help_is_no_success(bench, capsys):
    plan = bench.proposed()
    bench.bench.world.proven = StepInspection(StepStatus.FOREIGN, "it failed again, still at 8")
    assert Daemon(bench, lambda: bench.bench.runner().run(plan)).approved() == 1
    assert "ineffective: it failed again, still at 8" in capsys.readouterr().err


def test_what_holds_an_approved_plan_back_is_said_once(bench, capsys):
    plan = bench.proposed()

    def refuse() -> None:
        bench.clock.advance(5.0)
        answers = (GuardAnswer(18, "mass_failure", "deny", "5 of 9 connectors are unhealthy"),)
        bench.bench.journal.control(
            ActionRefused(
                at=bench.clock.now() + 1e9,
                incident="i1",
                connect_cluster="lab",
                connector="orders",
                action="skip_one",
                mode="propose",
                answers=answers,
            )
        )

    def nothing() -> None:
        pass

    def lapse() -> None:
        record = PlanLapsed(at=bench.clock.now(), void=True, said="mass_failure: still")
        bench.bench.journal.append("p1", (record,))

    assert plan.plan_id == "p1"
    assert Daemon(bench, refuse, nothing, lapse).approved() == 3
    err = capsys.readouterr().err
    assert err.count("not begun yet: mass_failure: 5 of 9 connectors are unhealthy") == 1
    assert "it begins by itself if this passes within 10m of the approval" in err
    assert "expired: mass_failure: still" in err


def test_a_plan_rejected_by_another_operator_meanwhile_ends_with_exit_code_4(bench):
    bench.proposed()
    assert Daemon(bench, lambda: bench.office.reject("p1", "bob", "no")).approved() == 4


def test_an_approval_without_a_daemon_is_recorded_and_ends_with_exit_code_7(bench):
    bench.proposed()
    done = typed("plan", "approve", "p1", "--yes", bureau=bench)
    assert done.exit_code == 7
    assert "no daemon runs on this state directory" in done.stderr
    assert state(bench) is PlanStatus.APPROVED


def test_who_stops_looking_does_not_stop_the_plan(bench, capsys):
    bench.proposed()

    def interrupt() -> None:
        raise KeyboardInterrupt

    assert Daemon(bench, interrupt).approved() == 5
    assert "continues without this command" in capsys.readouterr().err
    assert state(bench) is PlanStatus.APPROVED


# --- rejecting and aborting -----------------------------------------------------------------------


def test_a_rejected_plan_is_reported_with_who_and_why(bench):
    bench.proposed()
    done = typed("plan", "reject", "p1", "--because", "mended by hand", bureau=bench)
    assert done.exit_code == 0
    again = typed("plan", "reject", "p1", "--because", "me too", bureau=bench)
    assert again.exit_code == 4
    assert f"is rejected already by {find_operator_name()}" in again.stderr
    assert "mended by hand" in again.stderr


def test_aborting_what_has_not_begun_rejects_it(bench):
    bench.approved()
    done = typed("plan", "abort", "p1", "--because", "no", bureau=bench)
    assert done.exit_code == 0
    assert state(bench) is PlanStatus.REJECTED


def test_aborting_what_has_begun_orders_it_to_go_back(bench):
    plan = bench.approved()
    now = bench.clock.now()
    bench.bench.journal.open(plan, PlanOpened(at=now, plan=plan))
    done = typed("plan", "abort", "p1", "--because", "no", bureau=bench)
    assert (done.exit_code, state(bench)) == (0, PlanStatus.RUNNING)
    assert "will roll back" in done.stderr
    again = typed("plan", "abort", "p1", "--because", "no", bureau=bench)
    assert again.exit_code == 4
    assert again.stderr == f"{find_operator_name()} has already aborted plan p1\n"


def test_what_is_over_cannot_be_aborted(bench):
    plan = bench.approved()
    bench.bench.runner().run(plan)
    done = typed("plan", "abort", "p1", "--because", "no", bureau=bench)
    assert done.exit_code == 4
    assert "too late: plan p1 is succeeded already\n" in done.stderr


# --- what a person is told ------------------------------------------------------------------------


@pytest.mark.parametrize("at", [PlanStatus.PROPOSED, PlanStatus.APPROVED, PlanStatus.RUNNING])
def test_every_command_that_an_operator_is_notified_can_be_typed(bench, at):
    bench.proposed()
    row = msgspec.structs.replace(bench.office.plans()[0], state=at)
    here = ServiceAccess(state_dir=bench.folder)
    for command in re.findall(r"`offsetwatch ([^`]*)`", describe_next_step(row, here.options)):
        words_of = shlex.split(command)
        verb = cli
        while isinstance(verb, click.Group):
            verb = verb.commands[words_of.pop(0)]
        verb.make_context(command, words_of)  # raises where it cannot be typed so


def test_a_plan_of_the_toolbox_goes_on_as_before_beside_a_proposal(bench):
    bench.proposed("p1")
    bench.bench.world.offsets = {'{"file":"a"}': '{"position":10}', '{"file":"b"}': "{}"}
    ended = bench.bench.runner().run(plan_of(plan_id="p2"))
    assert ended.exit_code == 0
    listed = json.loads(typed("plan", "list", "--json", bureau=bench).stdout)
    assert [(row["plan_id"], row["stands"]) for row in listed] == [
        ("p1", "proposed"),
        ("p2", "succeeded"),
    ]


def test_the_one_who_has_logged_in_is_who_decides(monkeypatch, tmp_path):
    login = tmp_path / "loginuid"
    monkeypatch.setattr(service_access, "_LOGIN_UID_FILE", login)
    alone = find_operator_name()
    login.write_text(str(2**32 - 1))
    assert find_operator_name() == alone
    login.write_text("4294967000")
    assert find_operator_name() == "4294967000"


def test_a_service_is_closed_and_opened_again(bench):
    bench.proposed()
    with open_service(ServiceAccess(state_dir=bench.folder)) as session:
        first = session.service.plans()
    with open_service(ServiceAccess(state_dir=bench.folder)) as session:
        assert session.service.plans() == first
    assert approve.POLL_S > 0
    assert isinstance(bench.proposed("p2"), Plan)


# --- with the daemon's own loop -------------------------------------------------------------------


@pytest.fixture
def agency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agency:
    """A sink that a record has spoiled twice, and a loop that has proposed to skip it."""
    built = Agency(tmp_path / "daemon")
    monkeypatch.setattr(service_access, "SystemClock", lambda: built.connect.line)
    built.bad()
    built.wait(5.0)
    built.restart()
    built.go_on(3)
    return built


def decided(agency: Agency, *, yes: bool = True) -> int:
    with closing(StateDir(agency.folder)):
        (dossier,) = agency.dossiers(PlanStatus.PROPOSED)
        options = ApprovalOptions(dossier.plan.plan_id, yes=yes)
        return approve.approve_plan(
            ServiceAccess(state_dir=agency.folder), options, pause=lambda _: agency.go_on(1)
        )


def test_an_operator_approves_and_the_loop_skips_exactly_the_one_record(agency, capsys):
    assert decided(agency) == 0
    answer = capsys.readouterr()
    assert re.search(r"1\. copy east/\S+ to \S+: done", answer.err)
    assert answer.err.endswith("for rows-sink: succeeded\n")
    assert re.search(r"\d+ guards let it pass: .*\bidentified\b", answer.out)
    assert re.search(r"G47\s+proven\s+asks for approval", answer.out)
    (dossier,) = agency.dossiers(ENDED)
    assert dossier.approved_by == find_operator_name()


def test_what_a_guard_holds_back_to_the_end_is_reported_as_denied(agency, capsys):
    now = agency.connect.line.now()
    agency.ledger.journal.control(
        PauseSet(at=now, paused=True, until=None, by="ada", because="a release")
    )
    assert decided(agency) == 3
    err = capsys.readouterr().err
    assert err.count("not begun yet: pause:") == 1
    assert "expired: pause:" in err
    assert agency.changes() == []


def test_a_remedy_that_is_open_is_not_for_a_verb_of_the_toolbox_to_finish(bench):
    plan = bench.approved()
    bench.bench.journal.open(plan, PlanOpened(at=bench.clock.now(), plan=plan))
    with closing(Journal(bench.folder)) as journal:
        execute.refuse_daemon_plan(journal, None, "")
        with pytest.raises(
            PlanUnfinished, match="plan recover p1 --config F --state-dir"
        ) as caught:
            execute.refuse_daemon_plan(journal, "p1", "--config F")
    assert caught.value.plan_id == "p1"


def test_a_remedy_is_recovered_by_the_driver_that_knows_its_steps(bench):
    plan = bench.approved()
    bench.bench.journal.open(plan, PlanOpened(at=bench.clock.now(), plan=plan))
    config = bench.folder.parent / "offsetwatch.yaml"
    config.write_text(
        'kafka: {k: {bootstrap: "127.0.0.1:1"}}\n'
        'connect: [{name: lab, kafka: k, url: "http://127.0.0.1:1"}]\n'
    )
    home = recover.JournalOptions(bench.folder, OffsetStoreOptions(None, config, None))
    with (
        recover.open_driver(plan, home) as driver,
        pytest.raises(RemoteRefusal, match="no Kafka cluster"),
    ):
        driver.inspect(plan.steps[0], None)  # it looks for the copy, and then for the record
    with recover.open_driver(plan_of(), home) as driver:
        assert "this cannot be done over REST" in driver.inspect(plan.steps[0], None).said
