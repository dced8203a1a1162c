"""Jars that Spark needs beside its own, and a package with them for spark-submit.

Maven resolves the jars of pom.xml once, into a cache outside the tree: complete or absent, and
never replaced. It must not name a registry: the machine's own settings decide where files come
from. Nothing here depends on a kind of cluster: docs/history-on-a-cluster.md says how to use the
package on each.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import offsetwatch
from offsetwatch.errors import HistoryError

RESOLVE_S_MAX = 540.0  # at most a hundred small files; a registry that takes longer is down
OUTPUT_CHARS_MAX = 4000
LOCK = "jars.lock"  # one for all: they share Maven's own repository, which two writers can harm

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
ARCHIVE, MAIN, REQUIREMENTS, JARS = "offsetwatch.zip", "main.py", "executors.txt", "jars"
# What history/pipeline/bronze_rows.py imports on an executor, beside this package and what a Spark
# has itself; and pandas, without which mapInArrow refuses to run.
EXECUTOR_REQUIREMENTS = ("msgspec", "numpy", "pandas", "pyarrow")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # zip's own: the same code makes the same bytes
_MAIN_TEXT = '''"""The offsetwatch command, for spark-submit, which wants a file."""

from offsetwatch.cli import main

main()
'''


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
    settings = {**(properties or {}), "outputDirectory": str(target)}
    command = ["mvn", "-q", "-B", "--file", str(pom)]
    command += [f"-D{name}={value}" for name, value in settings.items()]
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


def spark_jars() -> tuple[Path, ...]:
    """Return the six jars, which Maven resolves the first time; later they are in the cache."""

    def fill(folder: Path) -> None:
        copy_dependencies(POM, folder, what="Spark's connector jars")
        _check_jars(folder)

    folder = cache_directory() / folder_name()
    publish(folder, fill)
    return _check_jars(folder)


def folder_name() -> str:
    """Return the name of the cache folder; every version of the pom has its own."""
    return f"spark-jars-{pom_hash(POM)}"


def _check_jars(folder: Path) -> tuple[Path, ...]:
    """Return one jar of each artifact. Raises HistoryError that names what the folder lacks."""
    jars = {name: sorted(folder.glob(f"{name}-[0-9]*.jar")) for name in ARTIFACTS}
    wrong = [name for name, files in jars.items() if len(files) != 1]
    if wrong:
        message = f"{folder} must hold exactly one jar of {', '.join(wrong)}; delete the folder"
        raise HistoryError(message)
    return tuple(files[0] for files in jars.values())


@dataclass(frozen=True, slots=True)
class Package:
    """Files of the package, below one folder.

    archive         for --py-files
    main            the application; its arguments are those of the `offsetwatch` command
    jars            for --jars, all of them
    requirements    for pip: the needs of the executors' Python, in the versions that are here
    """

    archive: Path
    main: Path
    jars: tuple[Path, ...]
    requirements: Path


def package(folder: Path) -> Package:
    """Write the files into a folder, over those of an earlier version. Raises HistoryError."""
    source = Path(offsetwatch.__file__).resolve().parent
    if not source.is_dir():
        raise HistoryError("this offsetwatch runs from an archive; install it to make another")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _replace(folder / MAIN, _MAIN_TEXT.encode())
        versions = [f"{name}=={metadata.version(name)}\n" for name in EXECUTOR_REQUIREMENTS]
        _replace(folder / REQUIREMENTS, "".join(versions).encode())
        _write_archive(source, folder / ARCHIVE)
        jars = tuple(_copy_jars(spark_jars(), folder / JARS))
    except OSError as exc:
        raise HistoryError(f"{folder} cannot be written: {exc}") from exc
    return Package(folder / ARCHIVE, folder / MAIN, jars, folder / REQUIREMENTS)


def _write_archive(source: Path, target: Path) -> None:
    partial = target.with_name(f"{target.name}.partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(source.rglob("*.py")):
            entry = zipfile.ZipInfo(file.relative_to(source.parent).as_posix(), _EPOCH)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, file.read_bytes())
    partial.replace(target)


def _copy_jars(jars: tuple[Path, ...], folder: Path) -> Iterator[Path]:
    """Copy the jars, and delete those of an earlier version: users pass `jars/*`."""
    folder.mkdir(exist_ok=True)
    for stale in set(folder.glob("*.jar")) - {folder / jar.name for jar in jars}:
        stale.unlink()
    for jar in jars:
        if not (folder / jar.name).exists():
            partial = folder / f"{jar.name}.partial"
            shutil.copyfile(jar, partial)
            partial.replace(folder / jar.name)
        yield folder / jar.name


def _replace(target: Path, content: bytes) -> None:
    partial = target.with_name(f"{target.name}.partial")
    partial.write_bytes(content)
    partial.replace(target)
