"""A source connector with the offsets of the JDBC source connectors, which Maven Central lacks:
compiled once, and a plugin with PostgreSQL's driver beside it.
"""

import hashlib
import subprocess
import zipfile
from pathlib import Path
from typing import Final

from lab.errors import LabError
from lab.processes.jars import cache_directory
from lab.processes.java import tool
from offsetwatch.errors import HistoryError
from offsetwatch.history.spark.jars import copy_dependencies, publish

CLASS: Final = "lab.JdbcSourceConnector"
SIMPLE_NAME: Final = "JdbcSourceConnector"
"""Its name in configurations: that of the connectors whose offsets it has, without a package."""

COMPILE_S_MAX: Final = 120.0
_SOURCE: Final = Path(__file__).with_name("JdbcSourceConnector.java")
_POM: Final = Path(__file__).with_name("jdbc-source.xml")
_SERVICE: Final = "META-INF/services/org.apache.kafka.connect.source.SourceConnector"


def plugin_path(jars: Path) -> Path:
    """Return the folder for `plugin.path` of workers with these jars."""
    report = hashlib.sha256(str(jars).encode())
    for file in (_SOURCE, _POM):
        report.update(file.read_bytes())
    folder = cache_directory() / _POM.stem / report.hexdigest()[:12]

    def fill(target: Path) -> None:
        plugin, classes = target / _POM.stem, target / "classes"
        plugin.mkdir()
        copy_dependencies(_POM, plugin, what="PostgreSQL's driver")
        command = (tool("javac"), "-cp", f"{jars}/*", "-d", str(classes), str(_SOURCE))
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMPILE_S_MAX, check=False
        )
        if done.returncode != 0:
            raise LabError(f"javac could not compile {_SOURCE.name}:\n{done.stderr[-4000:]}")
        with zipfile.ZipFile(plugin / "jdbc-source.jar", "w") as jar:
            jar.writestr(_SERVICE, f"{CLASS}\n")
            for file in classes.rglob("*.class"):
                jar.write(file, file.relative_to(classes))

    try:
        publish(folder, fill)
    except (HistoryError, OSError, subprocess.TimeoutExpired) as exc:
        raise LabError(f"the JDBC source: {exc}") from exc
    return folder
