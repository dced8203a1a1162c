"""A probe that asks every cluster one question at once, to find those that do not answer.

An inspection is incomplete until the clients of a silent cluster give up. The probe names that
cluster within seconds, so that a verb does not wait for what depends on it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from offsetwatch.cli.common.unread_clusters import CONNECT, KAFKA, ClusterName
from offsetwatch.clients.connect.reader import reader_of
from offsetwatch.clients.kafka.inspector import KafkaInspector
from offsetwatch.config import Config, Connect
from offsetwatch.errors import ClientError, IncompleteResponse, ResponseTimeout, TargetUnreachable

SILENT_S: Final = 1.5


class ReachabilityProbe:
    """Requests to all clusters, one each, sent on construction.

    `silent` returns the clusters without an answer, and why.
    """

    def __init__(self, config: Config) -> None:
        self._began = time.monotonic()
        self._answers: dict[ClusterName, str | None] = {}
        self._kafkas: dict[ClusterName, KafkaInspector] = {}
        self._troubles: dict[ClusterName, str] = {}
        self._asked: list[ClusterName] = []
        for name, kafka in config.kafka.items():
            facts = KafkaInspector(name, kafka.client_properties())
            self._kafkas[ClusterName(KAFKA, name)] = facts
            self._ask(ClusterName(KAFKA, name), facts.cluster)
        for connect in config.connect:
            if connect.worker_urls:
                self._ask(ClusterName(CONNECT, connect.name), partial(_read_root, connect))

    def answered(self, clusters: Collection[ClusterName]) -> bool:
        """Return whether all of these clusters have answered or failed."""
        return self._answers.keys() >= set(clusters)

    @property
    def is_settled(self) -> bool:
        """Return whether all clusters have answered or failed, or SILENT_S is over."""
        return self.answered(self._asked) or time.monotonic() - self._began >= SILENT_S

    def silent(self, after_s: float = SILENT_S) -> dict[ClusterName, str]:
        """Return the clusters that failed or have not answered for `after_s` s, with the reason."""
        late = time.monotonic() - self._began
        found: dict[ClusterName, str] = {}
        for cluster in self._asked:
            if cluster in self._answers:
                error = self._answers[cluster]
                if error is not None:
                    found[cluster] = error
            elif late >= after_s:
                found[cluster] = self._trouble(cluster) or f"no answer within {late:.1f} s"
        return found

    def _trouble(self, cluster: ClusterName) -> str | None:
        """Return why a Kafka cluster has not answered; None if its client has reported no error."""
        kafka = self._kafkas.get(cluster)
        error = None if kafka is None or cluster in self._troubles else kafka.trouble()
        if error is not None:
            self._troubles[cluster] = error.detail
        return self._troubles.get(cluster)

    def _ask(self, cluster: ClusterName, question: Callable[[], object]) -> None:
        self._asked.append(cluster)
        threading.Thread(
            target=self._answer, args=(cluster, question), name=f"reach-{cluster.name}", daemon=True
        ).start()

    def _answer(self, cluster: ClusterName, question: Callable[[], object]) -> None:
        try:
            question()
        except (TargetUnreachable, ResponseTimeout, IncompleteResponse) as exc:
            self._answers[cluster] = exc.detail
        except ClientError:
            self._answers[cluster] = None  # it said no, which is an answer
        else:
            self._answers[cluster] = None


def _read_root(connect: Connect) -> bytes:
    reader = reader_of(connect, connect.poll.timeout_s)
    try:
        return reader.root()
    finally:
        reader.close()
