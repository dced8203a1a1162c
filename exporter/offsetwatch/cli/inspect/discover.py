"""The verb `discover`: print a configuration of the Strimzi resources in a namespace.

The configuration goes to standard output. The owners of connectors and all notes go to standard
error. Secrets are read only if files are requested, and are written nowhere else.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import yaml

from offsetwatch.cli.common import output
from offsetwatch.clients.kubernetes.access import find_kubernetes_access
from offsetwatch.clients.kubernetes.reader import KubeReader
from offsetwatch.errors import ConfigError, NotFound
from offsetwatch.toolbox.strimzi_discovery import (
    NamespaceResources,
    StrimziDiscoveryResult,
    build_file_text,
    discover_config,
)

SECRETS_FOLDER: Final = "secrets"


def print_strimzi_config(namespace: str, kubeconfig: Path | None, secrets_to: Path | None) -> None:
    """Print a configuration of what Strimzi runs in a namespace."""
    reader = KubeReader(find_kubernetes_access(kubeconfig))
    resources = NamespaceResources(
        namespace,
        *(
            tuple(reader.resources(plural, namespace))
            for plural in ("kafkas", "kafkaconnects", "kafkamirrormaker2s", "kafkaconnectors")
        ),
    )
    folder = SECRETS_FOLDER if secrets_to is None else str(secrets_to.resolve())
    result = discover_config(resources, folder=folder)
    if not result.connect:
        raise ConfigError((f"--strimzi: no KafkaConnect and no KafkaMirrorMaker2 in {namespace}",))
    if secrets_to is not None:
        _write_secrets(reader, namespace, result, secrets_to)
    document = {"kafka": result.kafka, "connect": result.connect}
    sys.stdout.write(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    for (connect, connector), owner in sorted(result.owners.items()):
        output.print_error(f"{connect}/{connector}: owned by {owner}")
    output.print_error(*result.notes)
    if secrets_to is None:
        for name, parts in sorted(result.files.items()):
            named = ", ".join(f"{key} of Secret {secret}" for secret, key in parts)
            output.print_error(
                f"{SECRETS_FOLDER}/{name}: to be made of {named}; --secrets-to FOLDER does it"
            )


def _write_secrets(
    reader: KubeReader, namespace: str, result: StrimziDiscoveryResult, folder: Path
) -> None:
    """Write the files of all secrets; write none if one cannot be read."""
    secrets = {}
    for parts in result.files.values():
        for name, _ in parts:
            if name not in secrets:
                try:
                    secrets[name] = reader.secret(namespace, name)
                except NotFound as exc:
                    raise ConfigError((f"--secrets-to: no Secret {namespace}/{name}",)) from exc
    try:
        texts = {name: build_file_text(parts, secrets) for name, parts in result.files.items()}
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
