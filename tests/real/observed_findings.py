"""What the tests of acted incidents see: every answer of /api/v1/findings, and what was in it when.

A story is told between two moments without findings. What appears meanwhile and was not expected,
warnings and worse, fails it, however short it was there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from lab import Lab
from lab.faults.recording_proxy import Recorder
from lab.http import NO_AUTHORITIES
from lab.moments import seconds
from lab.product.offsetwatch import Product
from lab.stories import Flow, begin, end
from lab.waiting import NotYet, until
from tests.real.daemon_series import becomes

# Connect's flush interval in these labs is a second, so three of these are three flushes and more.
INTERVAL_S = 3.0
LASTS_LONGER_S_MAX = 150.0
POLL_S = 0.2
VISIBLE_S_MAX = 120.0
CLEARED_S_MAX = 120.0
MATTERS = ("critical", "warning")

Found = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FindingsAnswer:
    """One answer: when it came, when the daemon judged so, whether it called itself ready, what was
    found.
    """

    at: float
    judged_at: float
    ready: bool
    findings: tuple[Found, ...]


class Lookout:
    """Asks for the findings five times a second and keeps every answer; no answer is none."""

    def __init__(self, url: str) -> None:
        self.sights: list[FindingsAnswer] = []
        self._url = f"{url}/api/v1/findings"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        with httpx.Client(trust_env=False, timeout=5.0, verify=NO_AUTHORITIES) as client:
            while not self._ended.wait(POLL_S):
                try:
                    answer = client.get(self._url)
                except httpx.TransportError:
                    continue
                if answer.status_code == httpx.codes.OK:
                    document = answer.json()
                    findings = tuple(document["findings"])
                    observed = FindingsAnswer(
                        time.time(), seconds(document["at"]), document["ready"], findings
                    )
                    self.sights.append(observed)


@dataclass(frozen=True, slots=True)
class Stage:
    """A lab, its daemon with a recorder before Connect, and a lookout; for all stories of a run."""

    lab: Lab
    product: Product
    lookout: Lookout
    recorder: Recorder

    @contextmanager
    def flow(
        self, name: str, *, records: int = 30, config: Mapping[str, str] | None = None
    ) -> Iterator[Flow]:
        """A flow of a story's own that has copied its first records, all known to the daemon."""
        flow = Flow(self.lab, name)
        begin(flow, records=records, config=config)
        try:
            where = {"topic": flow.topic, "partition": "0"}
            becomes(self.product, records - 1, "mm2_offset_sync_upstream_offset", **where)
            becomes(self.product, records - 1, "mm2_replicated_offset", **where)
            becomes(self.product, 0, "mm2_replication_lag_records", **where)
            yield flow
        finally:
            end(flow)

    @contextmanager
    def story(self, *expected: str, also: tuple[str, ...] = ()) -> Iterator[Story]:
        """Expect these findings and no other ones, and that nothing is left of them in the end.

        Each as `named` names it. Those in `also` may come with them: they say of the same incident
        what is true as well.
        """
        report = Story(
            stage=self,
            expected=frozenset(expected),
            also=frozenset(also),
            begun_at=time.time(),
        )
        yield report
        report.cleared()
        assert not (others := report.unexpected()), "\n".join(others)
        assert not (missing := report.expected - report.appeared()), missing


@dataclass(slots=True)
class Story:
    """One incident under watch."""

    stage: Stage
    expected: frozenset[str]
    also: frozenset[str]
    begun_at: float

    def await_finding(self, required: str, moment: float) -> Found:
        """Wait for a finding. How many intervals it took is told; tests/scenarios, whose clock is
        their own, holds it to three.
        """

        def probe() -> tuple[float, Found]:
            for visibility in self.answers_since(moment):
                for finding in visibility.findings:
                    if named(finding) == required:
                        return visibility.at, finding
            raise NotYet(f"found: {self._now()}")

        observed_at, finding = until(
            required, probe, timeout_s=VISIBLE_S_MAX, evidence=self.stage.product.evidence
        )
        delay_s = observed_at - moment
        _report_line(
            f"{required}: after {delay_s:.1f} s, {delay_s / INTERVAL_S:.1f} intervals: {finding}"
        )
        return finding

    def cleared(self) -> float:
        """Wait until nothing that was expected here is found any more: after how many seconds."""
        since = time.time()

        def probe() -> float:
            now = self.answers_since(since)
            if not now or not now[-1].ready:
                raise NotYet("no answer since")
            remaining = {named(finding) for finding in now[-1].findings} & (
                self.expected | self.also
            )
            if remaining:
                raise NotYet(f"left: {remaining}")
            return now[-1].at

        cleared_at = until(
            "all clear", probe, timeout_s=CLEARED_S_MAX, evidence=self.stage.product.evidence
        )
        _report_line(f"clear after {cleared_at - since:.1f} s: {sorted(self.expected)}")
        return cleared_at - since

    def lasts(self, seconds: float) -> None:
        """Watch until the daemon has judged for so long, on a machine however busy."""
        begun = time.time()

        def probe() -> None:
            watched = [
                visibility.judged_at for visibility in self.answers_since(begun) if visibility.ready
            ]
            watched_s = max(watched) - min(watched) if watched else 0.0
            if watched_s < seconds:
                raise NotYet(f"{watched_s:.0f} s in {len(watched)} answers")

        until(f"{seconds:.0f} s under watch", probe, timeout_s=seconds + LASTS_LONGER_S_MAX)

    def appeared(self) -> set[str]:
        """All that was found since the story began."""
        return {
            named(finding)
            for visibility in self.answers_since(self.begun_at)
            for finding in visibility.findings
        }

    def unexpected(self) -> list[str]:
        """What was found meanwhile and matters, each once, as it was first seen."""
        others: dict[str, str] = {}
        known = self.expected | self.also
        for visibility in self.answers_since(self.begun_at):
            for finding in visibility.findings:
                if named(finding) not in known and finding["severity"] in MATTERS:
                    late_s = visibility.at - self.begun_at
                    others.setdefault(named(finding), f"after {late_s:.1f} s: {finding}")
        return list(others.values())

    def answers_since(self, since: float) -> list[FindingsAnswer]:
        """All answers from then on."""
        return [
            visibility for visibility in tuple(self.stage.lookout.sights) if visibility.at >= since
        ]

    def _now(self) -> list[Found]:
        sights = self.stage.lookout.sights
        return list(sights[-1].findings) if sights else []


def named(finding: Found) -> str:
    """`name connector`, or `name subject` of what belongs to no single connector."""
    return f"{finding['name']} {finding['connector'] or finding['subject']}"


def said(finding: Found) -> str:
    """Everything that a finding says to a person, in one text."""
    return f"{finding['subject']} | {finding['summary']} | {finding['evidence']}"


def _report_line(line: str) -> None:
    """How soon each was found is a result; pytest shows it with -rP."""
    print(line)  # noqa: T201 - for people
