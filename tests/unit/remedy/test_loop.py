"""What the loop of remediation does about what it sees, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from offsetwatch.errors import JournalDamaged, NotFound, ResponseTimeout
from offsetwatch.model.connectors import ConnectorKind, StateChange, StateHistory
from offsetwatch.model.findings import FINDINGS_MAX, FailureRun, Finding, FindingName, Severity
from offsetwatch.model.topology import SinkGroup, Topology
from offsetwatch.remedy.gather.poison_locator import FailurePositions
from offsetwatch.remedy.journal import backups
from offsetwatch.remedy.locate.search import NoIdentification
from offsetwatch.remedy.model import service_api
from offsetwatch.remedy.model.fleet_state import ConnectorKey
from offsetwatch.remedy.model.guard_answer import GuardResult
from offsetwatch.remedy.model.journal_records import ActionRefused, ModeSet, PauseSet, PlanProposed
from offsetwatch.remedy.model.plan import Action, PartitionOffset, PlanStatus
from offsetwatch.remedy.model.plan_templates import RESTART_QUIET_S
from offsetwatch.remedy.model.policy import Rule
from offsetwatch.remedy.model.service_api import Mode
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, ConnectorView
from tests.contract.worlds import SINK_NAME, TOPIC, bad, numbers, state
from tests.fakes.connect_model import FILE_SINK, Fault, How, OutsideClient, Trouble
from tests.unit.remedy.loops import ENDED, POLICY, VOID, Agency, FirstRecord, phase_of

AUTO = replace(
    POLICY,
    mode=Mode.AUTO,
    auto=(Rule("lab", (SINK_NAME,), ("restart_failed", "skip_one", "stop"), unmanaged=True),),
)


@pytest.fixture
def agency(tmp_path: Path) -> Agency:
    return Agency(tmp_path)


def failing(agency: Agency, times: int = 2, **how: object) -> int:
    """A record spoils the sink so often; a person restarts it in between."""
    offset = agency.bad(**how)
    agency.wait(5.0)
    for _ in range(times - 1):
        agency.restart()
    return offset


def refuse_connection(_method: str, _path: str) -> None:
    raise httpx.ConnectError("connection refused")


def only(agency: Agency, status: str):
    (history,) = agency.dossiers(status)
    return history


def test_what_fails_once_is_proposed_to_be_restarted_and_nothing_is_done(agency):
    failing(agency, 1)
    agency.go_on(3)
    assert only(agency, PlanStatus.PROPOSED).plan.remedy.action is Action.RESTART_FAILED
    assert agency.changes() == []


def test_what_fails_again_is_proposed_to_be_skipped_in_place_of_a_restart(agency):
    failing(agency, 1)
    agency.go_on(3)
    agency.restart()
    agency.go_on(30)
    assert only(agency, PlanStatus.PROPOSED).plan.remedy.action is Action.SKIP_ONE
    assert only(agency, VOID).plan.remedy.action is Action.RESTART_FAILED


def test_a_sinks_configuration_is_read_at_each_failure_between_evaluations_and_beside_a_plan(
    agency,
):
    failing(agency, 1)
    agency.go_on(3)
    assert only(agency, PlanStatus.PROPOSED).plan.remedy.action is Action.RESTART_FAILED
    for _ in range(2):
        agency.restart()
        agency.go_on(2)
    assert agency.locator.observed == [(SINK_NAME, count) for count in (1, 2, 3)]


class SlowWorkers:
    """Workers of a Connect cluster, of which one configuration takes 30 s while they hang."""

    def __init__(self, agency: Agency) -> None:
        self.agency = agency
        self.hangs: Callable[[str], bool] = lambda _: False
        self.requested: list[str] = []

    def config(self, connector: str) -> dict[str, str | None]:
        self.requested.append(connector)
        if self.hangs(connector):
            self.agency.connect.advance(30.0)
            raise ResponseTimeout("lab", "no response in 30 s")
        return {"name": connector}


NAMES = [f"sink-{number}" for number in range(5)]


@pytest.fixture
def workers(agency, monkeypatch):
    """Two Connect clusters, `lab` with five sinks and `west` with one, that all fail."""
    clusters = {"lab": SlowWorkers(agency), "west": SlowWorkers(agency)}
    monkeypatch.setattr(agency.planner, "_client_of", clusters.__getitem__)
    monkeypatch.setattr(agency.agent, "_consider", lambda *_: None)
    fail_once_more(agency, 1)
    return clusters


def fail_once_more(agency: Agency, count: int, kind: ConnectorKind = ConnectorKind.SINK) -> None:
    keys = [*(("lab", name) for name in NAMES), ("west", "sink-0")]
    agency.snapshot = replace(
        EMPTY_SNAPSHOT,
        ready=True,
        connectors=tuple(ConnectorView(*key, kind, FILE_SINK, "1", "failed", ()) for key in keys),
        failure_runs=tuple(
            FailureRun(*key, 0, "X", "X", count, 1.0, float(count), 0, (), moved=False)
            for key in keys
        ),
        topology=Topology(
            (),
            (),
            sinks=tuple(
                SinkGroup(*key, "group", "east") for key in keys if kind is ConnectorKind.SINK
            ),
        ),
    )


def test_a_connect_cluster_that_hangs_delays_a_round_by_one_request(agency, workers):
    workers["lab"].hangs = lambda _: True
    began = agency.connect.line.now()
    agency.agent.step()
    assert agency.connect.line.now() - began == 30.0
    assert (workers["lab"].requested, workers["west"].requested) == (["sink-0"], ["sink-0"])
    assert agency.locator.observed == [("sink-0", 1)]
    workers["lab"].hangs = lambda _: False
    fail_once_more(agency, 2)
    agency.agent.step()
    assert sorted(workers["lab"].requested[1:]) == NAMES
    assert sorted(agency.locator.observed[1:]) == [("sink-0", 2), *((n, 2) for n in NAMES)]
    agency.agent.step()
    assert len(workers["lab"].requested) == 1 + len(NAMES)


def test_a_configuration_that_is_never_answered_does_not_hold_up_those_of_others(agency, workers):
    workers["lab"].hangs = "sink-0".__eq__
    for _ in range(2):
        agency.agent.step()
    assert sorted(agency.locator.observed) == [("sink-0", 1), *((name, 1) for name in NAMES[1:])]
    requested = workers["lab"].requested
    assert (requested[0], sorted(requested[1:])) == ("sink-0", NAMES)
    assert requested[-1] == "sink-0"


def test_a_failure_whose_configuration_is_refused_is_not_requested_again(
    agency, workers, monkeypatch
):
    def refuse(connector: str) -> None:
        workers["lab"].requested.append(connector)
        raise NotFound("lab", connector)

    monkeypatch.setattr(workers["lab"], "config", refuse)
    for _ in range(2):
        agency.agent.step()
    assert sorted(workers["lab"].requested) == NAMES


def test_no_failure_of_before_a_late_observation_counts_for_its_configuration(
    agency, workers, monkeypatch
):
    """The configuration was another one while Connect did not answer, and is put back."""
    positions = FailurePositions()

    def observe(key: ConnectorKey, config: dict[str, str | None], run: FailureRun) -> None:
        positions.failures_under(key, str(config), run)

    monkeypatch.setattr(agency.locator, "observe_config", observe)
    monkeypatch.setattr(agency.locator, "forget_config", positions.forget_config)

    def step(count: int, *, hangs: bool = False) -> list[int]:
        workers["lab"].hangs = lambda _: hangs
        fail_once_more(agency, count)
        agency.agent.step()
        runs = agency.snapshot.failure_runs[: len(NAMES)]
        if hangs:
            return []
        return [
            positions.failures_under(("lab", run.connector), str({"name": run.connector}), run)
            for run in runs
        ]

    assert step(1) == [0] * 5
    assert step(2) == [1] * 5
    step(3, hangs=True)
    assert step(3) == [0] * 5
    assert step(4) == [1] * 5
    assert step(6) == [0] * 5  # nothing was read after the fifth
    step(7, hangs=True)
    step(8, hangs=True)
    assert step(9) == [0] * 5
    assert step(10) == [1] * 5


def test_a_failure_during_the_read_of_a_configuration_does_not_count_for_it(agency, workers):
    workers["lab"].hangs = lambda _: fail_once_more(agency, 2) is not None
    agency.agent.step()
    assert {count for _, count in agency.locator.observed} == {2}


class WorkersWithoutAnswers:
    """Workers of a Connect cluster that refuse each request at once, or answer none in 30 s."""

    def __init__(self, agency: Agency, *, hang: bool) -> None:
        self.agency, self.hang = agency, hang
        self.operator_managed, self.server_time = False, None
        self.requested: list[str] = []

    def _answer(self, connector: str = "") -> None:
        self.requested.append(connector)
        if self.hang:
            self.agency.connect.advance(30.0)
            raise ResponseTimeout("lab", "no response in 30 s")
        raise NotFound("lab", connector)

    root = read_state = config = pairs = traces = _answer


@pytest.mark.parametrize("kind", [ConnectorKind.SINK, ConnectorKind.SOURCE])
def test_a_cluster_that_hangs_delays_the_evaluations_of_a_round_by_one_request(
    agency, monkeypatch, kind
):
    clusters = {
        "lab": WorkersWithoutAnswers(agency, hang=True),
        "west": WorkersWithoutAnswers(agency, hang=False),
    }
    monkeypatch.setattr(agency.planner, "_client_of", clusters.__getitem__)
    monkeypatch.setattr(agency.planner._collector, "_client_of", clusters.__getitem__)
    fail_once_more(agency, 1, kind)
    waited = []
    for _ in range(2):
        began = agency.connect.line.now()
        agency.agent.step()
        waited.append(agency.connect.line.now() - began)
        agency.connect.advance(15.0)
    assert waited == [30.0, 30.0]
    requested = clusters["lab"].requested
    assert len(requested) == len({*requested} & {*NAMES}) == 2  # another one is the next to wait
    refused = {(item.connect_cluster, item.connector) for item in agency.refused()}
    assert refused == {*(("lab", name) for name in NAMES), ("west", "sink-0")}
    clusters["lab"].hang = False
    agency.agent.step()
    assert set(requested) == {*NAMES, ""}


def test_another_reason_why_no_record_is_identified_is_recorded(agency, monkeypatch):
    reasons = ["ambiguous_window: any of 3", "not_failed_again: a", "not_failed_again: b"]

    def refuse(*_: object) -> NoIdentification:
        return NoIdentification(*reasons[0].split(": "))

    monkeypatch.setattr(FirstRecord, "find", refuse)
    failing(agency)
    recorded = []
    while reasons:
        agency.go_on(30)
        recorded.append(agency.refused()[-1].answers[0].said)
        del reasons[0]
    assert recorded == ["ambiguous_window: any of 3", *["not_failed_again: a"] * 2]


def test_advice_that_comes_after_the_reasons_is_recorded(agency, monkeypatch):
    advice: list[tuple[str, ...]] = [(), ("Set errors.tolerance=all.",)]

    def refuse(*_: object) -> NoIdentification:
        return NoIdentification("ambiguous_window", "any of 3", (), advice[0])

    monkeypatch.setattr(FirstRecord, "find", refuse)
    failing(agency)
    recorded = []
    for _ in range(2):
        agency.go_on(30)
        recorded.append(agency.refused()[-1].recommend)
        del advice[:-1]
    assert recorded == [(), advice[0]]


def test_a_record_that_arrives_before_the_skip_is_considered_counts_as_growing_lag(agency):
    failing(agency, 1)
    agency.go_on(3)
    agency.connect.broker.produce(TOPIC, b"good")
    agency.restart()
    agency.go_on(30)
    (proposed,) = [
        record
        for record in agency.ledger.journal.records(only(agency, PlanStatus.PROPOSED).plan.plan_id)
        if isinstance(record, PlanProposed)
    ]
    (quorum,) = [answer for answer in proposed.answers if answer.guard == "quorum"]
    assert "lag_growing" in quorum.said


def test_an_approved_skip_delivers_all_but_the_one_record(agency):
    offset = failing(agency)
    agency.go_on(3)
    proposed = only(agency, PlanStatus.PROPOSED)
    assert agency.changes() == []
    agency.approve(proposed.plan.plan_id)
    agency.go_on(5)
    ended = only(agency, ENDED)
    assert ended.ended.ending is PlanStatus.SUCCEEDED
    assert state(agency.connect, SINK_NAME) == ("RUNNING", ["RUNNING"])
    end = agency.connect.broker.log(TOPIC, 0).end
    assert numbers(agency.connect, SINK_NAME) == [n for n in range(end) if n != offset]
    (row,) = agency.ledger.copied
    assert row.offset == offset
    agency.ledger.journal.verify()


def test_a_plan_begins_on_its_own_record_without_searching_the_log_again(agency, monkeypatch):
    failing(agency)
    agency.go_on(3)
    proposed = only(agency, PlanStatus.PROPOSED)
    searched = []
    find = FirstRecord.find
    monkeypatch.setattr(
        FirstRecord, "find", lambda *given: (searched.append(given), find(*given))[1]
    )
    agency.approve(proposed.plan.plan_id)
    agency.go_on(5)
    assert only(agency, ENDED).ended.ending is PlanStatus.SUCCEEDED
    assert searched == []


def test_a_plan_does_not_begin_once_its_connector_fails_for_a_reason_outside_of_the_record(agency):
    failing(agency)
    agency.go_on(3)
    proposed = only(agency, PlanStatus.PROPOSED)
    log = agency.connect.broker.log(TOPIC, 0)
    at = next(number for number, record in enumerate(log.records) if record.troubles)
    outside = (Trouble("put", "connectivity"),)
    log.records[at] = replace(log.records[at], troubles=outside)
    OutsideClient(agency.connect).restart(SINK_NAME)
    agency.connect.advance(5.0)  # and nobody has polled since
    agency.approve(proposed.plan.plan_id)
    agency.agent.step()
    assert agency.changes() == []
    (answer,) = [at for each in agency.refused() for at in each.answers if at.guard == "no_veto"]
    assert answer.answer is GuardResult.DENY


def after_a_restart(agency: Agency) -> int:
    """A restart is approved and carried out, and the record spoils the sink again: its offset."""
    offset = failing(agency, 1)
    agency.go_on(3)
    agency.approve(only(agency, PlanStatus.PROPOSED).plan.plan_id)
    agency.go_on(30)
    ended = only(agency, ENDED)
    assert ended.plan.remedy.action is Action.RESTART_FAILED
    assert ended.ended.ending is PlanStatus.INEFFECTIVE
    assert agency.agent.fleet.breakers == {}  # a skip comes next
    return offset


def test_a_restart_after_which_the_task_runs_has_succeeded(agency):
    offset = failing(agency, 1)
    agency.go_on(3)
    records = agency.connect.broker.log(TOPIC, 0).records
    records[offset] = replace(records[offset], troubles=())  # it passes by itself
    begun_at = agency.connect.line.now()
    agency.approve(only(agency, PlanStatus.PROPOSED).plan.plan_id)
    agency.go_on(1)
    assert only(agency, ENDED).ended.ending is PlanStatus.SUCCEEDED
    assert agency.connect.line.now() - begun_at >= RESTART_QUIET_S


def test_a_skip_approved_in_cool_down_begins_when_that_is_over(tmp_path):
    agency = Agency(tmp_path, replace(POLICY, cool_down_s=900.0))
    after_a_restart(agency)
    ended_at = only(agency, ENDED).at
    proposed = only(agency, PlanStatus.PROPOSED)
    assert proposed.plan.remedy.action is Action.SKIP_ONE
    assert agency.agent.fleet.not_before(proposed.plan, 900.0) == ended_at + 900.0
    agency.approve(proposed.plan.plan_id)
    agency.wait(ended_at + 890.0 - agency.connect.line.now())  # longer than an approval lives
    agency.go_on(3)
    assert only(agency, PlanStatus.APPROVED).plan == proposed.plan
    agency.wait(10.0)
    agency.go_on(3)
    assert {history.plan.remedy.action for history in agency.dossiers(ENDED)} == {
        Action.RESTART_FAILED,
        Action.SKIP_ONE,
    }
    assert agency.dossiers(PlanStatus.APPROVED) == []


def test_an_approved_plan_is_void_once_its_incident_is_over(tmp_path):
    agency = Agency(tmp_path, replace(POLICY, cool_down_s=900.0))
    offset = after_a_restart(agency)
    plan_id = only(agency, PlanStatus.PROPOSED).plan.plan_id
    agency.approve(plan_id)
    log = agency.connect.broker.log(TOPIC, 0)
    log.records = [record for record in log.records if record.at.offset != offset]
    OutsideClient(agency.connect).restart(SINK_NAME)
    agency.go_on(200)
    history = agency.dossier(plan_id)
    assert history.status is not PlanStatus.APPROVED
    assert history.said == "its incident is over"


def test_a_skip_is_not_proposed_that_could_not_begin_in_its_hour(tmp_path):
    agency = Agency(tmp_path, replace(POLICY, cool_down_s=7200.0))
    after_a_restart(agency)
    ended_at = only(agency, ENDED).at
    assert agency.dossiers(PlanStatus.PROPOSED) == []
    (answer,) = [
        item for each in agency.refused() for item in each.answers if item.guard == "cool_down"
    ]
    assert "7200 s are required, until 20" in answer.said
    agency.wait(ended_at + 7200.0 - 2990.0 - agency.connect.line.now())
    agency.go_on(30)
    assert only(agency, PlanStatus.PROPOSED).plan.remedy.action is Action.SKIP_ONE


def test_a_wall_clock_that_is_set_while_a_request_is_in_doubt_does_not_shorten_the_wait(agency):
    failing(agency)
    agency.go_on(3)
    agency.approve(only(agency, PlanStatus.PROPOSED).plan.plan_id)
    agency.door.faults[1] = Fault(How.LATE, delay_s=60.0)
    now = agency.connect.line.now()
    agency.connect.line.call_after(5.0, lambda: setattr(agency.wall, "by_s", 3600.0))
    agency.go_on(2)
    assert agency.connect.line.now() - now > 60.0
    assert agency.changes()[0].endswith("/stop")
    assert sum(change.endswith("/stop") for change in agency.changes()) == 1


def test_a_backup_that_an_operator_has_put_back_is_put_back(agency):
    agency.wait(5.0)
    now, partition = agency.connect.line.now(), f'{{"kafka_partition":0,"kafka_topic":"{TOPIC}"}}'
    pair = PartitionOffset(partition, '{"kafka_offset":2}')
    retained = backups.write_backup(agency.folder, connector=SINK_NAME, pairs=(pair,), at=now)
    request = service_api.PlanRequest(
        service_api.RequestedAction.RESTORE,
        "lab",
        SINK_NAME,
        "the target lost them",
        "k1",
        backup=retained.path.name,
    )
    planned = agency.planner.for_person(request, "ada")
    plan = planned.plan
    proposed = PlanProposed(at=now, plan=plan, mode="propose", expires_at=now + 3600.0)
    agency.ledger.journal.append(plan.plan_id, (proposed,))
    agency.ledger.read_on()
    agency.approve(plan.plan_id, by="bob")
    agency.go_on(2)
    assert only(agency, ENDED).ended.ending is PlanStatus.SUCCEEDED
    delivered = [item.offset for item in agency.connect.delivered[SINK_NAME]]
    assert delivered == [0, 1, 2, 3, 4, 2, 3, 4]


def test_a_restart_that_an_operator_requests_is_refused_while_no_task_is_failed(agency):
    agency.wait(5.0)
    request = service_api.PlanRequest(
        service_api.RequestedAction.RESTART_FAILED, "lab", SINK_NAME, "it looked odd", "k1"
    )
    assert agency.planner.for_person(request, "ada") == service_api.ProposalRefused(
        said="no task is failed: there is nothing to restart"
    )


def test_nothing_is_done_in_observe_and_what_would_be_is_taken_down(tmp_path):
    agency = Agency(tmp_path, replace(POLICY, mode=Mode.OBSERVE))
    failing(agency)
    agency.go_on(20)
    assert agency.dossiers() == []
    assert agency.changes() == []
    assert any(item.would and item.action == "skip_one" for item in agency.refused())


def test_without_a_success_that_an_operator_approved_nothing_is_done_by_itself(tmp_path):
    agency = Agency(tmp_path, AUTO)
    failing(agency)
    agency.go_on(3)
    assert only(agency, PlanStatus.PROPOSED).approved_by is None
    assert agency.changes() == []


def test_after_an_approved_skip_succeeded_the_next_one_needs_no_approval(tmp_path):
    agency = Agency(tmp_path, AUTO)
    failing(agency)
    agency.go_on(3)
    agency.approve(only(agency, PlanStatus.PROPOSED).plan.plan_id)
    agency.go_on(5)
    assert only(agency, ENDED).ended.ending is PlanStatus.SUCCEEDED
    for number in range(1_200):  # a skip for so many records is no schema break
        agency.connect.broker.produce(TOPIC, b"%d" % number)
    agency.wait(120.0)
    offset = failing(agency)
    agency.go_on(20)
    skips = agency.dossiers(ENDED)
    assert [skip.approved_by for skip in skips] == ["ada", "policy"]
    assert skips[1].ended.ending is PlanStatus.SUCCEEDED
    assert offset not in numbers(agency.connect, SINK_NAME)


def test_what_lies_behind_good_records_of_its_batch_is_never_skipped(agency):
    agency.connect.advance(61.0)
    OutsideClient(agency.connect).pause(SINK_NAME)
    agency.wait(5.0)
    for number in range(3):
        agency.connect.broker.produce(TOPIC, b"%d" % number)
    agency.connect.broker.produce(TOPIC, b"bad", troubles=bad())
    OutsideClient(agency.connect).resume(SINK_NAME)
    agency.wait(5.0)
    agency.restart()
    agency.go_on(20)
    assert agency.dossiers(PlanStatus.PROPOSED) == []
    assert agency.changes() == []
    messages = [answer.said for refused in agency.refused() for answer in refused.answers]
    assert any("committed_before_poison" in each for each in messages)


def test_a_plan_is_void_once_another_client_has_changed_the_connector(agency):
    failing(agency)
    agency.go_on(3)
    plan_id = only(agency, PlanStatus.PROPOSED).plan.plan_id
    OutsideClient(agency.connect).edit(SINK_NAME, file="/elsewhere")
    agency.wait(5.0)
    agency.approve(plan_id)
    agency.go_on(2)
    assert phase_of(agency.dossier(plan_id)) == VOID
    assert agency.changes() == []


def test_a_plan_that_can_begin_no_more_is_taken_back_before_anybody_approves_it(agency):
    failing(agency)
    agency.go_on(3)
    plan_id = only(agency, PlanStatus.PROPOSED).plan.plan_id
    OutsideClient(agency.connect).edit(SINK_NAME, file="/elsewhere")
    agency.go_on(15)
    assert phase_of(agency.dossier(plan_id)) == VOID
    assert agency.dossier(plan_id).said == "its configuration has changed"
    assert agency.changes() == []


@pytest.mark.parametrize("known_then", [False, True], ids=["new", "old"])
def test_a_poll_that_knows_less_takes_no_plan_back(agency, known_then):
    """A status topic that one look has read and the other has not: nobody touched the connector."""
    ran = (StateChange(agency.connect.line.now() - 50.0, "running"),)
    histories = (StateHistory("lab", SINK_NAME, None, ran),)
    agency.histories = histories if known_then else ()
    failing(agency)
    agency.go_on(3)
    plan_id = only(agency, PlanStatus.PROPOSED).plan.plan_id
    agency.histories = () if known_then else histories
    agency.go_on(20)
    assert agency.dossier(plan_id).status is PlanStatus.PROPOSED
    agency.approve(plan_id)
    agency.go_on(2)
    status = phase_of(agency.dossier(plan_id))
    assert status == (PlanStatus.APPROVED if known_then else ENDED)
    agency.histories = histories
    agency.go_on(2)
    assert phase_of(agency.dossier(plan_id)) == ENDED


def test_a_plan_is_void_once_another_client_has_stopped_and_resumed_its_connector(agency):
    then = agency.connect.line.now() - 50.0
    ran = StateChange(then, "running")
    agency.histories = (StateHistory("lab", SINK_NAME, None, (ran,)),)
    failing(agency)
    agency.go_on(3)
    plan_id = only(agency, PlanStatus.PROPOSED).plan.plan_id
    toggled = (ran, StateChange(then + 51.0, "stopped"), StateChange(then + 52.0, "running"))
    agency.histories = (StateHistory("lab", SINK_NAME, None, toggled),)
    agency.go_on(15)
    assert agency.dossier(plan_id).said == "another client has changed its state since"


def test_a_plan_waits_while_connect_does_not_say_what_became_of_its_connector(agency):
    failing(agency)
    agency.go_on(3)
    plan_id = only(agency, PlanStatus.PROPOSED).plan.plan_id
    OutsideClient(agency.connect).edit(SINK_NAME, file="/elsewhere")
    agency.door.before = refuse_connection
    agency.go_on(15)
    assert agency.dossier(plan_id).status is PlanStatus.PROPOSED


def test_a_plan_is_void_once_its_connector_has_got_past_the_trouble(agency):
    offset = failing(agency)
    agency.go_on(3)
    assert only(agency, PlanStatus.PROPOSED)
    log = agency.connect.broker.log(TOPIC, 0)
    log.records = [record for record in log.records if record.at.offset != offset]
    OutsideClient(agency.connect).restart(SINK_NAME)
    agency.go_on(200)
    assert only(agency, VOID).said == "its incident is over"
    assert agency.changes() == []


def test_a_plan_without_approval_expires(agency):
    failing(agency)
    agency.go_on(3)
    agency.wait(3_700.0)
    agency.agent.step()
    assert only(agency, PlanStatus.EXPIRED)
    assert agency.changes() == []


@pytest.mark.parametrize("held", ["pause", "kill switch", "mode"])
def test_nothing_is_begun_while_an_operator_holds_everything(tmp_path, held):
    stop = tmp_path / "STOP"
    agency = Agency(tmp_path / "state", replace(POLICY, stop_file=str(stop)))
    failing(agency)
    agency.go_on(3)
    plan_id = only(agency, PlanStatus.PROPOSED).plan.plan_id
    agency.approve(plan_id)
    now = agency.connect.line.now()
    match held:
        case "pause":
            requests = {"paused": True, "until": None, "by": "ada", "because": "wait"}
            agency.ledger.journal.control(PauseSet(at=now, **requests))
        case "kill switch":
            stop.touch()
        case "mode":
            agency.ledger.journal.control(ModeSet(at=now, mode="observe", by="ada", because="wait"))
    agency.go_on(5)
    assert agency.changes() == []
    if held == "mode":
        assert phase_of(agency.dossier(plan_id)) == VOID
        return
    assert agency.dossier(plan_id).status is PlanStatus.APPROVED
    if held == "pause":
        requests = {"paused": False, "until": None, "by": "ada", "because": "go on"}
        agency.ledger.journal.control(PauseSet(at=now, **requests))
    else:
        stop.unlink()
    agency.go_on(5)
    assert phase_of(agency.dossier(plan_id)) == ENDED


@pytest.mark.parametrize("meanwhile", ["nothing", "stood still", "mode", "pause"])
def test_a_plan_is_begun_on_what_guards_say_and_not_on_what_they_said(agency, meanwhile):
    failing(agency)
    agency.go_on(3)
    plan_id = only(agency, PlanStatus.PROPOSED).plan.plan_id
    agency.approve(plan_id)
    admit = agency.planner.admit

    def answer_again(*requests):
        answers, now = admit(*requests), agency.connect.line.now()
        match meanwhile:
            case "stood still":
                agency.wait(61.0)
            case "mode":
                requests = {"mode": "observe", "by": "ada", "because": "wait"}
                agency.ledger.journal.control(ModeSet(at=now, **requests))
            case "pause":
                requests = {"paused": True, "until": now + 10.0, "by": "ada", "because": "wait"}
                agency.ledger.journal.control(PauseSet(at=now, **requests))
        return answers

    agency.planner.admit = answer_again
    agency.agent.step()
    agency.planner.admit = admit
    status = phase_of(agency.dossier(plan_id))
    if meanwhile == "nothing":
        assert status == ENDED
        return
    assert status == PlanStatus.APPROVED
    assert agency.changes() == []
    agency.go_on(15)
    later = VOID if meanwhile == "mode" else ENDED
    assert phase_of(agency.dossier(plan_id)) == later


def test_two_records_bad_in_one_way_open_the_breaker_and_a_third_is_left_alone(tmp_path):
    agency = Agency(tmp_path, AUTO)
    agency.bad(good=0)
    for _ in range(5):
        agency.connect.broker.produce(TOPIC, b"bad", troubles=bad())
    agency.wait(5.0)
    for _ in range(3):
        agency.restart()
        agency.go_on(20)
        for history in agency.dossiers(PlanStatus.PROPOSED):
            agency.approve(history.plan.plan_id)
        agency.go_on(5)
    assert len(agency.ledger.fleet.skips) <= 2
    assert f"lab/{SINK_NAME}" in agency.ledger.fleet.breakers
    before = len(agency.changes())
    agency.go_on(60)
    assert len(agency.changes()) == before
    guards = {answer.guard for refused in agency.refused() for answer in refused.answers}
    assert "breaker" in guards


def test_a_stop_answers_what_does_harm_and_lasts_until_an_operator_acts(agency):
    harm = Finding(FindingName.RECOPY, Severity.CRITICAL, "lab", SINK_NAME, "", "copies again", 1.0)
    agency.found = (harm,)
    agency.go_on(2)
    plan = only(agency, PlanStatus.PROPOSED).plan
    assert plan.remedy.action is Action.STOP
    agency.approve(plan.plan_id)
    agency.go_on(3)
    assert state(agency.connect, SINK_NAME) == ("STOPPED", [])
    agency.found = ()  # a stopped connector does no harm
    agency.go_on(60)
    assert state(agency.connect, SINK_NAME) == ("STOPPED", [])
    assert ("lab", SINK_NAME) in agency.ledger.fleet.stopped_by_us()
    OutsideClient(agency.connect).resume(SINK_NAME)
    agency.go_on(5)
    assert agency.ledger.fleet.stopped_by_us() == {}
    assert agency.changes() == [f"PUT /connectors/{SINK_NAME}/stop"]


def test_an_incident_of_a_finding_that_no_document_lists_is_begun_with(agency):
    slight = Finding(FindingName.RECOPY, Severity.INFO, "lab", "other", "", "copies again", 1.0)
    many = tuple(replace(slight, subject=str(number)) for number in range(FINDINGS_MAX))
    harm = Finding(FindingName.RECOPY, Severity.CRITICAL, "lab", SINK_NAME, "", "copies again", 1.0)
    agency.found = (*many, harm)
    agency.go_on(2)
    plan = only(agency, PlanStatus.PROPOSED).plan
    agency.go_on(30)
    assert only(agency, PlanStatus.PROPOSED).plan == plan
    agency.found = many
    agency.go_on(2)
    assert agency.dossiers(PlanStatus.PROPOSED) == []


@pytest.mark.parametrize("question", ["choose_action", "evaluate_case"])
def test_an_incident_that_raises_an_unexpected_error_holds_up_no_other(
    agency, monkeypatch, question
):
    harm = Finding(FindingName.RECOPY, Severity.CRITICAL, "lab", SINK_NAME, "", "copies again", 9.0)
    odd = replace(harm, subject="odd", summary="odd", since=1.0)
    value = getattr(agency.planner, question)

    def fail(about, query_round):
        incident = about if question == "choose_action" else about.incident
        if incident.said == odd.summary:
            raise OverflowError(incident.said)
        return value(about, query_round)

    monkeypatch.setattr(agency.planner, question, fail)
    agency.found = (odd, harm)
    with capture_logs() as logs:
        agency.go_on(60)
    (plan,) = (item.plan for item in agency.dossiers(PlanStatus.PROPOSED))
    assert plan.remedy.action is Action.STOP
    blocked = agency.agent.counts.blocked
    (of,) = (key for key in blocked if key[3] == "unexpected")
    assert of[:2] == ("lab", SINK_NAME)
    messages = [log for log in logs if log["event"] == "unexpected_error"]
    assert [item["exc_info"].args for item in messages] == [("odd",)]
    assert len(agency.ledger.fleet.incidents) == 2
    assert agency.refused() == []


@pytest.mark.parametrize("question", ["admit", "find_outdated_pin"])
def test_a_plan_that_raises_an_unexpected_error_keeps_its_status(agency, monkeypatch, question):
    failing(agency, 1)
    agency.go_on(3)
    plan = only(agency, PlanStatus.PROPOSED).plan

    def fail(*_):
        raise OverflowError

    with monkeypatch.context() as broken:
        broken.setattr(agency.planner, question, fail)
        if question == "admit":
            agency.approve(plan.plan_id)
        agency.go_on(20)
        status = PlanStatus.APPROVED if question == "admit" else PlanStatus.PROPOSED
        assert only(agency, status).plan == plan
        key = ("lab", SINK_NAME, plan.remedy.action.value, "unexpected")
        assert agency.agent.counts.blocked[key] >= 2
        assert agency.changes() == []
    if question == "admit":
        agency.go_on(3)
        assert len(agency.changes()) == 1


def test_a_damaged_journal_is_not_taken_for_one_incident(agency, monkeypatch):
    def fail(*_):
        raise JournalDamaged("odd")

    failing(agency, 1)
    monkeypatch.setattr(agency.planner, "choose_action", fail)
    with pytest.raises(JournalDamaged):
        agency.go_on(3)


def test_what_a_process_left_open_is_finished_by_the_next_before_anything_else(agency):
    failing(agency)
    agency.go_on(3)
    agency.approve(only(agency, PlanStatus.PROPOSED).plan.plan_id)

    class Gone(Exception):
        pass

    def dies(seconds: float) -> None:
        agency.connect.advance(seconds)
        raise Gone

    agency.agent._executor._lifetime = agency.agent._executor._lifetime._replace(pause=dies)
    with pytest.raises(Gone):
        agency.go_on(2)
    assert state(agency.connect, SINK_NAME)[0] == "STOPPED"
    agency.ledger.journal.close()
    agency.hired()
    agency.agent.step()
    assert state(agency.connect, SINK_NAME)[0] == "RUNNING"
    assert only(agency, ENDED).ended.ending is PlanStatus.RESTORED


def test_the_same_reasons_are_not_taken_down_again(agency):
    agency.policy = replace(POLICY, failures=5)
    agency.hired()
    failing(agency, 1)
    agency.go_on(3)
    agency.approve(only(agency, PlanStatus.PROPOSED).plan.plan_id)
    agency.go_on(120)
    written = [
        entry
        for entry in agency.ledger.journal.tail(1_000)
        if isinstance(entry.record, ActionRefused)
    ]
    assert len(written) <= 3
