"""Creation of the journal's topic, and its fenced single writer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offsetwatch.clients.write.kafka import JournalWriter, create_journal_topic

__all__ = ["JournalWriter", "create_journal_topic", "open_writer"]


def open_writer(kafka: str, properties: Mapping[str, Any], topic: str) -> JournalWriter:
    """Return the only producer that may write from now on.

    The transactions of any earlier one have ended when this returns. Raises ClientError.
    """
    writer = JournalWriter(kafka, properties, topic)
    writer.begin()
    return writer
