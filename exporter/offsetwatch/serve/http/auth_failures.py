"""How often an address has failed to say who it is. Both listeners count with it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

FAILURES_MAX: Final = 10  # of one address
WINDOW_S: Final = 60.0
_ADDRESSES_MAX: Final = 1024  # beyond it the oldest is forgotten


class AuthFailureCounter:
    """How often an address has failed to say who it is, in the last minute.

    Beyond the bound it is told 429 and nothing is logged. A right token is let in all the same: an
    address may be that of a proxy or of this machine, and who must stop something now cannot be
    locked out by a neighbour. A token of 128 bits is not guessed at any rate.
    """

    def __init__(self) -> None:
        self._windows: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def again(self, address: str, now: float) -> bool:
        """Count one. True if it is one too many."""
        begun_at, count = self._windows.pop(address, (now, 0))
        if not begun_at <= now < begun_at + WINDOW_S:
            begun_at, count = now, 0
        self._windows[address] = (begun_at, count + 1)
        if len(self._windows) > _ADDRESSES_MAX:
            self._windows.popitem(last=False)
        return count >= FAILURES_MAX

    def take_back(self, address: str) -> None:
        """One that was counted before it was known to be none."""
        if address in self._windows:
            begun_at, count = self._windows[address]
            self._windows[address] = (begun_at, max(count - 1, 0))
