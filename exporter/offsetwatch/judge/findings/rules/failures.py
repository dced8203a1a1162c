"""Rules 5 to 9: connectors and tasks that fail, once or over and over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from offsetwatch.decode.stack_trace import is_start_failure
from offsetwatch.formatting import format_count
from offsetwatch.judge.findings.failure_history import (
    CONNECTOR_TASK_NUMBER,
    FAILURES_MIN,
    FailureRunState,
    TaskFailureHistory,
    TaskKey,
)
from offsetwatch.judge.findings.rule_context import RuleContext
from offsetwatch.judge.text_formats import (
    NO_REASON,
    build_examples,
    build_position_item,
    build_time_item,
    format_names,
    parse_exception_name,
)
from offsetwatch.model.connectors import Task
from offsetwatch.model.findings import (
    OFFSET,
    TIMES,
    Evidence,
    EvidenceItem,
    Finding,
    FindingName,
    Severity,
)
from offsetwatch.state.snapshot import MirrorPartitionView, SinkPartitionView
from offsetwatch.state.snapshot_index import ConnectorKey

POSITION_CHARS_MAX: Final = 80  # in a headline
# What has failed and does not now is over once that lasts for three intervals.
_FAILED_RECENTLY = "FAILED until recently"
_NO_COMMIT = "no commit yet"


def find_failed_connectors(context: RuleContext) -> Iterator[Finding]:
    """Rule 5: a connector's state is failed: it makes no tasks, and changes to it do nothing. It is
    over once it has run, or rested, for three intervals.
    """
    unsettled = context.memory.failures.unsettled()
    for key, view in context.index.connectors.items():
        again = unsettled.get(key, {}).get(CONNECTOR_TASK_NUMBER)
        if view.state == "failed" or again is not None:
            fails = view.state == "failed"
            failure = view.failure if fails else again
            yield context.found(
                FindingName.CONNECTOR_FAILED,
                Severity.CRITICAL,
                key,
                f"{'FAILED' if fails else _FAILED_RECENTLY}: {parse_exception_name(failure)}.",
                evidence=(
                    *((EvidenceItem("error", failure),) if failure else ()),
                    *_build_failure_evidence(context, (*key, CONNECTOR_TASK_NUMBER)),
                ),
            )


def find_failed_tasks(context: RuleContext) -> Iterator[Finding]:
    """Rule 6: tasks of a connector are failed. Nobody starts them again by themselves. It is over
    once they have run, or rested, for three intervals: until then they may fail again.
    """
    unsettled = context.memory.failures.unsettled()
    for key, view in context.index.connectors.items():
        failed = [task for task in view.tasks if task.state == "failed"]
        fails = bool(failed)
        numbers = {task.number for task in failed}
        failed += [
            Task(number, "", failure or None)
            for number, failure in unsettled.get(key, {}).items()
            if number != CONNECTOR_TASK_NUMBER and number not in numbers
        ]
        if not failed:
            continue
        numbers = {task.number for task in failed}
        running = any(task.state == "running" and task.number not in numbers for task in view.tasks)
        total = len(numbers | {task.number for task in view.tasks})
        first = failed[0]
        first_key = (*key, first.number)
        history = context.memory.failures.of.get(first_key)
        run = None if history is None else history.run
        where = ""
        if total == 1 and first.failure and run is not None and not run.moved:
            where = _format_position(run.same)
        many = (
            f"task {first.number}"
            if len(failed) == 1
            else f"{len(failed)} of {format_count(total, 'task')}"
        )
        yield context.found(
            FindingName.TASK_FAILED,
            Severity.WARNING if running else Severity.CRITICAL,
            key,
            f"{many} {'FAILED' if fails else _FAILED_RECENTLY}: "
            f"{parse_exception_name(first.failure)}{where}.",
            evidence=(
                *build_examples([_build_failure_item(task) for task in failed]),
                *_build_failure_evidence(context, first_key),
            ),
        )


def find_suspected_poison(context: RuleContext) -> Iterator[Finding]:
    """Rule 7: a task failed three times or more with the same kind of error, was started again in
    between, and stands where it stood: what comes next cannot be got past. Of a connector whose
    other partitions moved meanwhile only those count in which work is known to wait. A task that
    fails while it starts has read no record: rules 6 and 8 report it.
    """
    suspected: dict[ConnectorKey, list[tuple[int, FailureRunState, Mapping[str, str]]]] = {}
    runs = [(of, history.run) for of, history in context.memory.failures.of.items() if history.run]
    for (cluster, connector, number), run in sorted(runs):
        if (
            number == CONNECTOR_TASK_NUMBER
            or run.count < FAILURES_MIN
            or is_start_failure(run.failure)
        ):
            continue
        stuck = _find_stuck_positions(context, (cluster, connector), run)
        if stuck:
            suspected.setdefault((cluster, connector), []).append((number, run, stuck))
    for key, tasks in suspected.items():
        number, run, stuck = max(tasks, key=lambda item: item[1].count)
        where = [
            build_position_item(f"{of} position", text or _NO_COMMIT)
            for of, text in stuck.items()
            if of
        ]
        yield context.found(
            FindingName.POISON_SUSPECTED,
            Severity.CRITICAL,
            key,
            f"task {number} failed {format_count(run.count, 'time')} at the same position: "
            f"{parse_exception_name(run.failure)}{_format_position(stuck)}; restarts have not "
            "helped.",
            evidence=(
                EvidenceItem("error", run.failure or "not reported"),
                *build_examples(where or [EvidenceItem("position", _NO_COMMIT)]),
                EvidenceItem("task", format_names(task[0] for task in tasks)),
                build_time_item("first failed", run.first_at),
                build_time_item("last failed", run.last_at),
            ),
        )


def find_restart_loops(context: RuleContext) -> Iterator[Finding]:
    """Rule 8: a connector or a task was started again after a failure three times or more within a
    window: whoever restarts it hides that it is ill.
    """
    window_s = context.settings.window * context.settings.interval_s
    loops: dict[ConnectorKey, list[tuple[int, int, TaskFailureHistory]]] = {}
    restarted = [
        (of, history) for of, history in context.memory.failures.of.items() if history.restarts
    ]
    for (cluster, connector, number), history in sorted(restarted):
        count = sum(0 <= context.now - restart <= window_s for restart in history.restarts)
        if count >= FAILURES_MIN:
            loops.setdefault((cluster, connector), []).append((number, count, history))
    for key, tasks in loops.items():
        number, count, history = max(tasks, key=lambda item: item[1])
        run = history.run
        yield context.found(
            FindingName.RESTART_LOOP,
            Severity.WARNING,
            key,
            f"{_name_task(number)}failed and was restarted {FAILURES_MIN} times or more within "
            f"{window_s / 60:.0f} min, so it looks healthy most of the time.",
            evidence=(
                EvidenceItem("restarted", count, TIMES),
                EvidenceItem("error", (run.failure if run is not None else "") or "not reported"),
                EvidenceItem(
                    "failing",
                    format_names(_name_task(task[0]).strip() or "the connector" for task in tasks),
                ),
                build_time_item("last restart", history.restarts[-1]),
                EvidenceItem(
                    "position", "did not move" if run is not None and not run.moved else "moved"
                ),
            ),
        )


def find_sinks_below_log_start(context: RuleContext) -> Iterator[Finding]:
    """Rule 9: for two intervals (a commit is one old) a sink's group has stood before the start of
    the log: records it had not read are deleted, and some sinks never commit again.
    """
    for key, views in context.index.sink_partitions.items():
        below = [
            view
            for view in views
            if view.log_start is not None
            and view.committed is not None
            and view.committed < view.log_start
            and view.caught_up is not True  # what was deleted may be transaction markers alone
            and context.lasts("below", key, f"{view.topic}-{view.partition} {view.committed}")
            >= 2 * context.settings.interval_s
        ]
        if below:
            gone = sum((view.log_start or 0) - (view.committed or 0) for view in below)
            yield context.found(
                FindingName.SINK_BELOW_LOG_START,
                Severity.CRITICAL,
                key,
                f"lost up to {format_count(gone, 'record')} that were deleted before it read them; "
                "its position lies before the log start.",
                evidence=build_examples(
                    [
                        (
                            EvidenceItem(
                                f"{view.topic}-{view.partition} position", view.committed, OFFSET
                            ),
                            EvidenceItem(
                                f"{view.topic}-{view.partition} log start", view.log_start, OFFSET
                            ),
                        )
                        for view in below
                    ]
                ),
            )


def _find_stuck_positions(
    context: RuleContext, key: ConnectorKey, run: FailureRunState
) -> Mapping[str, str]:
    """Return the positions that never moved; if another one did, only those of them with work."""
    if not run.moved:
        return run.same
    views: Iterable[MirrorPartitionView | SinkPartitionView] = (
        *context.index.mirror_partitions.get(key, ()),
        *context.index.sink_partitions.get(key, ()),
    )
    waiting = {
        f"{view.topic}-{view.partition}" for view in views if view.lag and not view.caught_up
    }
    return {of: text for of, text in run.same.items() if of in waiting}


def _name_task(number: int) -> str:
    return "" if number == CONNECTOR_TASK_NUMBER else f"task {number} "


def _format_position(positions: Mapping[str, str]) -> str:
    """Say where, if that is one position."""
    if len(positions) != 1:
        return ""
    ((label, text),) = positions.items()
    position_text = f" at {label}@{text}" if text else f" at {label}"
    return position_text if label and len(position_text) <= POSITION_CHARS_MAX else ""


def _build_failure_item(task: Task) -> EvidenceItem:
    failure = task.failure or NO_REASON
    text = failure if task.state == "failed" else f"not now: {failure}"
    return EvidenceItem(f"task {task.number}", text)


def _build_failure_evidence(context: RuleContext, key: TaskKey) -> Evidence:
    history = context.memory.failures.of.get(key)
    if history is None or history.run is None:
        return ()
    return (
        build_time_item("failed", history.run.last_at),
        EvidenceItem("failed in a row", history.run.count, TIMES),
    )
