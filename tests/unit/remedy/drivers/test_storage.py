"""Plans against an offsets topic in memory and an offsets file: what is seen, what is written."""

from __future__ import annotations

import base64
import fcntl
import socket
from pathlib import Path

import pytest

from offsetwatch.clients.connect.standalone_offsets_file import read_offsets_entries
from offsetwatch.clients.kafka.whole_topic import OWN_RECORD_HEADER
from offsetwatch.clients.write.offsets import OffsetsWriteResult
from offsetwatch.decode.offsets_file import write_offsets_file
from offsetwatch.errors import AccessDenied, ResponseTimeout
from offsetwatch.remedy.drivers.storage import FileStorage, StorageDriver, TopicStorage, WorkerGroup
from offsetwatch.remedy.engine.progress import build_rollback_steps, compute_expected_offsets
from offsetwatch.remedy.model.driver import AttemptResult, StepStatus
from offsetwatch.remedy.model.plan import (
    Alter,
    Freeze,
    FrozenOffsets,
    PartitionOffset,
    RawOffsetRecord,
    RequestedState,
    Settle,
    ToState,
    Write,
)
from offsetwatch.remedy.model.stored_offsets import build_reset_records, build_set_records
from tests.fakes.clock import VirtualClock
from tests.fakes.kafka import FakeAdmin, FakeKafka, FakeReader
from tests.unit.remedy.plans import plan_of

FILE = '{"filename":"/x"}'
KEY = b'["c",{"filename":"/x"}]'
OTHER_KEY = b'["c",{"filename":"/y"}]'
THEIRS = b'["d",{"filename":"/x"}]'
NEW_OFFSETS = (PartitionOffset(FILE, '{"position":9}'),)
WHERE = "east/offsets"


@pytest.fixture
def kafka() -> FakeKafka:
    built = FakeKafka(clock=VirtualClock(1_000_000.0))
    built.create("offsets", 4)
    built.produce("offsets", KEY, b'{"position":1}', partition=2)
    built.produce("offsets", OTHER_KEY, b'{"position":2}', partition=1)
    built.produce("offsets", THEIRS, b'{"position":3}', partition=0)
    built.clock.advance(700.0)
    return built


def storage_in(kafka: FakeKafka, fails: OffsetsWriteResult | None = None) -> TopicStorage:
    def write(_name, _properties, topic, records):
        done = records if fails is None else records[: fails.acknowledged]
        for item in done:
            header = ((OWN_RECORD_HEADER, b"1"),)
            kafka.produce(topic, item.key, item.value, partition=item.kpartition, headers=header)
        return OffsetsWriteResult(len(done), None, certain=False) if fails is None else fails

    return TopicStorage(
        "east",
        {},
        "offsets",
        workers=WorkerGroup("connect", 65.0),
        admin=FakeAdmin(kafka),  # type: ignore[arg-type]
        open_reader=lambda: FakeReader(kafka),  # type: ignore[arg-type,return-value]
        write=write,
    )


def driver_of(kafka: FakeKafka, fails: OffsetsWriteResult | None = None) -> StorageDriver:
    return StorageDriver(storage_in(kafka, fails), "c", kafka.clock)


def frozen_by(driver: StorageDriver) -> FrozenOffsets:
    offsets = driver.offsets()
    return FrozenOffsets(pairs=offsets.pairs, backup="b", backup_sha256="0", raw=offsets.raw)


def write_in(kafka: FakeKafka, expected: tuple[PartitionOffset, ...] = NEW_OFFSETS) -> Write:
    records = build_set_records(storage_in(kafka).contents(), "c", expected)
    return Write(where=WHERE, records=records, pairs=expected)


def test_what_is_retained_of_a_connector_is_every_record_of_its_own(kafka):
    offsets = driver_of(kafka).offsets()
    assert offsets.pairs == (
        PartitionOffset(FILE, '{"position":1}'),
        PartitionOffset('{"filename":"/y"}', '{"position":2}'),
    )
    assert {
        (base64.b64decode(located_raw.key), located_raw.kpartition) for located_raw in offsets.raw
    } == {
        (KEY, 2),
        (OTHER_KEY, 1),
    }
    assert driver_of(kafka).identity() == "id-of-east"


def test_a_write_is_ready_then_done_and_leaves_all_else_as_it_is(kafka):
    driver, step = driver_of(kafka), write_in(kafka)
    frozen = frozen_by(driver)
    assert driver.inspect(step, frozen).status is StepStatus.READY
    assert driver.carry_out(step, frozen).answer is AttemptResult.ACK
    assert driver.inspect(step, frozen).status is StepStatus.DONE
    assert [log.end for log in kafka.logs("offsets")] == [1, 1, 2, 0]
    assert kafka.log("offsets", 2).records[1].key() == KEY


def test_a_reset_leaves_nothing_of_the_connector_and_everything_of_others(kafka):
    driver = driver_of(kafka)
    frozen = frozen_by(driver)
    gone = tuple(PartitionOffset(pair.partition, None) for pair in frozen.pairs)
    step = Write(WHERE, build_reset_records(storage_in(kafka).contents(), "c"), gone)
    assert driver.carry_out(step, frozen).answer is AttemptResult.ACK
    assert driver.inspect(step, frozen).status is StepStatus.DONE
    assert driver.offsets() == ((), ())
    assert StorageDriver(storage_in(kafka), "d", kafka.clock).offsets().pairs != ()


def test_half_a_write_is_partly_done_and_can_be_carried_out_again(kafka):
    expected = (*NEW_OFFSETS, PartitionOffset('{"filename":"/y"}', '{"position":9}'))
    broken = OffsetsWriteResult(1, ResponseTimeout("east", "no answer"), certain=False)
    driver, step = driver_of(kafka, broken), write_in(kafka, expected)
    frozen = frozen_by(driver)
    outcome = driver.carry_out(step, frozen)
    assert outcome.answer is AttemptResult.IN_DOUBT
    assert "1 of 2" in outcome.said
    assert driver.inspect(step, frozen).status is StepStatus.PARTLY
    assert driver_of(kafka).carry_out(step, frozen).answer is AttemptResult.ACK
    assert driver.inspect(step, frozen).status is StepStatus.DONE


def test_the_way_back_from_half_a_write_is_one_of_either_value(kafka):
    expected = (*NEW_OFFSETS, PartitionOffset('{"filename":"/y"}', '{"position":9}'))
    driver, step = driver_of(kafka), write_in(kafka, expected)
    before = frozen_by(driver)
    after = compute_expected_offsets(before, (step,))
    plan = plan_of(step)
    (back,) = build_rollback_steps(plan, before, frozenset({plan.steps.index(step)}))
    kafka.produce("offsets", KEY, b'{"position":9}', partition=2)
    assert driver.inspect(back, after).status is StepStatus.PARTLY
    assert driver.carry_out(back, after).answer is AttemptResult.ACK
    assert driver.offsets().pairs == before.pairs


def test_a_broker_that_says_no_has_written_nothing(kafka):
    denied = OffsetsWriteResult(0, AccessDenied("east", "no ACL"), certain=True)
    driver = driver_of(kafka, denied)
    assert driver.carry_out(write_in(kafka), frozen_by(driver)).answer is AttemptResult.NACK


@pytest.mark.parametrize(("key", "answer"), [(KEY, "neither"), (OTHER_KEY, "other offsets of c")])
def test_offsets_that_another_client_moved_are_not_written_over(kafka, key, answer):
    driver, step = driver_of(kafka), write_in(kafka)
    frozen = frozen_by(driver)
    kafka.produce("offsets", key, b'{"position":5}', partition=2 if key == KEY else 1)
    inspection = driver.inspect(step, frozen)
    assert inspection.status is StepStatus.FOREIGN
    assert answer in inspection.said
    assert driver.carry_out(step, frozen).answer is AttemptResult.NACK
    assert [log.end for log in kafka.logs("offsets")] == (
        [1, 1, 2, 0] if key == KEY else [1, 2, 1, 0]
    )


def test_a_write_that_a_task_would_not_see_is_not_done(kafka):
    driver = driver_of(kafka)
    spaced = base64.b64encode(b'["c", {"filename":"/z"}]').decode()
    value = base64.b64encode(b'{"position":9}').decode()
    step = Write(
        WHERE,
        (RawOffsetRecord(spaced, value, 0),),
        (PartitionOffset('{"filename":"/z"}', '{"position":9}'),),
    )
    frozen = frozen_by(driver)
    assert driver.carry_out(step, frozen).answer is AttemptResult.ACK
    assert driver.inspect(step, frozen).status is StepStatus.FOREIGN


def test_it_settles_once_the_group_is_empty_and_a_flush_has_passed(kafka):
    driver = driver_of(kafka)
    assert driver.inspect(Settle(), None).status is StepStatus.DONE
    kafka.members["connect"] = ("connect-1 at /10.0.0.1",)
    inspection = driver.inspect(Settle(), None)
    assert inspection.status is StepStatus.NOT_YET
    assert "connect-1 at /10.0.0.1" in inspection.said
    kafka.members.clear()
    kafka.produce("offsets", THEIRS, b'{"position":4}')
    kafka.clock.advance(60.0)
    inspection = driver.inspect(Settle(), None)
    assert inspection.status is StepStatus.NOT_YET
    kafka.clock.advance(64.0)
    assert driver.inspect(Settle(), None) == inspection
    kafka.clock.advance(1.0)
    assert driver.inspect(Settle(), None).status is StepStatus.DONE
    kafka.clock.advance(60.0 + 700.0)
    assert driver_of(kafka).inspect(Settle(), None).status is StepStatus.DONE


def test_what_we_wrote_ourselves_is_no_sign_of_a_worker(kafka):
    driver = driver_of(kafka)
    assert driver.carry_out(write_in(kafka), frozen_by(driver)).answer is AttemptResult.ACK
    assert driver.inspect(Settle(), None).status is StepStatus.DONE


@pytest.mark.parametrize("skew_s", [-600.0, 0.0, 600.0, 3600.0])
def test_a_commit_of_a_worker_that_is_about_to_end_is_waited_for_by_any_clock(kafka, skew_s):
    driver = driver_of(kafka)
    for number in range(2):
        at = kafka.clock.now() + skew_s
        kafka.produce("offsets", THEIRS, b'{"position":%d}' % number, at=at)
        kafka.clock.advance(1.0)
        assert driver.inspect(Settle(), None).status is StepStatus.NOT_YET
        kafka.clock.advance(63.0)
        assert driver.inspect(Settle(), None).status is StepStatus.NOT_YET
    kafka.clock.advance(2.0)
    assert driver.inspect(Settle(), None).status is StepStatus.DONE


def test_an_open_transaction_delays_settling(kafka):
    kafka.log("offsets", 1).stable_end = 0
    driver = driver_of(kafka)
    inspection = driver.inspect(Settle(), None)
    assert inspection.status is StepStatus.NOT_YET
    assert "transaction is open in partition 1" in inspection.said


def test_where_group_members_may_not_be_read_nothing_is_written(kafka):
    driver, step = driver_of(kafka), write_in(kafka)
    frozen = frozen_by(driver)
    admin = driver._storage._admin  # type: ignore[attr-defined]

    def denied(group: str) -> tuple[str, ...]:
        raise AccessDenied("east", f"group {group}: not authorised")

    admin.members = denied
    assert driver.inspect(Settle(), None).status is StepStatus.IMPOSSIBLE
    assert driver.carry_out(step, frozen).answer is AttemptResult.NACK
    assert kafka.log("offsets", 2).end == 1


def test_a_worker_that_came_meanwhile_stops_the_write(kafka):
    driver, step = driver_of(kafka), write_in(kafka)
    frozen = frozen_by(driver)
    kafka.members["connect"] = ("connect-1 at /10.0.0.1",)
    outcome = driver.carry_out(step, frozen)
    assert outcome.answer is AttemptResult.NACK
    assert "stop every worker" in outcome.said
    assert kafka.log("offsets", 2).end == 1


def test_a_worker_that_came_with_the_write_may_not_have_read_it(kafka):
    storage, step = storage_in(kafka), write_in(kafka)
    driver = StorageDriver(storage, "c", kafka.clock)
    frozen = frozen_by(driver)
    write = storage._write

    def and_then_it_comes(*inputs) -> OffsetsWriteResult:
        kafka.members["connect"] = ("connect-1 at /10.0.0.1",)
        return write(*inputs)

    storage._write = and_then_it_comes
    outcome = driver.carry_out(step, frozen)
    assert outcome.answer is AttemptResult.IN_DOUBT
    assert "may have begun meanwhile" in outcome.said


def test_a_write_is_in_doubt_where_the_group_of_workers_cannot_be_read_afterwards(kafka):
    storage, step = storage_in(kafka), write_in(kafka)
    driver = StorageDriver(storage, "c", kafka.clock)
    frozen = frozen_by(driver)
    write = storage._write

    def write_and_lose_the_broker(*inputs) -> OffsetsWriteResult:
        done = write(*inputs)
        kafka.mute = ResponseTimeout("east", "no broker answers")
        return done

    storage._write = write_and_lose_the_broker
    outcome = driver.carry_out(step, frozen)
    assert outcome.answer is AttemptResult.IN_DOUBT
    assert "no broker answers" in outcome.said


@pytest.mark.parametrize("step", [ToState(RequestedState.STOPPED), Alter(NEW_OFFSETS)])
def test_what_only_connect_can_do_is_impossible_here(kafka, step):
    driver = driver_of(kafka)
    assert driver.inspect(step, None).status is StepStatus.IMPOSSIBLE
    assert driver.carry_out(step, None).answer is AttemptResult.NACK
    assert driver.inspect(Freeze(), None).status is StepStatus.READY


def test_a_plan_for_another_storage_is_impossible_here(kafka):
    driver = driver_of(kafka)
    step = Write("west/offsets", (), ())
    assert driver.inspect(step, None).status is StepStatus.IMPOSSIBLE
    assert driver.carry_out(step, None).answer is AttemptResult.NACK


def test_a_partition_that_the_topic_has_not_is_refused(kafka):
    driver = driver_of(kafka)
    record = RawOffsetRecord(base64.b64encode(KEY).decode(), None, 9)
    step = Write(WHERE, (record,), ())
    frozen = frozen_by(driver)
    assert "no partition 9" in driver._storage.write((record,)).said
    assert driver.inspect(step, frozen).status is StepStatus.DONE  # nothing stands there


# --- a file ------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "connect.offsets"
    path.write_bytes(
        write_offsets_file(
            ((KEY, b'{"position":1}'), (THEIRS, b'{"position":3}'), (b"gone", None), (None, b"x"))
        )
    )
    return path


def driver_on(file: Path, *urls: str) -> StorageDriver:
    storage = FileStorage(file, properties=file.with_name("worker.properties"), urls=urls)
    return StorageDriver(storage, "c", VirtualClock())


def write_on(file: Path, expected: tuple[PartitionOffset, ...] = NEW_OFFSETS) -> Write:
    storage = FileStorage(file, properties=file, urls=())
    return Write(str(file), build_set_records(storage.contents(), "c", expected), expected)


def test_a_file_is_written_with_all_that_it_held(file):
    driver, step = driver_on(file), write_on(file)
    frozen = frozen_by(driver)
    assert driver.inspect(Settle(), None).status is StepStatus.DONE
    assert driver.inspect(step, frozen).status is StepStatus.READY
    outcome = driver.carry_out(step, frozen)
    assert outcome.answer is AttemptResult.ACK
    assert ".bak" in outcome.said
    assert driver.inspect(step, frozen).status is StepStatus.DONE
    assert dict(read_offsets_entries(file)) == {
        KEY: b'{"position":9}',
        THEIRS: b'{"position":3}',
        b"gone": None,
        None: b"x",
    }


def test_a_file_that_is_not_there_yet_is_made(tmp_path):
    file = tmp_path / "new.offsets"
    driver, step = driver_on(file), write_on(file)
    assert driver.carry_out(step, frozen_by(driver)).answer is AttemptResult.ACK
    assert driver.offsets().pairs == NEW_OFFSETS


def test_a_file_with_a_running_worker_or_a_lock_is_left_alone(file):
    step, frozen = write_on(file), frozen_by(driver_on(file))
    with socket.create_server(("127.0.0.1", 0)) as server:
        driver = driver_on(file, f"http://127.0.0.1:{server.getsockname()[1]}")
        assert driver.inspect(Settle(), None).status is StepStatus.NOT_YET
        assert driver.carry_out(step, frozen).answer is AttemptResult.NACK
    driver = driver_on(file)
    with file.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "lock" in driver.inspect(Settle(), None).said
        assert driver.carry_out(step, frozen).answer is AttemptResult.NACK
    assert dict(read_offsets_entries(file))[KEY] == b'{"position":1}'


def test_half_a_file_is_not_written_over(file):
    step, frozen = write_on(file), frozen_by(driver_on(file))
    half = file.read_bytes()[:40]
    file.write_bytes(half)
    outcome = driver_on(file).carry_out(step, frozen)
    assert outcome.answer is AttemptResult.RETRY
    assert "nothing was written" in outcome.said
    assert file.read_bytes() == half
