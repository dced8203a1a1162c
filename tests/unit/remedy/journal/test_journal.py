"""The journal: what it refuses, and what it survives."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from offsetwatch.errors import ConnectorBusy, JournalDamaged, PlanStateConflict, PlanUnfinished
from offsetwatch.remedy.journal.journal import FILE_NAME, STANDALONE_VERSION, VERSION, Journal
from offsetwatch.remedy.model import plan
from offsetwatch.remedy.model.driver import AttemptResult
from offsetwatch.remedy.model.journal_records import (
    OffsetsBackedUp,
    PlanApproved,
    PlanEnded,
    PlanFailureCause,
    PlanOpened,
    PlanParked,
    PlanProposed,
    PlanRejected,
    PlanResumed,
    RollbackStarted,
    StepAnswered,
    StepIntended,
    StepVerified,
    decode_record,
    encode_record,
)
from offsetwatch.remedy.model.plan import (
    Create,
    Delete,
    DeleteTopic,
    FrozenOffsets,
    LocatedRawRecord,
    PartitionOffset,
    PlanStatus,
    RequestedState,
    ToState,
)
from offsetwatch.remedy.replicas import topic_copy
from tests.unit.remedy.plans import plan_of

INTENDED = StepIntended(at=1.0, index=0, undoing=False)
ENDED = PlanEnded(at=2.0, ending=PlanStatus.SUCCEEDED, said="done")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


def begun(folder: Path, plan_id: str = "p1") -> Journal:
    journal = Journal(folder)
    plan = plan_of(plan_id=plan_id)
    journal.open(plan, PlanOpened(at=0.5, plan=plan))
    return journal


def test_what_was_written_is_there_for_the_next_process(folder):
    with closing(begun(folder)) as journal:
        journal.append("p1", (INTENDED,))
    with closing(Journal(folder)) as journal:
        assert journal.records("p1") == (PlanOpened(at=0.5, plan=plan_of()), INTENDED)
        assert journal.open_plan("lab", "orders") == "p1"


@pytest.mark.parametrize(
    "record",
    [
        PlanOpened(at=0.5, plan=plan_of(Create("c"), Delete(), DeleteTopic("east", "t", "id"))),
        PlanResumed(at=1.0),
        OffsetsBackedUp(
            at=1.0,
            frozen=FrozenOffsets(
                (PartitionOffset("{}", None),), "b", "s", (LocatedRawRecord("a", None, 3),)
            ),
        ),
        INTENDED,
        StepAnswered(at=1.0, answer=AttemptResult.IN_DOUBT, said="HTTP 500", definite=None),
        StepVerified(at=1.0, index=3, undoing=True, said="ok"),
        RollbackStarted(
            at=1.0,
            steps=(ToState(RequestedState.PAUSED),),
            cause=PlanFailureCause.CHANGED,
            said="moved",
        ),
        PlanParked(at=1.0, ending=PlanStatus.IN_DOUBT, cause=PlanFailureCause.TIMED_OUT, said="no"),
        ENDED,
    ],
    ids=lambda record: type(record).__name__,
)
def test_every_record_reads_back_as_it_was(record):
    assert decode_record(encode_record(record)) == record


def test_a_plan_that_has_ended_lets_go_of_its_connector(folder):
    with closing(begun(folder)) as journal:
        journal.append("p1", (ENDED,))
        assert journal.open_plan("lab", "orders") is None
        plan = plan_of(plan_id="p2")
        journal.open(plan, PlanOpened(at=3.0, plan=plan))


def test_two_plans_for_one_connector_cannot_both_be_open(folder):
    with closing(begun(folder)), closing(Journal(folder)) as other:
        plan = plan_of(plan_id="p2")
        with pytest.raises(PlanUnfinished, match="plan p1 for orders"):
            other.open(plan, PlanOpened(at=1.0, plan=plan))
        assert other.records("p2") == ()


def test_the_data_base_itself_refuses_a_second_open_plan(folder):
    with (
        closing(begun(folder)),
        closing(sqlite3.connect(folder / FILE_NAME)) as db,
        pytest.raises(sqlite3.IntegrityError),
    ):
        db.execute("INSERT INTO open_plans VALUES ('p2', 'lab', 'orders')")


@pytest.mark.parametrize(
    "statement",
    ["UPDATE records SET body = x'7b7d'", "DELETE FROM records"],
    ids=["changed", "deleted"],
)
def test_records_cannot_be_changed_by_a_statement(folder, statement):
    with (
        closing(begun(folder)),
        closing(sqlite3.connect(folder / FILE_NAME)) as db,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
    ):
        db.execute(statement)


def tampered(folder: Path, *statements: str) -> None:
    with closing(begun(folder)) as journal:
        journal.append("p1", (INTENDED, ENDED))
    with closing(sqlite3.connect(folder / FILE_NAME, isolation_level=None)) as db:
        db.execute("DROP TRIGGER never_changed")
        db.execute("DROP TRIGGER never_deleted")
        for statement in statements:
            db.execute(statement)


@pytest.mark.parametrize(
    ("statement", "answer"),
    [
        ("UPDATE records SET body = x'7b7d' WHERE seq = 2", "record 2 is not what was written"),
        ("UPDATE records SET plan_id = 'p9' WHERE seq = 2", "record 2 is not what was written"),
        ("DELETE FROM records WHERE seq = 2", "record 3 is not what was written"),
        ("DELETE FROM records WHERE seq = 3", "record 3 is missing"),
        ("DELETE FROM records", "record 3 is missing"),
        (
            f"UPDATE records SET v = {VERSION + 1} WHERE seq = 1",
            "record 1 was written by a newer offsetwatch",
        ),
        (
            f"UPDATE records SET v = {STANDALONE_VERSION - 1} WHERE seq = 1",
            f"record 1 has version {STANDALONE_VERSION - 1} of the journal",
        ),
    ],
    ids=["body", "plan", "from the middle", "from the end", "all", "newer", "not read"],
)
def test_a_journal_that_was_tampered_with_is_refused_and_says_where(folder, statement, answer):
    tampered(folder, statement)
    with pytest.raises(JournalDamaged, match=answer):
        Journal(folder)


def test_a_file_that_is_no_journal_is_refused(folder):
    folder.mkdir()
    (folder / FILE_NAME).write_bytes(b"not a data base at all" * 100)
    with pytest.raises(JournalDamaged, match="cannot be used"):
        Journal(folder)


def test_a_folder_that_cannot_be_written_in_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalDamaged, match="cannot be used"):
        Journal(tmp_path / "file" / "state")


BESIDE = ("", "-wal", "-shm")


@pytest.mark.parametrize("suffix", BESIDE)
@pytest.mark.parametrize("mode", [0o602, 0o620, 0o666], ids=oct)
def test_a_journal_that_others_can_write_to_is_refused(folder, suffix, mode):
    begun(folder).close()
    path = folder / f"{FILE_NAME}{suffix}"
    path.touch()
    path.chmod(mode)
    with pytest.raises(JournalDamaged, match="cannot be used: other users can write to it"):
        Journal(folder)


@pytest.mark.parametrize("suffix", BESIDE)
def test_a_journal_that_is_a_link_is_refused_and_what_it_leads_to_is_not_touched(
    folder, tmp_path, suffix
):
    folder.mkdir()
    elsewhere = tmp_path / "elsewhere"
    (folder / f"{FILE_NAME}{suffix}").symlink_to(elsewhere)
    with pytest.raises(JournalDamaged, match="cannot be used: it is a link"):
        Journal(folder)
    assert not elsewhere.exists()


def test_a_journal_that_is_no_plain_file_is_refused(folder):
    (folder / FILE_NAME).mkdir(parents=True)
    with pytest.raises(JournalDamaged, match="cannot be used: it is no plain file"):
        Journal(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
@pytest.mark.parametrize("suffix", BESIDE)
def test_a_journal_of_another_user_is_refused(folder, suffix):
    begun(folder).close()
    path = folder / f"{FILE_NAME}{suffix}"
    path.touch(mode=0o600)
    os.chown(path, 65_534, 65_534)
    with pytest.raises(JournalDamaged, match="cannot be used: it belongs to another user"):
        Journal(folder)


def test_a_journal_is_readable_by_its_owner_alone(folder):
    with closing(begun(folder)):
        assert stat.S_IMODE((folder / FILE_NAME).stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_it_is_on_the_disk_before_it_returns(folder):
    with closing(begun(folder)) as journal:
        assert journal._db.execute("PRAGMA synchronous").fetchone() == (2,)
        assert journal._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


AT_WORK = """
import sys
from pathlib import Path
from offsetwatch.remedy.journal.journal import Journal
with Journal(Path(sys.argv[1])).at_work("lab", "orders", "noon"):
    print("at work", flush=True)
    sys.stdin.read()
"""


def test_a_process_at_work_is_distinguished_from_one_that_has_ended(folder):
    with closing(begun(folder)) as journal:
        process = subprocess.Popen(
            [sys.executable, "-c", AT_WORK, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert process.stdout.readline() == b"at work\n"
            assert journal.busy("lab", "orders")
            assert not journal.busy("lab", "others")
            with (
                pytest.raises(ConnectorBusy, match=f"by process {process.pid} on .* since noon"),
                journal.at_work("lab", "orders", "later"),
            ):
                pass
        finally:
            process.kill()
            process.communicate()
        assert not journal.busy("lab", "orders")
        with journal.at_work("lab", "orders", "later"):
            assert journal.busy("lab", "orders")


def test_where_locks_do_not_work_nothing_begins(folder):
    with closing(Journal(folder)) as journal:
        (folder / "locks").rmdir()
        (folder / "locks").write_text("")
        with (
            pytest.raises(JournalDamaged, match="cannot be locked: Not a directory"),
            journal.at_work("lab", "orders", "noon"),
        ):
            pass


def test_plans_of_several_processes_share_one_chain(folder):
    with closing(begun(folder)) as one, closing(Journal(folder)) as other:
        for number in range(20):
            (one if number % 2 else other).append("p1", (INTENDED,))
        assert one.verify() == other.verify() == 21


ELSEWHERE = """
import sys
from contextlib import closing
from pathlib import Path
from offsetwatch.remedy.journal.journal import Journal
with closing(Journal(Path(sys.argv[1]))) as journal:
    print(len(journal.records("p1")))
"""


def elsewhere(folder: Path) -> int:
    """How many records of the plan another process finds, which opens and closes the journal."""
    result = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(folder)],
        check=True,
        timeout=300,
        capture_output=True,
        text=True,
    )
    return int(result.stdout)


def test_who_comes_and_goes_elsewhere_takes_nothing_away_from_two_who_have_it_open_here(folder):
    with closing(begun(folder)) as one, closing(Journal(folder)) as other:
        assert elsewhere(folder) == 1
        one.append("p1", (INTENDED,))
        assert other.records("p1") == one.records("p1")
        assert elsewhere(folder) == 2
        other.append("p1", (ENDED,))
        assert elsewhere(folder) == 3


PLAN = plan_of()
PROPOSED = PlanProposed(at=1.0, plan=PLAN, mode="propose", expires_at=9.0)
APPROVED = PlanApproved(at=2.0, by="ada", plan_sha256=PLAN.sha256)
OPENED = PlanOpened(at=3.0, plan=PLAN)


@pytest.mark.parametrize(
    "written",
    [
        (PROPOSED,),
        (PROPOSED, APPROVED, PlanRejected(at=3.0, by="bob", because="no")),
        (PROPOSED, APPROVED, OPENED, ENDED),
    ],
    ids=["not approved", "rejected since", "carried out since"],
)
def test_a_plan_is_begun_only_while_it_is_approved(folder, written):
    with closing(Journal(folder)) as journal:
        journal.append("p1", written)
        with pytest.raises(PlanStateConflict):
            journal.open(PLAN, OPENED)
        assert journal.records("p1") == written
        assert journal.open_plan("lab", "orders") is None


def test_a_plan_that_is_approved_is_begun(folder):
    with closing(Journal(folder)) as journal:
        journal.append("p1", (PROPOSED, APPROVED))
        journal.open(PLAN, OPENED)
        assert journal.open_plan("lab", "orders") == "p1"


@pytest.mark.parametrize("read", [decode_record, plan.decode_plan, topic_copy.decode_line])
@pytest.mark.parametrize(
    "document",
    [b"", b"[]", b'{"record":"\xff","plan_id":"\xff"}', b'{"x":' + b"[" * 100_000],
    ids=["nothing", "a list", "no UTF-8", "deep"],
)
def test_what_is_no_document_of_the_journal_is_refused_in_one_way(read, document):
    with pytest.raises(msgspec.DecodeError):
        read(document)
