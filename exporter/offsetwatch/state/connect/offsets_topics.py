"""Which connectors keep their offsets in which topic: asked at every picture, and hardly ever
another answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from offsetwatch.model.topology import KafkaTopic

DedicatedTopics = Mapping[str, KafkaTopic | None]
ConnectorsByTopic = tuple[tuple[KafkaTopic, frozenset[str]], ...]


class OffsetsTopicIndex:
    """Made once for as long as what it is made of stays the very same objects."""

    def __init__(self) -> None:
        self._made: (
            tuple[Collection[str], DedicatedTopics, KafkaTopic | None, ConnectorsByTopic] | None
        ) = None

    def of(
        self, names: Collection[str], dedicated: DedicatedTopics, home: KafkaTopic | None
    ) -> ConnectorsByTopic:
        """These connectors by topic, the topics in order. Where one is `dedicated` to a connector
        it is that, otherwise `home`; who has none is left out.
        """
        made = self._made
        if made is None or made[0] is not names or made[1] is not dedicated or made[2] is not home:
            found: dict[KafkaTopic, set[str]] = {}
            for name in names:
                topic = dedicated.get(name, home)
                if topic is not None:
                    found.setdefault(topic, set()).add(name)
            told = tuple((topic, frozenset(at)) for topic, at in sorted(found.items()))
            self._made = made = (names, dedicated, home, told)
        return made[3]
