"""Names that MM2 gives topics on the target cluster of a flow: copies, checkpoints, heartbeats.

They follow from the flow's replication policy (KIP-382, KIP-690). The policy is unknown for a
custom class and for a flow that only the configuration names. It is not guessed then: the topic
names in the offset syncs decide which name is meant.

MM2 creates a topic of its name and uses that name in checkpoints, but a transform of the connector
may write the copies to another topic. routers.py evaluates the routers that it knows; any other is
not guessed. A name of copies in our configuration holds, unless the connector's own settings
certainly say otherwise. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from offsetwatch.model.topology import KafkaTopic, MirrorFlow
from offsetwatch.state.internal_topic_rules import derive_checkpoints_topic
from offsetwatch.state.mirror.routers import route_topic

DEFAULT_POLICY: Final = "DefaultReplicationPolicy"
IDENTITY_POLICY: Final = "IdentityReplicationPolicy"
HEARTBEATS: Final = "heartbeats"
_ANY_TOPIC: Final = "*"
_TOPIC_PLACEHOLDER: Final = "{topic}"


def find_source_topic(flow: MirrorFlow, remote: str, known: Collection[str]) -> str | None:
    """Return the upstream topic of a name in a checkpoint; None if it cannot be determined.

    known    upstream topics that the flow has sent syncs of
    """
    prefix = f"{flow.source}{flow.separator}"
    stripped = remote.removeprefix(prefix) if remote.startswith(prefix) else None
    if flow.policy == IDENTITY_POLICY and not _is_heartbeats_name(remote):
        return remote
    if flow.policy in {DEFAULT_POLICY, IDENTITY_POLICY}:
        return stripped
    found = {remote, stripped, *_find_configured_sources(flow, remote)} & {*known}
    return found.pop() if len(found) == 1 else None


def locate_checkpoints(flow: MirrorFlow) -> KafkaTopic | None:
    """Return the flow's checkpoints topic; None if its target cluster is not known."""
    if flow.downstream is None:
        return None
    return KafkaTopic(flow.downstream, derive_checkpoints_topic(flow))


def locate_heartbeats(flow: MirrorFlow) -> tuple[KafkaTopic, ...]:
    """Return the topics on the target that may hold heartbeats of this flow.

    The heartbeat connector writes to the cluster of its worker, usually the target itself. If that
    is the source, the flow replicates the topic under another name. The key of a record names its
    flow, so both topics can be read.
    """
    if flow.downstream is None:
        return ()
    replicated = _resolve_copy(flow, HEARTBEATS, f"{flow.source}{flow.separator}{HEARTBEATS}")
    names = (HEARTBEATS,) if replicated is None else (HEARTBEATS, replicated)
    return tuple(KafkaTopic(flow.downstream, name) for name in dict.fromkeys(names))


def locate_internal_topics(flow: MirrorFlow) -> tuple[KafkaTopic, ...]:
    """Return every topic on the target that may describe the flow. None of them need exist."""
    checkpoints = locate_checkpoints(flow)
    return (() if checkpoints is None else (checkpoints,)) + locate_heartbeats(flow)


def find_remote_topic(flow: MirrorFlow, topic: str, known: Collection[str] = ()) -> str | None:
    """Return the topic that the copies of an upstream topic go to; None if it cannot be determined.

    known    topics that exist on the target
    """
    named = _derive_copy_name(flow, topic)
    if named is not None:
        return _resolve_copy(flow, topic, named)
    stated = find_configured_copy(flow, topic)
    if stated is not None:
        return stated
    found = {route_topic(flow.routers, name) for name in (topic, _add_source_prefix(flow, topic))}
    there = {name for name in found if name is not None and name in known}
    return there.pop() if len(there) == 1 and None not in found else None


def resolve_checkpoint_topic(
    flow: MirrorFlow, remote: str, known: Collection[str]
) -> tuple[str, str] | None:
    """Return the upstream topic of a name in a checkpoint, and the topic that its copies go to.

    None if either cannot be determined.

    known    upstream topics that the flow has sent syncs of
    """
    topic = find_source_topic(flow, remote, known)
    copy = None if topic is None else _resolve_copy(flow, topic, remote)
    return None if topic is None or copy is None else (topic, copy)


def find_configured_copy(flow: MirrorFlow, topic: str) -> str | None:
    """Return the configured name for the copies of an upstream topic, if any."""
    copies = dict(flow.copies)
    named = copies.get(topic, copies.get(_ANY_TOPIC))
    return None if named is None else named.replace(_TOPIC_PLACEHOLDER, topic)


def _find_configured_sources(flow: MirrorFlow, copy: str) -> Iterator[str]:
    """Yield the upstream topics whose copies may have this name by the configuration."""
    for topic, name in flow.copies:
        before, placeholder, after = name.partition(_TOPIC_PLACEHOLDER)
        found = topic
        if topic == _ANY_TOPIC:
            found = copy.removeprefix(before).removesuffix(after) if placeholder else ""
        if found and find_configured_copy(flow, found) == copy:
            yield found


def find_copy_conflict(flow: MirrorFlow, topic: str) -> tuple[str, str] | None:
    """Return two contradicting names for the copies of an upstream topic, or None.

    The first is the configured one, the second follows from the connector's settings. If they
    differ, neither is used.
    """
    named, stated = _derive_copy_name(flow, topic), find_configured_copy(flow, topic)
    followed = None if named is None else route_topic(flow.routers, named)
    if stated is None or followed is None or stated == followed:
        return None
    return stated, followed


def _resolve_copy(flow: MirrorFlow, topic: str, name: str) -> str | None:
    """Return the topic that the copies of a topic go to if MM2 would write to `name`.

    None if it cannot be determined.
    """
    followed, stated = route_topic(flow.routers, name), find_configured_copy(flow, topic)
    if stated is None or followed == stated:
        return followed
    return stated if followed is None else None


def _derive_copy_name(flow: MirrorFlow, topic: str) -> str | None:
    """Return the name that MM2 itself gives the copies; None under an unknown policy."""
    if flow.policy == IDENTITY_POLICY and not _is_heartbeats_name(topic):
        return topic
    return (
        _add_source_prefix(flow, topic)
        if flow.policy in {DEFAULT_POLICY, IDENTITY_POLICY}
        else None
    )


def _add_source_prefix(flow: MirrorFlow, topic: str) -> str:
    return f"{flow.source}{flow.separator}{topic}"


def find_merged_topics(flow: MirrorFlow, topics: Iterable[str]) -> frozenset[str]:
    """Return those upstream topics that share the topic of their copies with another one."""
    if not flow.routers and not flow.copies:
        return frozenset()
    copies: defaultdict[str, set[str]] = defaultdict(set)
    for topic in topics:
        copy = find_remote_topic(flow, topic)
        if copy is not None:
            copies[copy].add(topic)
    return frozenset(name for names in copies.values() if len(names) > 1 for name in names)


def find_rerouted_topics(
    before: MirrorFlow, now: MirrorFlow, topics: Iterable[str]
) -> frozenset[str]:
    """Return those upstream topics whose copies may go elsewhere than under `before`."""
    copies = (
        (topic, find_remote_topic(before, topic), find_remote_topic(now, topic)) for topic in topics
    )
    return frozenset(topic for topic, old, new in copies if new is None or old != new)


def format_routers(flow: MirrorFlow) -> str:
    """Return the routers of a flow as text for users: each class once."""
    return ", ".join(dict.fromkeys(router.class_name for router in flow.routers))


def _is_heartbeats_name(topic: str) -> bool:
    """Return whether a topic's name ends in `heartbeats`.

    IdentityReplicationPolicy leaves such topics to DefaultReplicationPolicy.
    """
    return topic.endswith(HEARTBEATS)
