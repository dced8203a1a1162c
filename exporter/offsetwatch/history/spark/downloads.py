"""Downloads by Maven, cached outside the tree: complete or absent, and never replaced.

It must not name a registry: the machine's own settings decide where files come from.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from offsetwatch.errors import HistoryError

RESOLVE_S_MAX = 540.0  # at most a hundred small files; a registry that takes longer is down
OUTPUT_CHARS_MAX = 4000
LOCK = "jars.lock"  # one for all: they share Maven's own repository, which two writers can harm


def cache_directory() -> Path:
    """Return the folder for files that outlast a run: OFFSETWATCH_CACHE, else XDG's cache."""
    own = os.environ.get("OFFSETWATCH_CACHE")
    if own:
        return Path(own)
    xdg = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(xdg) if xdg else Path.home() / ".cache") / "offsetwatch"
    except RuntimeError as exc:  # of a user without HOME and without an entry in passwd
        raise HistoryError("HOME is not set: set it, or OFFSETWATCH_CACHE to a folder") from exc


def pom_hash(pom: Path) -> str:
    """Return the hash of a pom, which names its version in a folder's name."""
    return hashlib.sha256(pom.read_bytes()).hexdigest()[:12]


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold a lock against other processes; the kernel releases it when this one ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def publish(folder: Path, fill: Callable[[Path], None], *, lock: str = LOCK) -> None:
    """Create `folder` with the files that `fill` writes, under a lock; do nothing if it exists.

    `fill` writes beside it and one rename publishes the result. The folder is never replaced,
    because a JVM opens its jars as it needs them.
    """
    if folder.exists():
        return
    with hold_lock(cache_directory() / lock):
        if folder.exists():  # another process may have finished while this one waited
            return
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
        try:
            fill(fresh)
            fresh.chmod(0o755)  # mkdtemp's 0700 would hide a shared cache from other users
            fresh.rename(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def copy_dependencies(
    pom: Path, target: Path, *, what: str, properties: Mapping[str, str] | None = None
) -> None:
    """Have Maven copy the jars of a pom into a folder. Raises HistoryError naming `what`."""
    given = {**(properties or {}), "outputDirectory": str(target)}
    command = ["mvn", "-q", "-B", "--file", str(pom)]
    command += [f"-D{name}={value}" for name, value in given.items()]
    command.append("dependency:copy-dependencies")
    try:
        done = subprocess.run(  # noqa: S603 - fixed words, and paths and versions of our own
            command, capture_output=True, text=True, timeout=RESOLVE_S_MAX, check=False
        )
    except FileNotFoundError as exc:
        raise HistoryError(f"mvn is not on the PATH; it is needed once, to fetch {what}") from exc
    except subprocess.TimeoutExpired as exc:
        message = f"mvn did not resolve {what} within {RESOLVE_S_MAX:.0f} s"
        raise HistoryError(message) from exc
    if done.returncode != 0:
        tail = (done.stdout + done.stderr)[-OUTPUT_CHARS_MAX:]
        raise HistoryError(f"mvn could not resolve {what}:\n{tail}")
