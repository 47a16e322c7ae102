"""StagingService: a batch in parts, committed as one.

    BeginStage   was the number committed? ──> a stage
    AddPart      decode, check against the stream, on a thread ──> the stage
    CommitStage  the parts as one table ──> a Push like any other: prepared, logged, applied as a whole

A part is laid out in the stream's columns when it comes, so the commit only concatenates the parts. The decoding
thread does this, too: four thousand parts of a hundred columns take a quarter of a second.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from google.protobuf import duration_pb2

from psoup.admission.rows.push_times import check_times
from psoup.admission.rows.pushes import read_columns
from psoup.admission.rows.table_rows import given_columns
from psoup.config import EngineConfig
from psoup.errors import InvalidBatch, InvalidInput, NotFound, PSoupError
from psoup.events.acknowledgements import PushAcknowledgement
from psoup.events.commands import STAGED, Push, Recall
from psoup.model import DELETED_AT, FIRST_AT, FIRST_VERSION, PATCH, Schema, StreamSpec
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Column, arrow_schema, arrow_table
from psoup_proto.v1 import ingest_pb2, staging_pb2, staging_pb2_grpc
from psoup_service.host.turns.fair_turns import Weights
from psoup_service.servicers.backend import PATIENCE_S, Backend
from psoup_service.servicers.push_stream import reply_to
from psoup_service.wire import convert
from psoup_service.wire.calls import Caller
from psoup_service.wire.stages import NO_ROWS, BatchKey, StagedBatch, StagedPart, Stages, one_table, read_token

_NAME_BYTES = 256


class StagingServicer(staging_pb2_grpc.StagingServiceServicer):
    """See staging.proto."""

    def __init__(self, backend: Backend, config: EngineConfig) -> None:
        self._backend = backend
        self._config = config
        limits, weights = backend.limits, Weights(backend.meters.tenants)
        self._stages = Stages(limits.staged_bytes, limits.stage_idle_s, weights=weights)
        self.forget = self._stages.forget
        backend.meters.sources |= {"stages": self._stages.count, "staged_bytes": self._stages.held}

    async def BeginStage(
        self, request: staging_pb2.BeginStageRequest, caller: Caller
    ) -> staging_pb2.BeginStageResponse:
        """Open a stage. If its batch was committed before, return the outcome of that instead."""
        tenant, since = self._backend.tenant(caller), request.since
        batch = BatchKey(tenant, request.stream, request.producer, request.epoch, request.number, since)
        earlier = await self._recall(batch)
        if earlier.duplicate:
            return staging_pb2.BeginStageResponse(committed=reply_to(ingest_pb2.PushResponse, earlier))
        view = _stream(await self._backend.visible(earlier.sequence), batch.tenant, batch.stream)
        meters, way = self._backend.meters, "commit or abort some"
        meters.check(tenant, "stages", lambda: self._stages.others(batch), 1, way)
        idle = duration_pb2.Duration(seconds=int(self._stages.idle))
        return staging_pb2.BeginStageResponse(stage=self._stages.open(batch, view.stream_id).token, idle=idle)

    async def AddPart(self, request: staging_pb2.AddPartRequest, caller: Caller) -> staging_pb2.AddPartResponse:
        """Check a part and keep it."""
        if not 0 < len(request.part.encode("utf-8")) <= _NAME_BYTES:
            raise InvalidInput(f"the part's name must have 1 to {_NAME_BYTES} bytes; name it", field="part")
        stage = self._stages.find(request.stage, self._tenant(request.stage, caller))
        self._stages.check_open(stage, request.part)
        spec = self._spec(stage)
        part = await self._decoded(spec, request, caller)
        tenant, meters = stage.batch.tenant, self._backend.meters
        size, way = lambda: self._stages.held(tenant), "commit or abort batches"
        meters.check(tenant, "staged_bytes", size, part.nbytes, way, charged=stage.nbytes)
        meters.push(tenant, part.values)
        self._stages.put(stage, request.part, part)
        return staging_pb2.AddPartResponse(rows=part.table.num_rows, staged_rows=stage.rows)

    async def CommitStage(
        self, request: staging_pb2.CommitStageRequest, caller: Caller
    ) -> staging_pb2.CommitStageResponse:
        """Push the parts as one batch."""
        whole = convert.all_or_none(request.refused, numbered=True)
        tenant = self._tenant(request.stage, caller)
        try:
            stage = self._stages.find(request.stage, tenant)
        except NotFound:  # perhaps it was committed, and the reply was lost
            earlier = await self._recall(read_token(request.stage, tenant))
            if not earlier.duplicate:
                raise
            return staging_pb2.CommitStageResponse(outcome=reply_to(ingest_pb2.PushResponse, earlier))
        if stage.committing:
            raise InvalidInput("this stage is being committed by another call; wait for its end", reason="COMMITTING")
        batch, parts = stage.batch, stage.chosen(request.parts)
        schema = _schema_of(self._spec(stage), parts)
        stage.committing = True
        try:
            table = await self._backend.decoding.run(caller, stage.nbytes, lambda: one_table(parts, schema))
            numbers = (batch.producer, batch.epoch, batch.number)
            after = request.after if request.HasField("after") else None
            command = Push(
                batch.stream,
                table,
                *numbers,
                STAGED,
                tenant,
                since=batch.since,
                all_or_none=whole,
                source=request.position,
                after=after,
            )
            acknowledgement = await self._backend.host.submit(command, patience=PATIENCE_S)
        finally:
            stage.committing = False
        assert isinstance(acknowledgement, PushAcknowledgement)
        self._stages.drop(stage)
        self._backend.metrics.pushed((acknowledgement,), table.nbytes)
        return staging_pb2.CommitStageResponse(outcome=reply_to(ingest_pb2.PushResponse, acknowledgement))

    async def AbortStage(
        self, request: staging_pb2.AbortStageRequest, caller: Caller
    ) -> staging_pb2.AbortStageResponse:
        """Forget the stage and its parts."""
        tenant = self._tenant(request.stage, caller)
        try:
            stage = self._stages.find(request.stage, tenant)
        except NotFound:
            read_token(request.stage, tenant)
            return staging_pb2.AbortStageResponse()
        if not stage.committing:
            self._stages.drop(stage)
        return staging_pb2.AbortStageResponse()

    def _tenant(self, token: str, caller: Caller) -> str:
        """The tenant of a call. Raises NotFound if the stage belongs to a stream that the caller may not push to."""
        tenant = self._backend.tenant(caller)
        if caller.principal.streams:
            caller.principal.check_stream(read_token(token, tenant).stream)
        return tenant

    async def _recall(self, batch: BatchKey) -> PushAcknowledgement:
        numbers = (batch.producer, batch.epoch, batch.number)
        command = Recall(batch.stream, *numbers, STAGED, batch.tenant, batch.since)
        acknowledgement = await self._backend.host.submit(command, patience=PATIENCE_S)
        assert isinstance(acknowledgement, PushAcknowledgement)
        return acknowledgement

    def _spec(self, stage: StagedBatch) -> StreamSpec:
        """The present definition of the stage's stream.

        Raises NotFound and drops the stage if the stream was dropped, even if its name stands for a new stream.
        """
        try:
            view = _stream(self._backend.host.snapshot(), stage.batch.tenant, stage.batch.stream)
        except NotFound:
            self._stages.drop(stage)
            raise
        if view.stream_id != stage.stream_id:
            self._stages.drop(stage)
            raise NotFound(
                f"stream {stage.batch.stream!r} was dropped and made anew; its stage is gone, begin again",
                reason="OTHER_STREAM",
            )
        return view.spec

    async def _decoded(self, spec: StreamSpec, request: staging_pb2.AddPartRequest, caller: Caller) -> StagedPart:
        """Decode and check a part, in the stream's columns and types. Errors name the part."""
        decoding = self._backend.decoding
        payload = request.arrow_ipc  # each access to the field copies it

        def read(rows: pa.Table | pa.RecordBatch) -> StagedPart:
            columns = read_columns(spec, rows, self._config)
            check_times(spec, columns)
            table = _staged(spec, columns, rows.schema.names) if rows.num_rows else NO_ROWS
            return StagedPart.of(table, len(payload))

        try:
            decoded = await decoding.batch(spec, payload, caller)
            return await decoding.finish(decoded, caller, read)
        except PSoupError as problem:
            problem.message = f"part {request.part!r}: {problem.message}"
            problem.facts = {"part": request.part, **problem.facts}
            raise


def _pushed(spec: StreamSpec) -> Schema:
    """The columns that a push may have: all but those that the engine writes."""
    return Schema(tuple(attribute for attribute in spec.schema.attributes if attribute != FIRST_VERSION))


def _staged(spec: StreamSpec, columns: tuple[Column, ...], names: Sequence[str]) -> pa.Table:
    """The columns of a part as a table that a push may have. `names`: of the columns that the part has.

    A part with patches keeps only these columns, and `_patch`.
    """
    given = given_columns(spec, names, columns)
    if spec.table is not None:
        patches, columns = columns[FIRST_AT], columns[:FIRST_AT] + columns[FIRST_AT + 1 :]
    table = arrow_table(_pushed(spec), columns)
    if not given:
        return table
    names = [spec.schema.attributes[place].name for place in (DELETED_AT, *given)]
    return table.select(names).append_column(PATCH, patches.to_arrow())


def _schema_of(spec: StreamSpec, parts: Sequence[pa.Table]) -> pa.Schema:
    """The columns of a batch in parts: all of the table or stream. Parts with patches have their own columns.

    Raises InvalidBatch if a part has patches, and another one has other columns.
    """
    filled = [part.schema for part in parts if part.num_rows]
    with_patches = next((schema for schema in filled if spec.schema.takes_patches and PATCH in schema.names), None)
    if with_patches is None:
        return arrow_schema(_pushed(spec))
    if any(set(schema.names) != set(with_patches.names) for schema in filled):
        raise InvalidBatch(
            "the parts have patches, and not all of them have the same columns; give each part the same columns, or"
            " commit a batch for each set of columns",
            reason="PATCH_COLUMNS",
            field="parts",
        )
    return with_patches


def _stream(snapshot: Snapshot, tenant: str, name: str) -> StreamView:
    view = snapshot.streams.get((tenant, name.lower()))
    if view is None:
        raise NotFound(f"there is no stream {name!r} any more", reason="UNKNOWN_STREAM", stream=name)
    return view
