"""What is taken from the files of a worker, and what is left there."""

from __future__ import annotations

import pytest

from offsetwatch.remedy.gather import poison_locator
from offsetwatch.remedy.locate.converters import Converter
from offsetwatch.remedy.locate.search import read_mirror_facts, read_sink_facts
from offsetwatch.remedy.locate.sinks import LOG_CHARS_MAX
from tests.unit.remedy.standstills import JSON, STRING

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
