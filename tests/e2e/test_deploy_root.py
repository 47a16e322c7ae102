"""The service as in its image: the installed wheel, another user, a root that it cannot write, kernels that came along.

No container engine is needed. A mount namespace has what an image has: the system, Python, and the install, all read
only. Only the data directory and /tmp can be written. The environment is taken from deploy/Containerfile.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import psoup
from psoup_client import Client

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).resolve().parents[2]
USER = 10001
PACKAGE = Path(psoup.__file__).parent
ENTER = """
set -eu
mount --make-rprivate /
mount -t tmpfs -o mode=0755 root "$ROOT"
bind() { mkdir -p "$ROOT$2"; mount --bind "$1" "$ROOT$2"; mount -o remount,bind,ro "$ROOT$2"; }
for part in usr etc; do bind /$part /$part; done
for part in bin lib lib64 sbin; do
  if [ -L /$part ]; then cp -P /$part "$ROOT/"; elif [ -e /$part ]; then bind /$part /$part; fi
done
bind "$PYTHON" "$PYTHON"
bind "$INSTALL" /opt/psoup
bind "$LIBRARIES" /opt/libraries
mkdir -p "$ROOT/proc" "$ROOT/dev" "$ROOT/tmp" "$ROOT/var/lib/psoup"
mount -t proc proc "$ROOT/proc"
mount --bind /dev "$ROOT/dev"
mount -t tmpfs -o mode=1777 tmp "$ROOT/tmp"
mount --bind "$DATA" "$ROOT/var/lib/psoup"
mount -o remount,ro "$ROOT"
exec chroot "$ROOT" /usr/bin/setpriv --reuid=$USER --regid=$USER --clear-groups --no-new-privs --inh-caps=-all \\
  --bounding-set=-all /usr/bin/env -i "$@"
"""


def refused_by_the_kernel() -> str:
    """Why no mount namespace can be made here; "" if one can."""
    for tool in ("unshare", "nsenter", "setpriv", "chroot"):
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    tried = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-c", "mount --make-rprivate / && mount -t tmpfs x /mnt"],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if tried.returncode == 0 else f"the kernel refuses mounts: {tried.stderr.strip()[:100]}"


def environment() -> dict[str, str]:
    """The environment of the image's last stage, without the processor that its kernels are compiled for."""
    last = (REPOSITORY / "deploy" / "Containerfile").read_text().rpartition("\nFROM ")[2]
    (lines,) = re.findall(r"^ENV ((?:.*\\\n)*.*)$", last, re.MULTILINE)
    given = dict(pair.split("=", 1) for pair in lines.replace("\\\n", " ").split())
    given["PATH"] = given["PATH"].replace("${PATH}", "/usr/local/bin:/usr/bin:/bin")
    return {name: value for name, value in given.items() if not name.startswith("NUMBA_")}


def made_install(folder: Path) -> Path:
    """An environment of the image: the wheel, the command, and the kernels that the image compiles beside the code."""
    dist, install = folder / "dist", folder / "psoup"
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(dist)],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
    )
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(install)], check=True)
    (packages,) = install.glob("lib/python*/site-packages")
    (wheel,) = dist.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(packages)
    (packages / "libraries.pth").write_text("/opt/libraries\n")
    for kernel in PACKAGE.rglob("__pycache__/*.nb[ic]"):
        place = packages / "psoup" / kernel.relative_to(PACKAGE)
        place.parent.mkdir(exist_ok=True)
        shutil.copy2(kernel, place)
    command = install / "bin" / "psoup"
    command.write_text("#!/opt/psoup/bin/python\nfrom psoup_cli.main import main\n\nmain()\n")
    command.chmod(0o755)
    return install


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    with suppress(FileNotFoundError):
        return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    return []


class Image:
    """A service in a root of its own. `address`: its place on loopback."""

    def __init__(self, process: subprocess.Popen[str], lines: list[str]) -> None:
        self.process, self.lines = process, lines
        place = re.search(r"127\.0\.0\.1:\d+", lines[-1])
        assert place is not None, lines
        self.address = place[0]
        (self.pid,) = children(process.pid)

    def ran(self, *command: str, user: int = USER) -> subprocess.CompletedProcess[str]:
        """Run a command in the root, with the environment of the image."""
        given = [f"{name}={value}" for name, value in environment().items()]
        inside = ["/usr/bin/setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "/usr/bin/env", "-i"]
        enter = ["nsenter", "--target", str(self.pid), "--mount", "--root", "--wd=/"]
        return subprocess.run([*enter, *inside, *given, *command], capture_output=True, text=True, check=False)


@contextmanager
def served(folder: Path, data: Path) -> Iterator[Image]:
    """A service of an install in `folder`; killed with its namespace at the end."""
    root, libraries = folder / "root", Path(pytest.__file__).parents[1]
    root.mkdir(exist_ok=True)
    inside = {**environment(), "PSOUP_LISTEN": "unix:/tmp/psoup.sock,127.0.0.1:0", "PSOUP_LOG_FORMAT": "json"}
    names = {"ROOT": root, "PYTHON": sys.base_prefix, "INSTALL": folder / "psoup", "LIBRARIES": libraries, "DATA": data}
    process = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-c", ENTER, "sh"]
        + [f"{name}={value}" for name, value in inside.items()]
        + ["psoup", "serve"],
        env={**os.environ, "USER": str(USER), **{name: str(value) for name, value in names.items()}},
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = list[str]()
    try:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line)
            if "psoup listens on" in line:
                break
        else:
            pytest.fail("it did not start:\n" + "".join(lines))
        yield Image(process, lines)
    finally:
        for pid in (*children(process.pid), process.pid):  # a process that has changed its user outlives its parent
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.seeded("the kernels of an image are compiled at each start")
def test_the_service_runs_in_a_root_that_it_cannot_write(tmp_path: Path) -> None:
    if why := refused_by_the_kernel():
        pytest.skip(why)
    made_install(tmp_path)
    data = tmp_path / "volume"
    data.mkdir(mode=0o700)
    os.chown(data, USER, USER)
    tmp_path.chmod(0o755)
    with served(tmp_path, data) as image:
        assert not [line for line in image.lines if "compiled" in line], "the kernels came with the image"
        status = Path(f"/proc/{image.pid}/status").read_text()
        assert re.search(rf"^Uid:\s+{USER}\s+{USER}", status, re.MULTILINE)
        assert re.search(r"^NoNewPrivs:\s+1", status, re.MULTILINE)
        assert re.search(r"^CapEff:\s+0+$", status, re.MULTILINE)
        for place in ("/opt/psoup/x", "/etc/x", "/x", "/usr/x"):
            assert "Read-only file system" in image.ran("touch", place, user=0).stderr, place
        probe = image.ran("psoup", "status", "--ready", "--timeout", "20")
        assert (probe.returncode, probe.stdout, probe.stderr) == (0, "", "")
        with Client(image.address) as client:
            client.create_stream("CREATE STREAM ads (id BIGINT, price DECIMAL(9,2))")
            query = client.register("SELECT id FROM ads WHERE price > 1", key="dear")
            client.push("ads", [{"id": n, "price": f"0.{n:02}"} for n in range(99)] + [{"id": 100, "price": "1.01"}])
            assert query.invoke().to_arrow().to_pydict() == {"id": [100]}
        os.kill(image.pid, signal.SIGTERM)
        assert image.process.wait(60) == 0
    assert sorted(path.name for path in data.iterdir()) == ["data"]
    with served(tmp_path, data) as image, Client(image.address) as client:
        assert client.query(key="dear").invoke().to_arrow().to_pydict() == {"id": [100]}, "the volume has it all"
        kernels = list((data / "data" / "cache").rglob("*.nbc"))
        assert len(kernels) > 100
