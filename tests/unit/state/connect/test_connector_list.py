"""A list of connectors over many answers: what one of them omits is missing, and not gone."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from offsetwatch.model.connectors import (
    DELETED,
    UNKNOWN_STATE,
    Connector,
    ConnectorKind,
    SinkSettings,
    Task,
)
from offsetwatch.model.observations import ConnectorsListed
from offsetwatch.model.topology import UNKNOWN_ROUTER
from offsetwatch.state.connect.connector_list import (
    ALTERNATION_RETURNS,
    CONFIGURATION_INTERVALS,
    COPY_NAMES_INTERVALS,
    DELETED_MAX,
    MISSED_ANSWERS,
    SILENCE_INTERVALS,
    UNLISTED_CONNECTORS_MAX,
    ConnectorList,
)
from offsetwatch.state.connect.state_history import TaskStarts
from offsetwatch.state.mirror.flows import build_mirror_flows
from offsetwatch.state.mirror.mm2_names import find_remote_topic
from offsetwatch.state.snapshot import ConnectorWithoutState
from tests.changed import replace
from tests.unit.state.worlds import mirror, source

INTERVAL_S = 60.0
POLL_S = 10.0


@dataclass
class Answers:
    """Answers every ten seconds, and what else tells of connectors."""

    statuses: dict[str, str] = field(default_factory=dict)
    commits: dict[str, float] = field(default_factory=dict)
    starts: dict[str, TaskStarts] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    now: float = 1_000_000.0

    def __post_init__(self) -> None:
        self.list = ConnectorList("lab", INTERVAL_S)
        self.shown: tuple[Connector, ...] = ()

    def status_of(self, connector: str) -> str | None:
        return self.statuses.get(connector)

    def may_have_status(self, connector: str) -> bool:
        return connector in self.hidden

    def committed_at(self, connector: str) -> float | None:
        return self.commits.get(connector)

    def committing(self) -> tuple[str, ...]:
        return tuple(self.commits)

    def starts_of(self, connector: str) -> TaskStarts:
        return self.starts.get(connector, frozenset())

    def expire(self, now: float) -> tuple[Connector, ...]:
        return self.list.expire(now, self.starts_of)

    def answer(
        self,
        *connectors: Connector,
        names: tuple[str, ...] = (),
        request: bool = True,
        whole: bool = True,
        kafka: str | None = None,
        times: int = 1,
        commits: tuple[str, ...] = (),
    ) -> None:
        named = frozenset(names) | {connector.name for connector in connectors} if request else None
        for _ in range(times):
            self.now += POLL_S
            self.commits |= dict.fromkeys(commits, self.now)
            report = ConnectorsListed("lab", connectors, named, kafka, names_whole=whole)
            self.shown = self.list.read(report, self, self.now)

    @property
    def states(self) -> dict[str, str]:
        return {connector.name: connector.state for connector in self.shown}

    @property
    def view(self):
        assert self.list.view is not None
        return self.list.view

    @property
    def unlisted(self) -> list[str]:
        return [item.connector for item in self.view.unlisted]


A, B = source("a"), source("b")


def known(*connectors: Connector, **more) -> Answers:
    answers = Answers(**more)
    answers.answer(*connectors, times=3)
    return answers


def test_the_same_answers_give_the_very_same_connectors():
    answers = known(A, B)
    first = answers.shown
    answers.answer(replace(A), replace(B))
    assert answers.shown is first
    answers.answer(replace(A, state="paused"), B)
    assert answers.shown[0].state == "paused"
    assert answers.shown[1] is first[1]


def test_what_one_answer_omits_stays_with_its_state_and_without_it_from_the_third_on():
    answers = known(A, B)
    answers.answer(B, times=MISSED_ANSWERS - 1)
    assert answers.states == {"a": "running", "b": "running"}
    answers.answer(B)
    assert answers.states == {"a": UNKNOWN_STATE, "b": "running"}
    (a, _) = answers.shown
    assert (a.class_name, a.kind, a.tasks) == (A.class_name, A.kind, ())
    answers.answer(A, B)
    assert answers.shown == (A, B)


def test_a_configuration_that_is_not_reported_any_more_is_believed_for_ten_intervals():
    own = replace(A, dedicated_offsets_topic="own")
    answers = known(own, B)
    listed_at = answers.now
    bare = replace(A, kind=ConnectorKind.UNKNOWN, class_name="", version="", configured=False)
    answers.answer(bare, B, times=60)
    assert answers.now - listed_at == CONFIGURATION_INTERVALS * INTERVAL_S
    assert answers.shown == (own, B)
    assert answers.view.without_configuration == {}
    answers.answer(bare, B)
    (a, b) = answers.shown
    assert (a.kind, a.class_name, a.configured) == (ConnectorKind.UNKNOWN, "", False)
    assert (a.state, a.tasks, a.dedicated_offsets_topic) == (own.state, own.tasks, "own")
    assert b == B
    assert answers.view.without_configuration == {"a": listed_at}
    answers.answer(own, B)
    assert answers.shown == (own, B)
    assert answers.view.without_configuration == {}


def test_the_configuration_of_an_unlisted_connector_is_believed_for_ten_intervals():
    mm2 = replace(mirror("mm2"), dedicated_offsets_topic="own")
    answers = known(mm2, B)
    listed_at = answers.now
    answers.statuses["mm2"] = "running"
    answers.answer(B, times=60)
    assert answers.now - listed_at == CONFIGURATION_INTERVALS * INTERVAL_S
    assert answers.shown[1].mirror is not None
    answers.answer(B)
    shown = answers.shown[1]
    assert (shown.kind, shown.mirror, shown.configured) == (ConnectorKind.MIRROR, None, False)
    assert shown.dedicated_offsets_topic == "own"
    assert answers.view.without_configuration == {"mm2": listed_at}
    answers.answer(mm2, B)
    assert answers.shown == (B, mm2)
    assert answers.view.without_configuration == {}


def test_configurations_are_believed_for_sixty_intervals_without_any_response():
    answers = known(mirror("mm2"), B)
    listed_at = answers.now
    assert answers.expire(listed_at + SILENCE_INTERVALS * INTERVAL_S) is answers.shown
    aged = answers.expire(listed_at + SILENCE_INTERVALS * INTERVAL_S + 1)
    assert [(connector.name, connector.configured) for connector in aged] == [
        ("b", False),
        ("mm2", False),
    ]
    assert aged[1].mirror is None
    assert answers.expire(listed_at + 86_400.0) is aged
    assert answers.view.without_configuration == {"b": listed_at, "mm2": listed_at}
    answers.answer(mirror("mm2"), B)
    assert answers.shown == (B, mirror("mm2"))
    assert answers.expire(answers.now - 600.0) is answers.shown  # the clock was set back


@pytest.mark.parametrize("listed", [True, False])
def test_where_copies_go_is_unknown_two_intervals_after_the_last_configuration(listed):
    copies = replace(mirror("mm2"), state="running")
    answers = known(copies, B)
    bare = replace(copies, class_name="", mirror=None, configured=False)
    rest = (bare, B) if listed else (B,)
    answers.statuses["mm2"] = "running"
    answers.answer(*rest, times=12)
    assert answers.shown[1].mirror == copies.mirror
    answers.answer(*rest)
    unknown = answers.shown[1]
    assert unknown.mirror == replace(copies.mirror, routers=(UNKNOWN_ROUTER,))
    assert unknown.class_name == copies.class_name
    (flow,) = build_mirror_flows("lab", "east", (unknown,), {})
    assert find_remote_topic(flow, "orders", {"west.orders"}) is None
    answers.answer(*rest)
    assert answers.shown[1] == unknown
    answers.answer(copies, B)
    assert answers.shown[1] == copies


@pytest.mark.parametrize(
    ("before", "report", "kind"),
    [
        (ConnectorKind.SINK, ConnectorKind.SINK, ConnectorKind.SINK),
        (ConnectorKind.MIRROR, ConnectorKind.SOURCE, ConnectorKind.MIRROR),
        (ConnectorKind.MIRROR, ConnectorKind.SINK, ConnectorKind.SINK),
        (ConnectorKind.SINK, ConnectorKind.UNKNOWN, ConnectorKind.UNKNOWN),
    ],
)
def test_the_kind_of_a_connector_outlives_its_configuration_while_its_status_reports_it(
    before, report, kind
):
    answers = known(replace(A, kind=before))
    answers.answer(replace(A, kind=report, class_name="", configured=False), times=70)
    assert (answers.shown[0].kind, answers.shown[0].configured) == (kind, False)


def test_who_is_listed_by_turns_is_reported_and_one_blip_or_two_are_not():
    answers = known(A, B)
    for _ in range(ALTERNATION_RETURNS - 1):
        answers.answer(B)
        answers.answer(A, B)
    assert answers.view.alternating == ()
    answers.answer(B)
    answers.answer(A, B)
    assert answers.view.alternating == ("a",)
    assert answers.states == {"a": "running", "b": "running"}
    answers.answer(A, B, times=30)
    assert answers.view.alternating == ()


def test_who_may_have_a_status_that_cannot_be_read_is_not_deleted_by_silence():
    answers = known(A, B, hidden=frozenset({"a"}))
    answers.answer(times=60)
    assert set(answers.states) == {"a"}
    answers.hidden = frozenset()
    answers.answer()
    assert set(answers.states) == set()


@pytest.mark.parametrize("case", [True, False])
def test_who_is_missing_from_both_lists_and_silent_for_three_intervals_is_deleted(case):
    answers = known(A, B)
    answers.answer(B, request=case, times=18)
    assert "a" in answers.states
    answers.answer(B, request=case)
    assert answers.states == {"b": "running"}
    assert answers.view.deleted == {"a"}
    answers.answer(A, B)
    assert answers.view.deleted == frozenset()


def test_who_is_missing_from_the_names_and_has_no_status_any_more_is_deleted_at_once():
    answers = known(A, B)
    answers.statuses["a"] = DELETED
    answers.answer(B)
    assert answers.states == {"b": "running"}
    assert answers.view.deleted == {"a"}


def test_who_may_be_a_name_that_cannot_be_read_is_not_missing_from_the_names():
    answers = known(A, B)
    answers.statuses["a"] = DELETED
    answers.answer(B, whole=False)
    assert answers.states == {"a": "running", "b": "running"}
    answers.answer(B)
    assert answers.states == {"b": "running"}


@pytest.mark.parametrize("names", [("a",), None])
def test_a_status_that_was_taken_back_is_no_second_witness_of_a_list_made_from_statuses(names):
    answers = known(A, B)
    answers.statuses["a"] = DELETED
    answers.answer(B, names=names or (), request=names is not None, times=MISSED_ANSWERS)
    assert answers.states == {"a": UNKNOWN_STATE, "b": "running"}


def test_who_is_listed_without_a_state_is_named_so_with_when_it_last_had_one():
    answers = known(A, B)
    observed_at = answers.now
    answers.answer(B, names=("a",), times=60)
    assert answers.shown[0].class_name == A.class_name
    answers.answer(B, names=("a",), times=940)
    (item,) = answers.view.without_state
    assert (item.connector, item.since, item.seen_at) == ("a", observed_at + POLL_S, observed_at)
    assert answers.view.without_configuration == {"a": observed_at}
    answers.answer(A, B)
    assert answers.view.without_state == ()


def test_a_task_without_a_state_has_that_of_before_for_two_answers_and_is_named_after():
    failed = replace(A, tasks=(Task(0, "failed", "Bad"), Task(1, "running")))
    hole = replace(A, tasks=(Task(1, "running"), Task(0, UNKNOWN_STATE)))
    answers = known(failed)
    observed_at = answers.now
    answers.answer(hole, times=MISSED_ANSWERS - 1)
    assert set(answers.shown[0].tasks) == set(failed.tasks)
    assert answers.view.without_state == ()
    answers.answer(hole)
    assert answers.shown == (hole,)
    assert answers.view.without_state == (
        ConnectorWithoutState("a", observed_at + POLL_S, observed_at, (0,)),
    )
    answers.answer(failed)
    assert answers.shown == (failed,)
    assert answers.view.without_state == ()


def test_an_answer_of_the_configured_kafka_cluster_is_the_clusters_own_whatever_came_first():
    """The address led elsewhere when the daemon was started for the first time."""
    answers = Answers()
    answers.answer(source("x"), kafka="theirs", times=60)
    answers.list.home_id = "ours"
    assert answers.view.kafka_cluster_ids == ("theirs", None)
    answers.answer(A, B, kafka="ours")
    assert answers.view.kafka_cluster_ids == ("ours", None)
    assert {"a", "b"} <= answers.states.keys()
    answers.answer(source("x"), kafka="theirs")
    assert answers.view.kafka_cluster_ids == ("ours", "theirs")
    assert answers.list.kafka_cluster_id == "ours"


def test_of_an_id_that_no_answer_has_the_first_answers_counts():
    """Workers may reach their brokers by a proxy that gives the cluster another id."""
    answers = Answers()
    answers.list.home_id = "ours"
    answers.answer(A, B, kafka="of-the-proxy", times=3)
    assert answers.view.kafka_cluster_ids == ("of-the-proxy", None)
    answers.answer(source("x"), kafka="theirs")
    assert answers.view.kafka_cluster_ids == ("of-the-proxy", "theirs")


def test_who_never_had_a_state_is_known_by_name():
    answers = Answers()
    answers.answer(A, names=("new",))
    assert answers.states == {"a": "running", "new": UNKNOWN_STATE}
    assert answers.view.without_state[0].seen_at is None


def test_an_entry_without_a_configuration_has_that_of_before_and_its_own_state():
    answers = known(mirror("mm2"))
    bare = Connector("mm2", A.kind, "", "", "failed", (Task(0, "failed", "bad"),), configured=False)
    answers.answer(bare)
    assert answers.shown == (
        replace(mirror("mm2"), state="failed", tasks=(Task(0, "failed", "bad"),)),
    )


def test_who_goes_on_committing_is_not_deleted_and_is_reported():
    answers = known(A, B)
    answers.answer(B, times=6, commits=("a",))
    assert answers.unlisted == []
    for _ in range(100):
        answers.answer(B, times=5)
        answers.answer(B, commits=("a",))
    assert answers.states == {"a": UNKNOWN_STATE, "b": "running"}
    (item,) = answers.view.unlisted
    assert (item.connector, item.committed_at, item.status) == ("a", answers.now, None)
    assert answers.view.believed_at is not None
    answers.answer(B, times=61)  # it has been silent for ten intervals
    assert answers.states == {"b": "running"}


def test_a_last_commit_after_the_deletion_is_none_that_goes_on():
    answers = known(A, B)
    answers.answer(B, times=2, commits=("a",))
    answers.answer(B, times=30)
    assert answers.states == {"b": "running"}


def test_who_has_a_status_is_not_deleted():
    answers = known(A, B, statuses={"a": "running"})
    answers.answer(B, times=1000)
    assert [(item.connector, item.status) for item in answers.view.unlisted] == [("a", "running")]
    answers.statuses["a"] = DELETED
    answers.answer(B)
    assert answers.states == {"b": "running"}


def test_of_all_that_go_at_once_none_is_deleted_while_one_is_at_work():
    answers = known(A, B)
    for _ in range(200):
        answers.answer(times=5)
        answers.answer(commits=("b",))
    assert answers.states == {"a": UNKNOWN_STATE, "b": UNKNOWN_STATE}
    assert answers.view.believed_at is None
    assert answers.unlisted == ["b"]
    answers.answer(A, B)
    assert answers.shown == (A, B)
    assert answers.view.believed_at > answers.now


def test_connectors_that_come_as_all_others_go_are_another_clusters():
    answers = known(A, B)
    for _ in range(20):
        answers.answer(source("x"), times=5)
        answers.answer(source("x"), commits=("b",))
    assert answers.view.believed_at is None
    assert answers.states == {"a": UNKNOWN_STATE, "b": UNKNOWN_STATE, "x": "running"}


def test_all_that_are_silent_may_be_deleted_together():
    answers = known(A, B)
    answers.answer(times=19)
    assert answers.shown == ()
    assert answers.view.deleted == {"a", "b"}


def test_an_answer_of_another_kafka_cluster_is_not_applied():
    answers = Answers()
    answers.answer(A, B, kafka="ours", times=60)
    answers.answer(source("x"), replace(A, state="failed"), kafka="theirs", times=1000)
    assert answers.states == {"a": UNKNOWN_STATE, "b": UNKNOWN_STATE}
    assert answers.view.kafka_cluster_ids == ("ours", "theirs")
    assert answers.view.believed_at is None
    answers.answer(A, B)  # which is not asked for each time
    assert answers.view.kafka_cluster_ids == ("ours", "theirs")
    answers.answer(A, B, kafka="ours")
    assert answers.shown == (A, B)
    assert answers.view.kafka_cluster_ids == ("ours", None)


def test_the_id_of_before_a_restart_is_the_clusters_own():
    answers = Answers()
    answers.list.recall("ours")
    answers.answer(source("x"), kafka="theirs")
    assert answers.view.kafka_cluster_ids == ("ours", "theirs")
    assert answers.shown == ()
    answers.answer(A, kafka="ours")
    assert answers.shown == (A,)


def test_who_commits_and_was_never_listed_is_reported_once_it_goes_on():
    answers = known(A)
    answers.answer(A, times=2, commits=("stranger",))
    answers.answer(A, times=20)
    assert answers.unlisted == []
    answers.answer(A, commits=("stranger",))
    assert answers.unlisted == ["stranger"]
    assert answers.view.unlisted[0].seen_at is None
    assert answers.view.believed_at is not None
    answers.answer(A, source("stranger"))
    assert answers.unlisted == []


def test_a_list_empty_from_the_start_is_not_believed_while_connectors_commit():
    answers = Answers()
    for _ in range(10):
        answers.answer(times=5)
        answers.answer(commits=("a",))
    assert answers.view.believed_at is None
    assert answers.unlisted == ["a"]


def test_a_list_is_believed_three_intervals_after_the_first_answer():
    answers = Answers()
    answers.answer(A)
    first = answers.now
    answers.answer(A, times=10)
    assert answers.view.believed_at == first + 3 * INTERVAL_S


def test_a_clock_that_is_set_back_deletes_no_connector_too_soon():
    answers = known(A, B)
    answers.now -= 86_400.0
    answers.answer(B, times=18)
    assert "a" in answers.states
    answers.answer(B)
    assert answers.states == {"b": "running"}


@pytest.mark.full
def test_what_is_retained_of_unknown_members_and_of_the_deleted_is_bounded():
    answers = Answers()
    answers.answer(A, commits=tuple(f"s{number}" for number in range(UNLISTED_CONNECTORS_MAX + 10)))
    answers.answer(A, times=20)
    answers.answer(A, commits=tuple(answers.commits))
    assert len(answers.unlisted) == UNLISTED_CONNECTORS_MAX
    many = known(*(source(f"c{number:05}") for number in range(DELETED_MAX + 10)))
    many.answer(times=19)
    assert len(many.view.deleted) == DELETED_MAX


@pytest.mark.parametrize("kind", [ConnectorKind.SINK, ConnectorKind.SOURCE])
def test_a_connector_of_unknown_kind_has_the_kind_of_its_class(kind):
    """A worker without the plugin of a class reports its connectors as `unknown`."""
    settings = SinkSettings(group="connect-a", addresses=frozenset(), topics=frozenset({"new"}))
    sink = settings if kind is ConnectorKind.SINK else None
    before = replace(A, kind=kind, class_name="org.example.Any", sink=None)
    unknown = replace(before, kind=ConnectorKind.UNKNOWN, sink_if_one=settings)
    answers = known(before, B)
    answers.answer(unknown, B, replace(unknown, name="c"))
    assert [(item.name, item.kind, item.sink) for item in answers.shown if item != B] == [
        ("a", kind, sink),
        ("c", kind, sink),
    ]


def test_a_connector_of_a_class_that_was_never_of_a_known_kind_is_of_unknown_kind():
    other = replace(A, kind=ConnectorKind.UNKNOWN, class_name="org.example.Other")
    bare = replace(A, name="c", kind=ConnectorKind.UNKNOWN, class_name="", configured=False)
    answers = known(other, replace(B, class_name=""), bare)
    assert [item.kind for item in answers.shown] == [
        ConnectorKind.UNKNOWN,
        ConnectorKind.SOURCE,
        ConnectorKind.UNKNOWN,
    ]


def test_a_connector_of_unknown_kind_is_a_source_by_a_class_of_a_known_dialect():
    unknown = replace(
        A,
        kind=ConnectorKind.UNKNOWN,
        class_name="io.debezium.connector.mysql.MySqlConnector",
        sink_if_one=SinkSettings(group="connect-a", addresses=frozenset()),
    )
    answers = known(unknown)
    assert [(item.kind, item.sink_if_one) for item in answers.shown] == [
        (ConnectorKind.SOURCE, None)
    ]


def test_a_connector_of_unknown_kind_is_a_source_by_what_it_commits_from_then_on():
    """What was committed before may be of another connector of its name."""
    unknown = replace(A, kind=ConnectorKind.UNKNOWN, class_name="org.example.Other")
    answers = known(replace(A, class_name="org.example.Deleted"))
    answers.commits["a"] = 1.0
    answers.answer(unknown, times=3)
    assert [item.kind for item in answers.shown] == [ConnectorKind.UNKNOWN]
    answers.commits["a"] = 2.0
    answers.answer(unknown, replace(unknown, name="c"))
    assert [item.kind for item in answers.shown] == [ConnectorKind.SOURCE] * 2
    answers.answer(unknown)
    assert answers.shown[0].kind is ConnectorKind.SOURCE


@pytest.mark.parametrize(
    ("before", "after", "retained"),
    [
        ({(0, 1.0), (1, 1.0)}, {(0, 1.0), (1, 1.0)}, True),
        ({(0, 1.0), (1, 1.0)}, {(0, 1.0)}, True),
        ({(0, 1.0)}, {(0, 2.0)}, False),
        ({(0, 1.0)}, {(0, 1.0), (1, 1.0)}, False),
        ({(0, 2.0)}, {(0, 1.0)}, False),  # by another worker's clock
        (set(), {(0, 1.0)}, True),  # the status topic is read only now
        (set(), set(), True),
    ],
)
def test_in_silence_names_of_copies_last_until_a_task_was_started(before, after, retained):
    copies = mirror("mm2")
    assert copies.mirror is not None
    answers = Answers(starts={"mm2": frozenset(before)})
    answers.answer(copies)
    silent_at = answers.now + COPY_NAMES_INTERVALS * INTERVAL_S + 1
    assert answers.expire(silent_at) is answers.shown
    answers.starts["mm2"] = frozenset(after)
    assert answers.expire(silent_at - 2) is answers.shown
    (listed,) = answers.expire(silent_at)
    routers = () if retained else (UNKNOWN_ROUTER,)
    assert listed.mirror == replace(copies.mirror, routers=routers)
    answers.answer(copies)
    assert answers.shown[0].mirror == copies.mirror


@pytest.mark.parametrize("step_s", [600.0, -600.0])
def test_a_clock_that_is_set_deletes_no_connector(step_s):
    answers = known(A, B)
    answers.answer(B, request=False, times=MISSED_ANSWERS)
    answers.now += step_s
    answers.answer(B, request=False, times=3)
    assert list(answers.states) == ["a", "b"]
    answers.answer(B, request=False, times=int(3 * INTERVAL_S / POLL_S))
    assert list(answers.states) == ["b"]
