"""What a CI run adds to `make test`: a sixth of the rest of `make full`, and what a change touches.

Tests that `make test` leaves out are marked `full`. SIXTHS has each file with such tests once, so
that six runs with consecutive numbers run all of them. Nearly all of these tests run JVMs and wait
for them, so a sixth has two lanes that run beside each other, each with labs of its own: the files
of one lane share labs where they can, and all lanes take about as long. TOUCHED names the real
tests that a change under a path runs in any case, in the lane where SIXTHS has them.

    python -m tests.tiers 1 3 HEAD~5    # lane 1 of sixth 3, and what a change since touches
    python -m tests.tiers 2 all         # lane 2 of all sixths
    python -m tests.tiers sixth 980     # the number of the sixth that follows from 980 commits
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
LANES: Final = ("1", "2")

SIXTHS: Final[tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]] = (
    (
        (
            "tests/real/test_stories_failover.py",
            "tests/real/test_stories_losses.py",
            "tests/real/test_stories_memory.py",
            "tests/real/test_stories_resets.py",
            "tests/real/test_stories_stalls.py",
            "tests/real/test_stories_explained.py",
        ),
        (
            "tests/real/test_losses.py",
            "tests/real/test_changes.py",
            "tests/real/test_runbooks.py",
            "tests/history/test_audit_real.py",
            "tests/history/test_gold.py",
            "tests/history/test_silver.py",
            "tests/history/test_status_real.py",
        ),
    ),
    (
        (
            "tests/real/test_variants.py",
            "tests/real/test_transactions.py",
            "tests/real/test_toolbox_roundtrip.py",
            "tests/real/test_toolbox_mirror.py",
            "tests/artefacts/test_input_dies.py",
            "tests/scenarios/test_healthy_day.py",
            "tests/scenarios/test_scenarios.py",
            "tests/scenarios/test_verdicts_over_time.py",
        ),
        (
            "tests/real/test_database_readers.py",
            "tests/real/test_next_offset.py",
            "tests/real/test_readme.py",
            "tests/real/test_source_ends.py",
            "tests/real/test_toolbox_scenarios.py",
            "tests/real/test_toolbox_storage.py",
        ),
    ),
    (
        (
            "tests/real/test_failover.py",
            "tests/real/test_remedy_kills.py",
            "tests/unit/remedy/drivers/rest/test_driver_creation.py",
            "tests/unit/remedy/execute/test_runner_faults.py",
            "tests/real/test_replica_daemons.py",
            "tests/real/test_failovers.py",
        ),
        (
            "tests/real/test_toolbox_kills.py",
            "tests/real/test_replicas_act.py",
            "tests/history/test_baselines.py",
            "tests/history/test_lags.py",
            "tests/history/test_stream_real.py",
        ),
    ),
    (
        (
            "tests/real/test_alertmanager.py",
            "tests/real/test_broker_deaths.py",
            "tests/real/test_chaos.py",
            "tests/real/test_quarantine.py",
            "tests/real/test_secured.py",
        ),
        (
            "tests/real/test_contract.py",
            "tests/real/test_database_changes.py",
            "tests/real/test_jdbc_sink.py",
            "tests/real/test_lab.py",
            "tests/real/test_unusual_cluster.py",
            "tests/history/test_asof.py",
            "tests/history/test_full_disk.py",
            "tests/history/test_history_session.py",
            "tests/history/test_maintain.py",
            "tests/history/test_stream_outage.py",
        ),
    ),
    (
        (
            "tests/real/test_chart.py",
            "tests/real/test_strimzi.py",
            "tests/real/test_strimzi_remedy.py",
            "tests/chart/test_probed.py",
            "tests/unit/state/connect/test_connector_list.py",
        ),
        (
            "tests/real/test_alerts_remedy.py",
            "tests/real/test_toolbox_rest.py",
            "tests/real/test_toolbox_rest_workers.py",
            "tests/history/test_older_tables.py",
            "tests/artefacts/test_receivers.py",
        ),
    ),
    (
        (
            "tests/real/test_audit.py",
            "tests/real/test_doctor.py",
            "tests/real/test_edge.py",
            "tests/real/test_failover_report.py",
            "tests/real/test_lag_in_seconds.py",
            "tests/real/test_toolbox_rewind.py",
        ),
        (
            "tests/real/test_history_beside.py",
            "tests/real/test_history_metrics.py",
            "tests/image/test_contents.py",
            "tests/image/test_daemon.py",
            "tests/image/test_pipeline.py",
        ),
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


def selected(lane: str, sixth: str, changed: Iterable[str]) -> list[str]:
    """Return the files of a lane that a sixth ("1" to "6", or "all") and changed paths ask for.

    Those on the lab come first, so that it has ended when those on Spark start.
    """
    number = LANES.index(lane)
    chosen = SIXTHS if sixth == "all" else (SIXTHS[int(sixth) - 1],)
    files = {file for lanes in chosen for file in lanes[number]}
    in_lane = {file for lanes in SIXTHS for file in lanes[number]}
    for path in changed:
        for prefix, touched in TOUCHED.items():
            if path.startswith(prefix):
                files.update(in_lane.intersection(touched))
    return sorted(files, key=lambda file: (not file.startswith("tests/real/"), file))


def changed_since(revision: str) -> list[str]:
    """Return the paths that differ between a revision and the files here."""
    command = ["git", "diff", "--name-only", revision]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def main() -> None:
    """Print the files of one lane on one line, or the number of a sixth."""
    lane, sixth, *revisions = sys.argv[1:]
    if lane == "sixth":
        print(sixth_of(int(sixth)))  # noqa: T201
        return
    assert lane in LANES, f"a lane is one of {LANES}"
    changed = [path for revision in revisions for path in changed_since(revision)]
    print(*selected(lane, sixth, changed))  # noqa: T201


if __name__ == "__main__":
    main()
