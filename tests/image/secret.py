"""Files as Kubernetes mounts them from a Secret: names that lead over `..data` to a folder with a
time in its name, and a new content takes the place of all of it at once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

READABLE: Final = 0o440  # of root, and of the group that fsGroup gives


class Secret:
    """A folder to be mounted."""

    def __init__(self, folder: Path, group: int) -> None:
        folder.mkdir()
        self.folder = folder
        self._group = group
        self._version = 0

    def hold(self, files: Mapping[str, str]) -> None:
        """These files and no others; all of them from one moment to the next."""
        self._version += 1
        data = self.folder / "..data"
        before = data.resolve() if data.exists() else None
        fresh = self.folder / f"..2026_01_01_00_00_{self._version:02}.123456789"
        fresh.mkdir()
        for name, text in files.items():
            path = fresh / name
            path.write_text(text)
            path.chmod(READABLE)
            os.chown(path, 0, self._group)
            named = self.folder / name
            if not named.is_symlink():
                named.symlink_to(f"..data/{name}")
        swapped = self.folder / "..data_tmp"
        swapped.symlink_to(fresh.name)
        swapped.rename(data)
        if before is not None:
            shutil.rmtree(before)
