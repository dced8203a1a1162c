"""Checks of `doctor` that turn facts into lines with a verdict. Pure; doctor.py reads the facts.

A line is `ok`; `warn` (it works, but something is missing or will fail); `fail` (something is not
watched, or would be watched wrongly); or `unknown` (it could not be checked, which is no finding).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from offsetwatch.clients.kafka.inspector import TopicShape
from offsetwatch.errors import (
    AccessDenied,
    ClientError,
    IncompleteResponse,
    MalformedResponse,
    NotFound,
    ResponseTimeout,
    ServerError,
    SettingsRefused,
    SizeLimitExceeded,
    TargetUnreachable,
)
from offsetwatch.judge.text_formats import format_names
from offsetwatch.model.connectors import Connector
from offsetwatch.model.topology import InternalTopicRole, MirrorFlow, TopicFacts, Topology
from offsetwatch.state.internal_topics import (
    LOW_REPLICATION,
    NOT_COMPACTED,
    OVERSIZE,
    SHARED,
    WRONG_PARTITIONS,
)
from offsetwatch.state.mirror.mm2_names import find_configured_copy, find_copy_conflict
from offsetwatch.state.snapshot import TopicProblem
from offsetwatch.toolbox.suggestions import find_nearest

SKEW_S_MAX: Final = 5.0
FREE_BYTES_MIN: Final = 2**30  # a day of commits of ten thousand source partitions

CheckVerdict = Literal["ok", "warn", "fail", "unknown"]


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """A line of the report. `unreachable`: the system did not answer at all."""

    about: str
    check: str
    verdict: CheckVerdict
    found: str
    advice: str | None = None
    unreachable: bool = False


# Where nothing more is known, by class; the first that fits counts.
_ERROR_ADVICE: Final[tuple[tuple[type[ClientError], str], ...]] = (
    (TargetUnreachable, "check that it runs, its address and port, and the network to it"),
    (ResponseTimeout, "check that it is not frozen or overloaded, and the network to it"),
    (AccessDenied, "check the credentials, and the rights that docs/acls.md lists"),
    (NotFound, "check the name, and the right to describe it (docs/acls.md)"),
    (IncompleteResponse, "check that the address is of the right service, and what stands between"),
    (ServerError, "read its log around this time"),
    (
        MalformedResponse,
        "check that the address is that of the service, and not of a proxy or a login page",
    ),
    (SizeLimitExceeded, "watch fewer connectors with one worker, or raise the bound"),
    (ClientError, "read its log around this time, and run doctor again"),
)


def report_failed_check(
    about: str, check: str, error: ClientError, advice: str | None = None
) -> DoctorCheck:
    """Build the line of a check that failed because of an error or a missing answer."""
    advice = advice or error.advice
    if advice is None and isinstance(error, SettingsRefused):
        advice = f"correct kafka.{error.target}.properties; check names all that is wrong with them"
    return DoctorCheck(
        about,
        check,
        "fail",
        f"{error.reason}: {error.detail}",
        advice or next(text for kind, text in _ERROR_ADVICE if isinstance(error, kind)),
        unreachable=isinstance(error, (TargetUnreachable, ResponseTimeout)),
    )


# --- Kafka ---------------------------------------------------------------------------------------


def check_topic_ids(about: str, shapes: Mapping[str, TopicShape | ClientError]) -> DoctorCheck:
    """Check whether the cluster gives topics an id (KIP-516)."""
    line = partial(DoctorCheck, about, "topic ids")
    visible = [shape for shape in shapes.values() if isinstance(shape, TopicShape)]
    if not visible:
        return line("unknown", "no topic that offsetwatch may describe")
    if any(shape.topic_id is None for shape in visible):
        return line(
            "warn",
            "topics have no ids",
            "Kafka gives them from 2.8 on; without them a topic that was deleted and created again "
            "is noticed only once its end lies before our position",
        )
    return line("ok", "topics have ids")


def check_permissions(
    about: str,
    shapes: Mapping[str, TopicShape | ClientError],
    groups: Mapping[str, frozenset[str] | ClientError | None],
    there: Collection[str] = (),
) -> Iterator[DoctorCheck]:
    """Check the rights on the topics and groups that are needed.

    `shapes` are the topics to be read. `there` are topic names to suggest one from.
    """
    line = partial(DoctorCheck, about, "topic ACLs")
    missing: dict[str, list[str]] = {}
    readable = []
    hidden = False
    for topic, shape in sorted(shapes.items()):
        if isinstance(shape, NotFound):
            nearest = find_nearest(topic, there)
            meant = f"; did you mean {nearest}?" if nearest else ""
            yield DoctorCheck(
                about,
                "topic",
                "fail",
                f"{topic}: no such topic, or no permission to describe it{meant}",
                f"create it, correct its name, or allow Describe and Read on topic {topic}",
            )
        elif isinstance(shape, ClientError):
            refused = report_failed_check(
                about, "topic", shape, f"allow Describe and Read on topic {topic}"
            )
            yield replace(refused, found=f"{topic}: {refused.found}")
        else:
            readable.append(topic)
            hidden = hidden or shape.operations is None
            for operation in ("DESCRIBE", "READ", "DESCRIBE_CONFIGS"):
                if not shape.may(operation):
                    missing.setdefault(operation, []).append(topic)
    for operation, topics in missing.items():
        result = f"no {operation} on {format_names(topics)}"
        advice = f"allow {operation} on these topics"
        if operation == "DESCRIBE_CONFIGS":
            advice += ": the offsets topic is found and topics are linted by it"
        yield line("warn" if operation == "DESCRIBE_CONFIGS" else "fail", result, advice)
    if hidden:
        yield line("unknown", "the broker does not report these rights")
    elif readable and not missing:
        yield line("ok", f"all required rights on {format_names(readable)}")
    yield from _check_group_permissions(about, groups)


def _check_group_permissions(
    about: str, groups: Mapping[str, frozenset[str] | ClientError | None]
) -> Iterator[DoctorCheck]:
    line = partial(DoctorCheck, about, "group ACLs")
    refused = [
        name
        for name, operations in groups.items()
        if isinstance(operations, ClientError)
        or (operations is not None and not operations & {"DESCRIBE", "READ", "ALL"})
    ]
    if refused:
        advice = "allow Describe on these groups: without it their sinks have no lag"
        yield line("fail", f"no DESCRIBE on {format_names(sorted(refused))}", advice)
    elif None in groups.values():
        yield line("unknown", "the broker does not report these rights")
    elif groups:
        yield line("ok", f"Describe on {format_names(sorted(groups))}")


# --- Connect -------------------------------------------------------------------------------------


def check_mapping(
    about: str, configured: str, worker_says: str | None, ids: Mapping[str, str | None]
) -> DoctorCheck:
    """Check whether `kafka:` of a Connect cluster is the Kafka cluster that its workers use."""
    line = partial(DoctorCheck, about, "kafka")
    expected = ids.get(configured)
    if worker_says is None or expected is None:
        source = "the worker" if worker_says is None else configured
        return line("unknown", f"{source} returns no cluster id")
    if worker_says == expected:
        return line("ok", f"its Kafka cluster is {configured}")
    real = next((name for name, known in ids.items() if known == worker_says), None)
    advice = "name the Kafka cluster that its workers use under kafka, and here"
    if real is not None:
        advice = f"set kafka: {real} in this entry under connect"
    return line("fail", f"its Kafka cluster is {real or worker_says}, not {configured}", advice)


def check_offsets_endpoint(about: str, error: ClientError | None) -> DoctorCheck:
    """Check whether GET /connectors/{c}/offsets works."""
    line = partial(DoctorCheck, about, "REST offsets")
    if error is None:
        return line("ok", "answered")
    if isinstance(error, NotFound):
        return line(
            "warn",
            "the workers do not have them",
            "Connect has them from 3.5 on: without them what we read from the topics is not "
            "compared with what Connect would load",
        )
    return line(
        "warn",
        f"{error.reason}: {error.detail}",
        "each such call makes a worker read its offsets topic: raise connect[].poll.timeout_s",
    )


def check_addresses(
    about: str, connector: Connector, configured: Mapping[str, frozenset[str]]
) -> DoctorCheck | None:
    """Check whether the Kafka cluster that a connector names is configured; None without a name."""
    if connector.mirror is not None:
        addresses, what = connector.mirror.source_addresses, "upstream"
    elif connector.sink is not None and connector.sink.addresses:
        addresses, what = connector.sink.addresses, "consumes from"
    else:
        return None
    matches = sorted(name for name, known in configured.items() if known & addresses)
    text = ", ".join(sorted(addresses)) or "no address"
    if len(matches) == 1:
        return DoctorCheck(about, connector.name, "ok", f"{what} {matches[0]} ({text})")
    which = (
        f"that is {' and '.join(matches)}" if matches else "no cluster under kafka answers there"
    )
    return DoctorCheck(
        about,
        connector.name,
        "fail",
        f"{what} {text}: {which}: no lag",
        "add a cluster with exactly one of these addresses in its bootstrap under kafka",
    )


# --- the rest ------------------------------------------------------------------------------------


def check_worker_clock(
    about: str, theirs: float | None, before: float, after: float
) -> DoctorCheck:
    """Compare a worker's clock with this machine's; its Date header is cut to the second."""
    line = partial(DoctorCheck, about, "clock")
    if theirs is None:
        return line("unknown", "the worker's answer has no time")
    skew = max(0.0, theirs - after, before - (theirs + 1.0))
    ahead = "ahead of" if theirs > after else "behind"
    if skew <= SKEW_S_MAX:
        return line("ok", f"within {SKEW_S_MAX:.0f} s of this machine's")
    return line(
        "warn",
        f"{skew:.0f} s {ahead} this machine's",
        "set both by NTP: ages and lags in seconds compare this clock with record timestamps",
    )


def check_record_clock(newest: float | None, now: float) -> DoctorCheck:
    """Check for records from the future, which show a wrong clock. Old records prove nothing."""
    line = partial(DoctorCheck, "clock", "records")
    if newest is None:
        return line("unknown", "no record was read")
    if newest - now <= SKEW_S_MAX:
        return line("ok", "no commit is from the future")
    advice = "set the clocks of workers, brokers and this machine by NTP"
    return line("warn", f"the newest commit is {newest - now:.0f} s in the future", advice)


def check_disk(path: str, *, writable: bool, free_bytes: int) -> DoctorCheck:
    """Check whether the history pipeline can write its tables."""
    line = partial(DoctorCheck, "disk", "history.path")
    if not writable:
        return line("fail", f"{path}: not writable", "set history.path, or chown it")
    result = f"{path}: {free_bytes / 2**30:.1f} GiB free"
    if free_bytes < FREE_BYTES_MIN:
        return line("warn", result, "make room for the tables")
    return line("ok", result)


def check_history_extra(*, spark: bool, java: bool) -> DoctorCheck:
    """Check whether the history pipeline is installed and can run."""
    line = partial(DoctorCheck, "history", "extra")
    if not spark:
        return line("ok", "not installed: needed for `history` only", "offsetwatch[history]")
    if not java:
        advice = "install a Java 17 runtime, or set JAVA_HOME"
        return line("warn", "pyspark is installed, and no java was found", advice)
    return line("ok", "pyspark and java are there")


_ADVICE: Final = {
    NOT_COMPACTED: "kafka-configs --alter --add-config cleanup.policy=compact, before retention "
    "has deleted more; back the offsets up first",
    WRONG_PARTITIONS: "recreate it with 1 partition while its workers are stopped; partitions "
    "cannot be removed",
    LOW_REPLICATION: "kafka-reassign-partitions: one lost broker takes these offsets with it",
    SHARED: "give each Connect cluster an offset.storage.topic of its own",
    OVERSIZE: "kafka-configs --alter --add-config segment.ms=3600000,min.cleanable.dirty.ratio=0.1",
}


def check_internal_topics(
    about: str, facts: Collection[TopicFacts], problems: Collection[TopicProblem]
) -> Iterator[DoctorCheck]:
    """Report the problems of internal topics, and what could not be checked."""
    line = partial(DoctorCheck, about, "internal topics")
    for problem in problems:
        yield line(
            "fail" if problem.problem in {NOT_COMPACTED, SHARED} else "warn",
            f"{problem.at.topic}: {problem.problem}: {problem.detail}",
            _ADVICE[problem.problem],
        )
    hidden = sorted(fact.at.topic for fact in facts if fact.policy is None)
    if hidden:
        result = f"cleanup.policy of {format_names(hidden)} is hidden from offsetwatch"
        yield line("unknown", result, "allow DescribeConfigs on these topics")
    visible = sorted(fact.at.topic for fact in facts if fact.policy is not None)
    if visible and not problems:
        yield line("ok", f"nothing wrong with {format_names(visible)}")
    roles = {fact.role for fact in facts}
    siblings = {InternalTopicRole.CONFIG, InternalTopicRole.STATUS}
    if InternalTopicRole.OFFSETS in roles and not roles >= siblings:
        yield line(
            "unknown",
            "no config and status topics were found beside the offsets topic: not checked",
        )


def check_status_topic(connect_cluster: str, topology: Topology) -> Iterator[DoctorCheck]:
    """Warn about a Connect cluster whose status topic cannot be found.

    The name is derived from the offsets topic's, which sinks alone do not lead to. A task that
    fails between two polls is then not counted.
    """
    status_clusters = {status.connect_cluster for status in topology.statuses}
    status_clusters |= {
        topic.connect_cluster for topic in topology.offsets_topics if topic.connector is None
    }
    if connect_cluster not in status_clusters:
        yield DoctorCheck(
            f"connect {connect_cluster}",
            "status topic",
            "warn",
            "not known: a task that is restarted and fails again between two polls is not counted",
            "name it in connect[].status_topic",
        )


def check_copies(
    flow: MirrorFlow, topics: Collection[str], there: Collection[str]
) -> Iterator[DoctorCheck]:
    """Warn about entries of `flows[].copies` that the connector's configuration contradicts.

    Also warn about those that name a topic that does not exist.

    topics    upstream topics that the flow copies
    there     topics of the target; empty if they are unknown
    """
    for topic in sorted(topics):
        stated, two = find_configured_copy(flow, topic), find_copy_conflict(flow, topic)
        if two is not None:
            result = f"{topic} is copied to {two[1]} by its settings: {two[0]} is not used"
        elif stated is not None and there and stated not in there:
            result = f"{topic}: there is no topic {stated} on {flow.downstream}"
        else:
            continue
        about, check = f"connect {flow.connect_cluster}", f"copies of {flow.connector}"
        yield DoctorCheck(about, check, "warn", result, "correct flows[].copies")
