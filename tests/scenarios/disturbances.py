"""Happenings in worlds that we did not build: proxies that answer in Connect's place, clocks that
disagree, a second MirrorMaker, sick partitions, records that are gone from a status topic.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import confluent_kafka as ck

from offsetwatch.clients.kafka.errors import client_error_from
from offsetwatch.decode.java.hash_map import build_connect_key
from offsetwatch.errors import ServerError
from offsetwatch.model.topology import TopicPartition
from tests.scenarios.brokers import Cluster, Internal
from tests.scenarios.connect import Connector, ScenarioConnect, Source
from tests.scenarios.mirrors import Checkpoints, Mirror
from tests.scenarios.proxy import FAULTS
from tests.scenarios.script import BEGINNING, ScriptError, only, rate, seconds, several, trace_of

if TYPE_CHECKING:
    from collections.abc import Callable


def signed(text: str) -> float:
    """Return a length of time, which may be negative: `-10m`."""
    return -seconds(text[1:]) if text.startswith("-") else seconds(text)


class DisturbanceVerbs:
    """Verbs of World that concern what stands around it."""

    now: float
    sites: dict[str, ScenarioConnect]
    strangers: dict[str, ScenarioConnect]
    kafkas: dict[str, Cluster]
    _named: Callable[[Any], list[Connector]]

    # --- REST ------------------------------------------------------------------------------------

    def do_front(self, report: Any) -> None:
        """Set what is wrong with the answers of a Connect cluster from now on; `""`: nothing."""
        inputs = only("front", report, "cluster", "fault", "of")
        fault = inputs.get("fault", "")
        if fault and fault.partition(":")[0] not in FAULTS:
            raise ScriptError(f"front: unknown fault {fault!r} (known: {sorted(FAULTS)})")
        proxy = self.sites[inputs.get("cluster", "lab")].proxy
        proxy.fault, proxy.wrong_for = fault, frozenset(several(inputs.get("of", [])))

    def do_forget_status(self, names: Any) -> None:
        """Write tombstones into the status topic: the connectors run on."""
        for connector in self._named(names):
            connector.site.without_status.add(connector.name)
            connector.site.say(f"connector-{connector.name}", None, None, self.now)
            for number in range(len(connector.tasks)):
                connector.site.say(f"task-{connector.name}-{number}", None, None, self.now)

    def do_forget_task_status(self, names: Any) -> None:
        """Write tombstones of tasks alone into the status topic."""
        for connector in self._named(names):
            for number in range(len(connector.tasks)):
                connector.site.without_status.add(f"{connector.name}-{number}")
                connector.site.say(f"task-{connector.name}-{number}", None, None, self.now)

    def do_tell_status(self, names: Any) -> None:
        """Have a worker write states again, as it does at a restart."""
        for connector in self._named(names):
            connector.site.without_status.discard(connector.name)
            connector.site.say(f"connector-{connector.name}", connector.state, None, self.now)
            for number, task in enumerate(connector.tasks):
                connector.site.say(
                    f"task-{connector.name}-{number}", task.state, task.trace, self.now
                )

    def do_leave_status(self, report: Any) -> None:
        """Have the status topic tell of a failed task that is not configured any more."""
        inputs = only("leave_status", report, "connector", "task", "failure")
        for connector in self._named(inputs["connector"]):
            trace = trace_of(inputs["failure"])
            connector.site.leftovers.setdefault(connector.name, {})[inputs["task"]] = trace
            connector.site.say(f"task-{connector.name}-{inputs['task']}", "FAILED", trace, self.now)

    def do_other_site_says(self, settings: Any) -> None:
        """Have another Connect cluster write the state of a task of its own into the status topic
        that we read, in which the task has the same name.
        """
        inputs = only("other_site_says", settings, "connector", "task", "state", "failure")
        for at in self._named(inputs["connector"]):
            trace = trace_of(inputs["failure"]) if "failure" in inputs else None
            key = f"task-{at.name}-{inputs.get('task', 0)}"
            at.site.say(key, inputs["state"], trace, self.now)

    # --- connectors ------------------------------------------------------------------------------

    def do_start_jvm(self, report: Any) -> None:
        """Restart a source in another JVM, in which Map.of may list its fields the other way."""
        inputs = only("start_jvm", report, "connector", "turned")
        for item in self._named(inputs["connector"]):
            assert isinstance(item, Source)
            item.flush(self.now)
            item.start_jvm(turned=inputs["turned"], now=self.now)

    def do_alter_by_rest(self, report: Any) -> None:
        """Alter an offset over REST: Connect writes it under the key that a HashMap makes."""
        inputs = only("alter_by_rest", report, "connector", "offset")
        for item in self._named(inputs["connector"]):
            assert isinstance(item, Source)
            key = build_connect_key(item.name, item.partition)
            assert key is not None
            item.site.write_offset(item.name, key, item.offset_of(inputs["offset"]), self.now)
            if key == item.key:
                item.committed = inputs["offset"]

    def do_keep_assignment(self, names: Any) -> None:
        """Stop a mirror from taking up partitions that come later."""
        for item in self._named(names):
            assert isinstance(item, Mirror)
            item.assigned = item.partitions()

    def do_select(self, report: Any) -> None:
        """Configure a mirror with other topics; its tasks go on with what they were given."""
        inputs = only("select", report, "connector", "topics")
        for item in self._named(inputs["connector"]):
            assert isinstance(item, Mirror)
            item.assigned = item.partitions()
            item.topics = list(inputs["topics"])

    def do_refresh(self, names: Any) -> None:
        """Have a mirror take up what there is again."""
        for item in self._named(names):
            assert isinstance(item, Mirror)
            item.assigned = None

    def do_refuse(self, report: Any) -> None:
        """Have the target refuse a record, first of its batch; without `offset` it takes it."""
        inputs = only("refuse", report, "connector", "partition", "offset")
        for item in self._named(inputs["connector"]):
            assert isinstance(item, Mirror)
            topic, _, number = inputs["partition"].rpartition("-")
            offset = inputs.get("offset")
            partition = TopicPartition(topic, int(number))
            item.refused = None if offset is None else (partition, offset)

    def do_stop_checkpoints(self, report: Any) -> None:
        """Have a checkpoint connector leave out these groups from now on; `[]`: none."""
        for name, groups in report.items():
            for item in self._named(name):
                assert isinstance(item, Checkpoints)
                item.excluded_groups = frozenset(several(groups))

    def do_restore_offsets(self, report: Any) -> None:
        """Make a cluster's offsets topic anew from what stood there then, as from a snapshot, and
        restart its connectors on it.
        """
        inputs = only("restore_offsets", report, "cluster", "as_of")
        cluster = self.sites[inputs["cluster"]]
        topic = cluster.east.internal[cluster.offsets]
        until_ms = (BEGINNING + seconds(inputs["as_of"])) * 1000
        records = [message for message in topic.records if message.timestamp()[1] <= until_ms]
        topic.wipe()
        for record in records:
            key, value = record.key(), record.value()
            topic.write(key, value, record.timestamp()[1] / 1000)  # type: ignore[arg-type]
        for connector in cluster.connectors.values():
            connector.recall()
            connector.restart(self.now)

    def do_stranger(self, report: Any) -> None:
        """Start a MirrorMaker on a Connect cluster that nobody watches, at the ends of the logs."""
        for name, more in report.items():
            inputs = only(f"stranger.{name}", more, "copies", "speed", "as")
            east = self.kafkas["east"]
            cluster = self.strangers.setdefault(
                name, ScenarioConnect(name, east, offsets=f"{name}-offsets")
            )
            for topic in (cluster.offsets, f"{name}-status"):
                east.internal.setdefault(topic, Internal(topic))
            source, _, target = inputs.get("as", "west->east").partition("->")
            mirror = Mirror(
                name,
                cluster,
                west=self.kafkas["west"],
                topics=several(inputs["copies"]),
                source=source,
                target=target,
                speed=rate(inputs.get("speed", "1000/s")),
            )
            self.kafkas["west"].internal.setdefault(mirror.syncs, Internal(mirror.syncs))
            cluster.connectors[name] = mirror
            mirror.create(self.now)
            mirror.begin_at_ends()

    def do_stranger_leaves(self, names: Any) -> None:
        for name in several(names):
            self.strangers[name].connectors.clear()

    # --- Kafka -----------------------------------------------------------------------------------

    def do_skew(self, report: Any) -> None:
        """Set by how much the clocks of writers are ahead: of `commits`, of `syncs`."""
        inputs = only("skew", report, "cluster", "commits", "syncs")
        skews = self.sites[inputs.get("cluster", "lab")].skews
        skews.update(
            {writer: signed(inputs[writer]) for writer in ("commits", "syncs") & inputs.keys()}
        )

    def do_sick_partition(self, report: Any) -> None:
        """Have a broker answer for one partition with an error; no error: it is well again."""
        inputs = only("sick_partition", report, "topic", "partition", "error")
        kafka, _, topic = inputs["topic"].partition("/")
        partition = TopicPartition(topic, inputs.get("partition", 0))
        error = inputs.get("error")
        sick = self.kafkas[kafka].sick
        if error is None:
            sick.pop(partition, None)
        else:
            sick[partition] = ck.KafkaError(getattr(ck.KafkaError, error))

    def do_kafka_raises(self, report: Any) -> None:
        """Have every question to a Kafka cluster end in an error of librdkafka."""
        inputs = only("kafka_raises", report, "kafka", "error")
        kafka = self.kafkas[inputs["kafka"]]
        error = inputs.get("error")
        kafka.raises = None if error is None else partial(_raised, kafka.name, error)

    def do_copy_of_another_site(self, report: Any) -> None:
        """Write what a mirror copies of another site's offsets topic, whose connectors have the
        same names.
        """
        inputs = only("copy_of_another_site", report, "connector", "to", "offset")
        for item in self._named(inputs["connector"]):
            assert isinstance(item, Source)
            east = self.kafkas["east"]
            copy = east.internal.setdefault(inputs["to"], Internal(inputs["to"]))
            key = build_connect_key(item.name, item.partition)
            assert key is not None
            copy.write(key, json.dumps(item.offset_of(inputs["offset"])).encode(), self.now)


def _raised(name: str, error: str) -> Exception:
    """Return what the product's clients raise for an error of librdkafka."""
    code = getattr(ck.KafkaError, error, None)
    return (
        ServerError(name, error) if code is None else client_error_from(name, ck.KafkaError(code))
    )
