"""
A disk of its own for one process, small enough to be filled.

Where nobody may mount one, a process is forbidden to write to files instead: it is told EFBIG then,
and not ENOSPC, and what it may not grow it cannot begin either.
"""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# A daemon plans nothing where its journal has less room than a hundred MiB.
SIZE_BYTES = 256 * 1024 * 1024
MOUNT_S_MAX = 30.0
_FILLER = ".filler"


class SmallDisk:
    """See the module. `mounted` is whether it is a disk."""

    def __init__(self, folder: Path, *, mounted: bool) -> None:
        self.folder = folder
        self.mounted = mounted

    def fill(self, pid: int | None) -> None:
        """Not a byte more for this process, nor where it is a disk for anybody."""
        if self.mounted:
            _take_all(self.folder / _FILLER)
        elif pid is not None:
            _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, hard))

    def free(self, pid: int | None) -> None:
        """Room again."""
        (self.folder / _FILLER).unlink(missing_ok=True)
        if not self.mounted and pid is not None:
            _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """Empty; unmounted afterwards."""
    folder.mkdir(parents=True)
    mounted = _ran("mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "offsetwatch", str(folder))
    try:
        yield SmallDisk(folder, mounted=mounted)
    finally:
        if mounted:
            # A process that still ends has files open here.
            _ran("umount", "--lazy", str(folder))


def _take_all(filler: Path) -> None:
    handle = os.open(filler, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size, step = os.fstat(handle).st_size, SIZE_BYTES
        while step:
            try:
                os.posix_fallocate(handle, size, step)
            except OSError:
                step //= 2
            else:
                size += step
    finally:
        os.close(handle)


def _ran(*command: str) -> bool:
    done = subprocess.run(command, capture_output=True, check=False, timeout=MOUNT_S_MAX)
    return done.returncode == 0
