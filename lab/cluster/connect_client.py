"""
The part of Connect's REST API a lab drives its own workers with.

This is not the exporter's client and shares nothing with it: a test bed that used the code under
test would hide that code's mistakes.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import httpx

from lab.errors import LabError
from lab.http import NO_AUTHORITIES
from lab.waiting import NotYet, until

# Connect answers within its own 90 s or not at all.
REQUEST_S_MAX = 100.0
# 409 (rebalancing, no leader yet, stale config) and refused connections pass by themselves.
SETTLE_S_MAX = 60.0
TRACE_CHARS_MAX = 1500
REBALANCE = "Request cannot be completed because a rebalance is expected"

Json = Any


class ConnectApi:
    """Requests to whichever worker answers, repeated while the cluster is rebalancing."""

    def __init__(self, urls: Sequence[str], auth: tuple[str, str] | None = None) -> None:
        self._urls = tuple(urls)
        self._http = httpx.Client(
            timeout=REQUEST_S_MAX, trust_env=False, auth=auth, verify=NO_AUTHORITIES
        )

    def close(self) -> None:
        """Drop the connections; further calls fail."""
        self._http.close()

    def check_ready(self, url: str) -> None:
        """
        NotYet until that worker is healthy by its own account.

        A 200 for /connectors is no proof: it comes while the worker still reads its topics, when
        every connector seems to be absent.
        """
        try:
            answer = self._http.get(f"{url}/health")
        except httpx.TransportError as exc:
            raise NotYet(f"{type(exc).__name__}: {exc}") from exc
        if answer.status_code != httpx.codes.OK:
            raise NotYet(f"HTTP {answer.status_code} {answer.text[:200]}")

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """Create or reconfigure."""
        self._request("PUT", name, "/config", body=dict(config))

    def add(self, name: str, config: Mapping[str, str]) -> None:
        """Create under a name that is in no path: Kafka 4 refuses some in paths, and not here."""
        self._request("POST", None, "", body={"name": name, "config": dict(config)})

    def delete(self, name: str) -> None:
        """Delete; the connector may stay listed for a moment (check_gone)."""
        self._request("DELETE", name, "")

    def transition(self, name: str, verb: str) -> None:
        """`stop`, `pause` or `resume`; answered before anything has happened."""
        self._request("PUT", name, f"/{verb}")

    def restart(self, name: str) -> None:
        """Restart the connector and all its tasks, failed or not."""
        self._request("POST", name, "/restart?includeTasks=true")

    def configuration(self, name: str) -> dict[str, str]:
        """What it was created with."""
        return dict(self._request("GET", name, "/config").json())

    def offsets(self, name: str) -> list[Json]:
        """What a task would load now."""
        answer = self._request("GET", name, "/offsets").json()
        return list(answer["offsets"])

    def alter_offsets(self, name: str, offsets: list[Json]) -> None:
        """Overwrite offsets of a stopped connector (KIP-875); what is not named stays."""
        self._request("PATCH", name, "/offsets", body={"offsets": offsets})

    def reset_offsets(self, name: str) -> None:
        """Forget all offsets of a stopped connector."""
        self._request("DELETE", name, "/offsets")

    def status(self, name: str) -> Json:
        """The status document; NotYet when there is none, as just after creation."""
        try:
            answer = self._any_worker("GET", _path(name, "/status"), body=None)
        except httpx.TransportError as exc:
            raise NotYet(f"no worker answers: {type(exc).__name__}: {exc}") from exc
        if answer.status_code != httpx.codes.OK:
            raise NotYet(f"HTTP {answer.status_code} {answer.text[:200]}")
        return answer.json()

    def check_state(self, name: str, state: str, *, tasks_min: int) -> None:
        """NotYet unless the connector and each of its tasks are in that state."""
        status = self.status(name)
        states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
        if set(states) != {state} or len(status["tasks"]) < tasks_min:
            raise NotYet(_describe(status))

    def check_stopped(self, name: str) -> None:
        """NotYet unless STOPPED with no task left; STOPPED alone comes first, tasks linger."""
        status = self.status(name)
        if status["connector"]["state"] != "STOPPED" or status["tasks"]:
            raise NotYet(_describe(status))

    def check_gone(self, name: str) -> None:
        """NotYet while any worker lists the connector."""
        try:
            answer = self._any_worker("GET", "/connectors", body=None)
        except httpx.TransportError as exc:
            raise NotYet(f"no worker answers: {type(exc).__name__}: {exc}") from exc
        if answer.status_code != httpx.codes.OK or name in answer.json():
            raise NotYet(f"HTTP {answer.status_code} {answer.text[:200]}")

    def _request(
        self, method: str, name: str | None, path: str, *, body: Json | None = None
    ) -> httpx.Response:
        def attempt() -> httpx.Response:
            try:
                answer = self._any_worker(method, _path(name, path), body=body)
            except httpx.TransportError as exc:
                raise NotYet(f"no worker answers: {type(exc).__name__}: {exc}") from exc
            # Some questions meet a rebalance as a 500 with these words, and not as a 409.
            if answer.status_code == httpx.codes.CONFLICT or REBALANCE in answer.text:
                raise NotYet(f"HTTP {answer.status_code} {answer.text[:200]}")
            return answer

        answer = until(f"{method} {name}{path}", attempt, timeout_s=SETTLE_S_MAX)
        if answer.is_error:
            text = answer.text[:TRACE_CHARS_MAX]
            raise LabError(f"{method} {name}{path}: HTTP {answer.status_code} {text}")
        return answer

    def _any_worker(self, method: str, path: str, *, body: Json | None) -> httpx.Response:
        for url in self._urls[:-1]:
            try:
                return self._http.request(method, url + path, json=body)
            except httpx.ConnectError:
                # No connection, so nothing happened there; the next worker may be alive.
                continue
        return self._http.request(method, self._urls[-1] + path, json=body)


def _path(name: str | None, path: str) -> str:
    if name is None:
        return f"/connectors{path}"
    return f"/connectors/{quote(name, safe='')}{path}"


def _describe(status: Json) -> str:
    parts = [f"connector {status['connector']['state']}"]
    parts += [f"task {task['id']} {task['state']}" for task in status["tasks"]] or ["no task"]
    traces = [part["trace"] for part in (status["connector"], *status["tasks"]) if "trace" in part]
    return "\n".join([", ".join(parts), *(trace[:TRACE_CHARS_MAX] for trace in traces)])
