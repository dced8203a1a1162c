"""Absolute paths for a loaded configuration: each is relative to the folder of the file.

Paths are made absolute once, when the file is loaded, so that the working directory never counts.
Settings that end in `_file` are made absolute while they are checked (schema/types.py), since they
must exist. The paths here may be missing, or be created later.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from offsetwatch.config.schema.root import Config

# What librdkafka 2.x reads from files, of the properties that take one path.
PATH_PROPERTIES: Final = frozenset(
    {
        "https.ca.location",
        "sasl.kerberos.keytab",
        "sasl.oauthbearer.assertion.jwt.template.file",
        "sasl.oauthbearer.assertion.private.key.file",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.crl.location",
        "ssl.engine.location",
        "ssl.key.location",
        "ssl.keystore.location",
    }
)
_PROBE_VALUE: Final = "probe"  # ssl.ca.location, https.ca.location: wherever this system has it
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def make_paths_absolute(config: Config, folder: Path) -> Config:
    """Return the configuration with every path in it absolute."""
    home = folder.resolve()

    def absolute(value: str) -> str:
        return value if _URI.match(value) else str(home / value)

    def of_property(name: str, value: str) -> str:
        taken = name in PATH_PROPERTIES and value not in {"", _PROBE_VALUE}
        return absolute(value) if taken else value

    return config.model_copy(
        update={
            "state_dir": str((home / config.state_dir).resolve()),
            "history": config.history.model_copy(update={"path": absolute(config.history.path)}),
            "remedy": config.remedy.model_copy(
                update={"kill_switch": absolute(config.remedy.kill_switch)}
            ),
            "kafka": {
                name: kafka.model_copy(
                    update={
                        "properties": {
                            key: of_property(key, value) for key, value in kafka.properties.items()
                        }
                    }
                )
                for name, kafka in config.kafka.items()
            },
            "connect": [
                connect.model_copy(
                    update={"worker_logs": [absolute(log) for log in connect.worker_logs]}
                )
                for connect in config.connect
            ],
        }
    )
