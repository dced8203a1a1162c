"""An Alertmanager that runs on loopback for as long as a test needs it.

From the PATH, else from Debian's package, unpacked in the cache.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.debian import ToolError, package, run
from tools.golang import installed

PACKAGE = "prometheus-alertmanager"
HINT = "install Alertmanager 0.25 or newer and put it on the PATH as alertmanager"
RECENT = "v0.35.0"
STOP_S_MAX = 10.0
# Debian's build reads its template from a folder that only an installed package has. The name can
# be changed to one of the same length that leads to wherever the program is started.
_INSTALLED = b"/usr/share/prometheus/alertmanager"
_STARTED = b"/proc/self/cwd".ljust(len(_INSTALLED), b"/")


@contextmanager
def alertmanager(folder: Path, port: int, config: str) -> Iterator[str]:
    """Started, not yet up; its address. `folder` is empty and keeps its data. Raises ToolError."""
    (folder / "alertmanager.yml").write_text(config)
    command = [
        str(program(folder)),
        "--config.file=alertmanager.yml",
        "--storage.path=data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)  # noqa: S603 - ours
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def check_config(file: Path, amtool: Path | None = None) -> list[str]:
    """Return what amtool finds wrong with a configuration; empty if nothing. Raises ToolError."""
    done = run([str(amtool or installed_amtool()), "check-config", str(file)])
    return [] if done.returncode == 0 else [*done.stdout.splitlines(), *done.stderr.splitlines()]


def render(text: str, data: Path, templates: Path) -> str:
    """Return a setting of a receiver as Alertmanager's template engine renders it.

    data         the JSON of a notification, as a webhook is posted it
    templates    the file with the templates that the text may call

    Raises ToolError where the text or the templates cannot be rendered.
    """
    options = {"glob": templates, "data": data, "text": text}
    words = [f"--template.{name}={value}" for name, value in options.items()]
    done = run([str(installed_amtool()), "template", "render", *words])
    if done.returncode != 0:
        raise ToolError(done.stderr)
    return done.stdout


def installed_amtool() -> Path:
    """Return amtool: from the PATH, else Debian's. Raises ToolError."""
    result = shutil.which("amtool")
    return Path(result) if result else package(PACKAGE, HINT) / "usr" / "bin" / "amtool"


def recent_amtool() -> Path:
    """Return an amtool that knows receivers younger than Debian's. Raises ToolError."""
    return installed("amtool", "github.com/prometheus/alertmanager/cmd/amtool", RECENT)


def program(folder: Path) -> Path:
    """The one to start, in `folder`: what it shows is looked for there. Raises ToolError."""
    for name in ("alertmanager", PACKAGE):
        result = shutil.which(name)
        if result is not None:
            return Path(result)
    unpacked = package(PACKAGE, HINT)
    path = folder / "alertmanager"
    try:
        text = (unpacked / "usr" / "bin" / PACKAGE).read_bytes()
        path.write_bytes(text.replace(_INSTALLED, _STARTED))
        path.chmod(0o755)
        shutil.copytree(unpacked / _INSTALLED.decode().lstrip("/"), folder, dirs_exist_ok=True)
    except OSError as exc:
        raise ToolError(f"the package of {PACKAGE} is not what it used to be: {exc}") from exc
    return path
