"""The calls of the contract that an assistant makes by its tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from psoup_service.gate.principal import STRANGER, Principal
from psoup_service.gate.roles import may
from psoup_service.wire.call_steps import Answering
from psoup_service.wire.decoders import Decoders
from psoup_service.wire.inner_calls import InnerCaller, InnerCalls

if TYPE_CHECKING:
    from psoup_service.assistants.copies import Forms

LONG_BYTES = 16 * 1024
"""A thread makes the JSON of answers with more bytes than this."""

T = TypeVar("T")


class Bounds(NamedTuple):
    """Rows and bytes of a reply at most."""

    rows: int
    size: int

    def within(self, rows: int | None, size: int | None) -> Bounds:
        """The bounds of one reply. `rows`, `size`: the caller's bounds, which can only be lower."""
        return Bounds(min(rows or self.rows, self.rows), min(size or self.size, self.size))


@dataclass(slots=True)
class Assistant:
    """The client of one request: see `inner_calls.Client`."""

    peer: str
    local: bool
    token: str
    certificate_names: Sequence[str]
    certificate_ends: int


class McpCaller(InnerCaller):
    """The caller's side of one call."""

    protocol: ClassVar[str] = "mcp"
    __slots__ = ()


class Surroundings(NamedTuple):
    """The parts that all requests share. `decoders`: threads for long JSON. `forms`: the forms of copies."""

    answering: Answering
    serving: Mapping[str, Any]
    bounds: Bounds
    decoders: Decoders
    forms: Forms


class McpCalls(InnerCalls):
    """The calls of one request. `principal`: the caller's identity, after `sign_in`. `bounds`: of a reply."""

    caller = McpCaller

    def __init__(self, around: Surroundings, client: Assistant) -> None:
        super().__init__(around.answering, around.serving, client)
        self.bounds = around.bounds
        self.forms = around.forms
        self.principal: Principal = STRANGER
        self._decoders = around.decoders

    async def sign_in(self) -> Principal:
        """See `InnerCalls`."""
        self.principal = await super().sign_in()
        return self.principal

    def may(self, names: Sequence[str]) -> bool:
        """Whether the caller's roles may make all of some calls."""
        return all(may(self.principal.roles, name) for name in names)

    async def made(self, size: int, work: Callable[[], T]) -> T:
        """Do work on `size` bytes and return its result. A thread does work on more than `LONG_BYTES`."""
        if size <= LONG_BYTES:
            return work()
        result: T = await self._decoders.run(self.client.peer, size, work)
        return result
