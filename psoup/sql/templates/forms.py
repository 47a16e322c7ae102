"""Forms: a statement like an earlier one is bound by a template of their common form, without a parser.

    SELECT * FROM trades WHERE sym = 'IBM' AND qty > -7
    SELECT * FROM trades WHERE sym =   ?   AND qty >  ?        the form; its values are 'IBM' and -7

A form gets a template when it occurs for the second time. The order of conditions under AND has no effect, so this
module sorts comparisons, and one form covers all orders. Every template guarantees that a query means the same as its
text. The bound query's text must equal the statement exactly. If it does not, or if the template refuses a value, the
parser reads the statement. So the queries and the messages are the same with and without forms.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

from psoup.errors import InvalidInput
from psoup.model import StreamSpec
from psoup.plan.shared_plans import SharedPlans
from psoup.plan.standing_query import Parameter, StandingQuery
from psoup.sql.select import Lookup
from psoup.sql.statement import prepare, standing_query
from psoup.sql.templates.template import Template

_LONGEST = 4_096
"""The most characters of a statement that can have a form. Longer statements are rare, and slow in any case."""

_FORMS = 256
_CHARACTERS = 65_536
"""The most characters that all kept forms may have in sum. A template of 4,000 characters took 1.1 MB."""

_UNFIT = re.compile(r"[?$`\\\0]|--|/\*")
_WHERE = re.compile(r"\bWHERE\b", re.IGNORECASE)
_LITERAL = r"-?\d+(?:\.\d+)?(?![\w.])|'(?:[^']|'')*'(?!')"
_COLUMN = r'(?:[a-z_]\w*|"[^"]*")'
_COMPARISON = re.compile(
    rf"(?:(?P<simple>{_COLUMN}\s*(?:[<>]=?|<>|!=|=))\s*(?:{_LITERAL})"
    rf"|(?P<between>{_COLUMN}\s+BETWEEN)\s+(?:{_LITERAL})\s+AND\s+(?:{_LITERAL}))(?P<next>\s+AND\s+)?",
    re.IGNORECASE,
)
"""A comparison of a column with a constant, or with two constants, and the AND after it."""

_CLAUSES = "GROUP|HAVING|QUALIFY|WINDOW|BEGIN|END|ORDER|LIMIT|OFFSET"
_AFTER = re.compile(rf"\b(?:{_CLAUSES})\b", re.IGNORECASE)
_NEXT = re.compile(rf"\s+(?:{_CLAUSES})\b|\s*$", re.IGNORECASE)
_ODD = re.compile(r"['\"]")
_SPACE = re.compile(r"\s*")
_CONSTANT = re.compile(
    r'"[^"]*"'  # a quoted name: what it contains is not a constant
    r"|(?P<before>[=<>(,]\s*|\b(?:AND|OR|BETWEEN|LIKE)\s+)"
    r"(?:(?P<number>-?\d+(?:\.\d+)?)(?![\w.])|(?P<text>'(?:[^']|'')*')(?!'))"
    r"|'(?:[^']|'')*'",
    re.IGNORECASE,
)
"""A constant that a parameter may replace. Other constants are part of the form."""


class Forms:
    """A cache of templates by the forms of statements, over the streams of one `lookup`. Only one thread may use it."""

    def __init__(self) -> None:
        self._templates: OrderedDict[str, tuple[Template, StreamSpec] | None] = OrderedDict()
        """The template of each form. None if the form occurred only once, or has no template."""
        self._characters = 0
        self._refused: set[str] = set()
        self._plans = SharedPlans()

    def query(self, text: str, lookup: Lookup, names: Sequence[str] = ()) -> StandingQuery:
        """The query that `standing_query` returns. Takes about 20 microseconds if its form has a template. Raises
        the same errors."""
        query = self._by_template(text, lookup, names)
        if query is None:
            query = standing_query(text, lookup, names, lambda side: self._by_template(side, lookup))
        return self._plans.of(query) if query.sides else query

    def _by_template(self, text: str, lookup: Lookup, names: Sequence[str] = ()) -> StandingQuery | None:
        """The query, if the form of its statement has a template. Else None.

        Also returns None for statements to refuse, because the parser knows the place of the fault.
        """
        ordered = in_order(text)
        parts = form_of(ordered)
        template = None if parts is None else self._template(parts[0], lookup, names)
        if parts is None or template is None:
            return None
        try:
            bound = template.bind(parts[1])
        except InvalidInput:
            return None
        if bound.text != ordered:
            return None
        return bound if ordered == text else replace(bound, text=text)

    def _template(self, form: str, lookup: Lookup, names: Sequence[str]) -> Template | None:
        if form not in self._templates:
            self._templates[form] = None
            self._characters += len(form)
            while len(self._templates) > _FORMS or self._characters > _CHARACTERS:
                gone, _ = self._templates.popitem(last=False)
                self._characters -= len(gone)
                self._refused.discard(gone)
            return None
        self._templates.move_to_end(form)
        entry = self._templates[form]
        if entry is not None and lookup(entry[0].stream) is entry[1]:
            return entry[0]
        if form in self._refused and entry is None:
            return None
        self._templates[form] = entry = _prepared(form, lookup, names)
        if entry is None:
            self._refused.add(form)
            return None
        return entry[0]


def _prepared(form: str, lookup: Lookup, names: Sequence[str]) -> tuple[Template, StreamSpec] | None:
    try:
        template = prepare(form, lookup, names)
    except InvalidInput:
        return None
    if not isinstance(template, Template):
        return None  # a join has no form: its text is parsed, but its sides have forms
    spec = lookup(template.stream)
    return None if spec is None else (template, spec)


def in_order(text: str) -> str:
    """The statement with sorted comparisons, if its WHERE has only comparisons under AND. Else the statement itself.

    O(length).
    """
    where = _where(text)
    if where is None or len(text) > _LONGEST or _ODD.search(text, 0, where.start()):
        return text
    start = at = _SPACE.match(text, where.end()).end()  # type: ignore[union-attr]  # the pattern also matches no spaces
    parts: list[tuple[str, str]] = []
    more = True
    while more:
        match = _COMPARISON.match(text, at)
        if match is None:
            return text
        more = match["next"] is not None
        parts.append((match["simple"] or match["between"], text[at : match.start("next") if more else match.end()]))
        at = match.end()
    if at < len(text) and not _NEXT.match(text, at):
        return text
    return f"{text[:start]}{' AND '.join(comparison for _, comparison in sorted(parts))}{text[at:]}"


def _where(text: str) -> re.Match[str] | None:
    """The word WHERE of the statement. Skips the WHERE of a FILTER, which follows a parenthesis."""
    where = _WHERE.search(text)
    while where is not None and text[: where.start()].rstrip()[-1:] == "(":
        where = _WHERE.search(text, where.end())
    return where


def form_of(text: str) -> tuple[str, tuple[Parameter, ...]] | None:
    """The form of a statement: `?` instead of the constants of WHERE. Also returns these constants. O(length).

    Returns None if WHERE has no constants, or if the statement has unusual signs.
    """
    if len(text) > _LONGEST or _UNFIT.search(text):
        return None
    where = _where(text)
    if where is None:
        return None
    pieces, values, at = [], list[Parameter](), 0
    for match in _CONSTANT.finditer(text, where.end()):
        kind = match.lastgroup
        if kind is None or kind == "before":
            continue
        if _AFTER.search(text, max(at, where.end()), match.start()):
            break
        written = match[kind]
        values.append(_VALUES[kind](written) if "." not in written or kind == "text" else Decimal(written))
        pieces += [text[at : match.start(kind)], "?"]
        at = match.end(kind)
    return ("".join([*pieces, text[at:]]), tuple(values)) if values else None


_VALUES: dict[str, Callable[[str], Parameter]] = {
    "number": int,
    "text": lambda written: written[1:-1].replace("''", "'"),
}
