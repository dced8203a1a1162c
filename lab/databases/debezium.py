"""Debezium's connectors from Maven Central, each a plugin of its own that a worker loads apart."""

from pathlib import Path
from typing import Final

from lab.errors import LabError
from lab.processes.jars import cache_directory
from offsetwatch.errors import HistoryError
from offsetwatch.history.spark.jars import copy_dependencies, pom_hash, publish

_POMS: Final = {
    name: Path(__file__).with_name(f"debezium-{name}.xml")
    for name in ("postgres", "mariadb", "jdbc")
}


def plugin_path(name: str) -> Path:
    """Return the folder for `plugin.path` with one of `postgres`, `mariadb` and the sink `jdbc`."""
    pom = _POMS[name]
    folder = cache_directory() / pom.stem / pom_hash(pom)

    def fill(target: Path) -> None:
        plugin = target / pom.stem
        plugin.mkdir()
        copy_dependencies(pom, plugin, what=f"Debezium's connector for {name}")
        if not any(plugin.glob(f"debezium-connector-{name}-*.jar")):
            raise LabError(f"mvn succeeded but the connector for {name} is not in {plugin}")

    try:
        publish(folder, fill)
    except HistoryError as exc:
        raise LabError(str(exc)) from exc
    return folder
