"""What MM2 calls things on the target cluster of a flow: topics, checkpoints, heartbeats.

Names follow from the flow's replication policy (KIP-382, KIP-690). One that nobody knows, of a flow
that only the configuration names or of somebody's own class, is not guessed at: what the offset
syncs call a topic then decides which name is meant. Pure. Called by failover.py and the daemon.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from exporter.model.topology import KafkaTopic, MirrorFlow
from exporter.state.lint import checkpoints_topic

DEFAULT: Final = "DefaultReplicationPolicy"
IDENTITY: Final = "IdentityReplicationPolicy"
HEARTBEATS: Final = "heartbeats"


def source_topic(flow: MirrorFlow, remote: str, known: Collection[str]) -> str | None:
    """The upstream name of a topic on the target; None if it cannot be told.

    known    upstream topics that the flow has sent syncs of
    """
    stripped = remote.removeprefix(f"{flow.source}{flow.separator}")
    if flow.policy == IDENTITY:
        return remote
    if flow.policy == DEFAULT:
        return None if stripped == remote else stripped
    found = {name for name in (remote, stripped) if name in known}
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
    replicated = f"{flow.source}{flow.separator}{HEARTBEATS}"
    return (KafkaTopic(flow.downstream, HEARTBEATS), KafkaTopic(flow.downstream, replicated))


def beside(flow: MirrorFlow) -> tuple[KafkaTopic, ...]:
    """Every topic on the target that may tell of the flow, and need not exist."""
    checkpoints = checkpoints_of(flow)
    return (() if checkpoints is None else (checkpoints,)) + heartbeats_of(flow)


def remote_topic(flow: MirrorFlow, topic: str, known: Collection[str] = ()) -> str | None:
    """What an upstream topic is called on the target; None if it cannot be told.

    known    topics that there are on the target
    """
    renamed = f"{flow.source}{flow.separator}{topic}"
    if flow.policy == IDENTITY:
        return topic
    if flow.policy == DEFAULT:
        return renamed
    found = {name for name in (topic, renamed) if name in known}
    return found.pop() if len(found) == 1 else None
