"""What is loaded until the daemon answers, and what never is: most of the time to a first answer,
and much of the memory of a daemon with nothing to watch.
"""

from __future__ import annotations

import json
import subprocess
import sys

from lab.processes.ports import free_port

# The daemon as the command starts it. In the place of its inputs, as it begins to load them, it
# asks itself; then it loads what it would have, and ends.
SCRAPE_BEFORE_INPUTS = """
import json, sys, types, urllib.request
from importlib import import_module
from offsetwatch.cli import cli

def loaded():
    return sorted(name for name, module in sys.modules.items() if module is not None)

def instead(config):
    with urllib.request.urlopen(f"http://{config.listen}/metrics") as answer:
        told = answer.read().decode()
    del sys.modules["offsetwatch.daemon.monitor"]
    before = loaded()
    for name in ("offsetwatch.daemon.monitor", "offsetwatch.daemon.side_effects"):
        import_module(name)
    print(json.dumps({"told": told, "before": before, "in_all": loaded()}))
    sys.exit(0)

sys.modules["offsetwatch.daemon.monitor"] = monitor = types.ModuleType("monitor")
monitor.ClusterMonitor = instead
cli(["run", "--config", sys.argv[1]])
"""
LATER = (
    "apscheduler",
    "confluent_kafka",
    "offsetwatch.clients",
    "offsetwatch.ingest",
    "offsetwatch.judge.judge",
    "offsetwatch.notify",
    "offsetwatch.remedy",
    "offsetwatch.state.book",
    "httpx",
)


def test_the_first_answer_needs_nothing_that_queries_decides_or_acts(tmp_path):
    result = _started(tmp_path)
    assert 'offsetwatch_build_info{version="' in result["told"]
    assert "offsetwatch_input_up" not in result["told"]  # nothing is known yet, and nothing is said
    assert _within(result["before"], *LATER) == []
    assert set(LATER) <= set(result["in_all"])  # or it would be a test of old names


def test_a_daemon_never_loads_what_draws_tables(tmp_path):
    assert _within(_started(tmp_path)["in_all"], "rich", "pygments") == []


def _started(folder):
    path = folder / "offsetwatch.yaml"
    path.write_text(
        json.dumps(
            {
                "kafka": {"east": {"bootstrap": "127.0.0.1:1"}},
                "connect": [{"name": "lab", "kafka": "east", "url": "http://127.0.0.1:1"}],
                "listen": f"127.0.0.1:{free_port()}",
                "state_dir": str(folder / "state"),
            }
        )
    )
    done = subprocess.run(
        [sys.executable, "-c", SCRAPE_BEFORE_INPUTS, str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _within(loaded, *packages):
    return [
        name for name in loaded if any(f"{name}.".startswith(f"{package}.") for package in packages)
    ]
