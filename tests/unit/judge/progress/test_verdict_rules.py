"""The laws, each with the case that it alone decides."""

from __future__ import annotations

import pytest

from offsetwatch.judge.progress.verdict_rules import (
    OBSERVED_ENOUGH_S,
    RULE_TEXTS,
    RULES_WITH_LOG_END,
    RULES_WITHOUT_LOG_END,
    VerdictCase,
    decide_verdict,
    find_worst_verdict,
)
from offsetwatch.model.findings import Verdict

OK, IDLE, SLOW, STALLED, SILENT, REWOUND, HAS_FAILED, PAUSED, STOPPED, UNKNOWN = Verdict
LONG, SHORT = 180.0, 179.0

# An hour of watching; something has waited for three intervals and nothing moves.
STUCK = VerdictCase(
    patience_s=LONG,
    before=OK,
    watched_s=3600.0,
    still_s=LONG,
    moved_s=LONG,
    waiting_s=LONG,
    sure=True,
    why_s=3600.0,
)
RUNS = STUCK._replace(still_s=30.0, moved_s=30.0, waiting_s=30.0)
DONE = STUCK._replace(waiting_s=None, sure=False, moved_s=600.0, end_still_s=LONG)
QUIET = VerdictCase(
    patience_s=LONG, before=OK, headed=False, watched_s=3600.0, still_s=600.0, why_s=3600.0
)
FAILED = "task 0 has failed"
MENDED_UNSEEN = {"before": STALLED, "unavailable_states": "connect_rest x"}
REPEATING_SOURCE = STUCK._replace(sourced=True, repeats=3, repeated_s=30.0)
ALL_FAILED = {"why": FAILED, "why_all": True, "still_s": LONG, "why_s": LONG}
LATE = {"why": FAILED, "moved_s": LONG + 1, "still_s": LONG, "why_s": LONG}
WATCHED = {"watched_s": OBSERVED_ENOUGH_S, "moved_s": LONG + 1, "longest_s": 10.0}

TABLE = [
    (1, UNKNOWN, "an input is blind", STUCK._replace(unavailable="tail x tells nothing")),
    (1, UNKNOWN, "stuck, and REST is blind", STUCK._replace(unavailable_states="connect_rest x")),
    (
        1,
        UNKNOWN,
        "was stalled, without a head, and REST is blind",
        QUIET._replace(before=STALLED, unavailable_states="connect_rest x"),
    ),
    (2, PAUSED, "paused, and an input is blind", STUCK._replace(unavailable="x", rests="paused")),
    (2, PAUSED, "paused with work waiting", STUCK._replace(rests="paused")),
    (2, PAUSED, "paused without a head", QUIET._replace(rests="paused")),
    (23, STOPPED, "stopped with work waiting", STUCK._replace(rests="stopped")),
    (23, STOPPED, "stopped without a head", QUIET._replace(rests="stopped")),
    (3, IDLE, "left over", STUCK._replace(copied=False)),
    (4, STALLED, "a task has failed", STUCK._replace(why=FAILED)),
    (4, STALLED, "it repeats one offset", STUCK._replace(repeats=3, repeated_s=30.0)),
    (
        4,
        STALLED,
        "was stalled and runs again only now",
        STUCK._replace(before=STALLED, why_s=30.0),
    ),
    (
        4,
        STALLED,
        "was silent and has failed for three intervals",
        STUCK._replace(before=SILENT, why=FAILED, why_s=LONG),
    ),
    (4, STALLED, "it failed since, and was restarted", STUCK._replace(failed_s=LONG - 1)),
    (5, SILENT, "it failed before it last moved", STUCK._replace(failed_s=LONG)),
    (5, SILENT, "was silent and failed since", STUCK._replace(before=SILENT, failed_s=30.0)),
    (5, SILENT, "everything claims to run", STUCK),
    (
        5,
        SILENT,
        "was silent and has failed only now",
        STUCK._replace(before=SILENT, why=FAILED, why_s=30.0),
    ),
    (5, SILENT, "was silent and repeats", STUCK._replace(before=SILENT, repeated_s=30.0)),
    (5, SILENT, "it repeated long ago", STUCK._replace(repeats=1, repeated_s=LONG)),
    (6, REWOUND, "copies again", RUNS._replace(behind=True)),
    (6, REWOUND, "went back, without a head", QUIET._replace(moved_s=30.0, behind=True)),
    (7, SLOW, "falls behind", RUNS._replace(falls_behind=True)),
    (8, OK, "moves while work waits", RUNS),
    (8, OK, "moves for the first time", RUNS._replace(before=UNKNOWN, watched_s=30.0)),
    (9, OK, "keeps up", DONE._replace(end_still_s=30.0)),
    (10, IDLE, "the log end stands still", DONE),
    (11, UNKNOWN, "beyond the log end", DONE._replace(ahead=5)),
    (12, UNKNOWN, "perhaps markers", STUCK._replace(sure=False)),
    (13, UNKNOWN, "reset a moment ago", QUIET._replace(placed=False, moved_s=30.0)),
    (14, STALLED, "all tasks failed", QUIET._replace(why=FAILED, why_all=True)),
    (
        15,
        STALLED,
        "used to move, and a task has failed",
        QUIET._replace(why=FAILED, moved_s=600.0, move_interval_s=60.0),
    ),
    (16, OK, "within three intervals", QUIET._replace(moved_s=LONG)),
    (16, OK, "in its own rhythm", QUIET._replace(moved_s=600.0, move_interval_s=200.0)),
    (17, UNKNOWN, "lives", QUIET._replace(repeats=3, repeated_s=30.0)),
    (
        18,
        SILENT,
        "out of character, and it commits the same offset",
        QUIET._replace(**WATCHED | {"repeats": 3, "repeated_s": 30.0}),
    ),
    (
        18,
        SILENT,
        "never so quiet in eight days",
        QUIET._replace(watched_s=OBSERVED_ENOUGH_S, moved_s=3601.0, longest_s=1200.0),
    ),
    (26, IDLE, "was added, and is not found yet", STUCK._replace(unassigned=True)),
    (26, IDLE, "a task has it now", STUCK._replace(handed_over=True, moved_s=None, still_s=30.0)),
    (27, STALLED, "was added, and is never found", DONE._replace(unassigned=True, overdue=True)),
    (
        4,
        STALLED,
        "syncs go on without it",
        STUCK._replace(before=SILENT, contradicted="syncs go on"),
    ),
    (22, SILENT, "pauses as it never did", QUIET._replace(moved_s=3601.0, unusual="never so long")),
    (
        20,
        UNKNOWN,
        "pauses as it never did, and we look only now",
        QUIET._replace(unusual="never so long", still_s=30.0),
    ),
    (19, STALLED, "runs again only now", QUIET._replace(before=STALLED, why_s=30.0)),
    (20, UNKNOWN, "nothing tells", QUIET),
    (
        20,
        UNKNOWN,
        "a task has failed, and whose this is nobody knows",
        QUIET._replace(why=FAILED),
    ),
    (
        20,
        UNKNOWN,
        "quiet, and watched for too short",
        QUIET._replace(watched_s=OBSERVED_ENOUGH_S - 1, moved_s=3601.0, longest_s=1200.0),
    ),
    # What stands just on this side, or on that, of a rule's conditions.
    (
        1,
        UNKNOWN,
        "was stalled, moved three intervals ago, and REST is blind",
        QUIET._replace(before=STALLED, moved_s=LONG, unavailable_states="connect_rest x"),
    ),
    (8, OK, "was stalled and moves, and REST is blind", RUNS._replace(**MENDED_UNSEEN)),
    (
        20,
        UNKNOWN,
        "was well, and REST is blind",
        QUIET._replace(unavailable_states="connect_rest x"),
    ),
    (4, STALLED, "was well and has failed just now", STUCK._replace(why=FAILED, why_s=30.0)),
    (
        5,
        SILENT,
        "was stalled, and runs for three intervals",
        STUCK._replace(before=STALLED, why_s=LONG),
    ),
    (5, SILENT, "was well, and its tasks were restarted just now", STUCK._replace(why_s=30.0)),
    (10, IDLE, "nothing waits of what was sure", DONE._replace(sure=True)),
    (10, IDLE, "fell behind, and never moved", DONE._replace(falls_behind=True, moved_s=None)),
    (10, IDLE, "fell behind, and moves no more", DONE._replace(falls_behind=True, moved_s=LONG)),
    (9, OK, "watched for three intervals", DONE._replace(end_still_s=30.0, watched_s=LONG)),
    (11, UNKNOWN, "beyond an end that moves", DONE._replace(ahead=5, end_still_s=30.0)),
    (
        12,
        UNKNOWN,
        "perhaps markers, at an end that stands still",
        STUCK._replace(sure=False, end_still_s=LONG),
    ),
    (14, STALLED, "all tasks failed three intervals ago", QUIET._replace(**ALL_FAILED)),
    (20, UNKNOWN, "all tasks failed just now", QUIET._replace(**ALL_FAILED | {"why_s": SHORT})),
    (20, UNKNOWN, "all failed, moved just now", QUIET._replace(**ALL_FAILED | {"still_s": SHORT})),
    (
        20,
        UNKNOWN,
        "all tasks had failed, and that is not seen any more",
        QUIET._replace(why=None, why_all=True),
    ),
    (15, STALLED, "late for three intervals", QUIET._replace(**LATE)),
    (16, OK, "just not late, and a task has failed", QUIET._replace(**LATE | {"moved_s": LONG})),
    (20, UNKNOWN, "late, and looked at just now", QUIET._replace(**LATE | {"still_s": SHORT})),
    (20, UNKNOWN, "late, and its task failed now", QUIET._replace(**LATE | {"why_s": SHORT})),
    (17, UNKNOWN, "late, and it commits", QUIET._replace(**LATE | {"repeated_s": SHORT})),
    (15, STALLED, "late, and committed long ago", QUIET._replace(**LATE | {"repeated_s": LONG})),
    (20, UNKNOWN, "late, and runs", QUIET._replace(**LATE | {"why": None})),
    (17, UNKNOWN, "committed three intervals ago", QUIET._replace(repeats=3, repeated_s=LONG)),
    (20, UNKNOWN, "committed longer ago", QUIET._replace(repeats=3, repeated_s=LONG + 1)),
    (18, SILENT, "late by patience, its habit is short", QUIET._replace(**WATCHED)),
    (
        20,
        UNKNOWN,
        "as quiet as three times its longest",
        QUIET._replace(**WATCHED | {"moved_s": 3600.0, "longest_s": 1200.0}),
    ),
    (20, UNKNOWN, "moved once in eight days", QUIET._replace(**WATCHED | {"longest_s": 0.0})),
    (20, UNKNOWN, "never moved in eight days", QUIET._replace(**WATCHED | {"moved_s": None})),
    (
        22,
        SILENT,
        "pauses as it never did, watched for three intervals",
        QUIET._replace(unusual="never so long", watched_s=LONG, still_s=LONG),
    ),
    (
        21,
        UNKNOWN,
        "pauses as it never did, and is watched only now",
        QUIET._replace(before=UNKNOWN, unusual="never so long", watched_s=SHORT),
    ),
    (20, UNKNOWN, "runs again for three intervals", QUIET._replace(before=STALLED, why_s=LONG)),
    (20, UNKNOWN, "watched for three intervals, without a head", QUIET._replace(watched_s=LONG)),
    (5, SILENT, "it repeats one offset, and its source has more", REPEATING_SOURCE),
    (
        10,
        IDLE,
        "nothing waits at its source, whatever others write",
        DONE._replace(sourced=True, end_still_s=1.0, still_s=LONG),
    ),
    (
        8,
        OK,
        "nothing waits at its source, and it advanced just now",
        DONE._replace(sourced=True, moved_s=SHORT, still_s=SHORT),
    ),
    (
        11,
        UNKNOWN,
        "beyond the end of its source",
        QUIET._replace(
            sourced=True, ahead=3, unit="bytes", moved_s=LONG + 1, move_interval_s=900.0
        ),
    ),
    (28, OK, "in a snapshot, and it commits", QUIET._replace(in_snapshot=True, repeated_s=1.0)),
    (28, OK, "in a snapshot, and it does not commit", QUIET._replace(in_snapshot=True)),
    (
        14,
        STALLED,
        "in a snapshot, and its task failed",
        QUIET._replace(in_snapshot=True, **ALL_FAILED),
    ),
    (
        29,
        UNKNOWN,
        "its slot is gone",
        QUIET._replace(sourced=True, unusable="no slot", moved_s=1.0),
    ),
    (29, UNKNOWN, "its server is another one", STUCK._replace(sourced=True, unusable="other")),
    (2, PAUSED, "paused, and its slot is gone", QUIET._replace(rests="paused", unusable="no slot")),
    (21, UNKNOWN, "seen only now", VerdictCase(patience_s=LONG, watched_s=30.0, still_s=30.0)),
    (
        21,
        UNKNOWN,
        "seen only now, without a head",
        VerdictCase(patience_s=LONG, headed=False, watched_s=30.0, still_s=30.0),
    ),
]


@pytest.mark.parametrize(
    ("rule", "verdict", "case"),
    [pytest.param(rule, verdict, case, id=words) for rule, verdict, words, case in TABLE],
)
def test_each_case_is_decided_by_its_rule(rule, verdict, case):
    decided = decide_verdict(case)
    assert decided is not None
    assert (decided.rule, decided.verdict) == (rule, verdict)


@pytest.mark.parametrize(
    "number", sorted({rule[0] for rule in (*RULES_WITH_LOG_END, *RULES_WITHOUT_LOG_END)})
)
def test_without_a_rule_a_case_of_its_own_is_decided_otherwise(number, monkeypatch):
    """So that no law is in the table for show."""
    for name, rules in (
        ("RULES_WITH_LOG_END", RULES_WITH_LOG_END),
        ("RULES_WITHOUT_LOG_END", RULES_WITHOUT_LOG_END),
    ):
        remaining = tuple(rule for rule in rules if rule[0] != number)
        monkeypatch.setattr(f"offsetwatch.judge.progress.verdict_rules.{name}", remaining)
    cases = [(verdict, case) for rule, verdict, _, case in TABLE if rule == number]
    assert cases
    assert any(
        (decided := decide_verdict(case)) is None
        or (decided.rule, decided.verdict) != (number, verdict)
        for verdict, case in cases
    )


def test_work_may_wait_for_the_poll_interval_of_its_connector():
    assert decide_verdict(REPEATING_SOURCE._replace(poll_s=1.0)) is None
    later = REPEATING_SOURCE._replace(poll_s=1.0, still_s=LONG + 1, waiting_s=LONG + 1)
    assert decide_verdict(later).verdict is SILENT


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (REPEATING_SOURCE, "and it committed the same offset repeatedly, and no state"),
        (STUCK._replace(sourced=True), "and no state shows a failure"),
        (DONE._replace(sourced=True, still_s=LONG), "at its source, and it has not advanced since"),
        (
            DONE._replace(sourced=True, ahead=3, unit="bytes"),
            "3 bytes beyond the end of its source",
        ),
        (DONE._replace(ahead=3), "3 records beyond the log end"),
        (QUIET._replace(in_snapshot=True), "an initial snapshot is in progress"),
    ],
)
def test_a_reason_names_the_source_and_not_a_log(case, words):
    assert words in decide_verdict(case).reason


@pytest.mark.parametrize("repeated_s", [None, 30.0])
def test_an_offset_that_is_not_there_is_not_called_a_reset(repeated_s):
    decided = decide_verdict(QUIET._replace(placed=False, repeats=8, repeated_s=repeated_s))
    assert decided is not None
    assert decided.rule == 13
    assert "reset" not in decided.reason
    assert ("and commits without one" in decided.reason) is (repeated_s is not None)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(STUCK._replace(before=IDLE, waiting_s=SHORT), id="work came just now"),
        pytest.param(STUCK._replace(before=IDLE, still_s=SHORT), id="moved just now"),
        pytest.param(STUCK._replace(sure=False, waiting_s=SHORT), id="perhaps work, just now"),
        pytest.param(DONE._replace(ahead=3, still_s=SHORT), id="beyond the end just now"),
    ],
)
def test_what_is_shorter_than_three_intervals_changes_nothing(case):
    assert decide_verdict(case) is None or decide_verdict(case).verdict is case.before


def test_every_rule_says_what_it_holds():
    assert sorted(RULE_TEXTS) == list(range(1, len(RULE_TEXTS) + 1))
    for number, words in RULE_TEXTS.items():
        assert words.startswith(f"Rule {number}: ")


@pytest.mark.parametrize(
    ("verdicts", "result"),
    [
        (tuple(Verdict), SILENT),
        ((OK, STALLED, REWOUND), STALLED),
        ((OK, SLOW, REWOUND), REWOUND),
        ((OK, SLOW), SLOW),
        ((UNKNOWN, IDLE, OK), OK),
        ((UNKNOWN, IDLE), UNKNOWN),
        ((PAUSED, IDLE), PAUSED),
        ((UNKNOWN, PAUSED), PAUSED),
        ((REWOUND, HAS_FAILED), HAS_FAILED),
        ((STALLED, HAS_FAILED), STALLED),
        ((), UNKNOWN),
    ],
)
def test_the_worst_partition_speaks_for_its_connector(verdicts, result):
    assert find_worst_verdict(verdicts) is result


@pytest.mark.parametrize(("days", "verdict"), [(1, UNKNOWN), (7, UNKNOWN), (8, SILENT)])
def test_a_source_that_is_watched_for_less_than_eight_days_is_never_out_of_character(days, verdict):
    case = QUIET._replace(watched_s=days * 86_400.0, moved_s=3601.0, longest_s=1200.0)
    decision = decide_verdict(case)
    assert decision is not None
    assert decision.verdict is verdict
