"""Typical use of the SDK. `make check` checks its types with mypy --strict, and a test runs it.

Every public call is here (`tests/project/test_project_names.py`); those of jobs need a disk, and are checked only.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas
import polars
import pyarrow as pa

from psoup_client import (
    AccessToken,
    AddedWebhook,
    Altered,
    Answer,
    AnswerCopy,
    AnswerTable,
    AttachResult,
    BackupResult,
    Checked,
    Client,
    ClientOptions,
    Completeness,
    DumpInfo,
    Explanation,
    FollowBatch,
    FollowerInfo,
    GroupBatch,
    GroupInfo,
    IssuedToken,
    Match,
    MatchResult,
    MemoryBill,
    PlanNode,
    Position,
    Promotion,
    PSoupError,
    PushResult,
    Queries,
    Query,
    QueryCost,
    QuerySource,
    Quotas,
    RefusedRows,
    Results,
    RetryOptions,
    ServerInfo,
    ServiceClock,
    SourceCompleteness,
    Stage,
    StreamInfo,
    Synced,
    Tenant,
    TenantUsage,
    Webhook,
    WebhookTest,
    Why,
    WhyStep,
)


def let_in(client: Client) -> None:
    """Issue the first access token, another one, and revoke that."""
    operator: IssuedToken = client.issue_token("me", ["owner", "operator"], first=True)
    with Client(client.address, options=ClientOptions(token=operator.secret)) as mine:
        reader = mine.issue_token("dashboard", ["reader"], expires_after=dt.timedelta(days=90))
        tokens: list[AccessToken] = mine.tokens()
        gone: AccessToken = mine.revoke_token(reader.token.id)
        assert gone in tokens
        made: Tenant = mine.create_tenant("acme", queries=200_000, join_share=0.5)
        tenants: list[Tenant] = mine.tenants()
        assert made in tenants
        more: Tenant = mine.alter_tenant("acme", queries=300_000)
        quotas: Quotas = mine.tenant("acme").quotas
        usage: TenantUsage = mine.tenant_usage("acme")
        assert usage.used["queries"] == 0
        assert quotas == more.quotas
        theirs: IssuedToken = mine.issue_token("them", ["owner"], tenant="acme")
        assert mine.revoke_token(theirs.token.id) not in mine.tokens(tenant="acme")
        mine.drop_tenant("acme")


ROWS = [{"sym": "A", "price": 1.5, "qty": 3}, {"sym": "B", "price": 2.5, "qty": None}]


def session(client: Client, stream: str) -> tuple[Answer, Sequence[int | None]]:
    """Create a stream, push, register and look at the answer in each of its forms."""
    info: StreamInfo = client.create_stream(f"CREATE STREAM {stream} (sym TEXT, price DOUBLE, qty BIGINT)")
    with client.producer(info.name, name=f"maker-{stream}", batch_rows=1_000) as producer:
        number: int = producer.push(ROWS)
        sent: PushResult = producer.flush(timeout=60.0)
        assert (number, producer.acknowledged, sent) == (1, 1, producer.result)
        refused: RefusedRows = sent.refused
        assert (refused.late, refused.ahead) == ((), ())
        position: Position = producer.position()
        assert position == client.position(stream, producer.name)
    query: Query = client.register(
        f"SELECT sym, price, qty FROM {stream} WHERE price > ?", [1.0], key=f"{stream}-all", labels={"user": "u1"}
    )
    assert query == client.query(key=f"{stream}-all")
    following_streams(client, stream)
    answer: Answer = query.invoke()
    completeness: Completeness = answer.completeness
    assert not completeness.errors
    assert completeness.sentence()
    assert [gap.phrase() for gap in completeness.gaps] == []
    with TemporaryDirectory() as folder:
        answer.to_parquet(Path(folder, "rows.parquet"))
    rows, columns = answer.shape
    assert (rows, columns) == (2, 3)
    first: str = answer[0]["sym"]
    assert first == "A"
    head: Answer = answer[:1]
    assert len(head) == len(answer.head(1)) == 1
    prices: pa.ChunkedArray = answer["price"]
    assert prices.to_pylist() == [1.5, 2.5]
    assert answer.rows() == [tuple(row.values()) for row in answer]
    table: pa.Table = answer.to_arrow()
    assert table.schema == answer.schema
    assert answer.columns == tuple(answer.to_pandas(nullable=True, split_blocks=True).columns)
    assert answer.to_polars().shape == answer.shape
    return answer, answer["qty"].to_pylist()


def following_streams(client: Client, stream: str) -> None:
    """Follow a stream alone, and in a group."""
    shown: StreamInfo = client.stream(stream)
    assert shown.next_tuple_id == shown.first_tuple_id + shown.tuples
    with client.follow(stream, "start", old=True, labels={"user": "u1"}) as following:
        batch: FollowBatch = next(following)
        matches: list[Match] = list(batch)
        assert matches[0].labels == [{"user": "u1"}]
        assert following.position == batch.position
        followers: list[FollowerInfo] = client.followers(stream)
        assert len(followers) == 1
    with client.follow(stream, "start", old=True, group="mailer", lease=30.0) as worker:
        share: GroupBatch = next(worker)
        share.confirm()
    groups: list[GroupInfo] = client.groups(stream)
    assert [group.lag for group in groups] == [0]
    client.remove_group(stream, "mailer")
    _tell_a_url(client, f"SELECT * FROM {stream}")


def _tell_a_url(client: Client, statement: str) -> None:
    """Add a webhook, which stays paused: nothing is sent to a host that does not exist."""
    query = client.register(statement, key="told")
    added: AddedWebhook = client.add_webhook("told", "https://hooks.invalid/psoup")
    client.pause_webhook(added.webhook)
    webhooks: list[Webhook] = client.webhooks("told")
    assert [(each.state, added.secret[:6]) for each in webhooks] == [("paused", "whsec_")]
    tested: WebhookTest = client.test_webhook(added.webhook)
    assert tested.status == 0 and tested.error
    rotated: AddedWebhook = client.rotate_webhook(added.webhook)
    assert rotated.webhook.old_secret_until is not None
    client.resume_webhook(added.webhook.id)
    client.remove_webhook(added.webhook.id)
    query.unregister()


def _rows_that_change(client: Client, name: str) -> None:
    """Put rows into a table, and delete them by their keys in every form."""
    table: StreamInfo = client.create_table(f"CREATE TABLE {name} (sym TEXT PRIMARY KEY, price DOUBLE)")
    replaced: PushResult = client.upsert(name, [{"sym": "A", "price": 1.5}, {"sym": "A", "price": 2.5}])
    assert (table.kind, table.primary_key, replaced.replaced) == ("table", ("sym",), 1)
    assert client.delete(name, ["A"]).accepted == 1
    client.delete(name, [{"sym": "B"}])
    client.delete(name, pandas.DataFrame({"sym": ["C"]}))
    with client.producer(name) as producer:
        numbers: list[int] = [producer.upsert([{"sym": "D", "price": 1.0}]), producer.delete([("D",)])]
    assert numbers == [1, 2]
    client.drop(name)


def pushes(client: Client, stream: str) -> int:
    """Push rows in every form, whole or in parts; alter the stream, and forget it."""
    start: PushResult = client.push(stream, {"sym": ["C", "D"], "price": [0.5, 1.0], "qty": [1, 2]}, timeout=60.0)
    ids: range | list[int | None] = client.tuple_ids(start)
    assert len(ids) == start.accepted
    client.push(stream, pa.table({"sym": ["E"], "price": [3.0], "qty": [None]}))
    client.push(stream, pandas.DataFrame({"sym": ["F"], "price": [3.5], "qty": [4]}))
    client.push(stream, polars.DataFrame({"sym": ["G"], "price": [4.0], "qty": [5]}))
    with client.stage(stream) as stage:
        parts: list[str] = stage.add(ROWS, part="a")
        assert parts == stage.add(ROWS, part="a")
        committed: PushResult = stage.commit(parts)
        assert committed.accepted == 2
    dropped: Stage = Stage.join(client, stream, client.stage(stream).id)
    dropped.abort()
    wider: StreamInfo = client.alter_stream(f"ALTER STREAM {stream} ADD COLUMN note TEXT")
    assert wider.columns == client.describe(stream, wait_for=client.last_sequence).columns
    assert wider.schema.names[-1] == "note"
    client.create_stream(f"CREATE STREAM {stream}_timed (at TIMESTAMP NOT NULL) TIMESTAMP BY at")
    watermark: dt.datetime | None = client.heartbeat(f"{stream}_timed", "2000-01-01T00:00:00Z")
    assert watermark == dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
    client.drop(f"{stream}_timed")
    _rows_that_change(client, f"{stream}_table")
    assert stream in [info.name for info in client.streams()]
    return client.drop(stream, cascade=True)


def asked(client: Client, stream: str) -> Answer:
    """Ask once, as a whole or in pieces, and carry out statements of any kind."""
    since: Answer = client.ask(f"SELECT sym FROM {stream} WHERE price > $p", {"p": 1.0}, window="BEGIN (START)")
    with client.ask_stream(f"SELECT sym FROM {stream}", as_of=dt.datetime.now(dt.UTC)) as pieces:
        schema: pa.Schema = pieces.schema
        batches: list[pa.RecordBatch] = list(pieces)
    assert schema.names == ["sym"]
    assert len(batches) < 2
    outcome: Answer | StreamInfo | None = client.execute(f"SELECT sym FROM {stream}")
    assert isinstance(outcome, Answer)
    return since


def joined(client: Client, stream: str) -> list[str]:
    """Join a stream with itself, ask it over another window of a source, and look at each source."""
    sql = f"SELECT a.sym, b.qty FROM {stream} [ROWS 10] a JOIN {stream} b ON a.sym = b.sym WHERE b.qty > 0"
    query: Query = client.register(sql)
    sources: tuple[QuerySource, ...] = query.sources
    streams: tuple[str, ...] = query.streams
    assert streams == (stream,)
    answer: Answer = query.invoke(windows={"a": "BEGIN (NOW - 1 ROWS)"})
    assert answer.shape == client.ask(sql, windows={"a": "BEGIN (NOW - 1 ROWS)"}).shape
    told: tuple[SourceCompleteness, ...] = answer.completeness.sources
    nodes: list[PlanNode] = query.explain().nodes
    assert [node.operator for node in nodes] == ["project", "join", "source", "source"]
    sides: list[Query] = client.queries(stream, include_sides=True)
    assert {side.info.side_of for side in sides} >= {query.id}
    query.unregister()
    return [f"{source.alias} {part.window_kind}" for source, part in zip(sources, told, strict=True)]


def many(client: Client, stream: str) -> int:
    """Register, list, invoke and forget many queries: without `return_errors` there are answers only."""
    sql = f"SELECT sym FROM {stream} WHERE price > ?"
    queries: Queries = client.register_many(sql, [(1.0,), (2.0,)])
    halves: list[Queries] = list(client.register_parts(f"SELECT sym FROM {stream} WHERE qty = $q", {"q": [3, 4]}))
    assert isinstance(queries[::-1], Queries)
    assert isinstance(halves[0][0], Query)
    total = sum(len(answer) for answer in client.invoke_many(queries))
    for outcome in client.invoke_many(queries, return_errors=True):
        if isinstance(outcome, PSoupError):
            raise outcome
    table: AnswerTable = client.invoke_table(queries, as_of=None, accept_truncation=True)
    assert sum(batch.num_rows for batch in table.batches) == len(table) == len(table.to_pandas())
    assert table.rows_of(0).num_rows == len(client.invoke(table.query_id(0)))
    assert [group.places.ranges() for group in table.completeness] == [[range(table.queries)]]
    assert not table.failures
    copy: AnswerCopy = client.copy(queries[0], window="BEGIN (START)")
    synced: list[Synced] = client.sync([copy], max_bytes=None, timeout=60.0)
    with client.watch([copy], progress=15, patience=None) as changes:
        watched, again = next(changes)
        assert watched is copy and again.error is None
    assert synced[0].complete and client.copy_from(copy.to_bytes()).sync().came == 0
    listed: list[Query] = client.queries(stream, limit=2)
    assert client.invoke(listed[0]).shape == listed[0].invoke(wait_for=0, timeout=60.0).shape
    with listed[0].stream() as pieces:
        whole: Answer = pieces.read_all()
        pieces.close()
    assert whole.columns == ("sym", "price", "qty")
    checked: Checked = client.check(f"SELECT sym FROM {stream}", wait_for=0)
    assert checked.tuples >= 0 and [column.name for column in checked.columns] == ["sym"]
    explanation: Explanation = listed[0].explain()
    assert explanation.lines
    costs: list[QueryCost] = client.top_queries("matched", stream=stream, limit=1)
    assert costs[0].selectivity >= 0
    altered: Altered = client.alter_queries(queries, amount="complete", eager=True, active=None)
    assert (altered.count, altered.changed) == (2, 2)
    assert queries[0].alter(amount="none") and not queries[0].alter(active=True)
    client.unregister(queries[0].id)
    queries[1].unregister()
    gone: int = client.unregister_many(list(halves[0]), dry_run=True)
    assert gone == 2
    return total


def matched(client: Client, stream: str, key: str) -> Results:
    """Hold tuples and queries against each other."""
    match: MatchResult = client.match(stream, ROWS)
    assert len(match.query_ids()) == len(match.query_keys()) == match.rows
    assert [page.sequence for page in client.match_pages(stream, ROWS, labels={"user": "u1"})] == [match.sequence]
    ids: list[str] = client.matches(stream, 0)
    keys: list[list[str]] = client.matches_many(stream, [0, 1], keys=True)
    assert len(keys[0]) == len(ids)
    pairs: pa.Table = client.matches_table(stream, 0, 2)
    assert pairs.column_names == ["tuple_id", "query_id", "key"]
    with client.follow(stream, "start", old=True, keys=[key]) as following:
        batch: FollowBatch = next(following)
        matches: list[Match] = list(batch)
        assert len(batch) == len(matches) and matches[0].keys == [key] and following.position == batch.position
    why: Why = client.why(key=key, tuple=0)
    step: WhyStep | None = why.kept_out
    assert step is None
    assert client.why(key=key, tuple=ROWS[0]).kept_out is None
    results: Results = client.results(stream, labels={"user": "u1"}, last=2)
    assert results.to_arrow().column_names == ["tuple_id", key]
    assert (results[key] & ~results[key]).count() == 0
    return results


def service(client: Client) -> int:
    """Ask the service for what it is and holds, and wait for what others did."""
    info: ServerInfo = client.wait_ready(timeout=60.0)
    client.check_ready()
    bill: MemoryBill = client.memory()
    assert client.info().incarnation == info.incarnation
    assert bill.used >= 0
    hidden: int = info.not_visible
    assert hidden <= info.acknowledged
    clock: ServiceClock | None = client.info().clock
    assert clock is not None
    assert not client.accept_clock(), "the service follows the wall clock already"
    return client.wait_for(client.last_sequence)


def files(client: Client, stream: str, folder: Path) -> int:
    """Write a stream to files, and load it into another."""
    dumped: DumpInfo = client.dump(stream, folder / "dump")
    loaded: PushResult = client.load(folder / "dump", f"{stream}_again")
    assert loaded.accepted == dumped.rows
    return client.drop(f"{stream}_again")


def jobs(client: Client, stream: str, query: Query) -> tuple[AttachResult, BackupResult, int]:
    """Attach history, cover a query, and copy everything: the calls of jobs, for a service on a disk."""
    site = client.begin_attach(stream, "history")
    attached: AttachResult = client.attach(site, "written")
    chunks, rows = client.cover(client.begin_cover([query.id]), "written")
    backup: BackupResult = client.backup(Path("monday"), progress=lambda file, done, total: None)
    promotion: Promotion = client.promote(progress=lambda applied, last: None)
    assert promotion.number and promotion.time and not promotion.lost
    return attached, backup, chunks + rows


def connect(address: str) -> Client:
    """Make a client with settings of its own."""
    client = Client(address, options=ClientOptions(retry=RetryOptions(patience_seconds=2.0)))
    client.close()
    return Client(address, timeout=60.0)
