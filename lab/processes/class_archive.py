"""
The archive of Kafka's classes: read, checked and laid out once, so that every later JVM of a lab
maps them instead. Loading classes is a third of what a lab costs to start.

`python -m lab classes` makes it, java.py finds it. A JVM without one, or with one of another Java
or class path, starts as usual.
"""

import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lab.errors import LabError
from lab.processes.java import ARCHIVE, archive_folder, home, tool
from offsetwatch.history.spark.jars import publish

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


def _dump(jars: Path, target: Path) -> None:
    expected = target / "classes.txt"
    # Java's own list is what it loads by itself; without it the archive would have none of that.
    path = home() / "lib" / "classlist"
    lines = path.read_text().splitlines() if path.exists() else []
    lines += (name for jar in sorted(jars.glob("*.jar")) for name in _classes(jar))
    expected.write_text("".join(f"{line}\n" for line in lines))
    command = (
        *(tool("java"), "-Xshare:dump", "-XX:+UseSerialGC", DUMP_HEAP),
        *(f"-XX:SharedClassListFile={expected}", f"-XX:SharedArchiveFile={target / ARCHIVE}"),
        *("-cp", f"{jars}/*"),
    )
    with (target / SAID).open("wb") as answer:
        subprocess.run(command, stdout=answer, stderr=answer, timeout=DUMP_S_MAX, check=False)
    expected.unlink()


def _classes(jar: Path) -> Iterator[str]:
    """By their names in the list. Those of other versions of Java stand below META-INF."""
    with zipfile.ZipFile(jar) as opened:
        for name in opened.namelist():
            if name.endswith(".class") and not name.startswith("META-INF/"):
                yield name.removesuffix(".class")
