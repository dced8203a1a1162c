"""Names that MM2 gives topics on the target cluster of a flow: copies, checkpoints, heartbeats.

They follow from the flow's replication policy (KIP-382, KIP-690). The policy is unknown for a
custom class and for a flow that only the configuration names. It is not guessed then: the topic
names in the offset syncs decide which name is meant.

MM2 creates a topic of its name and uses that name in checkpoints, but a transform of the connector
may write the copies to another topic. Connect's RegexRouter is reproduced exactly, and so is
Debezium's ByLogicalTableRouter, which names topics in the same way. Other routers depend on the
record, or on code that is not available here, and are not guessed. Of the predicates only
TopicNameMatches can be evaluated: it depends on the topic that the record has by then. A name of
copies in our configuration holds, unless the connector's own settings certainly say otherwise.
Pure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from offsetwatch.decode.java.pattern import JavaPattern
from offsetwatch.model.topology import (
    REGEX_ROUTER,
    KafkaTopic,
    MirrorFlow,
    TopicRouter,
    is_provided,
    is_topic_name,
)

DEFAULT_POLICY: Final = "DefaultReplicationPolicy"
IDENTITY_POLICY: Final = "IdentityReplicationPolicy"
HEARTBEATS: Final = "heartbeats"
_SYNCS_PREFIX, _SUFFIX = "mm2-offset-syncs", "internal"
_ANY_TOPIC: Final = "*"
_TOPIC_PLACEHOLDER: Final = "{topic}"
_REPLACEMENT: Final = re.compile(
    r"\\(?P<escaped>.)|(?P<literal>[^\\$])|"
    r"\$(?:\{(?P<name>[A-Za-z][A-Za-z0-9]*)\}|(?P<digits>[0-9]+))",
    re.DOTALL,
)


def find_source_topic(flow: MirrorFlow, remote: str, known: Collection[str]) -> str | None:
    """Return the upstream topic of a name in a checkpoint; None if it cannot be determined.

    known    upstream topics that the flow has sent syncs of
    """
    prefix = _add_source_prefix(flow, "")
    stripped = (
        remote.removeprefix(prefix) if prefix is not None and remote.startswith(prefix) else None
    )
    if flow.policy == IDENTITY_POLICY and not _is_heartbeats_name(remote):
        return remote
    if flow.policy in {DEFAULT_POLICY, IDENTITY_POLICY}:
        return stripped or None  # no topic has an empty name
    sources = {remote, stripped, *_find_configured_sources(flow, remote)} & {*known}
    return sources.pop() if len(sources) == 1 else None


def locate_checkpoints(flow: MirrorFlow) -> KafkaTopic | None:
    """Return the flow's checkpoints topic; None if its target cluster or its name is not known."""
    name = derive_checkpoints_topic(flow)
    return None if flow.downstream is None or name is None else KafkaTopic(flow.downstream, name)


def derive_checkpoints_topic(flow: MirrorFlow) -> str | None:
    """Return the checkpoints topic of a flow, as DefaultReplicationPolicy.checkpointsTopic does.

    None if only a config provider knows the separator.

    If the flow's configuration is not known, the separator is taken from the name of the
    offset-syncs topic, which has the same one (KIP-690).
    """
    separator = "." if flow.internal_separator is None else flow.internal_separator
    if flow.internal_separator is None and flow.offset_syncs is not None:
        name = flow.offset_syncs.topic
        middle = name.removeprefix(_SYNCS_PREFIX).removesuffix(_SUFFIX)
        for alias in (flow.source, flow.target):
            half = middle[: (len(middle) - len(alias)) // 2]
            if name == f"{_SYNCS_PREFIX}{half}{alias}{half}{_SUFFIX}":
                separator = half
    return None if is_provided(separator) else separator.join((flow.source, "checkpoints", _SUFFIX))


def locate_heartbeats(flow: MirrorFlow) -> tuple[KafkaTopic, ...]:
    """Return the topics on the target that may hold heartbeats of this flow.

    The heartbeat connector writes to the cluster of its worker, usually the target itself. If that
    is the source, the flow replicates the topic under another name. The key of a record names its
    flow, so both topics can be read.
    """
    if flow.downstream is None:
        return ()
    named = _add_source_prefix(flow, HEARTBEATS)
    replicated = None if named is None else _resolve_copy(flow, HEARTBEATS, named)
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
    names = (topic, _add_source_prefix(flow, topic))
    remotes = {None if name is None else route_topic(flow.routers, name) for name in names}
    there = {name for name in remotes if name is not None and name in known}
    return there.pop() if len(there) == 1 and None not in remotes else None


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
    for topic, name in flow.copies:
        before, placeholder, after = name.partition(_TOPIC_PLACEHOLDER)
        source = topic
        if topic == _ANY_TOPIC:
            source = copy.removeprefix(before).removesuffix(after) if placeholder else ""
        if source and find_configured_copy(flow, source) == copy:
            yield source


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
    """Return the topic of a topic's copies if MM2 would write to `name`, or None.

    None too if its transforms make a name of it that no topic can have: its task fails.
    """
    followed, stated = route_topic(flow.routers, name), find_configured_copy(flow, topic)
    if followed is not None and not is_topic_name(followed):
        return None
    if stated is None or followed == stated:
        return followed
    return stated if followed is None else None


def _derive_copy_name(flow: MirrorFlow, topic: str) -> str | None:
    """Return the name that MM2 itself gives the copies; None if policy or separator is unknown."""
    if flow.policy == IDENTITY_POLICY and not _is_heartbeats_name(topic):
        return topic
    return (
        _add_source_prefix(flow, topic)
        if flow.policy in {DEFAULT_POLICY, IDENTITY_POLICY}
        else None
    )


def _add_source_prefix(flow: MirrorFlow, topic: str) -> str | None:
    separator = flow.known_separator
    return None if separator is None else f"{flow.source}{separator}{topic}"


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


def is_decided_by_filter(topic: str) -> bool:
    """Return whether MM2's topic filter alone may reject a topic.

    Heartbeats are copied whatever it says, and internal topics never. Its default is another one in
    old versions for names that end in `internal` (MirrorSourceConnector.shouldReplicateTopic).
    """
    return not (
        _is_heartbeats_name(topic) or topic.startswith((".", "__")) or topic.endswith("internal")
    )


def may_be_cycle(flow: MirrorFlow, topic: str) -> bool:
    """Return whether an upstream topic may itself be a copy from the flow's target.

    MM2 does not copy it back then (MirrorSourceConnector.isCycle).
    """
    if flow.policy == IDENTITY_POLICY:
        return False
    separator = flow.known_separator
    known = flow.policy == DEFAULT_POLICY and separator
    return not known or f"{flow.target}{separator}" in topic


def _is_heartbeats_name(topic: str) -> bool:
    """Return whether a topic's name ends in `heartbeats`.

    IdentityReplicationPolicy leaves such topics to DefaultReplicationPolicy.
    """
    return topic.endswith(HEARTBEATS)


def route_topic(routers: Iterable[TopicRouter], name: str) -> str | None:
    """Return the topic after these routers, applied in order.

    None if it cannot be determined, or if one of them would fail.
    """
    routed: str | None = name
    for router in routers:
        if routed is None:
            return None
        routed = _apply_router(router, routed)
    return routed


def _apply_router(router: TopicRouter, name: str) -> str | None:
    applied = _is_applied(router, name)
    if applied is False:
        return name
    if router.regex is None:
        return None
    replaced = _replace_first(router.regex, router.replacement, name)
    if replaced == "" and router.class_name != REGEX_ROUTER:
        replaced = name  # ByLogicalTableRouter leaves the record where it is
    return replaced if applied or replaced == name else None


def _is_applied(router: TopicRouter, name: str) -> bool | None:
    """Return whether a router applies to the records of a topic.

    None if that differs from record to record, or is not known.
    """
    if router.conditional:
        return None
    if router.topics is None:
        return True
    matches = JavaPattern(router.topics).matches(name)
    return None if matches is None else matches is not router.negated


def _replace_first(regex: str, replacement: str, name: str) -> str | None:
    """Replace the first match, as RegexRouter.apply does with Matcher.replaceFirst.

    The whole name must match; the first match found may be shorter.
    """
    pattern = JavaPattern(regex)
    matches = pattern.matches(name)
    if not matches:
        return None if matches is None else name
    match = pattern.first_match(name)
    if match is None:
        return None
    text = _expand_replacement(replacement, match)
    return None if text is None else name[: match.start()] + text + name[match.end() :]


def _expand_replacement(replacement: str, match: Any) -> str | None:
    """Expand as Matcher.appendReplacement does; None if that fails, and with it the task."""
    parts: list[str] = []
    position = 0
    while token := _REPLACEMENT.match(replacement, position):
        position = token.end()
        plain = token["escaped"] or token["literal"]
        if plain is not None:
            parts.append(plain)
            continue
        name = token["name"]
        if name is not None:
            if name not in match.re.groupindex:
                return None
            parts.append(match.group(name) or "")
            continue
        digits = token["digits"]
        # As many digits as still number a group, and one at least.
        while len(digits) > 1 and int(digits) > match.re.groups:
            digits = digits[:-1]
        if int(digits) > match.re.groups:
            return None
        position = token.start("digits") + len(digits)
        parts.append(match.group(int(digits)) or "")
    return "".join(parts) if position == len(replacement) else None
