"""promtool and prometheus, whichever this machine has, and the checks we ask of promtool.

Called by tests; `python -m tools.promtool` prints where the two are and fetches them if need be.
Rules and their tests keep to what 2.42 understands, so that no Prometheus has to be new for them.
Must not name a registry: where packages come from is for the machine's own apt settings to say.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from exporter.history.downloads import cache_directory, locked

PACKAGE = "prometheus"
FETCH_S_MAX = 300.0  # 25 MB; a mirror that takes longer is down
RUN_S_MAX = 60.0
OUTPUT_CHARS_MAX = 4000


class PromtoolError(Exception):
    """There is no promtool to be had here, or it could not be run."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """Where the two programs are."""

    promtool: Path
    prometheus: Path


def binaries() -> Binaries:
    """From the PATH, else from the cache, where Debian's package is put at first use."""
    on_path = {name: shutil.which(name) for name in ("promtool", "prometheus")}
    if not all(on_path.values()):
        folder = _package() / "usr" / "bin"
        on_path = {name: found or str(folder / name) for name, found in on_path.items()}
    return Binaries(
        promtool=Path(str(on_path["promtool"])), prometheus=Path(str(on_path["prometheus"]))
    )


def promtool() -> Path:
    """The one that checks need most."""
    found = shutil.which("promtool")
    return Path(found) if found else binaries().promtool


def check_metrics(text: str) -> list[str]:
    """What promtool finds wrong with the text of a scrape (format 0.0.4); empty if nothing."""
    done = _run([str(promtool()), "check", "metrics"], stdin=text)
    return _problems(done)


def check_rules(*files: Path) -> list[str]:
    """What promtool's linter finds in rule files."""
    command = [str(promtool()), "check", "rules", "--lint=all", "--lint-fatal"]
    return _problems(_run([*command, *map(str, files)]))


def run_rule_tests(*files: Path) -> list[str]:
    """What `promtool test rules` says of test files that do not pass."""
    return _problems(_run([str(promtool()), "test", "rules", *map(str, files)]))


def _problems(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What it printed, if it found something. Silence with a bad exit code is a finding too."""
    if done.returncode == 0:
        return []
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return lines or [f"promtool ended with {done.returncode} and said nothing"]


def _package() -> Path:
    """The unpacked package: complete or absent, as one rename publishes it."""
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / f"{PACKAGE}.lock"):
        unpacked = sorted(cache.glob(f"{PACKAGE}-*/usr/bin/promtool"))
        return unpacked[-1].parents[2] if unpacked else _fetch(cache)


def _fetch(cache: Path) -> Path:
    for program in ("apt-get", "dpkg", "dpkg-deb"):
        if shutil.which(program) is None:
            raise PromtoolError(
                f"no promtool on the PATH, and no {program} to fetch one: install Prometheus 2.42 "
                "or newer and put promtool and prometheus on the PATH"
            )
    fresh = Path(tempfile.mkdtemp(dir=cache, prefix=f".{PACKAGE}-"))
    try:
        archive = _download(fresh)
        version = _do(["dpkg-deb", "--field", str(archive), "Version"]).strip()
        _do(["dpkg", "-x", str(archive), str(fresh)])
        archive.unlink()
        fresh.chmod(0o755)
        return fresh.rename(cache / f"{PACKAGE}-{version.replace(':', '_')}")
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _download(into: Path) -> Path:
    """The package's file. No package list, or one older than its mirror: renew the list, once."""
    command = ["apt-get", "-q", "download", PACKAGE]
    try:
        _do(command, directory=into)
    except PromtoolError:
        _do(["apt-get", "-q", "update"])
        _do(command, directory=into)
    return next(into.glob("*.deb"))


def _do(command: Sequence[str], *, directory: Path | None = None) -> str:
    """Run a program of the package manager; its output, or PromtoolError with the end of it."""
    done = _run(command, directory=directory, timeout_s=FETCH_S_MAX)
    if done.returncode != 0:
        tail = (done.stdout + done.stderr)[-OUTPUT_CHARS_MAX:]
        raise PromtoolError(f"{' '.join(command)} failed:\n{tail}")
    return done.stdout


def _run(
    command: Sequence[str],
    *,
    stdin: str = "",
    directory: Path | None = None,
    timeout_s: float = RUN_S_MAX,
) -> subprocess.CompletedProcess[str]:
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
        raise PromtoolError(f"{command[0]} did not end in {timeout_s:.0f} s") from exc
    except OSError as exc:
        raise PromtoolError(f"{command[0]} could not be run: {exc}") from exc


if __name__ == "__main__":
    print(binaries())  # noqa: T201 - a command's output
