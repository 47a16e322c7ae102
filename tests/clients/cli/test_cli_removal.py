"""psoup unregister and psoup stream drop --cascade: some at once, with a count and a question."""

from psoup_testing.services.command import Psoup


def registered(psoup: Psoup, sql: str, *more: str) -> str:
    ran = psoup("register", sql, *more)
    assert ran.code == 0, ran.err
    return ran.out.strip()


def test_some_are_unregistered_together_and_with_their_stream(psoup: Psoup, stream: str) -> None:
    queries = [registered(psoup, f"SELECT id FROM {stream} WHERE id > {number}") for number in range(4)]
    for number in range(3):
        psoup("register", f"SELECT id FROM {stream}", "--key", f"{stream}/{number}", "--label", f"of={stream}")
    assert psoup("unregister", *queries[:2], "q-00000000-1").code == 4
    done = psoup("unregister", *queries[:2])
    assert (done.code, done.err) == (0, "Unregistered 2 queries.\n")
    asked = psoup("unregister", "--label", f"of={stream}")
    assert (asked.code, asked.err) == (1, "Unregister 3 queries? Nothing was done: say --yes.\n")
    assert psoup("unregister", "--key-prefix", f"{stream}/2", "--yes").err == "Unregistered 1 query.\n"
    assert psoup("unregister", "--label", f"of={stream}", "--yes").err == "Unregistered 2 queries.\n"
    assert psoup("unregister", "--label", f"of={stream}").err == "Unregistered 0 queries.\n"
    assert psoup("unregister", queries[2], "--key", "x").code == 2
    asked = psoup("stream", "drop", stream, "--cascade")
    assert asked.code == 1 and asked.err.startswith(f"Drop stream {stream} and unregister 2 queries?")
    done = psoup("stream", "drop", stream, "--cascade", "--yes")
    assert (done.code, done.err) == (0, f"Dropped stream {stream} and 2 queries on it.\n")
