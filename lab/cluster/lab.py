"""
The lab: two brokers, Connect workers and MirrorMaker on this machine, as one object.

It puts the parts in order and nothing more: what a process is stands in child.py, what it is told
in properties_files.py and connector_configs.py.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Self, TypeVar

from lab.cluster import connector_configs, properties_files
from lab.cluster.build import BROKERS, DEDICATED_MM2, OTHER, WORKERS, Builder
from lab.cluster.connect_client import ConnectApi
from lab.cluster.connector_actions import SETTLE_S_MAX, ConnectorVerbs
from lab.cluster.kafka_client import Cluster
from lab.cluster.options import LabOptions, Ports
from lab.cluster.plugins import plugins
from lab.cluster.secured import MECHANISM, USER, Security
from lab.cluster.standalone_worker import STANDALONE, Solo
from lab.databases.mariadb import MariadbServer
from lab.databases.postgresql import PostgresqlServer
from lab.databases.server import DatabaseServer
from lab.errors import LabError
from lab.processes.child import Child
from lab.processes.jars import cache_directory, jars
from lab.processes.ports import LOOPBACK, PortLease
from lab.waiting import until

ClusterName = Literal["east", "west"]
T = TypeVar("T")
D = TypeVar("D", bound=DatabaseServer)

START_S_MAX = 180.0

WEST_TOPICS: Mapping[str, int] = {"orders": 3, "payments": 2}
# A group on west that has read nothing: without one the checkpoint connector has no task.
WEST_GROUP = "billing"


class Lab(ConnectorVerbs):
    """
    A running test bed. Use it as a context manager, or call start() and stop().

    Inside are brokers `east` and `west`, one or two Connect workers on east (`connect-1`,
    `connect-2`), and on request a MirrorMaker process `mm2`, a second Connect cluster of one
    worker, `other`, which begins empty, and a standalone worker, `standalone`, whose connectors
    `solo-source` and `solo-sink` carry lines from file to file (`solo`); and database servers,
    `postgres` and `mariadb`. Unless told otherwise start() also creates these connectors and
    returns when all run:

    * `file-source`  lines of `lines_path` to topic `lines` on east
    * `file-sink`    topic `lines` to `sink_path`
    * `mm2-source`, `mm2-checkpoint`, `mm2-heartbeat`  west to east, topics orders.* and payments.*
    * `postgres-shop`, `mariadb-shop`  with a database: its table `orders` to topics on east

    West starts with topics `orders` (3 partitions) and `payments` (2), and a group `billing` that
    has committed offset 0 of each partition of `orders`.

    Every wait has a deadline and ends in a LabError that tells what was seen last. Everything
    listens on loopback only. No process outlives the Python process, however that one ends.
    Not for use from several threads at once.
    """

    def __init__(self, options: LabOptions | None = None) -> None:
        self.options = options if options is not None else LabOptions()
        self.started_in_s = 0.0
        """How long the last start() took."""
        self._temporary = self.options.directory is None
        self._directory = self.options.directory
        self._lease: PortLease | None = None
        self._children: dict[str, Child] = {}
        self._clusters: dict[str, Cluster] = {}
        self._connect: ConnectApi | None = None
        self._security: Security | None = None
        self._databases: tuple[DatabaseServer, ...] = ()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    # ---- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """
        Start everything and return when it serves; on failure stop everything and raise.

        After a failed start the working directory stays, temporary or not, for its logs; after an
        interrupted one it goes, as at stop().
        """
        if self._lease is not None:
            raise LabError("the lab is started already")
        began = time.monotonic()
        _record_start(self.options)
        try:
            self._prepare()
            self._start_processes()
            if self.options.connectors:
                self._create_connectors()
        except Exception:
            self._stop_processes()
            raise
        except BaseException:
            self.stop()
            raise
        self.started_in_s = time.monotonic() - began

    def stop(self) -> None:
        """End every process and remove a temporary directory; harmless when not started."""
        self._stop_processes()
        if self._temporary and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    # ---- where things are ---------------------------------------------------------------------

    @property
    def east(self) -> str:
        """Bootstrap servers of the downstream cluster, which also holds Connect's topics."""
        return self._cluster("east").bootstrap

    @property
    def west(self) -> str:
        """Bootstrap servers of the upstream cluster."""
        return self._cluster("west").bootstrap

    @property
    def connect_urls(self) -> tuple[str, ...]:
        """REST addresses of the workers that start() starts, first connect-1."""
        return tuple(self._worker_url(name) for name in self._workers())

    @property
    def other_url(self) -> str:
        """REST address of the second Connect cluster; drive it with a ConnectApi of its own."""
        return f"http://{LOOPBACK}:{self._started().ports.other}"

    @property
    def solo(self) -> Solo:
        """Where the standalone worker has what."""
        return Solo(self.directory, self._started().ports.standalone)

    @property
    def secured_connect_urls(self) -> tuple[str, ...]:
        """The same workers over https; they want a client certificate and the password."""
        ports = self._started().ports
        numbers = (ports.connect_1_secured, ports.connect_2_secured)[: self.options.workers]
        return tuple(f"https://{LOOPBACK}:{port}" for port in numbers)

    def secured_properties(
        self, cluster: ClusterName, mechanism: str = MECHANISM
    ) -> dict[str, str]:
        """Settings for librdkafka on a secured listener, bootstrap.servers among them."""
        ports = self._started().ports
        port = ports.east_secured if cluster == "east" else ports.west_secured
        return self.security.client_properties(port, mechanism)

    @property
    def security(self) -> Security:
        """Certificates and the password of a secured lab."""
        if self._security is None:
            raise LabError("the lab is not started, or not secured")
        return self._security

    @property
    def postgres(self) -> PostgresqlServer:
        """The PostgreSQL server of a lab that has one."""
        return self._database(PostgresqlServer)

    @property
    def mariadb(self) -> MariadbServer:
        """The MariaDB server of a lab that has one."""
        return self._database(MariadbServer)

    @property
    def databases(self) -> tuple[DatabaseServer, ...]:
        """All database servers."""
        return self._databases

    @property
    def directory(self) -> Path:
        """The working directory: data, properties, logs, and the files of the connectors."""
        if self._directory is None:
            raise LabError("the lab is not started")
        return self._directory

    @property
    def lines_path(self) -> Path:
        """The file `file-source` reads."""
        return self.directory / "lines.in"

    @property
    def sink_path(self) -> Path:
        """The file `file-sink` writes."""
        return self.directory / "lines.out"

    @property
    def pids(self) -> dict[str, int]:
        """The running processes by name; an ended one is absent."""
        result = ((name, child.pid) for name, child in self._children.items())
        return {name: pid for name, pid in result if pid is not None}

    def log_path(self, name: str) -> Path:
        """The log file of a process; restarts append to it."""
        return self._child(name).log

    # ---- processes ----------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        """End one process as a crash would (SIGKILL); returns when it is gone."""
        self._child(name).kill()

    def terminate(self, name: str) -> None:
        """End one process in an orderly way (SIGTERM); returns when it is gone."""
        self._child(name).terminate()

    def start_process(self, name: str) -> None:
        """
        Start an ended process again, on its old data and port, and wait until it serves.

        A broker serves when it answers, a worker when it calls itself healthy (its connectors may
        still be on their way: wait_running). Of `mm2`, which has no REST, is only known that it
        runs and that `w2.ledger` exists: after a restart, await what you need to see.
        """
        self._child(name).start()
        self._await_process(name)

    # ---- data ---------------------------------------------------------------------------------

    def append_lines(self, n: int) -> None:
        """Append n lines to the file `file-source` reads."""
        with self.lines_path.open("a") as handle:
            handle.writelines(f"line {time.time_ns()} {index}\n" for index in range(n))

    def create_topic(
        self,
        cluster: ClusterName,
        topic: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic and wait until it is served. Brokers create none by themselves."""
        self._cluster(cluster).create_topic(topic, partitions, config or {})
        self._await(f"topic {topic}", lambda: self._cluster(cluster).check_topic(topic))

    def produce(
        self, cluster: ClusterName, topic: str, n: int, partitions: Sequence[int] | None = None
    ) -> None:
        """Write n records, in turn to the given partitions (all by default), and await each ack."""
        self._cluster(cluster).produce(topic, n, partitions)

    def commit(
        self, cluster: ClusterName, group: str, topic: str, offsets: Mapping[int, int]
    ) -> None:
        """Set a group's committed offsets {partition: next}, making the group if need be."""
        self._await(
            f"commit of {group}", lambda: self._cluster(cluster).commit(group, topic, offsets)
        )

    # ---- start, in order ----------------------------------------------------------------------

    def _prepare(self) -> None:
        classpath = jars(self.options.kafka_version)
        self._lease = PortLease(self.options.ports, locks=cache_directory() / "ports")
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="offsetwatch-lab-"))
        self._directory = self._directory.resolve()
        self._directory.mkdir(parents=True, exist_ok=True)
        ports = self._lease.ports
        self._clusters = {
            "east": Cluster("east", f"{LOOPBACK}:{ports.east}"),
            "west": Cluster("west", f"{LOOPBACK}:{ports.west}"),
        }
        self._security = Security(self._directory) if self.options.secured else None
        auth = None if self._security is None else (USER, self._security.password)
        self._connect = ConnectApi(self.connect_urls, auth)
        self.lines_path.touch()
        self.solo.lines.touch()
        self._databases = self._find_databases(self._directory, ports)
        self._children = Builder(
            self.options,
            ports,
            directory=self._directory,
            classpath=classpath,
            security=self._security,
            plugins=plugins(classpath) if self.options.plugins else None,
            databases=self._databases,
        ).children()

    def _start_processes(self) -> None:
        workers = self._workers()
        for name in (*BROKERS, *(database.name for database in self._databases)):
            self._child(name).start()
        # East first: a worker is the slowest to start and needs nothing else.
        self._await_process("east")
        if self.options.second_cluster:
            workers = (*workers, OTHER)
        if self.options.standalone:
            workers = (*workers, STANDALONE)
        for name in workers:
            self._child(name).start()
        self._await_process("west")
        self._furnish()
        for database in self._databases:
            self._await_process(database.name)
            database.prepare()
        if self.options.dedicated_mm2:
            self._child(DEDICATED_MM2).start()
        for name in workers:
            self._await_process(name)
        if self.options.dedicated_mm2:
            self._await_process(DEDICATED_MM2)

    def _furnish(self) -> None:
        """Topics and a group, before the connectors: those look again only after an interval."""
        for topic, partitions in WEST_TOPICS.items():
            self._ensure_topic("west", topic, partitions)
        self._ensure_topic("east", connector_configs.LINES_TOPIC, 1)
        if self.options.standalone:
            self._ensure_topic("east", connector_configs.SOLO_TOPIC, 1)
        if self.options.dedicated_mm2:
            self._ensure_topic("west", properties_files.DEDICATED_TOPIC, 1)
        if WEST_GROUP not in self._cluster("west").groups():
            self.commit(
                "west", WEST_GROUP, "orders", dict.fromkeys(range(WEST_TOPICS["orders"]), 0)
            )

    def _ensure_topic(self, cluster: ClusterName, topic: str, partitions: int) -> None:
        if self._cluster(cluster).partitions(topic) == 0:
            self.create_topic(cluster, topic, partitions)

    def _create_connectors(self) -> None:
        expected = connector_configs.standard(
            lines=self.lines_path, sink=self.sink_path, upstream=self.west, downstream=self.east
        )
        for database in self._databases:
            match database:
                case PostgresqlServer():
                    config = connector_configs.debezium_postgresql(database)
                    expected[connector_configs.POSTGRES_SHOP] = config
                case MariadbServer():
                    config = connector_configs.debezium_mariadb(database, bootstrap=self.east)
                    expected[connector_configs.MARIADB_SHOP] = config
        for name, config in expected.items():
            self.create(name, config)
        for name in expected:
            self.wait_running(name)

    def _stop_processes(self) -> None:
        """Those who need the others first, each tier at once; then forget what was started."""
        servers = (*BROKERS, *(database.name for database in self._databases))
        for tier in ((*WORKERS, OTHER, STANDALONE, DEDICATED_MM2), servers):
            ending = [self._children[name] for name in tier if name in self._children]
            for child in ending:
                child.request_end()
            for child in ending:
                child.terminate()
        self._children = {}
        self._clusters = {}
        self._databases = ()
        if self._connect is not None:
            self._connect.close()
            self._connect = None
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    # ---- small help ---------------------------------------------------------------------------

    def _await_process(self, name: str) -> None:
        child = self._child(name)
        databases = {database.name: database for database in self._databases}

        def serves() -> None:
            if not child.running:
                raise LabError(f"{name} ended while starting\n{child.tail()}")
            if name in BROKERS:
                self._cluster(name).check_ready()
            elif name in databases:
                databases[name].check_ready()
            elif name == DEDICATED_MM2:
                remote = f"{properties_files.DEDICATED_UPSTREAM}.{properties_files.DEDICATED_TOPIC}"
                self._cluster("east").check_topic(remote)
            else:
                self._api().check_ready(self._url(name))

        until(f"{name} serving", serves, timeout_s=START_S_MAX, evidence=child.tail)

    def _find_databases(self, directory: Path, ports: Ports) -> tuple[DatabaseServer, ...]:
        servers: list[DatabaseServer] = []
        if self.options.postgres:
            servers.append(PostgresqlServer(directory, ports.postgres))
        if self.options.mariadb:
            servers.append(MariadbServer(directory, ports.mariadb))
        return tuple(servers)

    def _database(self, kind: type[D]) -> D:
        for database in self._databases:
            if isinstance(database, kind):
                return database
        raise LabError(f"the lab is not started, or has no {kind.name}")

    def _url(self, name: str) -> str:
        beside = {OTHER: self.other_url, STANDALONE: self.solo.url}
        return beside[name] if name in beside else self._worker_url(name)

    def _workers(self) -> tuple[str, ...]:
        names = WORKERS[: self.options.workers]
        return tuple(name for name in names if name not in self.options.on_demand)

    def _worker_url(self, name: str) -> str:
        ports = self._started().ports
        port = dict(zip(WORKERS, (ports.connect_1, ports.connect_2), strict=True))[name]
        return f"http://{LOOPBACK}:{port}"

    def _await(self, what: str, probe: Callable[[], T], *, timeout_s: float = SETTLE_S_MAX) -> T:
        workers = [child for name, child in self._children.items() if name in WORKERS]
        return until(
            what,
            probe,
            timeout_s=timeout_s,
            evidence=lambda: "\n".join(child.tail() for child in workers),
        )

    def _child(self, name: str) -> Child:
        try:
            return self._children[name]
        except KeyError:
            known = ", ".join(self._children) or "none, as the lab is not started"
            raise LabError(f"no process {name}; there is: {known}") from None

    def _cluster(self, name: str) -> Cluster:
        try:
            return self._clusters[name]
        except KeyError:
            known = ", ".join(self._clusters) or "none, as the lab is not started"
            raise LabError(f"no cluster {name}; there is: {known}") from None

    def _api(self) -> ConnectApi:
        if self._connect is None:
            raise LabError("the lab is not started")
        return self._connect

    def _started(self) -> PortLease:
        if self._lease is None:
            raise LabError("the lab is not started")
        return self._lease


def _record_start(options: LabOptions) -> None:
    """Append a line to the file that OFFSETWATCH_LAB_STARTS names, if it does: a run of the tests
    counts the labs that it and its child processes start.
    """
    if file := os.environ.get("OFFSETWATCH_LAB_STARTS"):
        with Path(file).open("a") as starts:
            starts.write(f"{options}\n")
