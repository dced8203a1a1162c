"""What a CI run adds to `make test`: a sixth of the rest of `make full`, and what a change touches.

Tests that `make test` leaves out are marked `full`. SIXTHS has each file with such tests once, so
that six runs with consecutive numbers run all of them. Nearly all of these tests run JVMs and wait
for them, so that groups of files run beside each other on two cores, each in a process with labs of
its own. The groups are few, as starting JVMs and warming them up is most of the work. TOUCHED names
the real tests that a change under a path runs in any case.

    python -m tests.tiers run 3 HEAD~5  # sixth 3, and what a change since touches
    python -m tests.tiers run all -- -x # all sixths; pytest gets what is behind the dashes
    python -m tests.tiers sixth 980     # the number of the sixth that follows from 980 commits
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.timing import PART_VARIABLE

ROOT: Final = Path(__file__).parents[1]
# A group uses half a core to two thirds of one: a fourth only makes the others wait.
GROUPS_AT_ONCE: Final = 3
MARKS: Final = "full and not proof"
_PROCESSES: Final[list[subprocess.Popen[str]]] = []

# What each file takes where three groups run at once, in seconds. The three groups of a sixth take
# about as long; the order among all that are selected goes by these numbers. Files of a group share
# their labs or their Spark session, each of which takes as long to start as many a test does. Spark
# sessions and the lab of tests/image stay until a group ends, so files with these are its last.
SIXTHS: Final[tuple[tuple[Mapping[str, int], ...], ...]] = (
    (
        {
            "tests/real/test_stories_losses.py": 190,
            "tests/real/test_stories_memory.py": 130,
            "tests/real/test_stories_explained.py": 90,
            "tests/real/test_stories_failover.py": 140,
            "tests/real/test_stories_resets.py": 30,
            "tests/real/test_stories_stalls.py": 70,
        },
        {
            "tests/history/test_audit_real.py": 150,
            "tests/history/test_gold.py": 130,
            "tests/history/test_silver.py": 250,
            "tests/history/test_status_real.py": 110,
        },
        {
            "tests/real/test_losses.py": 235,
            "tests/real/test_changes.py": 50,
            "tests/real/test_runbooks.py": 205,
        },
    ),
    (
        {
            "tests/real/test_toolbox_roundtrip.py": 160,
            "tests/real/test_toolbox_mirror.py": 80,
            "tests/real/test_toolbox_scenarios.py": 130,
            "tests/real/test_toolbox_storage.py": 100,
            "tests/real/test_readme.py": 60,
        },
        {
            "tests/real/test_source_ends.py": 500,
        },
        {
            "tests/real/test_variants.py": 160,
            "tests/real/test_transactions.py": 110,
            "tests/real/test_next_offset.py": 170,
            "tests/real/test_database_readers.py": 70,
        },
        {
            "tests/artefacts/test_input_dies.py": 85,
            "tests/scenarios/test_healthy_day.py": 100,
            "tests/scenarios/test_scenarios.py": 80,
            "tests/scenarios/test_verdicts_over_time.py": 40,
            "tests/real/test_schema_registry.py": 200,
        },
    ),
    (
        {
            "tests/history/test_stream_real.py": 550,
        },
        {
            "tests/real/test_remedy_kills.py": 520,
            "tests/real/test_toolbox_kills.py": 120,
            "tests/unit/remedy/drivers/rest/test_driver_creation.py": 45,
            "tests/unit/remedy/execute/test_runner_faults.py": 25,
        },
        {
            "tests/real/test_replicas_act.py": 220,
            "tests/real/test_failover.py": 130,
            "tests/real/test_failovers.py": 110,
            "tests/real/test_replica_daemons.py": 60,
        },
    ),
    (
        {
            "tests/real/test_chaos.py": 250,
            "tests/real/test_alertmanager.py": 90,
            "tests/real/test_broker_deaths.py": 120,
            "tests/real/test_quarantine.py": 150,
        },
        {
            "tests/real/test_contract.py": 180,
            "tests/real/test_jdbc_sink.py": 150,
            "tests/real/test_secured.py": 120,
            "tests/real/test_lab.py": 90,
            "tests/real/test_unusual_cluster.py": 120,
        },
        {
            "tests/real/test_database_changes.py": 350,
            "tests/history/test_asof.py": 20,
            "tests/history/test_full_disk.py": 60,
            "tests/history/test_history_session.py": 40,
            "tests/history/test_maintain.py": 40,
            "tests/history/test_stream_outage.py": 100,
        },
    ),
    (
        {
            "tests/real/test_strimzi.py": 200,
            "tests/real/test_strimzi_remedy.py": 70,
            "tests/real/test_chart.py": 150,
            "tests/chart/test_probed.py": 40,
        },
        {
            "tests/real/test_alerts_remedy.py": 90,
            "tests/real/test_toolbox_rewind.py": 150,
            "tests/image/test_contents.py": 260,
            "tests/image/test_daemon.py": 110,
            "tests/image/test_pipeline.py": 5,
        },
        {
            "tests/real/test_toolbox_rest.py": 80,
            "tests/real/test_toolbox_rest_workers.py": 60,
            "tests/artefacts/test_receivers.py": 40,
            "tests/unit/state/connect/test_connector_list.py": 35,
            "tests/history/test_older_tables.py": 130,
            "tests/history/test_lags.py": 120,
            "tests/history/test_baselines.py": 60,
        },
    ),
    (
        {
            "tests/real/test_failover_report.py": 550,
            "tests/real/test_lag_in_seconds.py": 30,
        },
        {
            "tests/real/test_audit.py": 450,
            "tests/real/test_doctor.py": 110,
        },
        {
            "tests/real/test_history_metrics.py": 240,
            "tests/real/test_history_beside.py": 120,
            "tests/real/test_edge.py": 330,
        },
    ),
)

_CHART: Final = ("tests/real/test_chart.py",)
_IMAGES: Final = (
    "tests/image/test_contents.py",
    "tests/image/test_daemon.py",
    "tests/image/test_pipeline.py",
)
_HISTORY: Final = (
    "tests/history/test_audit_real.py",
    "tests/history/test_gold.py",
    "tests/history/test_lags.py",
    "tests/history/test_status_real.py",
    "tests/history/test_stream_real.py",
    "tests/real/test_history_beside.py",
    "tests/real/test_history_metrics.py",
)
_SOURCE_ENDS: Final = ("tests/real/test_source_ends.py",)
_DATABASES: Final = ("tests/real/test_database_readers.py", *_SOURCE_ENDS)
_KILLS: Final = (
    "tests/real/test_remedy_kills.py",
    "tests/real/test_toolbox_kills.py",
    "tests/unit/remedy/drivers/rest/test_driver_creation.py",
    "tests/unit/remedy/execute/test_runner_faults.py",
)
TOUCHED: Final[dict[str, tuple[str, ...]]] = {
    "helm/": _CHART,
    "Dockerfile": _IMAGES,
    "constraints.txt": _IMAGES,
    "pyproject.toml": _IMAGES,
    "exporter/offsetwatch/clients/databases/": _DATABASES,
    "exporter/offsetwatch/history/": _HISTORY,
    "exporter/offsetwatch/remedy/": _KILLS,
    "exporter/offsetwatch/clients/write/": _KILLS,
    "exporter/offsetwatch/state/sources/": _SOURCE_ENDS,
    "exporter/offsetwatch/toolbox/": (
        "tests/real/test_database_changes.py",
        "tests/real/test_next_offset.py",
    ),
    "lab/databases/": _SOURCE_ENDS,
}


def sixth_of(commits: int) -> int:
    """Return the number of the sixth, 1 to 6, that follows from the number of commits."""
    return commits % len(SIXTHS) + 1


def selected(sixth: str, changed: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the groups of files that a sixth ("1" to "6", or "all") and changed paths ask for, the
    longest first: one that began last would run alone at the end.
    """
    chosen = SIXTHS if sixth == "all" else (SIXTHS[int(sixth) - 1],)
    files = {file for groups in chosen for group in groups for file in group}
    for path in changed:
        for prefix, touched in TOUCHED.items():
            if path.startswith(prefix):
                files.update(touched)
    groups = [
        {file: seconds for file, seconds in group.items() if file in files}
        for groups in SIXTHS
        for group in groups
    ]
    groups.sort(key=lambda group: sum(group.values()), reverse=True)
    return [tuple(group) for group in groups if group]


def changed_since(revision: str) -> list[str]:
    """Return the paths that differ between a revision and the files here."""
    command = ["git", "diff", "--name-only", revision]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def run(group: tuple[str, ...], arguments: Iterable[str]) -> bool:
    """Run the tests of a group in a process of their own, print its output, return whether all
    passed.
    """
    part = "rest-" + Path(group[0]).stem.removeprefix("test_").replace("_", "-")
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-v", "-m", MARKS, *arguments, *group],
        cwd=ROOT,
        env={**os.environ, PART_VARIABLE: part},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    _PROCESSES.append(process)
    output, _ = process.communicate()
    print(f"--- {part}, {time.monotonic() - began:.0f} s\n{output}", flush=True)  # noqa: T201
    return process.returncode == 0


def _interrupt(*_: object) -> None:
    """End the groups that run as Ctrl-C does, so that no lab outlives this process."""
    for process in _PROCESSES:
        process.send_signal(signal.SIGINT)
    raise KeyboardInterrupt


def main() -> None:
    """Run the groups of a sixth and of what changed, or print the number of a sixth."""
    verb, sixth, *words = sys.argv[1:]
    if verb == "sixth":
        print(sixth_of(int(sixth)))  # noqa: T201
        return
    assert verb == "run", "the verbs are run and sixth"
    end = words.index("--") if "--" in words else len(words)
    revisions, arguments = words[:end], words[end + 1 :]
    changed = [path for revision in revisions for path in changed_since(revision)]
    groups = selected(sixth, changed)
    count = sum(map(len, groups))
    print(f"sixth {sixth} of 6: {count} files in {len(groups)} groups", flush=True)  # noqa: T201
    signal.signal(signal.SIGTERM, _interrupt)
    # A shell starts what runs in the background with SIGINT ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with ThreadPoolExecutor(GROUPS_AT_ONCE) as pool:
        try:
            passed = list(pool.map(lambda group: run(group, arguments), groups))
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise
    sys.exit(not all(passed))


if __name__ == "__main__":
    main()
