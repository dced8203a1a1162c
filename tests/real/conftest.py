"""One lab and one daemon for most real tests of a run; one more of each with everything unusual."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab import Lab, LabOptions, Load
from lab.cluster.connector_configs import (
    FILE_SINK,
    FILE_SOURCE,
    MM2_CHECKPOINT,
    MM2_HEARTBEAT,
    MM2_SOURCE,
)
from lab.cluster.options import KAFKA_VERSION
from lab.processes.ports import free_port
from lab.product.offsetwatch import Product
from lab.product.read_only_daemon import onlooker, unchanged
from lab.product.toolbox import Toolbox
from tests.real.lab_order import LabOrder
from tests.real.observed_findings import INTERVAL_S, Lookout, Stage
from tests.real.refused_failures import REFUSES
from tests.real.remediable_failures import ACTS
from tests.real.remediation_stories import Stories

# A test does not wait for a production rhythm: everything is asked for every second, and what does
# not answer is given up after five.
FAST = "tick_s: 0.2\nends_s: 1.0\nhistory: {heap: 700m}\n"
FAST_CONNECT = "poll: {state_s: 1.0, groups_s: 1.0, offsets_s: 10.0, timeout_s: 2.0}"


# The longest first.
STORIES = {
    name: {**ACTS, **REFUSES}[name]
    for name in (
        "sink",
        "schema",
        "person",
        "lines",
        "mirror",
        "operator",
        "stop",
        "away",
        "paused",
        "batches",
    )
}
assert STORIES.keys() == {*ACTS, *REFUSES}

# Connect clusters of `exact`, and the topics of their offsets.
SITES = {"lab": "connect-offsets", "other": "other-offsets"}

# Runs only while incidents are acted out: other tests are about a worker that is alone.
SECOND_WORKER = "connect-2"
STANDARD_CONNECTORS = (FILE_SOURCE, FILE_SINK, MM2_SOURCE, MM2_CHECKPOINT, MM2_HEARTBEAT)

# `make proofs` has the toolbox go through all its tests on an older Kafka too.
KAFKA = os.environ.get("LAB_KAFKA", KAFKA_VERSION)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(LabOrder())


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """The lab of a whole run. Each test has topics, groups and connectors of its own in it."""
    options = LabOptions(
        kafka_version=KAFKA,
        offset_flush_interval_ms=1000,
        authorizer=True,
        workers=2,
        on_demand=frozenset({SECOND_WORKER}),
    )
    with Lab(options) as running:
        yield running


@pytest.fixture(scope="session")
def toolbox(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Toolbox:
    """What a person has at hand, beside `lab`."""
    return Toolbox(lab, directory=tmp_path_factory.mktemp("toolbox"))


@pytest.fixture(scope="session")
def older() -> Iterator[Lab]:
    with Lab(LabOptions(kafka_version="3.9.2")) as running:
        yield running


@pytest.fixture(scope="session")
def product(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    directory: Path = tmp_path_factory.mktemp("product")
    with onlooker(lab, directory, extra=FAST, connect_extra=FAST_CONNECT) as (built, _):
        yield built


@pytest.fixture(scope="session")
def exact() -> Iterator[Lab]:
    """Exactly-once workers, and beside them workers without it, one alone, and a MirrorMaker."""
    options = LabOptions(
        kafka_version=KAFKA,
        exactly_once=True,
        second_cluster=True,
        dedicated_mm2=True,
        standalone=True,
    )
    with Lab(options) as running:
        yield running


@pytest.fixture(scope="session")
def exact_product(exact: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """One daemon that watches both Connect clusters of `exact`.

    Both have connectors of the same names, so that their offsets topics have to be named.
    """
    with unchanged(exact.connect_urls[0], exact.other_url) as recorders:
        sites = dict(zip(SITES, recorders, strict=True))
        built = Product(
            exact,
            directory=tmp_path_factory.mktemp("exact-product"),
            port=free_port(),
            extra=FAST,
            connects=[
                f'{{name: {name}, kafka: east, url: "{recorder.url}", '
                f"offsets_topic: {SITES[name]}, {FAST_CONNECT}}}"
                for name, recorder in sites.items()
            ],
        )
        built.start_daemon()
        yield built
        built.stop()


@contextmanager
def staged(lab: Lab, directory: Path) -> Iterator[Stage]:
    """A daemon of the default install beside a lab, and somebody who looks at all it finds."""
    rhythm = f"judge: {{interval_s: {INTERVAL_S}}}\nstate_dir: {directory / 'state'}\n"
    watches = onlooker(lab, directory, extra=FAST + rhythm, connect_extra=FAST_CONNECT)
    with watches as (built, recorder):
        lookout = Lookout(built.url)
        yield Stage(lab, built, lookout, recorder)
        lookout.stop()


@pytest.fixture(scope="session")
def stage(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Where incidents are acted out, beside standard connectors that work under load throughout."""
    lab.start_process(SECOND_WORKER)
    try:
        with (
            Load(lab, rate_per_s=5.0),
            staged(lab, tmp_path_factory.mktemp("stage")) as built,
        ):
            yield built
    finally:
        lab.terminate(SECOND_WORKER)
        for name in STANDARD_CONNECTORS:
            lab.wait_running(name)


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Where incidents are acted out, beside standard connectors that work under load throughout.
    Its daemon sees all of them, and what is staged for daemons that may act; it may do nothing.
    """
    options = LabOptions(offset_flush_interval_ms=1000, authorizer=True, workers=2, plugins=True)
    with (
        Lab(options) as running,
        Load(running, rate_per_s=5.0),
        staged(running, tmp_path_factory.mktemp("watched")) as built,
    ):
        yield built


@pytest.fixture(scope="session")
def begun(watched: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stories]:
    stories = Stories(watched.lab, tmp_path_factory.mktemp("remedies"), STORIES)
    yield stories
    stories.stop()


@pytest.fixture(scope="module")
def remedies(begun: Stories) -> Iterator[Stories]:
    """What daemons that may act make of real trouble. Whoever uses the stage afterwards has it to
    himself.
    """
    yield begun
    begun.await_all()
