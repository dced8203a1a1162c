"""Findings and verdicts as tables."""

from __future__ import annotations

from exporter.cli import told
from exporter.serve.findings import finding_row, judgement_row
from tests.unit.serve.test_findings import FOUND, JUDGED


def test_findings_and_verdicts_are_printed_with_their_evidence(capsys):
    told.print_findings((finding_row(FOUND),), "the daemon")
    told.print_verdicts((judgement_row(JUDGED),), "the daemon")
    printed = " ".join(capsys.readouterr().out.split())
    for part in (
        "critical mm2_silent_stall lab/mm2 west->east 2025-11-21 08:00:00Z",
        "lag: 300 records; states: connector running",
        "west->east silent 2025-11-21 07:43:20Z 5 work waits silent: 1 partition",
        "Rule 5: work waits and nothing advances for three intervals",
    ):
        assert part in printed, printed


def test_nothing_wrong_is_said_too(capsys):
    told.print_findings((), "the daemon")
    assert "Nothing is found wrong, by the daemon" in capsys.readouterr().out
