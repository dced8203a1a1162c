"""Command lines for the JVMs of a lab: flags that make small servers start fast."""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Final

from lab.errors import LabError

ARCHIVE: Final = "classes.jsa"

# The first compiler tier and the serial collector cost peak speed nobody needs here and save
# seconds of start-up on two cores.
_FLAGS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.showThreadName=false",
    # Each client prints all its settings at start: hundreds of lines that bury the one that counts.
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients=warn",
    # One line per poll of the lab's own waiting.
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.connect.runtime.rest.RestServer=warn",
)


def java(
    jars: Path,
    main: str,
    *arguments: str,
    heap_mb: int,
    flags: tuple[str, ...] = (),
    classes: Path | None = None,
) -> tuple[str, ...]:
    """The command that runs a main class with every jar of the folder on its classpath, and a
    folder of classes behind them.
    """
    path = f"{jars}/*" if classes is None else f"{jars}/*{os.pathsep}{classes}"
    archive = archive_folder(jars) / ARCHIVE
    # Of whatever stands first on the class path; so the jars do.
    known = (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()
    inputs = (f"-Xmx{heap_mb}m", *_FLAGS, *known, *flags)
    return (tool("java"), *inputs, "-cp", path, main, *arguments)


def archive_folder(jars: Path) -> Path:
    """Path beside these jars where class_archive.py puts their classes, for this Java alone."""
    return jars.with_name(f"{jars.name}-classes-{version()}")


def version() -> str:
    """What tells one Java from another, for the names of files."""
    path = home()
    release = path / "release"
    report = release.read_bytes() if release.exists() else b""
    return hashlib.sha256(str(path).encode() + report).hexdigest()[:12]


def home() -> Path:
    """Where the Java is that `tool` names. Raises LabError."""
    result = shutil.which(tool("java"))
    if result is None:
        raise LabError("java is not on the PATH")
    return Path(result).resolve().parents[1]


def tool(name: str) -> str:
    """A command of the JDK."""
    inputs = os.environ.get("JAVA_HOME")
    return str(Path(inputs) / "bin" / name) if inputs else name
