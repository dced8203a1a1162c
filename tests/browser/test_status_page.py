"""What a person sees, and can do with a keyboard, in a real browser."""

from __future__ import annotations

import json
import re

import httpx
import pytest

from lab.http import NO_AUTHORITIES
from offsetwatch.model.findings import Severity, Verdict
from offsetwatch.state.snapshot import EMPTY_SNAPSHOT
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


FOLD = "document.querySelector('#connectors .fold button')"
TIMED_UPDATE = (
    "(async () => { const { Board } = await import('/static/board.js');"
    " const real = Board.prototype.render; let took = null;"
    " Board.prototype.render = function () { const began = performance.now(); real.call(this);"
    " document.body.getBoundingClientRect();"
    " took = Math.max(took ?? 0, performance.now() - began); };"
    " document.getElementById('verdict').dispatchEvent(new Event('change'));"
    " Board.prototype.render = real; return took; })()"
)


def opened(page, cluster, **window) -> None:
    page.open(cluster.url, **window)
    page.until(f"{ROWS} > 0")


def cell(page, connector: str, column: str) -> str:
    return page.run(
        f"[...document.querySelectorAll('#connectors tr[data-key]')]"
        f".find((row) => row.querySelector('.name .name').textContent === {json.dumps(connector)})"
        f".querySelector('td.{column}').textContent"
    )


def names(page) -> list[str]:
    return page.run(
        "[...document.querySelectorAll('#connectors tr[data-key] .name .name')]"
        ".map((name) => name.textContent)"
    )


def test_findings_are_shown_with_their_evidence(page, listener):
    opened(page, listener)
    text = text_of(page, "findings")
    assert "copy-west makes no progress: work waits" in text
    assert "33,000 records" in text
    assert text.index("33,000 records") < text.index("mm2_silent_stall")


UNFOLD = "document.querySelectorAll('#remedies details[data-key]').forEach((at) => at.open = true)"


def test_the_band_counts_what_is_wrong_well_and_unseen(page, listener):
    opened(page, listener)
    findings = listener.now.findings
    critical = sum(item.severity is Severity.CRITICAL for item in findings)
    text = text_of(page, "band")
    assert f"{critical} critical" in text
    assert "warning" in text
    assert re.search(r"\d ok", text)
    assert re.search(r"\d cannot be seen", text)
    widths = "[...document.querySelectorAll('#band li')].map((item) => item.offsetWidth)"
    assert min(page.run(widths)) > 40
    listener.now = replace(listener.now, at=listener.now.at + 5, findings=())
    page.until("document.getElementById('band').innerText.includes('0 critical')")


def test_a_plan_is_one_line_until_it_is_opened(page, listener):
    opened(page, listener)
    plans = "document.querySelectorAll('#remedies details[data-key]')"
    assert page.run(f"{plans}.length") > 0
    assert page.run(f"[...{plans}].filter((at) => at.open).length") == 0
    folded = text_of(page, "remedies")
    assert folded.count(worlds.PLAN.connector) == 1
    assert re.search(r"east/invoices-2, expires .*\d\d:\d\d", folded)
    assert worlds.PLAN.sha256 not in folded


def test_the_page_has_one_way_to_write_a_moment(page, listener):
    opened(page, listener)
    assert "since 2" in listener.now.findings[0].summary
    text = f"{text_of(page, 'findings')} {text_of(page, 'freshness')}"
    assert not re.search(r"\d{4}-\d\d-\d\dT", text)
    zones = re.findall(r"\d\d:\d\d(?::\d\d)?\b ?(\w*)", text)
    assert len(zones) > 2
    assert {zone[:3] for zone in zones} <= {"UTC", "GMT"}


def test_an_opened_row_says_why_first_and_names_tasks(page, listener):
    opened(page, listener)
    page.run(
        "[...document.querySelectorAll('#connectors tr[data-key] button')]"
        ".find((button) => button.textContent.includes('invoices-to-s3')).click()"
    )
    page.until("document.querySelector('.detail table')")
    detail = page.run("document.querySelector('.detail').innerText")
    (judged,) = (at for at in listener.now.judgements if at.connector == "invoices-to-s3")
    assert detail.startswith(judged.reason)
    assert "task 0: " in detail


def test_digits_of_numbers_are_grouped(page, listener):
    opened(page, listener)
    words = "import('/static/words.js').then((at) => window.told = [at.amount('9007199254740993'), "
    words += 'at.positioned(\'{"offset":591102}\'), at.positioned(\'{"a":1,"b":20000}\')])'
    page.run(f"{words} && 0")
    page.until("window.told")
    assert page.run("window.told") == [
        "9,007,199,254,740,993",
        "offset 591,102",
        "a 1, b 20,000",
    ]


def test_a_plan_is_shown_with_its_guards_and_its_command_and_no_button(page, listener):
    opened(page, listener)
    page.run(f"{UNFOLD} ?? 0")
    text = text_of(page, "remedies")
    assert f"offsetwatch plan approve {worlds.PLAN.plan_id} --sha256 {worlds.PLAN.sha256}" in text
    for guard in worlds.PLAN.guards:
        assert f"G{guard.number:02} {guard.guard}" in text
    assert page.run("document.querySelectorAll('#remedies button, #remedies a').length") == 0


def test_a_column_that_does_not_apply_has_a_dash(page, listener):
    opened(page, listener)
    assert cell(page, "customers", "records") == "-"
    assert cell(page, "customers", "age") == "-"
    assert cell(page, "invoices-to-s3", "commit") == "-"  # a group's commit has no time
    assert cell(page, "invoices-to-s3", "records") == "900"


def test_the_worst_come_first(page, listener):
    opened(page, listener)
    assert names(page)[:2] == ["invoices-to-s3", "copy-west"]


def test_a_gap_in_the_last_hour_is_a_gap_in_the_line(page, listener):
    opened(page, listener)
    page.until("document.querySelector('#flows svg.spark')")
    path = page.run("document.querySelector('#flows svg.spark path.line').getAttribute('d')")
    assert path.count("M") == 2


def test_a_finding_that_comes_is_announced(page, listener):
    opened(page, listener)
    assert page.run("document.getElementById('announced').textContent") == ""
    (first, *_) = listener.now.findings
    fresh = replace(first, subject="south->east", summary="Nothing comes from south")
    listener.now = replace(
        listener.now, at=listener.now.at + 5, findings=(*listener.now.findings, fresh)
    )
    page.until("document.getElementById('announced').textContent.includes('comes from south')")
    assert page.run("document.getElementById('announced').ariaLive") == "polite"


def test_hostile_names_are_text_and_nothing_more(page, listener):
    listener.now = worlds.snapshot_with_markup()
    opened(page, listener)
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


def test_everything_can_be_reached_by_keyboard(page, listener):
    opened(page, listener)
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


def test_one_row_of_a_table_is_in_the_order_of_the_tab_key(page, listener):
    opened(page, listener)
    stops = "document.querySelectorAll('#connectors tbody button[tabindex=\"0\"]').length"
    assert page.run(stops) == 1


def test_an_open_row_and_the_focus_stay_while_the_page_is_renewed(page, listener):
    opened(page, listener)
    page.run("document.querySelector('#connectors tr[data-key] button').focus()")
    page.press("Enter")
    page.until("document.querySelector('.detail table')")
    before = page.run(FOCUSED)
    changed = tuple(replace(partition, lag=901) for partition in listener.now.sink_partitions)
    listener.now = replace(listener.now, at=listener.now.at + 5, sink_partitions=changed)
    page.until("document.querySelector('#connectors td.records').textContent === '901'")
    page.until("document.querySelector('.detail table').innerText.includes('901')")
    assert page.run(FOCUSED) == before


@pytest.mark.parametrize("width", [360, 820], ids=["phone", "tablet"])
@pytest.mark.parametrize(
    "world", [worlds.snapshot_with_markup, worlds.fleet], ids=["hostile", "fleet"]
)
def test_the_page_never_scrolls_sideways(page, listener, width, world):
    listener.now = world()
    listener.boards_url = "https://grafana.example.com"
    opened(page, listener, width=width, height=844)
    page.run(f"{UNFOLD} ?? 0")
    page.run("document.querySelectorAll('.fold button').forEach((fold) => fold.click())")
    page.run("document.querySelector('#connectors tr[data-key] button').click()")
    page.until("document.querySelector('.detail table')")
    wide = page.run("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1] == width


def test_a_daemon_that_dies_is_reported_at_once_and_one_that_comes_back_too(page, listener):
    opened(page, listener)
    listener.die()
    page.until("document.getElementById('alarm').innerText.includes('No answer from the daemon')")
    assert "may be wrong by now" in text_of(page, "alarm")
    assert "It is not renewed" in text_of(page, "freshness")
    assert page.run("document.title").startswith("no answer")
    listener.come_back()
    page.until("document.getElementById('alarm').innerText === ''")


def test_a_main_loop_that_has_stopped_is_reported(page, listener):
    listener.alive = False
    opened(page, listener)
    assert "its main loop has stopped" in text_of(page, "alarm")


def test_a_daemon_that_is_not_ready_says_so_and_pretends_no_numbers(page, listener):
    listener.now = replace(
        EMPTY_SNAPSHOT, at=worlds.NOW, waiting_for=("tail east/offsets: waiting for the end",)
    )
    page.open(listener.url)
    page.until("document.getElementById('waiting').innerText.includes('east/offsets')")
    assert "\ntopic east/offsets: waiting for the end" in text_of(page, "waiting")
    assert "None known so far" in text_of(page, "findings")
    assert text_of(page, "connectors") == "Not known yet."
    assert text_of(page, "flows") == "Not known yet."


def test_a_daemon_that_has_read_nothing_yet_says_so(page, listener):
    listener.now = EMPTY_SNAPSHOT
    page.open(listener.url)
    page.until("document.getElementById('alarm').innerText.includes('nothing has been read yet')")
    assert text_of(page, "connectors") == "Not known yet."


@pytest.mark.parametrize("hidden", [True, False], ids=["hidden", "seen"])
def test_nothing_is_queried_while_the_tab_is_hidden(listener, tmp_path, hidden):
    with chromium(tmp_path) as page:  # one of its own, as its clock is stopped
        opened(page, listener)
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


def test_an_offset_beyond_2_to_the_53_is_never_rounded(page, listener):
    huge = 9_007_199_254_740_993
    sinks = tuple(
        replace(partition, committed=huge, lag=huge) for partition in listener.now.sink_partitions
    )
    listener.now = replace(listener.now, sink_partitions=sinks)
    opened(page, listener)
    assert cell(page, "invoices-to-s3", "records") in (f"{huge:,}", "beyond 2^53")
    assert cell(page, "invoices-to-s3", "position") == f"{huge:,}"


def test_2000_connectors_are_shown_and_found(page, listener):
    listener.now = worlds.many(2000)
    opened(page, listener)
    assert text_of(page, "connectors").startswith("2,000 connectors")
    result = page.run(ROWS)
    assert 0 < result < 200  # the others are made as they are scrolled to
    took = "performance.getEntriesByName('offsetwatch-show', 'measure')[0].duration"
    print(f"2,000 connectors: shown within {page.run(took):.0f} ms")  # noqa: T201 - pytest -rP
    page.press("/")
    for letter in "orders-1999":
        page.press(letter)
    assert names(page) == ["orders-1999"]
    page.press("Escape")
    page.run(f"{FOLD}.click()")
    page.run("scrollTo(0, document.documentElement.scrollHeight)")
    page.until(f"{ROWS} > {result + 100}")
    laid_out = page.run(TIMED_UPDATE)
    print(f"2,000 connectors: shown again and laid out within {laid_out:.0f} ms")  # noqa: T201
    assert laid_out < 2_000


def test_the_page_shows_findings_with_the_password_and_answers_401_without_it(page, guarded):
    page.call("Page.navigate", url=guarded.url.replace("://", f"://{USER}:{PASSWORD}@"))
    page.until(f"{ROWS} > 0")
    before = page.run("performance.getEntriesByType('resource').length")
    page.until(f"performance.getEntriesByType('resource').length > {before}")  # it asks again
    assert "copy-west makes no progress: work waits" in text_of(page, "findings")
    assert (
        httpx.get(guarded.url, trust_env=False, verify=NO_AUTHORITIES).status_code
        == httpx.codes.UNAUTHORIZED
    )


GROUPS = (
    "[...document.querySelectorAll('#connectors .group .title')].map((title) => title.textContent)"
)


def test_connectors_are_grouped_by_connect_cluster_and_the_worst_group_comes_first(page, listener):
    listener.now = worlds.fleet()
    opened(page, listener)
    assert page.run(GROUPS) == ["lab", "payments", "warehouse"]
    assert "40 connectors: 1 stalled, 39 ok" in text_of(page, "connectors")
    assert page.run("document.querySelector('#flows .group .title').textContent") == "into east"


def test_only_rows_that_need_attention_are_unfolded(page, listener):
    listener.now = worlds.fleet()
    opened(page, listener)
    assert names(page) == ["invoices-to-s3", "copy-west", "price-list", "payments-17"]
    folds = "[...document.querySelectorAll('#connectors .fold')].map((fold) => fold.innerText)"
    assert [fold.strip() for fold in page.run(folds)] == [
        "2 ok",
        "39 ok",
        "1 paused, 19 ok",
    ]
    page.run(f"{FOLD}.click()")
    assert {"customers", "copy-south"} < set(names(page))
    page.run(f"{FOLD}.click()")
    assert len(names(page)) == 4


def test_a_row_that_recovers_stays_while_it_is_open(page, listener):
    listener.now = worlds.fleet()
    opened(page, listener)
    page.run(
        "[...document.querySelectorAll('#connectors tr[data-key] button')]"
        ".find((button) => button.textContent.includes('payments-17')).click()"
    )
    page.until("document.querySelector('.detail table')")
    healthy = tuple(
        replace(judgement, verdict=Verdict.OK)
        if judgement.connector == "payments-17"
        else judgement
        for judgement in listener.now.judgements
    )
    listener.now = replace(listener.now, at=listener.now.at + 5, judgements=healthy)
    page.until("document.getElementById('connectors').innerText.includes('40 connectors: 40 ok')")
    assert "payments-17" in names(page)
    assert page.run("document.querySelector('.detail table') !== null")


def test_of_equally_urgent_rows_the_greater_lag_comes_first(page, listener):
    (sink,) = listener.now.sink_partitions
    stalled = [f"sink-{number}" for number in range(3)]
    seconds = (10.0, 3000.0, 60.0)
    like = next(
        connector for connector in listener.now.connectors if connector.name == sink.connector
    )
    judged = next(
        judgement for judgement in listener.now.judgements if judgement.connector == sink.connector
    )
    listener.now = replace(
        listener.now,
        connectors=tuple(replace(like, name=name) for name in stalled),
        judgements=tuple(replace(judged, connector=name) for name in stalled),
        sink_partitions=tuple(
            replace(sink, connector=name, behind_since=listener.now.at - late)
            for name, late in zip(stalled, seconds, strict=True)
        ),
    )
    opened(page, listener)
    assert names(page)[:3] == ["sink-1", "sink-2", "sink-0"]


def test_a_long_position_is_short_in_the_table_and_whole_in_its_title(page, listener):
    listener.now = worlds.fleet()
    opened(page, listener)
    whole = page.run(
        "[...document.querySelectorAll('#connectors td.position')]"
        ".map((cell) => [cell.textContent, cell.title]).find(([text]) => text.startsWith('lsn'))"
    )
    assert whole[0] == "lsn 26,518,112, lsn_commit 26,518,056, 4 more"
    assert json.loads(whole[1])["txId"] == 753


def test_a_sparkline_has_an_axis_and_its_scale(page, listener):
    opened(page, listener)
    page.until("document.querySelector('#flows svg.spark')")
    scales = page.run("[...document.querySelectorAll('.scale')].map((scale) => scale.textContent)")
    assert "lag 0 to 25 min" in scales
    assert page.run(
        "[...document.querySelectorAll('svg.spark')].every((line) => line.querySelector('.axis'))"
    )


def test_rows_and_findings_link_to_the_boards_where_these_are_configured(page, listener):
    opened(page, listener)
    links = (
        "[...document.querySelectorAll('a')]"
        ".filter((a) => a.checkVisibility() && /Board/.test(a.text)).map((a) => a.href)"
    )
    assert page.run(links) == []
    listener.boards_url = "https://grafana.example.com/g/"
    listener.now = replace(listener.now, at=listener.now.at + 5)
    page.until("!document.getElementById('boards').hidden")
    page.run("document.querySelector('#flows tr[data-key] button').click()")
    page.until("document.querySelector('.detail table')")
    result = page.run(links)
    base = "https://grafana.example.com/g/d"
    assert result[0] == f"{base}/offsetwatch-fleet"
    assert f"{base}/offsetwatch-connector?var-connect_cluster=lab&var-connector=copy-west" in result
    flow = "var-connect_cluster=lab&var-source=west&var-target=east"
    assert f"{base}/offsetwatch-flow?{flow}" in result


# What a person may reach, in the order of the document. Rows of a table are one stop, and the arrow
# keys go through them.
REACHABLE = (
    "[...document.querySelectorAll('a, button, input, select, summary, [tabindex]')]"
    ".filter((at) => at.checkVisibility({ visibilityProperty: true }))"
)


def test_every_foldable_and_link_can_be_reached_and_shows_its_focus(page, listener):
    listener.now = worlds.fleet()
    listener.boards_url = "https://grafana.example.com"
    opened(page, listener)
    page.run(f"{UNFOLD} ?? 0")
    page.run("document.querySelector('#connectors tr[data-key] button').click()")
    page.until("document.querySelector('.detail table')")
    count = page.run(f"(window.reached = new Set(), {REACHABLE}.length)")
    visible = (
        "(() => { const at = document.activeElement; reached.add(at);"
        " const { outlineStyle, outlineWidth } = getComputedStyle(at);"
        " return at === document.body || (outlineStyle === 'solid' && outlineWidth === '3px'); })()"
    )
    page.run("(document.activeElement.blur(), 0)")
    for _ in range(count):
        page.press("Tab")
        assert page.run(visible), page.run("document.activeElement.outerHTML.slice(0, 200)")
    for board in ("flows", "connectors"):
        page.run(f"document.querySelector('#{board} tbody button').focus() ?? 0")
        for _ in range(count):
            assert page.run(visible)
            page.press("ArrowDown")
    missed = page.run(
        f"{REACHABLE}.filter((at) => !reached.has(at)).map((at) => at.outerHTML.slice(0, 200))"
    )
    assert missed == []


# Contrast of each text with what is behind it, as WCAG 2.2 has it (1.4.3): at least 4.5.
CONTRAST = """(() => {
  const rgba = (text) => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return [...found.slice(0, 3), found[3] ?? 1];
  };
  const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (rgb) => {
    const [r, g, b] = rgb.slice(0, 3).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const found = rgba(getComputedStyle(at).backgroundColor);
      if (found[3] === 1) return found;
    }
    return null;
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const at = text.parentElement;
    if (!text.data.trim() || !at.checkVisibility()) continue;
    const own = light(rgba(getComputedStyle(at).color));
    const [a, b] = [own, light(behind(at))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) low.push([at.className, text.data.slice(0, 60), ratio.toFixed(2)]);
  }
  return low;
})()"""


@pytest.mark.parametrize("stale", [False, True], ids=["fresh", "stale"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_all_text_has_contrast(page, listener, dark, stale):
    listener.now = worlds.fleet()
    opened(page, listener, dark=dark)
    page.run(f"{UNFOLD} ?? 0")
    page.run("document.querySelector('#connectors tr[data-key] button').click()")
    page.until("document.querySelector('.detail table')")
    assert page.run("getComputedStyle(document.body).backgroundColor") == (
        "rgb(20, 23, 26)" if dark else "rgb(255, 255, 255)"
    )
    if stale:
        listener.die()
        page.until("document.body.classList.contains('stale')")
        assert page.run("getComputedStyle(document.querySelector('main')).opacity") == "1"
    assert page.run(CONTRAST) == []
