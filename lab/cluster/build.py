"""From options and ports to processes that are ready to start: files written, storage formatted."""

import base64
import uuid
from collections.abc import Sequence
from pathlib import Path

from lab.cluster import connector_configs, properties_files
from lab.cluster.options import LabOptions, Ports
from lab.cluster.secured import Security
from lab.cluster.standalone_worker import STANDALONE, Solo
from lab.databases import jdbc_source
from lab.databases.debezium import plugin_path
from lab.databases.server import DatabaseServer
from lab.processes.child import Child
from lab.processes.java import java
from lab.processes.ports import LOOPBACK
from lab.registry import apicurio

BROKERS = ("east", "west")
WORKERS = ("connect-1", "connect-2")
DEDICATED_MM2 = "mm2"
OTHER = "other"

FORMAT_S_MAX = 60.0
# Enough for everything the lab does; a broker or worker is then some 220 MB resident.
BROKER_HEAP_MB = 256
CONNECT_HEAP_MB = 256
# Each of its connectors has queues of thousands of rows, and a producer.
DEBEZIUM_HEAP_MB = 512


class Builder:
    """Makes the processes of one lab; the names are those of Lab's public methods."""

    def __init__(
        self,
        options: LabOptions,
        ports: Ports,
        *,
        directory: Path,
        classpath: Path,
        security: Security | None = None,
        plugins: Path | None = None,
        databases: Sequence[DatabaseServer] = (),
    ) -> None:
        self._options = options
        self._ports = ports
        self._directory = directory
        self._classpath = classpath
        self._security = security
        self._plugins = plugins
        self._databases = databases

    def children(self) -> dict[str, Child]:
        """Every process of the lab, none started, brokers formatted."""
        east = self._broker("east", self._ports.east, self._ports.east_controller)
        west = self._broker("west", self._ports.west, self._ports.west_controller)
        built = [east, west]
        ports = (self._ports.connect_1, self._ports.connect_2)
        for name, port in list(zip(WORKERS, ports, strict=True))[: self._options.workers]:
            exactly_once = self._options.exactly_once
            built.append(self._worker(name, port, cluster="connect", exactly_once=exactly_once))
        if self._options.second_cluster:
            built.append(self._worker(OTHER, self._ports.other, cluster=OTHER, exactly_once=False))
        if self._options.standalone:
            built.append(self._standalone())
        if self._options.dedicated_mm2:
            built.append(self._mm2())
        built += (database.child() for database in self._databases)
        self._format()
        return {child.name: child for child in built}

    def _broker(self, name: str, port: int, controller_port: int) -> Child:
        properties = properties_files.broker(
            port=port, controller_port=controller_port, data=self._directory / f"{name}-data"
        )
        if self._options.authorizer:
            properties = {**properties, **properties_files.authorizer()}
        if (answer := self._options.ways.get(name)) is not None:
            properties = properties_files.add_listener(
                properties, "WAY", at=answer.at, towards=answer.towards
            )
        if self._security is not None:
            properties = self._security.broker(properties, getattr(self._ports, f"{name}_secured"))
        return self._child(name, "kafka.Kafka", properties, heap_mb=BROKER_HEAP_MB)

    def _worker(self, name: str, port: int, *, cluster: str, exactly_once: bool) -> Child:
        properties = properties_files.worker(
            cluster=cluster,
            bootstrap=f"{LOOPBACK}:{self._ports.east}",
            port=port,
            offset_flush_interval_ms=self._options.offset_flush_interval_ms,
            exactly_once=exactly_once,
        )
        names = [database.name for database in self._databases]
        if self._options.jdbc_sink:
            names.append("jdbc")
        folders = [plugin_path(each) for each in names]
        if self._options.jdbc_source:
            folders.append(jdbc_source.plugin_path(self._classpath))
        if self._options.registry_converters:
            folders.append(apicurio.plugin_path())
        if folders:
            properties = properties_files.with_plugins(properties, folders)
        flags: tuple[str, ...] = ()
        if self._security is not None:
            secured = f"{name.replace('-', '_')}_secured"
            properties = self._security.worker(properties, getattr(self._ports, secured))
            flags = (f"-Djava.security.auth.login.config={self._security.login_config}",)
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        heap_mb = DEBEZIUM_HEAP_MB if names else CONNECT_HEAP_MB
        return self._child(
            name, main, properties, heap_mb=heap_mb, flags=flags, classes=self._plugins
        )

    def _mm2(self) -> Child:
        properties = properties_files.dedicated_mm2(
            upstream=f"{LOOPBACK}:{self._ports.west}",
            downstream=f"{LOOPBACK}:{self._ports.east}",
            offset_flush_interval_ms=self._options.offset_flush_interval_ms,
            exactly_once=self._options.exactly_once,
        )
        main = "org.apache.kafka.connect.mirror.MirrorMaker"
        return self._child(DEDICATED_MM2, main, properties, heap_mb=CONNECT_HEAP_MB)

    def _standalone(self) -> Child:
        solo = Solo(self._directory, self._ports.standalone)
        properties = properties_files.standalone(
            bootstrap=f"{LOOPBACK}:{self._ports.east}",
            port=self._ports.standalone,
            offsets=solo.offsets,
            offset_flush_interval_ms=self._options.offset_flush_interval_ms,
        )
        files = []
        for name, config in connector_configs.solo(lines=solo.lines, sink=solo.sink).items():
            self._file(name).write_text(properties_files.render(config))
            files.append(str(self._file(name)))
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        return self._child(STANDALONE, main, properties, *files, heap_mb=CONNECT_HEAP_MB)

    def _child(
        self,
        name: str,
        main: str,
        properties: properties_files.Properties,
        *more: str,
        heap_mb: int,
        flags: tuple[str, ...] = (),
        classes: Path | None = None,
    ) -> Child:
        file = self._file(name)
        file.write_text(properties_files.render(properties))
        command = java(
            self._classpath,
            main,
            str(file),
            *more,
            heap_mb=heap_mb,
            flags=flags,
            classes=classes,
        )
        return Child(name, command, directory=self._directory)

    def _file(self, name: str) -> Path:
        return self._directory / f"{name}.properties"

    def _format(self) -> None:
        """Format both brokers' storage at once; each run is most of a second of JVM start."""
        running: list[Child] = []
        for name in BROKERS:
            if (self._directory / f"{name}-data" / "meta.properties").exists():
                # Data of an earlier lab in a directory that was given: go on with it.
                continue
            # Without the top bit the text begins with a letter; a "-" would be read as an option.
            number = uuid.uuid4().int >> 1
            cluster_id = base64.urlsafe_b64encode(number.to_bytes(16)).decode().rstrip("=")
            arguments = ["format", "--cluster-id", cluster_id, "--config", str(self._file(name))]
            if self._security is not None:
                arguments += ["--add-scram", self._security.scram()]
            main = "kafka.tools.StorageTool"
            command = java(self._classpath, main, *arguments, heap_mb=BROKER_HEAP_MB)
            child = Child(f"format-{name}", command, directory=self._directory)
            child.start()
            running.append(child)
        for child in running:
            child.expect_success(timeout_s=FORMAT_S_MAX)
