"""What an image says it runs, run as a container engine does where it may do least.

A private mount namespace in which the root is read-only, but for volumes; process 1 of its own
process namespace; the image's user by number, no capability, and none to be had. The network is
this machine's, so that the lab answers on loopback.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lab.processes.child import Child
from lab.waiting import NotYet, until
from tests.image.building import Image

START_S_MAX: Final = 120.0
STOP_S_MAX: Final = 30.0  # what Kubernetes allows by default
EXEC_S_MAX: Final = 120.0
USER: Final = 65532
DEVICES: Final = ("full", "null", "random", "urandom", "zero")
# As an engine does: a host's names are not of the image.
OF_THE_HOST: Final = ("/etc/hosts", "/etc/resolv.conf")
# Process 1 of the new namespaces becomes what the image runs.
PREPARE: Final = """\
set -eu
mount --bind {root} {root}
mount -t proc proc {root}/proc
mount -t tmpfs -o mode=755 tmpfs {root}/dev
for device in {devices}; do
    touch {root}/dev/$device
    mount --bind /dev/$device {root}/dev/$device
done
ln -s /proc/self/fd {root}/dev/fd
{volumes}
mount -o remount,bind,ro {root}
cd {root}
exec chroot {root} {command}
"""


@dataclass(frozen=True)
class Volume:
    """A folder or file of this machine, in the container."""

    source: Path
    target: str
    read_only: bool = False


def writable(folder: Path, target: str, user: int = USER) -> Volume:
    """An empty folder that belongs to the image's user, or to another."""
    folder.mkdir()
    os.chown(folder, user, user)
    return Volume(folder, target)


class Container:
    """One that can be started, asked and stopped."""

    def __init__(
        self,
        image: Image,
        directory: Path,
        *,
        volumes: Sequence[Volume],
        command: Sequence[str] | None = None,
        user: int = USER,
    ) -> None:
        self._image = image
        self._user = user
        entry = (*image.config["Entrypoint"], *(command or image.config["Cmd"]))
        hosts = (
            Volume(Path(value), value, read_only=True) for value in OF_THE_HOST if _in(image, value)
        )
        root = shlex.quote(str(image.root))
        script = PREPARE.format(
            root=root,
            devices=" ".join(DEVICES),
            volumes="\n".join(_mounts(root, volume) for volume in (*hosts, *volumes)),
            command=shlex.join(self._confined(entry)),
        )
        namespaces = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
        self._child = Child("container", (*namespaces, "sh", "-c", script), directory=directory)

    def start(self) -> None:
        self._child.start()

    @property
    def running(self) -> bool:
        return self._child.running

    def finish(self, timeout_s: float) -> str:
        """Wait until it ends by itself, and well; what it said."""
        self._child.expect_success(timeout_s=timeout_s)
        return self._child.log.read_text()

    def stop(self, timeout_s: float = STOP_S_MAX) -> None:
        """SIGTERM to process 1, which has to end well and soon. Raises LabError."""
        os.kill(self.first, signal.SIGTERM)
        self._child.expect_success(timeout_s=timeout_s)

    def kill(self) -> None:
        self._child.kill()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.first, number)

    def evidence(self) -> str:
        return self._child.tail()

    @property
    def first(self) -> int:
        """Its process 1, by the number that it has outside. Once it is what the image runs."""
        return until("process 1", self._first, timeout_s=START_S_MAX, evidence=self.evidence)

    def _first(self) -> int:
        outer = self._child.pid
        if outer is None:
            raise NotYet("it does not run")
        children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
        if not children:
            raise NotYet("nothing was started")
        (inner,) = children
        if _status(int(inner))["Uid"].split()[0] != str(self._user):
            raise NotYet("it is not the image's user yet")
        return int(inner)

    def status(self) -> dict[str, str]:
        """What the kernel knows of process 1."""
        return _status(self.first)

    def execute(self, *command: str, privileged: bool = False) -> subprocess.CompletedProcess[str]:
        """One more command inside, as `docker exec`."""
        inside = ("nsenter", f"--target={self.first}", "--mount", "--pid", "--root")
        confined = ("/usr/bin/env", *command) if privileged else self._confined(command)
        return subprocess.run(
            (*inside, *confined),
            capture_output=True,
            text=True,
            check=False,
            timeout=EXEC_S_MAX,
            cwd="/",
        )

    def healthcheck(self) -> subprocess.CompletedProcess[str]:
        """What the image says an engine shall ask."""
        kind, *command = self._image.config["Healthcheck"]["Test"]
        assert kind == "CMD"
        return self.execute(*command)

    def _confined(self, command: Sequence[str]) -> tuple[str, ...]:
        """The image's own environment and folder, and nothing of ours; the user's rights alone."""
        config = self._image.config
        return (
            *("/usr/bin/env", "--ignore-environment", f"--chdir={config['WorkingDir']}"),
            *config["Env"],
            *("setpriv", f"--reuid={self._user}", f"--regid={self._user}", "--clear-groups"),
            *("--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"),
            # The death of whoever started it was forgotten with the change of user.
            *("--pdeathsig=KILL", "--"),
            *command,
        )


@contextmanager
def running(container: Container) -> Iterator[Container]:
    """Nothing of it is left behind."""
    container.start()
    try:
        yield container
    finally:
        container.kill()


def _in(image: Image, path: str) -> bool:
    return (image.root / path.lstrip("/")).is_file()


def _mounts(root: str, volume: Volume) -> str:
    target = f"{root}{shlex.quote(volume.target)}"
    lines = [f"mount --bind {shlex.quote(str(volume.source))} {target}"]
    if volume.read_only:
        lines.append(f"mount -o remount,bind,ro {target}")
    return "\n".join(lines)


def _status(pid: int) -> dict[str, Any]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
