"""
What a lab does with connectors: each verb waits until it holds, unless it says otherwise.

A part of Lab (lab.py), which gives it the REST API and the way to wait.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from lab.cluster.connect_client import ConnectApi

T = TypeVar("T")

SETTLE_S_MAX = 60.0


class ConnectorVerbs(ABC):
    """See the module. Names are those of connectors on the lab's first Connect cluster."""

    @abstractmethod
    def _api(self) -> ConnectApi: ...

    @abstractmethod
    def _await(
        self, what: str, probe: Callable[[], T], *, timeout_s: float = SETTLE_S_MAX
    ) -> T: ...

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector or replace its configuration; does not wait for it to run."""
        self._api().create(name, config)

    def add(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector of any name, also of one that cannot be asked for by a path; does not
        wait for it to run.
        """
        self._api().add(name, config)

    def delete(self, name: str) -> None:
        """Delete a connector and wait until it is no longer listed; its offsets remain."""
        self._api().delete(name)
        self._await(f"deletion of {name}", lambda: self._api().check_gone(name))

    def stop_connector(self, name: str) -> None:
        """Stop a connector and wait until it is STOPPED and has no task."""
        self._api().transition(name, "stop")
        self._await(f"stop of {name}", lambda: self._api().check_stopped(name))

    def pause(self, name: str, *, tasks_min: int = 1) -> None:
        """Pause a connector and wait until it is, with its tasks; they stay, and do nothing. One
        that was stopped has none.
        """
        self._api().transition(name, "pause")
        self._await(
            f"pause of {name}", lambda: self._api().check_state(name, "PAUSED", tasks_min=tasks_min)
        )

    def request_pause(self, name: str) -> None:
        """Pause a connector; does not wait, as a task that has failed stays so."""
        self._api().transition(name, "pause")

    def resume(self, name: str) -> None:
        """Resume a paused or stopped connector; does not wait, as it may be meant to fail."""
        self._api().transition(name, "resume")

    def restart(self, name: str) -> None:
        """Restart a connector and all its tasks; does not wait."""
        self._api().restart(name)

    def wait_running(self, name: str, timeout_s: float = SETTLE_S_MAX) -> None:
        """
        Wait until the connector and all of its tasks, one at least, are RUNNING.

        What counts is the status Connect has on record: just after a crash that is the state from
        before it, until the cluster has noticed.
        """
        self._await(
            f"{name} running",
            lambda: self._api().check_state(name, "RUNNING", tasks_min=1),
            timeout_s=timeout_s,
        )

    def status(self, name: str) -> dict[str, Any]:
        """Connect's status document for a connector."""
        result: dict[str, Any] = self._await(f"status of {name}", lambda: self._api().status(name))
        return result

    def configuration(self, name: str) -> dict[str, str]:
        """What a connector was created with."""
        return self._api().configuration(name)

    def offsets(self, name: str) -> list[dict[str, Any]]:
        """The connector's offsets as REST gives them: a list of {"partition": …, "offset": …}."""
        return self._api().offsets(name)

    def alter_offsets(self, name: str, offsets: list[dict[str, Any]]) -> None:
        """Overwrite offsets of a stopped connector; same shape as offsets() gives."""
        self._api().alter_offsets(name, offsets)

    def reset_offsets(self, name: str) -> None:
        """Make a stopped connector forget all its offsets."""
        self._api().reset_offsets(name)
