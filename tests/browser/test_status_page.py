"""What a person sees, and can do with a keyboard, in a real browser."""

from __future__ import annotations

import json
import re

import httpx
import pytest

from exporter.model.findings import Severity
from exporter.state.snapshot import EMPTY
from tests.browser import worlds
from tests.browser.chromium import chromium
from tests.browser.conftest import PASSWORD, USER
from tests.changed import replace

pytestmark = pytest.mark.slow

ROWS = "document.querySelectorAll('#connectors tbody tr').length"
FOCUSED = "document.activeElement.closest('tr')?.dataset.key ?? document.activeElement.id"
TEXT = "document.getElementById({}).innerText"


def text_of(page, part: str) -> str:
    return page.run(TEXT.format(json.dumps(part)))


def opened(page, site, **window) -> None:
    page.open(site.url, **window)
    page.until(f"{ROWS} > 0")


def cell(page, connector: str, column: str) -> str:
    return page.run(
        f"[...document.querySelectorAll('#connectors tbody tr')]"
        f".find((row) => row.querySelector('.name .name').textContent === {json.dumps(connector)})"
        f".querySelector('td.{column}').textContent"
    )


def names(page) -> list[str]:
    return page.run(
        "[...document.querySelectorAll('#connectors tr[data-key] .name .name')]"
        ".map((name) => name.textContent)"
    )


def test_findings_are_shown_with_their_evidence(page, site):
    opened(page, site)
    found = text_of(page, "findings")
    assert "MirrorMaker copies nothing from west to east" in found
    assert "33,000 records" in found
    assert found.index("33,000 records") < found.index("mm2_silent_stall")


UNFOLD = "document.querySelectorAll('#remedies details[data-key]').forEach((at) => at.open = true)"


def test_the_band_counts_what_is_wrong_well_and_unseen(page, site):
    opened(page, site)
    found = site.now.findings
    critical = sum(at.severity is Severity.CRITICAL for at in found)
    told = text_of(page, "band")
    assert f"{critical} critical" in told
    assert "warning" in told
    assert re.search(r"\d ok", told)
    assert re.search(r"\d cannot be seen", told)
    site.now = replace(site.now, at=site.now.at + 5, findings=())
    page.until("document.getElementById('band').innerText.includes('0 critical')")


def test_a_plan_is_one_line_until_it_is_opened(page, site):
    opened(page, site)
    plans = "document.querySelectorAll('#remedies details[data-key]')"
    assert page.run(f"{plans}.length") > 0
    assert page.run(f"[...{plans}].filter((at) => at.open).length") == 0
    folded = text_of(page, "remedies")
    assert worlds.PLAN.connector in folded
    assert worlds.PLAN.sha256 not in folded


def test_digits_of_numbers_are_grouped(page, site):
    opened(page, site)
    words = "import('/static/words.js').then((at) => window.told = [at.amount('9007199254740993'), "
    words += 'at.positioned(\'{"offset":591102}\'), at.positioned(\'{"a":1,"b":20000}\')])'
    page.run(f"{words} && 0")
    page.until("window.told")
    assert page.run("window.told") == [
        "9,007,199,254,740,993",
        "offset 591,102",
        '{"a":1,"b":20000}',
    ]


def test_a_plan_is_shown_with_its_guards_and_its_command_and_no_button(page, site):
    opened(page, site)
    page.run(f"{UNFOLD} ?? 0")
    told = text_of(page, "remedies")
    assert f"offsetwatch plan approve {worlds.PLAN.plan_id} --sha256 {worlds.PLAN.sha256}" in told
    for guard in worlds.PLAN.guards:
        assert f"G{guard.number:02} {guard.guard}" in told
    assert page.run("document.querySelectorAll('#remedies button, #remedies a').length") == 0


def test_what_is_not_known_is_said_to_be_so(page, site):
    opened(page, site)
    assert cell(page, "customers", "records") == "-"
    assert cell(page, "customers", "age") == "-"
    assert cell(page, "invoices-to-s3", "commit") == "not known"
    assert cell(page, "invoices-to-s3", "records") == "900"


def test_the_worst_come_first(page, site):
    opened(page, site)
    assert names(page)[:2] == ["invoices-to-s3", "copy-west"]


def test_a_gap_in_the_last_hour_is_a_gap_in_the_line(page, site):
    opened(page, site)
    page.until("document.querySelector('#flows svg.spark')")
    path = page.run("document.querySelector('#flows svg.spark path').getAttribute('d')")
    assert path.count("M") == 2


def test_a_finding_that_comes_is_announced(page, site):
    opened(page, site)
    assert page.run("document.getElementById('announced').textContent") == ""
    (first, *_) = site.now.findings
    fresh = replace(first, subject="south->east", summary="Nothing comes from south")
    site.now = replace(site.now, at=site.now.at + 5, findings=(*site.now.findings, fresh))
    page.until("document.getElementById('announced').textContent.includes('comes from south')")
    assert page.run("document.getElementById('announced').ariaLive") == "polite"


def test_hostile_names_are_text_and_nothing_more(page, site):
    site.now = worlds.hostile()
    opened(page, site)
    assert worlds.HOSTILE in names(page)
    page.run(
        "[...document.querySelectorAll('#connectors tr[data-key] button')]"
        ".find((button) => button.textContent.includes('onerror')).click()"
    )
    page.until("document.querySelector('.detail table')?.innerText.includes('onerror')")
    for part in ("findings", "remedies"):
        assert worlds.HOSTILE in text_of(page, part)
    assert page.run("document.querySelectorAll('img').length") == 0
    assert "hit" not in page.run("document.title")


def test_everything_can_be_reached_by_keyboard(page, site):
    opened(page, site)
    page.press("/")
    assert page.run(FOCUSED) == "search"
    for letter in "copy":
        page.press(letter)
    assert names(page) == ["copy-west", "copy-south"]
    page.press("ArrowDown")
    assert "west" in page.run(FOCUSED)  # the first flow: flows come before connectors
    page.press("ArrowDown")
    assert "south" in page.run(FOCUSED)
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.run(outline) == "solid"
    page.press("Enter")
    page.until("document.querySelector('#flows .detail table')")
    assert page.run("document.activeElement.getAttribute('aria-expanded')") == "true"
    page.press("Enter")
    assert page.run("document.querySelector('.detail')") is None
    page.press("/")
    page.press("Escape")
    assert len(names(page)) == 5


def test_one_row_of_a_table_is_in_the_order_of_the_tab_key(page, site):
    opened(page, site)
    stops = "document.querySelectorAll('#connectors tbody button[tabindex=\"0\"]').length"
    assert page.run(stops) == 1


def test_an_open_row_and_the_focus_stay_while_the_page_is_renewed(page, site):
    opened(page, site)
    page.run("document.querySelector('#connectors tr[data-key] button').focus()")
    page.press("Enter")
    page.until("document.querySelector('.detail table')")
    before = page.run(FOCUSED)
    changed = tuple(replace(at, lag=901) for at in site.now.sink_partitions)
    site.now = replace(site.now, at=site.now.at + 5, sink_partitions=changed)
    page.until("document.querySelector('#connectors td.records').textContent === '901'")
    page.until("document.querySelector('.detail table').innerText.includes('901')")
    assert page.run(FOCUSED) == before


@pytest.mark.parametrize("width", [390, 820], ids=["phone", "tablet"])
def test_the_page_never_scrolls_sideways(page, site, width):
    site.now = worlds.hostile()
    opened(page, site, width=width, height=844)
    page.run("document.querySelector('#connectors tr[data-key] button').click()")
    page.until("document.querySelector('.detail table')")
    wide = page.run("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1] == width


def test_a_daemon_that_dies_is_told_at_once_and_one_that_comes_back_too(page, site):
    opened(page, site)
    site.die()
    page.until("document.getElementById('alarm').innerText.includes('No answer from the daemon')")
    assert "may be wrong by now" in text_of(page, "alarm")
    assert "It is not renewed" in text_of(page, "freshness")
    assert page.run("document.title").startswith("no answer")
    site.come_back()
    page.until("document.getElementById('alarm').innerText === ''")


def test_a_main_loop_that_has_stopped_is_told(page, site):
    site.alive = False
    opened(page, site)
    assert "its main loop has stopped" in text_of(page, "alarm")


def test_a_daemon_that_is_not_ready_says_so_and_pretends_no_numbers(page, site):
    site.now = replace(EMPTY, at=worlds.NOW, waiting_for=("tail east/offsets: the end",))
    page.open(site.url)
    page.until("document.getElementById('waiting').innerText.includes('tail east/offsets')")
    assert "None known so far" in text_of(page, "findings")
    assert text_of(page, "connectors") == "Not known yet."
    assert text_of(page, "flows") == "Not known yet."


def test_a_daemon_that_has_read_nothing_yet_says_so(page, site):
    site.now = EMPTY
    page.open(site.url)
    page.until("document.getElementById('alarm').innerText.includes('nothing has been read yet')")
    assert text_of(page, "connectors") == "Not known yet."


@pytest.mark.parametrize("hidden", [True, False], ids=["hidden", "seen"])
def test_nothing_is_asked_while_the_tab_is_hidden(site, tmp_path, hidden):
    with chromium(tmp_path) as page:  # one of its own, as its clock is stopped
        opened(page, site)
        page.run(
            "{ const real = fetch; window.asked = 0;"
            "  window.fetch = (...wanted) => { asked += 1; return real(...wanted); }; }"
        )
        page.run(
            f"Object.defineProperty(document, 'hidden', {{ get: () => {json.dumps(hidden)} }})"
        )
        page.run("document.dispatchEvent(new Event('visibilitychange'))")
        before = page.run("asked")
        page.let_pass(60.0)
        assert (page.run("asked") == before) is hidden


def test_an_offset_beyond_2_to_the_53_is_never_rounded(page, site):
    huge = 9_007_199_254_740_993
    sinks = tuple(replace(at, committed=huge, lag=huge) for at in site.now.sink_partitions)
    site.now = replace(site.now, sink_partitions=sinks)
    opened(page, site)
    assert cell(page, "invoices-to-s3", "records") in (f"{huge:,}", "beyond 2^53")
    assert cell(page, "invoices-to-s3", "position") == f"{huge:,}"


def test_2000_connectors_are_shown_and_found(page, site):
    site.now = worlds.many(2000)
    opened(page, site)
    assert text_of(page, "connectors").startswith("2,000 connectors")
    made = page.run(ROWS)
    assert 0 < made < 200  # the others when somebody looks
    took = "performance.getEntriesByName('offsetwatch-show', 'measure')[0].duration"
    print(f"2,000 connectors: shown within {page.run(took):.0f} ms")  # noqa: T201 - pytest -rP
    page.press("/")
    for letter in "orders-1999":
        page.press(letter)
    assert names(page) == ["orders-1999"]
    page.press("Escape")
    page.run("scrollTo(0, document.documentElement.scrollHeight)")
    page.until(f"{ROWS} > {made}")


def test_whoever_has_given_a_password_sees_all_of_it_and_nobody_else_anything(page, guarded):
    page.call("Page.navigate", url=guarded.url.replace("://", f"://{USER}:{PASSWORD}@"))
    page.until(f"{ROWS} > 0")
    before = page.run("performance.getEntriesByType('resource').length")
    page.until(f"performance.getEntriesByType('resource').length > {before}")  # it asks again
    assert "MirrorMaker copies nothing from west to east" in text_of(page, "findings")
    assert httpx.get(guarded.url, trust_env=False).status_code == httpx.codes.UNAUTHORIZED
