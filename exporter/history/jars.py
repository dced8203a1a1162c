"""The jars Spark needs beside its own: resolved once from pom.xml and kept outside the tree.

Called by session.py before the JVM starts. Must not name a registry: where jars come from is the
business of the machine's own Maven settings.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from exporter.errors import HistoryError

POM = Path(__file__).with_name("pom.xml")
# The same list as in pom.xml; a folder without exactly one jar of each is no class path.
ARTIFACTS = (
    "spark-sql-kafka-0-10_2.13",
    "spark-token-provider-kafka-0-10_2.13",
    "kafka-clients",
    "commons-pool2",
    "delta-spark_4.2_2.13",
    "delta-storage",
)
RESOLVE_S_MAX = 540.0  # six jars of 20 MB in all; a registry that takes longer is down
OUTPUT_CHARS_MAX = 4000


def spark_jars() -> tuple[Path, ...]:
    """The six jars, resolved by Maven the first time and found in the cache ever after.

    The folder is named after the pom's hash and is complete or absent: Maven writes beside it and
    one rename publishes the result. It is never replaced, because a running JVM opens jars late.
    """
    folder = cache_directory() / folder_name()
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.parent / "jars.lock"):
            if not folder.exists():  # another process may have finished while this one waited
                _resolve(folder)
    return _complete(folder)


def folder_name() -> str:
    """A folder of its own for every version of the pom."""
    return f"spark-jars-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"


def cache_directory() -> Path:
    """Where things live that outlast a run: OFFSETWATCH_CACHE, else XDG's place."""
    own = os.environ.get("OFFSETWATCH_CACHE")
    if own:
        return Path(own)
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".cache") / "offsetwatch"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _resolve(folder: Path) -> None:
    fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        _copy_dependencies(fresh)
        _complete(fresh)
        fresh.chmod(0o755)  # mkdtemp's 0700 would hide a shared cache from other users
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _copy_dependencies(target: Path) -> None:
    command = [
        "mvn",
        "-q",
        "-B",
        "--file",
        str(POM),
        f"-DoutputDirectory={target}",
        "dependency:copy-dependencies",
    ]
    try:
        done = subprocess.run(  # noqa: S603 - fixed words and two paths of our own
            command, capture_output=True, text=True, timeout=RESOLVE_S_MAX, check=False
        )
    except FileNotFoundError as exc:
        message = "mvn is not on the PATH; it is needed once, to fetch Spark's connector jars"
        raise HistoryError(message) from exc
    except subprocess.TimeoutExpired as exc:
        message = f"mvn did not resolve Spark's connector jars within {RESOLVE_S_MAX:.0f} s"
        raise HistoryError(message) from exc
    if done.returncode != 0:
        tail = (done.stdout + done.stderr)[-OUTPUT_CHARS_MAX:]
        raise HistoryError(f"mvn could not resolve Spark's connector jars:\n{tail}")


def _complete(folder: Path) -> tuple[Path, ...]:
    """One jar of each artifact, or an error that names what is wrong with the folder."""
    found = {name: sorted(folder.glob(f"{name}-[0-9]*.jar")) for name in ARTIFACTS}
    wrong = [name for name, files in found.items() if len(files) != 1]
    if wrong:
        message = f"{folder} must hold exactly one jar of {', '.join(wrong)}; delete the folder"
        raise HistoryError(message)
    return tuple(files[0] for files in found.values())
