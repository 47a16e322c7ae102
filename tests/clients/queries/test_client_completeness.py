"""Completeness in words: of one stream, and of the sources of a join, which are named."""

from __future__ import annotations

from google.protobuf import timestamp_pb2

from psoup_client import Completeness, SourceCompleteness
from psoup_proto.v1 import types_pb2


def _told(**fields: object) -> Completeness:
    return Completeness.of(types_pb2.Completeness(window_kind=types_pb2.WINDOW_KIND_SLIDING, **fields))  # type: ignore[arg-type]


def _source(alias: str, **fields: object) -> types_pb2.SourceCompleteness:
    kind = types_pb2.WINDOW_KIND_SLIDING
    return types_pb2.SourceCompleteness(alias=alias, stream="s", window_kind=kind, **fields)  # type: ignore[arg-type]


def _at(seconds: int) -> timestamp_pb2.Timestamp:
    return timestamp_pb2.Timestamp(seconds=seconds)


def test_one_stream_has_no_sources() -> None:
    told = _told(final=True)
    assert told.sources == ()
    assert told.sentence() == "Final: nothing can change it any more; nothing late, nothing pending."


def test_a_final_answer_says_up_to_when() -> None:
    """The window of a derived stream ends at NOW. What is before it is final, and later rows may come all the same."""
    said = "nothing can change it any more; nothing late, nothing pending."
    assert _told(final=True, end=_at(60)).sentence() == f"Final up to 1970-01-01 00:01:00Z: {said}"
    last = timestamp_pb2.Timestamp(seconds=59, nanos=999_999_000)
    assert _told(final=True, end=last).sentence() == f"Final up to 1970-01-01 00:00:59.999999Z: {said}"


def test_what_is_missing_of_a_join_is_said_of_its_source() -> None:
    first = _source("f", pending=3, pending_in_window=2, late=4, late_in_window=0)
    second = _source("w", truncated=True, idle=True, ahead=1, ahead_in_window=1)
    told = _told(now=_at(60), pending=3, pending_in_window=2, late=4, ahead=1, truncated=True, sources=[first, second])
    assert told.sentence() == (
        "May still grow; f: 2 tuples of the window still wait for the watermark; f: 4 tuples of the stream came too"
        " late and were refused, none in this window; w: 1 tuple of the stream lay too far ahead of the clock and was"
        " refused, in this window; w: it lacks tuples that are not kept any more; w: the stream is"
        " idle, so NOW did not wait for it."
    )
    assert [(source.alias, source.stream, source.idle) for source in told.sources] == [
        ("f", "s", False),
        ("w", "s", True),
    ]
    assert told.sources[0] == SourceCompleteness.of(first)
    assert "<th>alias</th><th>stream</th>" in told._repr_html_()


def test_rows_older_than_the_history_of_a_table_are_counted() -> None:
    assert _told(unknown=1).sentence() == (
        "May still grow; 1 row may lack a version of the table: it is older than its HISTORY, or the key has none yet."
    )
    assert _told(unknown=3).unknown == 3


def test_a_join_that_misses_nothing_says_so() -> None:
    assert (
        _told(now=_at(60), sources=[_source("a"), _source("b")]).sentence()
        == "May still grow; nothing late, nothing pending."
    )


def test_the_source_that_holds_now_is_named() -> None:
    """A join over a stream in which nothing happens has an empty window of the others: the answer says why."""
    behind, ahead = _source("c", watermark=_at(60)), _source("o", watermark=_at(3_600))
    told = _told(now=_at(60), sources=[behind, ahead])
    assert told.sentence() == "May still grow; NOW waits at 1970-01-01 00:01:00Z for c."
    assert "waits" not in _told(now=_at(60), final=True, sources=[behind, ahead]).sentence()
    assert "waits" not in _told(now=_at(60), sources=[behind, behind]).sentence()
    assert "waits" not in _told(now=_at(30), sources=[behind, ahead]).sentence()
    nothing = _told(sources=[_source("c"), ahead]).sentence()
    assert nothing == "May still grow; NOW begins when something comes to c."


def test_a_source_that_may_take_rows_away_says_so_if_it_lacks_something() -> None:
    marked = {"may_take_away": True, "final": True}
    answer = _told(now=_at(60), final=True, sources=[_source("r", final=True), _source("s", **marked)])
    assert answer.sentence() == "Final: nothing can change it any more; nothing late, nothing pending."
    assert answer.sources[1].may_take_away and not answer.sources[0].may_take_away
    late = _source("s", late=2, late_in_window=1, older_dropped=True, **marked)
    assert _told(now=_at(60), final=True, sources=[_source("r", final=True), late]).sentence() == (
        "Final: nothing can change it any more; s: its tuples may take rows away; s: 2 tuples of the stream came too"
        " late and were refused, 1 in this window; s: older tuples are not kept any more."
    )
    open_end = _told(now=_at(60), sources=[_source("r"), _source("s", may_take_away=True)])
    assert open_end.sentence() == "May still grow; s: its tuples may take rows away."
