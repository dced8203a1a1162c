"""What classify says of the corpus, and how much of what is a record's fault it sees."""

from __future__ import annotations

from collections import Counter

import pytest

from offsetwatch.remedy.classify import SKIPPABLE, FailureKind
from tests.corpus.cases import CORPUS

POISON = [case for case in CORPUS if case.is_poison]


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_a_trace_is_what_its_label_says(case):
    result = case.classified()
    assert (result.kind, result.stage) == (case.says, case.stage)


def test_nothing_that_forbids_is_taken_for_a_records_fault():
    others = [case for case in CORPUS if not case.is_poison]
    assert len(others) >= 200
    assert [case.name for case in others if case.classified().kind in SKIPPABLE] == []


def test_what_forbids_is_said_and_what_does_not_is_not():
    for case in CORPUS:
        failure = case.classified()
        assert failure.veto in {None, failure.kind}, case.name
        assert failure.veto not in SKIPPABLE, case.name


def test_every_kind_of_failure_is_in_the_corpus_and_no_trace_is_twice():
    assert len(CORPUS) >= 300
    assert {case.truth for case in CORPUS} == set(FailureKind)
    assert len({case.name for case in CORPUS}) == len(CORPUS)
    assert len({(case.trace, case.listed) for case in CORPUS}) == len(CORPUS)


def test_most_of_what_is_a_records_fault_is_seen_as_such():
    observed = [case for case in POISON if case.classified().kind in SKIPPABLE]
    by_truth = Counter(case.truth for case in CORPUS)
    reports = [f"{len(CORPUS)} traces, {len(POISON)} of them one record's fault"]
    for kind in FailureKind:
        known = sum(case.truth is kind for case in observed)
        reports.append(f"{kind:16}{by_truth[kind]:4}" + f", {known} seen" * (kind in SKIPPABLE))
    reports.append(
        f"recall {len(observed) / len(POISON):.3f}, and none of the others taken for one"
    )
    print("\n".join(reports))  # noqa: T201 - what `pytest -rP` is for
    assert len(observed) / len(POISON) >= 0.8


def test_without_a_list_no_failure_in_a_sink_is_a_records_fault():
    for case in CORPUS:
        if case.stage == "put":
            failure = type(case)(
                case.name, case.trace, case.truth, case.says, case.stage, frozenset()
            ).classified()
            assert failure.kind not in SKIPPABLE, case.name
