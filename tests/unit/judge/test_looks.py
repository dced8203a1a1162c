"""A snapshot by connector, and until when a person could alter offsets."""

from __future__ import annotations

from math import inf

import pytest

from exporter.judge.looks import Look
from exporter.model.connectors import StateChange, StateHistory
from exporter.state.snapshot import EMPTY
from tests.changed import replace


@pytest.mark.parametrize(
    ("changes", "until"),
    [
        (((1.0, "running"),), 0.0),
        (((1.0, "paused"), (2.0, "running")), 2.0),
        (((1.0, "paused"), (2.0, "running"), (5.0, "stopped"), (9.0, "running")), 9.0),
        (((1.0, "paused"), (2.0, "stopped"), (7.0, "running")), 7.0),
        (((1.0, "running"), (2.0, "stopped")), inf),
    ],
)
def test_a_person_could_alter_offsets_until_the_last_rest_ended(changes, until):
    told = tuple(StateChange(at, state, None) for at, state in changes)
    histories = (StateHistory("lab", "files", None, told), StateHistory("lab", "files", 0, told))
    look = Look(replace(EMPTY, histories=histories))
    assert look.rests() == {("lab", "files"): until}
