"""Programs out of the Go module proxy, built once and kept in the cache.

Must not name a proxy: where modules come
from is for the machine's own Go settings to say. A build takes minutes, and so has a lock of its
own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from offsetwatch.history.spark.jars import cache_directory, publish
from tools.debian import ToolError

BUILD_S_MAX: Final = 2400.0  # kube-apiserver takes five minutes on two quiet cores
OUTPUT_CHARS_MAX: Final = 4000
LOCK: Final = "go.lock"  # one build at a time: each of them takes all cores
SMALL: Final = "-s -w"


def installed(name: str, package: str, version: str) -> Path:
    """A program that `go install` makes; where it is. Raises ToolError."""

    def fill(folder: Path) -> None:
        _go(["install", f"-ldflags={SMALL}", f"{package}@{version}"], into=folder)

    return _cache(name, version, fill)


def built_from_a_module_of_ours(
    name: str, package: str, version: str, *, replaced: Callable[[Path], Sequence[str]], flags: str
) -> Path:
    """A program whose module cannot be installed, as it replaces others by folders: built from a
    module that requires it. `replaced` is given its go.mod, and says what to replace instead.
    """

    def fill(folder: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="offsetwatch-go-") as built:
            path = Path(built)
            _go(["mod", "init", "example.invalid/built"], path=path)
            module = "/".join(package.split("/")[:2])
            document = json.loads(_go(["list", "-m", "-json", f"{module}@{version}"], path=path))
            with (path / "go.mod").open("a") as handle:
                handle.writelines(f"replace {line}\n" for line in replaced(Path(document["GoMod"])))
            _go(["get", f"{package}@{version}"], path=path)
            _go(
                ["build", f"-ldflags={SMALL} {flags}", "-o", str(folder / name), package], path=path
            )

    return _cache(name, version, fill)


def module_folder(module: str, version: str) -> Path:
    """A module's files, in Go's own cache. Raises ToolError."""
    report = _go(["mod", "download", "-json", f"{module}@{version}"])
    return Path(json.loads(report)["Dir"])


def _cache(name: str, version: str, fill: Callable[[Path], None]) -> Path:
    folder = cache_directory() / "go" / f"{name}-{version}"
    publish(folder, fill, lock=LOCK)
    return folder / name


def _go(words: Sequence[str], *, into: Path | None = None, path: Path | None = None) -> str:
    go = shutil.which("go")
    if go is None:
        raise ToolError("no go here: tests build helm, kube-apiserver and amtool with it")
    env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-modcacherw", "GOWORK": "off"}
    if into is not None:
        env["GOBIN"] = str(into)
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            [go, *words],
            cwd=path,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BUILD_S_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise ToolError(f"go {words[0]}: not within {BUILD_S_MAX:.0f} s") from exc
    if done.returncode != 0:
        raise ToolError(f"go {' '.join(words)} failed:\n{done.stderr[-OUTPUT_CHARS_MAX:]}")
    return done.stdout
