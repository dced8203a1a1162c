"""Resets of replication flows, from the command line to a worker and a broker in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from offsetwatch.cli import cli
from offsetwatch.errors import ConfigError, NotFound
from offsetwatch.remedy.drivers.rest import driver
from tests.fakes import connect as fake
from tests.fakes.broker import MockBroker

MIRROR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"


def partition(number: int, topic: str = "orders") -> dict[str, object]:
    return {"cluster": "west", "partition": number, "topic": topic}


class Shell:
    """The program, with a flow west->east of a worker in memory, from a broker in memory."""

    def __init__(
        self, folder: Path, worker: fake.Connect, east: MockBroker, west: MockBroker
    ) -> None:
        self.worker = worker
        self.config = folder / "config.yaml"
        self.config.write_text(
            f'kafka: {{east: {{bootstrap: "{east.bootstrap}"}},'
            f' west: {{bootstrap: "{west.bootstrap}"}}}}\n'
            f"connect: [{{name: cc, kafka: east, url: '{worker.url}'}}]\n"
            f"state_dir: {folder / 'state'}\n"
        )

    def reset(self, *arguments: str, flow: str = "west->east", status: int = 0) -> Result:
        where = ("--connect", "cc", "--config", str(self.config), "--flow", flow)
        watch = ("--watch", "0")
        result = CliRunner().invoke(cli, ["offsets", "reset", *where, *watch, *arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == status, result.output
        return result

    def offsets(self) -> dict[str, object]:
        return {
            name.partition('"partition":')[2][0]: offset
            for name, offset in self.worker.offsets["mm2"].items()
        }


@pytest.fixture(scope="module")
def west() -> Iterator[MockBroker]:
    built = MockBroker()
    for number in (0,) * 10 + (1,) * 5:
        built.produce("orders", b"k", b"v", partition=number)
    yield built
    built.stop()


@pytest.fixture(scope="module")
def east() -> Iterator[MockBroker]:
    built = MockBroker()
    yield built
    built.stop()


@pytest.fixture
def shell(
    tmp_path: Path, east: MockBroker, west: MockBroker, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shell]:
    monkeypatch.setattr(driver, "QUIET_S", 0.0)  # no task of this worker's commits late
    with fake.serving() as worker:
        config = {
            "connector.class": MIRROR,
            "source.cluster.alias": "west",
            "target.cluster.alias": "east",
            "source.cluster.bootstrap.servers": west.bootstrap,
        }
        worker.add("mm2", config=config)
        worker.commit("mm2", partition(0), {"offset": 9})
        worker.commit("mm2", partition(1), {"offset": 2})
        yield Shell(tmp_path, worker, east, west)


def test_a_complete_reset_says_how_much_is_copied_again_and_leaves_no_offset(shell):
    done = shell.reset("--yes")
    assert shell.worker.offsets["mm2"] == {}
    assert "at most 13 records of 2 partitions will be copied again" in done.stderr
    assert "DUPLICATES" in done.stderr
    assert "mm2-offset-syncs.east.internal are retained" in done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("mm2")]
    assert ["mm2", "orders-0", "10", "0", "10", "0"] in rows
    assert ["mm2", "orders-1", "3", "0", "3", "0"] in rows
    assert shell.worker.connectors["mm2"].state == "RUNNING"


def test_the_next_record_is_the_one_that_was_requested(shell):
    shell.reset("--to-offset", "3", "--yes")
    assert shell.offsets() == {"0": {"offset": 2}, "1": {"offset": 2}}


def test_a_move_forward_needs_a_word_of_its_own(shell):
    refused = shell.reset("--to-offset", "4", "--yes", status=3)
    assert "at most 1 record would never be copied" in refused.stderr
    assert "--allow-skip" in refused.stderr
    assert shell.worker.changes() == []
    shell.reset("--to-offset", "4", "--allow-skip", "--yes")
    assert shell.offsets() == {"0": {"offset": 3}, "1": {"offset": 3}}


def test_a_dry_run_counts_and_writes_nothing(shell):
    done = shell.reset("--dry-run")
    assert "copied again" in done.stdout
    assert "step by step" in done.stdout
    assert shell.worker.changes() == []


def test_only_named_topics_are_meant(shell):
    shell.worker.commit("mm2", partition(0, "gone"), {"offset": 7})
    shell.reset("--topics", "orders", "--yes")
    assert list(shell.worker.offsets["mm2"].values()) == [{"offset": 7}]
    assert "no such topic upstream" in shell.reset("--topics", "x", "--yes", status=3).stderr


def test_an_unknown_flow_is_refused_with_the_known_flows(shell):
    with pytest.raises(ConfigError, match="there is: west->east"):
        shell.reset("--yes", flow="east->west")


def test_syncs_that_were_never_made_need_no_clearing(shell, monkeypatch):
    # The mock broker cannot describe topics: what there is stands in its list.
    def missing(_self, topic):
        raise NotFound("west", topic)

    monkeypatch.setattr("offsetwatch.clients.kafka.inspector.KafkaInspector.topic_id_now", missing)
    done = shell.reset("--clear-syncs", "--yes")
    assert "there is no topic west/mm2-offset-syncs.east.internal to be cleared" in done.stderr
    assert shell.worker.offsets["mm2"] == {}


def test_syncs_that_another_running_connector_uses_are_left_alone(shell, monkeypatch):
    monkeypatch.setattr(
        "offsetwatch.clients.kafka.inspector.KafkaInspector.topic_id_now",
        lambda _self, _topic: "id",
    )
    config = {**shell.worker.connectors["mm2"].config}
    config["connector.class"] = MIRROR.replace("Source", "Checkpoint")
    shell.worker.add("checkpoints", config=config)
    refused = shell.reset("--clear-syncs", "--yes", status=3)
    assert "cc/checkpoints reads it (NOT stopped)" in refused.stderr
    assert shell.worker.changes() == []


@pytest.mark.parametrize("by", ["soon", "-", "+-3s", "1h1h"])
def test_a_span_of_time_is_a_duration(shell, by):
    with pytest.raises(ConfigError, match=r"duration.*; \+ in front is forward"):
        shell.reset("--by", by)
