/** New query: an editor that checks the statement, shows its rows now, asks it once, or registers it. */
import { useEffect, useState } from "preact/hooks";
import type { CheckResponseJson, RegisterResponseJson } from "psoup-client/contract/psoup_proto/v1/queries_pb";
import type { ListStreamsResponseJson, StreamJson } from "psoup-client/contract/psoup_proto/v1/streams_pb";
import { ask, PSoupError, connection, words } from "../api/call";
import { counted, number } from "../format";
import { patternWords } from "../parts/patterns";
import { telling } from "../parts/telling";
import { Head } from "../parts/basics";
import { Editor } from "../parts/editor";
import { go, said, to } from "../state";
import { rechargeAndSay } from "../store/recharging";
import { store } from "../store/copies";
import { FirstStream } from "./first_stream";
import { Once, useOnce } from "./once";
import { fieldOf } from "../parts/row_values";

const PAUSE = 300;
const DRAFT = "psoup draft";
/** Rows in the window up to which a preview is shown at once. */
const CHEAP = 100_000;
/** Streams that an empty editor offers. */
const STARTS = 6;

type Checked =
  | { state: "empty" | "checking" | "unknown" }
  | { state: "right"; told: CheckResponseJson; statement: string }
  | { state: "wrong"; error: PSoupError };

export function NewQuery() {
  const [name, setName] = useState("");
  const [statement, setStatement] = useState(() => sessionStorage.getItem(DRAFT) ?? "");
  const [busy, setBusy] = useState(false);
  const [refused, setRefused] = useState<PSoupError | null>(null);
  const checked = useChecked(statement);
  const [streams, lookAgain] = useStreams();
  const fresh = checked.state === "right" && checked.statement === statement;
  const once = useOnce(statement, fresh && isCheap(checked.told));
  const error = checked.state === "wrong" ? checked.error : refused;
  const write = (text: string): void => {
    sessionStorage.setItem(DRAFT, text);
    setStatement(text);
    setRefused(null);
  };
  const register = async (event: Event, replace = false): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    try {
      const key = name.trim();
      const { query } = await ask<RegisterResponseJson>("QueryService/Register", { statement, key, replace });
      const number = await store.keep(key || nameOf(statement), { queryId: query!.queryId!, key, statement });
      void navigator.storage?.persist?.();
      sessionStorage.removeItem(DRAFT);
      await rechargeAndSay([number]);
      go(to("answer", query!.queryId!));
    } catch (problem) {
      if (problem instanceof PSoupError) setRefused(problem);
      else said.value = words(problem);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Head title="New query" />
      {streams !== null && streams.length === 0 && <FirstStream onMade={lookAgain} />}
      <form class="split" onSubmit={register} hidden={streams !== null && streams.length === 0}>
        <div>
          <label for="statement">Statement</label>
          <Editor
            value={statement}
            onInput={write}
            mark={error !== null && error.line > 0 ? error : null}
            describedBy="checked"
          />
          <div id="checked" aria-live="polite">
            {error?.reason === "KEY_TAKEN" ? (
              <Taken name={name.trim()} busy={busy} onReplace={(event) => void register(event, true)} />
            ) : (
              error !== null && <Wrong error={error} statement={statement} />
            )}
            {checked.state === "right" && <Right told={checked.told} />}
            {checked.state === "empty" && (
              <p class="quiet">
                SELECT columns FROM a stream WHERE a condition, and a window such as BEGIN (NOW - 1 HOUR). The statement
                is checked while you type.
              </p>
            )}
            {checked.state === "empty" && streams !== null && (
              <p class="row starts">
                <span>Begin with</span>
                {streams.slice(0, STARTS).map((stream) => (
                  <button type="button" key={stream.name} onClick={() => write(example(stream))}>
                    <bdi>{stream.name}</bdi>
                  </button>
                ))}
              </p>
            )}
          </div>
          <Once once={once} />
          <label for="name">
            Name <span class="quiet">(may be left out; other users see it)</span>
          </label>
          <input
            id="name"
            maxLength={120}
            autoComplete="off"
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
          <p class="row">
            <button type="submit" class="main" disabled={busy || statement.trim() === "" || checked.state === "wrong"}>
              {busy ? "Registering…" : "Register"}
            </button>
            <button
              type="button"
              disabled={once.busy || statement.trim() === "" || checked.state === "wrong"}
              onClick={once.ask}
            >
              {once.busy ? "Asking…" : "Ask once"}
            </button>
          </p>
          <p class="quiet small">
            Register: the service keeps the answer up to date, and this device keeps a copy. Ask once: you see the rows
            of now, and nothing is stored.
          </p>
        </div>
        <aside aria-label="Streams">
          <h2>Streams</h2>
          {streams === null && connection.value === "lost" && <p class="quiet">The service cannot be reached.</p>}
          {(streams ?? []).map((stream) => (
            <StreamHelp
              key={stream.name}
              stream={stream}
              open={streams?.length === 1}
              onTry={() => write(example(stream))}
            />
          ))}
        </aside>
      </form>
    </>
  );
}

function Wrong({ error, statement }: { error: PSoupError; statement: string }) {
  const [message, hint] = parts(error);
  const line = error.line > 0 ? statement.split("\n")[error.line - 1] : undefined;
  return (
    <div class="note bad">
      <p>{message}</p>
      {line !== undefined && error.column > 0 && (
        <pre class="caret" aria-hidden="true">{`${line}\n${" ".repeat(error.column - 1)}^`}</pre>
      )}
      {hint !== "" && <p class="quiet">Hint: {hint}</p>}
    </div>
  );
}

/** What is wrong, and what to do: the service's message has the lines with the caret in between, which are drawn here. */
function parts(error: PSoupError): [string, string] {
  const lines = error.message.split("\n");
  const hint = error.hint || (lines.find((line) => line.startsWith("hint: ")) ?? "").replace("hint: ", "");
  return [lines[0]!, hint];
}

function Right({ told }: { told: CheckResponseJson }) {
  const [tuples, onDisk] = inWindow(told);
  return (
    <div class="note good">
      <code>{told.query?.window ?? ""}</code>: {counted(tuples, "row")} in this window now
      {onDisk > 0 ? `, ${number(onDisk)} of them on disk` : ""}. Rows of the answer {patternWords(told.updatePattern)}.
      {(told.notes ?? []).map((note) => (
        <p key={note}>Note: {note}.</p>
      ))}
    </div>
  );
}

/** How many rows a first answer would read, and how many of them from disk. */
function inWindow(told: CheckResponseJson): [number, number] {
  const sum = (name: string): number =>
    (told.nodes ?? []).reduce((sum, node) => sum + Number(node.figures?.[name] ?? 0), 0);
  return [sum("tuples_in_window"), sum("tuples_on_disk")];
}

/** Whether rows are shown without being asked for: the service would read few rows, and none from disk. */
function isCheap(told: CheckResponseJson): boolean {
  const [tuples, onDisk] = inWindow(told);
  return tuples <= CHEAP && onDisk === 0;
}

function Taken({ name, busy, onReplace }: { name: string; busy: boolean; onReplace: (event: Event) => void }) {
  return (
    <div class="note bad" role="alert">
      <p>
        Another query has the name <bdi>{name}</bdi>. Choose another name, or put this query in its place for all users.
      </p>
      <p class="row">
        <button type="button" disabled={busy} onClick={onReplace}>
          Replace the other query
        </button>
      </p>
    </div>
  );
}

function StreamHelp({ stream, open, onTry }: { stream: StreamJson; open: boolean; onTry: () => void }) {
  const key = stream.primaryKey ?? [];
  return (
    <details class="stream" open={open}>
      <summary>
        <bdi>{stream.name}</bdi>
        {key.length > 0 && <span class="quiet small"> table</span>}
      </summary>
      <ul>
        {(stream.columns ?? []).map((column) => (
          <li key={column.name}>
            <code>{column.name}</code> <span class="quiet">{fieldOf(column).kind.toUpperCase()}</span>
            {key.includes(column.name ?? "") && <span class="quiet"> key</span>}
          </li>
        ))}
      </ul>
      <button type="button" onClick={onTry}>
        Begin with this {key.length > 0 ? "table" : "stream"}
      </button>
    </details>
  );
}

function example(stream: StreamJson): string {
  const names = (stream.columns ?? [])
    .slice(0, 5)
    .map(({ name }) => (/^[a-z_][a-z0-9_]*$/.test(name ?? "") ? name : `"${name}"`));
  const window = (stream.primaryKey ?? []).length > 0 ? "" : "\nBEGIN (NOW - 1 HOUR)"; // a table has no window
  return `SELECT ${names.join(", ")}\nFROM ${stream.name}${window}`;
}

/** The name on this device of a query without one. */
function nameOf(statement: string): string {
  const text = telling(statement);
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}

function useChecked(statement: string): Checked {
  const [state, set] = useState<Checked>({ state: "empty" });
  useEffect(() => {
    if (statement.trim() === "") return set({ state: "empty" });
    set((now) => (now.state === "wrong" ? now : { state: "checking" }));
    const end = new AbortController();
    const timer = setTimeout(() => {
      ask<CheckResponseJson>("QueryService/Check", { statement }, end.signal).then(
        (told) => set({ state: "right", told, statement }),
        (problem) =>
          end.signal.aborted || set(isAbout(problem) ? { state: "wrong", error: problem } : { state: "unknown" }),
      );
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      end.abort();
    };
  }, [statement]);
  return state;
}

/** Whether a call says something of the statement: what does not reach the service says nothing. */
function isAbout(problem: unknown): problem is PSoupError {
  return (
    problem instanceof PSoupError &&
    !problem.unreachable &&
    (problem.code !== "UNIMPLEMENTED" || problem.reason === "NOT_SUPPORTED")
  );
}

/** The streams, null until they are known; and what asks for them again. */
function useStreams(): [StreamJson[] | null, () => void] {
  const [streams, set] = useState<StreamJson[] | null>(null);
  const [times, setTimes] = useState(0);
  useEffect(() => {
    const end = new AbortController();
    ask<ListStreamsResponseJson>("StreamService/ListStreams", {}, end.signal).then(
      (told) => set(told.streams ?? []),
      () => undefined,
    );
    return () => end.abort();
  }, [times, connection.value]);
  return [streams, () => setTimes(times + 1)];
}
