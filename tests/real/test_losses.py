"""What MM2 lost while the daemon was down, or between two of its looks: found, exactly and once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab import Lab
from lab.product.offsetwatch import Product
from lab.product.read_only_daemon import onlooker
from lab.stories import Flow, begin, end, losses
from tests.real.conftest import FAST_CONNECT
from tests.real.daemon_series import becomes, eventually, total

pytestmark = [pytest.mark.real, pytest.mark.full]

SELDOM_S = 15.0


@contextmanager
def watching(lab: Lab, directory: Path, *, ends_s: float) -> Iterator[Product]:
    """A daemon that runs already; it is ended and begun again as a test wants it."""
    settings = (
        f"tick_s: 0.2\nends_s: {ends_s}\njudge: {{interval_s: 3.0}}\n"
        f"state_dir: {directory / 'state'}\n"
    )
    with onlooker(lab, directory, extra=settings, connect_extra=FAST_CONNECT) as (product, _):
        yield product


def of(flow: Flow) -> dict[str, str]:
    return {"connector": flow.connector, "topic": flow.topic, "partition": "0"}


def list_losses(product: Product, flow: Flow) -> list[tuple[str, int, int]]:
    flows = product.get("/api/v1/flows")["flows"]
    (result,) = [mirror_flow for mirror_flow in flows if mirror_flow["connector"] == flow.connector]
    return [(loss["cause"], loss["first"], loss["last"]) for loss in result["losses"]]


def await_position(product: Product, flow: Flow) -> None:
    """The daemon knows the position, and has the log's bounds for it."""

    def known() -> bool:
        return total(product, "mm2_retention_headroom_records", **of(flow)) is not None

    eventually(product, f"{flow.topic} is looked at", known)


def test_retention_that_overtakes_mm2_while_the_daemon_is_down_is_found_at_its_start_once(
    lab: Lab, tmp_path: Path
) -> None:
    flow = begin(Flow(lab, "unseen"), records=30)
    with watching(lab, tmp_path, ends_s=1.0) as product:
        await_position(product, flow)
        product.kill_daemon()
        action = losses.retention_overtakes(flow)
        assert action.lost == (30, 54)
        product.start_daemon()
        becomes(product, 25, "mm2_lost_records_total", **of(flow), cause="retention")
        product.kill_daemon()
        product.start_daemon()
        losses.copy_on(flow)
        product.kill_daemon()
        product.start_daemon()
        await_position(product, flow)
        becomes(product, 15, "mm2_retention_headroom_records", **of(flow))
        assert total(product, "mm2_lost_records_total", **of(flow)) == 25
        assert list_losses(product, flow) == [("retention", 30, 54)]
        assert "30" in product.cli("explain", flow.connector, status=0)
    end(flow)


def test_a_topic_recreated_while_the_daemon_is_down_is_found_at_its_start_once(
    lab: Lab, tmp_path: Path
) -> None:
    flow = begin(Flow(lab, "renewed"), records=40)
    with watching(lab, tmp_path, ends_s=1.0) as product:
        await_position(product, flow)
        product.kill_daemon()
        action = losses.recreated_grown(flow)
        assert action.lost == (0, 39)
        product.start_daemon()
        becomes(product, 1, "mm2_topic_recreations_total", connector=flow.connector)
        assert total(product, "mm2_lost_records_total", **of(flow)) == 0
        losses.copy_on(flow)
        becomes(product, 40, "mm2_lost_records_total", **of(flow), cause="recreated")
        product.kill_daemon()
        product.start_daemon()
        await_position(product, flow)
        assert total(product, "mm2_topic_recreations_total", connector=flow.connector) == 1
        assert list_losses(product, flow) == [("recreated", 0, 39)]
    end(flow)


def test_a_jump_between_two_polls_is_reported_by_the_syncs(lab: Lab, tmp_path: Path) -> None:
    """MM2 is behind the log start for a moment only, and stands beyond it at the next look."""
    flow = begin(Flow(lab, "jumped"), records=30)
    with watching(lab, tmp_path, ends_s=SELDOM_S) as product:
        await_position(product, flow)
        losses.retention_overtakes(flow)
        losses.copy_on(flow)
        becomes(product, 25, "mm2_lost_records_total", **of(flow), cause="retention")
        assert list_losses(product, flow) == [("retention", 30, 54)]
    end(flow)
