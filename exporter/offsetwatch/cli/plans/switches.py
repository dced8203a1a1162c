"""The switches that are a person's alone: `mode`, `pause`, `unpause` and `breaker`."""

from __future__ import annotations

from typing import Final

from offsetwatch.cli.common import output
from offsetwatch.cli.common.output import OutputFormat
from offsetwatch.cli.common.time_arguments import parse_time
from offsetwatch.cli.plans.service_access import Access, at_desk
from offsetwatch.clock import Clock, SystemClock
from offsetwatch.errors import ConfigError
from offsetwatch.remedy.model.service_api import Breaker, Mode, NotFound, Pause, Switches

OK, FINDINGS = 0, 1
MEANS: Final = {
    Mode.OBSERVE: "reports what would be done, and does nothing",
    Mode.PROPOSE: "proposes plans, and carries out what an operator approves",
    Mode.AUTO: "acts without approval where the configuration allows it, and proposes elsewhere",
}


def show_mode(access: Access, *, output_format: OutputFormat) -> int:
    """Mode, pause and open breakers, as they are now."""
    with at_desk(access) as at:
        found = at.desk.switches()
    if output_format is not OutputFormat.TABLE:
        output.document(output_format, found)
    else:
        _print(found)
    return OK


def _print(found: Switches) -> None:
    held = found.pause
    rows = (
        ("mode", f"{found.mode.value}: {MEANS[found.mode]}"),
        ("pause", "none" if held is None else paused(held)),
        ("open breakers", str(len(found.breakers))),
    )
    output.table("Remediation", ("", ""), rows)
    if found.breakers:
        _print_breakers(found.breakers)


def paused(held: Pause) -> str:
    """Until when, and by whom."""
    until = (
        "until an operator ends it" if held.until is None else f"until {output.moment(held.until)}"
    )
    return f"{until}, by {held.by} since {output.moment(held.at)}: {held.because}"


def set_mode(access: Access, mode: Mode, *, because: str) -> int:
    """From now on. Never above what is configured, which is said where it makes a difference."""
    with at_desk(access) as at:
        at.desk.set_mode(mode, at.by, because)
        now = at.desk.switches().mode
    output.error(f"the mode is {now.value}: {MEANS[now]}")
    if now is not mode:
        output.error(
            f"{mode.value} is above what the configuration allows (remedy.mode: {now.value})"
        )
    return OK


def pause(
    access: Access,
    *,
    span_s: float | None,
    until: str | None,
    because: str,
    clock: Clock | None = None,
) -> int:
    """Begin nothing new for that long, until then, or (with neither) until somebody says so. What
    is under way comes to a safe end.
    """
    now = (SystemClock() if clock is None else clock).now()
    end: float | None = None
    if span_s is not None:
        end = now + span_s
    elif until is not None:
        end = parse_time(until, now, "--until")
    if end is not None and end <= now:
        raise ConfigError((f"{output.moment(end)} is over already: nothing is paused",))
    with at_desk(access) as at:
        at.desk.pause(end, at.by, because)
    how_long = "until an operator ends it" if end is None else f"until {output.moment(end)}"
    output.error(f"no new plan begins {how_long}; a running plan ends safely")
    return OK


def unpause(access: Access, *, because: str) -> int:
    """Go on."""
    with at_desk(access) as at:
        held = at.desk.switches().pause
        at.desk.unpause(at.by, because)
    output.error("there was no pause" if held is None else "the pause is over")
    return OK


def list_breakers(access: Access, *, output_format: OutputFormat) -> int:
    """What is open. Exit code 1 if anything is."""
    with at_desk(access) as at:
        found = at.desk.switches().breakers
    if output_format is not OutputFormat.TABLE:
        output.document(output_format, found)
    elif found:
        _print_breakers(found)
    else:
        output.error("no breaker is open")
    return FINDINGS if found else OK


def _print_breakers(found: tuple[Breaker, ...]) -> None:
    rows = ((at.scope, output.moment(at.opened_at), at.said) for at in found)
    output.table("Open breakers", ("scope", "since", "why"), rows)


def ack_breaker(access: Access, scope: str, *, because: str) -> int:
    """Close it: a person has looked."""
    with at_desk(access) as at:
        answer = at.desk.ack_breaker(scope, at.by, because)
        if isinstance(answer, NotFound):
            there = ", ".join(breaker.scope for breaker in at.desk.switches().breakers)
            raise ConfigError((f"no breaker of {scope} is open ({there or 'none is'})",))
    output.error(f"the breaker of {scope} is closed")
    return OK
