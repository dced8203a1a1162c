"""The verbs `mode`, `pause`, `unpause` and `breaker`: switches that only an operator sets."""

from __future__ import annotations

from typing import Any

import click

from offsetwatch.cli.common import output
from offsetwatch.cli.common.options import parse_time
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.plans.print import MODE_MEANINGS, describe_pause
from offsetwatch.cli.plans.service_access import ServiceAccess, build_service_access, open_service
from offsetwatch.clock import SystemClock, UnixClock
from offsetwatch.errors import ConfigError
from offsetwatch.remedy.model.service_api import (
    Breaker,
    Mode,
    ProposalRefused,
    RequestTargetNotFound,
    Switches,
)

OK, FINDINGS, DENIED = 0, 1, 3


def change_mode(
    *, mode: str | None, because: str | None, output_format: OutputFormat, **where: Any
) -> int:
    """Print or set the mode of remediation; return the exit code."""
    access = build_service_access(**where)
    if access.listener is None and access.config_path is None:
        raise click.UsageError("say --config or --url: the configuration sets how far it may go")
    if mode is None:
        with open_service(access) as session:
            switches = session.service.switches()
        output.print_result(output_format, switches, lambda: _print_switches(switches))
        return OK
    if because is None:
        raise click.UsageError(
            "say --because: the journal needs a reason for every change of the mode"
        )
    requested = Mode(mode)
    with open_service(access) as session:
        answer = session.service.set_mode(requested, session.by, because)
        now = session.service.switches().mode
    if isinstance(answer, ProposalRefused):
        output.print_error(answer.said, f"the mode is still {now.value}: {MODE_MEANINGS[now]}")
        return DENIED
    output.print_error(f"the mode is {now.value}: {MODE_MEANINGS[now]}")
    if now is not requested:  # a daemon of an earlier version recorded it without effect
        output.print_error(f"{requested.value} is above what that daemon's configuration allows")
        return DENIED
    return OK


def _print_switches(switches: Switches) -> None:
    pause = switches.pause
    rows = (
        ("mode", f"{switches.mode.value}: {MODE_MEANINGS[switches.mode]}"),
        ("pause", "none" if pause is None else describe_pause(pause)),
        ("open breakers", str(len(switches.breakers))),
    )
    output.print_table("Remediation", ("", ""), rows)
    if switches.breakers:
        _print_breakers(switches.breakers)


def pause_plans(
    *, span_s: float | None, until: str | None, indefinitely: bool, because: str, **where: Any
) -> None:
    """Begin no new plan until the end that was typed."""
    if (span_s is not None) + (until is not None) + indefinitely != 1:
        raise click.UsageError("say one of --for, --until and --indefinitely")
    pause_remediation(build_service_access(**where), span_s=span_s, until=until, because=because)


def pause_remediation(
    access: ServiceAccess,
    *,
    span_s: float | None,
    until: str | None,
    because: str,
    clock: UnixClock | None = None,
) -> None:
    """Begin no new plan for `span_s` seconds, or until a moment, or else until further notice.

    A running plan ends safely.
    """
    now = (SystemClock() if clock is None else clock).now()
    end: float | None = None
    if span_s is not None:
        end = now + span_s
    elif until is not None:
        end = parse_time(until, now, "--until")
    if end is not None and end <= now:
        option = "--for" if until is None else f"--until {until}"
        raise ConfigError(
            (
                (
                    f"{option}: {output.format_moment(end)} is over already, so nothing is paused: "
                    "name "
                    "a later end, as in --for 30m"
                ),
            )
        )
    with open_service(access) as session:
        before = session.service.switches().pause
        session.service.pause(end, session.by, because)
    how_long = "until an operator ends it" if end is None else f"until {output.format_moment(end)}"
    output.print_error(f"no new plan begins {how_long}; a running plan ends safely")
    if before is not None:
        output.print_error(f"this replaces the pause {describe_pause(before)}")


def end_pause(*, because: str, **where: Any) -> None:
    """End a pause."""
    with open_service(build_service_access(**where)) as session:
        pause = session.service.switches().pause
        session.service.unpause(session.by, because)
    output.print_error("there was no pause" if pause is None else "the pause is over")


def print_breakers(*, output_format: OutputFormat, **where: Any) -> int:
    """Print open breakers; return the exit code."""
    with open_service(build_service_access(**where)) as session:
        breakers = session.service.switches().breakers
    if output_format is not OutputFormat.TABLE:
        output.print_document(output_format, breakers)
    elif breakers:
        _print_breakers(breakers)
    else:
        output.print_error("no breaker is open")
    return FINDINGS if breakers else OK


def _print_breakers(breakers: tuple[Breaker, ...]) -> None:
    rows = (
        (breaker.scope, output.format_moment(breaker.opened_at), breaker.said)
        for breaker in breakers
    )
    output.print_table("Open breakers", ("scope", "since", "why"), rows)


def close_breaker(scope: str, *, because: str, **where: Any) -> None:
    """Close a breaker."""
    with open_service(build_service_access(**where)) as session:
        answer = session.service.ack_breaker(scope, session.by, because)
        if isinstance(answer, RequestTargetNotFound):
            there = ", ".join(breaker.scope for breaker in session.service.switches().breakers)
            right = f"open: {there}" if there else "none is open"
            raise ConfigError(
                (f"no breaker of {scope} is open: `breaker list` shows them ({right})",)
            )
    output.print_error(f"the breaker of {scope} is closed")
