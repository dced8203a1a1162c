"""What `explain` says a remedy would be, asked just now."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from offsetwatch.cli.inspect import explain
from offsetwatch.cli.inspect.explain import (
    preview_remediation,
    print_previews,
)
from offsetwatch.config import Config, load
from offsetwatch.daemon.remediation import RemediationParts
from offsetwatch.errors import TargetUnreachable
from offsetwatch.remedy.gather.live_queries import Brokers
from offsetwatch.remedy.guards import Permission
from offsetwatch.remedy.model.service_api import Mode
from tests.changed import replace
from tests.contract.worlds import SINK_NAME
from tests.unit.remedy.agency import POLICY, Agency


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

    monkeypatch.setattr(explain, "open_remediation_parts", parts_of)


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


def asked(agency: Agency):
    return preview_remediation(config_of(agency), agency.snapshot, "lab", SINK_NAME)


def test_what_would_be_done_is_told_with_every_guard_and_nothing_is_written(agency, capsys):
    failing(agency)
    before = agency.ledger.journal.verify()
    (result,) = asked(agency)
    assert (result.action, result.comes_to) == ("skip_one", Permission.PROPOSE)
    assert "skip the record at offset 5 of east/" in result.plan
    names = [guard.guard for guard in result.guards]
    assert len(names) > 30
    assert "start_grace" not in names
    assert agency.ledger.journal.verify() == before
    assert agency.changes() == []
    print_previews((result,))
    out = capsys.readouterr().out
    assert "it is proposed to people" in out
    assert "G14  identified" in out
    document = result._asdict()
    assert (document["action"], document["comes_to"]) == ("skip_one", "propose")


def test_in_observe_it_is_told_that_it_would_be_done(tmp_path, monkeypatch, capsys):
    agency = Agency(tmp_path / "state", replace(POLICY, mode=Mode.OBSERVE))
    watched(agency, monkeypatch)
    failing(agency)
    print_previews(asked(agency))
    assert "it would be done; the mode is to observe" in capsys.readouterr().out


def test_of_what_no_plan_can_be_made_the_reason_is_told(agency, capsys, monkeypatch):
    failing(agency)
    result = asked(agency)[0]._replace(plan=None, said="two records are bad", recommend=("a DLQ",))
    print_previews((result,))
    out = capsys.readouterr().out
    assert "no plan can be made: two records are bad" in out
    assert "Better than that\n  a DLQ" in out


def test_where_nothing_is_wrong_nobody_is_asked(agency):
    agency.go_on(1)
    assert asked(agency) == ()


def test_without_a_journal_none_is_made(agency, tmp_path):
    failing(agency)
    elsewhere = tmp_path / "elsewhere"
    config = config_of(agency).model_copy(update={"state_dir": str(elsewhere)})
    assert preview_remediation(config, agency.snapshot, "lab", SINK_NAME) == ()
    assert not elsewhere.exists()


def test_what_cannot_be_asked_hides_nothing_else(agency, capsys, monkeypatch):
    failing(agency)

    def broken(*_: object, **__: object):
        raise TargetUnreachable("east", "no broker answers")

    monkeypatch.setattr(explain, "open_remediation_parts", broken)
    assert asked(agency) == ()
    assert "was not evaluated: unreachable: east: no broker answers" in capsys.readouterr().err
