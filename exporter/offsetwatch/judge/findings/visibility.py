"""Which findings nobody can say to be mended now, because what they were seen in cannot be read.

Called by register.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from offsetwatch.judge.snapshot_index import Look, Who
from offsetwatch.model.findings import FindingName as Name
from offsetwatch.model.topology import KafkaTopic

_Key = tuple[str, str, str, str]  # name, Connect cluster, connector, subject


class Sight(Enum):
    """What a finding is seen in."""

    STATES = auto()
    OFFSETS = auto()  # committed ones, and the syncs of a flow
    ENDS = auto()  # of the logs that a flow reads
    GROUPS = auto()
    FAILOVER = auto()  # syncs, checkpoints and groups of all flows of a Connect cluster
    KAFKA = auto()  # the cluster that holds the topic in the subject
    TOPIC = auto()  # its tail
    LIST = auto()  # of connectors: is it read
    TOPICS = auto()  # was the offsets topic looked for again
    COMPARED = auto()  # its offsets by REST with those of the topic, and whether they are the same
    BELIEF = auto()  # is it certain whose list that is
    VERDICT = auto()  # of the connector, which more than its inputs can hide


_MM2: Final = (Sight.STATES, Sight.OFFSETS, Sight.ENDS)
_STALL: Final = (Sight.VERDICT, Sight.STATES)
_SEEN_IN: Final[Mapping[str, tuple[Sight, ...]]] = {
    Name.CONNECTOR_STALLED: (*_STALL, Sight.OFFSETS),
    Name.CONNECTOR_SILENT: (*_STALL, Sight.OFFSETS),
    Name.MM2_STALLED: (Sight.VERDICT, *_MM2),
    Name.MM2_SILENT_STALL: (Sight.VERDICT, *_MM2),
    Name.REWOUND: _MM2,
    Name.REWINDS_AT_ONCE: (),
    Name.RECOPY: _MM2,
    Name.CONNECTOR_FAILED: (Sight.STATES,),
    Name.TASK_FAILED: (Sight.STATES,),
    Name.POISON_SUSPECTED: (Sight.STATES, Sight.OFFSETS),
    Name.RESTART_LOOP: (Sight.STATES,),
    Name.SINK_STUCK: (*_STALL, Sight.GROUPS),
    Name.SINK_BELOW_LOG_START: (Sight.STATES, Sight.GROUPS),
    Name.MM2_LAG_UNUSUAL: _MM2,
    Name.SYNCS_WITHOUT_COMMITS: _MM2,
    Name.UNREPLICATED_PARTITIONS: _MM2,
    Name.MM2_RETENTION_NEAR: _MM2,
    Name.MM2_RECORDS_LOST: _MM2,
    Name.MM2_TOPIC_RECREATED: _MM2,
    Name.MM2_POSITION_AHEAD: _MM2,
    Name.HALF_RESET: (Sight.STATES, Sight.OFFSETS),
    Name.REMNANT_OFFSETS: (Sight.STATES, Sight.OFFSETS),
    Name.DUPLICATE_KEYS: (Sight.STATES, Sight.OFFSETS),
    Name.UNUSABLE_OFFSET: (Sight.STATES, Sight.OFFSETS),
    Name.STARTS_FROM_SCRATCH: (Sight.STATES, Sight.OFFSETS),
    Name.INTERNAL_TOPIC_PROBLEM: (Sight.KAFKA,),
    Name.HANGING_TRANSACTION: (Sight.TOPIC,),
    Name.CHECKPOINTS_STALE: (Sight.FAILOVER,),
    Name.CONNECT_CLUSTER_CHANGED: (Sight.LIST,),
    Name.CONNECTOR_STATE_MISSING: (Sight.LIST,),
    Name.CONNECTOR_NOT_LISTED: (Sight.LIST,),
    Name.REST_OFFSETS_DIFFER: (Sight.LIST, Sight.OFFSETS),
    Name.OFFSETS_TOPIC_DOUBTED: (),
    Name.INPUT_DOWN: (),
    Name.SERIES_DROPPED: (),
    # What rules count the time of (Held), by their own words for it.
    "ahead": _MM2,
    "lag": _MM2,
    "below": (Sight.STATES, Sight.GROUPS),
    "unsynced": (Sight.STATES, Sight.OFFSETS),
    "checkpoints": (Sight.FAILOVER,),
    "stateless": (Sight.LIST,),
    "input": (),
    "rest_offsets": (),
    "gone": (),
}


# What they are is that something is not known, so what rules say of it counts; that they say it no
# more counts once it is known.
_ENDED_BY: Final[Mapping[str, tuple[Sight, ...]]] = {
    Name.CONNECT_CLUSTER_CHANGED: (Sight.BELIEF,),
    Name.CONNECTOR_STATE_MISSING: (Sight.STATES,),
    Name.CONNECTOR_NOT_LISTED: (Sight.STATES,),
    Name.REST_OFFSETS_DIFFER: (Sight.COMPARED,),
    Name.OFFSETS_TOPIC_DOUBTED: (Sight.TOPICS,),
}


class Blindness:
    """See the module. Until everything was read once, nothing can be said to be mended."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._known: dict[tuple[Sight, str, str, str], bool] = {}

    def hides(self, key: _Key) -> bool:
        """Can nobody tell whether this is still so?"""
        starting = not self._look.snapshot.ready and bool(_SEEN_IN[key[0]])
        return starting or self.blinds(key) or self._blinded(key, _ENDED_BY.get(key[0], ()))

    def blinds(self, key: _Key) -> bool:
        """Can something that this is seen in not be read?"""
        return self._blinded(key, _SEEN_IN[key[0]])

    def _blinded(self, key: _Key, sights: tuple[Sight, ...]) -> bool:
        _, cluster, connector, subject = key
        return any(self._blind(sight, (cluster, connector), subject) for sight in sights)

    def _blind(self, sight: Sight, who: Who, subject: str) -> bool:
        topic = subject.partition(" ")[0] if sight in {Sight.KAFKA, Sight.TOPIC} else ""
        of = (sight, *who, topic)
        if of not in self._known:
            self._known[of] = self._is_blind(sight, who, topic)
        return self._known[of]

    def _is_blind(self, sight: Sight, who: Who, topic: str) -> bool:
        look, (cluster, connector) = self._look, who
        kafka, _, name = topic.partition("/")
        match sight:
            case Sight.STATES:
                return look.blind_to_state(who)
            case Sight.LIST:
                return look.blind_to_state((cluster, ""))
            case Sight.TOPICS:
                return cluster not in look.snapshot.topic_doubts
            case Sight.COMPARED:
                check = look.snapshot.rest_checks.get(who)
                return check is None or check.rounds > 0
            case Sight.BELIEF:
                return not look.sight.believes_list(cluster)
            case Sight.OFFSETS:
                return look.blind(who)
            case Sight.ENDS:
                flow = look.flows.get((cluster, connector))
                return flow is not None and look.blind_to_ends(flow.upstream)
            case Sight.GROUPS:
                return look.blind_to_groups(cluster) or look.blind(who)
            case Sight.FAILOVER:
                flows = [at for (of, _), at in look.flows.items() if of == cluster]
                return any(look.blind_to_failover(at) for at in flows)
            case Sight.KAFKA:
                return look.blind_to_ends(kafka)
            case Sight.TOPIC:
                return look.blind_to_topic(KafkaTopic(kafka, name))
            case Sight.VERDICT:
                return who in look.hidden
