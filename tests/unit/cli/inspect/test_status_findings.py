"""Findings and verdicts as tables."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec import structs

from offsetwatch import documents
from offsetwatch.cli.common.options import config_option
from offsetwatch.cli.inspect import status
from offsetwatch.judge.progress.verdict_rules import RULE_TEXTS
from offsetwatch.model.connectors import Task
from offsetwatch.serve.documents.findings import build_finding_row, build_judgement_row
from offsetwatch.serve.documents.status import encode_status
from offsetwatch.serve.documents.types import ExplainedJudgement
from tests.browser.worlds import many
from tests.changed import replace
from tests.unit.serve.documents.test_findings import FOUND, JUDGED


def test_findings_and_verdicts_are_printed_with_their_evidence(capsys):
    status.print_findings((build_finding_row(FOUND),), "the daemon", complete=True)
    row = ExplainedJudgement(**structs.asdict(build_judgement_row(JUDGED)), rule_text=RULE_TEXTS[5])
    status.print_verdicts((row,), "the daemon")
    printed = " ".join(capsys.readouterr().out.split())
    for part in (
        "lab/mm2 west->east: mm2_silent_stall since 2025-11-21 08:00:00Z",
        "lag: 300 records; states: connector running",
        "west->east silent 2025-11-21 07:43:20Z 5 work waits silent: 1 partition",
        "Rule 5: work waits and nothing advances for three intervals",
    ):
        assert part in printed, printed


def test_nothing_wrong_is_said_too(capsys):
    status.print_findings((), "the daemon", complete=True)
    assert capsys.readouterr().out == "Nothing is found wrong, by the daemon\n"
    status.print_findings((), "the daemon", complete=False)
    assert capsys.readouterr().out == "Nothing is found wrong in what was read, by the daemon\n"


def test_the_next_command_is_a_line_of_its_own_and_has_the_file_that_was_typed(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    row = structs.replace(
        build_finding_row(FOUND), next_command="offsetwatch explain mm2 --connect lab"
    )

    @click.command()
    @config_option
    def printed(config_path: Path) -> None:
        status.print_findings((row,), f"{config_path}", complete=True)

    monkeypatch.setenv("OFFSETWATCH_CONFIG", "c.yaml")
    for arguments, more in ((["-c", "a b.yaml"], " --config 'a b.yaml'"), ([], "")):
        printed.main(arguments, standalone_mode=False)
        lines = capsys.readouterr().out.splitlines()
        assert f"next: offsetwatch explain mm2 --connect lab{more}" in [
            line.strip() for line in lines
        ]


def test_of_two_thousand_connectors_the_failed_ones_come_first_and_the_others_are_counted(capsys):
    count, failed = 2000, 40
    snapshot = many(count)
    connectors = tuple(
        replace(connector, tasks=(Task(0, "failed"),)) if number % 50 == 7 else connector
        for number, connector in enumerate(snapshot.connectors)
    )
    body = encode_status(replace(snapshot, connectors=connectors))
    status._print_tables(documents.decode(body, status.StatusDocument), "none")
    lines = capsys.readouterr().out.splitlines()
    rows = lines[2 : 2 + status.ROWS_MAX]
    assert [" FAILED " in row for row in rows] == [number < failed for number in range(len(rows))]
    assert lines[2 + status.ROWS_MAX] == (
        "1940 more connectors, none of them more urgent: -o json has all"
    )
    assert "1940 more source partitions, none of them more urgent: -o json has all" in lines
    assert len(lines) < 3 * status.ROWS_MAX


def test_of_many_findings_the_first_are_printed_and_all_are_counted(capsys):
    rows = [build_finding_row(FOUND)] * (status.FINDINGS_PRINTED_MAX + 1)
    status.print_findings(rows, "the daemon", complete=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Findings ({len(rows)} critical), by the daemon"
    assert lines[-1] == "1 more finding, none of them more severe: -o json has them"
    assert sum(line.startswith("critical") for line in lines) == status.FINDINGS_PRINTED_MAX
