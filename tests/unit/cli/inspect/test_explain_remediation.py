"""What `explain` says a remedy would be, asked just now."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from offsetwatch import documents
from offsetwatch.cli.inspect.explain_remediation import (
    build_remediation_document,
    print_connector_remediation,
    read_connector_remediation,
)
from offsetwatch.cli.inspect.remediation_preview import preview_remediation
from offsetwatch.config import Config, load
from offsetwatch.daemon import remediation
from offsetwatch.daemon.remediation import RemediationParts
from offsetwatch.errors import TargetUnreachable
from offsetwatch.remedy.gather.live_queries import Brokers
from offsetwatch.remedy.guards import Permission
from offsetwatch.remedy.journal.journal import FILE_NAME
from offsetwatch.remedy.model.driver import StepInspection, StepStatus
from offsetwatch.remedy.model.journal_records import (
    ActionRefused,
    GuardAnswer,
    IncidentDetected,
    IncidentEnded,
    ModeSet,
    PauseSet,
)
from offsetwatch.remedy.model.service_api import Mode
from tests.changed import replace
from tests.contract.worlds import SINK_NAME
from tests.unit.remedy.loops import POLICY, Agency
from tests.unit.remedy.plans import AT, PARTITION, skip_of
from tests.unit.remedy.services import ServiceBench


@pytest.fixture
def agency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agency:
    built = Agency(tmp_path / "state")
    watched(built, monkeypatch)
    return built


def watched(agency: Agency, monkeypatch: pytest.MonkeyPatch) -> None:
    def parts_of(*_: object, **__: object):
        return nullcontext(
            RemediationParts(agency.ledger, agency.planner, agency.policy, Brokers({}))
        )

    monkeypatch.setattr(remediation, "open_remediation_parts", parts_of)


def config_of(agency: Agency) -> Config:
    path = agency.folder.parent / "offsetwatch.yaml"
    path.write_text(
        'kafka: {k: {bootstrap: "127.0.0.1:1"}}\n'
        'connect: [{name: lab, kafka: k, url: "http://127.0.0.1:1"}]\n'
        f"state_dir: {agency.folder}\n"
    )
    return load(path)


def failing(agency: Agency, **how: object) -> None:
    agency.bad(**how)
    agency.wait(5.0)
    agency.restart()
    agency.go_on(1)


def preview(agency: Agency):
    return preview_remediation(config_of(agency), agency.snapshot, "lab", SINK_NAME)


def test_what_would_be_done_is_reported_with_every_guard_and_nothing_is_written(agency, capsys):
    failing(agency)
    before = agency.ledger.journal.verify()
    (result,) = preview(agency)
    assert (result.action, result.comes_to) == ("skip_one", Permission.PROPOSE)
    assert "skip the record at offset 5 of east/" in result.plan
    names = [guard.guard for guard in result.guards]
    assert len(names) > 30
    assert "start_grace" not in names
    assert agency.ledger.journal.verify() == before
    assert agency.changes() == []
    result.print()
    out = capsys.readouterr().out
    assert "it is proposed to people" in out
    assert "G14  identified" in out
    document = result._asdict()
    assert (document["action"], document["comes_to"]) == ("skip_one", "propose")


def test_in_observe_it_is_notified_that_it_would_be_done(tmp_path, monkeypatch, capsys):
    agency = Agency(tmp_path / "state", replace(POLICY, mode=Mode.OBSERVE))
    watched(agency, monkeypatch)
    failing(agency)
    for result in preview(agency):
        result.print()
    assert "it would be done; the mode is to observe" in capsys.readouterr().out


def test_of_what_no_plan_can_be_made_the_reason_is_reported(agency, capsys, monkeypatch):
    failing(agency)
    result = preview(agency)[0]._replace(
        plan=None, said="two records are bad", recommend=("a DLQ",)
    )
    result.print()
    out = capsys.readouterr().out
    assert "no plan can be made: two records are bad" in out
    assert "Better than that\n  a DLQ" in out


def test_a_connector_without_a_problem_has_no_preview(agency):
    agency.go_on(1)
    assert preview(agency) == ()


def test_without_a_journal_none_is_made(agency, tmp_path):
    failing(agency)
    elsewhere = tmp_path / "elsewhere"
    config = config_of(agency).model_copy(update={"state_dir": str(elsewhere)})
    assert preview_remediation(config, agency.snapshot, "lab", SINK_NAME) == ()
    assert not elsewhere.exists()


def test_what_cannot_be_queried_hides_nothing_else(agency, capsys, monkeypatch):
    failing(agency)

    def broken(*_: object, **__: object):
        raise TargetUnreachable("east", "no broker answers")

    monkeypatch.setattr(remediation, "open_remediation_parts", broken)
    assert preview(agency) == ()
    assert "was not evaluated: unreachable: east: no broker answers" in capsys.readouterr().err


# --- remediation state ---------------------------------------------------------------------------

NOW = 1_800_000_000.0


@pytest.fixture
def bench(tmp_path: Path) -> ServiceBench:
    return ServiceBench(tmp_path / "state")


def config_of_service(bureau: ServiceBench) -> Config:
    path = bureau.folder.parent / "offsetwatch.yaml"
    path.write_text(
        'kafka: {k: {bootstrap: "127.0.0.1:1"}}\n'
        'connect: [{name: lab, kafka: k, url: "http://127.0.0.1:1"}]\n'
        "remedy: {mode: propose}\n"
        f"state_dir: {bureau.folder}\n"
    )
    return load(path)


def read_remediation(bureau: ServiceBench):
    return read_connector_remediation(config_of_service(bureau), "lab", "orders", NOW)


def trouble(bureau: ServiceBench, **more) -> None:
    control = bureau.bench.journal.control
    control(
        IncidentDetected(
            at=NOW - 60.0,
            incident="i1",
            connect_cluster="lab",
            connector="orders",
            what="failed",
            said="DataException",
        )
    )
    answers = (
        GuardAnswer(11, "repeat", "pass", "3 failures over 700 s"),
        GuardAnswer(46, "breaker", "deny", "it is open"),
        GuardAnswer(30, "read_just_now", "unknown", "not known: read_at"),
        GuardAnswer(47, "proven", "deny", "0 times approved by a person"),
    )
    refused = {
        "at": NOW - 30.0,
        "incident": "i1",
        "connect_cluster": "lab",
        "connector": "orders",
        "action": "skip_one",
        "mode": "propose",
        "answers": answers,
    }
    control(ActionRefused(**{**refused, **more}))


def test_each_guard_is_reported_with_its_answer_and_why_those_against_it_first(bench, capsys):
    trouble(bench)
    print_connector_remediation(read_remediation(bench))
    out = capsys.readouterr().out
    assert "DataException" in out
    assert "skip_one, as of 2027-01-15 07:59:30Z in mode propose: it is not done" in out
    locations = [out.index(name) for name in ("unknown", "deny", "asks for approval", "pass")]
    assert locations == sorted(locations)
    assert "3 failures over 700 s" in out
    (result,) = build_remediation_document(read_remediation(bench))["looked"]
    assert [guard.guard for guard in result["guards"]] == [
        "repeat",
        "breaker",
        "read_just_now",
        "proven",
    ]


def test_a_refusal_ends_with_the_proposal_that_follows_it(bench):
    trouble(bench)
    assert len(read_remediation(bench).refusals) == 1
    bench.proposed("p3")
    assert read_remediation(bench).refusals == ()
    bench.office.reject("p3", "ada", "restarted by hand")
    assert read_remediation(bench).plans == ()
    assert read_remediation(bench).refusals == ()
    trouble(bench)
    assert len(read_remediation(bench).refusals) == 1


def test_what_would_be_done_is_reported_as_that(bench, capsys):
    trouble(
        bench,
        would=True,
        mode="observe",
        answers=(GuardAnswer(11, "repeat", "pass", "yes"),),
    )
    print_connector_remediation(read_remediation(bench))
    assert "in mode observe: every guard lets it" in capsys.readouterr().out


def test_what_is_better_than_a_skip_is_reported(bench, capsys):
    trouble(bench, recommend=("errors.tolerance=all with a dead letter queue",))
    print_connector_remediation(read_remediation(bench))
    out = capsys.readouterr().out
    assert "Better than that\n  errors.tolerance=all with a dead letter queue\n" in out


def test_an_operators_plan_that_is_held_back_is_reported_with_why_until_it_is_over(bench):
    bench.approved("p3", incident="")
    trouble(bench, incident="")
    bench.bench.journal.control(IncidentEnded(at=NOW, incident="i1"))
    (result,) = read_remediation(bench).refusals
    assert result.incident == ""
    bench.office.reject("p3", "ada", "no")
    assert read_remediation(bench).refusals == ()


def test_trouble_that_is_over_is_not_reported_any_more(bench, capsys):
    trouble(bench)
    bench.bench.journal.control(IncidentEnded(at=NOW, incident="i1"))
    result = read_remediation(bench)
    assert (result.incidents, result.refusals) == ((), ())
    print_connector_remediation(result)
    assert "incidents  none" in capsys.readouterr().out


def test_another_connectors_trouble_is_not_reported(bench):
    trouble(bench)
    other = read_connector_remediation(config_of_service(bench), "lab", "payments", NOW)
    assert (other.incidents, other.refusals, other.plans) == ((), (), ())


def test_what_operators_have_set_and_what_waits_for_them_is_reported(bench, capsys):
    control = bench.bench.journal.control
    control(ModeSet(at=NOW, mode="observe", by="ada", because="a release"))
    control(PauseSet(at=NOW, paused=True, until=NOW + 60.0, by="ada", because="a release"))
    bench.proposed("p2")
    bench.bench.world.offsets = {PARTITION: AT}
    bench.bench.world.proven = StepInspection(StepStatus.FOREIGN, "it failed again")
    bench.bench.runner().run(skip_of("p1"))
    result = read_remediation(bench)
    assert result.mode is Mode.OBSERVE
    assert [row.plan_id for row in result.plans] == ["p2"]
    print_connector_remediation(result)
    out = capsys.readouterr().out
    for part in ("observe: reports", "by ada", "open since", "did not help", "plan show p2"):
        assert part in out
    text = msgspec.json.decode(documents.encode(build_remediation_document(result)))
    assert text["pause"]["until"] == "2027-01-15T08:01:00Z"
    assert [breaker["scope"] for breaker in text["breakers"]] == ["lab/orders"]
    assert text["plans"][0]["stands"] == "proposed"


def test_without_a_journal_nothing_is_reported_and_none_is_made(tmp_path, capsys):
    folder = tmp_path / "elsewhere" / "state"
    bureau = ServiceBench(tmp_path / "state")
    config = config_of_service(bureau).model_copy(update={"state_dir": str(folder)})
    assert read_connector_remediation(config, "lab", "orders", NOW) is None
    print_connector_remediation(None)
    assert build_remediation_document(None) is None
    assert capsys.readouterr().out == ""
    assert not folder.exists()


def test_a_damaged_journal_is_said_and_hides_nothing_else(bench, capsys):
    trouble(bench)
    config = config_of_service(bench)
    bench.bench.journal.close()
    path = bench.folder / FILE_NAME
    path.write_bytes(path.read_bytes().replace(b"DataException", b"DateException"))
    assert read_connector_remediation(config, "lab", "orders", NOW) is None
    assert "is not what was written" in capsys.readouterr().err
