"""psoup follow, with pipes that close, Ctrl-C, and a file for the position."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from psoup_client import Client
from psoup_testing.services.command import Psoup
from psoup_testing.services.threaded_service import Serving

Make = Callable[[str], str]


@pytest.fixture
def ads(client: Client, make_stream: Make) -> str:
    """A stream with two searches of two users."""
    name = make_stream("(n BIGINT, kind TEXT)")
    for user in ("ann", "bob"):
        sql = f"SELECT n FROM {name} WHERE kind = ?"
        client.register(sql, [f"of {user}"], key=f"{name}-{user}", labels={"user": user, "tone": "loud"})
    return name


@pytest.fixture
def started(running: Serving, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start the command with pipes; it is killed at the end of the test."""
    processes = list[subprocess.Popen[str]]()

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "psoup_cli.main", *arguments]
        environ = {**os.environ, "PSOUP_ADDRESS": running.address, "PYTHONPATH": os.pathsep.join(sys.path)}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, cwd=tmp_path, env=environ, text=True, **pipes)  # type: ignore[call-overload]
        processes.append(process)
        return process  # type: ignore[no-any-return]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_each_tuple_is_a_line_and_the_position_file_goes_on(
    client: Client, ads: str, started: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    client.push(ads, {"n": [0], "kind": ["of bob"]})
    start = client.follow(ads, "start")
    (tmp_path / "position").write_text(start.position + "\n")
    start.close()
    client.push(ads, {"n": [1, 2], "kind": ["of ann", "of no user"]})
    process = started("follow", ads, "--position-file", "position", "--labels", "user")
    assert process.stdout is not None
    lines = [json.loads(process.stdout.readline()) for _ in range(2)]
    assert [line["tuple"]["n"] for line in lines] == [0, 1]
    assert [(m["key"], m["labels"]) for m in lines[1]["queries"]] == [(f"{ads}-ann", {"user": "ann"})]
    client.push(ads, {"n": [3], "kind": ["of bob"]})
    assert json.loads(process.stdout.readline())["tuple"]["n"] == 3
    client.push(ads, {"n": [4], "kind": ["of bob"]})
    assert json.loads(process.stdout.readline())["tuple"]["n"] == 4, "the position after tuple 3 is stored by now"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    stored = (tmp_path / "position").read_text()
    assert (process.returncode, err.count("\n"), "Traceback" in err) == (130, 1, False)
    assert err == f"position: {stored}" or client.follow(ads, stored.strip()).close() is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["position"]


@pytest.mark.long
def test_a_closed_pipe_ends_it_quietly_and_a_group_keeps_its_position(
    client: Client, ads: str, started: Callable[..., subprocess.Popen[str]]
) -> None:
    client.follow(ads, group="mailer").close()
    client.push(ads, {"n": [1], "kind": ["of ann"]})
    process = started("follow", ads, "--group", "mailer", "--json")
    assert process.stdout is not None and process.stderr is not None
    assert json.loads(process.stdout.readline())["tuple"]["n"] == 1
    process.stdout.close()
    number = 1
    while process.poll() is None:
        number += 1
        client.push(ads, {"n": [number], "kind": ["of ann"]})
    assert (process.returncode, process.stderr.read()) == (0, "")
    with client.follow(ads, group="mailer") as worker:
        assert next(iter(next(worker))).tuple["n"] == 2, "what could not be written was not confirmed"


@pytest.mark.long
def test_after_counts_until_there_is_a_position_file(
    client: Client, ads: str, started: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    client.push(ads, {"n": [1], "kind": ["of ann"]})
    options = ("--after", "start", "--position-file", "position", "--labels", "user,tune")
    process = started("follow", ads, *options)
    assert process.stdout is not None and process.stderr is not None
    assert json.loads(process.stdout.readline())["tuple"]["n"] == 1
    note = process.stderr.readline()
    assert note == "Note: no query of the first matches has a label 'tune'.\n"
    process.kill()
    process.wait()
    feed = client.follow(ads)
    (tmp_path / "position").write_text(feed.position)
    feed.close()
    client.push(ads, {"n": [2], "kind": ["of ann"]})
    process = started("follow", ads, *options)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["tuple"]["n"] == 2, "the file wins over --after"


@pytest.mark.long
def test_unknown_labels_are_noted(client: Client, ads: str, started: Callable[..., subprocess.Popen[str]]) -> None:
    process = started("follow", ads, "--label", "user=unknown", "--name", "pager")
    assert process.stderr is not None
    assert process.stderr.readline() == "No query has these labels yet. Following waits for one.\n"
    assert [follower.name for follower in client.followers(ads)] == ["pager"]


def test_groups_are_shown_and_dropped(psoup: Psoup, client: Client, ads: str) -> None:
    client.follow(ads, group="mailer", labels={"tone": "loud"}).close()
    with client.follow(ads, name="pager"):
        shown = psoup("stream", "show", ads)
        assert re.search(r"^follower +position +lag\n─+\npager +0 +0$", shown.out, re.MULTILINE), shown.out
        assert psoup("stream", "show", ads, "--json").rows[0]["followers"] == [
            {"name": "pager", "next_id": 0, "lag": 0}
        ]
    with client.follow(ads):
        shown = psoup("stream", "show", ads).out
    assert re.search(r"^\(no name\) +0 +0$", shown, re.MULTILINE), shown
    assert '{"labels":{"tone":"loud"}}' in shown and "mailer" in shown
    (group,) = psoup("stream", "show", ads, "--json").rows[0]["groups"]
    assert (group["group"], group["lag"], group["workers"]) == ("mailer", 0, [])
    assert psoup("stream", "drop-group", ads, "mailer", "--yes").code == 0
    assert psoup("stream", "show", ads, "--json").rows[0]["groups"] == []
    gone = psoup("stream", "drop-group", ads, "mailer", "--yes")
    assert gone.code == 4 and "there is no group 'mailer' of followers" in gone.err


def test_bad_options_are_named(psoup: Psoup, ads: str, tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("two words\n")
    for arguments, words in (
        (["--position-file", "bad"], "bad does not hold a position"),
        (["--position-file", "x", "--group", "mailer"], "without --group"),
        (["--label", "user"], "is not NAME=VALUE"),
    ):
        ran = psoup("follow", ads, *arguments)
        assert ran.code == 2 and words in " ".join(ran.err.split()), ran.err
    for arguments, words in (
        (["--after", "p1-nothing"], "not a position"),
        (["--key", "no such"], "no query with key"),
    ):
        ran = psoup("follow", ads, *arguments)
        assert ran.code in (1, 4) and words in ran.err, ran.err
    assert psoup("follow", "nowhere").code == 4


def test_what_is_not_followed_is_told(psoup: Psoup, client: Client, ads: str) -> None:
    ran = psoup("follow", ads, "--labels", "tone,user=ann")
    assert (ran.code, "to follow the queries with one, say --label user=ann" in " ".join(ran.err.split())) == (2, True)
    with client.follow(ads) as feed:
        assert repr(feed) == f"<Following of {ads}: iterate for batches of new matches>"


@pytest.mark.long
def test_a_command_says_how_many_queries_it_leaves_out(
    client: Client, ads: str, started: Callable[..., subprocess.Popen[str]]
) -> None:
    client.register(f"SELECT count(*) AS n FROM {ads}", labels={"user": "ann"})
    client.push(ads, {"n": [1], "kind": ["of no user"]})
    process = started("follow", ads, "--label", "user=ann", "--after", "start")
    assert process.stderr is not None
    assert process.stderr.readline().startswith("1 query with the labels is not followed: joins, aggregates")
