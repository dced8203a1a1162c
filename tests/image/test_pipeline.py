"""The pipeline's image beside real Kafka, Connect and MirrorMaker 2, where it may do least."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lab import Lab
from lab.check import compare
from lab.errors import LabError
from lab.json_text import text
from lab.product.offsetwatch import CONFIG, PIPELINE_S_MAX
from lab.waiting import NotYet, until
from offsetwatch.errors import HistoryError
from offsetwatch.history.tables import reader
from tests.image.building import Image
from tests.image.container import USER, Container, Volume, running, writable
from tests.image.secret import Secret
from tests.real.daemon_series import MIRRORED

pytestmark = [pytest.mark.image, pytest.mark.real, pytest.mark.spark, pytest.mark.full]

STATE = "/var/lib/offsetwatch"
PATH = "/etc/offsetwatch/config.yaml"
COMMITTED_S_MAX = 150.0
STREAM_STOP_S_MAX = 180.0  # it finishes its batch
NAMELESS = 4711
ONCE = ("history", "run", "--available-now", "--config", PATH)
SOURCES = ("file-source", "mm2-source")


def positions(lab: Lab) -> dict[tuple[str, str], str]:
    """Connect's own answer."""
    return {
        (name, text(offset["partition"])): text(offset["offset"])
        for name in SOURCES
        for offset in lab.offsets(name)
    }


def committed(lab: Lab) -> dict[tuple[str, str], str]:
    """The same, when it has come to the end of what there is."""
    lines = lab.lines_path.stat().st_size
    ends = compare.log_ends(lab, "west", MIRRORED)
    whole = {f'{{"position":{lines}}}', *(f'{{"offset":{end - 1}}}' for end in ends.values())}

    def complete() -> dict[tuple[str, str], str]:
        result = positions(lab)
        if len(result) != 1 + len(MIRRORED) or set(result.values()) != whole:
            raise NotYet(str(result))
        return result

    return until("the end of all that was produced", complete, timeout_s=COMMITTED_S_MAX)


def beside(
    lab: Lab, pipeline: Image, folder: Path, *, user: int = USER, command: Sequence[str] = ()
) -> tuple[Container, Path]:
    """A container that reads the lab, and where its tables are."""
    secret = Secret(folder / "secret", group=user)
    connect = f'  - {{name: lab, kafka: east, url: "{lab.connect_urls[0]}"}}'
    config = CONFIG.format(east=lab.east, west=lab.west, connects=connect)
    config += f"history: {{path: {STATE}/history, heap: 700m, cadence_s: 2.0, refine_s: 2.0}}\n"
    secret.hold({"config.yaml": config})
    state = writable(folder / "state", STATE, user)
    container = Container(
        pipeline,
        folder,
        volumes=(
            state,
            writable(folder / "tmp", "/tmp", user),
            Volume(secret.folder, "/etc/offsetwatch", read_only=True),
        ),
        command=command,
        user=user,
    )
    return container, state.source / "history"


def stored(history: Path) -> dict[tuple[str, str], str | None]:
    """The tables' answer."""
    return {
        (row.connector, row.source_partition): row.source_offset
        for row in reader.read_progress(history)
    }


@pytest.fixture
def expected(lab: Lab) -> dict[tuple[str, str], str]:
    """Positions that nothing moves any more, after some that did."""
    lab.append_lines(17)
    lab.produce("west", "orders", 60)
    lab.produce("west", "payments", 10)
    return committed(lab)


def test_it_reads_what_is_there_into_tables_without_a_network_for_jars(
    lab, pipeline, expected, tmp_path
):
    container, history = beside(lab, pipeline, tmp_path, command=ONCE)
    with running(container):
        print(container.finish(timeout_s=PIPELINE_S_MAX))  # noqa: T201
    result = stored(history)
    assert {item: result.get(item) for item in expected} == expected
    assert {path.stat().st_uid for path in history.rglob("*")} == {USER}


def test_by_default_it_reads_on_until_it_is_ordered_to_stop_and_ends_well(
    lab, pipeline, expected, tmp_path
):
    container, history = beside(lab, pipeline, tmp_path)

    def whole() -> None:
        if not container.running:
            raise LabError(f"it ended\n{container.evidence()}")
        try:
            result = stored(history)
        except HistoryError as exc:
            raise NotYet(str(exc)) from exc
        if {item: result.get(item) for item in expected} != expected:
            raise NotYet(str(result))

    with running(container):
        until("all in gold", whole, timeout_s=PIPELINE_S_MAX, evidence=container.evidence)
        status = container.status()
        assert status["NoNewPrivs"] == "1"
        assert int(status["CapBnd"], 16) == 0
        container.stop(timeout_s=STREAM_STOP_S_MAX)


def test_a_user_without_a_name_is_notified_what_is_missing(lab, pipeline, tmp_path):
    container, _ = beside(lab, pipeline, tmp_path, user=NAMELESS, command=ONCE)
    with running(container), pytest.raises(LabError, match=f"user {NAMELESS} has no name"):
        container.finish(timeout_s=PIPELINE_S_MAX)
