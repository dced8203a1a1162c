"""The Java classpath, resolved once per Kafka version and kept outside the tree."""

from pathlib import Path

from lab.errors import LabError
from offsetwatch.errors import HistoryError
from offsetwatch.history.spark.jars import (
    cache_directory,
    copy_dependencies,
    pom_hash,
    publish,
)

__all__ = ["POM", "cache_directory", "jars"]

POM = Path(__file__).with_name("pom.xml")
# Not every release published this extension to Maven Central; the one before it will do.
BASIC_AUTH_VERSIONS = {"3.9.2": "3.9.1"}


def jars(kafka_version: str) -> Path:
    """The folder with every jar of that Kafka version; a no-op when it is already there."""
    folder = cache_directory() / f"kafka-{kafka_version}" / pom_hash(POM)

    def fill(target: Path) -> None:
        basic_auth = BASIC_AUTH_VERSIONS.get(kafka_version, kafka_version)
        properties = {"kafka.version": kafka_version, "basic.auth.version": basic_auth}
        copy_dependencies(POM, target, what=f"Kafka {kafka_version}", properties=properties)
        if not (target / f"kafka-clients-{kafka_version}.jar").exists():
            raise LabError(
                f"mvn succeeded but kafka-clients-{kafka_version}.jar is not in {target}"
            )

    try:
        publish(folder, fill)
    except HistoryError as exc:
        raise LabError(str(exc)) from exc
    return folder
