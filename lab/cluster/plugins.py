"""
Connect plugins of the lab's own, for what none of Kafka's can be made to do: fail because something
else is away, or have source partitions in maps of any kind. Compiled once and kept beside the jars.
"""

import hashlib
import subprocess
from pathlib import Path

from lab.errors import LabError
from lab.processes.java import tool
from offsetwatch.errors import HistoryError
from offsetwatch.history.spark.jars import cache_directory, publish

DATABASE_SINK = "lab.DatabaseSink"
REGISTRY_CONVERTER = "lab.RegistryConverter"
MAP_SOURCE = "lab.MapSource"

COMPILE_S_MAX = 120.0
# By the interface under which a worker looks for them.
_SERVICES = {
    "org.apache.kafka.connect.sink.SinkConnector": DATABASE_SINK,
    "org.apache.kafka.connect.source.SourceConnector": MAP_SOURCE,
    "org.apache.kafka.connect.storage.Converter": REGISTRY_CONVERTER,
}


def plugins(jars: Path) -> Path:
    """The folder with the classes, to be put on the classpath of workers with these jars."""
    sources = [
        Path(__file__).with_name(f"{name.rpartition('.')[2]}.java") for name in _SERVICES.values()
    ]
    report = hashlib.sha256(str(jars).encode())
    for source in sources:
        report.update(source.read_bytes())
    folder = cache_directory() / "plugins" / report.hexdigest()[:12]

    def fill(target: Path) -> None:
        command = (tool("javac"), "-cp", f"{jars}/*", "-d", str(target), *map(str, sources))
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMPILE_S_MAX, check=False
        )
        if done.returncode != 0:
            raise LabError(f"javac could not compile the lab's plugins:\n{done.stderr[-4000:]}")
        services = target / "META-INF" / "services"
        services.mkdir(parents=True)
        for service, name in _SERVICES.items():
            (services / service).write_text(f"{name}\n")

    try:
        publish(folder, fill)
    except (HistoryError, OSError, subprocess.TimeoutExpired) as exc:
        raise LabError(f"the lab's plugins: {exc}") from exc
    return folder
