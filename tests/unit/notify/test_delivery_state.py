"""What is told when: once, again when it matters, and its end for certain."""

from __future__ import annotations

from offsetwatch.model.findings import EvidenceItem, ProposedPlan, Severity
from offsetwatch.model.observations import LOG_ENDS, InputId
from offsetwatch.notify import delivery_state as ledgers
from offsetwatch.notify.delivery_state import DeliveryRules, DeliveryState, NotificationStatus
from tests.changed import replace
from tests.unit.notify.findings import LOST, NOW, REST, STUCK

PLAIN = DeliveryRules(Severity.WARNING, settle_s=180.0, changes_s=3600.0)
WEBHOOK = replace(PLAIN, successors=True)
ALERTS = DeliveryRules(Severity.WARNING, settle_s=180.0, by_severity=True, resend_s=60.0)
SLIGHT = replace(LOST, severity=Severity.INFO)
MILD = replace(LOST, severity=Severity.WARNING)


class Told:
    """A ledger whose messages are delivered at once."""

    def __init__(self, rules: DeliveryRules = PLAIN, entries=()) -> None:
        self.ledger = DeliveryState(rules, entries)

    def at(self, now: float, *findings, blind=frozenset(), arrives=True, deleted=False) -> list:
        self.ledger.look(NOW + now, findings, lambda _: blind, deleted=lambda _: deleted)
        due = tuple(self.ledger.due(NOW + now))
        self.ledger.attempt(due)
        if arrives:
            self.ledger.told(due, NOW + now)
        return [(at.status, at.finding.severity) for at in due]


def statuses(told: list) -> list[NotificationStatus]:
    return [status for status, _ in told]


def test_a_finding_is_told_once_while_nothing_changes():
    told = Told()
    assert statuses(told.at(0, LOST)) == [NotificationStatus.NEW]
    assert [told.at(now, LOST) for now in (1, 3601, 100_000)] == [[], [], []]


def test_what_another_finding_explains_is_not_over_until_that_is():
    cause = replace(STUCK, connect_cluster=LOST.connect_cluster, connector=LOST.connector)
    cause = replace(cause, explains=(LOST.name,), severity=Severity.INFO)
    elsewhere = replace(cause, connector="another")
    for rules in (PLAIN, ALERTS):
        told = Told(rules)
        told.at(0, LOST)
        assert NotificationStatus.RESOLVED not in statuses(told.at(500, cause))
        assert NotificationStatus.NEW not in statuses(told.at(501, LOST))
        assert NotificationStatus.RESOLVED in statuses(told.at(700, elsewhere))


def explaining(*, severity: Severity = Severity.CRITICAL):
    """What LOST is only a part of."""
    cause = replace(STUCK, connect_cluster=LOST.connect_cluster, connector=LOST.connector)
    return replace(cause, explains=(LOST.name,), severity=severity)


def test_what_another_finding_takes_over_from_ends_as_superseded_and_is_new_when_it_is_back():
    told, cause = Told(WEBHOOK), explaining()
    told.at(0, LOST)
    assert statuses(told.at(1, cause)) == [NotificationStatus.NEW, NotificationStatus.SUPERSEDED]
    assert told.at(2, cause) == []
    told.at(300)
    assert statuses(told.at(500)) == []
    assert statuses(told.at(501, LOST)) == [NotificationStatus.NEW]


def test_the_message_of_an_end_has_the_finding_that_takes_over():
    told, cause = Told(WEBHOOK), explaining()
    told.at(0, LOST)
    told.ledger.look(NOW + 1, (cause,), lambda _: frozenset())
    (end,) = [at for at in told.ledger.due(NOW + 1) if at.status is NotificationStatus.SUPERSEDED]
    assert (end.finding, end.superseded_by) == (LOST, cause)


def test_what_takes_over_unheard_ends_nothing():
    told = Told(WEBHOOK)
    told.at(0, LOST)
    assert told.at(500, explaining(severity=Severity.INFO)) == []


def test_an_alert_that_is_taken_over_from_stands_and_is_linked_until_it_is_over():
    told, cause = Told(ALERTS), explaining()
    told.at(0, LOST)
    told.at(60, cause)
    linked = {at.finding: at.superseded_by for at in told.ledger.entries}
    assert linked == {LOST: cause, cause: None}
    assert NotificationStatus.ACTIVE in statuses(told.at(120, cause))
    told.at(130)
    assert {status for status, _ in told.at(400)} == {NotificationStatus.RESOLVED}


def test_what_matters_less_than_asked_for_is_not_told():
    told = Told()
    assert statuses(told.at(0, SLIGHT, STUCK)) == [NotificationStatus.NEW]


def test_a_finding_that_comes_to_matter_less_than_asked_for_is_over():
    told = Told()
    told.at(0, LOST)
    assert told.at(179, SLIGHT) == []
    assert statuses(told.at(180, SLIGHT)) == [NotificationStatus.RESOLVED]


def test_the_end_is_told_once_and_the_next_time_it_is_new():
    told = Told()
    told.at(0, LOST)
    assert told.at(179) == []
    assert statuses(told.at(180)) == [NotificationStatus.RESOLVED]
    assert told.at(181) == []
    assert told.ledger.entries == ()
    assert statuses(told.at(182, LOST)) == [NotificationStatus.NEW]


def test_what_ends_with_its_connector_is_not_resolved():
    told = Told()
    told.at(0, LOST)
    assert told.at(179, deleted=True) == []
    assert statuses(told.at(180, deleted=True, arrives=False)) == [NotificationStatus.DELETED]
    again = Told(entries=told.ledger.entries)
    assert statuses(again.at(240)) == [NotificationStatus.DELETED]
    assert statuses(again.at(250, LOST)) == [NotificationStatus.NEW]
    assert statuses(again.at(600)) == [NotificationStatus.RESOLVED]


def test_nothing_is_over_while_what_it_rests_on_is_blind_nor_soon_after():
    told = Told()
    told.at(0, LOST)
    assert told.at(1000, blind={REST}) == []
    assert [told.at(now) for now in (1001, 1180)] == [[], []]
    assert statuses(told.at(1181)) == [NotificationStatus.RESOLVED]


def test_an_input_that_was_blind_when_it_was_found_has_no_say_in_its_end():
    told, denied = Told(), InputId(LOG_ENDS, kafka="west")
    told.at(0, LOST, blind={denied})
    assert told.at(1000, blind={denied, REST}) == []
    told.at(1001, blind={denied})
    assert statuses(told.at(1181, blind={denied})) == [NotificationStatus.RESOLVED]


def test_after_a_restart_nothing_is_over_before_it_could_have_been_found_again():
    told = Told()
    told.at(0, LOST)
    again = Told(entries=told.ledger.entries)
    assert [again.at(now) for now in (5000, 5179)] == [[], []]
    assert statuses(again.at(5180)) == [NotificationStatus.RESOLVED]


def test_after_a_restart_nothing_is_new_that_was_told_before():
    told = Told()
    told.at(0, LOST)
    again = Told(entries=told.ledger.entries)
    assert again.at(5000, replace(LOST, since=NOW + 4999)) == []
    assert again.ledger.entries[0].finding.since == LOST.since


def test_a_severity_that_rises_is_told_at_once_and_one_that_falls_in_its_time():
    told = Told()
    told.at(0, MILD)
    assert told.at(1, LOST) == [(NotificationStatus.CHANGED, Severity.CRITICAL)]
    assert told.at(2, MILD) == []
    assert told.at(3601, MILD) == [(NotificationStatus.CHANGED, Severity.WARNING)]


def test_another_summary_is_told_once_an_hour_at_most():
    told = Told()
    told.at(0, LOST)
    changing = [replace(LOST, summary=f"{number} records") for number in range(3)]
    assert told.at(1, changing[0]) == []
    assert statuses(told.at(3600, changing[1])) == [NotificationStatus.CHANGED]
    assert told.at(3601, changing[2]) == []


def test_a_plan_to_approve_is_told_at_once_another_one_in_its_time_and_none_is_no_news():
    told = Told()
    told.at(0, LOST)
    first, second = (replace(LOST, plan=ProposedPlan(at, "skip")) for at in ("1", "2"))
    assert statuses(told.at(1, first)) == [NotificationStatus.CHANGED]
    assert told.at(2, second) == []
    assert told.at(3700, LOST) == []
    assert statuses(told.at(3701, second)) == [NotificationStatus.CHANGED]


def test_a_plan_to_do_something_else_is_told_at_once():
    told = Told()
    restart, skip = (replace(LOST, plan=ProposedPlan(at, at)) for at in ("restart", "skip"))
    told.at(0, restart)
    assert statuses(told.at(1, skip)) == [NotificationStatus.CHANGED]


def test_other_numbers_in_the_evidence_alone_are_no_change():
    told = Told()
    told.at(0, LOST)
    assert (
        told.at(4000, replace(LOST, evidence=(EvidenceItem("lost offsets", "100 to 160"),))) == []
    )


def test_what_did_not_arrive_is_due_in_its_newest_state():
    told = Told()
    told.at(0, MILD, arrives=False)
    assert told.at(1, LOST) == [(NotificationStatus.NEW, Severity.CRITICAL)]


def test_a_finding_that_came_and_went_while_nobody_could_be_told_is_told_as_over():
    told = Told()
    told.at(0, LOST, arrives=False)
    assert statuses(told.at(200)) == [NotificationStatus.RESOLVED]


def test_a_finding_that_is_back_before_its_end_was_told_was_never_over():
    told = Told()
    told.at(0, LOST)
    told.ledger.look(NOW + 200, (), lambda _: frozenset())
    assert told.at(201, LOST) == []


def test_a_finding_that_is_back_after_its_end_may_have_been_told_is_new():
    told = Told()
    told.at(0, LOST)
    assert statuses(told.at(200, arrives=False)) == [NotificationStatus.RESOLVED]
    assert statuses(told.at(201, LOST)) == [NotificationStatus.NEW]
    assert statuses(told.at(500)) == [NotificationStatus.RESOLVED]


def test_an_alert_that_stands_is_repeated_and_so_is_its_end_for_a_quarter_of_an_hour():
    told = Told(ALERTS)
    assert statuses(told.at(0, LOST)) == [NotificationStatus.NEW]
    assert told.at(59, LOST) == []
    assert statuses(told.at(60, LOST)) == [NotificationStatus.ACTIVE]
    assert statuses(told.at(240)) == [NotificationStatus.RESOLVED]
    assert told.at(299) == []
    assert statuses(told.at(300)) == [NotificationStatus.RESOLVED]
    assert not told.ledger.prune(NOW + 240 + 899)
    assert told.ledger.prune(NOW + 240 + 900)
    assert told.ledger.entries == ()


def test_an_alert_of_another_severity_ends_the_one_before_at_once():
    told = Told(ALERTS)
    told.at(0, MILD)
    found = told.at(1, LOST, blind={REST})
    assert sorted(found) == [
        (NotificationStatus.NEW, Severity.CRITICAL),
        (NotificationStatus.SUPERSEDED, Severity.WARNING),
    ]
    assert [at.superseded_by for at in told.ledger.entries] == [LOST, None]


def test_what_matters_most_is_told_first_and_repetitions_last():
    told = Told(ALERTS)
    told.at(0, LOST)
    news = [replace(STUCK, subject=str(number)) for number in range(2)]
    assert told.at(60, *news, LOST) == [
        (NotificationStatus.NEW, Severity.WARNING),
        (NotificationStatus.NEW, Severity.WARNING),
        (NotificationStatus.ACTIVE, Severity.CRITICAL),
    ]


def test_a_clock_that_is_set_back_silences_no_alert():
    told = Told(ALERTS)
    told.at(10_000, LOST)
    assert statuses(told.at(0, LOST)) == [NotificationStatus.ACTIVE]


def test_what_there_is_no_room_for_is_counted_and_told_when_there_is(monkeypatch):
    monkeypatch.setattr(ledgers, "ENTRIES_MAX", 1)
    told = Told()
    assert len(told.at(0, LOST, STUCK)) == 1
    assert told.ledger.beyond == 1
    told.at(500, STUCK)
    assert statuses(told.at(501, STUCK)) == [NotificationStatus.NEW]
    assert told.ledger.beyond == 0


def test_only_what_was_never_attempted_has_to_be_written_down_first():
    told = Told()
    told.ledger.look(NOW, (LOST,), lambda _: frozenset())
    assert told.ledger.attempt(tuple(told.ledger.due(NOW)))
    assert not told.ledger.attempt(tuple(told.ledger.due(NOW)))
