"""Apicurio Registry from Maven Central: a server that keeps schemas in a file, and its converters
as a plugin that a worker loads apart.
"""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Self

import httpx

from lab.errors import LabError
from lab.http import NO_AUTHORITIES
from lab.processes.child import Child
from lab.processes.jars import cache_directory
from lab.processes.java import tool
from lab.processes.ports import LOOPBACK, free_port
from lab.waiting import NotYet, until
from offsetwatch.errors import HistoryError
from offsetwatch.history.spark.jars import copy_dependencies, pom_hash, publish

AVRO_CONVERTER: Final = "io.apicurio.registry.utils.converter.AvroConverter"
JSON_CONVERTER: Final = "io.apicurio.registry.utils.converter.ExtJsonConverter"

START_S_MAX: Final = 180.0
ANSWER_S_MAX: Final = 30.0
HEAP_MB: Final = 192

_CONVERTERS: Final = Path(__file__).with_name("apicurio-converters.xml")
_SERVER: Final = Path(__file__).with_name("apicurio-server.xml")
_FLAGS: Final = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    f"-Dquarkus.http.host={LOOPBACK}",
)


class SchemaRegistry:
    """A registry on a port of its own, with which its schemas are kept until it starts again.

    A context manager; not for use from several threads at once.
    """

    def __init__(self, directory: Path) -> None:
        self._port = free_port()
        jar = _find_runner(server_folder())
        flags = (
            f"-Xmx{HEAP_MB}m",
            *_FLAGS,
            f"-Dquarkus.http.port={self._port}",
            f"-DREGISTRY_DATASOURCE_URL=jdbc:h2:file:{directory / 'registry'}",
        )
        self._child = Child(
            "registry", (tool("java"), *flags, "-jar", str(jar)), directory=directory
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Return the address for `apicurio.registry.url` of a converter."""
        return f"http://{LOOPBACK}:{self._port}/apis/registry/v2"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._child.start()
        until("the registry", self._check, timeout_s=START_S_MAX, evidence=self._child.tail)

    def stop(self) -> None:
        """End it: from now on connections are refused."""
        self._child.kill()

    def register(self, name: str, schema: str, kind: str = "AVRO") -> int:
        """Register a schema, and return the number by which records name it (`globalId`)."""
        headers = {"X-Registry-ArtifactId": name, "X-Registry-ArtifactType": kind}
        answer = httpx.post(
            f"{self.url}/groups/default/artifacts",
            content=schema,
            headers={**headers, "Content-Type": "application/json"},
            timeout=ANSWER_S_MAX,
            trust_env=False,
            verify=NO_AUTHORITIES,
        )
        if answer.status_code != httpx.codes.OK:
            raise LabError(f"registry: HTTP {answer.status_code} {answer.text[:500]}")
        return int(answer.json()["globalId"])

    def settings(self, converter: str) -> Mapping[str, str]:
        """Return what a connector is told, so that its values are converted with this registry."""
        return {"value.converter": converter, "value.converter.apicurio.registry.url": self.url}

    def _check(self) -> None:
        if not self._child.running:
            raise LabError(f"the registry ended while starting\n{self._child.tail()}")
        try:
            httpx.get(
                f"{self.url}/system/info",
                timeout=ANSWER_S_MAX,
                trust_env=False,
                verify=NO_AUTHORITIES,
            ).raise_for_status()
        except httpx.HTTPError as exc:
            raise NotYet(str(exc)) from exc


def plugin_path() -> Path:
    """Return the folder for `plugin.path` with the converters."""
    folder = cache_directory() / _CONVERTERS.stem / pom_hash(_CONVERTERS)

    def fill(target: Path) -> None:
        plugin = target / _CONVERTERS.stem
        plugin.mkdir()
        copy_dependencies(_CONVERTERS, plugin, what="Apicurio's converters")
        # A worker that looks for plugins by service files alone finds none in Apicurio's jars.
        with zipfile.ZipFile(plugin / "services.jar", "w") as services:
            names = f"{AVRO_CONVERTER}\n{JSON_CONVERTER}\n"
            services.writestr("META-INF/services/org.apache.kafka.connect.storage.Converter", names)

    _publish(folder, fill)
    return folder


def server_folder() -> Path:
    """Return the folder with the registry's server."""
    folder = cache_directory() / _SERVER.stem / pom_hash(_SERVER)

    def fill(target: Path) -> None:
        copy_dependencies(_SERVER, target, what="Apicurio Registry")
        (archive,) = target.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(target, filter="data")
        archive.unlink()
        _find_runner(target)

    _publish(folder, fill)
    return folder


def _publish(folder: Path, fill: Callable[[Path], None]) -> None:
    try:
        publish(folder, fill)
    except (HistoryError, OSError) as exc:
        raise LabError(str(exc)) from exc


def _find_runner(folder: Path) -> Path:
    try:
        (runner,) = folder.glob("*-runner.jar")
    except ValueError:
        raise LabError(f"there is no server of Apicurio Registry in {folder}") from None
    return runner
