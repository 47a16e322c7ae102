/** The calls of the contract, with the types of their requests and replies in JSON, as `protos/psoup_proto/v1` has them. */
import type { MessageJsonType } from "@bufbuild/protobuf";
import type { QueryService } from "./contract/psoup_proto/v1/queries_pb.js";
import type { ServerService } from "./contract/psoup_proto/v1/server_pb.js";
import type { StatementService } from "./contract/psoup_proto/v1/statements_pb.js";
import type { StreamService } from "./contract/psoup_proto/v1/streams_pb.js";

export type * from "./contract/psoup_proto/v1/queries_pb.js";
export type * from "./contract/psoup_proto/v1/server_pb.js";
export type * from "./contract/psoup_proto/v1/statements_pb.js";
export type * from "./contract/psoup_proto/v1/streams_pb.js";
export type * from "./contract/psoup_proto/v1/types_pb.js";

type Services = {
  QueryService: (typeof QueryService)["method"];
  ServerService: (typeof ServerService)["method"];
  StatementService: (typeof StatementService)["method"];
  StreamService: (typeof StreamService)["method"];
};

/** A call with one reply, such as "QueryService/ListQueries". */
export type MethodName = {
  [S in keyof Services & string]: {
    [M in keyof Services[S] & string]: Services[S][M] extends { methodKind: "unary" } ? `${S}/${Capitalize<M>}` : never;
  }[keyof Services[S] & string];
}[keyof Services & string];

type Method<Name extends MethodName> = Name extends `${infer S}/${infer M}`
  ? S extends keyof Services
    ? Uncapitalize<M> extends keyof Services[S]
      ? Services[S][Uncapitalize<M>]
      : never
    : never
  : never;

/** The request of a call, in JSON. */
export type RequestOf<Name extends MethodName> =
  Method<Name> extends { input: infer Input extends Parameters<Json>[0] } ? JsonOf<Input> : never;

/** The reply of a call, in JSON. */
export type ReplyOf<Name extends MethodName> =
  Method<Name> extends { output: infer Output extends Parameters<Json>[0] } ? JsonOf<Output> : never;

type Json = <Desc extends Parameters<typeof import("@bufbuild/protobuf").toJson>[0]>(description: Desc) => void;
type JsonOf<Desc extends Parameters<Json>[0]> = MessageJsonType<Desc>;
