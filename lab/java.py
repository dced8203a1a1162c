"""
Command lines for the JVMs of a lab: flags that make small servers start fast.

Called by cluster.py.
"""

import os
from pathlib import Path

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
    folder of classes before them.
    """
    path = f"{jars}/*" if classes is None else f"{classes}{os.pathsep}{jars}/*"
    return (tool("java"), f"-Xmx{heap_mb}m", *_FLAGS, *flags, "-cp", path, main, *arguments)


def tool(name: str) -> str:
    """A command of the JDK."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / name) if home else name
