"""Copies of records as files and in a topic, and what finds them again."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from offsetwatch.errors import (
    ClientError,
    MalformedResponse,
    RemoteRefusal,
    ResponseTimeout,
    SizeLimitExceeded,
    TopicChanged,
)
from offsetwatch.model.records import IncompleteRead, LogWindow, RawRecord
from offsetwatch.remedy.drivers.quarantine import stores
from offsetwatch.remedy.drivers.quarantine.stores import (
    MESSAGE_BYTES_MAX,
    PARTITIONS,
    SEARCH_S,
    FileQuarantine,
    TopicQuarantine,
    read_copy,
    write_copy,
)
from offsetwatch.remedy.model.quarantine import (
    QuarantineContext,
    QuarantinedRecord,
    choose_partition,
    compute_key_id,
)
from tests.fakes.clock import VirtualClock
from tests.fakes.logs import AWAY, SETTINGS, FakeLogs

KEY = "a" * 64
RECORD = RawRecord("orders", 3, 1234, 5, 1_700_000_000_000, "create", b"k", None, (("h", b""),))
ABOUT = QuarantineContext(KEY, "p-1", "incident", "orders-sink", "lab", "east", "id-of-orders")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def local(tmp_path: Path, clock: VirtualClock) -> FileQuarantine:
    return FileQuarantine(tmp_path / "state", clock)


def files(local: FileQuarantine) -> list[str]:
    return sorted(path.name for path in Path(local.name).glob("*"))


def test_a_copy_is_found_again_by_another_instance_of_the_store(tmp_path, clock, local):
    receipt = local.put(RECORD, ABOUT)
    assert receipt.path is not None
    assert receipt.path.startswith(f"{tmp_path}/state/quarantine/{compute_key_id(KEY)}")
    assert (receipt.where, receipt.sha256, receipt.at) == (
        receipt.path,
        RECORD.sha256,
        clock.now(),
    )
    again = FileQuarantine(tmp_path / "state", clock)
    assert again.find(KEY) == again.find(KEY, RECORD.sha256) == receipt
    assert again.find(KEY, "0" * 64) is None
    assert again.find("b" * 64) is None
    assert read_copy(Path(receipt.path)) == QuarantinedRecord(RECORD, ABOUT)


def test_to_look_makes_no_folder(local):
    assert local.find(KEY) is None
    assert list(local.list_copies()) == []
    assert not Path(local.name).exists()


def test_a_copy_is_for_its_owner_alone(local):
    receipt = local.put(RECORD, ABOUT)
    assert stat.S_IMODE(Path(receipt.where).stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(local.name).stat().st_mode) == 0o700


def test_the_same_record_twice_is_one_file(local, clock):
    first = local.put(RECORD, ABOUT)
    clock.advance(60)
    assert local.put(RECORD, ABOUT) == first
    assert len(files(local)) == 1


def test_of_two_records_under_a_key_the_newer_is_found_and_each_by_its_hash(local, clock):
    other = replace(RECORD, value=b"v")
    second = local.put(other, ABOUT)
    clock.advance(60)
    first = local.put(RECORD, ABOUT)
    assert local.find(KEY) == first
    assert local.find(KEY, other.sha256) == second


def test_a_damaged_file_is_no_copy_and_is_not_overwritten(local):
    receipt = local.put(RECORD, ABOUT)
    path = Path(receipt.where)
    path.write_bytes(path.read_bytes()[:-5])
    assert local.find(KEY) is None
    again = local.put(RECORD, ABOUT)
    assert again.path == str(path.with_name(f"{path.stem}-1.jsonl"))
    assert local.find(KEY) == again
    assert sorted(retained.problem is None for retained, _ in local.list_copies()) == [False, True]


def test_a_value_of_many_megabytes_comes_back(local):
    large = replace(RECORD, value=os.urandom(5_000_000))
    receipt = local.put(large, ABOUT)
    result = read_copy(Path(receipt.where))
    assert isinstance(result, QuarantinedRecord)
    assert result.record == large


def full(*_args: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("call", ["fsync", "sync_folder", "build_file_lines"])
def test_a_disk_that_fails_leaves_no_receipt_and_nothing_behind(local, monkeypatch, call):
    with monkeypatch.context() as patched:
        patched.setattr(os if call == "fsync" else stores, call, full)
        with pytest.raises(OSError, match="No space left"):
            local.put(RECORD, ABOUT)
    assert files(local) == []
    assert local.put(RECORD, ABOUT) == local.find(KEY)


def test_a_disk_that_gives_back_other_bytes_leaves_no_receipt_and_nothing_behind(
    local, monkeypatch
):
    honest = stores.build_file_lines
    with monkeypatch.context() as patched:
        patched.setattr(stores, "build_file_lines", lambda *args: list(honest(*args))[:-1])
        with pytest.raises(OSError, match="not what was written"):
            local.put(RECORD, ABOUT)
    assert files(local) == []


def test_a_folder_that_cannot_be_written_to_is_an_error(tmp_path, clock):
    (tmp_path / "quarantine").write_text("a file")
    with pytest.raises(OSError):  # noqa: PT011 - whichever it is
        FileQuarantine(tmp_path, clock).put(RECORD, ABOUT)


def test_a_list_has_all_but_the_bytes(local):
    receipt = local.put(RECORD, ABOUT)
    ((retained, result),) = local.list_copies()
    assert (retained.id, retained.receipt, retained.about) == (
        Path(receipt.where).stem,
        receipt,
        ABOUT,
    )
    assert (retained.record, retained.size_bytes, retained.problem) == (
        ("orders", 3, 1234),
        RECORD.size_bytes,
        None,
    )
    assert result == QuarantinedRecord(RECORD, ABOUT)


def test_a_file_that_is_none_of_ours_is_listed_with_what_is_wrong(local):
    local.put(RECORD, ABOUT)
    (Path(local.name) / "other.jsonl").write_text("{}\n")
    assert [retained.problem is None for retained, _ in local.list_copies()] == [True, False]


def test_a_file_elsewhere_is_of_the_same_form_and_overwrites_nothing(tmp_path):
    path = tmp_path / "record.jsonl"
    write_copy(path, RECORD, ABOUT, 1.5)
    assert read_copy(path) == QuarantinedRecord(RECORD, ABOUT)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        write_copy(path, RECORD, ABOUT, 1.5)


# --- topic store ---------------------------------------------------------------------------------

DAY_MS = 86_400_000


@pytest.fixture
def logs() -> FakeLogs:
    return FakeLogs()


def quarantine(logs: FakeLogs, **topic) -> TopicQuarantine:
    return TopicQuarantine(
        "east",
        "set-aside",
        **topic,
        reader=logs.open,
        writer=logs.open,
        clock=logs.clock,
    )


@pytest.fixture
def store(logs: FakeLogs) -> TopicQuarantine:
    logs.topics["set-aside"] = SETTINGS
    return quarantine(logs)


def copies(logs: FakeLogs) -> int:
    return sum(len(part.records) for part in logs.parts.values())


def test_a_copy_in_a_topic_is_found_again_by_another_reader(logs, store):
    receipt = store.put(RECORD, ABOUT)
    partition = choose_partition(KEY, SETTINGS.partitions)
    assert receipt.where == f"east/set-aside-{partition}@0"
    assert (receipt.partition, receipt.offset, receipt.path) == (partition, 0, None)
    assert (receipt.sha256, receipt.at) == (RECORD.sha256, logs.clock.now())
    assert store.find(KEY) == receipt
    assert quarantine(logs).find(KEY, RECORD.sha256) == receipt
    assert logs.opened == 0


def test_there_is_none_of_another_record_or_key_and_none_without_the_topic(logs, store):
    store.put(RECORD, ABOUT)
    assert store.find(KEY, "0" * 64) is None
    assert store.find("b" * 64) is None
    del logs.topics["set-aside"]
    assert quarantine(logs).find(KEY) is None
    assert logs.made == []


def test_a_copy_is_dated_when_it_was_made_and_not_as_the_record(logs, store):
    store.put(RECORD, ABOUT)
    (part,) = (part for part in logs.parts.values() if part.records)
    assert part.records[0].timestamp_ms == logs.clock.now() * 1000
    assert part.records[0].timestamp_ms != RECORD.timestamp_ms


def test_the_same_record_twice_does_no_harm(logs, store):
    first, second = store.put(RECORD, ABOUT), store.put(RECORD, ABOUT)
    assert (first.offset, second.offset) == (0, 1)
    assert store.find(KEY) == second
    assert quarantine(logs).find(KEY) == second


def test_of_two_records_under_a_key_each_is_found_by_its_hash(logs, store):
    other = replace(RECORD, value=b"v")
    first, second = store.put(RECORD, ABOUT), store.put(other, ABOUT)
    assert store.find(KEY, RECORD.sha256) == first
    assert store.find(KEY, other.sha256) == second
    assert store.find(KEY) == second


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda copy: replace(copy, value=b""),
        lambda copy: replace(copy, key=None),
        lambda copy: replace(copy, headers=copy.headers[1:]),
        lambda copy: replace(copy, headers=()),
        lambda copy: None,
    ],
    ids=["value", "key", "a header", "all headers", "nothing there"],
)
def test_what_does_not_read_back_as_it_was_written_has_no_receipt(logs, store, spoilt):
    logs.spoilt = spoilt
    with pytest.raises(ClientError):
        store.put(RECORD, ABOUT)
    assert store.find(KEY) is None
    assert quarantine(logs).find(KEY) is None
    logs.spoilt = lambda copy: copy
    assert store.put(RECORD, ABOUT) == store.find(KEY)


@pytest.mark.parametrize("landed", [True, False])
def test_after_a_write_without_an_answer_the_search_says_what_became_of_it(logs, store, landed):
    logs.lost, logs.landed = ResponseTimeout("east", "no answer"), landed
    with pytest.raises(ResponseTimeout):
        store.put(RECORD, ABOUT)
    logs.lost = None
    result = store.find(KEY, RECORD.sha256)
    assert (result is not None) is landed
    store.put(RECORD, ABOUT)
    assert copies(logs) == (2 if landed else 1)


def test_a_copy_that_cannot_be_read_back_now_has_no_receipt_now(logs, store):
    logs.silent = True
    with pytest.raises(ResponseTimeout):
        store.put(RECORD, ABOUT)
    with pytest.raises(ResponseTimeout):
        store.find(KEY)
    logs.silent = False
    assert store.find(KEY) is not None


def test_a_cluster_that_is_away_is_an_error_and_not_the_absence_of_copies(logs, store):
    store.put(RECORD, ABOUT)
    logs.down = AWAY
    with pytest.raises(ResponseTimeout):
        store.find(KEY)
    with pytest.raises(ResponseTimeout):
        store.put(RECORD, ABOUT)
    assert logs.opened == 0


def test_a_copy_that_retention_has_taken_since_it_was_observed_is_none(logs, store):
    receipt = store.put(RECORD, ABOUT)
    part = logs.part("set-aside", receipt.partition)
    part.records.clear()
    part.start = part.end = 1
    assert store.find(KEY) is None


def test_a_copy_that_was_changed_since_it_was_observed_is_none_and_an_older_one_is_found(
    logs, store
):
    first, second = store.put(RECORD, ABOUT), store.put(RECORD, ABOUT)
    part = logs.part("set-aside", second.partition)
    part.records[1] = replace(part.records[1], value=b"other")
    assert store.find(KEY) == first


def test_a_search_reads_one_partition_and_what_it_has_read_no_more(logs, store):
    keys = [f"{number:064x}" for number in range(30)]
    for key in keys:
        store.put(RECORD, QuarantineContext(key, "p", "i", "c", "lab", "east"))
    fresh = quarantine(logs)
    logs.reads.clear()
    assert fresh.find(keys[0]) is not None
    assert {at.partition for at, _ in logs.reads} == {
        choose_partition(keys[0], SETTINGS.partitions)
    }
    logs.reads.clear()
    assert fresh.find(keys[0]) is not None
    (end, own) = logs.reads
    assert end[1] == logs.part("set-aside", end[0].partition).end
    assert own[1] < end[1]


def test_a_search_that_takes_too_long_goes_on_where_it_was(logs, store):
    part = logs.part("set-aside", choose_partition(KEY, SETTINGS.partitions))
    for _ in range(2500):
        logs.append(replace(RECORD, topic="set-aside", partition=choose_partition(KEY, 3)))
    receipt = store.put(RECORD, ABOUT)
    fresh = quarantine(logs)

    class Slow(FakeLogs):
        def window(self, *args, **more):
            self.clock.advance(SEARCH_S)
            return logs.window(*args, **more)

    slow = Slow(clock=logs.clock, topics=logs.topics)
    fresh._reader = slow.open
    starts = []
    for _ in range(2):
        with pytest.raises(ResponseTimeout):
            fresh.find(KEY)
        starts.append(logs.reads[-1][1])
    assert starts == [0, 1000]
    assert fresh.find(KEY) == receipt
    assert part.end == 2501


def test_what_a_search_has_read_when_its_time_runs_out_is_retained_and_is_not_all_there_is(
    logs, store
):
    first, second = store.put(RECORD, ABOUT), store.put(RECORD, ABOUT)
    fresh = quarantine(logs)
    logs.stalls_at = second.offset
    with pytest.raises(ResponseTimeout, match="stands at 1 of 2") as caught:
        fresh.find(KEY)
    assert isinstance(caught.value.__cause__, IncompleteRead)
    assert fresh._index.copies == {KEY: [(first.partition, first.offset, RECORD.sha256)]}
    with pytest.raises(ResponseTimeout):
        list(fresh.list_copies())
    logs.stalls_at = None
    logs.reads.clear()
    assert quarantine(logs).find(KEY) == fresh.find(KEY) == second


def test_a_search_that_begins_beyond_the_end_and_runs_out_of_time_has_not_found_nothing(
    logs, store
):
    receipt = store.put(RECORD, ABOUT)
    assert store.find(KEY) == receipt

    class Short(FakeLogs):
        def window(self, at, start, *_args, **_more):
            raise IncompleteRead("east", "read up to 1 of 0", LogWindow((), start, start, 0))

    store._reader = Short(clock=logs.clock, topics=logs.topics).open
    with pytest.raises(ResponseTimeout):
        store.find(KEY)


def test_records_of_others_and_what_cannot_be_decoded_are_passed_over(logs, store):
    partition = choose_partition(KEY, SETTINGS.partitions)
    logs.append(replace(RECORD, topic="set-aside", partition=partition))
    logs.append(replace(RECORD, topic="set-aside", partition=partition))
    logs.part("set-aside", partition).corrupt_at = 1
    receipt = store.put(RECORD, ABOUT)
    assert quarantine(logs).find(KEY) == receipt
    assert [(retained.id != "", at) for retained, at in store.list_copies()] == [
        (True, QuarantinedRecord(RECORD, ABOUT))
    ]


def test_a_topic_that_was_recreated_has_no_copies_from_before(logs, store):
    receipt = store.put(RECORD, ABOUT)
    logs.parts.clear()
    logs.topics["set-aside"] = replace(SETTINGS, topic_id="id-2")
    assert store.find(KEY) is None
    assert store.put(RECORD, ABOUT).offset == receipt.offset == 0


def test_a_topic_recreated_on_a_broker_without_ids_is_read_again_at_the_next_poll(logs, store):
    logs.topics["set-aside"] = replace(SETTINGS, topic_id="")
    store.put(RECORD, ABOUT)
    assert store.find(KEY) is not None
    logs.parts.clear()
    with pytest.raises(TopicChanged):
        store.find(KEY)
    assert store.find(KEY) is None


# --- the topic itself ---------------------------------------------------------------------------


def test_a_topic_that_is_not_there_is_made_to_keep_everything(logs):
    quarantine(logs).put(RECORD, ABOUT)
    (built,) = logs.made
    assert built == (
        "set-aside",
        PARTITIONS,
        3,
        {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "max.message.bytes": str(MESSAGE_BYTES_MAX),
            "min.insync.replicas": "2",
            "unclean.leader.election.enable": "false",
        },
    )


@pytest.mark.parametrize(
    ("brokers", "case", "replication", "in_sync"),
    [(1, None, 1, "1"), (2, None, 2, "1"), (9, None, 3, "2"), (9, 5, 5, "2"), (9, 1, 1, "1")],
)
def test_a_topic_is_made_with_as_many_replicas_as_requested_or_as_there_can_be(
    logs, brokers, case, replication, in_sync
):
    logs.alive = brokers
    quarantine(logs, replication=case, retention_ms=30 * DAY_MS).put(RECORD, ABOUT)
    _, _, built, config = logs.made[0]
    assert (built, config["min.insync.replicas"]) == (replication, in_sync)
    assert config["retention.ms"] == str(30 * DAY_MS)


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        ({"compacted": True}, "compacted"),
        ({"retention_ms": 7 * DAY_MS}, "for 7 days"),
        ({"retention_bytes": 10**9}, "bytes"),
        ({"in_sync_min": 4}, "nothing can be written"),
    ],
)
def test_a_topic_that_would_lose_a_copy_is_refused_before_anything_is_written(
    logs, store, wrong, answer
):
    logs.topics["set-aside"] = replace(SETTINGS, **wrong)
    with pytest.raises(RemoteRefusal, match=answer):
        store.put(RECORD, ABOUT)
    assert [answer in problem for problem in store.problems()] == [True]
    assert copies(logs) == 0


def test_a_topic_that_keeps_records_as_long_as_configured_will_do(logs):
    logs.topics["set-aside"] = replace(SETTINGS, retention_ms=30 * DAY_MS)
    assert quarantine(logs, retention_ms=30 * DAY_MS).put(RECORD, ABOUT)
    assert quarantine(logs, retention_ms=30 * DAY_MS).problems() == ()
    with pytest.raises(RemoteRefusal):
        quarantine(logs, retention_ms=31 * DAY_MS).put(RECORD, ABOUT)


def test_a_record_that_is_too_large_for_the_topic_is_not_sent(logs, store):
    with pytest.raises(SizeLimitExceeded):
        store.put(replace(RECORD, value=b"v" * SETTINGS.message_bytes_max), ABOUT)
    assert copies(logs) == 0


def test_a_damaged_copy_is_listed_as_one(logs, store):
    logs.spoilt = lambda copy: replace(copy, value=b"other")
    with pytest.raises(MalformedResponse):
        store.put(RECORD, ABOUT)
    ((retained, result),) = store.list_copies()
    assert (result, retained.problem is not None) == (None, True)
