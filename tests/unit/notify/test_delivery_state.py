"""What is told when: once, again when it matters, and its end for certain."""

from __future__ import annotations

from offsetwatch.model.findings import EvidenceItem, ProposedPlan, Severity
from offsetwatch.model.observations import LOG_ENDS, InputId
from offsetwatch.notify import delivery_state
from offsetwatch.notify.delivery_state import DeliveryRules, DeliveryState, NotificationStatus
from tests.changed import replace
from tests.unit.notify.findings import LOST, NOW, REST, STUCK

PLAIN = DeliveryRules(Severity.WARNING, settle_s=180.0, changes_s=3600.0)
WEBHOOK = replace(PLAIN, successors=True)
ALERTS = DeliveryRules(Severity.WARNING, settle_s=180.0, by_severity=True, resend_s=60.0)
SLIGHT = replace(LOST, severity=Severity.INFO)
MILD = replace(LOST, severity=Severity.WARNING)


class DeliveredState:
    """A ledger whose messages are delivered at once."""

    def __init__(self, rules: DeliveryRules = PLAIN, entries=()) -> None:
        self.state = DeliveryState(rules, entries)

    def at(
        self, now: float, *findings, unavailable=frozenset(), arrives=True, deleted=False
    ) -> list:
        self.state.update(NOW + now, findings, lambda _: unavailable, deleted=lambda _: deleted)
        due = tuple(self.state.due(NOW + now))
        self.state.mark_attempted(due)
        if arrives:
            self.state.mark_delivered(due, NOW + now)
        return [(message.status, message.finding.severity) for message in due]


def statuses(report: list) -> list[NotificationStatus]:
    return [status for status, _ in report]


def test_a_finding_is_reported_once_while_nothing_changes():
    report = DeliveredState()
    assert statuses(report.at(0, LOST)) == [NotificationStatus.NEW]
    assert [report.at(now, LOST) for now in (1, 3601, 100_000)] == [[], [], []]


def test_what_another_finding_explains_is_not_over_until_that_is():
    cause = replace(STUCK, connect_cluster=LOST.connect_cluster, connector=LOST.connector)
    cause = replace(cause, explains=(LOST.name,), severity=Severity.INFO)
    elsewhere = replace(cause, connector="another")
    for rules in (PLAIN, ALERTS):
        report = DeliveredState(rules)
        report.at(0, LOST)
        assert NotificationStatus.RESOLVED not in statuses(report.at(500, cause))
        assert NotificationStatus.NEW not in statuses(report.at(501, LOST))
        assert NotificationStatus.RESOLVED in statuses(report.at(700, elsewhere))


def explaining(*, severity: Severity = Severity.CRITICAL):
    """What LOST is only a part of."""
    cause = replace(STUCK, connect_cluster=LOST.connect_cluster, connector=LOST.connector)
    return replace(cause, explains=(LOST.name,), severity=severity)


def test_what_another_finding_takes_over_from_ends_as_superseded_and_is_new_when_it_is_back():
    report, cause = DeliveredState(WEBHOOK), explaining()
    report.at(0, LOST)
    assert statuses(report.at(1, cause)) == [NotificationStatus.NEW, NotificationStatus.SUPERSEDED]
    assert report.at(2, cause) == []
    report.at(300)
    assert statuses(report.at(500)) == []
    assert statuses(report.at(501, LOST)) == [NotificationStatus.NEW]


def test_the_message_of_an_end_has_the_finding_that_takes_over():
    report, cause = DeliveredState(WEBHOOK), explaining()
    report.at(0, LOST)
    report.state.update(NOW + 1, (cause,), lambda _: frozenset())
    (end,) = [
        message
        for message in report.state.due(NOW + 1)
        if message.status is NotificationStatus.SUPERSEDED
    ]
    assert (end.finding, end.superseded_by) == (LOST, cause)


def test_what_takes_over_unheard_ends_nothing():
    report = DeliveredState(WEBHOOK)
    report.at(0, LOST)
    assert report.at(500, explaining(severity=Severity.INFO)) == []


def test_an_alert_that_is_taken_over_from_stands_and_is_linked_until_it_is_over():
    report, cause = DeliveredState(ALERTS), explaining()
    report.at(0, LOST)
    report.at(60, cause)
    linked = {entry.finding: entry.superseded_by for entry in report.state.entries}
    assert linked == {LOST: cause, cause: None}
    assert NotificationStatus.ACTIVE in statuses(report.at(120, cause))
    report.at(130)
    assert {status for status, _ in report.at(400)} == {NotificationStatus.RESOLVED}


def test_what_matters_less_than_requested_is_not_reported():
    report = DeliveredState()
    assert statuses(report.at(0, SLIGHT, STUCK)) == [NotificationStatus.NEW]


def test_the_end_is_reported_once_and_the_next_time_it_is_new():
    report = DeliveredState()
    report.at(0, LOST)
    assert report.at(179) == []
    assert statuses(report.at(180)) == [NotificationStatus.RESOLVED]
    assert report.at(181) == []
    assert report.state.entries == ()
    assert statuses(report.at(182, LOST)) == [NotificationStatus.NEW]


def test_what_ends_with_its_connector_is_not_resolved():
    report = DeliveredState()
    report.at(0, LOST)
    assert report.at(179, deleted=True) == []
    assert statuses(report.at(180, deleted=True, arrives=False)) == [NotificationStatus.DELETED]
    again = DeliveredState(entries=report.state.entries)
    assert statuses(again.at(240)) == [NotificationStatus.DELETED]
    assert statuses(again.at(250, LOST)) == [NotificationStatus.NEW]
    assert statuses(again.at(600)) == [NotificationStatus.RESOLVED]


def test_nothing_is_over_while_what_it_rests_on_is_blind_nor_soon_after():
    report = DeliveredState()
    report.at(0, LOST)
    assert report.at(1000, unavailable={REST}) == []
    assert [report.at(now) for now in (1001, 1180)] == [[], []]
    assert statuses(report.at(1181)) == [NotificationStatus.RESOLVED]


def test_an_input_that_was_blind_when_it_was_found_has_no_say_in_its_end():
    report, denied = DeliveredState(), InputId(LOG_ENDS, kafka="west")
    report.at(0, LOST, unavailable={denied})
    assert report.at(1000, unavailable={denied, REST}) == []
    report.at(1001, unavailable={denied})
    assert statuses(report.at(1181, unavailable={denied})) == [NotificationStatus.RESOLVED]


def test_after_a_restart_nothing_is_over_before_it_could_have_been_found_again():
    report = DeliveredState()
    report.at(0, LOST)
    again = DeliveredState(entries=report.state.entries)
    assert [again.at(now) for now in (5000, 5179)] == [[], []]
    assert statuses(again.at(5180)) == [NotificationStatus.RESOLVED]


def test_after_a_restart_nothing_is_new_that_was_reported_before():
    report = DeliveredState()
    report.at(0, LOST)
    again = DeliveredState(entries=report.state.entries)
    assert again.at(5000, replace(LOST, since=NOW + 4999)) == []
    assert again.state.entries[0].finding.since == LOST.since


def test_a_severity_that_rises_is_reported_at_once_and_one_that_falls_in_its_time():
    report = DeliveredState()
    report.at(0, MILD)
    assert report.at(1, LOST) == [(NotificationStatus.CHANGED, Severity.CRITICAL)]
    assert report.at(2, MILD) == []
    assert report.at(3601, MILD) == [(NotificationStatus.CHANGED, Severity.WARNING)]


def test_a_severity_that_falls_below_the_least_one_ends_no_finding():
    report = DeliveredState(replace(PLAIN, least=Severity.WARNING))
    report.at(0, MILD)
    assert report.at(3600, SLIGHT) == [(NotificationStatus.CHANGED, Severity.INFO)]
    assert report.at(7200, SLIGHT) == []
    assert report.at(7201) == [(NotificationStatus.RESOLVED, Severity.INFO)]
    assert report.at(7202, SLIGHT) == []


def test_an_alert_whose_severity_falls_below_the_least_one_stands_until_it_is_over():
    report = DeliveredState(ALERTS)
    report.at(0, MILD)
    assert report.at(500, SLIGHT) == [(NotificationStatus.ACTIVE, Severity.WARNING)]
    assert [entry.superseded_by for entry in report.state.entries] == [SLIGHT]
    assert report.at(501) == [(NotificationStatus.RESOLVED, Severity.WARNING)]


def test_another_summary_is_reported_once_an_hour_at_most():
    report = DeliveredState()
    report.at(0, LOST)
    changing = [replace(LOST, summary=f"{number} records") for number in range(3)]
    assert report.at(1, changing[0]) == []
    assert statuses(report.at(3600, changing[1])) == [NotificationStatus.CHANGED]
    assert report.at(3601, changing[2]) == []


def test_a_plan_to_approve_is_reported_at_once_another_one_in_its_time_and_none_is_no_news():
    report = DeliveredState()
    report.at(0, LOST)
    first, second = (replace(LOST, plan=ProposedPlan(value, "skip")) for value in ("1", "2"))
    assert statuses(report.at(1, first)) == [NotificationStatus.CHANGED]
    assert report.at(2, second) == []
    assert report.at(3700, LOST) == []
    assert statuses(report.at(3701, second)) == [NotificationStatus.CHANGED]


def test_a_plan_to_do_something_else_is_reported_at_once():
    report = DeliveredState()
    restart, skip = (
        replace(LOST, plan=ProposedPlan(value, value)) for value in ("restart", "skip")
    )
    report.at(0, restart)
    assert statuses(report.at(1, skip)) == [NotificationStatus.CHANGED]


def test_other_numbers_in_the_evidence_alone_are_no_change():
    report = DeliveredState()
    report.at(0, LOST)
    assert (
        report.at(4000, replace(LOST, evidence=(EvidenceItem("lost offsets", "100 to 160"),))) == []
    )


def test_what_did_not_arrive_is_due_in_its_newest_state():
    report = DeliveredState()
    report.at(0, MILD, arrives=False)
    assert report.at(1, LOST) == [(NotificationStatus.NEW, Severity.CRITICAL)]


def test_a_finding_that_ended_during_an_outage_of_the_webhook_is_reported_as_resolved():
    report = DeliveredState()
    report.at(0, LOST, arrives=False)
    assert statuses(report.at(200)) == [NotificationStatus.RESOLVED]


def test_a_finding_that_is_back_before_its_end_was_reported_was_never_over():
    report = DeliveredState()
    report.at(0, LOST)
    report.state.update(NOW + 200, (), lambda _: frozenset())
    assert report.at(201, LOST) == []


def test_a_finding_that_is_back_after_its_end_may_have_been_reported_is_new():
    report = DeliveredState()
    report.at(0, LOST)
    assert statuses(report.at(200, arrives=False)) == [NotificationStatus.RESOLVED]
    assert statuses(report.at(201, LOST)) == [NotificationStatus.NEW]
    assert statuses(report.at(500)) == [NotificationStatus.RESOLVED]


def test_an_alert_that_stands_is_repeated_and_so_is_its_end_for_a_quarter_of_an_hour():
    report = DeliveredState(ALERTS)
    assert statuses(report.at(0, LOST)) == [NotificationStatus.NEW]
    assert report.at(59, LOST) == []
    assert statuses(report.at(60, LOST)) == [NotificationStatus.ACTIVE]
    assert statuses(report.at(240)) == [NotificationStatus.RESOLVED]
    assert report.at(299) == []
    assert statuses(report.at(300)) == [NotificationStatus.RESOLVED]
    assert not report.state.prune(NOW + 240 + 899)
    assert report.state.prune(NOW + 240 + 900)
    assert report.state.entries == ()


def test_an_alert_of_another_severity_ends_the_one_before_at_once():
    report = DeliveredState(ALERTS)
    report.at(0, MILD)
    result = report.at(1, LOST, unavailable={REST})
    assert sorted(result) == [
        (NotificationStatus.NEW, Severity.CRITICAL),
        (NotificationStatus.SUPERSEDED, Severity.WARNING),
    ]
    assert [entry.superseded_by for entry in report.state.entries] == [LOST, None]


def test_what_matters_most_is_reported_first_and_repetitions_last():
    report = DeliveredState(ALERTS)
    report.at(0, LOST)
    syncs = [replace(STUCK, subject=str(number)) for number in range(2)]
    assert report.at(60, *syncs, LOST) == [
        (NotificationStatus.NEW, Severity.WARNING),
        (NotificationStatus.NEW, Severity.WARNING),
        (NotificationStatus.ACTIVE, Severity.CRITICAL),
    ]


def test_a_clock_that_is_set_back_silences_no_alert():
    report = DeliveredState(ALERTS)
    report.at(10_000, LOST)
    assert statuses(report.at(0, LOST)) == [NotificationStatus.ACTIVE]


def test_what_there_is_no_room_for_is_counted_and_reported_when_there_is(monkeypatch):
    monkeypatch.setattr(delivery_state, "ENTRIES_MAX", 1)
    report = DeliveredState()
    assert len(report.at(0, LOST, STUCK)) == 1
    assert report.state.beyond == 1
    report.at(500, STUCK)
    assert statuses(report.at(501, STUCK)) == [NotificationStatus.NEW]
    assert report.state.beyond == 0


def test_only_what_was_never_attempted_has_to_be_written_down_first():
    report = DeliveredState()
    report.state.update(NOW, (LOST,), lambda _: frozenset())
    assert report.state.mark_attempted(tuple(report.state.due(NOW)))
    assert not report.state.mark_attempted(tuple(report.state.due(NOW)))
