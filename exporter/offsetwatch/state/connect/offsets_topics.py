"""Index from offsets topics to the connectors that keep their offsets there.

Every snapshot needs it, and it hardly ever changes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from offsetwatch.model.topology import KafkaTopic

DedicatedTopics = Mapping[str, KafkaTopic | None]
ConnectorsByTopic = tuple[tuple[KafkaTopic, frozenset[str]], ...]


class OffsetsTopicIndex:
    """Cached index, rebuilt when one of its inputs is another object."""

    def __init__(self) -> None:
        self._made: (
            tuple[Collection[str], DedicatedTopics, KafkaTopic | None, ConnectorsByTopic] | None
        ) = None

    def of(
        self, names: Collection[str], dedicated: DedicatedTopics, home: KafkaTopic | None
    ) -> ConnectorsByTopic:
        """Return these connectors by offsets topic, sorted by topic.

        A connector uses its `dedicated` topic if it has one, otherwise `home`. A connector without
        a topic is left out.
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
