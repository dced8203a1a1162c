"""Imports without pygments and rich, which structlog and httpx load where they are installed.

They load them for features that are not used here. That is a tenth of all imports of a verb.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_DRAWING: Final[tuple[str, ...]] = ("pygments", "rich")


@contextmanager
def block_drawing_imports() -> Iterator[None]:
    """Block the import of pygments and rich; they can be imported again afterwards."""
    loaded = {name: sys.modules[name] for name in _DRAWING if name in sys.modules}
    # None: importing it fails, and both of them do without.
    sys.modules.update(dict.fromkeys(_DRAWING))  # type: ignore[arg-type]  # typeshed leaves None out
    try:
        yield
    finally:
        for name in _DRAWING:
            del sys.modules[name]
        sys.modules.update(loaded)
