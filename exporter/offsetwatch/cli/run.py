"""The verb `run`: the daemon. Tables are never drawn here, and nothing large is loaded early."""

from __future__ import annotations

import faulthandler
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from offsetwatch.daemon import tuning


def run_daemon(config_path: Path) -> int:
    """Run the daemon; return the exit code."""
    tuning.tune_memory()  # before the daemon's modules are loaded
    # Where a library written in C ends the process, only this says what each thread was doing.
    faulthandler.enable()
    with _block_drawing_imports():
        from offsetwatch import config  # noqa: PLC0415
        from offsetwatch.cli.common.logging import configure_logging  # noqa: PLC0415
        from offsetwatch.daemon import run as daemon  # noqa: PLC0415

        loaded = config.load(config_path)
        configure_logging(loaded.log.level, loaded.log.format)
        return daemon.run(loaded, config_path)


@contextmanager
def _block_drawing_imports() -> Iterator[None]:
    """Block the import of pygments and rich, for a verb that draws nothing.

    structlog and httpx import both where they are installed, for features that are not used here.
    They are a tenth of all imports.
    """
    drawing = ("pygments", "rich")
    loaded = {name: sys.modules[name] for name in drawing if name in sys.modules}
    # None: importing it fails, and both of them do without.
    sys.modules.update(dict.fromkeys(drawing))  # type: ignore[arg-type]  # typeshed leaves None out
    try:
        yield
    finally:
        for name in drawing:
            del sys.modules[name]
        sys.modules.update(loaded)
