"""Random histories of keys and labels against a naive model: dictionaries of what stands.

register, a block, the same again, unregister one or some   after each, the queries found by each key and by each
replace, restart, be killed, be restored from a copy        combination of labels are compared, and where the ID of
ask, let days go by                                         each query that was replaced leads; those that expire are
                                                            gone when they must be, and no day earlier
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import Conflict, NotFound
from psoup.events.acknowledgements import QueriesAcknowledgement, QueryAcknowledgement
from psoup.events.commands import Register, RegisterMany
from psoup.events.tags import TagColumns, coded, tag_of
from psoup.published.lifetimes import DAY
from psoup.published.tag_columns import KEY, tag_columns
from psoup.work.clock import VirtualClock
from psoup_storage.durable.tools.backup import restore
from psoup_testing.engines.format_fixture import leave
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.histories.histories import TINY

KEYS = tuple(f"key {number} {'é' * (number % 3)}{'x' * number}" for number in range(12))
KEPT = 25
"""Replacements that are remembered."""
USERS, KINDS = ("u0", "u1", "u2", "ü" * 32), ("alert", "feed")
SQL, BLOCK = "SELECT x FROM s WHERE x > {}", "SELECT x FROM s WHERE x > ?"


@dataclass(slots=True)
class Known:
    """A query that stands. `call`: what was asked for; `ids`: the queries of that call."""

    key: str
    labels: dict[str, str]
    text: str
    call: object
    ids: range
    days: int = 0
    """Days that it lives without being asked; 0: for ever."""
    asked: int = 0
    """The day on which it was registered, or asked last, or counts as asked."""


@dataclass(slots=True)
class TagHistory:
    """A history. `columnar`: number of queries from which a block is made of columns."""

    path: Path
    source: random.Random
    columnar: int
    standing: dict[int, Known] = field(default_factory=dict)
    replaced: dict[int, int] = field(default_factory=dict)
    """The query that took the place of each that was replaced."""
    met: set[str] = field(default_factory=set)
    """Events so far, so that a test can check that all kinds occur."""
    soup: RestartingPSoup = field(init=False)

    def __post_init__(self) -> None:
        config = EngineConfig(shape=TINY, columnar_queries=self.columnar)
        self.soup = RestartingPSoup(config, VirtualClock(0), self.path)
        self.soup.execute("CREATE STREAM s (x BIGINT)")

    def run(self, steps: int) -> None:
        """Take so many steps, and compare after each."""
        actions: tuple[Callable[[], None], ...] = (
            *(self.single, self.block, self.unregister, self.unregister_many),
            *(self.restart, self.move, self.ask, self.pass_days),
        )
        for _ in range(steps):
            self.source.choices(actions, (12, 8, 6, 2, 1, 1, 4, 4))[0]()
            self.compare()
        self.soup.store.close()

    @property
    def today(self) -> int:
        """The day of the clock."""
        return self.soup.clock.now() // DAY

    def ask(self) -> None:
        """Some queries are asked, each in its way; whoever lists queries asks none."""
        for query_id in self.source.sample(sorted(self.standing), min(len(self.standing), 2)):
            self.source.choice((self.soup.invoke, self.soup.explain))(query_id)
            self.standing[query_id].asked = self.today
        self.soup.queries()
        self.soup.maintain()

    def pass_days(self) -> None:
        """Days go by; those that were not asked for too long are gone then."""
        self.soup.clock.advance(seconds=self.source.choice((0.3, 1, 1, 2, 9)) * 86_400)
        self.soup.maintain()
        for query_id, entry in list(self.standing.items()):
            if entry.days and entry.asked + entry.days < self.today:
                self.met.add("expired")
                del self.standing[query_id]
                with pytest.raises(NotFound) as refused:
                    self.soup.invoke(query_id)
                assert refused.value.reason == "QUERY_EXPIRED"

    def lifetime(self) -> int:
        """Some days to live, or none."""
        return self.source.choice((0, 0, 0, 4, 9))

    def labels(self) -> dict[str, str]:
        """Some labels, or none."""
        given = {"user": self.source.choice((*USERS, None)), "kind": self.source.choice((*KINDS, None))}
        return {name: value for name, value in given.items() if value is not None}

    def holders(self, keys: list[str]) -> list[int]:
        """The queries that have some of these keys."""
        return [query_id for query_id, entry in self.standing.items() if entry.key and entry.key in keys]

    def single(self) -> None:
        """A query is registered, with or without a key; sometimes as an earlier one was."""
        key, labels, days = self.source.choice((*KEYS, "")), self.labels(), self.lifetime()
        text = SQL.format(self.source.randrange(3))
        alone = [entry for entry in self.standing.values() if entry.key and isinstance(entry.call, str)]
        if alone and self.source.random() < 0.3:
            again = self.source.choice(alone)
            key, labels, text, days = again.key, again.labels, str(again.call), again.days
        holders, replace = self.holders([key] if key else []), bool(key) and self.source.random() < 0.4
        entry = self.standing[holders[0]] if holders else None
        same = entry is not None and (entry.text, entry.labels, entry.days) == (text, labels, days)
        try:
            done = self.soup.submit(Register(text, "", "default", tag_of(key, labels), replace, life(days)))
        except Conflict as problem:
            self.met.add("conflict")
            assert holders and repr(key) in str(problem) and not replace and not same
            assert entry is not None and ("its text is" in str(problem)) == (entry.text != text)
            assert ("expire" in str(problem)) == (entry.days != days)
            return
        assert isinstance(done, QueryAcknowledgement)
        if done.duplicate:
            self.met.add("again")
            assert holders == [done.query_id] and same
            return
        assert not same and (replace or not holders)
        self.give_way(holders, {key: done.query_id})
        self.standing[done.query_id] = Known(
            key, labels, text, text, range(done.query_id, done.query_id + 1), days, self.today
        )

    def block(self) -> None:
        """A block is registered; sometimes as an earlier one was."""
        count = self.source.choice((1, 2, 5))
        keys = self.source.sample(KEYS, count) if self.source.random() < 0.7 else None
        labels, values = [self.labels() for _ in range(count)], [self.source.randrange(5) for _ in range(count)]
        days = self.lifetime()
        blocks = [entry for entry in self.standing.values() if entry.key and isinstance(entry.call, tuple)]
        if blocks and self.source.random() < 0.5:
            keys, labels, values, days = self.source.choice(blocks).call  # type: ignore[misc]
        call = (keys, labels, values, days)
        holders, replace = self.holders(keys or []), bool(keys) and self.source.random() < 0.4
        tags = columns_of(keys, labels)
        try:
            rows = pa.table({"x": values})
            done = self.soup.submit(RegisterMany([BLOCK], rows, tags=tags, replace=replace, expires_after=life(days)))
        except Conflict as problem:
            self.met.add("block conflict")
            assert not replace
            first = next(key for key in keys or [] if self.holders([key]))
            assert repr(first) in str(problem), (first, str(problem))
            return
        assert isinstance(done, QueriesAcknowledgement)
        ids = range(done.first_id, done.first_id + done.count)
        if done.duplicate:
            self.met.add("block again")
            assert sorted(holders) == list(ids)
            texts = [self.standing[i].text for i in ids]
            assert texts == [SQL.format(x) for x in values] and [self.standing[i].labels for i in ids] == labels
            return
        assert replace or not holders
        self.give_way(holders, dict(zip(keys or [], ids, strict=True)) if keys else {})
        for row, query_id in enumerate(ids):
            text = SQL.format(values[row])
            self.standing[query_id] = Known(
                "" if keys is None else keys[row], labels[row], text, call, ids, days, self.today
            )

    def give_way(self, holders: list[int], later: dict[str, int]) -> None:
        """Queries are replaced by those that have their keys from now on."""
        for query_id in holders:
            self.met.add("block replaced" if len(self.standing[query_id].ids) > 1 else "replaced")
            self.replaced[query_id] = later[self.standing.pop(query_id).key]

    def unregister(self) -> None:
        """A query goes."""
        if self.standing:
            query_id = self.source.choice(sorted(self.standing))
            self.soup.unregister(query_id)
            del self.standing[query_id]

    def unregister_many(self) -> None:
        """Some queries go at once: those with labels, those whose keys begin so, or any; then the same call again."""
        how: dict[str, Any] = self.source.choice(
            ({"labels": self.labels()}, {"key_prefix": self.source.choice(KEYS)[:5]}, {})
        )
        labels, prefix = how.get("labels", {}), how.get("key_prefix", "")
        going = [i for i, entry in self.standing.items() if entry.key.startswith(prefix)] if prefix else []
        if labels:
            going = [i for i, entry in self.standing.items() if labels.items() <= entry.labels.items()]
        if not (labels or prefix):
            how, going = {}, self.source.sample([*self.standing], len(self.standing) // 3)
            how["query_ids"] = going
        request_id = f"removal {self.soup.admission.sequence}"
        names = {name for entry in self.standing.values() for name in entry.labels}
        if names and not labels.keys() <= names:
            with pytest.raises(NotFound, match="no query has a label"):
                self.soup.unregister_many(**how, request_id=request_id)
            return
        assert self.soup.unregister_many(**how, request_id=request_id) == len(going)
        for query_id in going:
            del self.standing[query_id]
        if going:
            self.source.choice((self.restart, self.move, bool))()
            assert self.soup.unregister_many(**how, request_id=request_id) == len(going)
            self.met.add(f"at once by {'labels' if labels else 'keys' if prefix else 'IDs'}")

    def restart(self) -> None:
        """All is read again."""
        self.soup.maintain()
        self.soup.restart()
        self.met.add("restart")

    def move(self) -> None:
        """Go on with a copy of the files, as a kill leaves them, or restored as a backup is."""
        copy = self.path.with_name(f"{self.path.name}+")
        leave(self.path, copy)
        self.soup.store.close()
        self.path = copy
        if self.source.random() < 0.5:
            self.path = copy.with_name(f"{copy.name}r")
            restore(copy, self.path)
            self.met.add("restored")
        self.soup.path = self.path
        self.soup.reopen()
        for entry in self.standing.values():  # what was asked since the last start is lost: lives are longer
            entry.asked = self.today
        self.met.add("killed")

    def compare(self) -> None:
        """Each key, and each combination of labels, finds what the model has."""
        for key in KEYS:
            try:
                queries = [self.soup.query(key)]
            except NotFound:
                queries = []
            assert queries == self.holders([key]), key
        latest = sorted(self.replaced.items(), key=lambda pair: pair[1])[-KEPT:]
        entry = dict(latest)
        for query_id, later in self.replaced.items():
            while later in entry:
                later = entry[later]
            with pytest.raises(NotFound) as refused:
                self.soup.invoke(query_id)
            assert refused.value.facts.get("replaced_by") == (str(later) if query_id in entry else None)
        for page in self.soup.engine.snapshot().lifetimes._pages.values():
            page.asked[:] = False  # to be compared is not to be asked
        for wanted in self._combinations():
            expected = [i for i, entry in self.standing.items() if wanted.items() <= entry.labels.items()]
            assert self.soup.queries(labels=wanted) == expected, wanted
        self._compare_columns()
        self.soup.check()

    def _compare_columns(self) -> None:
        """Keys and labels of many queries at once, some of them gone, some asked for twice."""
        last = max(self.standing, default=0) + 3
        query_ids = [self.source.randrange(last) for _ in range(2 * last)]
        nothing = Known("", {}, "", "", range(0))
        entries = [self.standing.get(query_id, nothing) for query_id in query_ids]
        keys, users, others = tag_columns(
            self.soup.engine.snapshot().queries, np.array(query_ids, np.int64), [KEY, "user", "other"]
        )
        assert keys.to_pylist() == [query.key or None for query in entries]
        assert users.to_pylist() == [query.labels.get("user") for query in entries]
        assert others.null_count == len(query_ids)

    def _combinations(self) -> list[dict[str, str]]:
        users, kinds = ({"user": user} for user in USERS), ({"kind": kind} for kind in KINDS)
        return [*users, *kinds, {"user": "u1", "kind": "feed"}, {"user": "nobody"}, {"other": "u1"}]


def life(days: int) -> str:
    """The text of some days."""
    return f"{days} days" if days else ""


def columns_of(keys: list[str] | None, labels: list[dict[str, str]]) -> TagColumns | None:
    """The tags of a block; None if it has none at all."""
    names = sorted({name for row in labels for name in row})
    columns: list[Any] = [coded(pa.array([row.get(name) for row in labels], pa.string())) for name in names]
    if keys is None and not names:
        return None
    return TagColumns(len(labels), None if keys is None else pa.array(keys), tuple(zip(names, columns, strict=True)))
