"""The parts of a soak: what rises by more than noise, what is left behind, what lives on."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.check.process_memory import MIB, ProcessLifetime, Vitals
from lab.faults import chaos, soak
from lab.faults.kinds import Kind

SECONDS = 1200


def lived(rss_mib: Callable[[int], float]) -> ProcessLifetime:
    return ProcessLifetime(
        pid=1, samples=[Vitals(number, int(rss_mib(number) * MIB), 50) for number in range(SECONDS)]
    )


def noisy(offset: int) -> float:
    return 100 + random.Random(offset).gauss(0, 10)


@pytest.mark.parametrize(
    ("rss_mib", "rises"),
    [
        pytest.param(lambda _: 100, False, id="the same all the time"),
        pytest.param(noisy, False, id="noise"),
        pytest.param(lambda item: min(100, item), False, id="it begins"),
        pytest.param(lambda item: 100 + item / 60, True, id="a MiB a minute"),
        pytest.param(lambda item: noisy(item) + item / 20, True, id="three a minute, in noise"),
    ],
)
def test_memory_that_rises_by_more_than_noise(rss_mib: Callable[[int], float], *, rises: bool):
    report = sound()
    report.served.processes = [lived(rss_mib)]
    assert bool(report.risen) == rises
    assert any(line.startswith("rises: ") for line in report.lines()) == rises


def sound() -> soak.Report:
    report = soak.Report(chaos.Report(seed=1, commit="abc"), minutes=20, changes=1)
    report.served.outcome.compared["lag"] = chaos.COMPARED_MIN
    report.served.processes = [lived(lambda _: 100)]
    assert report.sound
    return report


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda item: item.leftovers.append("a topic"), id="something is left"),
        pytest.param(lambda item: item.served.outcome.wrong.append("a lag"), id="a wrong value"),
        pytest.param(lambda item: item.served.unrecovered.append("a tail"), id="not recovered"),
        pytest.param(
            lambda item: item.served.processes.append(ProcessLifetime(2)), id="another process"
        ),
        pytest.param(lambda item: setattr(item, "changes", 0), id="nothing was done"),
    ],
)
def test_a_soak_fails_for(spoil: Callable[[soak.Report], None]):
    report = sound()
    spoil(report)
    assert not report.sound


def test_what_is_new_and_what_is_gone_are_reported():
    before, after = frozenset({"topic a on east", "connector b"}), frozenset({"topic a on east"})
    assert soak.changed(before, after) == ["connector b is gone"]
    assert soak.changed(after, before) == ["connector b was not there before"]
    assert soak.changed(before, before) == []


def test_a_process_that_was_begun_in_a_folder_is_an_orphan_while_it_lives(tmp_path: Path):
    script = tmp_path / "waits.py"
    script.write_text("import sys; print('here', flush=True); sys.stdin.read()")
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        # A process that is still being begun may have no command line yet, or another's.
        assert process.stdout.readline() == b"here\n"
        (orphan,) = soak.orphans(tmp_path)
        process.kill()
    assert orphan.startswith(f"process {process.pid}: ")
    assert soak.orphans(tmp_path) == []


def test_the_daemon_of_a_soak_lives_and_meets_everything_else():
    kinds = [soak.drawn(7, number).kind for number in range(60)]
    assert set(kinds) == set(Kind) - {Kind.DAEMON}
