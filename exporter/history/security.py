"""From librdkafka's client properties, as the configuration has them, to those of Spark's client.

Called by jobs.py before a stream starts. A property that this module cannot translate is refused by
name: dropping it silently could mean reading another cluster, or reading it in the clear.
"""

from __future__ import annotations

from collections.abc import Mapping

from exporter.errors import HistoryError

# Properties that tune or name OUR librdkafka clients and say nothing about reaching the cluster.
# `isolation.level` is among them because the pipeline always reads committed records only.
MEANINGLESS_HERE = frozenset(
    {
        "allow.auto.create.topics",
        "auto.offset.reset",
        "client.id",
        "debug",
        "enable.auto.commit",
        "enable.partition.eof",
        "fetch.queue.backoff.ms",
        "fetch.wait.max.ms",
        "group.id",
        "isolation.level",
        "log_level",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "socket.keepalive.enable",
        "socket.timeout.ms",
        "statistics.interval.ms",
    }
)
_BOOTSTRAP = ("bootstrap.servers", "metadata.broker.list")  # the second is librdkafka's alias


def kafka_options(kafka: str, properties: Mapping[str, str]) -> dict[str, str]:
    """The options of Spark's Kafka source that reach the cluster `kafka`.

    Raises HistoryError with the names (never the values) of what cannot be translated.
    """
    servers = next((properties[name] for name in _BOOTSTRAP if properties.get(name)), None)
    if servers is None:
        raise HistoryError(f"kafka {kafka} has no bootstrap.servers")
    known = {*_BOOTSTRAP, *MEANINGLESS_HERE}
    if properties.get("security.protocol", "plaintext").lower() == "plaintext":
        known.add("security.protocol")
    unknown = sorted(set(properties) - known)
    if unknown:
        raise HistoryError(
            f"kafka {kafka}: the pipeline cannot translate {', '.join(unknown)}; "
            "it reads clusters over plaintext only"
        )
    return {
        "kafka.bootstrap.servers": servers,
        # Aborted transactions leave records in the log that Connect itself never saw.
        "kafka.isolation.level": "read_committed",
        # Spark asks three times: a cluster that is away is given up after one minute, not three.
        "kafka.default.api.timeout.ms": "20000",
        "kafka.request.timeout.ms": "15000",
    }
