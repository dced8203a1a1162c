"""A flow that is set back to a moment, from what the pipeline has recorded of it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lab import Lab
from lab.kills import sample_connectors
from lab.processes.ports import free_port
from lab.product.offsetwatch import Product
from lab.waiting import NotYet, until

pytestmark = [pytest.mark.real, pytest.mark.spark, pytest.mark.slow, pytest.mark.full]

COPIED_S_MAX = 150.0


def test_a_mirror_goes_back_to_where_it_stood_and_copies_exactly_what_came_since_again(
    lab: Lab, tmp_path: Path
) -> None:
    extra = "history: {heap: 700m}\n"
    product = Product(lab, directory=tmp_path / "history", port=free_port(), extra=extra)
    with sample_connectors.mirror(lab, "rewound-mirror", records=20) as mirror:
        status, moment = mirror.pairs(), time.time()
        mirror.grow(14)
        sample_connectors.await_recorded(lab, mirror)
        once = mirror.meant()
        product.run_pipeline()
        requests = ("offsets", "rewind", mirror.name, "--to", str(moment), "--connect", "lab")
        dry = product.cli(*requests, "--dry-run")
        assert sample_connectors.offsets(lab, mirror.name) == mirror.pairs() != status
        ran = product.cli(*requests, "--yes", timeout_s=300.0)
        for report in (dry, ran):
            rows = [line.split() for line in report.splitlines()]
            for number in (0, 1):
                where = f"{mirror.topic}-{number}"
                assert [mirror.name, where, "17", "10", "7", "0"] in rows
        expected = {number: held + held[10:] for number, held in once.items()}

        def probe() -> None:
            if (observed := mirror.came()) != expected:
                raise NotYet(f"{ {number: len(held) for number, held in observed.items()} }")

        until("the copies again", probe, timeout_s=COPIED_S_MAX)
        sample_connectors.await_recorded(lab, mirror)
