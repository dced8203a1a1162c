"""Creation of the journal's topic, and its fenced single writer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offsetwatch.clients.kafka.journal_topic import JournalTopicRequirements
from offsetwatch.clients.write import journal
from offsetwatch.clients.write.journal import JournalWriter

__all__ = ["JournalWriter", "create_topic", "open_writer"]


def create_topic(
    kafka: str, properties: Mapping[str, Any], requirements: JournalTopicRequirements
) -> None:
    """Create the topic unless it exists. Raises ClientError."""
    journal.create_journal_topic(kafka, properties, requirements)


def open_writer(kafka: str, properties: Mapping[str, Any], topic: str) -> JournalWriter:
    """Return the only producer that may write from now on.

    The transactions of any earlier one have ended when this returns. Raises ClientError.
    """
    writer = JournalWriter(kafka, properties, topic)
    writer.begin()
    return writer
