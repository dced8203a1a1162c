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
from tests.scenarios.connect import Connector, Sink, Site, Source
from tests.scenarios.hostile import HostileVerbs
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

WORDS = ("about", "lasts", "tick", "clusters", "topics", "connectors", "groups", "happens")


class World(HostileVerbs):
    """See the module. `step` lets time pass; `now` is Unix seconds."""

    def __init__(self, told: Any) -> None:
        told = only("world.yaml", told, *WORDS)
        self.lasts_s = seconds(told["lasts"])
        self.tick_s = seconds(os.environ.get("SCENARIO_TICK", told.get("tick", "5s")))
        self.now = BEGINNING
        self.kafkas = {name: Cluster(name) for name in ("east", "west")}
        east, west = self.kafkas["east"], self.kafkas["west"]
        self.clusters: dict[str, dict[str, Any]] = told.get("clusters", {"lab": {}})
        self.sites: dict[str, Site] = {}
        for name, more in self.clusters.items():
            given = only(f"clusters.{name}", more, "offsets", "excludes", "rest_only", "discovers")
            offsets = given.get(
                "offsets", "connect-offsets" if name == "lab" else f"{name}-offsets"
            )
            self.sites[name] = Site(name, east, offsets=offsets)
            east.internal.setdefault(offsets, Internal(offsets))
            east.internal[f"{name}-status"] = Internal(f"{name}-status")
        west.internal["mm2-offset-syncs.east.internal"] = Internal("mm2-offset-syncs.east.internal")
        self.policies: dict[str, str] = {}
        self.strangers: dict[str, Site] = {}
        self.down_until: float | None = None
        self.beating: dict[str, tuple[dict[TopicPartition, float], list[str], float]] = {}
        for name, more in told.get("topics", {}).items():
            self._topic(name, more)
        for name, more in told.get("groups", {}).items():
            given = only(f"groups.{name}", more, "reads", "speed")
            self.beating[name] = ({}, several(given["reads"]), rate(given.get("speed", "1000/s")))
        for name, more in told.get("connectors", {}).items():
            self.connector(name, more)
        self.events = sorted(
            (self._event(number, event) for number, event in enumerate(told.get("happens", []))),
            key=lambda at: at[0],
        )

    # --- what there is ---------------------------------------------------------------------------

    def _topic(self, name: str, told: Any) -> None:
        given = only(
            f"topics.{name}", told, "partitions", "load", "keeps", "segments", "transactions", "had"
        )
        kafka, _, topic = name.partition("/")
        made = Topic(
            logs=[Log() for _ in range(given.get("partitions", 1))],
            load=load_of(f"topics.{name}.load", given.get("load", [])),
            keep_s=seconds(given["keeps"]) if "keeps" in given else None,
            segment_s=seconds(given.get("segments", "10m")),
            transactional=given.get("transactions", False),
        )
        for log in made.logs:
            log.append(given.get("had", 0), BEGINNING)
        self.kafkas[kafka].data[topic] = made

    def connector(self, name: str, told: Any) -> None:
        site, name = self._site(name)
        kinds: dict[str, Callable[..., Connector]] = {
            "copies": self._mirror,
            "checkpoints": self._checkpoints,
            "reads": self._source,
            "writes": self._sink,
        }
        for word, make in kinds.items():
            if isinstance(told, dict) and word in told:
                more = {key: told[key] for key in ("tasks",) if key in told}
                rest = {key: told[key] for key in told if key != "tasks"}
                made = make(site, name, rest)
                made.tasks_max = more.get("tasks", made.tasks_max)
                site.connectors[name] = made
                made.create(self.now)
                return
        raise ScriptError(f"connectors.{name}: say what it copies, checkpoints, reads or writes")

    def _mirror(self, site: Site, name: str, told: Any) -> Mirror:
        given = only(f"connectors.{name}", told, "copies", "speed", "as", "refreshes", "routes")
        source, _, target = given.get("as", "west->east").partition("->")
        made = Mirror(
            name,
            site,
            west=self.kafkas["west"],
            topics=several(given["copies"]),
            source=source,
            target=target,
            speed=rate(given.get("speed", "1000/s")),
            refreshes=given.get("refreshes", True),
            routes=routes_of(f"connectors.{name}.routes", given.get("routes", [])),
        )
        self.kafkas["west"].internal.setdefault(made.syncs, Internal(made.syncs))
        return made

    def _checkpoints(self, site: Site, name: str, told: Any) -> Checkpoints:
        given = only(f"connectors.{name}", told, "checkpoints", "groups")
        of = site.connectors[given["checkpoints"]]
        assert isinstance(of, Mirror)
        made = Checkpoints(name, site, of=of, groups=several(given["groups"]))
        site.east.internal.setdefault(made.topic, Internal(made.topic))
        return made

    def _source(self, site: Site, name: str, told: Any) -> Source:
        given = only(
            f"connectors.{name}",
            told,
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
            site,
            partition=given["reads"],
            fields=given.get("fields", {}),
            counts=given.get("counts", "position"),
            step=given.get("step", 1),
            every_s=seconds(given.get("every", "10s")),
            active=active_of(f"connectors.{name}.active", given.get("active")),
            repeats=given.get("repeats", False),
            keys=given.get("keys", "hash"),
            texts=given.get("texts", False),
            flush_s=seconds(given.get("flush", "60s")),
            class_name=given.get("class", _class_of(given["reads"])),
        )

    def _sink(self, site: Site, name: str, told: Any) -> Sink:
        given = only(f"connectors.{name}", told, "writes", "speed", "commits")
        return Sink(
            name,
            site,
            topics=several(given["writes"]),
            speed=rate(given.get("speed", "1000/s")),
            commits=given.get("commits", True),
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
        for name, (owed, topics, speed) in self.beating.items():
            self._consume(name, owed, topics, speed)
        for site in (*self.sites.values(), *self.strangers.values()):
            for connector in tuple(site.connectors.values()):
                connector.live(self.now, self.tick_s)

    def _consume(
        self, group: str, at: dict[TopicPartition, float], topics: list[str], speed: float
    ) -> None:
        west = self.kafkas["west"]
        for place in partitions_of(west, topics):
            log = west.log(place)
            assert log is not None
            at[place] = min(log.end, max(log.start, at.get(place, 0.0)) + speed * self.tick_s)
            west.groups.setdefault(group, {})[place] = int(at[place])

    def _event(self, number: int, told: Any) -> tuple[float, Callable[[], None]]:
        if not isinstance(told, dict) or "at" not in told or len(told) != 2:
            raise ScriptError(f"happens[{number}]: a moment (at) and what happens then, got {told}")
        (verb,) = (word for word in told if word != "at")
        act = getattr(self, f"do_{verb}", None)
        if act is None:
            known = sorted(name[3:] for name in dir(self) if name.startswith("do_"))
            raise ScriptError(f"happens[{number}]: unknown verb {verb!r} (known: {known})")
        return (BEGINNING + seconds(told["at"]), partial(act, told[verb]))

    # --- verbs: connectors -----------------------------------------------------------------------

    def do_stop(self, names: Any) -> None:
        for at in self._named(names):
            at.stop(self.now)

    def do_pause(self, names: Any) -> None:
        for at in self._named(names):
            at.pause(self.now)

    def do_resume(self, names: Any) -> None:
        for at in self._named(names):
            at.resume(self.now)

    def do_restart(self, names: Any) -> None:
        for at in self._named(names):
            at.restart(self.now)

    def do_delete(self, names: Any) -> None:
        for at in self._named(names):
            at.delete(self.now)

    def do_create(self, told: Any) -> None:
        for name, more in told.items():
            self.connector(name, more)
            made = self._named(name)[0]
            # It finds what an earlier one of its name has left, and begins there.
            made.recall()
            made.started(self.now)

    def do_hang(self, names: Any) -> None:
        for at in self._named(names):
            at.hung = True

    def do_heal(self, names: Any) -> None:
        """Whatever is wrong with it is not any more; who restarts it is another matter."""
        for at in self._named(names):
            at.hung, at.sick = False, None

    def do_sicken(self, told: Any) -> None:
        """Its tasks fail: now, and `after` every start."""
        given = only("sicken", told, "connector", "failure", "after")
        for at in self._named(given["connector"]):
            at.sick = trace_of(given["failure"])
            at.fails_after_s = seconds(given.get("after", "2s"))

    def do_restart_whenever_failed(self, told: Any) -> None:
        given = only("restart_whenever_failed", told, "connector", "after")
        for at in self._named(given["connector"]):
            at.restarted_every_s = seconds(given["after"])

    def do_rebalance(self, told: Any) -> None:
        given = only("rebalance", told, "cluster", "for")
        site = self.sites[given["cluster"]]
        site.generation += 1
        for at in site.connectors.values():
            at.leave(self.now, seconds(given["for"]))

    def do_rewind(self, told: Any) -> None:
        """A fenced task commits after the one that took over: offsets of a moment ago."""
        given = only("rewind", told, "connectors", "by")
        for at in self._named(given["connectors"]):
            if isinstance(at, Source) and at.committed is not None:
                at.commit(max(0, at.committed - given["by"]), self.now)
                at.started(self.now)
            elif isinstance(at, Mirror):
                for place, offset in tuple(at.committed.items()):
                    at.commit(place, max(0, offset - given["by"]), self.now)
                at.started(self.now)

    def do_sink_commits_nothing(self, names: Any) -> None:
        """It runs and its consumer has left the group."""
        self.do_hang(names)

    # --- verbs: offsets --------------------------------------------------------------------------

    def do_patch(self, told: Any) -> None:
        """A person alters the offset of a stopped connector."""
        given = only("patch", told, "connector", "partition", "offset")
        (mirror,) = self._named(given["connector"])
        assert isinstance(mirror, Mirror)
        mirror.commit(_place(given["partition"]), given["offset"], self.now)

    def do_set(self, told: Any) -> None:
        """A person alters the offset of a stopped source connector."""
        given = only("set", told, "connector", "offset")
        (source,) = self._named(given["connector"])
        assert isinstance(source, Source)
        source.commit(given["offset"], self.now)

    def do_forget_offsets(self, names: Any) -> None:
        """Tombstones, as of a reset; whoever runs does not look before it is restarted."""
        for at in self._named(names):
            if isinstance(at, Mirror):
                for place in tuple(at.committed):
                    at.commit(place, None, self.now)
                at.done = {} if at.state == "STOPPED" else at.done
            elif isinstance(at, Source):
                self._forget(at)

    def do_wipe(self, topic: str) -> None:
        """One of Connect's or MM2's own topics is deleted and made anew, empty."""
        kafka, _, name = topic.partition("/")
        self.kafkas[kafka].internal[name].wipe()

    def do_commit(self, told: Any) -> None:
        """A record that is written past Connect, with a key of somebody's own spelling."""
        given = only("commit", told, "cluster", "connector", "key", "offset")
        site = self.sites[given.get("cluster", "lab")]
        topic = site.offsets_topic(given["connector"])
        offset = given["offset"]
        value = None if offset is None else json.dumps(offset).encode()
        topic.write(given["key"].encode(), value, self.now)

    def do_policy(self, told: Any) -> None:
        """cleanup.policy of one of Connect's own topics."""
        self.policies |= told

    def do_reroute(self, told: Any) -> None:
        """A person changes the transforms of mirrors, which restarts them."""
        given = only("reroute", told, "connector", "routes")
        for mirror in self._named(given["connector"]):
            assert isinstance(mirror, Mirror)
            mirror.flush(self.now)
            mirror.routes = routes_of("reroute.routes", given["routes"])
            mirror.restart(self.now)

    def do_use_own_topic(self, told: Any) -> None:
        """Its configuration names an offsets topic of its own; it is restarted, and finds in there
        what there is: nothing.
        """
        given = only("use_own_topic", told, "connector", "topic")
        (at,) = self._named(given["connector"])
        at.site.east.internal.setdefault(given["topic"], Internal(given["topic"]))
        at.flush(self.now)
        at.own_topic = given["topic"]
        if isinstance(at, Source):
            at.at = at.committed = at.stored()
        at.restart(self.now)

    def do_copy_offsets(self, told: Any) -> None:
        """A person copies a connector's offsets from the cluster's topic into its own."""
        given = only("copy_offsets", told, "connector")
        (at,) = self._named(given["connector"])
        for record in at.site.east.internal[at.site.offsets].records:
            key, value = record.key(), record.value()
            assert isinstance(key, bytes)
            if json.loads(key)[0] == at.name:
                at.site.offsets_topic(at.name).write(key, value, self.now)  # type: ignore[arg-type]

    def do_begin_transaction(self, topic: str) -> None:
        """On one of Connect's own topics; nobody ends it."""
        kafka, _, name = topic.partition("/")
        internal = self.kafkas[kafka].internal[name]
        internal.held = len(internal.records)

    def do_end_transaction(self, topic: str) -> None:
        kafka, _, name = topic.partition("/")
        self.kafkas[kafka].internal[name].held = None

    # --- verbs: topics ---------------------------------------------------------------------------

    def do_load(self, told: Any) -> None:
        for name, load in told.items():
            self._data(name).load = load_of(f"load.{name}", load)

    def do_produce(self, told: Any) -> None:
        for name, records in told.items():
            for log in self._data(name).logs:
                log.append(records, self.now)

    def do_purge(self, told: Any) -> None:
        """Retention, or a person, deletes all records but the newest `keep`."""
        given = only("purge", told, "topic", "keep")
        for log in self._data(given["topic"]).logs:
            log.purge(log.end - given["keep"])

    def do_compact(self, name: str) -> None:
        for log in self._data(name).logs:
            log.compact(log.end)

    def do_keeps(self, told: Any) -> None:
        for name, keeps in told.items():
            self._data(name).keep_s = seconds(keeps)

    def do_recreate(self, told: Any) -> None:
        given = only("recreate", told, "topic", "records")
        kafka, _, name = given["topic"].partition("/")
        old = self.kafkas[kafka].data[name]
        made = Topic(logs=[Log() for _ in old.logs], load=old.load)
        for log in made.logs:
            log.append(given["records"], self.now)
        self.kafkas[kafka].data[name] = made

    def do_add_partitions(self, told: Any) -> None:
        for name, partitions in told.items():
            logs = self._data(name).logs
            logs.extend(Log() for _ in range(partitions - len(logs)))

    def do_create_topic(self, told: Any) -> None:
        """Create topics; as Kafka does, refuse one that exists."""
        for name, more in told.items():
            kafka, _, topic = name.partition("/")
            if topic not in self.kafkas[kafka].data:
                self._topic(name, more)

    # --- verbs: ourselves ------------------------------------------------------------------------

    def do_lose_sight(self, name: str) -> None:
        """A Kafka cluster, or the REST API of a Connect cluster, does not answer us."""
        if name in self.sites:
            self.sites[name].proxy.down = partial(httpx.ConnectError, "connection refused")
        if name in self.kafkas:
            self.kafkas[name].down = TargetUnreachable(name, "no route to host")

    def do_see_again(self, name: str) -> None:
        if name in self.sites:
            self.sites[name].proxy.down = None
        if name in self.kafkas:
            self.kafkas[name].down = None

    def do_restart_daemon(self, told: Any) -> None:
        given = only("restart_daemon", told, "down_for", "excludes")
        self.down_until = self.now + seconds(given["down_for"])
        for cluster, names in given.get("excludes", {}).items():
            self.clusters[cluster] = {**self.clusters[cluster], "excludes": names}

    # --- truth -----------------------------------------------------------------------------------

    def existing(self) -> frozenset[tuple[str, str]]:
        """Return the connectors that there are: (Connect cluster, name)."""
        return frozenset(
            (site.name, name) for site in self.sites.values() for name in site.connectors
        )

    # --- details ---------------------------------------------------------------------------------

    def _site(self, name: str) -> tuple[Site, str]:
        cluster, _, rest = name.partition("/")
        return (self.sites[cluster], rest) if cluster in self.sites else (self.sites["lab"], name)

    def _named(self, names: Any) -> list[Connector]:
        found = []
        for name in several(names):
            site, bare = self._site(name)
            if bare not in site.connectors:
                raise ScriptError(f"there is no connector {name} at {self.now - BEGINNING:.0f} s")
            found.append(site.connectors[bare])
        return found

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


def _place(text: str) -> TopicPartition:
    topic, _, partition = text.rpartition("-")
    return TopicPartition(topic, int(partition))
