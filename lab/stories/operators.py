"""
An operator such as keeps connectors as they were declared: what somebody stops or edits over REST
it sets back when it next looks, whoever that was and whatever for.
"""

import threading
from contextlib import suppress
from typing import Self

from lab.cluster.connector_configs import Config
from lab.cluster.lab import Lab
from lab.errors import LabError
from lab.waiting import NotYet

# So seldom that a stop is seen by others first, and so often that nothing takes longer than that.
RECONCILES_S = 3.0
_GONE_S_MAX = 60.0


class Operator:
    """
    Of one connector, declared to run with this configuration. A context manager; a thread of its
    own in between. `times` is how often it has set something back.
    """

    def __init__(self, lab: Lab, connector: str, config: Config) -> None:
        self.times = 0
        self._lab = lab
        self._connector = connector
        self._config = {"name": connector, **config}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="lab-operator", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._over.set()
        self._thread.join(_GONE_S_MAX)

    def has_set_back(self) -> None:
        """NotYet before it has, once at least."""
        if not self.times:
            raise NotYet("nothing was set back")

    def _work(self) -> None:
        while not self._over.wait(RECONCILES_S):
            # While others rebalance it is not heard, and tries again.
            with suppress(LabError, NotYet):
                self._reconcile()

    def _reconcile(self) -> None:
        if self._lab.configuration(self._connector) != self._config:
            self._lab.create(self._connector, self._config)
            self.times += 1
        if self._lab.status(self._connector)["connector"]["state"] == "STOPPED":
            self._lab.resume(self._connector)
            self.times += 1
