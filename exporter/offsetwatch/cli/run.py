"""The verb `run`: the daemon. Tables are never drawn here, and nothing large is loaded early."""

from __future__ import annotations

import faulthandler
from pathlib import Path

from offsetwatch.cli.common.light_imports import block_drawing_imports
from offsetwatch.daemon import tuning


def run_daemon(config_path: Path) -> int:
    """Run the daemon; return the exit code."""
    tuning.tune_memory()  # before the daemon's modules are loaded
    # Where a library written in C ends the process, only this says what each thread was doing.
    faulthandler.enable()
    with block_drawing_imports():
        from offsetwatch import config  # noqa: PLC0415
        from offsetwatch.cli.common.logging import configure_logging  # noqa: PLC0415
        from offsetwatch.daemon import run as daemon  # noqa: PLC0415
        from offsetwatch.disk import hash_file_stamp  # noqa: PLC0415

        file_stamp = hash_file_stamp(config_path)  # before it is read: it may change
        loaded = config.load(config_path)
        configure_logging(loaded.log.level, loaded.log.format)
        return daemon.run(loaded, config_path, file_stamp)
