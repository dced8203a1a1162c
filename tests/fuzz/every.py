"""All targets, by name."""

from __future__ import annotations

from typing import Final

from tests.fuzz import topics
from tests.fuzz.targets import Target

TARGETS: Final[dict[str, Target]] = {at.name: at for at in topics.TARGETS}
