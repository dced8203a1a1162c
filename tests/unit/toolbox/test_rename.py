"""Offsets for another name of a connector, or of an alias."""

from __future__ import annotations

from offsetwatch.remedy.model.plan import PartitionOffset
from offsetwatch.toolbox.documents import OffsetsDocument, parse_document, rename_document

SOURCE = '{"cluster":"west","partition":0,"topic":"orders"}'


def document(**sections: list[tuple[str, str]]) -> OffsetsDocument:
    inside = ",".join(
        f'"{name}":[' + ",".join(f'{{"partition":{p},"offset":{o}}}' for p, o in pairs) + "]"
        for name, pairs in sections.items()
    )
    parsed = parse_document(f"{{{inside}}}".encode())
    assert isinstance(parsed, OffsetsDocument)
    return parsed


def said(result: object) -> list[str]:
    assert isinstance(result, tuple), result
    return [str(problem) for problem in result]


def test_a_connector_takes_its_offsets_to_its_new_name() -> None:
    renamed = rename_document(document(old=[(SOURCE, "null")], other=[]), {"old": "new"}, {})
    assert isinstance(renamed, OffsetsDocument)
    assert renamed.connectors() == ("new", "other")
    assert renamed.sections[0].where == "old"  # its place in the document is what it was


def test_two_connectors_may_change_names() -> None:
    renamed = rename_document(document(a=[(SOURCE, "null")], b=[]), {"a": "b", "b": "a"}, {})
    assert isinstance(renamed, OffsetsDocument)
    assert renamed.connectors() == ("b", "a")


def test_two_connectors_do_not_become_one() -> None:
    assert said(rename_document(document(a=[], b=[]), {"a": "b"}, {})) == [
        "--rename: b would be there twice; one document for each of them"
    ]


def test_a_name_that_is_not_in_the_document_is_told_with_the_nearest() -> None:
    assert said(rename_document(document(mirror_west=[]), {"miror_west": "x"}, {})) == [
        "--rename: the document has no miror_west; did you mean mirror_west?"
    ]


def test_an_alias_is_renamed_in_the_partitions_of_mirrors_and_nowhere_else() -> None:
    beat = '{"sourceClusterAlias":"west","targetClusterAlias":"east"}'
    other = '{"cluster":"west","shard":"west"}'
    renamed = rename_document(
        document(
            a=[(SOURCE, '{"offset":7}'), (beat, '{"offset":0}'), (other, '{"cluster":"west"}')]
        ),
        {},
        {"west": "north"},
    )
    assert isinstance(renamed, OffsetsDocument)
    assert renamed.sections[0].pairs == (
        PartitionOffset('{"cluster":"north","partition":0,"topic":"orders"}', '{"offset":7}'),
        PartitionOffset(
            '{"sourceClusterAlias":"north","targetClusterAlias":"east"}', '{"offset":0}'
        ),
        PartitionOffset(other, '{"cluster":"west"}'),
    )


def test_an_alias_that_is_nowhere_is_a_mistake() -> None:
    assert said(rename_document(document(a=[(SOURCE, "null")]), {}, {"east": "x"})) == [
        "--rename-alias: the document has no east; did you mean west?"
    ]


def test_two_aliases_do_not_become_one_partition() -> None:
    both = document(a=[(SOURCE, "null"), (SOURCE.replace("west", "north"), "null")])
    (problem,) = said(rename_document(both, {}, {"west": "north"}))
    assert problem.startswith("a[1]: the same partition as a[0]")
