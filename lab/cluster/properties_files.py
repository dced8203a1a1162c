"""
The properties files of brokers, workers and the dedicated MirrorMaker: pure functions.

Replication factors are 1 throughout, as each cluster has one broker, and internal topics have few
partitions, as each costs files and time.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from lab.cluster.connector_configs import MM2_INTERVALS
from lab.processes.ports import LOOPBACK

# The dedicated MirrorMaker must not meet the connectors' flow west->east. Both ends get other
# aliases, and everything MirrorMaker names by alias (remote topics, syncs, checkpoints, its own
# offsets topic and group) then differs; its topic differs too, so that nothing is copied twice.
DEDICATED_UPSTREAM = "w2"
DEDICATED_DOWNSTREAM = "e2"
DEDICATED_TOPIC = "ledger"

Properties = Mapping[str, str | int]


def render(properties: Properties) -> str:
    """The text of a properties file; the values the lab uses need no escaping."""
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def broker(*, port: int, controller_port: int, data: Path) -> Properties:
    """A single node that is broker and controller."""
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(data),
        # A misspelt topic name should be an error to whoever misspelt it, not a new topic.
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 5,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 5,
        # How late a timed-out transaction is noticed; ten seconds by default.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        # The cleaner takes its buffer from the heap at start; the default is 128 MiB.
        "log.cleaner.dedupe.buffer.size": 4 * 1024 * 1024,
        # A broker that was killed may not register again until its old session has run out, nine
        # seconds by default.
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
        "num.network.threads": 2,
        "num.io.threads": 4,
    }


def add_listener(properties: Properties, name: str, *, at: int, towards: int) -> Properties:
    """A broker with one more listener, on port `towards`, whose clients are sent to port `at` and
    nowhere else: with a relay between the two they can be cut off from it.
    """
    listeners, report = "listeners", "advertised.listeners"
    protocols = "listener.security.protocol.map"
    return {
        **properties,
        listeners: f"{properties[listeners]},{name}://{LOOPBACK}:{towards}",
        report: f"{properties[report]},{name}://{LOOPBACK}:{at}",
        protocols: f"{properties[protocols]},{name}:PLAINTEXT",
    }


def authorizer() -> Properties:
    """What makes a broker look at ACLs. A resource that has none stays open to everybody; one that
    has any is closed to all whom none of them allows.
    """
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }


def worker(
    *, cluster: str, bootstrap: str, port: int, offset_flush_interval_ms: int, exactly_once: bool
) -> Properties:
    """A distributed Connect worker; all workers of a Connect cluster differ by port only."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": cluster,
        "offset.storage.topic": f"{cluster}-offsets",
        "offset.storage.partitions": 25,
        "offset.storage.replication.factor": 1,
        "config.storage.topic": f"{cluster}-configs",
        "config.storage.replication.factor": 1,
        "status.storage.topic": f"{cluster}-status",
        "status.storage.replication.factor": 1,
        "offset.flush.interval.ms": offset_flush_interval_ms,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "listeners": f"http://{LOOPBACK}:{port}",
        "rest.advertised.host.name": LOOPBACK,
        "rest.advertised.port": port,
        # Scanning every jar for plugins is the slowest part of a worker's start.
        "plugin.discovery": "service_load",
        # Five minutes by default, in which the tasks of a lost worker run nowhere.
        "scheduled.rebalance.max.delay.ms": 0,
        # The shortest a broker allows; the worker notices a rebalance at its next heartbeat.
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
        **_source_support(exactly_once=exactly_once),
    }


def with_plugins(properties: Properties, folders: Iterable[Path]) -> Properties:
    """A worker that loads the plugins in these folders, each apart from the others."""
    return {**properties, "plugin.path": ",".join(map(str, folders))}


def standalone(
    *, bootstrap: str, port: int, offsets: Path, offset_flush_interval_ms: int
) -> Properties:
    """A standalone worker: no group and no topics of its own, and its offsets in a file."""
    return {
        "bootstrap.servers": bootstrap,
        "offset.storage.file.filename": str(offsets),
        "offset.flush.interval.ms": offset_flush_interval_ms,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "listeners": f"http://{LOOPBACK}:{port}",
        "plugin.discovery": "service_load",
    }


def dedicated_mm2(
    *, upstream: str, downstream: str, offset_flush_interval_ms: int, exactly_once: bool
) -> Properties:
    """
    A MirrorMaker process with the flow w2->e2, over the same brokers as west->east.

    The way back, e2->w2, is left disabled and still runs for its heartbeats, as it would anywhere:
    they land on west as `heartbeats`.
    """
    w2, e2 = DEDICATED_UPSTREAM, DEDICATED_DOWNSTREAM
    # What is meant for MirrorMaker's inner workers it only finds under the alias of the cluster a
    # worker lives on; without the prefix these are ignored in silence and the defaults hold.
    inner: Properties = {
        "offset.flush.interval.ms": offset_flush_interval_ms,
        "scheduled.rebalance.max.delay.ms": 0,
        "plugin.discovery": "service_load",
        **_source_support(exactly_once=exactly_once),
    }
    return {
        "clusters": f"{w2}, {e2}",
        f"{w2}.bootstrap.servers": upstream,
        f"{e2}.bootstrap.servers": downstream,
        f"{w2}->{e2}.enabled": "true",
        f"{w2}->{e2}.topics": f"{DEDICATED_TOPIC}.*",
        f"{e2}->{w2}.enabled": "false",
        "tasks.max": 2,
        "replication.factor": 1,
        "offset.storage.replication.factor": 1,
        "config.storage.replication.factor": 1,
        "status.storage.replication.factor": 1,
        **{f"{alias}.{key}": value for alias in (w2, e2) for key, value in inner.items()},
        **MM2_INTERVALS,
    }


def _source_support(*, exactly_once: bool) -> Properties:
    if not exactly_once:
        return {"exactly.once.source.support": "disabled"}
    return {
        "exactly.once.source.support": "enabled",
        # A killed worker leaves transactions open on the offsets topic, and no worker starts until
        # they have timed out. A minute by default.
        "producer.transaction.timeout.ms": 10_000,
    }
