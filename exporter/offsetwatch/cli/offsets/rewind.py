"""The verb `offsets rewind`: restore a connector's past offsets from the history tables.

toolbox/rewind.py prepares the change, and it is carried out as any other.
"""

from __future__ import annotations

from offsetwatch.cli.common import output
from offsetwatch.cli.history.queries import asof
from offsetwatch.cli.offsets import change, execute
from offsetwatch.cli.offsets.arguments import ChangeOptions, OffsetStoreOptions
from offsetwatch.cli.offsets.mirror_reset import print_counts
from offsetwatch.cli.offsets.open_store import find_connect, load_optional_config
from offsetwatch.toolbox.change import PreparedChange
from offsetwatch.toolbox.documents import OffsetsDocument, parse_document
from offsetwatch.toolbox.rewind import prepare_rewind
from offsetwatch.toolbox.store.offset_store import OffsetStore
from offsetwatch.toolbox.validation import OffsetsRequest


def rewind_connector(
    where: OffsetStoreOptions, connector: str, moment: str, how: ChangeOptions, *, allow_skip: bool
) -> int:
    """Restore the offsets; return the exit code.

    If the tables do not have all of them, nothing is changed.
    """
    config = load_optional_config(where)
    assert config is not None  # the declarations see to it
    assert where.connect is not None
    find_connect(config, where.connect)
    body = asof.build_restoring_patch(config, moment, where.connect, connector)
    if body is None:
        output.print_error("the tables do not contain all of it: nothing was changed")
        return execute.DENIED
    document = parse_document(body, patch_of=connector)
    assert isinstance(document, OffsetsDocument)  # of what Connect itself once wrote
    (section,) = document.sections
    request = OffsetsRequest(connector, section.pairs, connector, allow_new=how.allow_new)

    def prepared(store: OffsetStore) -> list[PreparedChange]:
        found = prepare_rewind(
            store, request, moment, execute.create_author(), allow_skip=allow_skip
        )
        print_counts([(connector, count) for count in found.counts])
        return [found.prepared]

    return change.run_changes(where, (connector,), prepared, how, typed=True)
