"""Rules for internal topics: cleanup policy, partitions, replication, size, one Connect cluster.

Connect checks some of this when it creates a topic and trusts a topic that exists; MM2 checks
nothing. The damage shows months later: offsets that retention deleted, a worker that takes minutes
to start. Rules are numbered. Each is a small function with a row in the tests' table that fails
without it. Pure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from offsetwatch.formatting import format_count
from offsetwatch.model.observations import TopicFactsRead
from offsetwatch.model.topology import InternalTopicRole, KafkaTopic, TopicFacts, Topology
from offsetwatch.state.mirror.mm2_names import derive_checkpoints_topic
from offsetwatch.state.snapshot import TopicProblem

NOT_COMPACTED: Final = "not_compacted"
WRONG_PARTITIONS: Final = "wrong_partitions"
LOW_REPLICATION: Final = "low_replication"
SHARED: Final = "shared"
OVERSIZE: Final = "oversize"

REPLICATION_MIN: Final = 3  # Connect's and MM2's own default; fewer brokers cannot give more
SINGLE_PARTITION: Final = frozenset({InternalTopicRole.CONFIG, InternalTopicRole.OFFSET_SYNCS})

# A worker reads its topics whole before it starts; so does every GET of offsets under exactly-once.
# A million records take it some ten seconds: below that no start is slow, whatever they hold.
LONG_TOPIC_RECORDS_MIN: Final = 1_000_000
# Above it, length is only wrong if most of it is superseded: compaction then lags (it never touches
# the active segment, which by default stays active for a week or a GiB). Under a hundred records
# per key the length is the number of source partitions, and no setting would shorten it much.
RECORDS_PER_KEY_MAX: Final = 100

FACTS_EVERY_S: Final = 300.0  # topics are made once; describing them costs each broker little
FACTS_STALE_S: Final = 3 * FACTS_EVERY_S + 60.0
# A foreign commit counts for so long: ten flushes. A connector that was moved to another Connect
# cluster may have made its last commit here shortly before.
FOREIGN_COMMIT_RECENT_S: Final = 600.0

_CONFIG_KEY = re.compile(
    rb"(connector|task|commit|target-state|restart-connector|tasks-fencing|logger-cluster)-.+"
    rb"|session-key"
)
_STATUS_KEY = re.compile(rb"status-(connector|task|topic)-.+")


@dataclass(frozen=True, slots=True)
class ForeignWriter:
    """Connector that commits into the offsets topic of a Connect cluster that does not list it.

    `home` is another configured cluster, which lists it.
    """

    at: KafkaTopic
    connector: str
    home: str


# --- rules on one topic: facts -> what is wrong with it, or None ---------------------------------


def check_compaction(facts: TopicFacts) -> str | None:
    """Check rule 1: an internal topic's cleanup.policy is exactly `compact`."""
    if facts.policy is None or facts.policy == "compact":
        return None
    return f"cleanup.policy is {facts.policy}: retention deletes records that are still needed"


def check_partition_count(facts: TopicFacts) -> str | None:
    """Check rule 2: a topic that is read in one order (config, offset syncs) has one partition."""
    if facts.role not in SINGLE_PARTITION or facts.partitions == 1:
        return None
    return (
        f"it has {format_count(facts.partitions, 'partition')} and must have 1: its records "
        "have no order"
    )


def check_replication(facts: TopicFacts) -> str | None:
    """Check rule 3: a topic has as many replicas as Connect asks for, or as there are brokers."""
    required = min(REPLICATION_MIN, facts.brokers)
    if facts.replication >= required:
        return None
    return (
        f"a partition has {format_count(facts.replication, 'replica')} and should have {required}"
    )


def check_size(facts: TopicFacts) -> str | None:
    """Check rule 4: a long topic is long because it has many keys."""
    if facts.records is None or facts.keys is None or facts.records <= LONG_TOPIC_RECORDS_MIN:
        return None
    if facts.records <= RECORDS_PER_KEY_MAX * facts.keys:
        return None
    return (
        f"a worker that starts reads all of its {facts.records} records for "
        f"{format_count(facts.keys, 'key')}: compaction lags (segment.ms, segment.bytes, "
        "min.cleanable.dirty.ratio)"
    )


RULES: Final[tuple[tuple[str, Callable[[TopicFacts], str | None]], ...]] = (
    (NOT_COMPACTED, check_compaction),
    (WRONG_PARTITIONS, check_partition_count),
    (LOW_REPLICATION, check_replication),
    (OVERSIZE, check_size),
)


def find_topic_problems(facts: Iterable[TopicFacts]) -> tuple[TopicProblem, ...]:
    """Return every problem of every topic, in a stable order. All roles of a topic are checked."""
    problems = {
        (topic.at, problem): TopicProblem(at=topic.at, problem=problem, detail=detail)
        for topic in facts
        for problem, rule in RULES
        if (detail := rule(topic)) is not None
    }
    return tuple(sorted(problems.values()))


def find_present_problems(
    readings: Iterable[TopicFactsRead],
    topology: Topology,
    intruders: Iterable[ForeignWriter],
    now: float,
) -> tuple[TopicProblem, ...]:
    """Return the problems by all rules, of topics whose facts are recent at `now`."""
    facts = (
        topic
        for reading in readings
        if abs(now - reading.at) <= FACTS_STALE_S
        for topic in reading.facts
    )
    return find_topic_problems(facts) + find_shared_topics(topology, intruders)


# --- the rule on Connect clusters ----------------------------------------------------------------


def find_shared_topics(
    topology: Topology, intruders: Iterable[ForeignWriter]
) -> tuple[TopicProblem, ...]:
    """Check rule 5: an offsets topic belongs to one Connect cluster.

    Two clusters with one offsets topic mix the offsets of connectors of the same name.
    """
    users: defaultdict[KafkaTopic, set[str]] = defaultdict(set)
    for topic in topology.offsets_topics:
        users[topic.at].add(topic.connect_cluster)
    problems = {
        topic: TopicProblem(
            at=topic,
            problem=SHARED,
            detail=f"Connect clusters {' and '.join(sorted(names))} share it as offsets topic",
        )
        for topic, names in users.items()
        if len(names) > 1
    }
    for intruder in sorted(intruders, key=lambda writer: (writer.at, writer.connector)):
        detail = (
            f"connector {intruder.connector} of Connect cluster {intruder.home} commits into it"
        )
        problems.setdefault(
            intruder.at, TopicProblem(at=intruder.at, problem=SHARED, detail=detail)
        )
    return tuple(sorted(problems.values()))


# --- what to look at -----------------------------------------------------------------------------


def find_internal_topics(
    topology: Topology, homes: Mapping[str, str]
) -> dict[KafkaTopic, InternalTopicRole]:
    """Return internal topics and their roles. `homes`: Connect cluster -> Kafka cluster."""
    roles = {topic.at: InternalTopicRole.OFFSETS for topic in topology.offsets_topics}
    for listing in topology.listings:
        for topic, role in (
            (listing.configs, InternalTopicRole.CONFIG),
            (listing.status, InternalTopicRole.STATUS),
        ):
            if topic is not None:
                roles.setdefault(topic, role)
    for flow in topology.flows:
        # MM2's checkpoint connector writes through its worker, hence to the worker's own cluster.
        home, name = homes.get(flow.connect_cluster), derive_checkpoints_topic(flow)
        if home is not None and name is not None:
            roles.setdefault(KafkaTopic(home, name), InternalTopicRole.CHECKPOINTS)
        if flow.offset_syncs is not None:
            roles.setdefault(flow.offset_syncs, InternalTopicRole.OFFSET_SYNCS)
    return roles


def role_of_key(key: bytes) -> InternalTopicRole | None:
    """Return CONFIG or STATUS for a key of Connect's Kafka*BackingStore, else None."""
    if _STATUS_KEY.fullmatch(key):
        return InternalTopicRole.STATUS
    return InternalTopicRole.CONFIG if _CONFIG_KEY.fullmatch(key) else None
