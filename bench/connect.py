"""A Connect worker that answers and does nothing else, in a process of its own.

`python -m bench.connect --port N --file ANSWERS`: each path of the file is answered with what
stands there, byte for byte, over connections that stay open. A real worker with a thousand
connectors would take the processor that is to be measured.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

VERSION = "4.3.1"
LISTING = "/connectors?expand=status&expand=info"
MIRROR_TASK = "org.apache.kafka.connect.mirror.MirrorSourceTask"

Config = Mapping[str, str]
Offsets = list[tuple[Mapping[str, Any], Mapping[str, Any]]]


def answers(cluster_id: str, built: Mapping[str, tuple[Config, Offsets]]) -> dict[str, bytes]:
    """What a worker of that Kafka cluster says of source connectors: paths and bodies."""
    results: dict[str, Any] = {
        "/": {"version": VERSION, "commit": "bench", "kafka_cluster_id": cluster_id},
        "/connectors": list(built),
        LISTING: {name: _listed(name, config) for name, (config, _) in built.items()},
    }
    for name, (config, offsets) in built.items():
        value = f"/connectors/{quote(name, safe='')}"
        results[value + "/config"] = config
        results[value + "/status"] = results[LISTING][name]["status"]
        results[value + "/tasks"] = [{"id": _task(name), "config": _task_config(config, offsets)}]
        results[value + "/offsets"] = {
            "offsets": [{"partition": location, "offset": offset} for location, offset in offsets]
        }
    return {path: json.dumps(report).encode() for path, report in results.items()}


def _listed(name: str, config: Config) -> dict[str, Any]:
    worker = {"state": "RUNNING", "worker_id": "127.0.0.1:8083", "version": VERSION}
    return {
        "info": {"name": name, "config": config, "tasks": [_task(name)], "type": "source"},
        "status": {
            "name": name,
            "connector": worker,
            "tasks": [{"id": 0, **worker}],
            "type": "source",
        },
    }


def _task(name: str) -> dict[str, Any]:
    return {"connector": name, "task": 0}


def _task_config(config: Config, offsets: Offsets) -> Config:
    if "source.cluster.alias" not in config:
        return config
    inputs = ",".join(f"{location['topic']}-{location['partition']}" for location, _ in offsets)
    return {**config, "task.class": MIRROR_TASK, "task.assigned.partitions": inputs}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    bodies: Mapping[str, bytes] = {}

    def do_GET(self) -> None:
        """What the file says."""
        body = self.bodies.get(self.path)
        self.send_response(404 if body is None else 200)
        body = body or b'{"error_code":404,"message":"HTTP 404 Not Found"}'
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--file", type=Path, required=True)
    inputs = parser.parse_args()
    document: dict[str, str] = json.loads(inputs.file.read_text())
    _Handler.bodies = {path: body.encode() for path, body in document.items()}
    ThreadingHTTPServer(("127.0.0.1", inputs.port), _Handler).serve_forever()


if __name__ == "__main__":
    main()
