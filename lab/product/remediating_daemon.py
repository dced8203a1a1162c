"""
A daemon that may act beside a lab: what it may is in its configuration, and a person, an alert and
a recorder stand around it.

What it decides is read from its journal, and what it does from the recorder: its word and its
deeds, apart from each other.
"""

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from lab.cluster.build import WORKERS
from lab.cluster.lab import Lab
from lab.errors import LabError
from lab.faults.recording_proxy import Exchange, Recorder
from lab.http import NO_AUTHORITIES
from lab.processes.ports import LOOPBACK, free_port
from lab.product.offsetwatch import Product
from lab.waiting import NotYet, until

# How long a test waits for the next thing that has to come about. A skip waits a quarter of a
# minute by design, and several daemons share the machine.
COMES_S_MAX = 180.0
LINES_MAX = 1000
PERSON, COLLEAGUE, ALERTS = "operator", "colleague", "alertmanager"

Json = dict[str, Any]
Record = Json

# Whatever waits for minutes or hours in production, so that people can look first, waits for
# nothing here; whatever makes a change safe is as it always is.
SHORTENED: Mapping[str, object] = {
    "repeat": {"failures": 2, "span_s": 0, "restarts": 1},
    "alert_before_s": 0,
    "start_grace_s": 0,
    "cool_down_s": 0,
    "probation_s": 5,
}

CONFIG = """\
kafka:
  east: {{bootstrap: "{east}"}}
  west: {{bootstrap: "{west}"}}
connect:
  - name: lab
    kafka: east
    url: "{connect}"
    # Named, as sinks alone do not tell which topic is their cluster's.
    offsets_topic: connect-offsets
    status_topic: connect-status
    connectors: {{include: {connectors}}}
    poll: {{state_s: 1.0, groups_s: 1.0, offsets_s: 10.0, timeout_s: 5.0}}
{more}{files}"""
WORKER_FILES = """\
    worker_properties_file: {properties}
    worker_logs: [{log}]
"""


class Guarded:
    """
    One daemon that sees these connectors of a lab and no others. `start()`, then `stop()`.

    `connectors` are regular expressions. `remedy` is that section of the configuration, what makes
    waiting short is in it already. With `worker_files` it reads the properties and the log of the
    first worker. `connect` is more of the entry of that name, `sources` the section of that name.
    Its methods may be called from several threads at once.
    """

    def __init__(
        self,
        lab: Lab,
        *,
        directory: Path,
        connectors: Sequence[str],
        remedy: Mapping[str, object],
        interval_s: float = 3.0,
        worker_files: bool = False,
        connect: Mapping[str, object] | None = None,
        sources: Sequence[Mapping[str, object]] = (),
    ) -> None:
        worker = lab.directory / WORKERS[0]
        files = WORKER_FILES.format(
            properties=worker.with_suffix(".properties"), log=worker.with_suffix(".log")
        )
        self.recorder = Recorder(lab.connect_urls[0])
        self.control_url = f"http://{LOOPBACK}:{free_port()}"
        roles = {PERSON: "operator", COLLEAGUE: "approver", ALERTS: "hook"}
        self._tokens = {name: secrets.token_hex(32) for name in roles}
        self._stem = CONFIG.format(
            east=lab.east,
            west=lab.west,
            connect=self.recorder.url,
            connectors=json.dumps(list(connectors)),
            files=files if worker_files else "",
            more="".join(f"    {name}: {json.dumps(at)}\n" for name, at in (connect or {}).items()),
        )
        self._rest: Json = {
            "tick_s": 0.2,
            "ends_s": 1.0,
            "judge": {"interval_s": interval_s},
            "state_dir": str(directory / "state"),
            "sources": list(sources),
            "control": {
                "listen": self.control_url.removeprefix("http://"),
                "tokens": [
                    {"name": name, "role": role, "token_sha256": _sha256(self._tokens[name])}
                    for name, role in roles.items()
                ],
            },
        }
        self.product = Product(
            lab,
            directory=directory,
            port=free_port(),
            config=self._stem,
            extra=self._extra(remedy),
        )
        self._http = httpx.Client(
            base_url=self.control_url, timeout=30.0, trust_env=False, verify=NO_AUTHORITIES
        )

    def start(self) -> None:
        """Begin to watch; returns when the daemon is ready."""
        self.recorder.start()
        self.product.start_daemon(ready=False)
        self.product.wait_ready(COMES_S_MAX)

    def stop(self) -> None:
        """End the daemon, then the recorder."""
        self.product.stop()
        self.recorder.stop()
        self._http.close()

    def reconfigure(self, remedy: Mapping[str, object]) -> None:
        """Another `remedy:` from now on; the daemon has taken it over when this returns."""
        listen = self.product.url.removeprefix("http://")
        self.product.config.write_text(f'{self._stem}listen: "{listen}"\n{self._extra(remedy)}')
        answer = httpx.post(
            f"{self.product.url}/-/reload", trust_env=False, timeout=90.0, verify=NO_AUTHORITIES
        )
        if answer.status_code != httpx.codes.OK:
            raise LabError(f"reload: HTTP {answer.status_code} {answer.text[:500]}")

    # ---- a person -----------------------------------------------------------------------------

    def plans(self, connector: str) -> list[Json]:
        """All plans for a connector, newest first."""
        result = self._call("GET", "/api/v1/plans").json()["plans"]
        return [row for row in result if row["connector"] == connector]

    def approve(self, plan: Json, by: str = PERSON) -> None:
        """As it was looked at. Whoever asked for it has a COLLEAGUE do that."""
        because = "looked at it"
        body = {"plan_sha256": plan["sha256"], "because": because}
        self._call("POST", f"/api/v1/plans/{plan['plan_id']}/approve", body, by=by)

    def request_plan(self, request: Json, key: str) -> httpx.Response:
        """A plan of a person's own: whatever comes back."""
        return self._request("POST", "/api/v1/plans", PERSON, request, {"Idempotency-Key": key})

    def token_file(self, by: str) -> Path:
        """A file that nobody else may read, with the token of PERSON or ALERTS."""
        path = self.product.directory / f"{by}.token"
        path.touch(mode=0o600)
        path.write_text(self._tokens[by])
        return path

    def cli(self, *arguments: str, status: int = 0) -> str:
        """A verb on the daemon's host, with its configuration."""
        return self.product.cli(*arguments, status=status, timeout_s=COMES_S_MAX)

    # ---- an alert -----------------------------------------------------------------------------

    def alert(
        self,
        connector: str,
        *,
        token: str | None = None,
        fingerprint: str = "0123456789abcdef",
        name: str = "ConnectorTroubled",
    ) -> httpx.Response:
        """What an Alertmanager posts of a connector; whatever comes back."""
        labels = {"alertname": name, "connect_cluster": "lab", "connector": connector}
        payload = {
            "version": "4",
            "groupKey": f'{{}}:{{alertname="{name}"}}',
            "truncatedAlerts": 0,
            "status": "firing",
            "receiver": "offsetwatch",
            "groupLabels": {"alertname": name},
            "commonLabels": labels,
            "commonAnnotations": {},
            "externalURL": "http://alertmanager.invalid",
            "alerts": [
                {
                    "status": "firing",
                    "labels": labels,
                    "annotations": {"summary": "stop it"},
                    "startsAt": "2026-01-31T10:00:00.000Z",
                    "endsAt": "0001-01-01T00:00:00Z",
                    "generatorURL": "http://prometheus.invalid/graph",
                    "fingerprint": fingerprint,
                }
            ],
        }
        used = self._tokens[ALERTS] if token is None else token
        return self._http.post(
            "/api/v1/hooks/alertmanager", json=payload, headers={"Authorization": f"Bearer {used}"}
        )

    @property
    def operator_token(self) -> str:
        """Of the operator; no alert may come with it."""
        return self._tokens[PERSON]

    # ---- what it says, and what it did --------------------------------------------------------

    def journal(self) -> list[Record]:
        """All records in order, each with the plan that it is of."""
        results: list[Record] = []
        while True:
            path = f"/api/v1/journal?from_seq={len(results) + 1}"
            lines = self._call("GET", path).text.splitlines()
            results += [
                {"plan_id": line["plan_id"], **line["record"]} for line in map(json.loads, lines)
            ]
            if len(lines) < LINES_MAX:
                return results

    def of(self, connector: str) -> list[Record]:
        """The records of a connector: its plans', and what was seen and refused of it."""
        own = {row["plan_id"] for row in self.plans(connector)}
        return [
            entry
            for entry in self.journal()
            if entry.get("connector") == connector or entry["plan_id"] in own
        ]

    def awaits(self, connector: str, what: str, choose: Callable[[Record], object]) -> Record:
        """The first record of a connector that is chosen, once there is one."""

        def probe() -> Record:
            report = self.of(connector)
            for record in report:
                if choose(record):
                    return record
            raise NotYet("; ".join(map(brief, report[-6:])) or "nothing yet")

        return until(
            f"{connector}: {what}", probe, timeout_s=COMES_S_MAX, evidence=self.product.evidence
        )

    def proposed(self, connector: str, action: str, *, after: str = "") -> Json:
        """The newest plan of this action, other than `after`, that waits for somebody."""

        def probe() -> Json:
            rows = self.plans(connector)
            for row in rows:
                reports = (row["action"], row["state"])
                if reports == (action, "proposed") and row["plan_id"] != after:
                    return row
            raise NotYet("; ".join(map(brief, self.of(connector)[-6:])) or str(rows))

        what = f"{connector}: {action} is proposed"
        return until(what, probe, timeout_s=COMES_S_MAX, evidence=self.product.evidence)

    def ended(self, plan: Json) -> Record:
        """How a plan ended or lapsed, once it has."""
        over = {"ended", "lapsed", "parked", "rejected"}
        chosen = lambda item: item["plan_id"] == plan["plan_id"] and item["record"] in over  # noqa: E731
        return self.awaits(plan["connector"], f"the end of {plan['plan_id']}", chosen)

    def refused(self, connector: str, guard: str) -> Record:
        """The first refusal in which this guard, or this reason for no plan, does not pass."""

        def chosen(entry: Record) -> bool:
            return entry["record"] == "refused" and guard in reasons(entry)

        return self.awaits(connector, f"refused for {guard}", chosen)

    def changes(self, connector: str) -> list[Exchange]:
        """What was asked of Connect for a connector that is more than a look."""
        return self.recorder.changes(connector)

    # ---- small help ---------------------------------------------------------------------------

    def _extra(self, remedy: Mapping[str, object]) -> str:
        section = {**SHORTENED, **remedy}
        return "".join(
            f"{name}: {json.dumps(value)}\n"
            for name, value in {**self._rest, "remedy": section}.items()
        )

    def _call(
        self, method: str, path: str, body: Json | None = None, *, by: str = PERSON
    ) -> httpx.Response:
        answer = self._request(method, path, by, body)
        if answer.is_error:
            raise LabError(f"{method} {path}: HTTP {answer.status_code} {answer.text[:1000]}")
        return answer

    def _request(
        self,
        method: str,
        path: str,
        by: str,
        body: Json | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        sent = {"Authorization": f"Bearer {self._tokens[by]}", **(headers or {})}
        return self._http.request(method, path, json=body, headers=sent)


def reasons(refused: Record) -> dict[str, str]:
    """What spoke against it: what each said, by guard; `no_plan`'s by its own first word, too."""
    results = {
        answer["guard"]: answer["said"]
        for answer in refused["answers"]
        if answer["answer"] != "pass"
    }
    if "no_plan" in results:
        results[results["no_plan"].partition(":")[0]] = results["no_plan"]
    return results


def brief(record: Record) -> str:
    """A record in a few words, for whoever waits in vain."""
    answer = record.get("said") or ""
    if record["record"] == "refused":
        answer = f"{record['action']} {sorted(reasons(record))}"
    return f"{record['record']} {answer}"[:300]


def _sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
