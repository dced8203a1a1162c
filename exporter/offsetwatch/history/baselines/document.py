"""Baselines document on disk, written by baselines/job.py and read by the daemon, without Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from offsetwatch.disk import sync_folder
from offsetwatch.errors import HistoryError
from offsetwatch.history.tables.pipeline_status import read_bounded
from offsetwatch.model.baselines import (
    Baselines,
    DamagedBaselines,
    decode_baselines,
    encode_baselines,
)

BYTES_MAX: Final = 256 * 1024 * 1024


def path_of(base: Path) -> Path:
    """Return the path of the document below the base folder."""
    return base / "ops" / "baselines.json"


def read_baselines(base: Path) -> Baselines | None:
    """Return the newest document; None where there is none.

    Raises HistoryError for one that cannot be read or is damaged.
    """
    path = path_of(base)
    raw = read_bounded(path, BYTES_MAX)
    if raw is None:
        return None
    if len(raw) > BYTES_MAX:
        raise HistoryError(f"{path} is larger than {BYTES_MAX} bytes")
    try:
        return decode_baselines(raw)
    except DamagedBaselines as exc:
        raise HistoryError(f"{path} is damaged: {exc}") from exc


def publish(base: Path, found: Baselines) -> None:
    """Replace the document as a whole. Raises HistoryError; the old document then remains."""
    path = path_of(base)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")  # two may learn at once
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            file.write(encode_baselines(found))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
    except OSError as exc:
        raise HistoryError(f"{path} cannot be written: {exc.strerror}") from exc
