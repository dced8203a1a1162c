"""`python -m tools.sbom` writes what an image is made of as a CycloneDX 1.5 document.

Called by the Dockerfile, which hands it what pip and Maven brought, and by `make sbom`. Versions
are those of constraints.txt, and what is installed must agree; licences, and who needs whom, are
told by the packages themselves. The distribution's own packages are not in it: an image keeps a
list of these in /var/lib/dpkg/status. Jars inside of the pyspark package are that package's.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from string import Template
from typing import Any, Final
from xml.etree import ElementTree as ET

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[1]
CONSTRAINTS: Final = ROOT / "constraints.txt"
POM: Final = ROOT / "exporter" / "history" / "pom.xml"
PRODUCT: Final = "offsetwatch"
EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {"daemon": (), "pipeline": ("history",)}
LICENCE_CHARS_MAX: Final = 80  # longer is the whole text of one
_MAVEN: Final = "{http://maven.apache.org/POM/4.0.0}"
_CLASSIFIER: Final = "License :: "

Json = dict[str, Any]


class SbomError(Exception):
    """What is installed is not what the constraints say."""


@dataclass(frozen=True, slots=True)
class Archives:
    """SHA-256 of what was fetched, by package; none where nobody kept it."""

    by_name: Mapping[str, str]

    @classmethod
    def of(cls, reports: Iterable[Path]) -> Archives:
        """From the files that `pip install --report` writes."""
        found = {}
        for report in reports:
            for entry in json.loads(report.read_text(encoding="utf-8"))["install"]:
                archive = entry["download_info"].get("archive_info", {})
                if "sha256" in archive.get("hashes", {}):
                    name = canonicalize_name(entry["metadata"]["name"])
                    found[str(name)] = archive["hashes"]["sha256"]
        return cls(found)


def pins(constraints: str) -> dict[str, str]:
    """The version of every package that is pinned."""
    lines = (line.partition("#")[0].strip() for line in constraints.splitlines())
    pairs = (line.split("==") for line in lines if line)
    return {canonicalize_name(name): version for name, version in pairs}


def needed(
    installed: Mapping[str, Distribution], extras: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """The product and all that it needs here, each with what it needs itself. Raises SbomError."""
    found: dict[str, set[str]] = {}
    waiting: list[tuple[str, tuple[str, ...]]] = [(PRODUCT, tuple(extras))]
    seen = set()
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        name, wanted = at
        if name not in installed:
            raise SbomError(f"{name} is needed and not installed")
        edges = found.setdefault(name, set())
        for text in installed[name].requires or ():
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": it}) for it in ("", *wanted)):
                other = canonicalize_name(requirement.name)
                edges.add(other)
                waiting.append((other, tuple(sorted(requirement.extras))))
    return {name: tuple(sorted(found[name])) for name in sorted(found, key=_product_first)}


def bill(
    target: str,
    *,
    installed: Mapping[str, Distribution],
    pinned: Mapping[str, str],
    archives: Archives,
    jars: Mapping[str, str] | None = None,
) -> Json:
    """The document of a target. `jars` has the SHA-256 of a jar by the name of its file, where they
    are at hand. Raises SbomError.
    """
    graph = needed(installed, EXTRAS[target])
    product, *libraries = (_python(name, installed[name], archives) for name in graph)
    for name in graph:
        version = installed[name].version
        if name != PRODUCT and pinned.get(name) != version:
            raise SbomError(f"{name} {version} is installed, pinned is {pinned.get(name)}")
    reference = {name: _purl(name, installed[name].version) for name in graph}
    edges = {reference[name]: [reference[at] for at in needs] for name, needs in graph.items()}
    if target == "pipeline":
        of_java = [_jar(*each, jars) for each in coordinates(POM.read_text(encoding="utf-8"))]
        libraries += of_java
        edges[reference[PRODUCT]] += [jar["bom-ref"] for jar in of_java]
        edges |= {jar["bom-ref"]: [] for jar in of_java}
    document: Json = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {**product, "type": "application"},
            "properties": [{"name": "offsetwatch:target", "value": target}],
        },
        "components": libraries,
        "dependencies": [{"ref": ref, "dependsOn": needs} for ref, needs in edges.items()],
    }
    # The same parts have the same number, whenever it was written.
    number = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(document, sort_keys=True))
    return {**document, "serialNumber": f"urn:uuid:{number}"}


def _product_first(name: str) -> tuple[bool, str]:
    return name != PRODUCT, name


def _python(name: str, distribution: Distribution, archives: Archives) -> Json:
    reference = _purl(name, distribution.version)
    component: Json = {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": distribution.version,
        "purl": reference,
    }
    if licences := _licences(distribution):
        component["licenses"] = licences
    if name in archives.by_name:
        component["hashes"] = [{"alg": "SHA-256", "content": archives.by_name[name]}]
    return component


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def _licences(distribution: Distribution) -> list[Json]:
    """As an SPDX expression where the package gives one, else in its own words."""
    told = distribution.metadata
    if "License-Expression" in told:
        return [{"expression": told["License-Expression"]}]
    classifiers = [text for text in told.get_all("Classifier", []) if text.startswith(_CLASSIFIER)]
    names = [text.rpartition(" :: ")[2] for text in classifiers]
    text = told["License"].strip() if "License" in told else ""
    if not names and text and len(text) <= LICENCE_CHARS_MAX:
        names = [text]
    return [{"license": {"name": name}} for name in names]


def coordinates(pom: str) -> list[tuple[str, str, str]]:
    """Group, artifact and version of every dependency of a pom."""
    project = ET.fromstring(pom)  # noqa: S314 - our own file
    properties = {
        each.tag.removeprefix(_MAVEN).replace(".", "_"): each.text or ""
        for each in project.iterfind(f"{_MAVEN}properties/*")
    }

    def told(dependency: ET.Element, name: str) -> str:
        text = dependency.findtext(f"{_MAVEN}{name}") or ""
        return Template(text.replace(".", "_") if "${" in text else text).substitute(properties)

    return [
        (told(at, "groupId"), told(at, "artifactId"), told(at, "version"))
        for at in project.iterfind(f"{_MAVEN}dependencies/{_MAVEN}dependency")
    ]


def _jar(group: str, artifact: str, version: str, hashes: Mapping[str, str] | None) -> Json:
    """Raises SbomError if there are jars, and this is not among them."""
    reference = f"pkg:maven/{group}/{artifact}@{version}?type=jar"
    component: Json = {
        "type": "library",
        "bom-ref": reference,
        "group": group,
        "name": artifact,
        "version": version,
        "purl": reference,
    }
    if hashes is not None:
        file = f"{artifact}-{version}.jar"
        if file not in hashes:
            raise SbomError(f"{file} is in the pom and not in the folder")
        component["hashes"] = [{"alg": "SHA-256", "content": hashes[file]}]
    return component


def installed_in(prefix: Path | None) -> dict[str, Distribution]:
    """The packages of a virtual environment, or of the running one."""
    if prefix is None:
        found = distributions()
    else:
        found = distributions(path=[str(at) for at in prefix.glob("lib/python*/site-packages")])
    return {canonicalize_name(at.metadata["Name"]): at for at in found}


def main(arguments: Sequence[str]) -> int:
    """Write one document, to a file or to standard output."""
    parser = argparse.ArgumentParser(prog="python -m tools.sbom", description=__doc__)
    parser.add_argument("--target", choices=EXTRAS, required=True)
    parser.add_argument("--installed", type=Path, help="a virtual environment; this one by default")
    parser.add_argument("--report", type=Path, action="append", default=[], help="of pip")
    parser.add_argument("--jars", type=Path, help="a folder that has the jars, at any depth")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args(arguments)
    jars = None
    if asked.jars is not None:
        jars = {at.name: _sha256(at) for at in sorted(asked.jars.rglob("*.jar"))}
    try:
        document = bill(
            asked.target,
            installed=installed_in(asked.installed),
            pinned=pins(CONSTRAINTS.read_text(encoding="utf-8")),
            archives=Archives.of(asked.report),
            jars=jars,
        )
    except SbomError as exc:
        sys.stderr.write(f"{exc}\n")
        return 1
    text = json.dumps(document, indent=2) + "\n"
    if asked.output is None:
        sys.stdout.write(text)
    else:
        asked.output.parent.mkdir(parents=True, exist_ok=True)
        asked.output.write_text(text, encoding="utf-8")
    return 0


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
