"""Acted out: what `status` and `explain` say of an incident, beside the daemon and without it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab import Load
from lab.stories import Flow, stalls
from tests.real.observed_findings import Stage, named

pytestmark = [pytest.mark.real, pytest.mark.full]

FINDINGS = 1
Document = dict[str, Any]


def test_status_and_explain_query_the_daemon_and_without_it_go_on_from_what_it_remembered(
    stage: Stage,
) -> None:
    with stage.flow("shown") as flow:
        explain_story(stage, flow)


def explain_story(stage: Stage, flow: Flow) -> None:
    expected = f"mm2_silent_stall {flow.connector}"
    more = Load(stage.lab, rate_per_s=2.0, topics={flow.topic: 1})
    with stage.story(expected) as story, more:
        action = stalls.reading_denied(flow)
        since = story.await_finding(expected, action.at)["since"]
        request, explained = said(stage, flow)
        assert request["told_by"].startswith("the daemon on 127.0.0.1:")
        stage.product.kill_daemon()
        alone, explained_alone = said(stage, flow)
        assert "from the state of a daemon" in alone["told_by"]
        for document in (request, alone, explained, explained_alone):
            results = {named(finding): finding["since"] for finding in document["findings"]}
            assert results[expected] == since
            assert verdict(document, flow) == verdict(request, flow)
        assert verdict(request, flow)[0] == "silent"
        (rule,) = {judgement["rule_text"] for judgement in explained_alone["judgements"]}
        assert rule.startswith("Rule 5: ")
        stage.product.start_daemon()
        more.stop()
        stalls.reading_allowed(flow)


def said(stage: Stage, flow: Flow) -> tuple[Document, Document]:
    """What `status` and `explain` print."""
    status = stage.product.cli("status", "--json", status=FINDINGS)
    explained = stage.product.cli("explain", flow.connector, "--json", status=FINDINGS)
    return json.loads(status), json.loads(explained)


def verdict(document: Document, flow: Flow) -> tuple[str, str]:
    """Of the connector, and since when."""
    return next(
        (judgement["verdict"], judgement["since"])
        for judgement in document["judgements"]
        if (judgement["scope"], judgement["connector"]) == ("connector", flow.connector)
    )
