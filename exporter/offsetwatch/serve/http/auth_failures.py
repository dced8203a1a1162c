"""A counter of failed authentications by client address, used by both listeners."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

FAILURES_MAX: Final = 10  # of one address
WINDOW_S: Final = 60.0
_ADDRESSES_MAX: Final = 1024  # beyond it the oldest is forgotten


class AuthFailureCounter:
    """Failed authentications of each address in a window of WINDOW_S seconds.

    Beyond FAILURES_MAX an address gets 429, and nothing is logged. A valid token is accepted all
    the same: the address may be that of a proxy or of this machine, and another client must not
    lock out an operator who has to stop something. A token of 128 bits cannot be guessed at any
    rate.
    """

    def __init__(self) -> None:
        self._windows: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def again(self, address: str, now: float) -> bool:
        """Count a failure; return True if it exceeds FAILURES_MAX."""
        begun_at, count = self._windows.pop(address, (now, 0))
        if not begun_at <= now < begun_at + WINDOW_S:
            begun_at, count = now, 0
        self._windows[address] = (begun_at, count + 1)
        if len(self._windows) > _ADDRESSES_MAX:
            self._windows.popitem(last=False)
        return count >= FAILURES_MAX

    def take_back(self, address: str) -> None:
        """Remove a failure that was counted before the authentication succeeded."""
        if address in self._windows:
            begun_at, count = self._windows[address]
            self._windows[address] = (begun_at, max(count - 1, 0))
