"""Tracebacks of the SDK's errors have the caller's frames only, in scripts, in pytest and in IPython."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from psoup_client import Client, InvalidStatement, NotFound, PSoupError, RowsRefused, ServerFault

Call = Callable[[], object]


def raised(call: Call) -> PSoupError:
    with pytest.raises(PSoupError) as caught:
        call()
    return caught.value


def frames(problem: BaseException) -> list[str]:
    """The functions of a traceback, without this file's helpers."""
    names = [frame.name for frame in traceback.extract_tb(problem.__traceback__)]
    return [name for name in names if name not in ("raised", "<lambda>")]


def test_a_script_sees_its_own_frames_and_the_caret(client: Client, make_stream: Callable[[str], str]) -> None:
    stream = make_stream("(a BIGINT)")
    wrong = raised(lambda: client.ask(f"SELECT b FROM {stream}"))
    assert (type(wrong), frames(wrong)) == (InvalidStatement, ["call"])
    lines = "".join(traceback.format_exception(wrong)).splitlines()
    assert len(lines) < 20
    assert f"SELECT b FROM {stream}" in lines
    assert "       ^" in lines
    misfit = raised(lambda: client.push(stream, [{"a": "x"}]))
    assert (type(misfit), frames(misfit)) == (RowsRefused, ["call"])
    assert "direct cause" not in "".join(traceback.format_exception(misfit))
    listed = raised(lambda: list(client.match_pages(stream, [{"a": "x"}])))
    assert frames(listed) == ["call"]


def test_followers_raise_the_callers_frames_only(client: Client, make_stream: Callable[[str], str]) -> None:
    stream = make_stream("(a BIGINT)")
    client.register(f"SELECT a FROM {stream}")
    client.push(stream, {"a": [1]})
    with client.follow(stream, "start", group="mailer") as worker:
        batch = next(worker)
        client.remove_group(stream, "mailer")
        assert frames(raised(batch.confirm)) == ["call"]
        assert frames(raised(lambda: next(worker))) == ["call"]
    with client.follow(stream) as feed:
        client.drop(stream, cascade=True)
        assert frames(raised(lambda: next(feed))) == ["call"]


def test_frames_of_the_callers_functions_stay(client: Client, make_stream: Callable[[str], str]) -> None:
    stream = make_stream("(a BIGINT)")

    def progress(done: int, total: int) -> None:
        client.query("q-1")

    problem = raised(lambda: client.register_many(f"SELECT * FROM {stream} WHERE a = ?", [(1,)], progress=progress))
    assert frames(problem) == ["call", "progress"]


def test_the_callers_own_error_before_it_stays(client: Client) -> None:
    def call() -> None:
        try:
            {}["x"]
        except KeyError:
            client.query(key="none")

    problem = raised(call)
    assert isinstance(problem, NotFound)
    assert "KeyError: 'x'" in "".join(traceback.format_exception(problem))


def test_ipython_sees_no_frame_of_the_sdk(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """IPython asks the error for its lines."""
    shell = SimpleNamespace(InteractiveTB=SimpleNamespace(structured_traceback=traceback.format_exception))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    for call in (lambda: client.query("q-1"), lambda: client.copy("q-1").sync()):
        lines = raised(call)._render_traceback_()
        assert not any("psoup_client/" in line for line in lines)
        assert "is not a query ID" in lines[-1]


def test_a_defect_keeps_its_frames(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ServerFault("broken")

    monkeypatch.setattr(client.connection, "call", fails)
    assert frames(raised(client.info))[-1] == "fails"
