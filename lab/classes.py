"""
Archives of classes: read, checked and laid out once, so that every later JVM maps them instead. A
third of what a lab costs to start is the loading of classes, and a fifth of a short run of Spark.

Called by `python -m lab classes`, which makes them, and by the tests, for their Spark; those of
Kafka are found by java.py. A JVM without one, or with one of another Java or class path, begins as
ever.
"""

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from exporter.history.spark.downloads import publish
from lab.errors import LabError
from lab.java import ARCHIVE, archive_folder, home, tool, version

SAID: Final = "said.log"
DUMP_S_MAX: Final = 300.0
# All that a JVM loads is beside one another in memory while it is laid out.
DUMP_HEAP: Final = "-Xmx1g"


def archive_of(jars: Path) -> Path:
    """Make the archive of these jars, unless it is there: its folder, with what Java said of it.
    Raises LabError where that takes too long.
    """
    folder = archive_folder(jars)
    try:
        publish(folder, lambda target: _dump(jars, target), lock="classes.lock")
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise LabError(f"the archive of {jars}: {exc}") from exc
    return folder


def spark_archive() -> Path:
    """Beside the Spark that it is of, whose jars Java knows by place, size and time."""
    return Path(sys.prefix) / "share" / "offsetwatch" / f"spark-{version()}.jsa"


def spark_options() -> str:
    """For SPARK_SUBMIT_OPTS; empty without an archive."""
    archive = spark_archive()
    return f"-XX:SharedArchiveFile={archive}" if archive.exists() else ""


@contextmanager
def training() -> Iterator[str]:
    """SPARK_SUBMIT_OPTS of one JVM that leaves, when it ends, an archive of all it has loaded. That
    has to be over when this is left.
    """
    archive = spark_archive()
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as directory:
        fresh = Path(directory) / archive.name
        yield f"-XX:ArchiveClassesAtExit={fresh}"
        if fresh.exists():
            fresh.rename(archive)


def _dump(jars: Path, target: Path) -> None:
    wanted = target / "classes.txt"
    # Java's own list is what it loads by itself; without it the archive would have none of that.
    usual = home() / "lib" / "classlist"
    lines = usual.read_text().splitlines() if usual.exists() else []
    lines += (name for jar in sorted(jars.glob("*.jar")) for name in _classes(jar))
    wanted.write_text("".join(f"{line}\n" for line in lines))
    command = (
        *(tool("java"), "-Xshare:dump", "-XX:+UseSerialGC", DUMP_HEAP),
        *(f"-XX:SharedClassListFile={wanted}", f"-XX:SharedArchiveFile={target / ARCHIVE}"),
        *("-cp", f"{jars}/*"),
    )
    with (target / SAID).open("wb") as said:
        subprocess.run(command, stdout=said, stderr=said, timeout=DUMP_S_MAX, check=False)
    wanted.unlink()


def _classes(jar: Path) -> Iterator[str]:
    """By their names in the list. Those of other versions of Java stand below META-INF."""
    with zipfile.ZipFile(jar) as opened:
        for name in opened.namelist():
            if name.endswith(".class") and not name.startswith("META-INF/"):
                yield name.removesuffix(".class")
