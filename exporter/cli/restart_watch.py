"""Watch of a connector after a restart: Connect says `running` at once, and a task fails later."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from exporter.cli import output
from exporter.cli.options import with_config
from exporter.clock import Clock
from exporter.model.conditions import shown_state, worst_state
from exporter.model.connectors import Connector
from exporter.remedy.views.words import COMMAND

POLL_S: Final = 1.0
OK, FINDINGS = 0, 1
_WELL: Final = frozenset({"running", "paused"})


def watch_tasks(
    read: Callable[[], Connector],
    seconds: float,
    clock: Clock,
    pause: Callable[[float], None] = time.sleep,
) -> int:
    """Read the connector until it fails or `seconds` are over, and print what was seen. Return 1
    if a task failed, or does not run in the end. Raises ClientError where it cannot be read.
    """
    begin = clock.now()
    while True:
        seen, passed = read(), clock.now() - begin
        state = worst_state(seen.state, (task.state for task in seen.tasks))
        if state == "failed" or passed >= seconds:
            break
        pause(min(POLL_S, seconds - passed))
    tasks = ", ".join(f"{task.number} {shown_state(task.state)}" for task in seen.tasks) or "none"
    output.error(f"watched for {passed:.0f} s: {shown_state(state)}, tasks: {tasks}")
    if state == "failed":
        explain = with_config(f"{COMMAND} explain {seen.name}")
        output.error(f"its error, and what remediation would do: {explain}")
    return OK if state in _WELL else FINDINGS
