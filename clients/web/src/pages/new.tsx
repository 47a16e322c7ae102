/** New query: an editor that checks while one types, says what the query would be, and registers it. */
import { useEffect, useState } from "preact/hooks";
import type { CheckResponseJson, RegisterResponseJson } from "../contract/psoup_proto/v1/queries_pb";
import type { ListStreamsResponseJson, StreamJson } from "../contract/psoup_proto/v1/streams_pb";
import { ask, CallError, words } from "../api/call";
import { counted, number } from "../format";
import { patternWords } from "../parts/patterns";
import { Facts, Head } from "../parts/basics";
import { Editor } from "../parts/editor";
import { go, said, to } from "../state";
import { rechargeAndSay } from "../store/recharging";
import { keep } from "../store/store";
import { fieldOf } from "../parts/row_values";

const PAUSE = 300;
const DRAFT = "psoup draft";

type Checked =
  | { state: "empty" | "checking" | "unknown" }
  | { state: "right"; told: CheckResponseJson }
  | { state: "wrong"; error: CallError };

export function NewQuery() {
  const [name, setName] = useState("");
  const [statement, setStatement] = useState(() => sessionStorage.getItem(DRAFT) ?? "");
  const [busy, setBusy] = useState(false);
  const [refused, setRefused] = useState<CallError | null>(null);
  const checked = useChecked(statement);
  const streams = useStreams();
  const error = checked.state === "wrong" ? checked.error : refused;
  const write = (text: string): void => {
    sessionStorage.setItem(DRAFT, text);
    setStatement(text);
    setRefused(null);
  };
  const register = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    try {
      const key = name.trim();
      const { query } = await ask<RegisterResponseJson>("QueryService/Register", { statement, key });
      const number = await keep(key || firstWords(statement), { queryId: query!.queryId!, key, statement });
      void navigator.storage?.persist?.();
      sessionStorage.removeItem(DRAFT);
      await rechargeAndSay([number]);
      go(to("answer", query!.queryId!));
    } catch (problem) {
      if (problem instanceof CallError) setRefused(problem);
      else said.value = words(problem);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Head title="New query" />
      <form class="split" onSubmit={register}>
        <div>
          <label for="statement">Statement</label>
          <Editor
            value={statement}
            onInput={write}
            mark={error !== null && error.line > 0 ? error : null}
            describedBy="checked"
          />
          <div id="checked" aria-live="polite">
            {error !== null && <Wrong error={error} statement={statement} />}
            {checked.state === "right" && <Right told={checked.told} />}
            {checked.state === "empty" && (
              <p class="quiet">
                SELECT … FROM a stream, WHERE …, and a window: BEGIN (NOW - 1 HOUR). It is checked while you type.
              </p>
            )}
          </div>
          <label for="name">Name, by which anybody may ask for it (may be left out)</label>
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
          </p>
        </div>
        <aside aria-label="Streams">
          <h2>Streams</h2>
          {streams.length === 0 && <p class="quiet">The service has no streams yet.</p>}
          {streams.map((stream) => (
            <StreamHelp key={stream.name} stream={stream} onTry={() => write(example(stream))} />
          ))}
        </aside>
      </form>
    </>
  );
}

function Wrong({ error, statement }: { error: CallError; statement: string }) {
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
function parts(error: CallError): [string, string] {
  const lines = error.message.split("\n");
  const hint = error.hint || (lines.find((line) => line.startsWith("hint: ")) ?? "").replace("hint: ", "");
  return [lines[0]!, hint];
}

function Right({ told }: { told: CheckResponseJson }) {
  const columns = (told.query?.columns ?? []).map((column) => `${column.name} ${fieldOf(column).kind.toUpperCase()}`);
  return (
    <div class="note good">
      <Facts
        facts={[
          ["Columns", <bdi>{columns.join(", ")}</bdi>],
          ["Window", told.query?.window ?? ""],
          ["Rows", patternWords(told.updatePattern)],
          ...costs(told),
        ]}
      />
    </div>
  );
}

/** What a first answer would look at. */
function costs(told: CheckResponseJson): [string, string][] {
  const sum = (name: string): number =>
    (told.nodes ?? []).reduce((sum, node) => sum + Number(node.figures?.[name] ?? 0), 0);
  const [tuples, onDisk] = [sum("tuples_in_window"), sum("tuples_on_disk")];
  return [
    ["Now in the window", `${counted(tuples, "tuple")}${onDisk > 0 ? `, ${number(onDisk)} of them on disk` : ""}`],
  ];
}

function StreamHelp({ stream, onTry }: { stream: StreamJson; onTry: () => void }) {
  return (
    <details class="stream">
      <summary>
        <bdi>{stream.name}</bdi>
      </summary>
      <ul>
        {(stream.columns ?? []).map((column) => (
          <li key={column.name}>
            <code>{column.name}</code> <span class="quiet">{fieldOf(column).kind.toUpperCase()}</span>
          </li>
        ))}
      </ul>
      <button type="button" onClick={onTry}>
        Begin with this stream
      </button>
    </details>
  );
}

function example(stream: StreamJson): string {
  const names = (stream.columns ?? [])
    .slice(0, 5)
    .map(({ name }) => (/^[a-z_][a-z0-9_]*$/.test(name ?? "") ? name : `"${name}"`));
  return `SELECT ${names.join(", ")}\nFROM ${stream.name}\nBEGIN (NOW - 1 HOUR)`;
}

function firstWords(statement: string): string {
  const text = statement.replace(/\s+/g, " ").trim();
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
        (told) => set({ state: "right", told }),
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
function isAbout(problem: unknown): problem is CallError {
  return (
    problem instanceof CallError &&
    !problem.unreachable &&
    (problem.code !== "UNIMPLEMENTED" || problem.reason === "NOT_SUPPORTED")
  );
}

function useStreams(): StreamJson[] {
  const [streams, set] = useState<StreamJson[]>([]);
  useEffect(() => {
    const end = new AbortController();
    ask<ListStreamsResponseJson>("StreamService/ListStreams", {}, end.signal).then(
      (told) => set(told.streams ?? []),
      () => undefined,
    );
    return () => end.abort();
  }, []);
  return streams;
}
