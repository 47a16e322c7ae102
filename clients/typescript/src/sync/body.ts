/** The body of a reply of Sync or Watch: compressed, and in the binary form of the contract. */
import { fromBinary } from "@bufbuild/protobuf";
import { base64Decode } from "@bufbuild/protobuf/wire";
import type { SyncResponseJson } from "../contract/psoup_proto/v1/sync_pb.js";
import { type SyncBody, SyncBodySchema } from "../contract/psoup_proto/v1/sync_pb.js";

export { base64Decode };

const MOST = 64 * 1024 * 1024;

/** Read a reply, which says how large it is. Throws for another size, or more than 64 MiB. */
export async function bodyOf(reply: SyncResponseJson): Promise<SyncBody> {
  const raw = base64Decode(reply.body ?? "");
  if (reply.compression === undefined || reply.compression === "COMPRESSION_UNSPECIFIED")
    return fromBinary(SyncBodySchema, raw);
  const size = Number(reply.size ?? 0);
  if (size > MOST) throw new Error(`${size} bytes, and at most ${MOST} are read`);
  const bytes = await inflate(raw, size);
  return fromBinary(SyncBodySchema, bytes);
}

async function inflate(raw: Uint8Array, size: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(size);
  let filled = 0;
  const stream = new Blob([raw as BlobPart]).stream().pipeThrough(new DecompressionStream("gzip"));
  // Not `for await`: streams cannot be iterated in Safari.
  const reader = stream.getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    if (filled + read.value.length > size) throw new Error("more bytes than were told");
    bytes.set(read.value, filled);
    filled += read.value.length;
  }
  if (filled !== size) throw new Error("fewer bytes than were told");
  return bytes;
}
