"""expectation.yaml against what was found: which findings and verdicts, when they came and went.

Whatever is found and not expected is a failure of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from offsetwatch.model.findings import Finding, FindingName, Scope, Severity, Verdict, format_item
from offsetwatch.state.snapshot import Snapshot
from tests.scenarios.script import BEGINNING, ScriptError, moments, only, seconds, several

FOREVER = float("inf")


@dataclass
class Span:
    """Something that was so from one moment to another; `seen` is its newest state, `worst` the
    worst severity that it had.
    """

    since: float
    until: float
    seen: Any
    summaries: list[str] = field(default_factory=list)
    severities: list[Severity] = field(default_factory=list)

    def __str__(self) -> str:
        until = "the end" if self.until == FOREVER else clock(self.until)
        return f"{clock(self.since)} to {until}"


def clock(at: float) -> str:
    """Since the beginning, as it is written."""
    hours, rest = divmod(round(at), 3600)
    return f"{hours}h{rest // 60}m{rest % 60}s" if hours else f"{rest // 60}m{rest % 60}s"


@dataclass
class History:
    """What was found over the time of a story."""

    findings: dict[tuple[str, ...], list[Span]] = field(default_factory=dict)
    verdicts: dict[tuple[str, ...], list[tuple[float, Verdict]]] = field(default_factory=dict)
    rereads: dict[tuple[str, str], list[tuple[float, int | None]]] = field(default_factory=dict)
    last: Snapshot | None = None

    def look(self, snapshot: Snapshot) -> None:
        now = snapshot.at - BEGINNING
        standing = {finding.key: finding for finding in snapshot.findings}
        for key, finding in standing.items():
            spans = self.findings.setdefault(key, [])
            if not spans or spans[-1].until != FOREVER:
                spans.append(Span(now, FOREVER, finding))
            span = spans[-1]
            span.seen = finding
            if finding.severity not in span.severities:
                span.severities.append(finding.severity)
            text = _text(finding)
            if not span.summaries or span.summaries[-1] != text:
                span.summaries.append(text)
        explained = {
            (name.value, *key[1:3]) for key, at in standing.items() for name in at.explains
        }
        for key, spans in self.findings.items():
            if key not in standing and key[:3] not in explained and spans[-1].until == FOREVER:
                spans[-1].until = now
        for judged in snapshot.judgements:
            subject = judged.subject if judged.scope is not Scope.CONNECTOR else ""
            of = (judged.connect_cluster, judged.connector, judged.scope.value, subject)
            told = self.verdicts.setdefault(of, [])
            if not told or told[-1][1] is not judged.verdict:
                told.append((now, judged.verdict))
        for group in snapshot.groups:
            where = (group.group, f"{group.topic}-{group.partition}")
            self.rereads.setdefault(where, []).append((now, group.reread))
        self.last = snapshot


def _text(finding: Finding) -> str:
    evidence = "; ".join(map(format_item, finding.evidence))
    return f"{finding.summary} [{evidence}]"


def mistakes(told: Any, history: History) -> Iterator[str]:
    """Everything in which a story went otherwise than expected."""
    told = only(
        "expectation.yaml", told, "about", "found", "tolerated", "verdicts", "never", "rereads"
    )
    unexpected = {
        (key, number) for key, at in history.findings.items() for number in range(len(at))
    }
    for number, expected in enumerate(told.get("found", [])):
        yield from _found(f"found[{number}]", expected, history, unexpected)
    tolerated = {_name(name) for name in several(told.get("tolerated", []))}
    for key, number in sorted(unexpected):
        span = history.findings[key][number]
        if key[0] not in tolerated:
            yield f"not expected: {' '.join(key)} ({span}): {span.summaries[-1]}"
    for number, expected in enumerate(told.get("verdicts", [])):
        yield from _verdict(f"verdicts[{number}]", expected, history)
    for number, expected in enumerate(told.get("never", [])):
        yield from _never(f"never[{number}]", expected, history)
    for number, expected in enumerate(told.get("rereads", [])):
        yield from _rereads(f"rereads[{number}]", expected, history)


def _name(text: str) -> str:
    try:
        return FindingName(text).value
    except ValueError:
        raise ScriptError(f"there is no finding {text!r}") from None


def _found(
    where: str, told: Any, history: History, unexpected: set[tuple[tuple[str, ...], int]]
) -> Iterator[str]:
    given = only(
        where,
        told,
        "finding",
        "cluster",
        "connector",
        "subject",
        "severity",
        "comes",
        "goes",
        "says",
        "times",
    )
    name = _name(given["finding"])
    comes, goes = moments(given["comes"]), moments(given["goes"]) if "goes" in given else None
    found = [
        (key, number)
        for key, spans in history.findings.items()
        for number, span in enumerate(spans)
        if key[0] == name
        and given.get("cluster", key[1]) == key[1]
        and given.get("connector", key[2]) == key[2]
        and given.get("subject", key[3]) == key[3]
        and (key, number) in unexpected
    ]
    fits = [at for at in found if _fits(given, history.findings[at[0]][at[1]], comes, goes)]
    unexpected.difference_update(fits)
    if len(fits) == given.get("times", 1):
        return
    seen = [
        f"{' '.join(key)} from {history.findings[key][number]}"
        f" {[at.value for at in history.findings[key][number].severities]}"
        f" {history.findings[key][number].summaries[-1]}"
        for key, number in found
    ]
    unexpected.difference_update(found)
    yield f"{where}: {dict(given)}: {len(fits)} fit; there is {seen or 'none of that name'}"


def _fits(
    given: Any, span: Span, comes: tuple[float, float], goes: tuple[float, float] | None
) -> bool:
    severity = given.get("severity")
    ends = span.until == FOREVER if goes is None else goes[0] <= span.until <= goes[1]
    return (
        comes[0] <= span.since <= comes[1]
        and ends
        and (severity is None or Severity(severity) in span.severities)
        and all(
            any(words in text for text in span.summaries)
            for words in several(given.get("says", []))
        )
    )


def _verdict(where: str, told: Any, history: History) -> Iterator[str]:
    """At one moment a verdict must be this one; `of` is a connector, a flow or a partition."""
    given = only(where, told, "of", "cluster", "at", "is")
    wanted = {Verdict(text) for text in several(given["is"])}
    for moment in several(given["at"]):
        first, last = moments(moment)
        for found, since in _verdicts(history, given, first, last):
            if found not in wanted:
                yield f"{where}: {given['of']} is {found} from {clock(since)}, within {moment}"


def _verdicts(
    history: History, given: Any, first: float, last: float
) -> Iterator[tuple[Verdict | None, float]]:
    connector, _, subject = str(given["of"]).partition(" ")
    for (cluster, name, _, about), told in history.verdicts.items():
        if (cluster, name, about) == (given.get("cluster", "lab"), connector, subject):
            before = [at for at in told if at[0] <= first]
            spans = [*before[-1:], *(at for at in told if first < at[0] < last)]
            yield from ((verdict, since) for since, verdict in spans or [(first, None)])
            return
    yield None, first


def _never(where: str, told: Any, history: History) -> Iterator[str]:
    """A verdict that nothing may ever have."""
    given = only(where, told, "verdict")
    wanted = {Verdict(text) for text in several(given["verdict"])}
    for of, spans in history.verdicts.items():
        for since, verdict in spans:
            if verdict in wanted:
                yield f"{where}: {' '.join(of)} is {verdict} from {clock(since)}"


def _rereads(where: str, told: Any, history: History) -> Iterator[str]:
    """What a group would read again if it moved to the target then."""
    given = only(where, told, "group", "topic", "at", "records")
    first, _, last = str(given["records"]).partition("..")
    at = seconds(given["at"])
    seen = history.rereads.get((given["group"], given["topic"]), [])
    found = next((records for now, records in seen if now >= at), None)
    if found is None or not int(first) <= found <= int(last or first):
        yield f"{where}: {dict(given)}: {found}"
