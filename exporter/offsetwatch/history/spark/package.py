"""Package for spark-submit: the code as one archive, the jars, and the executors' requirements.

Nothing here depends on a kind of cluster: docs/history-on-a-cluster.md says how to use the files on
each.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import offsetwatch
from offsetwatch.errors import HistoryError
from offsetwatch.history.spark.jars import spark_jars

ARCHIVE, MAIN, REQUIREMENTS, JARS = "offsetwatch.zip", "main.py", "executors.txt", "jars"
# What history/pipeline/bronze_rows.py imports on an executor, beside this package and what a Spark
# has itself; and pandas, without which mapInArrow refuses to run.
EXECUTOR_REQUIREMENTS = ("msgspec", "numpy", "pandas", "pyarrow")

_EPOCH = (1980, 1, 1, 0, 0, 0)  # zip's own: the same code makes the same bytes
_MAIN_TEXT = '''"""The offsetwatch command, for spark-submit, which wants a file."""

from offsetwatch.cli import main

main()
'''


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
        _replace(folder / REQUIREMENTS, "".join(_requirements()).encode())
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


def _requirements() -> Iterator[str]:
    for name in EXECUTOR_REQUIREMENTS:
        yield f"{name}=={metadata.version(name)}\n"


def _copy_jars(jars: tuple[Path, ...], folder: Path) -> Iterator[Path]:
    """Copy the jars, and delete those of an earlier version: users pass `jars/*`."""
    folder.mkdir(exist_ok=True)
    for left in set(folder.glob("*.jar")) - {folder / jar.name for jar in jars}:
        left.unlink()
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
