"""Whatever happens, the register says something sound of it, and a restart says the same."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from offsetwatch.model.connectors import Task
from offsetwatch.model.findings import format_value
from offsetwatch.model.observations import CONNECT_REST, LOG_ENDS, InputFailed, InputId
from tests.unit.judge.register_runs import BAD, Play, connector, task
from tests.unit.state.worlds import FILE, SYNCS, mirror, mirrors, orders, source

STATES = st.sampled_from(("running", "failed", "paused", "stopped", "unassigned"))
NAMES = st.sampled_from(("files", "more", "mm2"))


def listed(play: Play, state: str, tasks: list[str], missing: str) -> None:
    all_tasks = tuple(Task(number, name, BAD) for number, name in enumerate(tasks))
    built = (
        source("files", state=state, tasks=all_tasks),
        source("more", dedicated_offsets_topic="own"),
        mirror(),
    )
    play.world.listed(*(any_connector for any_connector in built if any_connector.name != missing))


EVENTS = st.one_of(
    st.builds(
        lambda state, tasks, missing: lambda play: listed(play, state, tasks, missing),
        STATES,
        st.lists(STATES, max_size=3),
        st.sampled_from(("", "files", "mm2")),
    ),
    st.builds(
        lambda name, item: (
            lambda play: play.world.commit(name, FILE, None if item is None else {"position": item})
        ),
        NAMES,
        st.none() | st.integers(-5, 50),
    ),
    st.builds(
        lambda number, item: lambda play: play.world.commit("mm2", orders(number), item),
        st.integers(0, 2),
        st.none()
        | st.integers(0, 300).map(lambda offset: {"offset": offset})
        | st.just({"offset": "x"}),
    ),
    st.builds(lambda item: lambda play: play.world.synced(item), st.integers(0, 300)),
    st.builds(lambda item: lambda play: play.world.ends(item), st.integers(0, 300)),
    st.builds(
        lambda reason: lambda play: play.world.tail_failed(reason, SYNCS),
        st.sampled_from(("not_found", "timeout")),
    ),
    st.builds(
        lambda item: lambda play: play.world.see(InputFailed(item, "timeout", "no luck")),
        st.sampled_from(
            (InputId(CONNECT_REST, connect_cluster="lab"), InputId(LOG_ENDS, kafka="west"))
        ),
    ),
    st.builds(
        lambda name, state: lambda play: play.add_statuses(task(state, name=name, failure=BAD)),
        NAMES,
        STATES,
    ),
    st.builds(
        lambda name, state: lambda play: play.add_statuses(connector(state, name=name)),
        NAMES,
        st.none() | STATES,
    ),
    st.builds(
        lambda seconds: lambda play: setattr(play.world, "now", play.world.now + seconds),
        st.sampled_from((-3600.0, -7.0, 1.0, 45.0, 700.0, 90_000.0)),
    ),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(EVENTS, max_size=40))
def test_whatever_happens_findings_are_sound_and_outlive_a_restart(events):
    play = Play(mirrors(mirror(), source("files"), source("more")))
    play.world.assigned(0, 1, 2)
    play.status_followed()
    for event in events:
        event(play)
        results = play.evaluate()
        assert len({finding.key for finding in results}) == len(results)
        assert all(finding.since <= play.world.now for finding in results)
        assert all(
            finding.summary.endswith(".") and finding.summary.isprintable() for finding in results
        )
        assert all(
            item.name and format_value(item) for finding in results for item in finding.evidence
        )
        ranks = [("critical", "warning", "info").index(finding.severity) for finding in results]
        assert ranks == sorted(ranks)
    before = {(finding.key, finding.since) for finding in play.evaluate()}
    play.restart()
    after = {(finding.key, finding.since) for finding in play.register.found(play.snapshot())}
    assert after == before


@settings(max_examples=100, deadline=None)
@given(st.lists(EVENTS, max_size=40))
def test_what_is_not_inspected_again_would_be_observed_the_same(events):
    plays = [Play(mirrors(mirror(), source("files"), source("more"))) for _ in range(2)]
    for play in plays:
        play.world.assigned(0, 1, 2)
        play.status_followed()
    for event in events:
        for play in plays:
            event(play)
        plays[1].register._memory.falls._before = None
        assert plays[0].evaluate() == plays[1].evaluate()
        first, second = (item.register._memory.falls for item in plays)
        assert (first.recopies, first._positions, first.meant) == (
            second.recopies,
            second._positions,
            second.meant,
        )
