"""Columns that a stream gets later, from the SDK and the command line, on a real service."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from psoup_cli.app import app
from psoup_client import AlreadyExists, Client, InvalidData, InvalidStatement, NotFound
from psoup_testing.services.threaded_service import Serving

Make = Callable[[str], str]


def test_old_tuples_are_null_in_new_columns(client: Client, make_stream: Make, running: Serving) -> None:
    name = make_stream("(x BIGINT)")
    all_before = client.register(f"SELECT * FROM {name} WHERE x > 0")
    with Client(running.address) as other:
        other.push(name, {"x": [1]})
        info = client.alter_stream(f"ALTER STREAM {name} ADD COLUMN room TEXT, ADD COLUMN warm BOOLEAN")
        assert [column.name for column in info.columns] == ["x", "room", "warm"]
        assert info.sql == f"CREATE STREAM {name} (x BIGINT, room TEXT, warm BOOLEAN)"
        other.push(name, {"x": [2], "room": ["attic"]})  # it learns of the columns by itself
        other.push(name, {"x": [3]})
    all_after = client.register(f"SELECT * FROM {name} WHERE x > 0")
    assert all_after.invoke().rows() == [(1, None, None), (2, "attic", None), (3, None, None)]
    assert all_before.invoke().rows() == [(1,), (2,), (3,)]
    attic = client.register(f"SELECT x FROM {name} WHERE room = 'attic' OR warm")
    assert attic.invoke().rows() == [(2,)]
    with pytest.raises(InvalidData, match="no column 'colour'"):
        client.push(name, {"colour": ["red"]})


def test_what_is_there_already(client: Client, make_stream: Make) -> None:
    name = make_stream("(x BIGINT)")
    with pytest.raises(AlreadyExists, match=r"a column 'x' of type BIGINT already; .* or say IF NOT EXISTS"):
        client.alter_stream(f"ALTER STREAM {name} ADD COLUMN X BIGINT")
    again = f"ALTER STREAM {name} ADD COLUMN IF NOT EXISTS y TEXT"
    assert client.alter_stream(again).columns == client.alter_stream(again).columns
    with pytest.raises(AlreadyExists, match="of type TEXT"):
        client.alter_stream(f"ALTER STREAM {name} ADD COLUMN IF NOT EXISTS y BIGINT")
    with pytest.raises(NotFound):
        client.alter_stream("ALTER STREAM nowhere ADD COLUMN y BIGINT")
    with pytest.raises(InvalidStatement, match="columns cannot be dropped"):
        client.alter_stream(f"ALTER STREAM {name} DROP COLUMN x")


def test_the_command(client: Client, make_stream: Make, running: Serving) -> None:
    name = make_stream("(x BIGINT)")
    words = ["stream", "alter", f"ALTER STREAM {name} ADD y DATE", "--address", running.address]
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.stderr) == (0, f"Stream {name} has 2 columns now.\n")
    assert CliRunner().invoke(app, words).exit_code != 0
