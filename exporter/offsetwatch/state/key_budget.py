"""Budget of memory for the keys of an internal topic.

A number of keys alone is no limit where others choose the keys: a hundred of them may have a
megabyte each. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

# Of a key on average. A source partition's has a hundred bytes or two.
KEY_BYTES: Final = 1024
BYTES_MIN: Final = 1024 * 1024  # that may be taken even where few keys are allowed


@dataclass(slots=True)
class KeyBudget:
    """Budget of at most `keys_max` keys and, in all, KEY_BYTES for each of these.

    It has at least BYTES_MIN bytes.
    """

    keys_max: int
    keys: int = 0
    size: int = 0
    size_max: int = field(init=False)

    def __post_init__(self) -> None:
        self.size_max = max(BYTES_MIN, self.keys_max * KEY_BYTES)

    def admits(self, size: int) -> bool:
        """Return whether there is room for one more key of so many bytes."""
        return self.keys < self.keys_max and self.admits_bytes(size)

    def admits_bytes(self, size: int) -> bool:
        """Return whether there is room for so many bytes more of a key that is counted already."""
        return self.size + size <= self.size_max

    def take(self, size: int) -> bool:
        """Count one more key of so many bytes, if there is room; return whether there was."""
        if not self.admits(size):
            return False
        self.add(size)
        return True

    def add(self, size: int, keys: int = 1) -> None:
        """Count keys with so many bytes together."""
        self.keys += keys
        self.size += size

    def remove(self, size: int, keys: int = 1) -> None:
        """Subtract keys that were counted."""
        self.add(-size, -keys)
