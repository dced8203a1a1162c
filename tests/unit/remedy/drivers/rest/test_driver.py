"""The REST driver against a worker in memory that misbehaves as the real one does."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from lab.processes.ports import free_port
from offsetwatch.config import Connect, Kafka
from offsetwatch.errors import AccessDenied, IncompleteResponse, NotFound, TargetUnreachable
from offsetwatch.remedy.drivers.rest.driver import IDLE_S, QUIET_S, RestDriver
from offsetwatch.remedy.gather.live_queries import (
    compute_config_sha256,
    parse_kafka_version,
    query_worker_versions,
)
from offsetwatch.remedy.model.driver import AttemptResult, Outcome, StepStatus
from offsetwatch.remedy.model.plan import (
    Alter,
    AnyStep,
    Create,
    Delete,
    FrozenOffsets,
    PartitionOffset,
    RawOffsetRecord,
    RequestedState,
    Reset,
    Restart,
    Settle,
    ToState,
    Write,
)
from offsetwatch.remedy.model.stored_offsets import (
    OffsetStoreContents,
    StoredOffsetRecord,
    decode_record_value,
)
from tests.fakes import connect as fake
from tests.fakes.clock import VirtualClock
from tests.fakes.connect_model.answers import NOT_MODIFIABLE

A, B = {"filename": "/a"}, {"filename": "/b"}
STOP = ToState(RequestedState.STOPPED)
RUN = ToState(RequestedState.RUNNING)
PAUSE = ToState(RequestedState.PAUSED)


@pytest.fixture
def worker() -> Iterator[fake.Connect]:
    with fake.serving(topics={"t": 2}) as served:
        yield served


@pytest.fixture
def stopped(worker: fake.Connect) -> fake.Connect:
    """One stopped source `src` that has offsets of /a."""
    worker.add("src", state="STOPPED", tasks=0)
    worker.commit("src", A, {"position": 10})
    return worker


def config_of(*urls: str) -> Connect:
    return Connect(name="cc", kafka="k", urls=list(urls))


def driver_of(worker: fake.Connect, name: str = "src", **more: Any) -> RestDriver:
    return RestDriver(config_of(worker.url), name, None, **more)


def pair(partition: dict[str, Any], offset: dict[str, Any] | None) -> PartitionOffset:
    def text(value: object) -> str:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))

    return PartitionOffset(text(partition), None if offset is None else text(offset))


def frozen_of(worker: fake.Connect, name: str = "src") -> FrozenOffsets:
    return FrozenOffsets(driver_of(worker, name).offsets().pairs, backup="b", backup_sha256="0")


def inspect_status(
    driver: RestDriver, step: AnyStep, frozen: FrozenOffsets | None = None
) -> StepStatus:
    return driver.inspect(step, frozen).status


# --- states --------------------------------------------------------------------------------------


def test_a_stop_is_done_only_when_no_task_is_left(worker):
    worker.add("src")
    worker.linger = 2
    driver = driver_of(worker)
    assert inspect_status(driver, STOP) is StepStatus.READY
    assert driver.carry_out(STOP, None).answer is AttemptResult.ACK
    assert [inspect_status(driver, STOP) for _ in range(3)] == [
        StepStatus.NOT_YET,
        StepStatus.NOT_YET,
        StepStatus.DONE,
    ]


def test_a_stop_that_ended_halfway_is_to_be_carried_out_again(worker):
    worker.add("src", state="RUNNING", tasks=0)
    assert inspect_status(driver_of(worker), STOP) is StepStatus.PARTLY


def test_running_is_done_once_every_configured_task_has_been_heard_of(worker):
    worker.add("src", state="STOPPED", tasks=0, tasks_max=2)
    driver = driver_of(worker)
    assert inspect_status(driver, RUN) is StepStatus.READY
    driver.carry_out(RUN, None)
    assert inspect_status(driver, RUN) is StepStatus.DONE


def test_a_task_that_fails_again_does_not_keep_its_connector_from_being_resumed(worker):
    worker.add("src", failing=True)
    inspection = driver_of(worker).inspect(RUN, None)
    assert inspection.status is StepStatus.DONE
    assert "failed" in inspection.said


def test_a_connector_without_tasks_runs_once_it_was_given_time_to_have_some(worker):
    worker.add("src", state="PAUSED", tasks=0, tasks_max=0)
    clock = VirtualClock()
    driver = driver_of(worker, clock=clock)
    driver.carry_out(RUN, None)
    assert inspect_status(driver, RUN) is StepStatus.NOT_YET
    clock.advance(IDLE_S)
    assert inspect_status(driver, RUN) is StepStatus.DONE


def test_pause_of_a_running_connector_waits_for_its_tasks(worker):
    worker.add("src")
    driver = driver_of(worker)
    assert inspect_status(driver, PAUSE) is StepStatus.READY
    assert driver.carry_out(PAUSE, None).answer is AttemptResult.ACK
    assert inspect_status(driver, PAUSE) is StepStatus.DONE


def test_a_connector_that_was_deleted_meanwhile_is_foreign(worker):
    assert inspect_status(driver_of(worker), STOP) is StepStatus.FOREIGN


def test_a_rebalance_is_not_yet_and_queried_again_later(stopped):
    driver = driver_of(stopped)
    stopped.fail("GET", "/tasks", 409, fake.REBALANCE)
    assert inspect_status(driver, STOP) is StepStatus.NOT_YET
    stopped.fail("PUT", "/stop", 409, fake.REBALANCE)
    assert driver.carry_out(STOP, None).answer is AttemptResult.RETRY


def test_a_worker_that_is_starting_is_no_deleted_connector(stopped):
    stopped.fail("GET", "/tasks", 404, fake.ROUTE)
    with pytest.raises(NotFound):
        driver_of(stopped).inspect(STOP, None)
    stopped.fail("PUT", "/stop", 404, fake.ROUTE)
    assert driver_of(stopped).carry_out(STOP, None).answer is AttemptResult.RETRY


# --- settling ------------------------------------------------------------------------------------


def test_offsets_have_settled_once_they_have_not_moved_for_a_while(stopped):
    clock = VirtualClock()
    driver = driver_of(stopped, clock=clock)
    assert inspect_status(driver, Settle()) is StepStatus.NOT_YET
    clock.advance(QUIET_S - 1)
    stopped.commit("src", A, {"position": 20})  # a last commit
    assert inspect_status(driver, Settle()) is StepStatus.NOT_YET
    clock.advance(QUIET_S - 1)
    assert inspect_status(driver, Settle()) is StepStatus.NOT_YET
    clock.advance(1)
    assert inspect_status(driver, Settle()) is StepStatus.DONE


def test_settling_a_connector_that_another_client_resumed_is_foreign(stopped):
    stopped.connectors["src"].state = "RUNNING"
    assert inspect_status(driver_of(stopped), Settle()) is StepStatus.FOREIGN


@pytest.mark.parametrize(
    ("kind", "members", "expected"),
    [
        ("sink", ("consumer-1 at /10.0.0.1",), StepStatus.NOT_YET),
        ("sink", (), StepStatus.DONE),
        ("sink", None, StepStatus.DONE),  # unknown: Connect checks when it is asked
        ("source", ("consumer-1 at /10.0.0.1",), StepStatus.DONE),
    ],
)
def test_a_sink_has_not_settled_while_its_group_has_members(
    worker, monkeypatch, kind, members, expected
):
    monkeypatch.setattr(RestDriver, "_members", lambda _: members)
    worker.add("snk", kind=kind, state="STOPPED", tasks=0)
    kafka = Kafka(bootstrap="broker:9092")
    driver = RestDriver(config_of(worker.url), "snk", kafka, clock=VirtualClock())
    inspection = driver.inspect(Settle(quiet_s=0.0), None)
    assert inspection.status is expected
    assert ("consumer-1" in inspection.said) is (expected is StepStatus.NOT_YET)


# --- offsets -------------------------------------------------------------------------------------


def test_an_alter_goes_from_ready_to_done(stopped):
    driver, frozen = driver_of(stopped), frozen_of(stopped)
    step = Alter((pair(A, {"position": 5}), pair(B, {"position": 2**62 + 1})))
    assert inspect_status(driver, step, frozen) is StepStatus.READY
    outcome = driver.carry_out(step, frozen)
    assert (outcome.answer, outcome.definite) == (AttemptResult.ACK, True)
    assert inspect_status(driver, step, frozen) is StepStatus.DONE
    assert stopped.offsets["src"]['{"filename":"/b"}'] == {"position": 2**62 + 1}


def test_a_connector_that_does_not_vouch_makes_a_possible_success(stopped):
    stopped.vouches = False
    outcome = driver_of(stopped).carry_out(Alter((pair(A, {"position": 5}),)), None)
    assert (outcome.answer, outcome.definite) == (AttemptResult.ACK, False)


def test_null_removes_one_partition_and_leaves_the_others(stopped):
    stopped.commit("src", B, {"position": 3})
    driver, frozen = driver_of(stopped), frozen_of(stopped)
    step = Alter((pair(A, None),))
    driver.carry_out(step, frozen)
    assert inspect_status(driver, step, frozen) is StepStatus.DONE
    assert driver.offsets().pairs == (pair(B, {"position": 3}),)


def test_another_partition_that_moved_since_it_was_frozen_is_foreign(stopped):
    driver, frozen = driver_of(stopped), frozen_of(stopped)
    stopped.commit("src", B, {"position": 3})
    inspection = driver.inspect(Alter((pair(A, {"position": 5}),)), frozen)
    assert inspection.status is StepStatus.FOREIGN
    assert "/b" in inspection.said


def test_offsets_of_a_connector_that_another_client_resumed_are_not_changed(stopped):
    driver, frozen = driver_of(stopped), frozen_of(stopped)
    stopped.connectors["src"].state = "RUNNING"
    stopped.connectors["src"].tasks = 1
    assert inspect_status(driver, Alter((pair(A, {"position": 5}),)), frozen) is StepStatus.FOREIGN


def test_a_standalone_worker_that_is_restarted_forgets_that_it_was_ordered_to_stop(stopped):
    stopped.standalone = True
    driver, frozen = driver_of(stopped), frozen_of(stopped)
    step = Alter((pair(A, {"position": 5}),))
    assert inspect_status(driver, step, frozen) is StepStatus.READY
    stopped.restart()
    assert inspect_status(driver, step, frozen) is StepStatus.FOREIGN
    assert driver.carry_out(step, frozen).answer is AttemptResult.RETRY  # Connect guards it as well


def test_a_sink_alter_that_half_applied_shows_as_partly(worker):
    worker.add("snk", kind="sink", state="STOPPED", tasks=0)
    good = {"kafka_topic": "t", "kafka_partition": 0}
    bad = {"kafka_topic": "t", "kafka_partition": 7}
    worker.commit("snk", good, {"kafka_offset": 9})
    driver, frozen = driver_of(worker, "snk"), frozen_of(worker, "snk")
    step = Alter((pair(good, {"kafka_offset": 5}), pair(bad, {"kafka_offset": 5})))
    assert driver.carry_out(step, frozen).answer is AttemptResult.FAILED
    assert inspect_status(driver, step, frozen) is StepStatus.PARTLY


def test_consumers_that_have_not_left_yet_are_waited_for(worker):
    worker.add("snk", kind="sink", state="STOPPED", tasks=0, lingering=1)
    location = {"kafka_topic": "t", "kafka_partition": 0}
    driver, step = driver_of(worker, "snk"), Alter((pair(location, {"kafka_offset": 5}),))
    assert driver.carry_out(step, None).answer is AttemptResult.RETRY
    assert driver.carry_out(step, None).answer is AttemptResult.ACK


def test_a_reset_is_done_when_nothing_has_an_offset(stopped):
    driver, frozen = driver_of(stopped), frozen_of(stopped)
    assert inspect_status(driver, Reset(), frozen) is StepStatus.READY
    outcome = driver.carry_out(Reset(), frozen)
    assert (outcome.answer, outcome.definite) == (AttemptResult.ACK, True)
    stopped.commit("src", B, None)  # a key in other bytes stays listed, without an offset
    assert inspect_status(driver, Reset(), frozen) is StepStatus.DONE


# --- answers -------------------------------------------------------------------------------------

ALTER = Alter((pair(A, {"position": 5}),))


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        pytest.param(
            500, fake.TIMED_OUT, AttemptResult.IN_DOUBT, id="it took longer than Connect waits"
        ),
        pytest.param(
            500,
            "IO Error trying to forward REST request: java.util.concurrent.TimeoutException",
            AttemptResult.IN_DOUBT,
            id="the leader gave no answer",
        ),
        pytest.param(
            500,
            "IO Error trying to forward REST request: java.util.concurrent.ExecutionException: "
            "java.net.ConnectException: Connection refused",
            AttemptResult.RETRY,
            id="the leader is gone",
        ),
        pytest.param(
            500, fake.ZOMBIES.format("src"), AttemptResult.RETRY, id="tasks have not ended"
        ),
        pytest.param(
            500,
            "The value for the 'position' key in the offset should be a non-negative value",
            AttemptResult.NACK,
            id="the connector does not agree",
        ),
        pytest.param(
            500,
            "Source partition {partition=0, topic=orders} is missing the 'cluster' key, which is "
            "required",
            AttemptResult.NACK,
            id="MM2 does not agree",
        ),
        pytest.param(
            500,
            "Failed to modify offsets for sink connector src",
            AttemptResult.FAILED,
            id="unclear",
        ),
        pytest.param(500, "null", AttemptResult.FAILED, id="nothing is said"),
        pytest.param(
            500,
            NOT_MODIFIABLE.format("src"),
            AttemptResult.NACK,
            id="the connector does not support it",
        ),
        pytest.param(
            500,
            "these offsets are not to my taste",
            AttemptResult.NACK,
            id="the connector's own words",
        ),
        pytest.param(
            500,
            "Timed out while attempting to modify offsets for source connector src",
            AttemptResult.IN_DOUBT,
            id="it may be written yet",
        ),
        pytest.param(502, "", AttemptResult.IN_DOUBT, id="a proxy"),
        pytest.param(409, fake.REBALANCE, AttemptResult.RETRY, id="a rebalance"),
        pytest.param(
            400, fake.NOT_STOPPED.format("src"), AttemptResult.RETRY, id="not stopped yet"
        ),
        pytest.param(
            400, "Offset values need to be integers.", AttemptResult.NACK, id="a bad request"
        ),
        pytest.param(404, "Connector src not found", AttemptResult.NACK, id="no such connector"),
        pytest.param(405, "HTTP 405 Method Not Allowed", AttemptResult.NACK, id="Kafka 3.5"),
        pytest.param(307, "", AttemptResult.NACK, id="a redirect is not followed"),
    ],
)
def test_an_answer_is_worth_what_it_says(stopped, status, message, expected):
    stopped.fail("PATCH", "/offsets", status, message)
    assert driver_of(stopped).carry_out(ALTER, None).answer is expected


def test_a_page_of_a_proxy_is_no_answer_of_connects(stopped):
    stopped.fail("PATCH", "/offsets", 200, raw=b"<html>welcome</html>")
    assert driver_of(stopped).carry_out(ALTER, None).answer is AttemptResult.IN_DOUBT


def test_a_500_that_was_applied_all_the_same_shows_in_the_next_poll(stopped):
    driver, frozen = driver_of(stopped), frozen_of(stopped)
    stopped.fail("PATCH", "/offsets", 500, fake.TIMED_OUT, applied=True)
    assert driver.carry_out(ALTER, frozen).answer is AttemptResult.IN_DOUBT
    assert inspect_status(driver, ALTER, frozen) is StepStatus.DONE


def test_a_cut_connection_is_in_doubt_and_a_refused_login_is_not(stopped):
    driver = driver_of(stopped)
    stopped.fail("PATCH", "/offsets", None)
    with pytest.raises(IncompleteResponse):
        driver.carry_out(ALTER, None)
    stopped.fail("PATCH", "/offsets", 401, raw=b"User cannot access the resource.")
    with pytest.raises(AccessDenied):
        driver.carry_out(ALTER, None)


def test_another_worker_is_queried_only_where_no_connection_was_made(stopped):
    unauthenticated = f"http://127.0.0.1:{free_port()}"
    driver = RestDriver(config_of(unauthenticated, stopped.url), "src", None)
    assert driver.carry_out(ALTER, None).answer is AttemptResult.ACK
    with pytest.raises(TargetUnreachable):
        RestDriver(config_of(unauthenticated), "src", None).carry_out(ALTER, None)
    stopped.fail("PATCH", "/offsets", None)
    with pytest.raises(IncompleteResponse):
        RestDriver(config_of(stopped.url, stopped.url), "src", None).carry_out(ALTER, None)
    assert len(stopped.changes()) == 2


@pytest.mark.parametrize(
    "message",
    [
        "offsets should be a map, database.password=hunter2 is set",
        "offsets should be a map: jdbc://me:hunter2@db/x",
        'offsets should be a map: "secret.key": "hunter2"',
        'must not be set: sasl.jaas.config=X required username="me" password="hunter2";',
        "x" * 600 + "hunter2",
        "first line\nhunter2",
        'must not be set: password="it is hunter2\n"',
        "jdbc://me:" + "hunter2" * 600 + "@db/x is not an address",
        'token="' + "and hunter2 " * 600 + '" is too long',
    ],
)
def test_what_connect_says_is_said_without_secrets_and_short(stopped, message):
    stopped.fail("PATCH", "/offsets", 500, message)
    outcome = driver_of(stopped).carry_out(ALTER, None)
    assert "hunter2" not in outcome.said
    assert len(outcome.said) < 520


# --- creation, deletion, restart -----------------------------------------------------------------

CONFIG = {"connector.class": "C", "tasks.max": 1, "db.password": "hunter2"}


def test_a_connector_is_created_stopped(worker):
    step = Create(compute_config_sha256("new", CONFIG))
    driver = driver_of(worker, "new", create_config=CONFIG)
    assert inspect_status(driver, step) is StepStatus.READY
    assert driver.carry_out(step, None).answer is AttemptResult.ACK
    assert inspect_status(driver, step) is StepStatus.DONE
    assert worker.connectors["new"].state == "STOPPED"


def test_a_creation_needs_the_very_configuration_that_was_planned(worker):
    step = Create(compute_config_sha256("new", CONFIG))
    assert inspect_status(driver_of(worker, "new"), step) is StepStatus.IMPOSSIBLE
    other = driver_of(worker, "new", create_config={**CONFIG, "tasks.max": 2})
    assert inspect_status(other, step) is StepStatus.IMPOSSIBLE
    other.carry_out(step, None)
    assert (
        inspect_status(driver_of(worker, "new", create_config=CONFIG), step) is StepStatus.FOREIGN
    )


def test_a_worker_that_cannot_create_stopped_is_not_ordered_to_create(worker):
    worker.version = "3.6.2"
    step = Create(compute_config_sha256("new", CONFIG))
    outcome = driver_of(worker, "new", create_config=CONFIG).carry_out(step, None)
    assert outcome.answer is AttemptResult.NACK
    assert worker.changes() == []


def test_a_refused_configuration_is_reported_by_the_names_of_its_settings(worker):
    worker.fail(
        "POST",
        "/connectors",
        400,
        "Connector configuration is invalid and contains the following 2 error(s):\n"
        "Invalid value hunter2 for configuration db.password: too short\n"
        'Missing required configuration "topic" which has no default value.\n',
    )
    driver = driver_of(worker, "new", create_config=CONFIG)
    outcome = driver.carry_out(Create(compute_config_sha256("new", CONFIG)), None)
    assert outcome.answer is AttemptResult.NACK
    assert outcome.said == "HTTP 400: it is about db.password, topic"


def test_a_creation_whose_answer_was_lost_is_found(worker):
    worker.fail("POST", "/connectors", 500, fake.TIMED_OUT, applied=True)
    step = Create(compute_config_sha256("new", CONFIG))
    driver = driver_of(worker, "new", create_config=CONFIG)
    assert driver.carry_out(step, None).answer is AttemptResult.IN_DOUBT
    assert inspect_status(driver, step) is StepStatus.DONE


def test_a_deletion_leaves_the_offsets(stopped):
    driver = driver_of(stopped)
    assert inspect_status(driver, Delete()) is StepStatus.READY
    assert driver.carry_out(Delete(), None).answer is AttemptResult.ACK
    assert inspect_status(driver, Delete()) is StepStatus.DONE
    assert stopped.offsets["src"]


def test_a_deletion_of_what_was_created_leaves_a_namesake_alone(worker):
    created = compute_config_sha256("new", CONFIG)
    driver = driver_of(worker, "new", create_config=CONFIG)
    assert inspect_status(driver, Delete(created)) is StepStatus.DONE
    assert driver.carry_out(Create(created), None).answer is AttemptResult.ACK
    assert inspect_status(driver, Delete(created)) is StepStatus.READY
    other = compute_config_sha256("new", {**CONFIG, "topic": "another"})
    assert inspect_status(driver, Delete(other)) is StepStatus.FOREIGN


def test_a_starting_worker_does_not_make_a_connector_deleted(stopped):
    stopped.fail("GET", "/connectors", 404, fake.ROUTE)
    with pytest.raises(NotFound):
        driver_of(stopped).inspect(Delete(), None)


def test_a_restart_is_requested_once(worker):
    worker.add("src")
    driver, step = driver_of(worker), Restart(include_tasks=True, only_failed=True)
    assert inspect_status(driver, step) is StepStatus.READY
    assert driver.carry_out(step, None).answer is AttemptResult.ACK
    assert inspect_status(driver, step) is StepStatus.DONE
    assert worker.changes() == [
        ("POST", "/connectors/src/restart?includeTasks=true&onlyFailed=true")
    ]


def test_a_name_cannot_lead_a_request_elsewhere(worker):
    name = "../admin/loggers?x=/#"
    worker.add(name, state="RUNNING")
    driver = driver_of(worker, name)
    driver.carry_out(STOP, None)
    assert worker.connectors[name].state == "STOPPED"


def test_raw_bytes_are_not_written_over_rest(stopped):
    step = Write("k/t", (), ())
    assert inspect_status(driver_of(stopped), step) is StepStatus.IMPOSSIBLE
    assert driver_of(stopped).carry_out(step, None).answer is AttemptResult.NACK


class Topics:
    """Offsets topics of the workers' cluster, in memory, in place of KafkaSide.storage."""

    def __init__(self, *records: tuple[str, bytes, bytes | None]) -> None:
        self.now = {(topic, key): value for topic, key, value in records}
        self.opened = ""

    def __call__(self, topic: str) -> Topics:
        self.opened = topic
        return self

    def contents(self) -> OffsetStoreContents:
        stored = [
            StoredOffsetRecord(key, value, 0, number)
            for number, ((topic, key), value) in enumerate(self.now.items())
            if topic == self.opened
        ]
        return OffsetStoreContents(where=f"k/{self.opened}", stored=tuple(stored), partitions=1)

    def write(self, records: tuple[RawOffsetRecord, ...]) -> Outcome:
        for record in records:
            self.now[self.opened, b64decode(record.key)] = decode_record_value(record)
        return Outcome(AttemptResult.ACK, "")

    def close(self) -> None:
        """Nothing is held."""


def test_records_that_no_task_is_handed_are_inspected_in_their_topic(stopped, monkeypatch):
    key, other = b'["src",{"filename":"/a"}]', b'["other",{"filename":"/a"}]'
    topics = Topics(("own", key, b"{}"), ("shared", key, b"{}"), ("shared", other, b"{}"))
    driver = RestDriver(
        config_of(stopped.url),
        "src",
        Kafka(bootstrap="127.0.0.1:1"),
        offsets_topics=("own", "shared"),
    )
    monkeypatch.setattr(driver, "_open_storage", topics)
    offsets = driver.offsets()
    assert [(located_raw.where, b64decode(located_raw.key)) for located_raw in offsets.raw] == [
        ("k/own", key),
        ("k/shared", key),
    ]
    frozen = FrozenOffsets(offsets.pairs, backup="b", backup_sha256="0", raw=offsets.raw)
    step = Write("k/shared", (RawOffsetRecord(b64encode(key).decode(), None, 0),), ())
    assert inspect_status(driver, step, frozen) is StepStatus.READY
    assert driver.carry_out(step, frozen).answer is AttemptResult.ACK
    assert inspect_status(driver, step, frozen) is StepStatus.DONE
    assert topics.now == {("own", key): b"{}", ("shared", key): None, ("shared", other): b"{}"}
    topics.now["shared", key] = b'{"position":9}'  # another client's
    assert inspect_status(driver, step, frozen) is StepStatus.FOREIGN
    topics.now["shared", key] = b"{}"
    stopped.connectors["src"].state = "RUNNING"
    assert inspect_status(driver, step, frozen) is StepStatus.FOREIGN


# --- versions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kafka"),
    [
        ("4.3.1", (4, 3)),
        ("3.6.0-SNAPSHOT", (3, 6)),
        ("3.9.1.redhat-00001", (3, 9)),
        ("7.5.0-ccs", (3, 5)),
        ("6.1.0-ce", (2, 7)),
        ("8.0.0-ccs", (4, 0)),
        ("99.0.0-ccs", None),
        ("unknown", None),
    ],
)
def test_a_version_is_held_against_apache_kafkas(text, kafka):
    assert parse_kafka_version(text) == kafka


def test_every_address_is_queried_for_its_version(worker):
    with fake.serving(version="3.4.0", cluster_id="other") as old:
        unauthenticated = f"http://127.0.0.1:{free_port()}"
        results = query_worker_versions(config_of(worker.url, old.url, unauthenticated))
        assert dict(results.versions) == {worker.url: "4.3.1", old.url: "3.4.0"}
        assert [url for url, _ in results.silent] == [unauthenticated]
        assert results.cluster_ids == {"other", "kafka-of-the-fake"}
