"""The verb `discover`: what Strimzi runs in a namespace, printed as a configuration of ours.

The configuration goes to standard output, who owns which connector and all there is to say to
standard error. Secrets are read only where files are asked for, and go nowhere else.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import yaml

from offsetwatch.cli.common import output
from offsetwatch.clients.kubernetes.access import access_of
from offsetwatch.clients.kubernetes.reader import KubeReader
from offsetwatch.errors import ConfigError, NotFound
from offsetwatch.toolbox.strimzi_discovery import Found, Resources, found_in, text_of

OK: Final = 0
FOLDER: Final = "secrets"


def discover(namespace: str, kubeconfig: Path | None, secrets_to: Path | None) -> int:
    """Raises ConfigError, ClientError."""
    reader = KubeReader(access_of(kubeconfig))
    resources = Resources(
        namespace,
        *(
            tuple(reader.resources(plural, namespace))
            for plural in ("kafkas", "kafkaconnects", "kafkamirrormaker2s", "kafkaconnectors")
        ),
    )
    folder = FOLDER if secrets_to is None else str(secrets_to.resolve())
    found = found_in(resources, folder=folder)
    if not found.connect:
        raise ConfigError((f"--strimzi: no KafkaConnect and no KafkaMirrorMaker2 in {namespace}",))
    if secrets_to is not None:
        _write(reader, namespace, found, secrets_to)
    document = {"kafka": found.kafka, "connect": found.connect}
    sys.stdout.write(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    _tell(found, written=secrets_to is not None)
    return OK


def _tell(found: Found, *, written: bool) -> None:
    for (connect, connector), owner in sorted(found.owners.items()):
        output.error(f"{connect}/{connector}: owned by {owner}")
    for note in found.notes:
        output.error(note)
    if found.files and not written:
        for name, parts in sorted(found.files.items()):
            named = ", ".join(f"{key} of Secret {secret}" for secret, key in parts)
            output.error(f"{FOLDER}/{name}: to be made of {named}; --secrets-to FOLDER does it")


def _write(reader: KubeReader, namespace: str, found: Found, folder: Path) -> None:
    """All of them, or none."""
    secrets = {}
    for parts in found.files.values():
        for name, _ in parts:
            if name not in secrets:
                try:
                    secrets[name] = reader.secret(namespace, name)
                except NotFound as exc:
                    raise ConfigError((f"--secrets-to: no Secret {namespace}/{name}",)) from exc
    try:
        texts = {name: text_of(parts, secrets) for name, parts in found.files.items()}
    except KeyError as exc:
        raise ConfigError((f"--secrets-to: {exc.args[0]}",)) from exc
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).unlink(missing_ok=True)
            handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(text)
    except OSError as exc:
        raise ConfigError((f"--secrets-to: {folder}: {exc.strerror}",)) from exc
