"""The engine of PSoup: streams, standing queries, and the join that keeps answers ready. Start reading at
`psoup.local`."""

from importlib.util import find_spec

if find_spec("numba") is None:
    raise ModuleNotFoundError(
        "the engine of PSoup needs numba, which is not installed: pip install 'psoup[engine]'", name="numba"
    )
