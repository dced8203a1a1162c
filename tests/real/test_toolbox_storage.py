"""Offsets written where Connect keeps them, while no worker runs, and what workers make of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from lab import Lab, LabOptions
from lab.cluster.connector_configs import SOLO_SOURCE, SOLO_TOPIC
from lab.cluster.properties_files import DEDICATED_TOPIC, DEDICATED_UPSTREAM
from lab.cluster.standalone_worker import STANDALONE
from lab.kills import sample_connectors
from lab.product.toolbox import Toolbox
from lab.waiting import NotYet, until
from offsetwatch.clock import SystemClock
from offsetwatch.errors import AccessDenied
from offsetwatch.remedy.execute.runner import PlanResult, Runner
from offsetwatch.remedy.journal.journal import Journal, create_plan_id
from offsetwatch.remedy.model.driver import StepStatus
from offsetwatch.remedy.model.plan import Freeze, PartitionOffset, Plan, PlanStatus, Settle, Write
from offsetwatch.remedy.model.stored_offsets import OffsetStoreContents
from offsetwatch.toolbox.connector_facts import KafkaClusterPool
from offsetwatch.toolbox.store.worker_storage import WorkerOffsetStore, open_worker_storage

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.full]

VISIBLE_S_MAX = 150.0
BEFORE, AFTER = 10, 5
OWN = {"offsets.storage.topic": "stored-own-offsets"}


@pytest.fixture(scope="module")
def stored() -> Iterator[Lab]:
    options = LabOptions(
        standalone=True, dedicated_mm2=True, secured=True, authorizer=True, connectors=False
    )
    with Lab(options) as running:
        yield running


@pytest.fixture(scope="module")
def older() -> Iterator[Lab]:
    options = LabOptions(kafka_version="3.9.2", standalone=True, connectors=False)
    with Lab(options) as running:
        yield running


def open_storage(properties: Path, flow: str | None = None) -> WorkerOffsetStore:
    return open_worker_storage(properties, KafkaClusterPool({}), flow=flow)


def carried_out(store: WorkerOffsetStore, connector: str, step: Write, state: Path) -> PlanResult:
    """A plan of this one step, as the command line would have it carried out."""
    clock = SystemClock()
    plan = Plan(
        plan_id=create_plan_id(clock.now()),
        verb="a test's",
        subject=store.subject(connector),
        steps=(Settle(), Freeze(), step),
        original=None,
        final=None,
        created_at=clock.now(),
        created_by="test",
    )
    journal = Journal(state)
    try:
        driver = store.driver(connector)
        return Runner(journal=journal, driver=driver, clock=clock, report=print).run(plan)
    finally:
        journal.close()


def position(file: Path, lines: int) -> int:
    """Behind so many lines."""
    return sum(len(line) for line in file.read_bytes().splitlines(keepends=True)[:lines])


def pair(file: Path, offset: int | None) -> PartitionOffset:
    return PartitionOffset(
        f'{{"filename":"{file}"}}', None if offset is None else f'{{"position":{offset}}}'
    )


# --- standalone --------------------------------------------------------------------------------


def written(lab: Lab, n: int) -> None:
    have = len(lab.solo.lines.read_text().splitlines())
    with lab.solo.lines.open("a") as handle:
        handle.writelines(f"solo {have + number}\n" for number in range(n))


def came(lab: Lab) -> list[str]:
    return sample_connectors.records(lab.east, SOLO_TOPIC).get(0, [])


def came_to_be(lab: Lab, expected: list[str]) -> None:
    def probe() -> None:
        if (observed := came(lab)) != expected:
            raise NotYet(f"{len(observed)} of {len(expected)} records")

    until("the records of the standalone worker", probe, timeout_s=VISIBLE_S_MAX)


def committed(lab: Lab) -> None:
    """Wait until the whole file is behind the offset that the worker has written to its file."""
    expected = (pair(lab.solo.lines, lab.solo.lines.stat().st_size),)

    def probe() -> None:
        observed = open_storage(lab.solo.properties).pairs(SOLO_SOURCE)
        if observed != expected:
            raise NotYet(str(observed))

    until("the last commit", probe, timeout_s=VISIBLE_S_MAX)


def goes_round(lab: Lab, state: Path) -> None:
    written(lab, BEFORE)
    lines = lab.solo.lines.read_text().splitlines()
    came_to_be(lab, lines)
    committed(lab)
    store = open_storage(lab.solo.properties)
    there = store.pairs(SOLO_SOURCE)
    assert store.connectors() == (SOLO_SOURCE,)  # a sink's are in its group
    assert [str(lab.pids[STANDALONE]) in name or lab.solo.url in name for name in store.busy()] == [
        True,
        True,
    ]
    step = store.plan_write(SOLO_SOURCE, (pair(lab.solo.lines, position(lab.solo.lines, 4)),))
    inspection = store.driver(SOLO_SOURCE).inspect(Settle(), None)
    assert inspection.status is StepStatus.NOT_YET

    lab.terminate(STANDALONE)
    result = carried_out(store, SOLO_SOURCE, step, state)
    assert result.ending is PlanStatus.SUCCEEDED, result.said
    assert result.frozen is not None
    assert result.frozen.pairs == there
    lab.start_process(STANDALONE)
    written(lab, AFTER)
    now = lab.solo.lines.read_text().splitlines()
    came_to_be(lab, [*lines, *now[4:]])
    committed(lab)

    toolbox, retained = Toolbox(lab, directory=state / "toolbox"), state / "kept.json"
    toolbox.store("offsets", "reset", SOLO_SOURCE, properties=lab.solo.properties, status=3)
    lab.terminate(STANDALONE)
    toolbox.stored("offsets", "export", "--output", str(retained), properties=lab.solo.properties)
    toolbox.store("offsets", "reset", SOLO_SOURCE, properties=lab.solo.properties)
    assert open_storage(lab.solo.properties).connectors() == ()
    document = ("--offsets", str(retained))
    toolbox.stored("offsets", "diff", *document, properties=lab.solo.properties, status=1)
    toolbox.store("offsets", "import", *document, "--allow-new", properties=lab.solo.properties)
    toolbox.stored("offsets", "diff", *document, properties=lab.solo.properties)
    lab.start_process(STANDALONE)
    written(lab, AFTER)
    last = lab.solo.lines.read_text().splitlines()
    came_to_be(lab, [*lines, *now[4:], *last[len(now) :]])


def test_a_standalone_worker_goes_on_at_exactly_what_was_written_to_its_file(
    stored: Lab, tmp_path: Path
) -> None:
    goes_round(stored, tmp_path)


def test_a_standalone_worker_of_kafka_3_9_does_too(older: Lab, tmp_path: Path) -> None:
    goes_round(older, tmp_path)


# --- distributed -------------------------------------------------------------------------------


def await_offset(lab: Lab, name: str, offset: int) -> None:
    """Wait until the worker itself says that its connector stands there."""

    def probe() -> None:
        try:
            observed = [row["offset"] for row in lab.offsets(name)]
        except httpx.TransportError as exc:
            raise NotYet(str(exc)) from exc
        if observed != [{"position": offset}]:
            raise NotYet(str(observed))

    until(f"{name} at {offset}", probe, timeout_s=VISIBLE_S_MAX)


@pytest.mark.parametrize("config", [{}, OWN], ids=["worker", "own"])
def test_a_worker_that_was_down_reads_what_was_written_to_its_topic(
    stored: Lab, tmp_path: Path, config: dict[str, str]
) -> None:
    lab, name = stored, f"stored-{len(config)}"
    properties = lab.directory / "connect-1.properties"
    with sample_connectors.source(lab, name, config, lines=BEFORE) as source:
        lines = source.meant()
        await_offset(lab, name, position(source.path, BEFORE))
        store = open_storage(properties)
        assert store.pairs(name) == (pair(source.path, position(source.path, BEFORE)),)
        assert (store.state(name), store.notes(name)) == ("started", ())
        assert "group connect has workers" in store.busy(name)[0]
        step = store.plan_write(name, (pair(source.path, position(source.path, 4)),))
        assert step.where.endswith(config.get("offsets.storage.topic", "connect-offsets"))

        lab.terminate("connect-1")
        result = carried_out(store, name, step, tmp_path)
        assert result.ending is PlanStatus.SUCCEEDED, result.said
        past = [
            offset.pair for offset in open_storage(properties).from_beginning(frozenset({name}))
        ]
        assert past[-1] == step.pairs[0]
        lab.start_process("connect-1")
        lab.wait_running(name)
        await_offset(lab, name, position(source.path, BEFORE))
        source.grow(AFTER)
        await_offset(lab, name, position(source.path, BEFORE + AFTER))
        assert source.came() == [*lines, *source.meant()[4:]]


def test_a_dedicated_mirror_maker_that_was_down_reads_what_was_written_to_its_topic(
    stored: Lab, tmp_path: Path
) -> None:
    lab, name = stored, "MirrorSourceConnector"
    remote = f"{DEDICATED_UPSTREAM}.{DEDICATED_TOPIC}"
    lab.produce("west", DEDICATED_TOPIC, BEFORE)
    once = sample_connectors.records(lab.west, DEDICATED_TOPIC)[0]
    cluster = f'{{"cluster":"{DEDICATED_UPSTREAM}","partition":0,"topic":"{DEDICATED_TOPIC}"}}'

    def copied(expected: list[str]) -> None:
        def probe() -> None:
            if (observed := sample_connectors.records(lab.east, remote).get(0, [])) != expected:
                raise NotYet(f"{len(observed)} of {len(expected)} records")

        until("the copies", probe, timeout_s=VISIBLE_S_MAX)

    def at(offset: int) -> None:
        def probe() -> None:
            results = open_storage(lab.directory / "mm2.properties").pairs(name)
            if PartitionOffset(cluster, f'{{"offset":{offset}}}') not in results:
                raise NotYet(str(results))

        until(f"offset {offset} on record", probe, timeout_s=VISIBLE_S_MAX)

    copied(once)
    at(BEFORE - 1)
    store = open_storage(lab.directory / "mm2.properties")
    assert store.busy(name)
    settings = store.settings(name)
    assert settings is not None
    assert settings.mirror is not None
    assert settings.mirror.source == DEDICATED_UPSTREAM
    step = store.plan_write(name, (PartitionOffset(cluster, '{"offset":5}'),))

    lab.terminate("mm2")
    result = carried_out(store, name, step, tmp_path)
    assert result.ending is PlanStatus.SUCCEEDED, result.said
    lab.start_process("mm2")
    copied([*once, *once[6:]])
    at(BEFORE - 1)


# --- who may see what --------------------------------------------------------------------------


@pytest.fixture
def secured(stored: Lab, tmp_path: Path) -> Path:
    """The worker's file as it would be on the secured listener."""
    entry = stored.secured_properties("east")
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    user, password = entry["sasl.username"], entry["sasl.password"]
    login = f'{module} required username="{user}" password="{password}";'
    path = tmp_path / "secured.properties"
    path.write_text(
        (stored.directory / "connect-1.properties").read_text()
        + f"""
bootstrap.servers={entry["bootstrap.servers"]}
security.protocol=SASL_SSL
ssl.truststore.type=PEM
ssl.truststore.location={stored.security.ca}
sasl.mechanism={entry["sasl.mechanism"]}
sasl.jaas.config={login}
"""
    )
    return path


def test_the_clients_of_a_secured_worker_are_made_as_its_file_says(
    stored: Lab, secured: Path
) -> None:
    plain = open_storage(stored.directory / "connect-1.properties")
    store = open_storage(secured)
    assert store.connectors() == plain.connectors()
    assert store.identity() == plain.identity()
    assert store.busy() == plain.busy()
    secured.write_text(secured.read_text().replace('password="', 'password="not '))
    with pytest.raises(AccessDenied):
        open_storage(secured).connectors()


def test_workers_that_an_acl_hides_are_not_workers_that_are_gone(
    stored: Lab, secured: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": stored.east})
    group = (ResourceType.GROUP, "connect", ResourcePatternType.LITERAL)
    allowed = (AclOperation.ALL, AclPermissionType.ALLOW)
    for future in admin.create_acls([AclBinding(*group, "User:ANONYMOUS", "*", *allowed)]).values():
        future.result()
    try:
        with pytest.raises(AccessDenied):
            open_storage(secured).busy()
        inspection = open_storage(secured).driver("any").inspect(Settle(), None)
        assert inspection.status is StepStatus.IMPOSSIBLE
    finally:
        expected = AclBindingFilter(*group, None, None, AclOperation.ANY, AclPermissionType.ANY)
        for deleted in admin.delete_acls([expected]).values():
            deleted.result()


def test_nothing_that_is_read_here_is_left_out(stored: Lab) -> None:
    """As many keys as the topic has, by another reader."""
    store = open_storage(stored.directory / "connect-1.properties")
    contents: OffsetStoreContents = store._read_contents(None)
    live = {offset.key for offset in contents.stored if offset.value is not None}
    assert {(key or b"").decode() for key in live} == set(
        sample_connectors.newest(stored.east, "connect-offsets")
    )
