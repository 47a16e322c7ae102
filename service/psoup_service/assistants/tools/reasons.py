"""The tool `why`: the conditions for which a tuple is in an answer, or is not."""

from __future__ import annotations

from pydantic import Field

from psoup_proto.v1 import matching_pb2
from psoup_service.assistants.calls import McpCalls
from psoup_service.assistants.facts import Facts
from psoup_service.assistants.tool import OfQuery, Tool, instant


class WhyArguments(OfQuery):
    """Arguments of `why`."""

    tuple_id: int = Field(ge=-(2**63), lt=2**63, description="The ID of the tuple, as the pseudo-column _id shows it")
    source: str | None = Field(default=None, description="Of a join: the source of the tuple, by its alias or stream")
    as_of: str | None = Field(default=None, description="The time that NOW means (ISO 8601)")


class ValueFacts(Facts):
    """An expression that a condition reads, and its value."""

    expression: str
    value: str


class PartnerFacts(Facts):
    """A tuple that satisfies a condition together with the tuple. `tuple_id`: null for a row of a subselect."""

    source: str
    tuple_id: int | None


class ConditionFacts(Facts):
    """A condition and its verdict."""

    kind: str
    condition: str
    passed: bool
    values: list[ValueFacts]
    partners: list[PartnerFacts]


class Reasons(Facts):
    """The conditions in order. `in_answer`: all passed."""

    in_answer: bool
    conditions: list[ConditionFacts]
    sequence: int


async def _why(calls: McpCalls, given: WhyArguments) -> Reasons:
    request = matching_pb2.WhyRequest(
        **given.named, tuple_id=given.tuple_id, source=given.source or "", as_of=instant(given.as_of, "as_of")
    )
    reply = await calls.one("MatchingService/Why", request)
    return Reasons(
        in_answer=all(step.passed for step in reply.steps),
        conditions=[_condition(step) for step in reply.steps],
        sequence=reply.sequence,
    )


def _condition(step: matching_pb2.WhyStep) -> ConditionFacts:
    return ConditionFacts(
        kind=matching_pb2.WhyKind.Name(step.kind).removeprefix("WHY_KIND_").lower(),
        condition=step.text,
        passed=step.passed,
        values=[ValueFacts(expression=value.text, value=value.value) for value in step.values],
        partners=[_partner(partner) for partner in step.partners],
    )


def _partner(partner: matching_pb2.WhyPartner) -> PartnerFacts:
    tuple_id = partner.tuple_id if partner.HasField("tuple_id") else None
    return PartnerFacts(source=partner.source, tuple_id=tuple_id)


WHY = Tool(
    "why",
    "Explain a row",
    "Say why a tuple is in the answer of a registered query, or why it is not: each condition with its verdict and the"
    " values that it read.",
    WhyArguments,
    Reasons,
    ("MatchingService/Why",),
    _why,
)
