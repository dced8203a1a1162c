"""README's commands that need clusters, typed as they stand. Those that do not are run in
tests/artefacts/test_readme.py; only addresses and names that README itself made up are other ones.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from lab import Lab
from lab.cluster.connector_configs import FILE_SOURCE
from lab.cluster.properties_files import DEDICATED_TOPIC, DEDICATED_UPSTREAM
from lab.kills import sample_connectors
from lab.kills.sample_connectors import Mirror
from lab.product.offsetwatch import Product
from lab.waiting import NotYet, until
from tests.artefacts.readme import RESET_FLOW, RESET_STORED, Shell, followed, smallest

pytestmark = [pytest.mark.real, pytest.mark.slow]

RECORDS = 20
COPIED_S_MAX = 150.0
OK, FOUND, DENIED = 0, 1, 3


@pytest.fixture
def shell(lab: Lab, product: Product, tmp_path: Path) -> Shell:
    """Where F is the smallest configuration, of the clusters and the daemon that are there."""
    built = Shell(tmp_path)
    (tmp_path / "F").write_text(
        smallest(
            east=lab.east,
            west=lab.west,
            connect=lab.connect_urls[0],
            listen=urlsplit(product.url).netloc,
        )
    )
    return built


def becomes(mirror: Mirror, expected: dict[int, list[str]]) -> None:
    def probe() -> None:
        if (observed := mirror.came()) != expected:
            raise NotYet(f"{ {number: len(held) for number, held in observed.items()} }")

    until(f"the copies of {mirror.name}", probe, timeout_s=COPIED_S_MAX)


@pytest.mark.parametrize(
    ("command", "may_end", "names"),
    [
        pytest.param("status", {OK, FOUND}, FILE_SOURCE, id="status"),
        pytest.param(f"explain {FILE_SOURCE}", {OK, FOUND}, FILE_SOURCE, id="explain"),
        pytest.param("connectors status", {OK}, FILE_SOURCE, id="connectors"),
        pytest.param("offsets list --connect lab", {OK}, "partition", id="offsets"),
        pytest.param("doctor", {OK, FOUND}, "lab", id="doctor"),
    ],
)
def test_what_is_only_queried_is_answered(
    shell: Shell, command: str, may_end: set[int], names: str
) -> None:
    done = shell.run(f"offsetwatch {command} --config F")
    assert done.returncode in may_end, done.stderr
    assert names in done.stdout


@pytest.mark.full
def test_a_flow_is_set_back_to_a_moment(lab: Lab, shell: Shell) -> None:
    with sample_connectors.mirror(lab, "readme-mirror", records=RECORDS) as mirror:
        once = mirror.meant()
        flow = f"{mirror.source}->{mirror.target}"
        done = shell.run(followed(RESET_FLOW, {"west->east": flow}), typed=mirror.name)
        assert done.returncode == 0, done.stderr
        # Two hours ago there was nothing: all of it comes again.
        becomes(mirror, {number: held * 2 for number, held in once.items()})


@pytest.mark.full
def test_a_reset_by_a_properties_file_says_what_it_would_do_and_queries(
    exact: Lab, tmp_path: Path
) -> None:
    """It would reset every topic of that flow, which others use: so it is not agreed to here."""
    topic = f"{DEDICATED_TOPIC}-readme"
    exact.create_topic("west", topic)
    exact.produce("west", topic, RECORDS)
    offsets = f"mm2-offsets.{DEDICATED_UPSTREAM}.internal"
    expected = f'{{"offset":{RECORDS - 1}}}'

    def committed() -> None:
        held = sample_connectors.newest(exact.east, offsets)
        if [value for key, value in held.items() if f'"{topic}"' in key] != [expected]:
            raise NotYet(str(held))

    until("the last commit", committed, timeout_s=COPIED_S_MAX)
    shell = Shell(tmp_path)
    exact.terminate("mm2")
    try:
        shutil.copy(exact.directory / "mm2.properties", tmp_path / "mm2.properties")
        done = shell.run(RESET_STORED, typed="another")
        assert done.returncode == DENIED, done.stderr
        assert f'"topic":"{topic}"' in done.stdout
        assert expected in done.stdout
        committed()
    finally:
        exact.start_process("mm2")
