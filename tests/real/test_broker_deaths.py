"""Our Kafka client while a broker dies and comes back: nothing invented, nothing lost for long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab import Lab, LabOptions
from lab.cluster.lab import WEST_GROUP
from lab.waiting import NotYet, until
from offsetwatch.clients.kafka.clients import KafkaAdmin
from offsetwatch.errors import ClientError
from offsetwatch.model.observations import LogBounds
from offsetwatch.model.topology import TopicPartition

pytestmark = [pytest.mark.real, pytest.mark.full]

PARTITIONS = [TopicPartition("orders", number) for number in range(3)]
BACK_S_MAX = 10.0

# A process of its own, because what is to be excluded is that it is aborted.
ASKS = """
import sys, time
from offsetwatch.clients.kafka.whole_topic import StorageAdmin
from offsetwatch.errors import ClientError
from offsetwatch.model.topology import TopicPartition

admin = StorageAdmin("west", {{"bootstrap.servers": sys.argv[1]}})
group = sys.argv[2]
while True:
    try:
        print({question}, flush=True)
    except ClientError as exc:
        print(exc.reason, flush=True)
    time.sleep(0.2)
"""
ASKS_FOR_OFFSETS = ASKS.format(
    question='len(admin.group_offsets(group, [TopicPartition("orders", n) for n in range(3)]))'
)
# As a change of an offsets topic does, and the doctor.
ASKS_FOR_MEMBERS = ASKS.format(question='len(admin.members(group)), "members"')
ANSWER_S_MAX = 60.0


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(LabOptions(connectors=False)) as running:
        running.produce("west", "orders", 30)
        yield running


def test_log_bounds_requested_while_a_broker_dies_are_true_or_absent(lab: Lab) -> None:
    admin = KafkaAdmin("west", {"bootstrap.servers": lab.west})
    observed: set[LogBounds] = set()
    ended = threading.Event()

    def poll() -> None:
        while not ended.is_set():
            try:
                observed.update(admin.bounds(PARTITIONS, stable=False).values())
            except ClientError:
                continue

    def check_answered() -> None:
        if not observed:
            raise NotYet("no answer")

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        until("a first answer", check_answered, timeout_s=ANSWER_S_MAX)
        lab.kill("west")
        lab.start_process("west")
    finally:
        ended.set()
        thread.join()
    assert observed == {LogBounds(start=0, end=10, stable_end=10)}


def test_log_bounds_are_back_soon_after_their_broker(lab: Lab) -> None:
    admin = KafkaAdmin("west", {"bootstrap.servers": lab.west})
    assert len(admin.bounds(PARTITIONS, stable=False)) == len(PARTITIONS)
    assert admin.list_brokers()[0] == admin.topics()[1]
    lab.kill("west")
    lab.start_process("west")

    def check() -> None:
        try:
            partition = admin.bounds(PARTITIONS, stable=False)
        except ClientError as exc:
            raise NotYet(str(exc)) from exc
        if len(partition) < len(PARTITIONS):
            raise NotYet(f"{len(partition)} of {len(PARTITIONS)}")

    until("all log bounds", check, timeout_s=BACK_S_MAX)


def test_a_group_whose_coordinator_was_gone_does_not_end_the_process(
    lab: Lab, tmp_path: Path
) -> None:
    with running_program(ASKS_FOR_OFFSETS, lab, tmp_path) as await_answer:
        await_answer({"3"})
        for failed_first in (False, True, False):
            lab.kill("west")
            if failed_first:
                await_answer({"timeout", "unreachable"})
            lab.start_process("west")
            await_answer({"3"})


def test_a_group_whose_coordinator_stood_still_does_not_end_the_process(
    lab: Lab, tmp_path: Path
) -> None:
    os.kill(lab.pids["west"], signal.SIGSTOP)
    with running_program(ASKS_FOR_MEMBERS, lab, tmp_path) as await_answer:
        try:
            await_answer({"timeout", "unreachable"}, times=3)
        finally:
            os.kill(lab.pids["west"], signal.SIGCONT)
        await_answer({"0 members"}, times=3)
        lab.kill("west")
        lab.start_process("west")
        await_answer({"0 members"})


@contextmanager
def running_program(program: str, lab: Lab, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """The program while it runs; what is yielded waits for answers of it that are wanted."""
    log = tmp_path / "answers"
    command = [sys.executable, "-c", program, lab.west, WEST_GROUP]
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out) as running:

        def await_answer(expected: set[str], times: int = 1) -> None:
            begun = len(log.read_text().splitlines())

            def check() -> None:
                assert running.poll() is None, log.read_text()[-500:]
                lines = log.read_text().splitlines()[begun:]
                if sum(line in expected for line in lines) < times:
                    raise NotYet(str(lines[-3:]))

            until(f"an answer of {expected}", check, timeout_s=times * ANSWER_S_MAX)

        try:
            yield await_answer
        finally:
            running.kill()
