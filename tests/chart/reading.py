"""Rendered manifests, looked at by what they are. Called by the tests of the chart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from lab.kubernetes import chart
from lab.kubernetes.api_server import Json

LEAST = {
    "config": {
        "kafka": {"east": {"bootstrap": "broker-1:9092"}},
        "connect": [{"name": "lab", "kafka": "east", "url": "http://worker-1:8083"}],
    }
}


def with_values(values: dict[str, Any], path: Path) -> list[Json]:
    """Rendered with the least that is needed, and these values over it."""
    return chart.documents(refusable(values, path))


def refusable(values: dict[str, Any], path: Path) -> chart.Said:
    """The same, where helm may say no."""
    least = chart.values_file(LEAST, path / "least.yaml")
    return chart.render(least, chart.values_file(values, path / "values.yaml"))


def of_kind(documents: Iterable[Json], *kinds: str) -> list[Json]:
    return [document for document in documents if document["kind"] in kinds]


def one(documents: Iterable[Json], kind: str, name: str | None = None) -> Json:
    (result,) = (
        document
        for document in of_kind(documents, kind)
        if name is None or document["metadata"]["name"] == name
    )
    return result


def pods(documents: Iterable[Json]) -> Iterator[Json]:
    """The template of each pod that the chart has started."""
    for document in documents:
        spec = document.get("spec", {})
        if document["kind"] == "CronJob":
            spec = spec["jobTemplate"]["spec"]
        if "template" in spec:
            yield spec["template"]


def running(documents: Iterable[Json]) -> list[Json]:
    """Without jobs that only wait to be copied by hand."""
    return [document for document in documents if not document.get("spec", {}).get("suspend")]


def containers(documents: Iterable[Json]) -> dict[str, Json]:
    """Those that are ours, by pod component and name."""
    return {
        f"{pod['metadata']['labels']['app.kubernetes.io/component']}/{each['name']}": each
        for pod in pods(documents)
        for each in pod["spec"]["containers"]
        if each["name"] in {"offsetwatch", "history"}
    }


def configuration(documents: Iterable[Json]) -> Json:
    secret = one(documents, "Secret")
    result: Json = yaml.safe_load(secret["stringData"]["config.yaml"])
    return result
