"""Everything bad that could be sent, by number: refused or ignored, and never believed.

For each row: nothing but 4xx (or 202 where it is ignored), or a closed connection; no call to the
desk that changes anything, beyond those that the row names; no secret and nothing hostile in a log.
"""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from .bad import bodies, callers, http, names, plans, tls, world
from .bad.table import HOSTILE, ROWS, SECRET, TAKEN, Row
from .stage import serving

TABLES = (callers, bodies, names, plans, http, world, tls)
ELSEWHERE = {57}  # a policy that is edited while a plan is carried out: tests of remedy's guards
NOT_HERE = {*range(7, 14), 60}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.number:02} {row.sentence}")
def test_it_is_refused_or_ignored(row: Row, tmp_path, caplog, capfd):
    with capture_logs() as events, serving() as stage:
        statuses = list(row.run(stage, tmp_path))
    assert statuses
    assert all(status is None or status == TAKEN or 400 <= status < 500 for status in statuses), (
        statuses
    )
    assert len(stage.desk.changed) == row.changes
    assert len(stage.desk.hints) == row.hints
    report = f"{events}{caplog.text}{''.join(capfd.readouterr())}"
    assert SECRET not in report
    assert HOSTILE not in report


def test_every_number_of_the_list_has_a_row():
    expected = set(range(1, 61)) - ELSEWHERE - NOT_HERE
    assert {row.number for row in ROWS} == expected
