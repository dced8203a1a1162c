"""Draw the pictures of the status page: `python -m tests.browser.screenshots docs/status-page`."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from offsetwatch.model.moments import Moment
from tests.browser import worlds
from tests.browser.chromium import Chromium, chromium
from tests.browser.conftest import ServedListener
from tests.changed import replace

_THERE = "document.querySelector('#connectors svg.spark')"
_OPENED = (
    "[...document.querySelectorAll('#connectors tr[data-key] button')]"
    ".find((button) => button.textContent.includes('payments-17')).click()"
)


def draw(page: Chromium, url: str, folder: Path) -> None:
    """Write light.png, dark.png and phone.png."""
    page.open(url, width=1100, height=1300)
    page.until(_THERE)
    page.screenshot(folder / "light.png")
    page.open(url, width=1100, height=1000, dark=True)
    page.until(_THERE)
    page.run(f"{_OPENED} ?? 0")
    page.until("document.querySelector('.detail table')")
    page.run("document.getElementById('flows-title').scrollIntoView() ?? 0")
    page.screenshot(folder / "dark.png")
    page.open(url, width=360, height=1200)
    page.until(_THERE)
    page.run("document.getElementById('connectors-title').scrollIntoView() ?? 0")
    page.screenshot(folder / "phone.png")


def main(folder: Path) -> None:
    cluster = ServedListener()
    cluster.boards_url = "https://grafana.example.com"
    worlds.NOW = time.time() - 3.0
    plan = replace(
        worlds.PLAN, created_at=Moment(worlds.NOW - 140.0), expires_at=Moment(worlds.NOW + 3460.0)
    )
    world = worlds.fleet()
    cluster.now = replace(world, remedies=replace(world.remedies, open_plans=(plan,)))
    try:
        with tempfile.TemporaryDirectory() as profile, chromium(Path(profile)) as page:
            draw(page, cluster.url, folder)
    finally:
        cluster.die()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
