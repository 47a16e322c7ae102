"""The wheel in empty environments: the oldest and the newest Python of the machine, protobuf 6 and 7, newest packages.

The client and the command talk to a service of the tests. The server serves commands of its own environment.
"""

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from psoup_testing.services.threaded_service import serving
from psoup_testing.suite.interpreters import Environment, interpreters

pytestmark = pytest.mark.long
ROOT = Path(__file__).resolve().parents[2]
UV = shutil.which("uv", path=str(Path(sys.executable).parent))
STREAM = "CREATE STREAM ads (city TEXT, price BIGINT, at TIMESTAMP) TIMESTAMP BY at"
SEARCH = "SELECT city, price FROM ads WHERE price < 100"

CLIENT = f"""
import google.protobuf, json, sys
from psoup_client import Client
from psoup_recharge import Store

with Client(sys.argv[1]) as client, Store("copies.db") as store:
    stream = f"ads_{{sys.argv[2]}}"
    client.create_stream({STREAM!r}.replace("ads", stream))
    query = client.register({SEARCH!r}.replace("ads", stream))
    client.push(stream, [{{"city": "Rome", "price": n * 60, "at": "2026-07-01 12:00"}} for n in range(3)])
    answer = query.invoke()
    store.add("cheap", sql={SEARCH!r}.replace("ads", stream))
    store.recharge(client)
    problems = []
    for late in (answer.to_pandas, lambda: __import__("psoup.local"), lambda: __import__("psoup_spark")):
        try:
            late()
        except ModuleNotFoundError as problem:
            problems.append(str(problem))
    print(json.dumps({{
        "rows": answer.rows(), "copy": len(store.read("cheap")),
        "bits": [row.count() for row in client.results(stream).values()],
        "protobuf": google.protobuf.__version__, "python": sys.version_info[1], "problems": problems,
    }}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the wheel, built from this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path.as_uri()


def environment(folder: Path, which: str) -> Environment:
    """An empty environment of the oldest or the newest Python of the machine."""
    if UV is None:
        pytest.skip("uv, of requirements.lock, is not in this environment: make setup")
    pythons = interpreters()
    if which == "newest" and len(pythons) == 1:
        pytest.skip(f"the machine has one Python only, 3.{min(pythons)}, and the other case has tried it")
    return Environment(UV, folder / "env", pythons[min(pythons) if which == "oldest" else max(pythons)])


CASES = pytest.mark.parametrize(("which", "protobuf"), [("oldest", 6), ("newest", 7)])


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as service:
        yield service.address


@CASES
def test_a_client_registers_pushes_and_invokes(
    wheel: str, address: str, tmp_path: Path, which: str, protobuf: int
) -> None:
    place = environment(tmp_path, which)
    place.install(f"psoup @ {wheel}", f"protobuf=={protobuf}.*")
    done = place.run("python", "-c", CLIENT, address, which)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    pythons = interpreters()
    assert facts["rows"] == [["Rome", 0], ["Rome", 60]]
    assert (facts["copy"], facts["bits"]) == (2, [2, 2])
    assert facts["python"] == (min(pythons) if which == "oldest" else max(pythons))
    assert facts["protobuf"].startswith(f"{protobuf}.")
    assert [re.findall(r"pip install '(.*)'", said) for said in facts["problems"]] == [
        ["psoup[pandas]"],
        ["psoup[engine]"],
        ["psoup[spark]"],
    ]
    installed = {path.name for path in place.folder.glob("lib/*/site-packages/*")}
    assert installed & {"numba", "llvmlite", "sqlglot", "starlette", "typer", "pandas"} == set()
    done = place.run("psoup", "serve")
    assert (done.returncode, done.stderr) == (
        1,
        "psoup: psoup serve needs typer, which is not installed: pip install 'psoup[server]'\n",
    )
    place.install(f"psoup[cli] @ {wheel}")
    done = place.run("psoup", "queries", "--json", "--address", address)
    assert (done.returncode, len(done.stdout.splitlines()) >= 1) == (0, True), done.stderr
    done = place.run("psoup", "serve")
    assert (done.returncode, done.stderr) == (
        1,
        "psoup: psoup serve needs numba, which is not installed: pip install 'psoup[server]'\n",
    )


@CASES
@pytest.mark.timeout(500)  # the newest Python compiles all kernels, on a machine that runs other tests
def test_a_server_serves_its_own_commands(wheel: str, tmp_path: Path, which: str, protobuf: int) -> None:
    place = environment(tmp_path, which)
    place.install(f"psoup[server] @ {wheel}", f"protobuf=={protobuf}.*")
    oidc = {"PSOUP_OIDC_ISSUER": "https://id.example.com", "PSOUP_OIDC_AUDIENCE": "psoup"}
    refused = place.run("psoup", "serve", "--port", "0", "--data-dir", "refused", **oidc)
    assert refused.returncode == 1
    assert "pip install 'psoup[oidc]'" in refused.stderr
    lend_kernels(place)
    ports = ("--port", "0", "--web-port", "-1", "--metrics-port", "-1")
    command = [place.program("psoup"), "serve", "--data-dir", "data", *ports]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=place.folder, env=place.variables()
    ) as service:
        try:
            assert service.stderr is not None
            lines = list[str]()
            for line in service.stderr:
                lines.append(line)
                if line.startswith("psoup listens on"):
                    break
            else:
                pytest.fail("".join(lines))
            answer_of(place, lines[-1].split()[-1])
        finally:
            service.send_signal(signal.SIGTERM)
            service.communicate(timeout=60)
    assert service.returncode == 0


def answer_of(place: Environment, address: str) -> None:
    """A stream, a query and rows by the commands of an environment, and the answer."""

    def psoup(*arguments: str) -> str:
        done = place.run("psoup", *arguments, "--address", address)
        assert done.returncode == 0, done.stderr
        return done.stdout

    (place.folder / "ads.csv").write_text("city,price,at\nRome,90,2026-07-01 12:00\nRome,900,2026-07-01 12:01\n")
    psoup("stream", "create", STREAM)
    query = psoup("register", SEARCH).strip()
    psoup("push", "ads", "ads.csv")
    assert json.loads(psoup("invoke", query, "--json")) == {"city": "Rome", "price": 90}


def lend_kernels(place: Environment) -> None:
    """Copy the kernels that the tests have compiled, if Python and Numba are the same: that saves a minute."""
    (theirs,) = place.folder.glob("lib/*/site-packages/psoup/kernels")
    for file in (ROOT / "psoup" / "kernels").glob("*/__pycache__/*.nb[ic]"):
        room = theirs / file.parent.parent.name / "__pycache__"
        room.mkdir(exist_ok=True)
        shutil.copyfile(file, room / file.name)
