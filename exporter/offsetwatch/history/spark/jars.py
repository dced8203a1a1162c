"""Jars that Spark needs beside its own, resolved once from pom.xml and cached outside the tree."""

from __future__ import annotations

from pathlib import Path

from offsetwatch.errors import HistoryError
from offsetwatch.history.spark.downloads import (
    cache_directory,
    copy_dependencies,
    pom_hash,
    publish,
)

POM = Path(__file__).parents[1] / "pom.xml"
# The same list as in pom.xml; a folder without exactly one jar of each is no class path.
ARTIFACTS = (
    "spark-sql-kafka-0-10_2.13",
    "spark-token-provider-kafka-0-10_2.13",
    "kafka-clients",
    "commons-pool2",
    "delta-spark_4.2_2.13",
    "delta-storage",
)


def spark_jars() -> tuple[Path, ...]:
    """Return the six jars, which Maven resolves the first time; later they are in the cache."""
    folder = cache_directory() / folder_name()
    publish(folder, _fill)
    return _check_jars(folder)


def folder_name() -> str:
    """Return the name of the cache folder; every version of the pom has its own."""
    return f"spark-jars-{pom_hash(POM)}"


def _fill(folder: Path) -> None:
    copy_dependencies(POM, folder, what="Spark's connector jars")
    _check_jars(folder)


def _check_jars(folder: Path) -> tuple[Path, ...]:
    """Return one jar of each artifact. Raises HistoryError that names what the folder lacks."""
    found = {name: sorted(folder.glob(f"{name}-[0-9]*.jar")) for name in ARTIFACTS}
    wrong = [name for name, files in found.items() if len(files) != 1]
    if wrong:
        message = f"{folder} must hold exactly one jar of {', '.join(wrong)}; delete the folder"
        raise HistoryError(message)
    return tuple(files[0] for files in found.values())
