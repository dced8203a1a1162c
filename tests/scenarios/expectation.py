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
    """A finding from one moment to another, with every summary and severity that it had."""

    since: float
    until: float
    summaries: list[str] = field(default_factory=list)
    severities: list[Severity] = field(default_factory=list)

    def __str__(self) -> str:
        until = "the end" if self.until == FOREVER else clock(self.until)
        return f"{clock(self.since)} to {until}"


def clock(moment: float) -> str:
    """Since the beginning, as it is written."""
    hours, rest = divmod(round(moment), 3600)
    return f"{hours}h{rest // 60}m{rest % 60}s" if hours else f"{rest // 60}m{rest % 60}s"


@dataclass
class History:
    """What was found over the time of a story."""

    findings: dict[tuple[str, ...], list[Span]] = field(default_factory=dict)
    verdicts: dict[tuple[str, ...], list[tuple[float, Verdict]]] = field(default_factory=dict)
    rereads: dict[tuple[str, str], list[tuple[float, int | None]]] = field(default_factory=dict)
    last: Snapshot | None = None

    def record(self, snapshot: Snapshot) -> None:
        now = snapshot.at - BEGINNING
        statuses = {finding.key: finding for finding in snapshot.findings}
        for key, finding in statuses.items():
            spans = self.findings.setdefault(key, [])
            if not spans or spans[-1].until != FOREVER:
                spans.append(Span(now, FOREVER))
            span = spans[-1]
            if finding.severity not in span.severities:
                span.severities.append(finding.severity)
            text = _text(finding)
            if not span.summaries or span.summaries[-1] != text:
                span.summaries.append(text)
        explained = {
            (name.value, *key[1:3]) for key, result in statuses.items() for name in result.explains
        }
        for key, spans in self.findings.items():
            if key not in statuses and key[:3] not in explained and spans[-1].until == FOREVER:
                spans[-1].until = now
        for judged in snapshot.judgements:
            subject = judged.subject if judged.scope is not Scope.CONNECTOR else ""
            of = (judged.connect_cluster, judged.connector, judged.scope.value, subject)
            report = self.verdicts.setdefault(of, [])
            if not report or report[-1][1] is not judged.verdict:
                report.append((now, judged.verdict))
        for group in snapshot.groups:
            where = (group.group, f"{group.topic}-{group.partition}")
            self.rereads.setdefault(where, []).append((now, group.reread))
        self.last = snapshot


def _text(finding: Finding) -> str:
    evidence = "; ".join(map(format_item, finding.evidence))
    return f"{finding.summary} [{evidence}]"


def mistakes(finding: Any, history: History) -> Iterator[str]:
    """Everything in which a story went otherwise than expected."""
    finding = only(
        "expectation.yaml", finding, "about", "found", "tolerated", "verdicts", "never", "rereads"
    )
    unexpected = {
        (key, number) for key, group in history.findings.items() for number in range(len(group))
    }
    for number, expected in enumerate(finding.get("found", [])):
        yield from _check_finding(f"found[{number}]", expected, history, unexpected)
    tolerated = {_name(name) for name in several(finding.get("tolerated", []))}
    for key, number in sorted(unexpected):
        span = history.findings[key][number]
        if key[0] not in tolerated:
            yield f"not expected: {' '.join(key)} ({span}): {span.summaries[-1]}"
    for number, expected in enumerate(finding.get("verdicts", [])):
        yield from _verdict(f"verdicts[{number}]", expected, history)
    for number, expected in enumerate(finding.get("never", [])):
        yield from _never(f"never[{number}]", expected, history)
    for number, expected in enumerate(finding.get("rereads", [])):
        yield from _rereads(f"rereads[{number}]", expected, history)


def _name(text: str) -> str:
    try:
        return FindingName(text).value
    except ValueError:
        raise ScriptError(f"there is no finding {text!r}") from None


def _check_finding(
    where: str, report: Any, history: History, unexpected: set[tuple[tuple[str, ...], int]]
) -> Iterator[str]:
    inputs = only(
        where,
        report,
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
    name = _name(inputs["finding"])
    comes, goes = moments(inputs["comes"]), moments(inputs["goes"]) if "goes" in inputs else None
    results = [
        (key, number)
        for key, spans in history.findings.items()
        for number, span in enumerate(spans)
        if key[0] == name
        and inputs.get("cluster", key[1]) == key[1]
        and inputs.get("connector", key[2]) == key[2]
        and inputs.get("subject", key[3]) == key[3]
        and (key, number) in unexpected
    ]
    fits = [
        item for item in results if _fits(inputs, history.findings[item[0]][item[1]], comes, goes)
    ]
    unexpected.difference_update(fits)
    if len(fits) == inputs.get("times", 1):
        return
    observed = [
        f"{' '.join(key)} from {history.findings[key][number]}"
        f" {[severity.value for severity in history.findings[key][number].severities]}"
        f" {history.findings[key][number].summaries[-1]}"
        for key, number in results
    ]
    unexpected.difference_update(results)
    yield f"{where}: {dict(inputs)}: {len(fits)} fit; there is {observed or 'none of that name'}"


def _fits(
    inputs: Any, span: Span, comes: tuple[float, float], goes: tuple[float, float] | None
) -> bool:
    severity = inputs.get("severity")
    ends = span.until == FOREVER if goes is None else goes[0] <= span.until <= goes[1]
    return (
        comes[0] <= span.since <= comes[1]
        and ends
        and (severity is None or Severity(severity) in span.severities)
        and all(
            any(words in text for text in span.summaries)
            for words in several(inputs.get("says", []))
        )
    )


def _verdict(where: str, report: Any, history: History) -> Iterator[str]:
    """At one moment a verdict must be this one; `of` is a connector, a flow or a partition."""
    inputs = only(where, report, "of", "cluster", "at", "is")
    expected = {Verdict(text) for text in several(inputs["is"])}
    for moment in several(inputs["at"]):
        first, last = moments(moment)
        for verdict, since in _verdicts(history, inputs, first, last):
            if verdict not in expected:
                yield f"{where}: {inputs['of']} is {verdict} from {clock(since)}, within {moment}"


def _verdicts(
    history: History, inputs: Any, first: float, last: float
) -> Iterator[tuple[Verdict | None, float]]:
    connector, _, subject = str(inputs["of"]).partition(" ")
    for (cluster, name, _, about), report in history.verdicts.items():
        if (cluster, name, about) == (inputs.get("cluster", "lab"), connector, subject):
            before = [item for item in report if item[0] <= first]
            spans = [*before[-1:], *(item for item in report if first < item[0] < last)]
            yield from ((verdict, since) for since, verdict in spans or [(first, None)])
            return
    yield None, first


def _never(where: str, report: Any, history: History) -> Iterator[str]:
    """A verdict that nothing may ever have."""
    inputs = only(where, report, "verdict")
    expected = {Verdict(text) for text in several(inputs["verdict"])}
    for of, spans in history.verdicts.items():
        for since, verdict in spans:
            if verdict in expected:
                yield f"{where}: {' '.join(of)} is {verdict} from {clock(since)}"


def _rereads(where: str, report: Any, history: History) -> Iterator[str]:
    """What a group would read again if it moved to the target then."""
    inputs = only(where, report, "group", "topic", "at", "records")
    first, _, last = str(inputs["records"]).partition("..")
    moment = seconds(inputs["at"])
    observed = history.rereads.get((inputs["group"], inputs["topic"]), [])
    entry = next((records for now, records in observed if now >= moment), None)
    if entry is None or not int(first) <= entry <= int(last or first):
        yield f"{where}: {dict(inputs)}: {entry}"
