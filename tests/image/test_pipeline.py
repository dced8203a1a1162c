"""The pipeline's image beside real Kafka, Connect and MirrorMaker 2, where it may do least."""

from __future__ import annotations

import pytest

from exporter.history import read
from lab import Lab, compare
from lab.jsontext import text
from lab.product import CONFIG, PIPELINE_S_MAX
from lab.waiting import NotYet, until
from tests.image.container import USER, Container, Volume, running, writable
from tests.image.secret import Secret
from tests.real.seen import MIRRORED

pytestmark = [pytest.mark.image, pytest.mark.real, pytest.mark.spark]

STATE = "/var/lib/offsetwatch"
PATH = "/etc/offsetwatch/config.yaml"
COMMITTED_S_MAX = 150.0
SOURCES = ("file-source", "mm2-source")


def positions(lab: Lab) -> dict[tuple[str, str], str]:
    """Connect's own answer."""
    return {
        (name, text(at["partition"])): text(at["offset"])
        for name in SOURCES
        for at in lab.offsets(name)
    }


def committed(lab: Lab) -> dict[tuple[str, str], str]:
    """The same, when it has come to the end of what there is."""
    lines = lab.lines_path.stat().st_size
    ends = compare.log_ends(lab, "west", MIRRORED)
    whole = {f'{{"position":{lines}}}', *(f'{{"offset":{end - 1}}}' for end in ends.values())}

    def complete() -> dict[tuple[str, str], str]:
        found = positions(lab)
        if len(found) != 1 + len(MIRRORED) or set(found.values()) != whole:
            raise NotYet(str(found))
        return found

    return until("the end of all that was produced", complete, timeout_s=COMMITTED_S_MAX)


def test_it_reads_what_is_there_into_tables_without_a_network_for_jars(lab, pipeline, tmp_path):
    lab.append_lines(17)
    lab.produce("west", "orders", 60)
    lab.produce("west", "payments", 10)
    expected = committed(lab)
    secret = Secret(tmp_path / "secret", group=USER)
    connect = f'  - {{name: lab, kafka: east, url: "{lab.connect_urls[0]}"}}'
    config = CONFIG.format(east=lab.east, west=lab.west, connects=connect)
    secret.hold({"config.yaml": f"{config}history: {{heap: 700m}}\n"})
    state = writable(tmp_path / "state", STATE)
    container = Container(
        pipeline,
        tmp_path,
        volumes=(
            state,
            writable(tmp_path / "tmp", "/tmp"),
            Volume(secret.folder, "/etc/offsetwatch", read_only=True),
        ),
        command=("history", "run", "--available-now", "--config", PATH),
    )
    with running(container):
        said = container.finish(timeout_s=PIPELINE_S_MAX)
    print(said)  # noqa: T201
    history = state.source / "history"
    found = {
        (row.connector, row.source_partition): row.source_offset for row in read.progress(history)
    }
    assert {at: found.get(at) for at in expected} == expected
    assert {at.stat().st_uid for at in history.rglob("*")} == {USER}
