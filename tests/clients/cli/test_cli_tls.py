"""The psoup command and TLS: what it starts, and how its client commands find their files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from psoup_service.process.settings import Settings
from psoup_testing.services.authority import Authority
from psoup_testing.services.command import Psoup
from psoup_testing.services.threaded_service import serving


def test_serve_off_loopback_says_what_it_needs(psoup: Psoup) -> None:
    ran = psoup("serve", "--listen", "127.0.0.1:0", "--listen", "0.0.0.0:1")
    assert ran.code == 2
    assert "--tls-client-ca" in ran.err


def test_commands_come_over_tls(psoup: Psoup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("service")
    with serving(Settings(listen=("https://127.0.0.1:0",), tls_cert=str(certificate), tls_key=str(key))) as service:
        monkeypatch.setenv("PSOUP_CA", str(authority.ca))
        assert service.address in psoup("status", "--address", service.address).out
        monkeypatch.setenv("PSOUP_CA", str(tmp_path / "nowhere.pem"))
        ran = psoup("status", "--address", service.address)
        assert (ran.code, "PSOUP_CA" in ran.err) == (1, True)


def test_files_that_cannot_be_used_are_named_before_anybody_is_asked(
    psoup: Psoup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    (certificate, key), (_, other) = authority.issue("mine"), authority.issue("other")
    names = {"PSOUP_CA": authority.ca, "PSOUP_CERT": certificate, "PSOUP_KEY": key}
    for changed, said in (
        ({"PSOUP_CA": key}, f"PSOUP_CA = '{key}' has no certificate"),
        ({"PSOUP_CERT": key}, f"PSOUP_CERT = '{key}' has no certificate"),
        ({"PSOUP_KEY": other}, f"PSOUP_KEY = '{other}' is not the key of PSOUP_CERT = '{certificate}'"),
        ({"PSOUP_KEY": certificate}, "no key without a password"),
    ):
        for name, path in {**names, **changed}.items():
            monkeypatch.setenv(name, str(path))
        ran = psoup("status", "--address", "https://127.0.0.1:1")
        assert (ran.code, said in ran.err, len(ran.err.splitlines())) == (1, True, 1), ran.err


def test_commands_look_where_the_service_listens_on_this_machine(psoup: Psoup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PSOUP_ADDRESS")
    monkeypatch.setenv("PSOUP_LISTEN", "unix:other.sock, 127.0.0.1:8002")
    rows = {row["name"]: (row["value"], row["origin"]) for row in psoup("config", "show", "--json").rows}
    assert rows["address"] == ("unix:other.sock", "PSOUP_LISTEN")


@pytest.mark.long
def test_a_handshake_that_fails_is_told_in_one_line() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    with serving(Settings(listen=("127.0.0.1:0",))) as service:
        command = [sys.executable, "-m", "psoup_cli.main", "queries", "--address", f"https://{service.address}"]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    (line,) = ran.stderr.splitlines()
    assert line.startswith("psoup: no PSoup service answers at https://")
