"""Commands that end before all is done: they say what was done, and how to go on."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from psoup_cli import producer_push
from psoup_cli.producer_push import WaitReports
from psoup_client import Cancelled, Client, Producer, ResourceExhausted, Unavailable, bulk
from psoup_proto.csv_rows import records
from psoup_testing.services.command import ROWS, Psoup
from psoup_testing.services.threaded_service import Serving
from psoup_testing.suite.sweeps import swept


def test_a_push_that_finds_no_room_says_what_was_taken(
    psoup: Psoup, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    monkeypatch.setattr(records, "PIECE_BYTES", 2 * len(json.dumps(ROWS[0])) + 2)
    push, pieces, taken = Producer.push, itertools.count(), list[int]()

    def full(producer: Producer, data: Any, timeout: float | None) -> None:
        if next(pieces):
            raise ResourceExhausted("the memory budget is used up", reason="MEMORY_BUDGET")
        push(producer, data)
        taken.append(producer.flush().sequence)

    monkeypatch.setattr(Producer, "push", full)
    ran = psoup("push", stream, "rows.jsonl")
    assert (ran.code, ran.out) == (1, "")
    assert "rows.jsonl: the memory budget is used up\n2 rows before it were taken." in ran.err
    assert psoup("stream", "describe", stream, "--wait-for", str(taken[0]), "--json").rows[0]["tuples"] == 2


def test_a_push_gives_up_after_its_timeout(
    psoup: Psoup, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last attempt is at the end of the timeout, however long the service asks to wait."""
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    full, attempts = ResourceExhausted("the disk of data is full", reason="DISK_FULL", retry_after=60.0), list[float]()

    def call(producer: Producer) -> ResourceExhausted:
        attempts.append(time.monotonic())
        return full

    monkeypatch.setattr(Producer, "_one_call", call)
    ran = psoup("push", stream, "rows.jsonl", "--timeout", "0.2")
    assert (ran.code, ran.out) == (1, "")
    assert "rows.jsonl: the disk of data is full\n0 rows before it were taken." in ran.err
    assert len(attempts) == 2
    assert 0.2 <= attempts[1] - attempts[0] < 30


def test_a_push_without_a_reply_gives_up_and_says_what_is_known(
    psoup: Psoup, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service whose copy is away keeps the call open, without a reply."""
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    ended = threading.Event()
    monkeypatch.setattr(producer_push, "GRACE_S", 0.01)
    monkeypatch.setattr(Producer, "_one_call", lambda producer: ended.wait(60) and Cancelled("it ends"))
    monkeypatch.setattr(Producer, "abandon", lambda producer, end=Producer.abandon: (ended.set(), end(producer))[1])
    ran = psoup("push", stream, "rows.jsonl", "--timeout", "0.1")
    assert ran.out == "" and "1 batch for" in ran.err and "is not acknowledged after 0.11 s" in ran.err
    assert "0 rows were acknowledged. Later rows may be in the stream or not." in ran.err
    assert "ends before" not in ran.err


def test_a_registration_that_ends_early_says_how_to_go_on(
    psoup: Psoup, stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "PART_QUERIES", 3)
    values = tmp_path / "values.csv"
    values.write_text("id\n1\n2\n3\n4\nx\n")
    arguments = ["register", f"SELECT name FROM {stream} WHERE id = $id", "--params", "values.csv"]
    ran = psoup(*arguments, "--request-id", f"of {stream}")
    assert (ran.code, len(ran.out.split())) == (1, 3)
    assert "parameter $id of query 5 is 'x'" in ran.err
    assert "3 queries before it were registered" in ran.err
    values.write_text("id\n1\n2\n3\n4\n5\n")
    again = psoup(*arguments, "--request-id", f"of {stream}")
    assert (again.code, again.out.split()[:3], len(again.out.split())) == (0, ran.out.split(), 5)
    assert len(psoup("queries", "--stream", stream, "--json").rows) == 5
    first = psoup("queries", "--stream", stream, "--limit", "2")
    assert again.out.split()[1] in first.out and again.out.split()[2] not in first.out
    assert "These are the first 2. There are more" in first.err
    assert "more" not in psoup("queries", "--stream", stream, "--limit", "5").err


def test_a_tuple_id_may_be_negative(psoup: Psoup, filled: str) -> None:
    ran = psoup("matches", filled, "-1")
    assert (ran.code, ran.out) == (4, "")
    assert "tuple -1 is not in stream" in ran.err


@pytest.mark.long
@pytest.mark.parametrize("unbuffered", swept(["", "1"], fast=1))
def test_a_reader_of_the_output_that_leaves_is_no_error(
    running: Serving, psoup: Psoup, filled: str, unbuffered: str
) -> None:
    """At the first row, and when all is printed and flushed at the end."""
    query = psoup("register", f"SELECT id FROM {filled}").out.strip()
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "psoup_cli.main", "invoke", query, "--json", "--address", running.address]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with os.fdopen(write, "wb") as left:
        ran = subprocess.run(command, stdout=left, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    assert (ran.returncode, "Broken" in ran.stderr) == (0, False), ran.stderr


def test_what_is_not_an_id_is_not_found_as_an_id_of_nothing_is(psoup: Psoup, filled: str) -> None:
    gone = psoup("register", f"SELECT id FROM {filled}").out.strip()
    assert psoup("unregister", gone).code == 0
    for query in ("nonsense", "", gone, gone.replace("q-", "s-")):
        for arguments in (["invoke", query], ["explain", query], ["unregister", query], ["why", query, "0"]):
            ran = psoup(*arguments)
            assert (ran.code, ran.out) == (4, ""), (arguments, ran.err)


LOSING = """
import signal, threading
from psoup_cli.process_end import repeating_interrupts
BUSY
class Finalized:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

with repeating_interrupts():
    try:
        Finalized()
        threading.Event().wait(60)
    except KeyboardInterrupt:
        print("interrupted")
"""


BUSY = """
start = threading.Thread.start

def slow(self):
    start(self)
    threading.Event().wait(0.2)

threading.Timer.start = slow
"""
"""On a busy machine, the interrupt may come again while Python still reports that it was lost."""


@pytest.mark.parametrize("busy", ["", BUSY], ids=["idle", "busy"])
def test_an_interrupt_that_a_finalizer_loses_comes_again(busy: str) -> None:
    code = LOSING.replace("BUSY", busy)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "interrupted\n", "")


@pytest.mark.long
def test_a_push_that_waits_for_a_quota_says_so_before(
    psoup: Psoup, stream: str, client: Client, running: Serving, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(ROWS[0]) + "\n")
    command = [sys.executable, "-m", "psoup_cli.main", "push", stream, str(rows), "--address", running.address]
    try:
        client.alter_tenant("default", pushed_bytes_per_second=1)
        client.push(stream, [ROWS[0]])  # a debt of minutes
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as waiting:
            assert waiting.stderr is not None
            line = waiting.stderr.readline()
            waiting.send_signal(signal.SIGINT)
            assert (waiting.wait(), "interrupted" in waiting.stderr.read()) == (130, True)
    finally:
        client.alter_tenant("default", pushed_bytes_per_second=0)
    assert re.match(r"Waiting \d{3} s to push more: tenant 'default' has .* quota pushed_bytes_per_second", line), line


def test_waits_of_one_cause_are_told_again_if_they_are_twice_as_long(capfd: pytest.CaptureFixture[str]) -> None:
    reports, used_up = WaitReports(), {"quota": "calls_per_second"}
    full, away = ResourceExhausted("used up", reason="QUOTA", facts=used_up), Unavailable("nobody answers")
    for problem, seconds in ((full, 1.0), (full, 1.5), (full, 2.9), (away, 2.0), (full, 3.0), (away, 2.0)):
        reports.report(problem, seconds)
    lines = capfd.readouterr().err.splitlines()
    assert lines == [
        "Waiting 2 s to push more: used up",
        "Waiting 2 s to push more: nobody answers",
        "Waiting 3 s to push more: used up",
    ]
