"""Functions of the operator in a service: called in a process of their own, kept from harm, and missed when missing.

with, without, with again    the directory starts each time; only queries that need what is missing are refused
kill -9                      the same, and answers are what they were
hangs, dies, lies            that function's queries are refused, in a bounded time, all others go on
"""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from psoup.errors import InvalidInput
from psoup.expressions import supplied_functions
from psoup_cli.app import app
from psoup_client import Client, Query
from psoup_client.errors import FailedPrecondition, InvalidRequest
from psoup_service.functions import process
from psoup_service.functions.process import FunctionFailures, FunctionProcess
from psoup_service.process import rehearsal
from psoup_service.process.settings import Settings
from psoup_service.process.settings_sources import load
from psoup_service.service import Service
from psoup_storage import DurableStore
from psoup_testing.services.threaded_service import Serving, serving
from psoup_testing.services.zygote import Zygote
from psoup_testing.suite.sweeps import swept

DOCUMENT = Path(__file__).parents[3] / "docs" / "functions.md"
MODULE = """
import os, signal, time
import pyarrow as pa, pyarrow.compute as pc
from psoup.functions import function

@function(["DOUBLE", "TEXT"], "DOUBLE", cost=20)
def risk(amount, country):
    '''How risky a sale is.'''
    print("a line on standard output hurts nobody")
    return pc.if_else(pc.equal(country, "XX"), 1.0, pc.divide(amount, 1000.0))

@function(["BIGINT"], "BIGINT")
def moody(n):
    values = n.to_pylist()
    if 99_901 in values:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        while True:
            time.sleep(60)
    if 99_903 in values:
        return n.cast("double")
    if 99_904 in values:
        raise ValueError("odd")
    if 99_905 in values:
        return pa.array([len("x" * 2**33)] * len(n))
    return n

@function(["BIGINT"], "BIGINT")
def frail(n):
    if 99_902 in n.to_pylist():
        os.kill(os.getpid(), signal.SIGKILL)
    return n
"""
RISKY = "SELECT n, risk(amount, country) AS r FROM sales WHERE risk(amount, country) > 0.5"
PLAIN = "SELECT n FROM sales WHERE n < 3"
FRAIL = "SELECT n FROM sales WHERE frail(n) > 2"
MOODY = "SELECT n FROM sales WHERE moody(n) > 2"
ROWS = {"amount": [1.0, 900.0, 300.0, None], "country": ["XX", "DE", "DE", "FR"], "n": [1, 2, None, 4]}
ANSWER = [{"n": 1, "r": 1.0}, {"n": 2, "r": 0.9}]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of the module."""
    file = tmp_path_factory.mktemp("functions") / "sales_functions.py"
    file.write_text(MODULE)
    return str(file)


def rows(query: Query) -> list[dict[str, Any]]:
    return query.invoke().to_arrow().to_pylist()


def serve_in(folder: Path, *modules: str, seconds: float = 10.0) -> Serving:
    settings = Settings(port=0, data_dir=str(folder), functions=modules, functions_s=seconds)
    return Serving(settings, store=DurableStore(folder))


@contextmanager
def without(folder: Path) -> Iterator[Client]:
    """A service without functions, to which four batches were pushed."""
    running = serve_in(folder)
    with Client(running.address) as client:
        assert client.info().functions == ()
        for _ in range(4):
            client.push("sales", pa.table(ROWS))
        with pytest.raises(InvalidRequest, match="there is no function 'risk'"):
            client.register(RISKY)
        yield client
    running.stop()


@pytest.mark.long
def test_with_without_and_with_again(tmp_path: Path, path: str) -> None:
    texts = [f"SELECT n FROM sales WHERE risk(amount, country) > {at / 10}" for at in range(3)]
    running = serve_in(tmp_path, path)
    with Client(running.address) as client:
        client.create_stream("CREATE STREAM sales (amount DOUBLE, country TEXT, n BIGINT)")
        client.push("sales", pa.table(ROWS))
        ids = [client.register(text).id for text in (RISKY, PLAIN)]
        many = [
            query.id
            for query in client.register_many("SELECT n FROM sales WHERE risk(amount, country) > ?", [[0.5]] * 3)
        ]
        many += [query.id for query in client.register_many(texts)]
        client.push("sales", pa.table(ROWS))
        first = [rows(client.query(query)) for query in [*ids, *many]]
        assert first[0] == ANSWER * 2
        assert client.ask(RISKY).to_arrow().to_pylist() == ANSWER * 2
        assert [str(each) for each in client.info().functions] == [
            "frail(BIGINT) -> BIGINT",
            "moody(BIGINT) -> BIGINT",
            "risk(DOUBLE, TEXT) -> DOUBLE",
        ]
        assert client.info().functions[2].about == "How risky a sale is."
    running.stop()
    assert not supplied_functions.installed()

    with without(tmp_path) as client:
        for query in (ids[0], *many):
            with pytest.raises(FailedPrecondition, match=r"risk\(DOUBLE, TEXT\) -> DOUBLE, which is") as refused:
                rows(client.query(query))
            assert refused.value.reason == "FUNCTION_MISSING"
        assert len(rows(client.query(ids[1]))) == 12
        client.query(many[0]).unregister()

    running = serve_in(tmp_path, path)
    with Client(running.address) as client:
        assert [rows(client.query(query)) for query in (ids[0], *many[1:])] == [
            answer * 3 for answer in (first[0], *first[3:])
        ]
    running.stop()


@pytest.mark.long
def test_a_function_that_is_another_one_now_is_missing(tmp_path: Path, path: str) -> None:
    running = serve_in(tmp_path / "data", path)
    with Client(running.address) as client:
        client.create_stream("CREATE STREAM sales (amount DOUBLE, country TEXT, n BIGINT)")
        old = client.register(RISKY).id
        client.push("sales", pa.table(ROWS))
    running.stop()
    other = tmp_path / "other.py"
    other.write_text(MODULE.replace('"DOUBLE", cost=20', '"DOUBLE", version=2').replace("1000.0", "10.0"))
    running = serve_in(tmp_path / "data", str(other))
    with Client(running.address) as client:
        with pytest.raises(FailedPrecondition, match="is another one now"):
            rows(client.query(old))
        new = client.register(RISKY)
        assert [row["r"] for row in rows(new)] == [1.0, 90.0, 30.0]
    running.stop()
    running = serve_in(tmp_path / "data", path)
    with Client(running.address) as client:
        assert rows(client.query(old)) == ANSWER
        with pytest.raises(FailedPrecondition, match="is another one now"):
            rows(client.query(new.id))
    running.stop()


@pytest.mark.long
def test_kill_9_and_what_the_doctor_says_of_the_rest(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "data")
    with Zygote(PSOUP_FUNCTIONS=path) as zygote:
        zygote.start(folder)
        with Client(zygote.ready()) as client:
            client.create_stream("CREATE STREAM sales (amount DOUBLE, country TEXT, n BIGINT)")
            queries = []
            for bound in ("0.5", "0.6", "0.7"):
                client.push("sales", pa.table(ROWS))
                queries.append(client.register(RISKY.replace("0.5", bound)).id)
        zygote.kill()
        monkeypatch.setattr(rehearsal, "_limit", lambda mib: None)  # it is this process
        monkeypatch.setattr(rehearsal, "warm_up", lambda: 0)
        assert [rehearsal.main([folder, "256", *modules]) for modules in ([], [path], ["none.py"])] == [0, 0, 1]
        said = capsys.readouterr().out
        assert "which is not loaded" in said[: said.index("done")]
        assert "left" not in said[said.index("done") :] and "there is no file none.py" in said
        zygote.start(folder)
        with Client(zygote.ready()) as client:
            client.push("sales", pa.table(ROWS))
            assert rows(client.query(queries[0])) == ANSWER * 4
        zygote.kill()
    usage = CliRunner().invoke(app, ["doctor", folder, "--functions", path])
    assert usage.exit_code == 2 and "--functions is for --replay" in usage.output


@pytest.mark.long
def test_what_hangs_or_dies_stops_nothing_and_nobody_else(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MOST_FAILURES", 1)
    settings = Settings(port=0, functions=(path,), functions_s=1.0)
    with serving(settings) as running, Client(running.address) as client, Client(running.address) as other:
        client.create_stream("CREATE STREAM sales (amount DOUBLE, country TEXT, n BIGINT)")
        moody, frail, plain, risky = (client.register(text) for text in (MOODY, FRAIL, PLAIN, RISKY))
        client.push("sales", pa.table(ROWS))
        assert rows(moody) == rows(frail) == [{"n": 4}]
        for value in (99_901, 99_902, 99_901):  # each is called for what comes once, and not again
            client.push("sales", pa.table({"n": [value, 1]}))
            client.push("sales", pa.table(ROWS))
        assert len(rows(plain)) == 2 + 3 * 3
        assert rows(risky) == ANSWER * 4
        for query, told in ((moody, "did not return in 1 s"), (frail, "ended the process in which it runs")):
            with pytest.raises(FailedPrecondition, match=told) as refused:
                rows(query)
            assert refused.value.reason == "FUNCTION_FAILED"
            with pytest.raises(FailedPrecondition, match="failed 1 time for this client, and is called for it"):
                rows(query)
        for name in ("moody", "frail"):
            kind = f"SELECT n FROM sales WHERE n < 99000 AND {name}(n) > 2"
            assert other.ask(kind).to_arrow().to_pylist() == [{"n": 4}] * 4
            with pytest.raises(FailedPrecondition, match="for this client"):
                client.ask(kind)


def test_failures_of_a_client_are_forgiven_and_those_of_tuples_that_come_are_not() -> None:
    clock = [0.0]
    failures = FunctionFailures(lambda: clock[0])
    assert [failures.add(client, "f") for client in ("a", None, "a", "b")] == [1, 1, 2, 1]
    assert [failures.of(client, "f") for client in ("a", "b", "c", None)] == [2, 1, 0, 1]
    assert failures.of("a", "g") == 0
    clock[0] = process.FORGIVEN_S - 1
    assert failures.of("a", "f") == 2 and failures.add("b", "f") == 2
    clock[0] = process.FORGIVEN_S
    assert [failures.of(client, "f") for client in ("a", "b", None)] == [0, 2, 1]
    assert failures.add("a", "f") == 1


def test_what_lies_raises_or_wants_memory(path: str) -> None:
    with serving(Settings(port=0, functions=(path,))) as running, Client(running.address) as client:
        client.create_stream("CREATE STREAM sales (amount DOUBLE, country TEXT, n BIGINT)")
        moody = client.register(MOODY)
        client.push("sales", pa.table({"n": [5, 99_904, 99_905, 6]}))
        answer = moody.invoke()
        assert answer.to_arrow().to_pylist() == [{"n": 5}, {"n": 6}]
        assert answer.completeness.errors == 2
        client.push("sales", pa.table({"n": [7, 99_903]}))
        with pytest.raises(FailedPrecondition, match="returned values of the type double, and declares int64"):
            rows(moody)


@pytest.mark.parametrize(
    ("text", "told"),
    swept(
        [
            ("import time; time.sleep(1000)", "ended by signal 14, or took too long"),
            ("import os; os._exit(3)", "ended with exit code 3"),
            ("1 // 0", "cannot be imported: ZeroDivisionError"),
            (
                "from psoup.functions import function\n@function(['TEXT'], 'TEXT')\ndef lower(t): return t",
                "has a meaning in SQL",
            ),
        ],
        fast=(3,),
    ),
)
def test_a_service_does_not_start_with_a_module_that_is_not_right(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "bad.py"
    file.write_text(text)
    patience = 0.5 if "sleep" in text else 60
    with pytest.raises(InvalidInput, match=told):
        Service(Settings(port=0, functions=(str(file),), functions_s=patience))


@pytest.mark.long
def test_a_module_that_changes_under_a_service_is_not_called(tmp_path: Path) -> None:
    file = tmp_path / "changing.py"
    file.write_text(MODULE)
    running = FunctionProcess([str(file)], 10.0, 1_024)
    try:
        frail = running.functions[2].call
        file.write_text(MODULE.replace("1000.0", "10.0"))
        with pytest.raises(Exception, match="ended the process"):
            frail([pa.array([99_902])])
        with pytest.raises(Exception, match="is not as it was when the service started"):
            frail([pa.array([1])])
    finally:
        running.close()
    with pytest.raises(Exception, match="the service ends"):
        frail([pa.array([1])])


def test_the_document_says_what_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module of docs/functions.md is loaded, and its session prints what is shown."""
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    module, session = blocks
    file = tmp_path / "fraud.py"
    file.write_text(module)
    with serving(Settings(port=0, functions=(str(file),))) as running:
        monkeypatch.setenv("PSOUP_ADDRESS", running.address)
        report: list[str] = []
        test = doctest.DocTestParser().get_doctest(session, {}, "functions", str(DOCUMENT), 0)
        doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL).run(test, out=report.append)
        assert report == []
        status = CliRunner().invoke(app, ["status"]).output
        assert re.search(r"^function risk +risk\(DOUBLE, TEXT\) -> DOUBLE  How risky", status, re.MULTILINE), status


def test_the_setting_is_a_list(tmp_path: Path) -> None:
    assert load(environ={"PSOUP_FUNCTIONS": "a, b.py"}).settings.functions == ("a", "b.py")
    file = tmp_path / "psoup.toml"
    file.write_text('[service]\nfunctions = ["a", "b.py"]\n')
    assert load(config=file, environ={}).settings.functions == ("a", "b.py")
    with pytest.raises(InvalidInput, match="a list of texts"):
        load({"functions": 3}, environ={})
