"""The lab itself, on real processes: what every other real test takes for granted."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import Lab, LabOptions
from lab.waiting import NotYet, until

pytestmark = [pytest.mark.real, pytest.mark.full]

ROOT = Path(__file__).parents[2]
SETTLE_S_MAX = 150.0

# A lab in a process of its own: it tells its pids, then waits for an end that is not its choice.
ORPHAN = """
import json, sys
from lab import Lab, LabOptions
with Lab(LabOptions(connectors=False)) as lab:
    print(json.dumps([str(lab.directory), lab.pids]), flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab() as running:
        yield running


def alive(pid: int) -> bool:
    try:
        # The state follows the command in parentheses; a zombie is dead and merely not yet reaped.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def check_all_dead(pids: dict[str, int]) -> None:
    remaining = {name: pid for name, pid in pids.items() if alive(pid)}
    if remaining:
        raise NotYet(f"alive: {remaining}")


def check_positions(lab: Lab, connector: str, field: str, total: int) -> None:
    observed = lab.offsets(connector)
    if sum(row["offset"][field] for row in observed if row["offset"]) != total:
        raise NotYet(str(observed))


def test_lines_of_the_file_pass_through_source_and_sink(lab: Lab) -> None:
    lab.append_lines(5)

    size_bytes = lab.lines_path.stat().st_size
    until(
        "file-source offset at the end of the file",
        lambda: check_positions(lab, "file-source", "position", size_bytes),
        timeout_s=SETTLE_S_MAX,
    )
    until(
        "file-sink group at the end of the topic",
        lambda: check_positions(lab, "file-sink", "kafka_offset", 5),
        timeout_s=SETTLE_S_MAX,
    )
    assert lab.sink_path.read_text() == lab.lines_path.read_text()


def test_records_of_west_are_mirrored_and_their_offsets_committed(lab: Lab) -> None:
    lab.produce("west", "orders", 30)
    lab.produce("west", "payments", 10, partitions=[1])

    # The last record copied, not the next: 9 in each of three partitions, and 9 in one.
    until(
        "mm2-source offsets",
        lambda: check_positions(lab, "mm2-source", "offset", 4 * 9),
        timeout_s=SETTLE_S_MAX,
    )


def test_a_killed_worker_comes_back_with_its_connectors(lab: Lab) -> None:
    lab.kill("connect-1")
    assert "connect-1" not in lab.pids

    lab.start_process("connect-1")

    lab.wait_running("mm2-source")
    lab.wait_running("file-source")


def test_stop_leaves_no_process_and_no_directory() -> None:
    lab = Lab(LabOptions(connectors=False))
    lab.start()
    pids, directory = lab.pids, lab.directory
    assert set(pids) == {"east", "west", "connect-1"}

    lab.stop()

    assert not [pid for pid in pids.values() if alive(pid)]
    assert not directory.exists()


def test_a_lab_whose_python_is_killed_leaves_no_process() -> None:
    command = [sys.executable, "-c", ORPHAN]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as python:
        assert python.stdout is not None
        directory, pids = json.loads(python.stdout.readline())
        assert all(alive(pid) for pid in pids.values())

        os.kill(python.pid, signal.SIGKILL)

    until("end of every process", lambda: check_all_dead(pids), timeout_s=60.0)
    shutil.rmtree(directory)
