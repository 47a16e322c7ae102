"""The tools, as one visible list."""

from __future__ import annotations

from psoup_service.assistants.tool import Tool
from psoup_service.assistants.tools.answers import ASK, INVOKE
from psoup_service.assistants.tools.catalog import CHECK, DESCRIBE, LIST
from psoup_service.assistants.tools.changes import CHANGES
from psoup_service.assistants.tools.reasons import WHY
from psoup_service.assistants.tools.registration import REGISTER, UNREGISTER

TOOLS: tuple[Tool, ...] = (LIST, DESCRIBE, CHECK, ASK, REGISTER, INVOKE, CHANGES, WHY, UNREGISTER)
"""The tools, in the order in which a model needs them."""

BY_NAME = {tool.name: tool for tool in TOOLS}
"""The tools by their names."""
