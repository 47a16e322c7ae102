"""psoup webhook, from the first delivery to the removal, with the receiver of docs/webhooks.md beside it."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from psoup_client import Client
from psoup_service.process.settings import Settings
from psoup_testing.services.command import Psoup
from psoup_testing.services.receivers import Receiver, replies
from psoup_testing.services.threaded_service import Serving, serving

PAGE = Path(__file__).resolve().parents[3] / "docs" / "webhooks.md"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


@pytest.fixture
def service(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    with serving(Settings(port=0, webhook_hosts=(receiver.origin,))) as made:
        monkeypatch.setenv("PSOUP_ADDRESS", made.address)
        with Client(made.address) as client:
            client.create_stream("CREATE STREAM s (x BIGINT)")
            client.register("SELECT x FROM s BEGIN (NOW - 2 ROWS)", key="hot")
        yield made


def test_a_webhook_from_its_addition_to_its_removal(
    psoup: Psoup, service: Serving, receiver: Receiver, tmp_path: Path
) -> None:
    assert psoup("webhook", "list").err.startswith("There are no webhooks. Add one: psoup webhook add KEY URL")
    file = tmp_path / "secret"
    added = psoup("webhook", "add", "hot", receiver.url, "--secret-file", str(file))
    assert (added.code, added.out, stat.S_IMODE(file.stat().st_mode)) == (0, "", 0o600)
    line = re.search(r"Webhook (w-[0-9a-f]{8}-\d+) sends the changes of hot to http", added.err)
    assert line is not None
    webhook_id = line[1]
    receiver.wait(1)[0].verify(file.read_text().strip())
    (row,) = psoup("webhook", "list", "hot", "--json").rows
    assert (row["id"], row["key"], row["url"]) == (webhook_id, "hot", receiver.url) and "secret" not in row
    assert "status 204" in psoup("webhook", "test", webhook_id).err
    receiver.script.append(replies(410))
    refused = psoup("webhook", "test", webhook_id)
    assert refused.code == 1 and "has not taken the message: the receiver replied 410" in refused.err
    rotated = psoup("webhook", "rotate", webhook_id)
    assert rotated.code == 0 and "is valid for 24 hours more" in rotated.err
    psoup("webhook", "test", webhook_id)
    for secret in (rotated.out.strip(), file.read_text().strip()):
        receiver.requests[-1].verify(secret)
    for command, said in (("pause", "Paused webhook"), ("resume", "Resumed webhook"), ("remove", "Removed webhook")):
        assert said in psoup("webhook", command, webhook_id).err
    assert psoup("webhook", "remove", webhook_id).code == 4
    second = psoup("webhook", "add", "hot", receiver.url)
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=\n", second.out)
    refused = psoup("webhook", "add", "hot", receiver.url)
    assert refused.code == 5 and "sends the changes of 'hot' to this URL already" in refused.err


@pytest.mark.long
def test_the_receiver_of_the_page_takes_deliveries(tmp_path: Path) -> None:
    source = re.search(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert source is not None
    program = tmp_path / "receiver.py"
    program.write_text(
        source[1]
        .replace('("127.0.0.1", int(', '("127.0.0.1", 0 * int(')
        .replace("HTTPServer((", "server = HTTPServer((")
        .replace(").serve_forever()", ")\nprint(server.server_port, flush=True)\nserver.serve_forever()")
    )
    secret = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="
    command = [sys.executable, str(program)]
    with subprocess.Popen(command, env={"SECRET": secret}, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            origin = f"http://127.0.0.1:{process.stdout.readline().strip()}"
            with serving(Settings(port=0, webhook_hosts=(origin,))) as service, Client(service.address) as client:
                client.create_stream("CREATE STREAM s (x BIGINT)")
                client.register("SELECT x FROM s BEGIN (NOW - 2 ROWS)", key="hot")
                client.add_webhook("hot", origin, secret=secret)
                assert '"reset": true' in process.stdout.readline()
                client.push("s", [{"x": 7}])
                assert '"came": [{"x": 7}]' in process.stdout.readline()
        finally:
            process.kill()
