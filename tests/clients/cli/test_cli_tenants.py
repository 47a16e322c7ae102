"""Tenants in the psoup command and the SDK, and their quotas as flags."""

from __future__ import annotations

import csv
import dataclasses
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

import psoup_client
from psoup.events.tenants import GENEROUS, Quotas
from psoup_cli import output
from psoup_cli.quotas import QUOTAS, read_quota
from psoup_client import Client
from psoup_client.errors import InvalidRequest
from psoup_proto.v1 import admin_pb2
from psoup_service.process.settings import Settings
from psoup_testing.services.command import Psoup
from psoup_testing.services.threaded_service import serving


def test_quotas_are_the_same_everywhere() -> None:
    """In the log, on the wire, in the SDK, and as flags: the names and their order."""
    names = [field.name for field in dataclasses.fields(Quotas)]
    assert names == [field.name for field in dataclasses.fields(psoup_client.Quotas)]
    assert names == [*admin_pb2.Quotas.DESCRIPTOR.fields_by_name] == [*QUOTAS]
    whole = {field.name for field in dataclasses.fields(Quotas) if field.type == "int"}
    numbers = admin_pb2.Quotas.DESCRIPTOR.fields
    assert whole == {field.name for field in numbers if field.cpp_type == field.CPPTYPE_INT64}


@pytest.mark.parametrize(
    ("name", "text", "number"),
    [
        ("queries", "200_000", 200_000),
        ("tuple_bytes", "1.5 GiB", 3 * 2**29),
        ("archive_bytes", "2TiB", 2**41),
        ("join_share", "0.5", 0.5),
        ("weight", "3", 3),
        ("streams", "None", 0),
        ("pushed_bytes_per_second", "5MB", 5e6),
    ],
)
def test_a_quota_is_read_with_its_unit(name: str, text: str, number: float) -> None:
    assert read_quota(name, text) == number


@pytest.mark.parametrize(
    ("name", "text"), [("queries", "1.5"), ("queries", "-1"), ("queries", "1__2"), ("tuple_bytes", "2 pounds")]
)
def test_what_is_no_quota_is_refused_with_its_flag(name: str, text: str) -> None:
    with pytest.raises(typer.BadParameter, match=f"--{name.replace('_', '-')} is"):
        read_quota(name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [("calls_per_second", "0"), ("queries", "0"), ("tuple_bytes", "0"), ("tuple_bytes", "0.4"), ("join_share", "0.0")],
)
def test_zero_is_not_taken_for_no_limit(name: str, text: str) -> None:
    with pytest.raises(typer.BadParameter, match=f"is '{text}': write none for no limit, or a number above 0"):
        read_quota(name, text)


@pytest.mark.parametrize("text", ["none", "1e9", "-3", "0", "0.009", "100.1"])
def test_a_weight_that_is_none_is_told_which_there_are(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"--weight is .*from 0\.01 to 100;"):
        read_quota("weight", text)
    assert [read_quota("weight", weight) for weight in ("0.01", "100")] == [0.01, 100]


def test_from_a_tenant_to_a_dropped_one(psoup: Psoup, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Settings(port=0)) as service:
        monkeypatch.setenv("PSOUP_ADDRESS", service.address)
        monkeypatch.setenv("PSOUP_TOKEN", psoup("admin", "init").out.strip())
        ran = psoup("tenant", "create", "acme", "--queries", "200_000", "--stages", "none")
        assert (ran.code, "--tenant acme" in ran.err) == (0, True)
        assert psoup("tenant", "create", "acme").code == 5
        ran = psoup("tenant", "set", "acme", "--tuple-bytes", "2GiB", "--weight", "3")
        assert ran.err.strip() == "Tenant acme has tuple_bytes 2,147,483,648, weight 3 from now on."
        assert "--queries 200000" in psoup("tenant", "set", "acme").err
        (shown,) = psoup("tenant", "show", "acme", "--json").rows
        expected = dataclasses.replace(GENEROUS, queries=200_000, stages=0, tuple_bytes=2**31, weight=3.0)
        limits = {name: limit or None for name, limit in dataclasses.asdict(expected).items()}
        assert {name: shown[name] for name in QUOTAS} == limits
        assert shown["stages"] is None
        table = list(csv.DictReader(psoup("tenant", "show", "acme").out.splitlines()))
        assert {row["quota"]: float(row["limit"]) if row["limit"] else None for row in table} == limits
        assert [row["name"] for row in csv.DictReader(psoup("tenant", "list").out.splitlines())] == ["acme", "default"]
        ran = psoup("token", "issue", "them", "--tenant", "acme", "--role", "owner")
        (token,) = psoup("token", "list", "--tenant", "acme", "--json").rows
        assert (ran.code, token["tenant"], "of tenant acme" in ran.err) == (0, "acme", True)
        assert psoup("token", "issue", "x", "--tenant", "rival", "--role", "owner").code == 4
        with monkeypatch.context() as theirs:
            theirs.setenv("PSOUP_TOKEN", ran.out.strip())
            assert psoup("tenant", "show", "--json").rows[0]["name"] == "acme"
            assert psoup("tenant", "show", "default").code == 4
            assert psoup("tenant", "list").code == 1
            assert psoup("stream", "create", "CREATE STREAM s (x BIGINT)").code == 0
            (used,) = psoup("tenant", "usage", "--json").rows
            assert (used["name"], used["used"]["streams"], used["limits"]["queries"]) == ("acme", 1, 200_000)
            assert psoup("tenant", "usage", "default").code == 4
        usage = {row["quota"]: row for row in csv.DictReader(psoup("tenant", "usage", "acme").out.splitlines())}
        assert (usage["streams"]["used"], usage["streams"]["limit"]) == ("1", "1000")
        assert (usage["stages"]["used"], usage["stages"]["limit"]) == ("0", "")
        assert 0 < float(usage["prepare_share"]["used"]) == float(f"{float(usage['prepare_share']['used']):.4g}")
        assert psoup("stream", "list").out.strip() == ""
        ran = psoup("tenant", "drop", "acme", "--yes")
        assert (ran.code, "1 stream and 1 access token" in ran.err) == (5, True)
        assert psoup("tenant", "drop", "acme").code == 1
        assert psoup("tenant", "drop", "rival", "--yes").code == 4
        assert psoup("token", "list", "--tenant", "rival").code == 4


@pytest.mark.parametrize("as_json", [True, False])
def test_what_is_watched_in_a_pipe_comes_look_by_look(
    psoup: Psoup, filled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    """It was printed once with --json, and else not before the end."""
    assert psoup("register", f"SELECT id FROM {filled}").code == 0
    for number, command in enumerate((("tenant", "usage"), ("top", "--stream", filled))):
        pipe, looks = tmp_path / f"{number}", list[int]()

        def slept(_: float, pipe: Path = pipe, looks: list[int] = looks) -> None:
            looks.append(len(pipe.read_text().splitlines()))
            if len(looks) == 3:
                raise KeyboardInterrupt

        with pipe.open("w") as out, monkeypatch.context() as piped:
            piped.setattr(sys, "stdout", out)
            piped.setattr(output, "time", SimpleNamespace(sleep=slept))
            assert psoup(*command, "--watch", *["--json"][: int(as_json)]).code == 130
        assert looks == [looks[0], 2 * looks[0], 3 * looks[0]]
        assert looks[0] == 1 if as_json else looks[0] > 1


def test_quotas_of_the_sdk_are_checked_by_name() -> None:
    with Client("127.0.0.1:1") as client:
        with pytest.raises(InvalidRequest, match="'colour' is not a valid quota"):
            client.create_tenant("acme", colour=1)
        with pytest.raises(InvalidRequest, match="quota queries is"):
            client.alter_tenant("acme", queries=1.5)
