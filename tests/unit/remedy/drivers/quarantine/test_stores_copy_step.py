"""The step that copies a record, against logs in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from offsetwatch.config import QuarantineConfig
from offsetwatch.errors import ClientError, RemoteRefusal, ResponseTimeout, SizeLimitExceeded
from offsetwatch.model.records import RawRecord
from offsetwatch.remedy.drivers.common_steps import (
    RecordCopier,
    StepDispatcher,
    build_copy_context,
    build_record_copier,
)
from offsetwatch.remedy.drivers.quarantine.stores import (
    CombinedQuarantine,
    FileQuarantine,
    TopicQuarantine,
    build_quarantine,
)
from offsetwatch.remedy.model.driver import AttemptResult, StepStatus
from offsetwatch.remedy.model.plan import (
    Action,
    Copy,
    Plan,
    PlanSubject,
    RecordLocation,
    RemediationContext,
    RequestedState,
    ToState,
)
from tests.fakes.logs import AWAY, SETTINGS, FakeLogs
from tests.fakes.memory_connector import World, WorldDriver

KEY = "a" * 64
OFFSET = 2
STEP_AT = RecordLocation("west", "orders", "id-1", 0, OFFSET)
PLAN = Plan(
    plan_id="p-1",
    verb="skip",
    subject=PlanSubject("rest", "lab", "orders-sink", "sink"),
    steps=(),
    original=RequestedState.RUNNING,
    final=RequestedState.RUNNING,
    created_at=1.0,
    created_by="detector",
    remedy=RemediationContext(Action.SKIP_ONE, "the incident", KEY),
)


def record(number: int, value: bytes | None = b"v") -> RawRecord:
    return RawRecord("orders", 0, number, 0, 1_700_000_000_000, "create", b"k%d" % number, value)


@pytest.fixture
def source() -> FakeLogs:
    logs = FakeLogs(name="west", topics={"orders": SETTINGS})
    for number in range(5):
        logs.append(record(number))
    return logs


@pytest.fixture
def logs() -> FakeLogs:
    return FakeLogs(name="east", topics={"set-aside": SETTINGS})


@pytest.fixture
def quarantine(logs: FakeLogs, tmp_path: Path) -> CombinedQuarantine:
    topic = TopicQuarantine(
        "east", "set-aside", reader=logs.open, writer=logs.open, clock=logs.clock
    )
    return CombinedQuarantine(FileQuarantine(tmp_path, logs.clock), topic)


@pytest.fixture
def steps(source: FakeLogs, quarantine: CombinedQuarantine) -> RecordCopier:
    about = build_copy_context(PLAN, stage="converter_value", exception="org.example.Bad")
    return RecordCopier(lambda _kafka: source.open(), quarantine, about)


def copies(retained: FakeLogs) -> int:
    return sum(len(part.records) for part in retained.parts.values())


def step(**more) -> Copy:
    result = record(OFFSET)
    expected = Copy(STEP_AT, result.sha256, result.size_bytes, KEY, "east/set-aside")
    return msgspec.structs.replace(expected, **more)


def test_a_record_is_copied_and_then_there_is_a_receipt(source, logs, steps, quarantine):
    assert steps.inspect(step()).status is StepStatus.READY
    outcome = steps.carry_out(step())
    assert outcome.answer is AttemptResult.ACK
    receipt = quarantine.find(KEY)
    assert receipt is not None
    assert receipt.where in outcome.said
    assert record(OFFSET).sha256 in outcome.said
    result = steps.inspect(step())
    assert (result.status, receipt.where in result.said) == (StepStatus.DONE, True)
    assert source.opened == logs.opened == 0


def test_a_copy_reports_why_it_was_made_and_where_it_came_from(steps, quarantine):
    steps.carry_out(step())
    ((result, _),) = quarantine.list_copies()
    about = result.about
    assert (about.plan_id, about.incident, about.skip_key) == ("p-1", "the incident", KEY)
    assert (about.connect_cluster, about.connector) == ("lab", "orders-sink")
    assert (about.kafka, about.cluster_id, about.topic_id) == ("west", "id-of-west", "id-1")
    assert (about.stage, about.exception_class) == ("converter_value", "org.example.Bad")
    assert result.record == ("orders", 0, OFFSET)


def test_a_copy_that_is_there_is_enough_even_if_the_record_has_gone_since(source, steps):
    steps.carry_out(step())
    source.part("orders", 0).start = 5
    assert steps.inspect(step()).status is StepStatus.DONE
    source.down = AWAY
    assert steps.inspect(step()).status is StepStatus.DONE


def test_a_copy_of_another_record_under_the_same_key_is_not_enough(source, steps):
    steps.carry_out(step())
    other = record(OFFSET, b"other")
    source.part("orders", 0).records[OFFSET] = other
    assert steps.inspect(step(sha256=other.sha256)).status is StepStatus.READY


def gone(source: FakeLogs) -> None:
    source.part("orders", 0).start = OFFSET + 1


def compacted(source: FakeLogs) -> None:
    del source.part("orders", 0).records[OFFSET]


def undecodable(source: FakeLogs) -> None:
    source.part("orders", 0).corrupt_at = OFFSET


def deleted(source: FakeLogs) -> None:
    source.topics.clear()


def replaced(source: FakeLogs) -> None:
    source.part("orders", 0).records[OFFSET] = record(OFFSET, None)


def recreate_topic(source: FakeLogs) -> None:
    source.topics["orders"] = replace(SETTINGS, topic_id="id-2")


def cut(source: FakeLogs) -> None:
    source.part("orders", 0).end = OFFSET - 1


def cut_right_there(source: FakeLogs) -> None:
    source.part("orders", 0).end = OFFSET


@pytest.mark.parametrize(
    ("happens", "status"),
    [
        (gone, StepStatus.IMPOSSIBLE),
        (compacted, StepStatus.IMPOSSIBLE),
        (undecodable, StepStatus.IMPOSSIBLE),
        (deleted, StepStatus.IMPOSSIBLE),
        (replaced, StepStatus.FOREIGN),
        (recreate_topic, StepStatus.FOREIGN),
        (cut, StepStatus.FOREIGN),
        (cut_right_there, StepStatus.FOREIGN),
    ],
)
def test_a_record_that_is_not_what_was_inspected_is_not_copied(
    source, logs, steps, quarantine, happens, status
):
    happens(source)
    assert steps.inspect(step()).status is status
    outcome = steps.carry_out(step())
    assert outcome.answer is AttemptResult.NACK
    assert quarantine.find(KEY) is None
    assert copies(logs) == 0


def test_on_a_broker_without_topic_ids_the_record_itself_is_what_counts(source, steps):
    source.topics["orders"] = replace(SETTINGS, topic_id="")
    assert steps.inspect(step()).status is StepStatus.READY
    assert (
        steps.inspect(step(record=msgspec.structs.replace(STEP_AT, topic_id=""))).status
        is StepStatus.READY
    )


def test_a_record_that_does_not_come_in_time_is_not_known_to_be_gone(source, steps):
    source.silent = True
    with pytest.raises(ResponseTimeout):
        steps.inspect(step())
    with pytest.raises(ResponseTimeout):
        steps.carry_out(step())


def test_clusters_that_are_away_leave_nothing_known_and_no_receipt(source, logs, steps):
    logs.down = AWAY
    with pytest.raises(ClientError):
        steps.inspect(step())
    with pytest.raises(ClientError):
        steps.carry_out(step())
    logs.down, source.down = None, AWAY
    with pytest.raises(ClientError):
        steps.inspect(step())
    assert copies(logs) == 0


def test_an_answer_that_was_lost_is_an_error_and_the_next_poll_finds_the_copy(logs, steps):
    logs.lost = ResponseTimeout("east", "no answer")
    with pytest.raises(ResponseTimeout):
        steps.carry_out(step())
    logs.lost = None
    assert steps.inspect(step()).status is StepStatus.DONE


def test_a_record_too_large_for_the_topic_becomes_a_file(source, logs, steps, quarantine):
    large = record(OFFSET, b"v" * SETTINGS.message_bytes_max)
    source.part("orders", 0).records[OFFSET] = large
    expected = step(sha256=large.sha256)
    assert steps.carry_out(expected).answer is AttemptResult.ACK
    result = quarantine.find(KEY)
    assert result is not None
    assert result.path is not None
    assert copies(logs) == 0
    assert steps.inspect(expected).status is StepStatus.DONE


def test_a_disk_that_fails_is_a_no(source, tmp_path):
    (tmp_path / "quarantine").write_text("in the way")
    files = CombinedQuarantine(FileQuarantine(tmp_path, source.clock), None)
    steps = RecordCopier(lambda _kafka: source.open(), files, build_copy_context(PLAN))
    assert steps.carry_out(step()).answer is AttemptResult.NACK


def test_a_topic_that_will_not_do_is_refused_and_no_file_is_made_instead(logs, steps, quarantine):
    logs.topics["set-aside"] = replace(SETTINGS, compacted=True)
    with pytest.raises(RemoteRefusal):
        steps.carry_out(step())
    assert quarantine.find(KEY) is None


def test_a_driver_that_copies_leaves_all_other_steps_to_the_one_within(source, steps):
    world = World(source.clock)
    driver = StepDispatcher(WorldDriver(world), {Copy: steps})
    assert driver.inspect(step(), None).status is StepStatus.READY
    assert driver.carry_out(step(), None).answer is AttemptResult.ACK
    assert driver.inspect(ToState(RequestedState.RUNNING), None).status is StepStatus.DONE
    assert driver.carry_out(ToState(RequestedState.STOPPED), None).answer is AttemptResult.ACK
    assert world.state is RequestedState.STOPPED
    assert driver.offsets().pairs == ()


def test_a_cluster_that_is_not_configured_is_refused(tmp_path, source):
    quarantine = build_quarantine(QuarantineConfig(), {}, tmp_path)
    copier = build_record_copier({}, quarantine, build_copy_context(PLAN))
    with pytest.raises(RemoteRefusal):
        copier.inspect(step())


def test_without_a_cluster_in_the_configuration_there_are_files_alone(tmp_path):
    assert build_quarantine(QuarantineConfig(), {}, tmp_path).name == str(tmp_path / "quarantine")


def test_too_large_is_no_error_of_the_topic_alone(logs, quarantine, monkeypatch):
    """Whoever says it: the broker may know better than its settings."""

    def refused(_record: object) -> int:
        raise SizeLimitExceeded("east", "Broker: Message size too large")

    monkeypatch.setattr(logs, "write", refused)
    receipt = quarantine.put(record(OFFSET), build_copy_context(PLAN))
    assert receipt.path is not None
