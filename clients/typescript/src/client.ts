/** The client: calls, queries that are watched, and copies. */
import { type Altered, altered, altering, amountJson, type Keeping, type Selection } from "./amounts.js";
import { asked, type Answer, type AskOptions, invoked, type InvokeOptions } from "./answer.js";
import { encode } from "./api/encode.js";
import { Transport, type TransportOptions } from "./api/transport.js";
import type { MethodName, ReplyOf, RequestOf } from "./contract.js";
import { Copy } from "./copy.js";
import { pushed, type Pushed, type PushOptions } from "./push.js";
import { Asked, Query, type Question, type Source } from "./query.js";
import type { Store } from "./store/entry.js";
import { MemoryStore } from "./store/memory.js";
import type { RowObject } from "./sync/objects.js";

export type ClientOptions = Pick<TransportOptions, "url" | "token" | "fetch" | "timeoutMs">;

export type RegisterOptions = Keeping & {
  /** Your name for the query. Other calls take it. To register the same statement under the same key again changes nothing. */
  key: string;
  /** Values of the parameters: a list for `?`, an object for `$name`. */
  parameters?: AskOptions["parameters"];
  labels?: Record<string, string> | undefined;
  /** Take the place of another query with this key. */
  replace?: boolean | undefined;
  /** Unregister it when nothing asks for it so long: "90 DAYS". */
  expiresAfter?: string | undefined;
  signal?: AbortSignal | undefined;
};

type Request = Omit<RequestOf<"QueryService/Register">, "parameters"> & { parameters?: unknown };
/** JSON leaves out what is undefined. */
type RegisterRequest = { [Name in keyof Request]: Request[Name] | undefined };

/** A client of one service. It has no connection of its own: each call is a request. */
export class Client {
  private readonly transport: Transport;
  /** Sources by what they are asked for, as long as something uses them. */
  private readonly sources = new Map<string, WeakRef<Source<never>>>();
  private readonly unused = new FinalizationRegistry<string>((id) => {
    if (this.sources.get(id)?.deref() === undefined) this.sources.delete(id);
  });

  constructor(options: ClientOptions = {}) {
    this.transport = new Transport(options);
  }

  /** The answer of a SELECT. Throws PSoupError. */
  ask<Row = RowObject>(sql: string, options: AskOptions = {}): Promise<Answer<Row>> {
    return asked<Row>(this.transport, sql, options);
  }

  /** The answer of the query with a key. Throws PSoupError. */
  invoke<Row = RowObject>(key: string, options: InvokeOptions = {}): Promise<Answer<Row>> {
    return invoked<Row>(this.transport, key, options);
  }

  /** Register a SELECT under a key, and return the query. Throws PSoupError. */
  async register<Row = RowObject>(sql: string, options: RegisterOptions): Promise<Query<Row>> {
    const { signal, amount, ...rest } = options;
    const request: RegisterRequest = { statement: sql, ...rest, amount: amountJson(amount) };
    await this.transport.ask("QueryService/Register", request, signal);
    return this.query<Row>(options.key);
  }

  /** Unregister the query with a key. Throws PSoupError. */
  async unregister(key: string, { signal }: { signal?: AbortSignal | undefined } = {}): Promise<void> {
    const { query } = await this.call("QueryService/GetQuery", { key }, { signal });
    await this.call("QueryService/Unregister", { queryId: query!.queryId! }, { signal });
  }

  /** Change how the query with a key is kept. Its answer stays the same. Throws PSoupError. */
  async alter(key: string, keeping: Keeping, { signal }: { signal?: AbortSignal | undefined } = {}): Promise<Altered> {
    const { query } = await this.call("QueryService/GetQuery", { key }, { signal });
    return this.alterQueries({ queryIds: [query!.queryId!] }, keeping, { signal });
  }

  /** Change how some queries are kept, all or none. With `dryRun` they are only counted. Throws PSoupError. */
  async alterQueries(
    selection: Selection,
    keeping: Keeping,
    { dryRun = false, signal }: { dryRun?: boolean | undefined; signal?: AbortSignal | undefined } = {},
  ): Promise<Altered> {
    const request = altering(selection, keeping, dryRun);
    const reply = await this.transport.ask<ReplyOf<"QueryService/AlterQueries">>(
      "QueryService/AlterQueries",
      request,
      signal,
    );
    return altered(reply);
  }

  /** Make a statement that changes streams or tables: CREATE STREAM, ALTER, DROP. Throws PSoupError. */
  execute(
    statement: string,
    { signal }: { signal?: AbortSignal | undefined } = {},
  ): Promise<ReplyOf<"StatementService/Execute">> {
    return this.call("StatementService/Execute", { statement }, { signal });
  }

  /** Push rows to a stream or table. Throws PSoupError. */
  push(stream: string, rows: readonly object[], options: PushOptions = {}): Promise<Pushed> {
    return pushed(this.transport, stream, rows, options);
  }

  /** The query with a key; no call is made. The same key gets the same object, so that its answer is watched once. */
  query<Row = RowObject>(key: string): Query<Row> {
    return this.source(`query ${key}`, () => new Query<Row>(this.transport, key));
  }

  /** A SELECT that is not registered, as a source of snapshots. It is asked once, and again by `refetch`. */
  asked<Row = RowObject>(question: Question): Asked<Row> {
    const id = encode([question.sql, question.parameters]);
    return this.source(`asked ${id}`, () => new Asked<Row>(this.transport, question));
  }

  /** A copy of the answer of the query with a key, in memory unless a store is named. */
  copy<Row = RowObject>(key: string, { store = new MemoryStore() }: { store?: Store } = {}): Promise<Copy<Row>> {
    return Copy.open<Row>({ transport: this.transport, store }, key);
  }

  /** Any other call of the contract with one reply, in JSON. Throws PSoupError. */
  call<Name extends MethodName>(
    method: Name,
    request: RequestOf<Name>,
    { signal }: { signal?: AbortSignal | undefined } = {},
  ): Promise<ReplyOf<Name>> {
    return this.transport.ask<ReplyOf<Name>>(method, request as object, signal);
  }

  private source<S extends object>(id: string, make: () => S): S {
    const known = this.sources.get(id)?.deref();
    if (known !== undefined) return known as unknown as S;
    const made = make();
    this.sources.set(id, new WeakRef(made as unknown as Source<never>));
    this.unused.register(made, id);
    return made;
  }
}

/** A client of the service at `url`. */
export function createClient(options: ClientOptions = {}): Client {
  return new Client(options);
}

/** A store in the memory of this page or process. */
export function memory(): Store {
  return new MemoryStore();
}
