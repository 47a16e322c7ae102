"""A build of sqlglot that cannot be extended is told by its name, and how to be rid of it."""

import pytest

from psoup.sql.parser.dialect import PSoup, check_extensible


class Compiled(PSoup):
    """What the compiled build does: the class is there, and no object of it can be made."""

    class Parser(PSoup.Parser):
        def __init__(self, *_: object, **__: object) -> None:
            raise TypeError("interpreted classes cannot inherit from compiled")


def test_the_compiled_build_is_refused_with_the_way_out() -> None:
    with pytest.raises(ImportError, match="pip uninstall sqlglotc"):
        check_extensible(Compiled)


def test_the_plain_build_is_taken() -> None:
    check_extensible(PSoup)
