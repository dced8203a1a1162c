"""Findings and verdicts as tables."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec import structs

from offsetwatch.cli.common.options import config_option
from offsetwatch.cli.inspect import status
from offsetwatch.serve.documents.findings import build_finding_row, build_judgement_row
from tests.unit.serve.documents.test_findings import FOUND, JUDGED


def test_findings_and_verdicts_are_printed_with_their_evidence(capsys):
    status.print_findings((build_finding_row(FOUND),), "the daemon")
    status.print_verdicts((build_judgement_row(JUDGED),), "the daemon")
    printed = " ".join(capsys.readouterr().out.split())
    for part in (
        "lab/mm2 west->east: mm2_silent_stall since 2025-11-21 08:00:00Z",
        "lag: 300 records; states: connector running",
        "west->east silent 2025-11-21 07:43:20Z 5 work waits silent: 1 partition",
        "Rule 5: work waits and nothing advances for three intervals",
    ):
        assert part in printed, printed


def test_nothing_wrong_is_said_too(capsys):
    status.print_findings((), "the daemon")
    assert capsys.readouterr().out == "Nothing is found wrong, by the daemon\n"


def test_the_next_command_is_a_line_of_its_own_and_has_the_file_that_was_typed(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    row = structs.replace(
        build_finding_row(FOUND), next_command="offsetwatch explain mm2 --connect lab"
    )

    @click.command()
    @config_option
    def printed(config_path: Path) -> None:
        status.print_findings((row,), f"{config_path}")

    monkeypatch.setenv("OFFSETWATCH_CONFIG", "c.yaml")
    for arguments, more in ((["-c", "a b.yaml"], " --config 'a b.yaml'"), ([], "")):
        printed.main(arguments, standalone_mode=False)
        lines = capsys.readouterr().out.splitlines()
        assert f"next: offsetwatch explain mm2 --connect lab{more}" in [
            line.strip() for line in lines
        ]
