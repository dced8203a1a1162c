"""What stood still, and for how many failures, from one look to the next."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from offsetwatch.model.findings import FailureRun
from offsetwatch.remedy.gather import poison_locator
from offsetwatch.remedy.gather.poison_locator import OBSERVATIONS_MAX, FailurePositions
from offsetwatch.remedy.locate.converters import Converter
from offsetwatch.remedy.locate.search import ReadPosition, read_mirror_facts, read_sink_facts
from offsetwatch.remedy.locate.sinks import LOG_CHARS_MAX
from tests.unit.remedy.stalled_connectors import AT, JSON, STRING

CONNECTOR_KEY = ("west", "c")
AT_7, AT_9 = ReadPosition(AT, 7), ReadPosition(AT, 9)


def run(count: int, *same: str, first_at: float = 100.0, moved: bool = False) -> FailureRun:
    return FailureRun(
        connect_cluster="west",
        connector="c",
        task=0,
        kind="x.Y",
        failure="x.Y in a.B",
        count=count,
        first_at=first_at,
        last_at=200.0,
        restarts=count - 1,
        same=tuple((label, "7") for label in same),
        moved=moved,
    )


def test_failures_count_from_when_a_configuration_was_first_observed():
    status = FailurePositions()
    assert status.failures_under(CONNECTOR_KEY, "batches", run(3)) == 0
    assert status.failures_under(CONNECTOR_KEY, "one by one", run(3)) == 0
    assert status.failures_under(CONNECTOR_KEY, "one by one", run(3)) == 0
    assert status.failures_under(CONNECTOR_KEY, "one by one", run(5)) == 2


def test_all_failures_of_a_run_that_began_after_that_count():
    status = FailurePositions()
    status.failures_under(CONNECTOR_KEY, "one by one", run(9))
    assert status.failures_under(CONNECTOR_KEY, "one by one", run(2, first_at=801.0)) == 2


def test_a_run_that_began_after_that_by_another_clock_may_be_older():
    status = FailurePositions()
    status.failures_under(CONNECTOR_KEY, "one by one", run(9))
    assert status.failures_under(CONNECTOR_KEY, "one by one", run(2, first_at=300.0)) == 0


def test_failures_of_before_do_not_count_because_another_task_has_more_of_them_now():
    status = FailurePositions()
    status.failures_under(CONNECTOR_KEY, "one by one", run(3))
    others = run(6, first_at=150.0)  # while the first task failed as well: run() fails until 200
    assert status.failures_under(CONNECTOR_KEY, "one by one", others) == 0
    assert status.failures_under(CONNECTOR_KEY, "one by one", replace(others, count=8)) == 2


def test_after_a_restart_failures_are_waited_for_again():
    before = FailurePositions()
    before.failures_under(CONNECTOR_KEY, "one by one", run(3))
    before.moved(CONNECTOR_KEY, run(3, "orders-1", moved=True), AT_7)
    failed_again = run(6, "orders-1", moved=True)
    assert before.failures_under(CONNECTOR_KEY, "one by one", failed_again) == 3
    assert before.moved(CONNECTOR_KEY, failed_again, AT_7) is False
    after = FailurePositions()
    assert after.failures_under(CONNECTOR_KEY, "one by one", failed_again) == 0
    assert after.moved(CONNECTOR_KEY, failed_again, AT_7) is True


def test_a_configuration_that_was_another_one_in_between_is_new_again():
    status = FailurePositions()
    for config in ("one by one", "batches"):
        status.failures_under(CONNECTOR_KEY, config, run(3))
    assert status.failures_under(CONNECTOR_KEY, "one by one", run(6)) == 0


def test_connectors_are_distinguished():
    status = FailurePositions()
    status.failures_under(CONNECTOR_KEY, "one by one", run(1))
    assert status.failures_under(("west", "d"), "one by one", run(5)) == 0


def test_nothing_failed_nothing_counts():
    assert FailurePositions().failures_under(CONNECTOR_KEY, "one by one", None) == 0
    assert FailurePositions().moved(CONNECTOR_KEY, None, AT_7) is None
    assert FailurePositions().moved(CONNECTOR_KEY, run(3), None) is None


def test_what_is_where_it_was_at_the_first_failure_has_not_moved():
    assert FailurePositions().moved(CONNECTOR_KEY, run(3, "orders-0", moved=True), AT_7) is False
    assert FailurePositions().moved(CONNECTOR_KEY, run(3, "orders-1", moved=True), AT_7) is True
    assert FailurePositions().moved(CONNECTOR_KEY, run(3, "orders-1"), AT_7) is None


def test_what_moved_once_and_failed_again_where_it_is_has_not_moved():
    status = FailurePositions()
    assert status.moved(CONNECTOR_KEY, run(3, "orders-1", moved=True), AT_7) is True
    assert status.moved(CONNECTOR_KEY, run(3, "orders-1", moved=True), AT_7) is True
    assert status.moved(CONNECTOR_KEY, run(4, "orders-1", moved=True), AT_9) is True
    assert status.moved(CONNECTOR_KEY, run(5, "orders-1", moved=True), AT_9) is False


def test_a_new_run_begins_again():
    status = FailurePositions()
    status.moved(CONNECTOR_KEY, run(3, "orders-1", moved=True), AT_7)
    assert status.moved(CONNECTOR_KEY, run(5, "x", first_at=300.0, moved=True), AT_7) is True
    assert status.moved(CONNECTOR_KEY, run(6, "x", first_at=300.0, moved=True), AT_7) is False


def test_what_is_kept_is_bounded():
    status = FailurePositions()
    for number in range(OBSERVATIONS_MAX + 5):
        status.failures_under(("west", str(number)), "x", run(1))
    assert len(status._since) <= OBSERVATIONS_MAX


# --- worker properties ---------------------------------------------------------------------------

WORKER = f"""
bootstrap.servers=a:9092
sasl.jaas.config=password="hunter2";
key.converter={STRING}
value.converter={JSON}
value.converter.schemas.enable=false
value.converter.basic.auth.user.info=me:hunter2
consumer.isolation.level=read_committed
consumer.max.poll.records=50
consumer.sasl.jaas.config=password="hunter2";
producer.max.request.size=2000
"""


@pytest.fixture
def worker(tmp_path):
    path = tmp_path / "worker.properties"
    path.write_text(WORKER)
    return path


def test_a_sink_that_names_no_converters_has_those_of_its_worker(worker):
    facts = read_sink_facts({}, poison_locator.read_worker_settings(worker))
    assert facts.converters.key == Converter(STRING)
    assert facts.converters.value == Converter(JSON, envelope=False)
    assert facts.converters.header.name.endswith("SimpleHeaderConverter")
    assert (facts.batch, facts.read_committed) == (50, True)
    assert read_mirror_facts({}, poison_locator.read_worker_settings(worker)).request_max == 2000


def test_what_a_sink_names_itself_counts_and_takes_nothing_from_the_worker(worker):
    facts = read_sink_facts({"value.converter": JSON}, poison_locator.read_worker_settings(worker))
    assert facts.converters.value == Converter(JSON, envelope=True)


def test_nothing_that_may_be_secret_is_taken_from_the_file(worker):
    result = poison_locator.read_worker_settings(worker)
    assert "hunter2" not in repr(result)
    assert len(result) == 6


def test_without_a_file_that_can_be_read_nothing_is_known_of_the_worker(tmp_path, worker):
    assert poison_locator.read_worker_settings(None) is None
    worker.unlink()
    assert poison_locator.read_worker_settings(worker) is None
    assert poison_locator.read_log_end([str(worker)]) is None
    assert poison_locator.read_log_end([]) is None


def test_a_file_that_changes_is_read_again(worker):
    assert poison_locator.read_worker_settings(worker)["value.converter"] == JSON
    worker.write_text(WORKER.replace(JSON, STRING))
    assert poison_locator.read_worker_settings(worker)["value.converter"] == STRING


def test_a_log_that_is_a_pipe_or_no_path_keeps_no_other_from_being_read(tmp_path):
    pipe, log = tmp_path / "pipe.log", tmp_path / "worker.log"
    os.mkfifo(pipe)
    log.write_text("ERROR a")
    assert poison_locator.read_log_end([str(pipe), "nul\0.log", str(log)]) == "ERROR a"


def test_of_each_log_the_end_is_read_in_whole_lines(tmp_path):
    one, other, gone = (tmp_path / name for name in ("one.log", "other.log", "gone.log"))
    one.write_bytes(b"x" * LOG_CHARS_MAX + b"\nERROR a \xff\nERROR b\n")
    other.write_text("ERROR c\nERROR d")
    log_end = poison_locator.read_log_end([str(path) for path in (one, gone, other)])
    assert [name for name in log_end.splitlines() if name] == [
        "ERROR a �",
        "ERROR b",
        "ERROR c",
        "ERROR d",
    ]
    assert len(poison_locator.read_log_end([str(one)] * 9)) <= LOG_CHARS_MAX
