"""Access tokens in the psoup command and the SDK: from the first one to a revoked one, over TLS, across restarts."""

from __future__ import annotations

import csv
import errno
import re
import stat
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from psoup.errors import InvalidInput
from psoup_cli import secrets
from psoup_cli.expiry import read_expiry
from psoup_client import AccessDenied, AlreadyExists, Client, ClientOptions, NotFound
from psoup_client.channel.token import CallToken, token_metadata
from psoup_client.errors import InvalidRequest
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.engines.format_fixture import leave
from psoup_testing.services.authority import Authority
from psoup_testing.services.command import Psoup
from psoup_testing.services.threaded_service import Serving, serving

TO_THE_SECOND = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\dZ"

Bring = Callable[[str], None]


@pytest.fixture
def bring(monkeypatch: pytest.MonkeyPatch) -> Bring:
    """A function that makes all commands bring a token."""
    return lambda secret: monkeypatch.setenv("PSOUP_TOKEN", secret)


def at(path: Path) -> Iterator[Serving]:
    """A service on a directory."""
    with serving(Settings(port=0), store=DurableStore(path)) as service:
        yield service


def test_the_first_token_ends_the_time_without_credentials(
    psoup: Psoup, tmp_path: Path, bring: Bring, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    for service in at(tmp_path / "data"):
        monkeypatch.setenv("PSOUP_ADDRESS", service.address)
        assert psoup("stream", "create", "CREATE STREAM s (x BIGINT)").code == 0, "no credential, two commands"
        assert psoup("token", "list").err.startswith("There are no tokens")
        made = psoup("admin", "init", "--token-file", str(file))
        assert (made.code, made.out, stat.S_IMODE(file.stat().st_mode)) == (0, "", 0o600)
        assert made.err.startswith("The token is in "), "the command that made it is let in no longer, and says nothing"
        ran = psoup("stream", "list")
        assert (ran.code, "PSOUP_TOKEN_FILE" in ran.err) == (1, True)
        assert psoup("admin", "init").code == 1, "there is a first one already"
        monkeypatch.setenv("PSOUP_TOKEN_FILE", str(file))
        secret = psoup("token", "issue", "dashboard", "--role", "reader", "--expires", "90 days").out.strip()
        monkeypatch.delenv("PSOUP_TOKEN_FILE")
        bring(secret)
        assert "s" in psoup("stream", "list").out
        ran = psoup("stream", "drop", "s", "--yes")
        assert (ran.code, "'dashboard' (reader)" in ran.err) == (1, True)
        monkeypatch.setenv("PSOUP_TOKEN_FILE", str(file))
        second = psoup("token", "issue", "second", "--role", "operator").out.strip()
        monkeypatch.delenv("PSOUP_TOKEN_FILE")
        bring(second)
        (own,) = [row["id"] for row in psoup("token", "list", "--json").rows if row["name"] == "second"]
        assert psoup("token", "revoke", own).err.strip() == f"Revoked token {own} of second."


def test_from_the_first_token_over_tls_to_a_revoked_one(
    psoup: Psoup, tmp_path: Path, bring: Bring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other machines are let in by a token, without a certificate of their own."""
    path, authority = tmp_path / "data", Authority(tmp_path)
    operator = psoup("admin", "init", "--data-dir", str(path)).out.strip()
    certificate, key = authority.issue("service")
    places = {"listen": ("https://127.0.0.1:0", "0.0.0.0:0"), "tls_cert": str(certificate), "tls_key": str(key)}
    monkeypatch.setenv("PSOUP_CA", str(authority.ca))
    with serving(Settings(**places), store=DurableStore(path)) as service:
        for place in service.service.addresses:
            monkeypatch.setenv(
                "PSOUP_ADDRESS", f"https://{place.removeprefix('https://')}".replace("0.0.0.0", "127.0.0.1")
            )
            bring("")
            assert psoup("stream", "list").code == 1
            bring(operator)
            assert psoup("stream", "list").code == 0
        secret = psoup("token", "issue", "dashboard", "--role", "reader").out.strip()
        first, second = psoup("token", "list", "--json").rows
        table = list(csv.DictReader(psoup("token", "list").out.splitlines()))
        assert [row["roles"] for row in table] == ["owner operator", "reader"]
        assert (first["name"], first["roles"]) == ("admin", ["owner", "operator"])
        assert (second["name"], second["roles"], secret[-30:] in str(second)) == ("dashboard", ["reader"], False)
        ends = [psoup("token", "revoke", row["id"]).code for row in (second, second, first)]
        assert ends == [0, 4, 5], "it is gone; there is none; the last operator stays"
        bring(secret)
        ran = psoup("stream", "list")
        assert (ran.code, "not valid" in ran.err) == (1, True)


def test_the_directory_gives_a_token_before_the_first_start_and_when_all_are_lost(
    psoup: Psoup, tmp_path: Path, bring: Bring
) -> None:
    path = tmp_path / "data"
    for number in (1, 2):
        ran = psoup("admin", "init", "--data-dir", str(path), "--name", f"admin {number}")
        assert (ran.code, f"Made a new data directory {path}" in ran.err) == (0, number == 1)
        bring(ran.out.strip())
        for service in at(path):
            ran = psoup("admin", "init", "--data-dir", str(path))
            assert (ran.code, "in use by another service" in ran.err) == (2, True)
            names = [row["name"] for row in psoup("token", "list", "--json", "--address", service.address).rows]
            assert names == [f"admin {each}" for each in range(1, number + 1)]


def test_no_token_is_made_that_has_no_file(psoup: Psoup, tmp_path: Path) -> None:
    taken, nowhere, data = tmp_path / "taken", tmp_path / "nowhere" / "token", tmp_path / "data"
    taken.write_text("mine")
    for file, why in ((taken, "File exists"), (nowhere, "No such file")):
        for made in (("admin", "init", "--data-dir", str(data)), ("token", "issue", "x", "--role", "reader")):
            ran = psoup(*made, "--token-file", str(file))
            assert (ran.code, ran.out, f"{file}: {why}" in ran.err) == (1, "", True)
    assert (taken.read_text(), data.exists()) == ("mine", False)
    assert psoup("token", "list").err.startswith("There are no tokens")


def test_no_file_stays_that_has_no_token(psoup: Psoup, tmp_path: Path) -> None:
    file = tmp_path / "token"
    for refused in ("issue", "--tenant", "nobody", "--role", "owner"), ("issue", "--role", "king"):
        assert psoup("token", *refused, "x", "--token-file", str(file)).code in (1, 4)
        assert not file.exists()


def test_a_token_that_cannot_be_written_is_not_lost(
    psoup: Psoup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    file = tmp_path / "token"
    with monkeypatch.context() as disk:
        disk.setattr(secrets, "_write", full)
        ran = psoup("admin", "init", "--data-dir", str(tmp_path / "data"), "--token-file", str(file))
    assert (ran.code, ran.out.startswith("psoup_"), file.exists()) == (1, True, False)


def test_tokens_outlive_a_restart_a_kill_and_a_backup(tmp_path: Path) -> None:
    path, killed, restored = tmp_path / "data", tmp_path / "killed", tmp_path / "restored"
    for service in at(path):
        with Client(service.address) as client:
            operator = client.issue_token("op", ["operator", "owner"], first=True).secret
        with Client(service.address, options=ClientOptions(token=operator)) as client:
            reader = client.issue_token("reader", ["reader"], expires_after=timedelta(days=1))
            gone = client.issue_token("gone", ["reader"])
            assert gone.token.id in gone._repr_html_()
            assert gone.secret not in f"{gone!r} {gone._repr_html_()}"
            client.revoke_token(gone.token.id)
            leave(path, killed)
            client.backup(restored)
    for place in (path, killed, restored):
        for service in at(place):
            with Client(service.address, options=ClientOptions(token=reader.secret)) as client:
                assert client.streams() == []
                with pytest.raises(AccessDenied) as denied:
                    client.tokens()
                assert denied.value.reason == "PERMISSION_DENIED"
            for secret, reason in ((gone.secret, "TOKEN_INVALID"), ("", "NO_CREDENTIAL")):
                with Client(service.address, options=ClientOptions(token=secret)) as client:
                    with pytest.raises(AccessDenied) as denied:
                        client.streams()
                    assert denied.value.reason == reason
            with Client(service.address, options=ClientOptions(token=operator)) as client:
                assert [token.name for token in client.tokens()] == ["op", "reader"]
                with pytest.raises(AlreadyExists):
                    client.issue_token("op", ["operator"], first=True)
                with pytest.raises(NotFound):
                    client.revoke_token(gone.token.id)


@pytest.mark.seeded("other machines reach a service without a token")
def test_other_machines_are_not_let_in_as_long_as_nobody_could_come(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("service")
    settings = Settings(listen=("0.0.0.0:0",), tls_cert=str(certificate), tls_key=str(key))
    with pytest.raises(InvalidInput, match="psoup admin init --data-dir"), serving(settings):
        pass


@pytest.mark.seeded("a client sends its token to another machine in plain text")
def test_a_token_goes_to_no_other_machine_in_plain_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("127.0.0.1:1", "localhost:1", "[::1]:1", "unix:s.sock", "ipv4:127.0.0.1:1"):
        assert token_metadata("psoup_x", address, encrypted=False) == (("authorization", "Bearer psoup_x"),)
    for address in ("10.0.0.1:1", "localhost.example.org:1", "dns:///x:1", "127.0.0.1.example.org:1"):
        with pytest.raises(InvalidRequest, match="in plain text"):
            Client(address, options=ClientOptions(token="psoup_x"))
        assert token_metadata("psoup_x", address, encrypted=True)
    with pytest.raises(InvalidRequest, match="spaces"):
        Client("127.0.0.1:1", options=ClientOptions(token="psoup_x\n"))
    monkeypatch.setenv("PSOUP_TOKEN_FILE", str(tmp_path / "nowhere"))
    with pytest.raises(InvalidRequest, match="PSOUP_TOKEN_FILE"):
        Client("127.0.0.1:1")
    (tmp_path / "nowhere").write_text("psoup_y\n")
    assert token_metadata(None, "127.0.0.1:1", encrypted=False) == (("authorization", "Bearer psoup_y"),)
    sent = CallToken(None, "127.0.0.1:1", encrypted=False)
    for text, said in (
        ("eyJ.new.one", "eyJ.new.one"),
        ("", "eyJ.new.one"),
        ("two words", "eyJ.new.one"),
        ("psoup_z\n", "psoup_z"),
    ):
        (tmp_path / "written").write_text(text)
        (tmp_path / "written").replace(tmp_path / "nowhere")
        assert sent.metadata() == (("authorization", f"Bearer {said}"),), "what cannot be a token is not sent"
    (tmp_path / "nowhere").unlink()
    assert sent.metadata() == (("authorization", "Bearer psoup_z"),)
    assert "psoup_x" not in repr(ClientOptions(token="psoup_x"))
    with pytest.raises(TypeError, match="of the type int"):
        ClientOptions(token=5)  # type: ignore[arg-type]


def test_a_variable_that_has_no_token_is_named_without_its_secret(
    psoup: Psoup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "psoup_file"
    for content, said in (("", "the file is empty"), (" \n", "the file is empty"), ("psoup_two words", "spaces")):
        file.write_text(content)
        monkeypatch.setenv("PSOUP_TOKEN_FILE", str(file))
        ran = psoup("stream", "list")
        assert (ran.code, f"PSOUP_TOKEN_FILE = '{file}'" in ran.err, said in ran.err) == (1, True, True)
        assert "psoup_two" not in ran.err
    for secret in ("psoup_4kTz0QbX2m", "eyJhbGciOi.eyJzdWIi.c2ln"):
        monkeypatch.setenv("PSOUP_TOKEN_FILE", secret)
        ran = psoup("stream", "list")
        assert (ran.code, "PSOUP_TOKEN takes a token" in ran.err, secret in ran.err) == (1, True, False)
    file.write_text("psoup_x\n")
    monkeypatch.setenv("PSOUP_TOKEN_FILE", file.name)
    assert token_metadata(None, "127.0.0.1:1", encrypted=False), "a path may begin as a token does"
    monkeypatch.delenv("PSOUP_TOKEN_FILE")
    monkeypatch.setenv("PSOUP_TOKEN", "two words")
    assert "the access token in PSOUP_TOKEN has spaces" in psoup("stream", "list").err


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90 days", 90 * 86_400),
        ("1 day", 86_400),
        ("1 Week", 7 * 86_400),
        ("2w", 14 * 86_400),
        ("90d", 90 * 86_400),
        ("12h", 12 * 3_600),
        ("1.5 hours", 5_400),
        ("15min", 900),
        ("1970-01-12", 86_400),
        ("1970-01-11T00:00:10Z", 10),
        ("1970-01-11 01:00:10+01:00", 10),
    ],
)
def test_how_long_a_token_lasts_is_read(text: str, seconds: int) -> None:
    assert read_expiry(text, 10 * 86_400 * 1_000_000) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("soon", "hours, days or weeks"),
        ("5 years", "hours, days or weeks"),
        ("90", "hours, days or weeks"),
        ("5m", "hours, days or weeks"),
        ("2027-13-01", "hours, days or weeks"),
        ("0 days", "above 0"),
        ("99999999999 days", "year 9999 at the latest"),
        (f"{'9' * 400}h", "year 9999 at the latest"),
        ("9999-12-31T23:59:59.5Z", "year 9999 at the latest"),
        ("2001-01-01", "is past"),
    ],
)
def test_an_end_of_a_token_that_is_none_is_refused_with_the_reason(psoup: Psoup, text: str, why: str) -> None:
    ran = psoup("token", "issue", "x", "--role", "reader", "--expires", text)
    assert (ran.code, why in ran.err) == (2, True)


def test_lists_on_a_terminal_tell_times_to_the_second(
    psoup: Psoup, tmp_path: Path, bring: Bring, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data"
    bring(psoup("admin", "init", "--data-dir", str(path)).out.strip())
    for service in at(path):
        monkeypatch.setenv("PSOUP_ADDRESS", service.address)
        made = psoup("token", "issue", "dashboard", "--role", "reader", "--expires", "2h")
        assert re.search(rf", until {TO_THE_SECOND}\.$", made.err.strip())
        assert psoup("tenant", "create", "acme").code == 0
        lists = [(("token", "list"), 3), (("tenant", "list"), 1), (("audit", "show", str(path)), 3)]
        for command, times in lists:
            assert re.search(r":\d\d\.\d{6}Z", psoup(*command, "--json").out), "those for programs are exact"
            with monkeypatch.context() as terminal:
                terminal.setattr(sys.stdout, "isatty", lambda: True)
                terminal.setenv("COLUMNS", "300")
                shown = psoup(*command).out
            assert (len(re.findall(TO_THE_SECOND, shown)), re.search(r":\d\d\.", shown)) == (times, None)


def test_the_audit_log_is_shown_and_verified(psoup: Psoup, tmp_path: Path, bring: Bring) -> None:
    path = tmp_path / "data"
    bring(psoup("admin", "init", "--data-dir", str(path)).out.strip())
    [first] = psoup("audit", "show", str(path), "--json").rows
    assert (first["call"], first["object"]) == ("AdminService/IssueToken", "admin")
    assert "data directory" in first["peer"]
    for service in at(path):
        assert psoup("stream", "create", "CREATE STREAM s (x BIGINT)", "--address", service.address).code == 0
        assert psoup("stream", "drop", "s", "--yes", "--address", service.address).code == 0
        bring("")
        assert psoup("stream", "list", "--address", service.address).code == 1
    written = [
        ("", "AdminService/IssueToken", "OK"),
        ("admin", "StreamService/CreateStream", "OK"),
        ("admin", "StreamService/DropStream", "OK"),
        ("", "StreamService/ListStreams", "UNAUTHENTICATED"),
    ]
    shown = psoup("audit", "show", str(path), "--json").rows
    table = list(csv.DictReader(psoup("audit", "show", str(path)).out.splitlines()))
    for lines in (shown, table):
        assert [(line["principal"], line["call"], line["outcome"]) for line in lines] == written
    for name in ("object", "before"):
        assert [line[name] for line in table] == [line.get(name, "") for line in shown]
    found = psoup("audit", "verify", str(path))
    assert (found.code, len(found.out.strip())) == (0, 64)
    assert psoup("audit", "verify", str(path), "--last", found.out.strip()).code == 0
    assert psoup("audit", "verify", str(path), "--last", "0" * 63 + "1").code == 1
    log = path / "audit.jsonl"
    log.write_bytes(log.read_bytes().replace(b"CreateStream", b"AlterStream "))
    ran = psoup("audit", "verify", str(path))
    assert (ran.code, "line 3 does not follow from line 2" in ran.err) == (1, True)
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[2:]))
    ran = psoup("audit", "verify", str(path))
    assert (ran.code, "of an earlier file" in ran.err) == (0, True)
    for content, said in ((b"", "the log is empty"), (b"a,b\n1,2\n", "line 1 is not a line of an audit log")):
        log.write_bytes(content)
        ran = psoup("audit", "verify", str(path))
        assert (ran.code, ran.out, said in ran.err) == (1, "", True)
    log.unlink()
    assert psoup("audit", "show", str(path)).code == 2, "there is none"
