"""`offsets rewind`: a connector is set back to where it stood at a moment, from the history tables;
then as any other change. See toolbox/rewind.py.
"""

from __future__ import annotations

from offsetwatch.cli.common import output
from offsetwatch.cli.history.queries import asof
from offsetwatch.cli.offsets import change, execute
from offsetwatch.cli.offsets.arguments import Changing, Where
from offsetwatch.cli.offsets.mirror_reset import print_counts
from offsetwatch.cli.offsets.open_store import AnyWay, connect_named, loaded
from offsetwatch.toolbox.change import Prepared
from offsetwatch.toolbox.documents import Document, parse
from offsetwatch.toolbox.rewind import prepare_rewind
from offsetwatch.toolbox.validation import Request


def rewind(where: Where, connector: str, moment: str, how: Changing, *, allow_skip: bool) -> int:
    """What was not recorded is not guessed: then nothing is done."""
    config = loaded(where)
    assert config is not None  # the declarations see to it
    assert where.connect is not None
    connect_named(config, where.connect)
    body = asof.body_back_to(config, moment, where.connect, connector)
    if body is None:
        output.error("the tables do not contain all of it: nothing was changed")
        return execute.DENIED
    document = parse(body, patch_of=connector)
    assert isinstance(document, Document)  # of what Connect itself once wrote
    (section,) = document.sections
    request = Request(connector, section.pairs, connector, allow_new=how.allow_new)

    def prepared(way: AnyWay) -> list[Prepared]:
        found = prepare_rewind(way, request, moment, execute.author(), allow_skip=allow_skip)
        print_counts([(connector, at) for at in found.counts])
        return [found.prepared]

    return change.changed(where, (connector,), prepared, how, typed=True)
