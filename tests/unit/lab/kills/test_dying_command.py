"""A process that is to die at a moment dies there: what came before it is on the disk."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from lab.kills import toolbox
from lab.product.program import ROOT

WRITER = """
import signal, sqlite3, sys
from pathlib import Path
from lab.kills import dying_command
dying_command.instrument_journal(dying_command.Moments(sys.argv[2], signal.SIGKILL, None))
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("CREATE TABLE IF NOT EXISTS records (n)")
for n in range(3):
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO records VALUES (?)", (n,))
    db.execute("COMMIT")
"""


@pytest.mark.parametrize(
    ("name", "remaining"), [("append:2:before", 1), ("append:2:after", 2), ("append:4:before", 3)]
)
def test_a_writer_dies_right_before_or_right_after_the_record_that_was_chosen(
    tmp_path: Path, name: str, remaining: int
) -> None:
    file = tmp_path / "journal.sqlite"
    command = [sys.executable, "-c", WRITER, str(file), name]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    assert status == (-signal.SIGKILL if remaining < 3 else 0)
    with sqlite3.connect(file) as db:
        assert db.execute("SELECT count(*) FROM records").fetchone() == (remaining,)
    db.close()


def test_every_moment_of_every_verb_is_met_once_and_the_first_ones_for_the_same_seed() -> None:
    moments = {"reset": {"append": 2, "request": 1}, "stored": {"record": 1}}
    all_of_them = toolbox.schedule(7, moments, None)
    kill_moments = {(kill.case, kill.at) for kill in all_of_them}
    assert len(kill_moments) == len(all_of_them) == 2 * 2 + 3 + 3
    assert ("stored", "record:1:amid") in kill_moments
    assert toolbox.schedule(7, moments, 4) == all_of_them[:4]
    assert {kill.case for kill in all_of_them} == {"reset", "stored"}
