"""Routing of records to topics by the transforms of a connector.

Connect's RegexRouter is reproduced exactly (RegexRouter.apply, Matcher.replaceFirst), and so is
Debezium's ByLogicalTableRouter, which names topics in the same way. Other routers depend on the
record, or on code that is not available here. Of the predicates only TopicNameMatches can be
evaluated: it depends on the topic that the record has by then. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from offsetwatch.decode.java.pattern import JavaPattern
from offsetwatch.model.topology import REGEX_ROUTER, TopicRouter

_REPLACEMENT: Final = re.compile(
    r"\\(?P<escaped>.)|(?P<literal>[^\\$])|"
    r"\$(?:\{(?P<name>[A-Za-z][A-Za-z0-9]*)\}|(?P<digits>[0-9]+))",
    re.DOTALL,
)


def route_topic(routers: Iterable[TopicRouter], name: str) -> str | None:
    """Return the topic after these routers, applied in order.

    None if it cannot be determined, or if one of them would fail.
    """
    found: str | None = name
    for router in routers:
        if found is None:
            return None
        found = _apply_router(router, found)
    return found


def _apply_router(router: TopicRouter, name: str) -> str | None:
    applied = _is_applied(router, name)
    if applied is False:
        return name
    if router.regex is None:
        return None
    found = _replace_first(router.regex, router.replacement, name)
    if found == "" and router.class_name != REGEX_ROUTER:
        found = name  # ByLogicalTableRouter leaves the record where it is
    return found if applied or found == name else None


def _is_applied(router: TopicRouter, name: str) -> bool | None:
    """Return whether a router applies to the records of a topic.

    None if that differs from record to record, or is not known.
    """
    if router.conditional:
        return None
    if router.topics is None:
        return True
    matches = JavaPattern(router.topics).matches(name)
    return None if matches is None else matches is not router.negated


def _replace_first(regex: str, replacement: str, name: str) -> str | None:
    """Replace the first match, as RegexRouter.apply does with Matcher.replaceFirst.

    The whole name must match; the first match found may be shorter.
    """
    pattern = JavaPattern(regex)
    matches = pattern.matches(name)
    if not matches:
        return None if matches is None else name
    match = pattern.first_match(name)
    if match is None:
        return None
    text = _expand_replacement(replacement, match)
    return None if text is None else name[: match.start()] + text + name[match.end() :]


def _expand_replacement(replacement: str, match: Any) -> str | None:
    """Expand a replacement, as Matcher.appendReplacement does.

    None if that fails, and with it the task.
    """
    parts: list[str] = []
    position = 0
    while token := _REPLACEMENT.match(replacement, position):
        position = token.end()
        plain = token["escaped"] or token["literal"]
        if plain is not None:
            parts.append(plain)
            continue
        name = token["name"]
        if name is not None:
            if name not in match.re.groupindex:
                return None
            parts.append(match.group(name) or "")
            continue
        digits = token["digits"]
        # As many digits as still number a group, and one at least.
        while len(digits) > 1 and int(digits) > match.re.groups:
            digits = digits[:-1]
        if int(digits) > match.re.groups:
            return None
        position = token.start("digits") + len(digits)
        parts.append(match.group(int(digits)) or "")
    return "".join(parts) if position == len(replacement) else None
