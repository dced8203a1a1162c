from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest

from exporter.history.spark.jars import ARTIFACTS
from tools import sbom
from tools.sbom import Archives, SbomError

LICENCES = {
    "told": ("License-Expression: MIT OR Apache-2.0", {"expression": "MIT OR Apache-2.0"}),
    "classed": ("Classifier: License :: OSI Approved :: MIT", {"license": {"name": "MIT"}}),
    "worded": ("License: BSD", {"license": {"name": "BSD"}}),
}
PINNED = {"asked": "1.0", "deeper": "2.0", "more": "3.0"}


def packages(folder: Path, *given: tuple[str, str, tuple[str, ...]]) -> dict[str, Distribution]:
    """Installed: name, version, and further lines of METADATA."""
    site = folder / "lib" / "python3.99" / "site-packages"
    for name, version, lines in given:
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        head = (f"Name: {name}", f"Version: {version}", *lines)
        (info / "METADATA").write_text("\n".join(("Metadata-Version: 2.4", *head, "")))
    return sbom.installed_in(folder)


def ours(folder: Path) -> dict[str, Distribution]:
    product = (
        "Requires-Dist: asked>=1",
        "Requires-Dist: elsewhere; sys_platform == 'never'",
        "Provides-Extra: history",
        "Requires-Dist: more; extra == 'history'",
    )
    return packages(
        folder,
        ("offsetwatch", "9.9", product),
        ("asked", "1.0", ("Requires-Dist: Deeper",)),
        ("Deeper", "2.0", ("Requires-Dist: asked",)),
        ("more", "3.0", ()),
        ("beside", "4.0", ()),
    )


def bill(target: str, installed: Mapping[str, Distribution], **more: Any) -> dict[str, Any]:
    given = {"pinned": PINNED, "archives": Archives({}), **more}
    return sbom.bill(target, installed=installed, **given)


def names(document: dict[str, Any], kind: str = "pypi") -> list[str]:
    return [at["name"] for at in document["components"] if at["purl"].startswith(f"pkg:{kind}/")]


def test_what_is_needed_is_listed_and_not_what_lies_beside_it(tmp_path):
    installed = ours(tmp_path)
    assert names(bill("daemon", installed)) == ["asked", "deeper"]
    assert names(bill("pipeline", installed)) == ["asked", "deeper", "more"]


def test_the_pipeline_has_the_jars_of_the_pom_and_the_daemon_none(tmp_path):
    installed = ours(tmp_path)
    assert sorted(names(bill("pipeline", installed), "maven")) == sorted(ARTIFACTS)
    assert names(bill("daemon", installed), "maven") == []


def test_every_reference_leads_to_a_part_and_every_part_is_told_of_once(tmp_path):
    told = bill("pipeline", ours(tmp_path))
    parts = [told["metadata"]["component"], *told["components"]]
    references = [at["bom-ref"] for at in parts]
    assert len(references) == len(set(references))
    assert [at["ref"] for at in told["dependencies"]] == references
    for at in told["dependencies"]:
        assert set(at["dependsOn"]) <= set(references)


def test_who_needs_whom_is_told(tmp_path):
    told = {at["ref"]: at["dependsOn"] for at in bill("daemon", ours(tmp_path))["dependencies"]}
    assert told == {
        "pkg:pypi/offsetwatch@9.9": ["pkg:pypi/asked@1.0"],
        "pkg:pypi/asked@1.0": ["pkg:pypi/deeper@2.0"],
        "pkg:pypi/deeper@2.0": ["pkg:pypi/asked@1.0"],
    }


@pytest.mark.parametrize("pinned", [{"asked": "1.0"}, {"asked": "1.0", "deeper": "2.1"}])
def test_a_version_that_is_not_the_pinned_one_is_refused(tmp_path, pinned):
    with pytest.raises(SbomError, match=r"deeper 2\.0 is installed, pinned is"):
        bill("daemon", ours(tmp_path), pinned=pinned)


def test_what_is_needed_and_not_there_is_refused(tmp_path):
    installed = {name: at for name, at in ours(tmp_path).items() if name != "deeper"}
    with pytest.raises(SbomError, match="deeper is needed and not installed"):
        bill("daemon", installed)


def test_a_jar_of_the_pom_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(SbomError, match=r"spark-sql-kafka.*is in the pom and not in the folder"):
        bill("pipeline", ours(tmp_path), jars={})


@pytest.mark.parametrize("kind", LICENCES)
def test_a_licence_is_told_as_its_package_tells_it(tmp_path, kind):
    line, expected = LICENCES[kind]
    installed = packages(
        tmp_path,
        ("offsetwatch", "9.9", ("Requires-Dist: asked",)),
        ("asked", "1.0", (line,)),
    )
    (asked,) = bill("daemon", installed)["components"]
    assert asked["licenses"] == [expected]


def test_the_text_of_a_licence_is_no_name_of_one(tmp_path):
    installed = packages(tmp_path, ("offsetwatch", "9.9", ("License: " + "long " * 40,)))
    assert "licenses" not in bill("daemon", installed)["metadata"]["component"]


def test_hashes_are_those_of_what_pip_fetched(tmp_path):
    report = tmp_path / "report.json"
    report.write_text(
        '{"install": [{"metadata": {"name": "Deeper"},'
        ' "download_info": {"archive_info": {"hashes": {"sha256": "abc"}}}},'
        ' {"metadata": {"name": "asked"}, "download_info": {"dir_info": {}}}]}'
    )
    told = bill("daemon", ours(tmp_path), archives=Archives.of([report]))
    hashes = {at["name"]: at.get("hashes") for at in told["components"]}
    assert hashes == {"asked": None, "deeper": [{"alg": "SHA-256", "content": "abc"}]}


def test_the_same_parts_have_the_same_number_and_others_another(tmp_path):
    installed = ours(tmp_path)
    first, again = bill("daemon", installed), bill("daemon", installed)
    assert first == again
    assert re.fullmatch(
        r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", first["serialNumber"]
    )
    assert bill("pipeline", installed)["serialNumber"] != first["serialNumber"]


def test_pins_are_read_as_pip_reads_them():
    assert sbom.pins("# what\nPyYAML==6.0.3  # why\n\nast_serialize==0.1\n") == {
        "pyyaml": "6.0.3",
        "ast-serialize": "0.1",
    }


def test_a_pom_may_name_its_versions():
    pom = """<project xmlns="http://maven.apache.org/POM/4.0.0">
      <properties><scala.version>2.13</scala.version><its>1.5</its></properties>
      <dependencies><dependency>
        <groupId>org.some.where</groupId><artifactId>it_${scala.version}</artifactId>
        <version>${its}</version>
      </dependency></dependencies></project>"""
    assert sbom.coordinates(pom) == [("org.some.where", "it_2.13", "1.5")]
