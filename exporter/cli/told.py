"""Verdicts for a verb: of the daemon that watches, or of what it remembered when it last ran.

A verdict needs three intervals of watching and a catch-up is one look. So the daemon that this
configuration names is asked first; without it, the look goes on from `state_dir`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Final

from exporter.cli import output
from exporter.cli.remote import own_daemon
from exporter.config import Config
from exporter.daemon import state_dir
from exporter.errors import ClientError, ConfigError
from exporter.judge.verdicts import LAWS
from exporter.model.findings import FINDINGS_MAX, Evidence, Finding, Judgement, Scope, Severity
from exporter.serve.findings import Told, read, told
from exporter.state.snapshot import Snapshot

ASK_S: Final = 3.0
LOUD: Final = frozenset({Severity.CRITICAL, Severity.WARNING})


@dataclass(frozen=True, slots=True)
class Judged:
    """A snapshot with the best verdicts there are, the document they came in, and who told them."""

    snapshot: Snapshot
    document: Told
    by: str

    @property
    def loud(self) -> bool:
        """Is anything found that somebody should do something about?"""
        return any(at.severity in LOUD for at in self.snapshot.findings)


def judged(config: Config, snapshot: Snapshot) -> Judged:
    """See the module."""
    where = own_daemon.address(config)
    answer = _asked(config)
    if answer is not None and answer.ready and _of_the_same(answer, snapshot):
        return Judged(
            snapshot=replace(snapshot, findings=answer.found(), judgements=answer.judged()),
            document=answer,
            by=f"the daemon on {where}, as of {output.moment(answer.at)}",
        )
    folder = Path(config.state_dir).resolve()
    if state_dir.read(folder, "judge") is not None:
        by = f"this look, going on from what a daemon remembered in {folder}"
    else:
        by = (
            f"this look alone: no daemon answers on {where} and none left anything in {folder}. "
            "A verdict needs three intervals of watching"
        )
    return Judged(snapshot=snapshot, document=told(snapshot), by=by)


def _asked(config: Config) -> Told | None:
    try:
        answer = own_daemon.get(config, "/api/v1/findings", ASK_S)
    except (ClientError, ConfigError):
        return None
    return read(answer.body) if answer.status == HTTPStatus.OK else None


def _of_the_same(answer: Told, snapshot: Snapshot) -> bool:
    """Whoever answers there may watch something else."""
    here = {(at.connect_cluster, at.name) for at in snapshot.connectors}
    here |= {(at.connect_cluster, at.connector) for at in snapshot.source_partitions}
    there = {(at.connect_cluster, at.connector) for at in answer.judgements}
    return not here or not here.isdisjoint(there)


# --- printing ------------------------------------------------------------------------------------


def print_findings(found: tuple[Finding, ...], by: str, left_out: int = 0) -> None:
    """What is wrong, the worst first, each with what shows it."""
    output.table(
        f"Findings, by {by}" if found else f"Nothing is found wrong, by {by}",
        ("severity", "finding", "of", "since", "what", "evidence"),
        (
            (
                at.severity.value,
                at.name.value,
                _of(at),
                output.moment(at.since),
                at.summary,
                evidence(at.evidence),
            )
            for at in found
        ),
    )
    if left_out:
        output.error(
            f"{left_out} more findings, none of them more severe, are not listed: a document lists "
            f"{FINDINGS_MAX} of them; offsetwatch_findings counts all"
        )


def evidence(shown: Evidence) -> str:
    """On one line."""
    return "; ".join(f"{what}: {how_much}" for what, how_much in shown)


def print_verdicts(judgements: tuple[Judgement, ...], by: str) -> None:
    """Of one connector: how it goes, by which law, and what that rests on."""
    output.table(
        f"Verdicts, by {by}",
        ("of", "verdict", "since", "law#", "why", "evidence"),
        (
            (
                at.subject or at.scope.value,
                at.verdict.value,
                output.moment(at.since),
                at.rule or None,
                at.reason,
                evidence(at.evidence),
            )
            for at in judgements
        ),
    )
    laws = sorted({at.rule for at in judgements if at.rule in LAWS})
    output.table("Laws", ("",), ((LAWS[number],) for number in laws))


def verdicts(judgements: tuple[Judgement, ...]) -> dict[tuple[Scope, str, str, str], str]:
    """(scope, Connect cluster, connector, subject) -> the verdict, for a column of a table."""
    return {
        (at.scope, at.connect_cluster, at.connector, at.subject): at.verdict.value
        for at in judgements
    }


def of_connector(
    snapshot: Snapshot, cluster: str, connector: str
) -> tuple[tuple[Judgement, ...], tuple[Finding, ...]]:
    """What is judged and found of one connector."""
    mine: Iterator[Judgement] = (
        at
        for at in snapshot.judgements
        if (at.connect_cluster, at.connector) == (cluster, connector)
    )
    found = (
        at for at in snapshot.findings if (at.connect_cluster, at.connector) == (cluster, connector)
    )
    return tuple(mine), tuple(found)


def _of(finding: Finding) -> str:
    name = finding.connect_cluster
    if finding.connector is not None:
        name = f"{name}/{finding.connector}"
    return f"{name} {finding.subject}".strip()
