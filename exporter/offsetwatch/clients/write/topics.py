"""Deletion of topics."""

from __future__ import annotations

from typing import Final

import confluent_kafka as ck

from offsetwatch.clients.kafka.clients import REQUEST_TIMEOUT_S
from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.errors import ClientError, NotFound, RemoteRefusal

# The broker says no and nothing happened; what else it may say is in doubt.
_REFUSAL_CODES: Final = {
    ck.KafkaError.TOPIC_DELETION_DISABLED,
    ck.KafkaError.POLICY_VIOLATION,
    ck.KafkaError.INVALID_REQUEST,
}


class TopicDeleter(KafkaInspector):
    """Deleter of topics of one Kafka cluster, which also returns the id of the topic to delete."""

    def topic_id(self, topic: str) -> str | None:
        """Return the id of a topic; None if it does not exist.

        "" if the broker knows no ids (before Kafka 2.8).
        """
        found = self.shapes([topic])[topic]
        if isinstance(found, NotFound):
            return None
        if isinstance(found, ClientError):
            raise found
        return found.topic_id or ""

    def delete(self, topic: str) -> None:
        """Delete the topic of this name.

        Raises RemoteRefusal, such as NotFound, if nothing happened. After any other ClientError the
        topic may be deleted now or later.
        """
        try:
            with self._translated():
                futures = self._client.delete_topics(
                    [topic], operation_timeout=REQUEST_TIMEOUT_S, request_timeout=REQUEST_TIMEOUT_S
                )
            self._result(futures[topic])
        except ClientError as exc:
            cause = exc.__cause__
            if isinstance(cause, ck.KafkaException) and cause.args[0].code() in _REFUSAL_CODES:
                raise RemoteRefusal(self.name, exc.detail) from cause
            raise
