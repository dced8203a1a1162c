"""The default install: it sees what could be done, says so, and changes nothing."""

from __future__ import annotations

import json

import pytest

from tests.real.observed_findings import Stage
from tests.real.remediation_stories import Stories

pytestmark = [pytest.mark.real, pytest.mark.proof]

DONE = {"proposed", "approved", "opened", "intended", "answered"}


def test_a_default_install_changes_nothing_whatever_it_is_shown(
    watched: Stage, remedies: Stories
) -> None:
    """The stage's daemon has no `remedy:`, and sees all that others are told to act on. Beside it
    standard connectors work under load.
    """
    remedies.await_all()
    journal = json.loads(watched.product.cli("journal", "tail", "--lines", "10000", "--json"))
    reports = [item["record"] for item in journal]
    refused = [item for item in reports if item["record"] == "refused"]
    assert {"act-sink-sink", "act-mirror-mirror", "ref-database-sink"} <= {
        item["connector"] for item in refused
    }
    assert {item["mode"] for item in refused} == {"observe"}
    assert not DONE & {item["record"] for item in reports}
    assert watched.recorder.exchanges()
    assert watched.recorder.changes() == []
