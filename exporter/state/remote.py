"""What MM2 calls things on the target cluster of a flow: topics, checkpoints, heartbeats.

Names follow from the flow's replication policy (KIP-382, KIP-690). One that nobody knows, of a flow
that only the configuration names or of somebody's own class, is not guessed at: what the offset
syncs call a topic then decides which name is meant. MM2 creates a topic of that name and names it
in checkpoints, but a transform of the connector may write the copies to another: RegexRouter says
to which, any other router is not guessed at. Pure. Called by failover.py and the daemon.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Final

from exporter.model.topology import KafkaTopic, MirrorFlow
from exporter.state.lint import checkpoints_topic
from exporter.state.routers import through

DEFAULT: Final = "DefaultReplicationPolicy"
IDENTITY: Final = "IdentityReplicationPolicy"
HEARTBEATS: Final = "heartbeats"


def source_topic(flow: MirrorFlow, remote: str, known: Collection[str]) -> str | None:
    """The upstream name of what a checkpoint names; None if it cannot be told.

    known    upstream topics that the flow has sent syncs of
    """
    prefix = f"{flow.source}{flow.separator}"
    stripped = remote.removeprefix(prefix) if remote.startswith(prefix) else None
    if flow.policy == IDENTITY and not _looks_like_heartbeats(remote):
        return remote
    if flow.policy in {DEFAULT, IDENTITY}:
        return stripped
    found = {name for name in (remote, stripped) if name is not None and name in known}
    return found.pop() if len(found) == 1 else None


def checkpoints_of(flow: MirrorFlow) -> KafkaTopic | None:
    """Where the flow's checkpoints are, if there are any."""
    if flow.downstream is None:
        return None
    return KafkaTopic(flow.downstream, checkpoints_topic(flow))


def heartbeats_of(flow: MirrorFlow) -> tuple[KafkaTopic, ...]:
    """Where a heartbeat of this flow may be found on the target.

    Its connector writes to the cluster of its worker, usually the target itself. Where the worker's
    is the source, the flow replicates the topic under another name. A record tells in its key which
    flow's it is, so both can be read.
    """
    if flow.downstream is None:
        return ()
    replicated = routed(flow, f"{flow.source}{flow.separator}{HEARTBEATS}")
    names = (HEARTBEATS,) if replicated is None else (HEARTBEATS, replicated)
    return tuple(KafkaTopic(flow.downstream, name) for name in dict.fromkeys(names))


def beside(flow: MirrorFlow) -> tuple[KafkaTopic, ...]:
    """Every topic on the target that may tell of the flow, and need not exist."""
    checkpoints = checkpoints_of(flow)
    return (() if checkpoints is None else (checkpoints,)) + heartbeats_of(flow)


def remote_topic(flow: MirrorFlow, topic: str, known: Collection[str] = ()) -> str | None:
    """What the copies of an upstream topic are called on the target; None if it cannot be told.

    known    topics that there are on the target
    """
    renamed = f"{flow.source}{flow.separator}{topic}"
    if flow.policy == IDENTITY and not _looks_like_heartbeats(topic):
        return routed(flow, topic)
    if flow.policy in {DEFAULT, IDENTITY}:
        return routed(flow, renamed)
    found = {routed(flow, name) for name in (topic, renamed)}
    there = {name for name in found if name is not None and name in known}
    return there.pop() if len(there) == 1 and None not in found else None


def routed(flow: MirrorFlow, name: str) -> str | None:
    """Return the topic to which copies go that MM2 would write to `name`; None if it cannot be
    told.
    """
    return through(flow.routers, name)


def merged_topics(flow: MirrorFlow, topics: Iterable[str]) -> frozenset[str]:
    """Return those of these upstream topics that are copied to one topic together with another."""
    if not flow.routers:
        return frozenset()
    copies: defaultdict[str, set[str]] = defaultdict(set)
    for topic in topics:
        copy = remote_topic(flow, topic)
        if copy is not None:
            copies[copy].add(topic)
    return frozenset(name for names in copies.values() if len(names) > 1 for name in names)


def routers_named(flow: MirrorFlow) -> str:
    """Return the routers of a flow for people: their classes, each once."""
    return ", ".join(dict.fromkeys(router.class_name for router in flow.routers))


def _looks_like_heartbeats(topic: str) -> bool:
    """IdentityReplicationPolicy leaves these to DefaultReplicationPolicy, and so every topic whose
    name ends so.
    """
    return topic.endswith(HEARTBEATS)
