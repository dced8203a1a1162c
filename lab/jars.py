"""
The Java classpath, resolved once per Kafka version and kept outside the tree.

Called by cluster.py before the first process, and by `python -m lab jars` to warm the cache. Must
not name a registry: where jars come from is the business of the machine's own Maven settings.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.errors import LabError

POM = Path(__file__).with_name("pom.xml")
# A cold resolve is about 100 small files; a registry that takes longer than this is down.
RESOLVE_S_MAX = 540.0
OUTPUT_CHARS_MAX = 4000


def cache_directory() -> Path:
    """Where all that is worth keeping between labs lives: OFFSETWATCH_CACHE, else XDG's place."""
    own = os.environ.get("OFFSETWATCH_CACHE")
    if own:
        return Path(own)
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".cache") / "offsetwatch"


def jars(kafka_version: str) -> Path:
    """
    The folder with every jar of that Kafka version; a no-op when it is already there.

    The folder is complete or absent: Maven writes beside it and one rename publishes the result.
    It is named after the pom as well, and never replaced: a JVM opens its jars as it needs them,
    so a folder that some lab started from must stay as it was.
    """
    pom_hash = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    folder = cache_directory() / f"kafka-{kafka_version}" / pom_hash
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    # One lock for all versions: they share Maven's own repository, which two writers can harm.
    with _locked(cache_directory() / "jars.lock"):
        # Another process may have finished while this one waited for the lock.
        if not folder.exists():
            _resolve(kafka_version, folder)
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _resolve(kafka_version: str, folder: Path) -> None:
    fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        _copy_dependencies(kafka_version, fresh)
        fresh.chmod(0o755)
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _copy_dependencies(kafka_version: str, target: Path) -> None:
    command = [
        "mvn",
        "-q",
        "-B",
        "--file",
        str(POM),
        f"-Dkafka.version={kafka_version}",
        f"-DoutputDirectory={target}",
        "dependency:copy-dependencies",
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=RESOLVE_S_MAX, check=False
        )
    except FileNotFoundError as exc:
        raise LabError("mvn is not on the PATH; the lab needs Maven to resolve its jars") from exc
    except subprocess.TimeoutExpired as exc:
        message = f"mvn did not resolve Kafka {kafka_version} within {RESOLVE_S_MAX:.0f} s"
        raise LabError(message) from exc
    if done.returncode != 0:
        tail = (done.stdout + done.stderr)[-OUTPUT_CHARS_MAX:]
        raise LabError(f"mvn could not resolve Kafka {kafka_version}:\n{tail}")
    if not (target / f"kafka-clients-{kafka_version}.jar").exists():
        raise LabError(f"mvn succeeded but kafka-clients-{kafka_version}.jar is not in {target}")
