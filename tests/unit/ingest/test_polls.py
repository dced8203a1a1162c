"""Polls: what one attempt puts into the queue, its failure among it, and in which order."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from offsetwatch.clients.connect.offsets_sweep import ConnectSweep
from offsetwatch.clients.connect.reader import ConnectReader
from offsetwatch.errors import AccessDenied, ClientError, MalformedResponse, TargetUnreachable
from offsetwatch.ingest import polls
from offsetwatch.ingest.connect_rest import (
    CROSS_CHECK_S,
    MISSING_S,
    SINGLE_REQUESTS_MAX,
    AssignmentsPoll,
    ConnectorsPoll,
    poll_assignment,
    poll_connectors,
    poll_rest_offsets,
)
from offsetwatch.ingest.log_ends_poll import TURN_PARTITIONS, TURNS_MAX, LogEndsPoll, _choose_topics
from offsetwatch.ingest.polls import Batch, poll_brokers, poll_groups
from offsetwatch.model.observations import (
    CONNECT_REST,
    GROUPS,
    LOG_ENDS,
    AssignmentConfirmed,
    BrokerAddressesRead,
    ConnectorsListed,
    InputFailed,
    InputId,
    InputSucceeded,
    LogBounds,
    LogEndsRead,
    LogEndsRequested,
    PartitionsAssigned,
    RestOffsetsRead,
    RestOffsetsRequested,
    SinkOffset,
    SinkOffsetsRead,
)
from offsetwatch.model.topology import MirrorFlow, SinkGroup, TopicPartition, Topology
from offsetwatch.state.inputs import Inputs
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT, MirrorPartitionView, Snapshot
from tests.changed import replace
from tests.fakes.clock import VirtualClock
from tests.fakes.kafka import FakeAdmin, FakeKafka
from tests.fakes.swept import MISSING, offsets, swept

CLOCK = VirtualClock()
REST = InputId(CONNECT_REST, connect_cluster="lab")


def worker(answers: dict[str, httpx.Response]) -> ConnectReader:
    """A worker that gives these answers by path, and 404 for every other."""
    missing = httpx.Response(404, json={"error_code": 404, "message": "not found"})
    transport = httpx.MockTransport(lambda request: answers.get(request.url.path, missing))
    return ConnectReader("lab", ("http://worker:8083",), timeout_s=1.0, transport=transport)


def test_the_list_of_connectors_comes_before_the_success():
    poll = ConnectorsPoll(ConnectAnswers())
    assert poll_connectors(poll, CLOCK) == (
        ConnectorsListed("lab", (), frozenset(), "ours"),
        InputSucceeded(REST, CLOCK.now()),
    )


def entry(state: str | None = "RUNNING") -> dict[str, Any]:
    reports = {"connector": {"state": state}, "tasks": [], "type": "source"}
    info = {"config": {"connector.class": "X"}, "type": "source"}
    return {"info": info} if state is None else {"status": reports, "info": info}


@dataclass
class ConnectAnswers:
    """What Connect answers to each of its questions, and which were asked."""

    listed: dict[str, Any] = field(default_factory=dict)
    named: tuple[Any, ...] = ()
    kafka: str = "ours"
    down: frozenset[str] = frozenset()
    without_info: frozenset[str] = frozenset()
    class_name: str = "X"
    requests: list[str] = field(default_factory=list)
    name: str = "lab"

    def connectors(self) -> bytes:
        return json.dumps(self.listed).encode()

    def connector_names(self) -> bytes:
        return self._answer("names", [*self.listed, *self.named])

    def connector_infos(self) -> bytes:
        names = [name for name in (*self.listed, *self.named) if isinstance(name, str)]
        results = {name: self.info() for name in names if name not in self.without_info}
        return self._answer("infos", results)

    def connector(self, name: str) -> bytes:
        return self._answer(name, self.info()["info"])

    def info(self) -> dict[str, Any]:
        return {"info": {"config": {"connector.class": self.class_name}, "type": "source"}}

    def root(self) -> bytes:
        return self._answer("root", {"version": "4.3.1", "kafka_cluster_id": self.kafka})

    def _answer(self, what: str, answer: object) -> bytes:
        self.requests.append(what)
        if what in self.down:
            raise AccessDenied("lab", f"GET {what}: HTTP 403")
        return json.dumps(answer).encode()

    def poll(self, poll: ConnectorsPoll, after_s: float = 10.0) -> Batch:
        CLOCK.advance(after_s)
        self.requests.clear()
        return poll_connectors(poll, CLOCK)


def test_names_and_identity_are_requested_at_first_and_once_a_minute():
    report = ConnectAnswers({"a": entry()})
    poll = ConnectorsPoll(report)
    rounds = [(report.poll(poll), tuple(report.requests))[1] for _ in range(8)]
    assert rounds == [("root", "names"), *[()] * 5, ("root", "names"), ()]


def test_names_and_identity_are_requested_while_a_connector_is_missing_or_has_no_state():
    report = ConnectAnswers({"a": entry(), "b": entry()})
    poll = ConnectorsPoll(report)
    report.poll(poll)
    report.listed = {"b": entry()}
    for _ in range(3):
        listed, _ = report.poll(poll)
        assert (listed.names, report.requests) == ({"b"}, ["root", "names"])
    report.listed = {"a": entry(None), "b": entry()}
    for _ in range(3):
        report.poll(poll)
        assert report.requests == ["root", "names"]
    report.listed = {"b": entry()}
    report.poll(poll, MISSING_S)
    report.poll(poll)
    assert report.requests == []


def test_an_answer_that_is_another_than_before_may_be_another_clusters():
    report = ConnectAnswers({"a": entry()})
    poll = ConnectorsPoll(report)
    report.poll(poll)
    report.listed, report.kafka = {"a": entry("PAUSED")}, "theirs"
    listed, _ = report.poll(poll)
    assert (listed.kafka_cluster_id, listed.names) == ("theirs", {"a"})
    report.poll(poll)
    assert report.requests == []


def test_what_only_the_names_have_comes_with_its_configuration_which_is_requested_once_a_minute():
    report = ConnectAnswers({"a": entry()}, named=("mm2",))
    poll = ConnectorsPoll(report)
    listed, _ = report.poll(poll)
    assert report.requests == ["root", "names", "infos"]
    assert listed.names == {"a", "mm2"}
    assert [
        (connector.name, connector.state, connector.class_name) for connector in listed.connectors
    ] == [
        ("a", "running", "X"),
        ("mm2", "unknown", "X"),
    ]
    report.listed["a"]["status"]["connector"]["state"] = "PAUSED"
    report.class_name = "Y"
    listed, _ = report.poll(poll, CROSS_CHECK_S / 2)
    assert (report.requests, listed.connectors[1].class_name) == (["root", "names"], "X")
    listed, _ = report.poll(poll, CROSS_CHECK_S / 2)
    assert report.requests == ["root", "names", "infos"]
    assert listed.connectors[1].class_name == "Y"


def test_who_has_no_configuration_in_any_list_is_requested_by_itself():
    only_status = {"status": entry("PAUSED")["status"]}
    report = ConnectAnswers(
        {"a": entry(), "bare": only_status}, named=("mm2",), without_info=frozenset({"bare", "mm2"})
    )
    poll = ConnectorsPoll(report)
    for _ in range(2):
        listed, _ = report.poll(poll, CROSS_CHECK_S)
        assert report.requests == ["root", "names", "infos", "bare", "mm2"]
        assert [
            (connector.name, connector.state, connector.class_name, connector.configured)
            for connector in listed.connectors
        ] == [
            ("a", "running", "X", True),
            ("bare", "paused", "X", True),
            ("mm2", "unknown", "X", True),
        ]


def test_who_does_not_answer_about_itself_is_named_and_takes_no_other_with_it():
    names = ("bad", "mm2")
    report = ConnectAnswers(
        named=names, down=frozenset({"infos", "bad"}), without_info=frozenset(names)
    )
    whole, one, listed, _ = report.poll(ConnectorsPoll(report))
    assert report.requests == ["root", "names", "infos", "bad", "mm2"]
    assert (whole.reason, whole.partial) == ("denied", False)
    assert (one.reason, one.partial, one.detail[:5]) == ("denied", True, "'bad'")
    assert (listed.names, [connector.name for connector in listed.connectors]) == (
        set(names),
        ["mm2"],
    )


def test_a_member_of_the_names_that_is_no_text_is_counted_and_takes_no_other_with_it():
    report = ConnectAnswers({"a": entry()}, named=(5, "b"))
    odd, listed, _ = report.poll(ConnectorsPoll(report))
    assert (odd.reason, odd.partial) == ("malformed", True)
    assert odd.detail == "'5': GET /connectors (names): members that are no name: 1"
    assert (listed.names, listed.names_whole) == ({"a", "b"}, False)
    assert [connector.name for connector in listed.connectors] == ["a", "b"]


def test_those_without_a_configuration_are_requested_in_turns():
    names = tuple(f"c{number:02}" for number in range(SINGLE_REQUESTS_MAX + 5))
    report = ConnectAnswers(named=names, down=frozenset(names), without_info=frozenset(names))
    poll = ConnectorsPoll(report)
    report.poll(poll, CROSS_CHECK_S)
    assert report.requests[3:] == list(names[:SINGLE_REQUESTS_MAX])
    report.poll(poll, CROSS_CHECK_S)
    assert report.requests[3:] == [*names[SINGLE_REQUESTS_MAX:], *names[: SINGLE_REQUESTS_MAX - 5]]


@pytest.mark.parametrize(
    ("down", "names", "kafka"),
    [("names", None, "ours"), ("root", frozenset("a"), None), ("infos", frozenset("ab"), "ours")],
)
def test_a_witness_that_does_not_answer_is_counted_and_says_nothing(down, names, kafka):
    report = ConnectAnswers(
        {"a": entry()}, down=frozenset({down}), named=("b",) if down == "infos" else ()
    )
    failed, listed, succeeded = report.poll(ConnectorsPoll(report))
    assert (failed.input, failed.reason) == (REST, "denied")
    assert (listed.names, listed.kafka_cluster_id) == (names, kafka)
    assert [connector.name for connector in listed.connectors] == sorted(names or "a")
    assert succeeded == InputSucceeded(REST, CLOCK.now())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(httpx.Response(404), "not_found", id="a-worker-that-starts"),
        pytest.param(httpx.Response(409), "conflict", id="a-rebalance"),
        pytest.param(httpx.Response(401), "denied", id="no-credentials"),
        pytest.param(httpx.Response(500), "server_error", id="an-error"),
        pytest.param(httpx.Response(200, content=b"<html>"), "malformed", id="html"),
        pytest.param(httpx.Response(200, content=b'{"a":'), "malformed", id="half-an-answer"),
    ],
)
def test_a_failed_attempt_is_a_failure_and_lists_nothing(answer, reason):
    (failed,) = poll_connectors(ConnectorsPoll(worker({"/connectors": answer})), CLOCK)
    assert isinstance(failed, InputFailed)
    assert (failed.input, failed.reason) == (REST, reason)


def test_connectors_are_the_same_objects_for_as_long_as_the_answer_is_the_same():
    def answer(state: str) -> httpx.Response:
        reports = {"name": "files", "connector": {"state": state}, "tasks": [], "type": "source"}
        info = {"name": "files", "config": {"connector.class": "X"}, "tasks": [], "type": "source"}
        return httpx.Response(200, json={"files": {"status": reports, "info": info}})

    answers = {"/connectors": answer("RUNNING")}
    poll = ConnectorsPoll(worker(answers))
    first = poll.poll()
    assert poll.poll() is first
    answers["/connectors"] = answer("PAUSED")
    (other,) = poll.poll()
    assert (first[0].state, other.state) == ("running", "paused")
    answers["/connectors"] = httpx.Response(200, content=b"[]")
    with pytest.raises(MalformedResponse):
        poll.poll()
    answers["/connectors"] = answer("RUNNING")
    assert poll.poll() == first


def swept_by(answers: dict[str, tuple[int, bytes]], names: list[str]) -> list[Batch]:
    """What the truth check of these connectors puts into the queue."""
    batches: list[Batch] = []

    def put(batch: Batch) -> bool:
        batches.append(batch)
        return True

    with swept(lambda name: answers.get(name, (404, MISSING))) as swept_worker:
        sweep = ConnectSweep("lab", (swept_worker.url,), timeout_s=120.0)
        poll_rest_offsets(sweep, names, put, lambda: False)
    return batches


def test_rest_offsets_are_announced_before_they_are_requested():
    answers = {"a": (200, offsets(1)), "b": (200, offsets(2))}
    announced, *answered = swept_by(answers, ["a", "b"])
    assert announced == (RestOffsetsRequested("lab", "a"), RestOffsetsRequested("lab", "b"))
    assert {observed for batch in answered for observed in batch} == {
        RestOffsetsRead("lab", "a", (('{"filename":"/a"}', '{"position":1}'),)),
        RestOffsetsRead("lab", "b", (('{"filename":"/a"}', '{"position":2}'),)),
    }


def test_a_connector_deleted_meanwhile_is_passed_over():
    _, *answered = swept_by({"b": (200, offsets(2))}, ["a", "b"])
    assert [observed.connector for batch in answered for observed in batch] == ["b"]


def test_a_worker_in_trouble_is_not_requested_the_rest():
    *_, (failed,) = swept_by({"a": (500, b"")}, ["a"])
    assert (failed.input, failed.reason) == (REST, "server_error")
    assert failed.partial  # the list of connectors is another question


def test_half_an_answer_is_malformed_and_compared_with_nothing():
    *_, (failed,) = swept_by({"a": (200, b'{"offsets":')}, ["a"])
    assert failed.reason == "malformed"


class AtOnce(ConnectSweep):
    """All answers in one go, which over sockets is a matter of luck."""

    def __init__(self, *answers: tuple[str, bytes]) -> None:
        super().__init__("lab", ("http://worker:8083",), timeout_s=1.0)
        self.answers = answers

    def offsets(self, connectors, listener) -> dict[str, ClientError]:
        listener.take(self.answers)
        return {}


def test_an_answer_of_another_shape_is_malformed_and_takes_no_other_answer_along():
    reports: list[Batch] = []
    sweep = AtOnce(("a", b"{}"), ("b", offsets(2)))
    poll_rest_offsets(sweep, ["a", "b"], lambda batch: not reports.append(batch), lambda: False)
    (read,), (failed,) = reports
    assert read.connector == "b"
    assert (failed.reason, failed.detail) == (
        "malformed",
        "'a': GET offsets of a: offsets_shape",
    )
    assert failed.partial


def test_offsets_that_the_queue_had_no_room_to_announce_are_not_requested():
    with swept() as swept_worker:
        sweep = ConnectSweep("lab", (swept_worker.url,), timeout_s=120.0)
        poll_rest_offsets(sweep, ["a"], lambda _: False, lambda: False)
        assert not swept_worker.requests


ORDERS = TopicPartition("orders", 0)


def tasks(*assigned: str) -> httpx.Response:
    """The configurations of tasks, each with what it was assigned."""
    body = [
        {
            "id": {"connector": "mm2", "task": number},
            "config": {
                "task.class": "org.apache.kafka.connect.mirror.MirrorSourceTask",
                "task.assigned.partitions": name,
            },
        }
        for number, name in enumerate(assigned)
    ]
    return httpx.Response(200, json=body)


def status(state: str, *tasks: str) -> httpx.Response:
    of_tasks = [{"id": number, "state": task} for number, task in enumerate(tasks)]
    return httpx.Response(200, json={"connector": {"state": state}, "tasks": of_tasks})


def test_what_the_tasks_were_given_is_what_a_connector_copies():
    answers = {"/connectors/mm2/tasks": tasks("orders-0,orders-1", "eu-orders-0")}
    assert poll_assignment(AssignmentsPoll(worker(answers)), "mm2") == (
        PartitionsAssigned(
            "lab",
            "mm2",
            frozenset({ORDERS, TopicPartition("orders", 1), TopicPartition("eu-orders", 0)}),
            tasks=2,
        ),
    )


@pytest.mark.parametrize(
    ("state", "believed"), [("RUNNING", True), ("STOPPED", False), ("UNASSIGNED", False)]
)
def test_that_there_are_no_tasks_is_believed_of_a_connector_that_runs_afterwards(state, believed):
    """One that was stopped since it was listed has none either, and has to copy what it had to."""
    answers = {
        "/connectors/mm2/tasks": tasks(),
        "/connectors/mm2/status": status(state, "UNASSIGNED", "FAILED"),
    }
    observed = poll_assignment(AssignmentsPoll(worker(answers)), "mm2")
    report = PartitionsAssigned("lab", "mm2", frozenset(), tasks=0)
    assert observed == (report if believed else AssignmentConfirmed("lab", "mm2"),)


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        pytest.param({}, "not_found", id="unknown"),
        pytest.param({"/connectors/mm2/tasks": httpx.Response(409)}, "conflict", id="rebalance"),
        pytest.param(
            {"/connectors/mm2/tasks": httpx.Response(200, content=b"{}")}, "malformed", id="shape"
        ),
        pytest.param({"/connectors/mm2/tasks": tasks("orders")}, "malformed", id="no-partition"),
        pytest.param(
            {"/connectors/mm2/tasks": httpx.Response(200, json=[{"config": {}}])},
            "malformed",
            id="another-class",
        ),
        pytest.param({"/connectors/mm2/tasks": tasks()}, "not_found", id="no-state"),
        pytest.param(
            {
                "/connectors/mm2/tasks": tasks(),
                "/connectors/mm2/status": status("RUNNING", "FAILED", "RUNNING"),
            },
            "malformed",
            id="working-task",
        ),
    ],
)
def test_an_assignment_that_cannot_be_had_is_counted(answers, reason):
    (failed,) = poll_assignment(AssignmentsPoll(worker(answers)), "mm2")
    assert isinstance(failed, InputFailed)
    assert (failed.input, failed.reason) == (REST, reason)
    assert failed.detail.startswith("'mm2': ")


def test_an_assignment_that_cannot_be_had_leaves_the_list_of_connectors_up():
    inputs = Inputs({CONNECT_REST: 60.0})
    inputs.apply(InputSucceeded(REST, CLOCK.now()))
    for observed in poll_assignment(AssignmentsPoll(worker({})), "mm2"):
        inputs.apply(observed)
    (view,) = inputs.views(CLOCK.now())
    assert view.up
    assert dict(view.errors) == {"not_found": 1}


def test_the_same_answer_is_decoded_once_until_its_connector_was_forgotten():
    answers = {"/connectors/mm2/tasks": tasks("orders-0")}
    poll = AssignmentsPoll(worker(answers))
    first = poll.poll("mm2")
    poll.keep({"mm2", "another"})
    assert poll.poll("mm2") is first
    poll.keep({"another"})
    again = poll.poll("mm2")
    assert again == first
    assert again is not first


def test_another_answer_is_another_assignment():
    answers = {"/connectors/mm2/tasks": tasks("orders-0")}
    poll = AssignmentsPoll(worker(answers))
    assert poll.poll("mm2") == ({ORDERS}, 1)
    answers["/connectors/mm2/tasks"] = tasks("orders-0,orders-1")
    assert poll.poll("mm2") == ({ORDERS, TopicPartition("orders", 1)}, 1)
    answers["/connectors/mm2/tasks"] = httpx.Response(200, content=b"{}")
    with pytest.raises(MalformedResponse, match="GET tasks of mm2: tasks_shape"):
        poll.poll("mm2")


def snapshot(*, read_committed: bool = False, upstream: str = "west") -> Snapshot:
    """One flow with one position."""
    flow = MirrorFlow("lab", "mm2", "west", "east", upstream, None, read_committed)
    view = MirrorPartitionView(
        connect_cluster="lab",
        connector="mm2",
        source="west",
        target="east",
        topic="orders",
        partition=0,
        committed=1,
        committed_at=0.0,
        synced=None,
        replicated=1,
        log_start=None,
        log_end=None,
        lag=None,
        ahead=None,
    )
    return replace(
        EMPTY_SNAPSHOT,
        topology=Topology(offsets_topics=(), flows=(flow,)),
        mirror_partitions=(view,),
    )


def upstream() -> FakeKafka:
    kafka = FakeKafka("west", VirtualClock())
    kafka.create("orders")
    for _ in range(3):
        kafka.produce("orders", b"k", b"v")
    kafka.log("orders").stable_end = 2
    return kafka


def ends_of(admin: FakeAdmin, observed: Snapshot, number: int = 7) -> list:
    batches: list = []

    def put(batch) -> bool:
        batches.append(batch)
        return True

    LogEndsPoll(admin, put, CLOCK, iter([number])).poll(observed)
    return [observation for batch in batches for observation in batch]


def test_the_query_is_in_the_queue_before_the_question_goes_out():
    kafka = upstream()
    admin = FakeAdmin(kafka)
    order = []

    def put(batch) -> bool:
        order.extend((type(observed), len(admin.bounds_requests)) for observed in batch)
        return True

    LogEndsPoll(admin, put, CLOCK).poll(snapshot())
    assert order == [(LogEndsRequested, 0), (LogEndsRead, 1), (InputSucceeded, 1)]


def test_question_and_answer_carry_the_number_of_the_round():
    request, read, _ = ends_of(FakeAdmin(upstream()), snapshot(), number=5)
    assert (request.number, read.number) == (5, 5)


def test_the_last_stable_offset_is_requested_only_where_a_flow_reads_committed():
    for read_committed, stable_end in ((False, 3), (True, 2)):
        _, read, _ = ends_of(FakeAdmin(upstream()), snapshot(read_committed=read_committed))
        assert read.bounds == {ORDERS: LogBounds(0, 3, stable_end)}


def test_another_clusters_positions_are_not_requested():
    admin = FakeAdmin(upstream())
    _, read, _ = ends_of(admin, snapshot(upstream="north"))
    assert (read.bounds, admin.bounds_requests) == ({}, [])


def test_a_partition_that_is_gone_is_missing_from_the_answer():
    kafka = upstream()
    kafka.delete("orders")
    _, read, _ = ends_of(FakeAdmin(kafka), snapshot())
    assert read.bounds == {}


@pytest.mark.parametrize(
    "observed", [EMPTY_SNAPSHOT, snapshot()], ids=["nothing-to-ask", "a-position"]
)
def test_a_cluster_that_is_away_is_a_failure_of_its_log_ends(observed):
    kafka = upstream()
    kafka.down = TargetUnreachable("west", "away")
    request, failed = ends_of(FakeAdmin(kafka), observed)
    assert isinstance(request, LogEndsRequested)
    assert (failed.input, failed.reason) == (InputId(LOG_ENDS, kafka="west"), "unreachable")


def test_a_full_queue_queries_nothing():
    admin = FakeAdmin(upstream())
    LogEndsPoll(admin, lambda _batch: False, CLOCK).poll(snapshot())
    assert admin.bounds_requests == []


def test_brokers_are_observed_under_their_clusters_name():
    kafka = upstream()
    assert poll_brokers(FakeAdmin(kafka)) == (
        BrokerAddressesRead("west", frozenset({"west-1:9092"}), "id-of-west"),
    )
    kafka.down = TargetUnreachable("west", "away")
    assert poll_brokers(FakeAdmin(kafka)) == ()


def sink(kafka: str | None = "west", **reads) -> SinkGroup:
    return SinkGroup("lab", "s", "connect-s", kafka, **(reads or {"topics": frozenset({"orders"})}))


def test_a_sinks_offsets_come_with_the_ends_of_the_same_partitions():
    kafka = upstream()
    kafka.groups["connect-s"] = {ORDERS: 1, TopicPartition("gone", 0): 5}
    read, succeeded = poll_groups("lab", {"west": FakeAdmin(kafka)}, [sink()], CLOCK)
    offset = SinkOffset("s", "orders", 0, committed=1, log_end=3, log_start=0, committed_only=True)
    assert read == SinkOffsetsRead("lab", (offset,), at=CLOCK.now())
    assert succeeded.input == InputId(GROUPS, connect_cluster="lab")


def test_a_topic_that_a_sink_names_and_the_cluster_does_not_list_is_reported():
    kafka = upstream()
    kafka.groups["connect-s"] = {TopicPartition("gone", 0): 5}
    named = sink(topics=frozenset({"orders", "gone"}))
    read, _ = poll_groups("lab", {"west": FakeAdmin(kafka)}, [named], CLOCK)
    assert read.missing == (("s", "gone"),)
    assert {offset.topic for offset in read.offsets} == {"orders"}
    kafka.down = TargetUnreachable("west", "away")
    assert not any(
        isinstance(seen, SinkOffsetsRead)
        for seen in poll_groups("lab", {"west": FakeAdmin(kafka)}, [named], CLOCK)
    )


@pytest.mark.parametrize(
    ("reads", "expected"),
    [
        pytest.param({"topics": frozenset({"orders"})}, [None], id="by-name"),
        pytest.param({"topics_regex": "orders"}, [None], id="by-pattern"),
        pytest.param({"topics_regex": "[a-z&&[^z]]+("}, [], id="unknown-pattern"),
    ],
)
def test_a_partition_that_a_sink_never_committed_is_read_from_where_it_begins(reads, expected):
    group = replace(sink(**reads), from_start=False)
    read, _ = poll_groups("lab", {"west": FakeAdmin(upstream())}, [group], CLOCK)
    assert [offset.committed for offset in read.offsets] == expected
    assert not any(offset.from_start for offset in read.offsets)
    assert all((offset.log_start, offset.log_end) == (0, 3) for offset in read.offsets)


@pytest.mark.parametrize(
    ("level", "end", "committed_only"),
    [
        pytest.param(True, 2, True, id="committed"),
        pytest.param(False, 3, False, id="uncommitted"),
        pytest.param(None, 3, True, id="the-workers"),
    ],
)
def test_a_sinks_work_ends_where_its_isolation_level_lets_it_read(level, end, committed_only):
    kafka = upstream()
    kafka.log("orders").stable_end = 2
    kafka.groups["connect-s"] = {ORDERS: 1}
    group = replace(sink(), read_committed=level)
    read, _ = poll_groups("lab", {"west": FakeAdmin(kafka)}, [group], CLOCK)
    assert [(offset.log_end, offset.committed_only) for offset in read.offsets] == [
        (end, committed_only)
    ]


@pytest.mark.parametrize(
    ("reads", "expected"),
    [
        pytest.param({"topics": frozenset({"orders"})}, {"orders"}, id="by-name"),
        pytest.param({"topics_regex": "orders.*"}, {"orders", "orders-eu"}, id="by-pattern"),
        pytest.param({"topics_regex": "rders"}, set(), id="a-pattern-matches-whole-names"),
        pytest.param(
            {"topics_regex": "[a-z&&[^z]]+("}, {"orders", "orders-eu", "old"}, id="unknown-pattern"
        ),
        pytest.param(
            {"topics_regex": "(?!old).*"}, {"orders", "orders-eu", "old"}, id="not-run-at-all"
        ),
    ],
)
def test_what_a_group_left_behind_in_topics_that_its_sink_does_not_read_is_no_lag(reads, expected):
    kafka = upstream()
    for topic in ("orders-eu", "old"):
        kafka.create(topic)
    kafka.groups["connect-s"] = {
        TopicPartition(topic, 0): 0 for topic in ("orders", "orders-eu", "old")
    }
    read, _ = poll_groups("lab", {"west": FakeAdmin(kafka)}, [sink(**reads)], CLOCK)
    assert {offset.topic for offset in read.offsets} == expected


def test_a_pattern_that_takes_too_long_is_unknown_and_tried_again_after_twice_the_time(monkeypatch):
    monkeypatch.setattr(polls, "MATCHING_S_MAX", -1.0)
    monkeypatch.setattr(polls, "_slow_patterns", {})
    kafka = upstream()
    kafka.create("old")
    kafka.groups["connect-s"] = {TopicPartition("old", 0): 0}
    for _ in range(2):
        slow = [sink(topics_regex="o.*s")]
        read, _ = poll_groups("lab", {"west": FakeAdmin(kafka)}, slow, CLOCK)
        assert {offset.topic for offset in read.offsets} == {"old"}
        monkeypatch.setattr(polls, "MATCHING_S_MAX", 60.0)
    for after_s in (600.0, 1200.0):
        assert polls._slow_patterns["o.*s"][1] == after_s
        polls._slow_patterns["o.*s"] = (0.0, after_s)  # that time is over
        monkeypatch.setattr(polls, "MATCHING_S_MAX", -1.0)
        poll_groups("lab", {"west": FakeAdmin(kafka)}, slow, CLOCK)
    polls._slow_patterns["o.*s"] = (0.0, 2400.0)
    monkeypatch.setattr(polls, "MATCHING_S_MAX", 60.0)
    read, _ = poll_groups("lab", {"west": FakeAdmin(kafka)}, slow, CLOCK)
    assert {offset.topic for offset in read.offsets} == {"orders"}
    assert polls._slow_patterns == {}


def test_a_sink_on_an_unknown_cluster_is_passed_over():
    read, _ = poll_groups("lab", {}, [sink(None)], CLOCK)
    assert read.offsets == ()


def test_groups_that_cannot_be_read_are_one_failure():
    kafka = upstream()
    kafka.down = TargetUnreachable("west", "away")
    (failed,) = poll_groups("lab", {"west": FakeAdmin(kafka)}, [sink()], CLOCK)
    assert (failed.input, failed.reason) == (InputId(GROUPS, connect_cluster="lab"), "unreachable")


class _Secretive(FakeAdmin):
    """Some groups may not be seen."""

    def __init__(self, kafka: FakeKafka, *hidden: str) -> None:
        super().__init__(kafka)
        self._hidden = hidden

    def group_offsets(self, group, partitions, *, refused=None):
        if group in self._hidden:
            raise AccessDenied(self.name, f"{group}: not authorized")
        return super().group_offsets(group, partitions, refused=refused)


def test_a_group_that_may_not_be_observed_keeps_no_other_sink_from_being_read():
    kafka = upstream()
    kafka.groups["connect-s"] = kafka.groups["connect-t"] = {ORDERS: 1}
    sinks = [replace(sink(), connector="t", group="connect-t"), sink()]
    read, succeeded, failed = poll_groups(
        "lab", {"west": _Secretive(kafka, "connect-t")}, sinks, CLOCK
    )
    assert (failed.reason, failed.detail) == ("denied", "'t': connect-t: not authorized")
    assert failed.partial
    assert [offset.connector for offset in read.offsets] == ["s"]
    assert isinstance(succeeded, InputSucceeded)


def test_log_ends_are_read_for_a_sink_whose_offsets_only_rest_reports():
    admin = _Secretive(upstream(), "connect-s")
    report, failed = poll_groups("lab", {"west": admin}, [sink()], CLOCK, {"s": {ORDERS: 1}})
    offset = SinkOffset("s", "orders", 0, committed=1, log_end=3, log_start=0, committed_only=True)
    assert report == SinkOffsetsRead("lab", (), at=CLOCK.now(), by_rest=(offset,))
    assert failed.reason == "denied"


def test_a_partition_whose_committed_offset_is_refused_is_unknown_and_not_uncommitted():
    kafka = upstream()
    kafka.create("payments")
    payments = TopicPartition("payments", 0)
    kafka.groups["connect-s"] = {ORDERS: 1, payments: 2}
    kafka.unfetched = {ORDERS: AccessDenied("west", "not authorized")}
    both = replace(sink(), topics=("orders", "payments"))
    read, succeeded, failed = poll_groups("lab", {"west": FakeAdmin(kafka)}, [both], CLOCK)
    assert ORDERS not in {TopicPartition(offset.topic, offset.partition) for offset in read.offsets}
    assert (payments, 2) in {
        (TopicPartition(offset.topic, offset.partition), offset.committed)
        for offset in read.offsets
    }
    assert isinstance(succeeded, InputSucceeded)
    assert (failed.reason, failed.detail) == ("denied", "'s: orders-0': not authorized")
    assert failed.partial


def test_groups_of_which_none_may_be_observed_are_one_failure():
    admin = _Secretive(upstream(), "connect-s", "connect-t")
    sinks = [replace(sink(), connector="t", group="connect-t"), sink()]
    (failed,) = poll_groups("lab", {"west": admin}, sinks, CLOCK)
    assert (failed.input, failed.reason) == (InputId(GROUPS, connect_cluster="lab"), "denied")


class _Remade(FakeAdmin):
    """The topic is deleted and made anew while its log ends are read."""

    def __init__(self, kafka: FakeKafka) -> None:
        super().__init__(kafka)
        self.kafka = kafka

    def log_offsets(self, partitions, offset, *, committed, refused=None):
        result = super().log_offsets(partitions, offset, committed=committed, refused=refused)
        self.kafka.create("orders")
        return result


def answer(observed: list) -> LogEndsRead:
    (log_ends,) = [item for item in observed if isinstance(item, LogEndsRead)]
    return log_ends


def test_log_ends_come_with_the_id_of_the_topic_they_are_of():
    kafka = upstream()
    ids = answer(ends_of(FakeAdmin(kafka), snapshot())).ids
    assert ids == {"orders": kafka.shape("orders")[0]}


def test_the_id_of_a_topic_that_was_recreated_in_between_is_not_certain():
    assert answer(ends_of(_Remade(upstream()), snapshot())).ids == {}


def test_a_topic_that_is_gone_has_no_id():
    kafka = upstream()
    kafka.delete("orders")
    assert answer(ends_of(FakeAdmin(kafka), snapshot())).ids == {}


def test_without_an_answer_to_the_ids_the_log_ends_are_reported_all_the_same():
    kafka = upstream()
    kafka.mute = TargetUnreachable("west", "no")
    log_ends = answer(ends_of(FakeAdmin(kafka), snapshot()))
    assert (log_ends.ids, log_ends.bounds[ORDERS].end) == ({}, 3)


@pytest.mark.parametrize(
    ("topics", "each", "turns"),
    [
        (5, 1, 1),
        (TURN_PARTITIONS, 1, 1),
        (5, TURN_PARTITIONS // 5 + 1, 2),
        (40, TURN_PARTITIONS // 10, 4),
        (100, TURN_PARTITIONS, TURNS_MAX),
    ],
)
def test_each_of_many_topics_is_queried_for_its_id_in_its_turn(topics, each, turns):
    expected = {f"t{number}": each for number in range(topics)}
    rounds = [_choose_topics(expected, number) for number in range(7, 7 + turns)]
    assert sorted(name for result in rounds for name in result) == sorted(expected)
    assert max(map(len, rounds)) <= -(-topics // turns)


def test_of_no_topic_no_id_is_requested():
    assert _choose_topics({}, 8) == []


def test_a_class_that_was_shortened_is_named_and_counted_once_a_minute():
    long = entry()
    long["info"]["config"]["connector.class"] = "x" * 1_000
    report = ConnectAnswers({"a": entry(), "long": long}, named=("a", "long"))
    odd, listed, _ = report.poll(ConnectorsPoll(report))
    assert (odd.reason, odd.partial) == ("malformed", True)
    assert odd.detail.startswith(
        "'long': GET /connectors: class, version or alias of more than 200"
    )
    assert [connector.name for connector in listed.connectors] == ["a", "long"]
