"""Record what real Connect makes of odd bodies, for the model to be held against where there is no
Java: `python -m tests.contract.record 4.3.1 3.9.2` writes tests/golden/connect-odd-bodies.json.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from lab import Lab, LabOptions
from tests.contract import malformed_bodies
from tests.real.contract_cluster import LabCluster

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "connect-odd-bodies.json"


def recorded(version: str) -> dict[str, list[malformed_bodies.BodyResult]]:
    """By kind of connector, on a lab of its own."""
    with Lab(LabOptions(kafka_version=version, connectors=False)) as lab:
        cluster = LabCluster(lab, version)
        with ThreadPoolExecutor(len(malformed_bodies.KINDS)) as pool:
            reports = {
                kind: pool.submit(malformed_bodies.send_bodies, cluster, kind, f"odd-{kind}")
                for kind in malformed_bodies.KINDS
            }
        cluster.close()
    return {kind: each.result() for kind, each in reports.items()}


def written(result: dict[str, dict[str, list[malformed_bodies.BodyResult]]]) -> str:
    """One line for each, so that a change shows as one."""
    lines = [
        json.dumps([version, kind, *reports], ensure_ascii=False)
        for version, kinds in result.items()
        for kind, results in kinds.items()
        for reports in results
    ]
    return "[\n" + ",\n".join(lines) + "\n]\n"


if __name__ == "__main__":
    GOLDEN.write_text(written({version: recorded(version) for version in sys.argv[1:]}))
