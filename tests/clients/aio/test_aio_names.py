"""`AsyncClient` and its objects have the public names of `Client` and of its objects, with the same parameters."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import psoup_client
from psoup_client import aio

PAIRS = (
    ("Client", "AsyncClient"),
    ("Query", "AsyncQuery"),
    ("Queries", "AsyncQueries"),
    ("AnswerStream", "AsyncAnswerStream"),
    ("AnswerCopy", "AsyncAnswerCopy"),
    ("Producer", "AsyncProducer"),
    ("Stage", "AsyncStage"),
    ("Watching", "AsyncWatching"),
    ("Following", "AsyncFollowing"),
    ("GroupFollowing", "AsyncGroupFollowing"),
    ("GroupBatch", "AsyncGroupBatch"),
)
LEFT_OUT = {
    ("Client", "reflecting"): "it takes a function that makes a call of the core",
    ("Queries", "together"): "it joins what parts of one call of the core return",
}
"""Names without a twin, and why."""


def public(thing: type) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for base in reversed(thing.__mro__):
        if base.__module__.startswith("psoup_client"):
            members.update({name: value for name, value in vars(base).items() if not name.startswith("_")})
    return members


def parameters(function: Any) -> list[tuple[str, object, object]]:
    function = function.__func__ if isinstance(function, classmethod | staticmethod) else function
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize(("mine", "twin"), PAIRS)
def test_twins_have_the_same_names_and_parameters(mine: str, twin: str) -> None:
    names, twins = public(getattr(psoup_client, mine)), public(getattr(aio, twin))
    missing = {name for name in names if name not in twins and (mine, name) not in LEFT_OUT}
    assert missing == set()
    for name, value in names.items():
        if name == "of" or (mine, name) in LEFT_OUT or isinstance(value, property) or not callable(value):
            continue
        assert parameters(twins[name]) == parameters(value), name
        assert inspect.getdoc(twins[name]), name


def test_the_clients_are_made_with_the_same_arguments() -> None:
    assert parameters(aio.AsyncClient) == parameters(psoup_client.Client)


def test_what_is_left_out_exists() -> None:
    assert [(mine, name) for mine, name in LEFT_OUT if name not in public(getattr(psoup_client, mine))] == []


def test_every_public_name_says_what_it_is() -> None:
    assert [name for name in aio.__all__ if not inspect.getdoc(getattr(aio, name))] == []
