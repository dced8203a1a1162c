"""Texts that change although nothing changes but the clock: an age, or a count of looks, in one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy

from offsetwatch.judge.judge import SnapshotJudge
from offsetwatch.model.findings import Finding, FindingName, Judgement, Scope, Severity, Verdict
from offsetwatch.state.snapshot import Snapshot
from tests.changed import replace

LOOKS = 21
APART_S = 60.0  # an interval: a hole between two looks is not watched
FIRST = 2  # looks, after which all is judged by the state that is held
SETTLED = 10  # looks, after which ten minutes are left: patience is over, and verdicts stay

State = tuple[str, ...]
Kind = tuple[FindingName, Severity] | tuple[Verdict, int]


class Steadiness:
    """Holds time still at the first finding and verdict of each kind in a story, and goes on from
    there with what is seen at that moment.
    """

    def __init__(self) -> None:
        self._known: set[Kind] = set()
        self.mistakes: list[str] = []

    def compare(self, judge: SnapshotJudge, snapshot: Snapshot) -> None:
        """Look at what a daemon shows, and what its judge would say to the same later."""
        results = {*((finding.name, finding.severity) for finding in snapshot.findings)}
        kinds: set[Kind] = {
            *results,
            *((judgement.verdict, judgement.rule) for judgement in snapshot.judgements),
        }
        if kinds <= self._known:
            return
        self._known |= kinds
        aside = deepcopy(judge)
        self.mistakes += unsteady(aside.judged, snapshot)


def unsteady(judged: Callable[[Snapshot], Snapshot], snapshot: Snapshot) -> list[str]:
    """Look at one state again and again, and return the texts that differ from one look to another,
    or in ten minutes.
    """
    texts: dict[State, str] = {}
    results: dict[State, str] = {}
    for number in range(LOOKS):
        observed = judged(replace(snapshot, at=snapshot.at + number * APART_S))
        for state, text in _texts(observed) if number >= FIRST else ():
            results.setdefault((*state, text), f"{' '.join(state)}: {texts.get(state)!r}, {text!r}")
            texts.setdefault(state, text)
        if number == SETTLED:
            texts |= {("settled", *finding.key): _whole(finding) for finding in observed.findings}
    last = {("settled", *finding.key): _whole(finding) for finding in observed.findings}
    changed = [text for state, text in results.items() if texts[state[:-1]] != state[-1]]
    return changed + [
        f"{' '.join(state)}: {texts[state]!r}, {text!r}"
        for state, text in last.items()
        if texts.get(state, text) != text
    ]


def _texts(snapshot: Snapshot) -> Iterator[tuple[State, str]]:
    """Return the sentences, by all that they may depend on."""
    rules: dict[tuple[str, str | None], State] = {}
    for judgement in snapshot.judgements:
        if judgement.scope is Scope.CONNECTOR:
            rules[judgement.connect_cluster, judgement.connector] = _state(judgement)
        yield _state(judgement), judgement.reason
    for finding in snapshot.findings:
        of = rules.get((finding.connect_cluster, finding.connector), ())
        yield (*finding.key, finding.severity.value, *of), finding.summary


def _state(judgement: Judgement) -> State:
    return (
        judgement.scope,
        judgement.connect_cluster,
        judgement.connector,
        judgement.subject,
        judgement.verdict,
        str(judgement.rule),
    )


def _whole(finding: Finding) -> str:
    return f"{finding.severity} {finding.summary} {finding.evidence}"
