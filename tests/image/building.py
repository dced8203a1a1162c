"""Images built as anybody builds them, with no container engine: buildah, its own storage, and a
base image that is Debian from the packages of this machine's own mirror.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from lab.processes.child import finished
from offsetwatch.history.spark.jars import cache_directory, publish
from tests.conftest import ROOT

SUITE: Final = "bookworm"  # its Python is 3.11, the oldest that will do; its JRE is Java 17
PACKAGES: Final = ("ca-certificates", "python3", "python3-venv")
# Authorities that this machine trusts beside those of everybody: mirrors may have theirs from one.
OWN_AUTHORITIES: Final = Path("/usr/local/share/ca-certificates")
BUNDLE: Final = "/etc/ssl/certs/ca-certificates.crt"
MAVEN_SETTINGS: Final = Path.home() / ".m2" / "settings.xml"
# Where packages come from and how patiently. The rest of a machine's settings is not for images.
PIP_SETTINGS: Final = {
    *("index-url", "extra-index-url", "trusted-host"),
    *("proxy", "timeout", "retries"),
}
NEEDED: Final = ("buildah", "mmdebstrap", "nsenter", "unshare")
HINT: Final = "apt-get install buildah mmdebstrap util-linux"
BASE: Final = "localhost/offsetwatch-base:test"
REVISION: Final = "0123456789abcdef0123456789abcdef01234567"
VERSION: Final = "7.8.9-test"
# Of a busy machine: Debian's packages, a hundred wheels, a JRE, and gigabytes copied.
BUILD_S_MAX: Final = 1200.0
OUTPUT_CHARS_MAX: Final = 6000


class BuildFailed(Exception):
    """With the end of what was said."""


@dataclass(frozen=True)
class Image:
    """A built image, and a folder with all that is in it, to be looked at and not to be written to.

    config   as `docker inspect` calls it
    layers   in the order in which they were made, oldest first
    """

    name: str
    config: dict[str, Any]
    layers: tuple[str, ...]
    root: Path

    @property
    def venv(self) -> Path:
        return self.root / "opt/offsetwatch"

    @property
    def packages(self) -> Path:
        (path,) = self.venv.glob("lib/python*/site-packages")
        return path

    def megabytes(self, part: Path | None = None) -> float:
        """Of files as they lie on a disk, links not followed."""
        folder = self.root if part is None else part
        sizes = (path.lstat().st_blocks * 512 for path in folder.rglob("*"))
        return sum(sizes) / 1_000_000


class Builder:
    """buildah with a storage of its own in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        policy = folder / "policy.json"
        policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        self._trusting = ("--signature-policy", str(policy))
        storage = folder / "storage.conf"
        storage.write_text(
            f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
        )
        self._environment = {
            **os.environ,
            "BUILDAH_ISOLATION": "chroot",
            "CONTAINERS_STORAGE_CONF": str(storage),
            "TMPDIR": str(folder),
        }
        self._take_base()

    def build(self, target: str) -> Image:
        """One target of the Dockerfile. Raises BuildFailed."""
        name = f"localhost/offsetwatch:{target}"
        self._bud(
            *("--target", target, "--tag", name, *self._secrets()),
            *("--build-arg", f"BASE_IMAGE={BASE}"),
            *("--build-arg", f"VERSION={VERSION}", "--build-arg", f"REVISION={REVISION}"),
            str(ROOT),
        )
        report = json.loads(self._do("inspect", "--type", "image", name))["Docker"]
        container = self._do("from", "--pull-never", name).strip()
        root = Path(self._do("mount", container).strip())
        return Image(name, report["config"], tuple(report["rootfs"]["diff_ids"]), root)

    def _take_base(self) -> None:
        container = self._do("from", "scratch").strip()
        self._do("add", "--quiet", container, str(base()), "/")
        self._do("commit", "--quiet", *self._trusting, container, BASE)
        self._do("rm", container)

    def _bud(self, *arguments: str) -> None:
        # Docker's own format: in that of OCI there is no place for a health check.
        self._do("bud", *self._trusting, "--format", "docker", "--pull-never", *arguments)

    def _secrets(self) -> Iterator[str]:
        pip = self._folder / "pip.conf"
        with pip.open("w") as file:
            pip_settings().write(file)
        yield f"--secret=id=pip,src={pip}"
        if MAVEN_SETTINGS.exists():
            yield f"--secret=id=maven,src={MAVEN_SETTINGS}"

    def _do(self, *arguments: str) -> str:
        return run("buildah", *arguments, environment=self._environment)


@contextmanager
def builder(folder: Path) -> Iterator[Builder]:
    """Whatever it has built goes with it: gigabytes."""
    try:
        yield Builder(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def base() -> Path:
    """Debian with Python as a tar file, made once and kept outside the tree."""
    authorities = sorted(OWN_AUTHORITIES.glob("*.crt"))
    content = sha256("\n".join((SUITE, *PACKAGES, *NEEDED)).encode())
    for authority in authorities:
        content.update(authority.read_bytes())
    folder = cache_directory() / f"image-base-{SUITE}-{content.hexdigest()[:12]}"

    def fill(target: Path) -> None:
        run(
            "mmdebstrap",
            "--quiet",
            "--variant=minbase",
            f"--include={','.join(PACKAGES)}",
            *(f"--customize-hook=upload {path} {path}" for path in authorities),
            '--customize-hook=chroot "$1" update-ca-certificates',
            SUITE,
            str(target / "root.tar"),
            environment=dict(os.environ),
        )

    publish(folder, fill)
    return folder / "root.tar"


def pip_settings() -> ConfigParser:
    """Where this machine's pip gets packages from, as a file for pip inside of a build."""
    result = run(sys.executable, "-m", "pip", "config", "list", environment=dict(os.environ))
    settings = ConfigParser(interpolation=None)
    settings["global"] = {"cert": BUNDLE}
    for line in result.splitlines():
        name, _, value = line.partition("=")
        name = name.rpartition(".")[2]
        if name in PIP_SETTINGS:
            settings["global"][name] = value.strip("'\"")
    return settings


def run(*command: str, environment: dict[str, str]) -> str:
    """Standard output. Raises BuildFailed."""
    done = finished(
        command,
        called=command[0],
        directory=Path("/"),
        timeout_s=BUILD_S_MAX,
        env=environment,
    )
    if done.returncode != 0:
        answer = (done.stdout + done.stderr)[-OUTPUT_CHARS_MAX:]
        raise BuildFailed(f"{' '.join(command)}: exit status {done.returncode}\n{answer}")
    return done.stdout
