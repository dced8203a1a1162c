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
from tests.scenarios.connect import Connector, Site, Source
from tests.scenarios.mirrors import Checkpoints, Mirror
from tests.scenarios.proxy import FAULTS
from tests.scenarios.script import BEGINNING, ScriptError, only, rate, seconds, several, trace_of

if TYPE_CHECKING:
    from collections.abc import Callable


def signed(text: str) -> float:
    """Return a length of time, which may be negative: `-10m`."""
    return -seconds(text[1:]) if text.startswith("-") else seconds(text)


class HostileVerbs:
    """Verbs of World that concern what stands around it."""

    now: float
    sites: dict[str, Site]
    strangers: dict[str, Site]
    kafkas: dict[str, Cluster]
    _named: Callable[[Any], list[Connector]]

    # --- REST ------------------------------------------------------------------------------------

    def do_front(self, told: Any) -> None:
        """Set what is wrong with the answers of a Connect cluster from now on; `""`: nothing."""
        given = only("front", told, "cluster", "fault", "of")
        fault = given.get("fault", "")
        if fault and fault.partition(":")[0] not in FAULTS:
            raise ScriptError(f"front: unknown fault {fault!r} (known: {sorted(FAULTS)})")
        proxy = self.sites[given.get("cluster", "lab")].proxy
        proxy.fault, proxy.wrong_for = fault, frozenset(several(given.get("of", [])))

    def do_forget_status(self, names: Any) -> None:
        """Write tombstones into the status topic: the connectors run on."""
        for at in self._named(names):
            at.site.without_status.add(at.name)
            at.site.say(f"connector-{at.name}", None, None, self.now)
            for number in range(len(at.tasks)):
                at.site.say(f"task-{at.name}-{number}", None, None, self.now)

    def do_forget_task_status(self, names: Any) -> None:
        """Write tombstones of tasks alone into the status topic."""
        for at in self._named(names):
            for number in range(len(at.tasks)):
                at.site.without_status.add(f"{at.name}-{number}")
                at.site.say(f"task-{at.name}-{number}", None, None, self.now)

    def do_tell_status(self, names: Any) -> None:
        """Have a worker write states again, as it does at a restart."""
        for at in self._named(names):
            at.site.without_status.discard(at.name)
            at.site.say(f"connector-{at.name}", at.state, None, self.now)
            for number, task in enumerate(at.tasks):
                at.site.say(f"task-{at.name}-{number}", task.state, task.trace, self.now)

    def do_leave_status(self, told: Any) -> None:
        """Have the status topic tell of a failed task that is not configured any more."""
        given = only("leave_status", told, "connector", "task", "failure")
        for at in self._named(given["connector"]):
            trace = trace_of(given["failure"])
            at.site.leftovers.setdefault(at.name, {})[given["task"]] = trace
            at.site.say(f"task-{at.name}-{given['task']}", "FAILED", trace, self.now)

    # --- connectors ------------------------------------------------------------------------------

    def do_start_jvm(self, told: Any) -> None:
        """Restart a source in another JVM, in which Map.of may list its fields the other way."""
        given = only("start_jvm", told, "connector", "turned")
        for at in self._named(given["connector"]):
            assert isinstance(at, Source)
            at.flush(self.now)
            at.start_jvm(turned=given["turned"], now=self.now)

    def do_alter_by_rest(self, told: Any) -> None:
        """Alter an offset over REST: Connect writes it under the key that a HashMap makes."""
        given = only("alter_by_rest", told, "connector", "offset")
        for at in self._named(given["connector"]):
            assert isinstance(at, Source)
            key = build_connect_key(at.name, at.partition)
            assert key is not None
            at.site.write_offset(at.name, key, at.offset_of(given["offset"]), self.now)
            if key == at.key:
                at.committed = given["offset"]

    def do_keep_assignment(self, names: Any) -> None:
        """Stop a mirror from taking up partitions that come later."""
        for at in self._named(names):
            assert isinstance(at, Mirror)
            at.assigned = at.partitions()

    def do_refresh(self, names: Any) -> None:
        """Have a mirror take up what there is again."""
        for at in self._named(names):
            assert isinstance(at, Mirror)
            at.assigned = None

    def do_refuse(self, told: Any) -> None:
        """Have the target refuse a record, first of its batch; without `offset` it takes it."""
        given = only("refuse", told, "connector", "partition", "offset")
        for at in self._named(given["connector"]):
            assert isinstance(at, Mirror)
            topic, _, number = given["partition"].rpartition("-")
            offset = given.get("offset")
            place = TopicPartition(topic, int(number))
            at.refused = None if offset is None else (place, offset)

    def do_stop_checkpoints(self, told: Any) -> None:
        """Have a checkpoint connector leave out these groups from now on; `[]`: none."""
        for name, groups in told.items():
            for at in self._named(name):
                assert isinstance(at, Checkpoints)
                at.left_out = frozenset(several(groups))

    def do_restore_offsets(self, told: Any) -> None:
        """Make a cluster's offsets topic anew from what stood there then, as from a snapshot, and
        restart its connectors on it.
        """
        given = only("restore_offsets", told, "cluster", "as_of")
        site = self.sites[given["cluster"]]
        topic = site.east.internal[site.offsets]
        until_ms = (BEGINNING + seconds(given["as_of"])) * 1000
        records = [at for at in topic.records if at.timestamp()[1] <= until_ms]
        topic.wipe()
        for record in records:
            key, value = record.key(), record.value()
            topic.write(key, value, record.timestamp()[1] / 1000)  # type: ignore[arg-type]
        for at in site.connectors.values():
            at.recall()
            at.restart(self.now)

    def do_stranger(self, told: Any) -> None:
        """Start a MirrorMaker on a Connect cluster that nobody watches, at the ends of the logs."""
        for name, more in told.items():
            given = only(f"stranger.{name}", more, "copies", "speed", "as")
            east = self.kafkas["east"]
            site = self.strangers.setdefault(name, Site(name, east, offsets=f"{name}-offsets"))
            for topic in (site.offsets, f"{name}-status"):
                east.internal.setdefault(topic, Internal(topic))
            source, _, target = given.get("as", "west->east").partition("->")
            mirror = Mirror(
                name,
                site,
                west=self.kafkas["west"],
                topics=several(given["copies"]),
                source=source,
                target=target,
                speed=rate(given.get("speed", "1000/s")),
            )
            self.kafkas["west"].internal.setdefault(mirror.syncs, Internal(mirror.syncs))
            site.connectors[name] = mirror
            mirror.create(self.now)
            mirror.begin_at_ends()

    def do_stranger_leaves(self, names: Any) -> None:
        for name in several(names):
            self.strangers[name].connectors.clear()

    # --- Kafka -----------------------------------------------------------------------------------

    def do_skew(self, told: Any) -> None:
        """Set by how much the clocks of writers are ahead: of `commits`, of `syncs`."""
        given = only("skew", told, "cluster", "commits", "syncs")
        skews = self.sites[given.get("cluster", "lab")].skews
        skews.update(
            {writer: signed(given[writer]) for writer in ("commits", "syncs") & given.keys()}
        )

    def do_sick_partition(self, told: Any) -> None:
        """Have a broker answer for one partition with an error; no error: it is well again."""
        given = only("sick_partition", told, "topic", "partition", "error")
        kafka, _, topic = given["topic"].partition("/")
        at = TopicPartition(topic, given.get("partition", 0))
        error = given.get("error")
        sick = self.kafkas[kafka].sick
        if error is None:
            sick.pop(at, None)
        else:
            sick[at] = ck.KafkaError(getattr(ck.KafkaError, error))

    def do_kafka_raises(self, told: Any) -> None:
        """Have every question to a Kafka cluster end in an error of librdkafka."""
        given = only("kafka_raises", told, "kafka", "error")
        kafka = self.kafkas[given["kafka"]]
        error = given.get("error")
        kafka.raises = None if error is None else partial(_raised, kafka.name, error)

    def do_copy_of_another_site(self, told: Any) -> None:
        """Write what a mirror copies of another site's offsets topic, whose connectors have the
        same names.
        """
        given = only("copy_of_another_site", told, "connector", "to", "offset")
        for at in self._named(given["connector"]):
            assert isinstance(at, Source)
            east = self.kafkas["east"]
            copy = east.internal.setdefault(given["to"], Internal(given["to"]))
            key = build_connect_key(at.name, at.partition)
            assert key is not None
            copy.write(key, json.dumps(at.offset_of(given["offset"])).encode(), self.now)


def _raised(name: str, error: str) -> Exception:
    """Return what the product's clients raise for an error of librdkafka."""
    code = getattr(ck.KafkaError, error, None)
    return (
        ServerError(name, error) if code is None else client_error_from(name, ck.KafkaError(code))
    )
