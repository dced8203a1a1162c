"""Programs out of Debian packages, unpacked in the cache: nothing is installed.

Must not name a registry: where packages come from is for the machine's own apt
settings to say.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from offsetwatch.history.spark.jars import cache_directory, hold_lock

FETCH_S_MAX = 300.0  # 25 MB; a mirror that takes longer is down
RUN_S_MAX = 300.0  # promtool on a busy machine
OUTPUT_CHARS_MAX = 4000


class ToolError(Exception):
    """A program is not to be had here, or could not be run."""


def package(name: str, hint: str) -> Path:
    """The unpacked package: complete or absent, as one rename publishes it. `hint` says what to do
    where it cannot be fetched. Raises ToolError.
    """
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    with hold_lock(cache / f"{name}.lock"):
        unpacked = sorted(cache.glob(f"{name}-[0-9]*/usr/bin"))
        return unpacked[-1].parents[1] if unpacked else _fetch(name, cache, hint)


def _fetch(name: str, cache: Path, hint: str) -> Path:
    for program in ("apt-get", "dpkg", "dpkg-deb"):
        if shutil.which(program) is None:
            raise ToolError(f"no {name} here, and no {program} to fetch one: {hint}")
    fresh = Path(tempfile.mkdtemp(dir=cache, prefix=f".{name}-"))
    try:
        archive = _download(name, fresh)
        version = _do(["dpkg-deb", "--field", str(archive), "Version"]).strip()
        _do(["dpkg", "-x", str(archive), str(fresh)])
        archive.unlink()
        fresh.chmod(0o755)
        return fresh.rename(cache / f"{name}-{version.replace(':', '_')}")
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _download(name: str, into: Path) -> Path:
    """The package's file. No package list, or one older than its mirror: renew the list, once."""
    command = ["apt-get", "-q", "download", name]
    try:
        _do(command, directory=into)
    except ToolError:
        _do(["apt-get", "-q", "update"])
        _do(command, directory=into)
    return next(into.glob("*.deb"))


def _do(command: Sequence[str], *, directory: Path | None = None) -> str:
    """Run a program of the package manager; its output, or ToolError with the end of it."""
    done = run(command, directory=directory, timeout_s=FETCH_S_MAX)
    if done.returncode != 0:
        tail = (done.stdout + done.stderr)[-OUTPUT_CHARS_MAX:]
        raise ToolError(f"{' '.join(command)} failed:\n{tail}")
    return done.stdout


def run(
    command: Sequence[str],
    *,
    stdin: str = "",
    directory: Path | None = None,
    timeout_s: float = RUN_S_MAX,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end. Raises ToolError if that was not possible."""
    try:
        return subprocess.run(  # noqa: S603 - a fixed program and arguments of our own
            command,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            cwd=directory,
            timeout=timeout_s,
            env={**os.environ, "LC_ALL": "C"},  # apt's labels are translated
        )
    except subprocess.TimeoutExpired as exc:
        raise ToolError(f"{command[0]} did not end in {timeout_s:.0f} s") from exc
    except OSError as exc:
        raise ToolError(f"{command[0]} could not be run: {exc}") from exc
