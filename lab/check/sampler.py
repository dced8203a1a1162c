"""What the daemon serves, all of it, once a second: the claims of a chaos run."""

import threading
import time

import httpx

from lab.check import verdicts
from lab.http import NO_AUTHORITIES

SAMPLE_EVERY_S = 1.0
ANSWER_S_MAX = 5.0


class Sampler:
    """Asks the daemon for everything, once a second, in a thread of its own; keeps all claims."""

    def __init__(self, url: str) -> None:
        self.claims: list[verdicts.Claim] = []
        self.samples = 0
        self.unanswered = 0
        self._url = url
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lab-sampler", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the thread lives; false before start() and after what it could not read."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End, after the sample under way."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        with httpx.Client(trust_env=False, timeout=ANSWER_S_MAX, verify=NO_AUTHORITIES) as http:
            while not self._ended.is_set():
                began = time.monotonic()
                self._sample(http)
                self._ended.wait(max(0.0, SAMPLE_EVERY_S - (time.monotonic() - began)))

    def _sample(self, http: httpx.Client) -> None:
        claims: list[verdicts.Claim] = []
        try:
            for path in ("/api/v1/connectors", "/api/v1/flows", "/metrics"):
                requested_at = time.time()
                answer = http.get(self._url + path)
                answer.raise_for_status()
                claims += _claims(path, answer, requested_at, time.time())
        except (httpx.TransportError, httpx.HTTPStatusError):
            self.unanswered += 1
        else:
            self.samples += 1
        self.claims += claims


def _claims(
    path: str, answer: httpx.Response, requested_at: float, answered_at: float
) -> list[verdicts.Claim]:
    if path == "/metrics":
        return verdicts.of_metrics(answer.text, requested_at, answered_at)
    make = verdicts.of_flows if path.endswith("flows") else verdicts.of_connectors
    return make(answer.json(), requested_at, answered_at)
