"""Others who change what we look after: people at a keyboard, and operators that put things back.

What they do goes through the same REST API, and is told apart by its name alone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tests.fakes.connect_model.timeline import Steps
from tests.fakes.connect_model.transports import Door

if TYPE_CHECKING:
    from tests.fakes.connect_model.cluster import FakeConnect


class OutsideClient:
    """Somebody with REST access. Each call takes as long as the answer takes."""

    def __init__(self, connect: FakeConnect, who: str = "alice") -> None:
        self._connect, self._door = connect, Door(connect, who)

    def stop(self, name: str) -> int:
        return self._request("PUT", name, "/stop")

    def pause(self, name: str) -> int:
        return self._request("PUT", name, "/pause")

    def resume(self, name: str) -> int:
        return self._request("PUT", name, "/resume")

    def restart(self, name: str) -> int:
        return self._request("POST", name, "/restart?includeTasks=true&onlyFailed=false")

    def edit(self, name: str, **changes: str | None) -> int:
        """Settings by their names with `_` for `.`; None takes one away."""
        reply = self._door.request("GET", f"{_path(name)}/config")
        config = json.loads(reply.body)
        for key, value in changes.items():
            config.pop(key.replace("_", "."), None)
            if value is not None:
                config[key.replace("_", ".")] = value
        return self._request("PUT", name, "/config", config)

    def alter(self, name: str, *pairs: tuple[Any, Any]) -> int:
        entries = [{"partition": partition, "offset": offset} for partition, offset in pairs]
        return self._request("PATCH", name, "/offsets", {"offsets": entries})

    def reset(self, name: str) -> int:
        return self._request("DELETE", name, "/offsets")

    def create(self, name: str, config: dict[str, str], state: str = "RUNNING") -> int:
        body = {"name": name, "config": config, "initial_state": state}
        return self._door.request("POST", "/connectors", json.dumps(body).encode()).status

    def delete(self, name: str) -> int:
        return self._request("DELETE", name, "")

    def recreate(self, name: str) -> int:
        """Delete it and create it again as it was: another connector, the same offsets."""
        config = json.loads(self._door.request("GET", f"{_path(name)}/config").body)
        self.delete(name)
        self._connect.advance(1.0)
        return self.create(name, config)

    def _request(self, method: str, name: str, what: str, body: Any = None) -> int:
        sent = b"" if body is None else json.dumps(body).encode()
        return self._door.request(method, f"{_path(name)}{what}", sent).status


class Operator:
    """Puts a connector back to the state that its own resource says, again and again."""

    def __init__(
        self, connect: FakeConnect, name: str, *, state: str = "RUNNING", every_s: float = 120.0
    ) -> None:
        self._connect, self._name, self._state = connect, name, state
        self._person = OutsideClient(connect, "operator")
        self.paused = False
        connect.line.spawn(self._run(every_s), f"operator of {name}")

    def _run(self, every_s: float) -> Steps:
        while True:
            yield every_s
            status = self._connect.statuses.get(self._name)
            if self.paused or status is None or status.connector.state == self._state:
                continue
            verb = {"RUNNING": "resume", "PAUSED": "pause", "STOPPED": "stop"}[self._state]
            getattr(self._person, verb)(self._name)


def _path(name: str) -> str:
    return f"/connectors/{quote(name, safe='')}"
