"""
A Prometheus and an Alertmanager beside a daemon, with the alerts of this repository.

The rules are those under alerts/, and their expressions are not touched: only what they wait for is
shortened, as in_seconds() says. What names a connector is posted to the daemon's control listener,
as docs/remediation.md has it configured.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import httpx

from lab.errors import LabError
from lab.http import NO_AUTHORITIES
from lab.processes.child import Child
from lab.processes.ports import LOOPBACK, free_port
from lab.waiting import NotYet, until
from tools.alertmanager import program
from tools.debian import ToolError
from tools.promtool import binaries

RULES: Final = Path(__file__).parents[2] / "alerts"
HOOK: Final = "/api/v1/hooks/alertmanager"
COMES_S_MAX: Final = 120.0

PROMETHEUS: Final = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: ["rules/*.rules.yaml"]
scrape_configs:
  - job_name: offsetwatch
    static_configs: [{{targets: ["{scraped}"]}}]
alerting:
  alertmanagers:
    - static_configs: [{{targets: ["{alertmanager}"]}}]
"""
# Nobody is called at night by a lab; whoever is on call elsewhere is told of everything.
ALERTMANAGER: Final = """\
route:
  receiver: on-call
  group_by: [alertname, connect_cluster, connector]
  routes:
    - receiver: offsetwatch
      matchers: ['connector=~".+"']
      group_wait: 1s
      group_interval: 1s
      continue: true
    - receiver: on-call
receivers:
  - name: on-call
  - name: offsetwatch
    webhook_configs:
      - url: {url}
        send_resolved: true
        http_config: {{authorization: {{credentials_file: {token_file}}}}}
"""

_WAITS = re.compile(r"^(\s+(?:for|keep_firing_for): )(\d+)([hm])$", re.MULTILINE)
_SHORTER = {"h": "m", "m": "s"}

Json = dict[str, Any]
T = TypeVar("T")


def in_seconds(rules: str) -> str:
    """
    A rule file that waits for a second where it would wait for a minute (and a minute for an hour).

    These two settings alone: `for` and `keep_firing_for`. Windows inside of expressions stay, so
    an alert that looks back for minutes still does.
    """
    return _WAITS.sub(lambda item: f"{item[1]}{item[2]}{_SHORTER[item[3]]}", rules)


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert, as Prometheus or Alertmanager tell it. state: pending, firing, active, …"""

    name: str
    state: str
    labels: Json
    annotations: Json

    @property
    def connector(self) -> str:
        """The connector that it names; empty without one."""
        return str(self.labels.get("connector", ""))


class Alerting:
    """
    See the module. A context manager, or start() and stop().

    scraped     the daemon's address
    control     its control listener's; without one there is no Alertmanager, and nobody is told
    token_file  of somebody there whose role is `hook`
    """

    def __init__(
        self,
        *,
        directory: Path,
        scraped: str,
        control: str | None = None,
        token_file: Path | None = None,
    ) -> None:
        self.prometheus = f"http://{LOOPBACK}:{free_port()}"
        self.alertmanager = f"http://{LOOPBACK}:{free_port()}"
        self._directory = directory
        self._scraped = scraped
        self._posted = None
        if control is not None:
            self._posted = ALERTMANAGER.format(url=f"{control}{HOOK}", token_file=token_file)
        self._children: list[Child] = []
        self._http = httpx.Client(timeout=10.0, trust_env=False, verify=NO_AUTHORITIES)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Both serve when this returns."""
        urls = [self.prometheus]
        try:
            if self._posted is not None:
                self._children.append(self._alertmanager(self._posted))
                urls.append(self.alertmanager)
            self._children.append(self._prometheus())
        except ToolError as exc:
            raise LabError(str(exc)) from exc
        for child in self._children:
            child.start()
        for url in urls:
            self._awaited(f"{url} ready", partial(self._ready, url))

    def stop(self) -> None:
        """End both, Prometheus first: nobody is told of an end that is none."""
        for child in reversed(self._children):
            child.terminate()
        self._http.close()

    # ---- what they say ------------------------------------------------------------------------

    def alerts(self) -> list[Alert]:
        """Those of Prometheus, pending ones too."""
        result = self._got(f"{self.prometheus}/api/v1/alerts")["data"]["alerts"]
        return [_alert(item, item["state"]) for item in result]

    def active(self) -> list[Alert]:
        """Those of Alertmanager that are not over."""
        result = self._got(f"{self.alertmanager}/api/v2/alerts?active=true")
        return [_alert(item, item["status"]["state"]) for item in result]

    def series(self, expr: str) -> list[tuple[dict[str, str], float]]:
        """What Prometheus answers to an expression now: labels and value of each."""
        url = httpx.URL(f"{self.prometheus}/api/v1/query", params={"query": expr})
        result = self._got(str(url))["data"]["result"]
        return [(item["metric"], float(item["value"][1])) for item in result]

    def values(self, expr: str, label: str) -> dict[str, float]:
        """The same, by one label."""
        return {labels.get(label, ""): value for labels, value in self.series(expr)}

    def raised(self, name: str, connector: str) -> tuple[Alert, Alert]:
        """Wait until an alert fires and is active in Alertmanager: as both tell it."""

        def probe() -> tuple[Alert, Alert]:
            firing = [alert for alert in self.alerts() if _is(alert, name, connector, "firing")]
            active = [alert for alert in self.active() if _is(alert, name, connector, "active")]
            if not firing or not active:
                raise NotYet(f"{_said(self.alerts())}; in Alertmanager: {_said(self.active())}")
            return firing[0], active[0]

        return self._awaited(f"{name} of {connector}", probe)

    def over(self, name: str, connector: str) -> None:
        """Wait until neither has this alert any more."""

        def probe() -> None:
            remaining = [
                alert
                for alert in (*self.alerts(), *self.active())
                if (alert.name, alert.connector) == (name, connector)
            ]
            if remaining:
                raise NotYet(_said(remaining))

        self._awaited(f"the end of {name} of {connector}", probe)

    def hooks(self) -> dict[str, int]:
        """What became of what was posted, by reason, as the daemon counts and Prometheus has it."""
        result = self.values("offsetwatch_hooks_received_total", "reason")
        return {reason: int(count) for reason, count in result.items()}

    def hooked(self, reason: str, times: int = 1) -> dict[str, int]:
        """Wait until this became of so many alerts that were posted: all counts."""

        def probe() -> dict[str, int]:
            result = self.hooks()
            if result.get(reason, 0) < times:
                raise NotYet(str(result))
            return result

        return self._awaited(f"{times} posted and {reason}", probe)

    # ---- what somebody else says --------------------------------------------------------------

    def say(self, labels: Mapping[str, str], *, ends: datetime | None = None) -> None:
        """Post an alert to Alertmanager, as any other program may."""
        body: Json = {"labels": dict(labels)}
        if ends is not None:
            body["endsAt"] = ends.isoformat()
        answer = self._http.post(f"{self.alertmanager}/api/v2/alerts", json=[body])
        if answer.is_error:
            raise LabError(f"Alertmanager: HTTP {answer.status_code} {answer.text[:500]}")

    # ---- small help ---------------------------------------------------------------------------

    def evidence(self) -> str:
        """The ends of both logs."""
        return "\n".join(child.tail() for child in self._children)

    def _alertmanager(self, config: str) -> Child:
        """Not started. Raises ToolError."""
        folder = self._directory / "alertmanager"
        folder.mkdir(parents=True)
        (folder / "alertmanager.yml").write_text(config)
        command = (
            str(program(folder)),
            "--config.file=alertmanager.yml",
            "--storage.path=data",
            f"--web.listen-address={_address(self.alertmanager)}",
            "--cluster.listen-address=",
        )
        return Child("alertmanager", command, directory=folder)

    def _prometheus(self) -> Child:
        """Not started. Raises ToolError."""
        folder = self._directory / "prometheus"
        rules = folder / "rules"
        rules.mkdir(parents=True)
        for file in sorted(RULES.glob("*.rules.yaml")):
            (rules / file.name).write_text(in_seconds(file.read_text()))
        (folder / "prometheus.yml").write_text(
            PROMETHEUS.format(
                scraped=_address(self._scraped), alertmanager=_address(self.alertmanager)
            )
        )
        command = (
            str(binaries().prometheus),
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=data",
            f"--web.listen-address={_address(self.prometheus)}",
        )
        return Child("prometheus", command, directory=folder)

    def _ready(self, url: str) -> None:
        try:
            self._http.get(f"{url}/-/ready").raise_for_status()
        except httpx.HTTPError as exc:
            raise NotYet(str(exc)) from exc

    def _got(self, url: str) -> Any:
        answer = self._http.get(url)
        if answer.is_error:
            raise LabError(f"GET {url}: HTTP {answer.status_code} {answer.text[:500]}")
        return answer.json()

    def _awaited(self, what: str, probe: Callable[[], T]) -> T:
        return until(what, probe, timeout_s=COMES_S_MAX, evidence=self.evidence)


def _alert(report: Json, state: str) -> Alert:
    labels = dict(report["labels"])
    return Alert(labels.pop("alertname"), state, labels, report["annotations"])


def _is(alert: Alert, name: str, connector: str, state: str) -> bool:
    return (alert.name, alert.connector, alert.state) == (name, connector, state)


def _said(alerts: list[Alert]) -> str:
    return ", ".join(f"{alert.name} {alert.connector} {alert.state}" for alert in alerts) or "none"


def _address(url: str) -> str:
    return url.partition("://")[2]
