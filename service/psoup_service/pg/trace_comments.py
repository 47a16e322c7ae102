"""The caller's span from a comment in its statement, as SQLCommenter of OpenTelemetry writes it.

SELECT x FROM s /*db_driver='psycopg',traceparent='00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'*/
"""

from __future__ import annotations

import re

_TAIL = 1_024
"""The characters at the end of a statement in which a comment is looked for."""
_COMMENT = re.compile(r"/\*[^*]*\btraceparent='([0-9a-f-]{55})'[^*]*\*/[\s;]*\Z")


def traceparent_of(text: str) -> str:
    """The header `traceparent` in the comment that ends a statement; "" if there is none. O(1)."""
    tail = text[-_TAIL:]
    match = _COMMENT.search(tail) if "traceparent=" in tail else None
    return "" if match is None else match[1]
