"""A world as world.yaml tells it: what there is, and what happens when."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx

from offsetwatch.errors import TargetUnreachable
from offsetwatch.model.topology import TopicPartition
from tests.scenarios.brokers import Cluster, Internal, Log, Topic, partitions_of
from tests.scenarios.connect import Connector, ScenarioConnect, Sink, Source
from tests.scenarios.databases import Database, Debezium
from tests.scenarios.disturbances import DisturbanceVerbs
from tests.scenarios.mirrors import Checkpoints, Mirror, routes_of
from tests.scenarios.script import (
    BEGINNING,
    ScriptError,
    active_of,
    load_of,
    only,
    rate,
    seconds,
    several,
    trace_of,
)

WORDS = (
    *("about", "lasts", "tick", "clusters", "topics", "databases", "connectors", "groups"),
    "happens",
)


class World(DisturbanceVerbs):
    """See the module. `step` lets time pass; `now` is Unix seconds."""

    def __init__(self, finding: Any) -> None:
        finding = only("world.yaml", finding, *WORDS)
        self.lasts_s = seconds(finding["lasts"])
        self.tick_s = seconds(os.environ.get("SCENARIO_TICK", finding.get("tick", "10s")))
        self.now = BEGINNING
        self.kafkas = {name: Cluster(name) for name in ("east", "west")}
        east, west = self.kafkas["east"], self.kafkas["west"]
        self.clusters: dict[str, dict[str, Any]] = finding.get("clusters", {"lab": {}})
        self.sites: dict[str, ScenarioConnect] = {}
        for name, more in self.clusters.items():
            inputs = only(f"clusters.{name}", more, "offsets", "excludes", "rest_only", "discovers")
            offsets = inputs.get(
                "offsets", "connect-offsets" if name == "lab" else f"{name}-offsets"
            )
            self.sites[name] = ScenarioConnect(name, east, offsets=offsets)
            east.internal.setdefault(offsets, Internal(offsets))
            east.internal[f"{name}-status"] = Internal(f"{name}-status")
        west.internal["mm2-offset-syncs.east.internal"] = Internal("mm2-offset-syncs.east.internal")
        self.policies: dict[str, str] = {}
        self.strangers: dict[str, ScenarioConnect] = {}
        self.down_until: float | None = None
        self.beating: dict[str, tuple[dict[TopicPartition, float], list[str], float]] = {}
        for name, more in finding.get("topics", {}).items():
            self._topic(name, more)
        self.databases: dict[str, Database] = {}
        for name, more in finding.get("databases", {}).items():
            self.databases[name] = self._database(name, more)
        for name, more in finding.get("groups", {}).items():
            inputs = only(f"groups.{name}", more, "reads", "speed")
            self.beating[name] = ({}, several(inputs["reads"]), rate(inputs.get("speed", "1000/s")))
        for name, more in finding.get("connectors", {}).items():
            self.connector(name, more)
        self.events = sorted(
            (self._event(number, event) for number, event in enumerate(finding.get("happens", []))),
            key=lambda item: item[0],
        )

    # --- what there is ---------------------------------------------------------------------------

    def _topic(self, name: str, report: Any) -> None:
        inputs = only(
            f"topics.{name}",
            report,
            "partitions",
            "load",
            "keeps",
            "segments",
            "transactions",
            "had",
        )
        kafka, _, topic = name.partition("/")
        built = Topic(
            logs=[Log() for _ in range(inputs.get("partitions", 1))],
            load=load_of(f"topics.{name}.load", inputs.get("load", [])),
            keep_s=seconds(inputs["keeps"]) if "keeps" in inputs else None,
            segment_s=seconds(inputs.get("segments", "10m")),
            transactional=inputs.get("transactions", False),
        )
        for log in built.logs:
            log.append(inputs.get("had", 0), BEGINNING)
        self.kafkas[kafka].data[topic] = built

    def _database(self, name: str, report: Any) -> Database:
        inputs = only(f"databases.{name}", report, "kind", "captured", "others", "rights")
        return Database(
            name,
            inputs["kind"],
            captured=load_of(f"databases.{name}.captured", inputs.get("captured", [])),
            others=load_of(f"databases.{name}.others", inputs.get("others", [])),
            rights=inputs.get("rights", True),
        )

    def connector(self, name: str, report: Any) -> None:
        cluster, name = self._find_connect(name)
        kinds: dict[str, Callable[..., Connector]] = {
            "copies": self._mirror,
            "checkpoints": self._checkpoints,
            "reads": self._source,
            "captures": self._debezium,
            "writes": self._sink,
        }
        for word, make in kinds.items():
            if isinstance(report, dict) and word in report:
                more = {key: report[key] for key in ("tasks",) if key in report}
                rest = {key: report[key] for key in report if key != "tasks"}
                built = make(cluster, name, rest)
                built.tasks_max = more.get("tasks", built.tasks_max)
                cluster.connectors[name] = built
                built.create(self.now)
                return
        raise ScriptError(f"connectors.{name}: say what it copies, checkpoints, reads or writes")

    def _mirror(self, cluster: ScenarioConnect, name: str, report: Any) -> Mirror:
        inputs = only(f"connectors.{name}", report, "copies", "speed", "as", "refreshes", "routes")
        source, _, target = inputs.get("as", "west->east").partition("->")
        mirror = Mirror(
            name,
            cluster,
            west=self.kafkas["west"],
            topics=several(inputs["copies"]),
            source=source,
            target=target,
            speed=rate(inputs.get("speed", "1000/s")),
            refreshes=inputs.get("refreshes", True),
            routes=routes_of(f"connectors.{name}.routes", inputs.get("routes", [])),
        )
        self.kafkas["west"].internal.setdefault(mirror.syncs, Internal(mirror.syncs))
        return mirror

    def _checkpoints(self, cluster: ScenarioConnect, name: str, report: Any) -> Checkpoints:
        inputs = only(f"connectors.{name}", report, "checkpoints", "groups")
        of = cluster.connectors[inputs["checkpoints"]]
        assert isinstance(of, Mirror)
        checkpoints = Checkpoints(name, cluster, of=of, groups=several(inputs["groups"]))
        cluster.east.internal.setdefault(checkpoints.topic, Internal(checkpoints.topic))
        return checkpoints

    def _source(self, cluster: ScenarioConnect, name: str, report: Any) -> Source:
        inputs = only(
            f"connectors.{name}",
            report,
            "reads",
            "counts",
            "fields",
            "step",
            "every",
            "active",
            "repeats",
            "keys",
            "texts",
            "flush",
            "class",
        )
        return Source(
            name,
            cluster,
            partition=inputs["reads"],
            fields=inputs.get("fields", {}),
            counts=inputs.get("counts", "position"),
            step=inputs.get("step", 1),
            every_s=seconds(inputs.get("every", "10s")),
            active=active_of(f"connectors.{name}.active", inputs.get("active")),
            repeats=inputs.get("repeats", False),
            keys=inputs.get("keys", "hash"),
            texts=inputs.get("texts", False),
            flush_s=seconds(inputs.get("flush", "60s")),
            class_name=inputs.get("class", _class_of(inputs["reads"])),
        )

    def _debezium(self, cluster: ScenarioConnect, name: str, report: Any) -> Debezium:
        inputs = only(f"connectors.{name}", report, "captures", "snapshot", "repeats")
        database = self.databases[inputs["captures"]]
        classes = {
            "postgresql": "postgresql.PostgresConnector",
            "mysql": "mariadb.MariaDbConnector",
        }
        return Debezium(
            name,
            cluster,
            partition={"server": name},
            database=database,
            snapshot_s=seconds(inputs.get("snapshot", "0s")),
            repeats=inputs.get("repeats", False),
            class_name=f"io.debezium.connector.{classes[database.kind]}",
        )

    def _sink(self, cluster: ScenarioConnect, name: str, report: Any) -> Sink:
        inputs = only(f"connectors.{name}", report, "writes", "speed", "commits")
        return Sink(
            name,
            cluster,
            topics=several(inputs["writes"]),
            speed=rate(inputs.get("speed", "1000/s")),
            commits=inputs.get("commits", True),
        )

    # --- time ------------------------------------------------------------------------------------

    def step(self) -> None:
        """One tick: what happens now happens, and then everybody works."""
        self.now += self.tick_s
        while self.events and self.events[0][0] <= self.now:
            self.events.pop(0)[1]()
        for kafka in self.kafkas.values():
            for topic in kafka.data.values():
                topic.live(self.now, self.tick_s)
        for database in self.databases.values():
            database.live(self.now, self.tick_s)
        for name, (owed, topics, speed) in self.beating.items():
            self._consume(name, owed, topics, speed)
        for cluster in (*self.sites.values(), *self.strangers.values()):
            for connector in tuple(cluster.connectors.values()):
                connector.live(self.now, self.tick_s)

    def _consume(
        self, group: str, partition: dict[TopicPartition, float], topics: list[str], speed: float
    ) -> None:
        west = self.kafkas["west"]
        for location in partitions_of(west, topics):
            log = west.log(location)
            assert log is not None
            partition[location] = min(
                log.end, max(log.start, partition.get(location, 0.0)) + speed * self.tick_s
            )
            west.groups.setdefault(group, {})[location] = int(partition[location])

    def _event(self, number: int, report: Any) -> tuple[float, Callable[[], None]]:
        if not isinstance(report, dict) or "at" not in report or len(report) != 2:
            raise ScriptError(
                f"happens[{number}]: a moment (at) and what happens then, got {report}"
            )
        (verb,) = (word for word in report if word != "at")
        act = getattr(self, f"do_{verb}", None)
        if act is None:
            known = sorted(name[3:] for name in dir(self) if name.startswith("do_"))
            raise ScriptError(f"happens[{number}]: unknown verb {verb!r} (known: {known})")
        return (BEGINNING + seconds(report["at"]), partial(act, report[verb]))

    # --- verbs: connectors -----------------------------------------------------------------------

    def do_stop(self, names: Any) -> None:
        for any_connector in self._named(names):
            any_connector.stop(self.now)

    def do_pause(self, names: Any) -> None:
        for any_connector in self._named(names):
            any_connector.pause(self.now)

    def do_resume(self, names: Any) -> None:
        for any_connector in self._named(names):
            any_connector.resume(self.now)

    def do_restart(self, names: Any) -> None:
        for any_connector in self._named(names):
            any_connector.restart(self.now)

    def do_delete(self, names: Any) -> None:
        for any_connector in self._named(names):
            any_connector.delete(self.now)

    def do_create(self, report: Any) -> None:
        for name, more in report.items():
            self.connector(name, more)
            built = self._named(name)[0]
            # It finds what an earlier one of its name has left, and begins there.
            built.recall()
            built.started(self.now)

    def do_hang(self, names: Any) -> None:
        for any_connector in self._named(names):
            any_connector.hung = True

    def do_heal(self, names: Any) -> None:
        """Whatever is wrong with it is not any more; who restarts it is another matter."""
        for any_connector in self._named(names):
            any_connector.hung, any_connector.sick = False, None

    def do_sicken(self, report: Any) -> None:
        """Its tasks fail: now, and `after` every start."""
        inputs = only("sicken", report, "connector", "failure", "after")
        for any_connector in self._named(inputs["connector"]):
            any_connector.sick = trace_of(inputs["failure"])
            any_connector.fails_after_s = seconds(inputs.get("after", "2s"))

    def do_restart_whenever_failed(self, report: Any) -> None:
        inputs = only("restart_whenever_failed", report, "connector", "after")
        for any_connector in self._named(inputs["connector"]):
            any_connector.restarted_every_s = seconds(inputs["after"])

    def do_rebalance(self, report: Any) -> None:
        inputs = only("rebalance", report, "cluster", "for")
        cluster = self.sites[inputs["cluster"]]
        cluster.generation += 1
        for any_connector in cluster.connectors.values():
            any_connector.leave(self.now, seconds(inputs["for"]))

    def do_rewind(self, report: Any) -> None:
        """A fenced task commits after the one that took over: offsets of a moment ago."""
        inputs = only("rewind", report, "connectors", "by")
        for item in self._named(inputs["connectors"]):
            if isinstance(item, Source) and item.committed is not None:
                item.commit(max(0, item.committed - inputs["by"]), self.now)
                item.started(self.now)
            elif isinstance(item, Mirror):
                for partition, offset in tuple(item.committed.items()):
                    item.commit(partition, max(0, offset - inputs["by"]), self.now)
                item.started(self.now)

    def do_sink_commits_nothing(self, names: Any) -> None:
        """It runs and its consumer has left the group."""
        self.do_hang(names)

    # --- verbs: offsets --------------------------------------------------------------------------

    def do_patch(self, report: Any) -> None:
        """A person alters the offset of a stopped connector."""
        inputs = only("patch", report, "connector", "partition", "offset")
        (mirror,) = self._named(inputs["connector"])
        assert isinstance(mirror, Mirror)
        mirror.commit(_parse_partition(inputs["partition"]), inputs["offset"], self.now)

    def do_set(self, report: Any) -> None:
        """A person alters the offset of a stopped source connector."""
        inputs = only("set", report, "connector", "offset")
        (source,) = self._named(inputs["connector"])
        assert isinstance(source, Source)
        source.commit(inputs["offset"], self.now)

    def do_forget_offsets(self, names: Any) -> None:
        """Tombstones, as of a reset; whoever runs does not look before it is restarted."""
        for item in self._named(names):
            if isinstance(item, Mirror):
                for partition in tuple(item.committed):
                    item.commit(partition, None, self.now)
                item.done = {} if item.state == "STOPPED" else item.done
            elif isinstance(item, Source):
                self._forget(item)

    def do_wipe(self, topic: str) -> None:
        """One of Connect's or MM2's own topics is deleted and made anew, empty."""
        kafka, _, name = topic.partition("/")
        self.kafkas[kafka].internal[name].wipe()

    def do_commit(self, report: Any) -> None:
        """A record that is written past Connect, with a key of somebody's own spelling."""
        inputs = only("commit", report, "cluster", "connector", "key", "offset")
        cluster = self.sites[inputs.get("cluster", "lab")]
        topic = cluster.offsets_topic(inputs["connector"])
        offset = inputs["offset"]
        value = None if offset is None else json.dumps(offset).encode()
        topic.write(inputs["key"].encode(), value, self.now)

    def do_policy(self, report: Any) -> None:
        """cleanup.policy of one of Connect's own topics."""
        self.policies |= report

    def do_reroute(self, report: Any) -> None:
        """A person changes the transforms of mirrors, which restarts them."""
        inputs = only("reroute", report, "connector", "routes")
        for mirror in self._named(inputs["connector"]):
            assert isinstance(mirror, Mirror)
            mirror.flush(self.now)
            mirror.routes = routes_of("reroute.routes", inputs["routes"])
            mirror.restart(self.now)

    def do_use_own_topic(self, report: Any) -> None:
        """Its configuration names an offsets topic of its own; it is restarted, and finds in there
        what there is: nothing.
        """
        inputs = only("use_own_topic", report, "connector", "topic")
        (item,) = self._named(inputs["connector"])
        item.site.east.internal.setdefault(inputs["topic"], Internal(inputs["topic"]))
        item.flush(self.now)
        item.own_topic = inputs["topic"]
        if isinstance(item, Source):
            item.at = item.committed = item.stored()
        item.restart(self.now)

    def do_copy_offsets(self, report: Any) -> None:
        """A person copies a connector's offsets from the cluster's topic into its own."""
        inputs = only("copy_offsets", report, "connector")
        (any_connector,) = self._named(inputs["connector"])
        for record in any_connector.site.east.internal[any_connector.site.offsets].records:
            key, value = record.key(), record.value()
            assert isinstance(key, bytes)
            if json.loads(key)[0] == any_connector.name:
                any_connector.site.offsets_topic(any_connector.name).write(key, value, self.now)  # type: ignore[arg-type]

    def do_begin_transaction(self, topic: str) -> None:
        """On one of Connect's own topics; nobody ends it."""
        kafka, _, name = topic.partition("/")
        internal = self.kafkas[kafka].internal[name]
        internal.held = len(internal.records)

    def do_end_transaction(self, topic: str) -> None:
        kafka, _, name = topic.partition("/")
        self.kafkas[kafka].internal[name].held = None

    # --- verbs: topics ---------------------------------------------------------------------------

    def do_load(self, report: Any) -> None:
        for name, load in report.items():
            self._data(name).load = load_of(f"load.{name}", load)

    def do_produce(self, report: Any) -> None:
        for name, records in report.items():
            for log in self._data(name).logs:
                log.append(records, self.now)

    def do_purge(self, report: Any) -> None:
        """Retention, or a person, deletes all records but the newest `keep`."""
        inputs = only("purge", report, "topic", "keep")
        for log in self._data(inputs["topic"]).logs:
            log.purge(log.end - inputs["keep"])

    def do_compact(self, name: str) -> None:
        for log in self._data(name).logs:
            log.compact(log.end)

    def do_keeps(self, report: Any) -> None:
        for name, keeps in report.items():
            self._data(name).keep_s = seconds(keeps)

    def do_recreate(self, report: Any) -> None:
        inputs = only("recreate", report, "topic", "records")
        kafka, _, name = inputs["topic"].partition("/")
        old = self.kafkas[kafka].data[name]
        topic = Topic(logs=[Log() for _ in old.logs], load=old.load)
        for log in topic.logs:
            log.append(inputs["records"], self.now)
        self.kafkas[kafka].data[name] = topic

    def do_add_partitions(self, report: Any) -> None:
        for name, partitions in report.items():
            logs = self._data(name).logs
            logs.extend(Log() for _ in range(partitions - len(logs)))

    def do_create_topic(self, report: Any) -> None:
        """Create topics; as Kafka does, refuse one that exists."""
        for name, more in report.items():
            kafka, _, topic = name.partition("/")
            if topic not in self.kafkas[kafka].data:
                self._topic(name, more)

    # --- verbs: databases ------------------------------------------------------------------------

    def do_freeze(self, names: Any) -> None:
        """A database sends nothing more, and its connections stay open."""
        for name in several(names):
            self.databases[name].frozen = True

    def do_thaw(self, names: Any) -> None:
        for name in several(names):
            self.databases[name].frozen = False

    def do_database_down(self, name: str) -> None:
        self.databases[name].down = True

    def do_database_up(self, name: str) -> None:
        self.databases[name].down = False

    def do_drop_slot(self, name: str) -> None:
        self.databases[name].has_slot = False

    def do_wal_status(self, report: Any) -> None:
        """PostgreSQL says this of the WAL of a slot."""
        inputs = only("wal_status", report, "database", "is")
        self.databases[inputs["database"]].wal_status = inputs["is"]

    def do_replace_database(self, name: str) -> None:
        """Another server answers at its address."""
        self.databases[name].system_id = "2"

    def do_disconnect(self, names: Any) -> None:
        """Connectors of Debezium run on, and are not connected."""
        for connector in self._named(names):
            assert isinstance(connector, Debezium)
            connector.disconnected = True

    def do_connect(self, names: Any) -> None:
        for connector in self._named(names):
            assert isinstance(connector, Debezium)
            connector.disconnected = False

    # --- verbs: ourselves ------------------------------------------------------------------------

    def do_lose_sight(self, name: str) -> None:
        """A Kafka cluster, or the REST API of a Connect cluster, does not answer us."""
        if name in self.sites:
            self.sites[name].proxy.down = partial(httpx.ConnectError, "connection refused")
        if name in self.kafkas:
            self.kafkas[name].down = TargetUnreachable(name, "no route to host")
        if name in self.databases:
            self.databases[name].hidden = True

    def do_see_again(self, name: str) -> None:
        if name in self.sites:
            self.sites[name].proxy.down = None
        if name in self.kafkas:
            self.kafkas[name].down = None
        if name in self.databases:
            self.databases[name].hidden = False

    def do_restart_daemon(self, report: Any) -> None:
        inputs = only("restart_daemon", report, "down_for", "excludes")
        self.down_until = self.now + seconds(inputs["down_for"])
        for cluster, names in inputs.get("excludes", {}).items():
            self.clusters[cluster] = {**self.clusters[cluster], "excludes": names}

    # --- truth -----------------------------------------------------------------------------------

    def existing(self) -> frozenset[tuple[str, str]]:
        """Return the connectors that there are: (Connect cluster, name)."""
        return frozenset(
            (cluster.name, name) for cluster in self.sites.values() for name in cluster.connectors
        )

    # --- details ---------------------------------------------------------------------------------

    def _find_connect(self, name: str) -> tuple[ScenarioConnect, str]:
        cluster, _, rest = name.partition("/")
        return (self.sites[cluster], rest) if cluster in self.sites else (self.sites["lab"], name)

    def _named(self, names: Any) -> list[Connector]:
        results = []
        for name in several(names):
            cluster, bare = self._find_connect(name)
            if bare not in cluster.connectors:
                raise ScriptError(f"there is no connector {name} at {self.now - BEGINNING:.0f} s")
            results.append(cluster.connectors[bare])
        return results

    def _data(self, name: str) -> Topic:
        kafka, _, topic = name.partition("/")
        return self.kafkas[kafka].data[topic]

    def _forget(self, source: Source) -> None:
        source.committed = None
        source.site.write_offset(source.name, source.key, None, self.now)
        if source.state == "STOPPED":
            source.at = None


def _class_of(partition: dict[str, Any]) -> str:
    """The class whose source partitions look so."""
    return {
        "filename": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "table": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "server": "io.debezium.connector.postgresql.PostgresConnector",
    }.get(max(partition), "org.example.Source")


def _parse_partition(text: str) -> TopicPartition:
    topic, _, partition = text.rpartition("-")
    return TopicPartition(topic, int(partition))
