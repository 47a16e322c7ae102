/** Creates the first stream of an empty service, from a statement that the reader changes. */
import { useState } from "preact/hooks";
import { ask, PSoupError, words } from "../api/call";
import { Empty } from "../parts/basics";
import { said } from "../state";

const EXAMPLE = "CREATE STREAM readings (\n  sensor TEXT,\n  temperature DOUBLE\n)";

/** `onMade`: called when the stream is there. */
export function FirstStream({ onMade }: { onMade?: () => void }) {
  const [statement, setStatement] = useState(EXAMPLE);
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const create = async (): Promise<void> => {
    setBusy(true);
    setProblem("");
    try {
      await ask("StatementService/Execute", { statement });
      said.value = "The stream is there. A query may use it now, also before the first row comes.";
      onMade?.();
    } catch (wrong) {
      const refused = wrong instanceof PSoupError && wrong.code === "PERMISSION_DENIED";
      setProblem(refused ? "Your access token may not create streams: that needs the role owner." : words(wrong));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Empty title="The service has no streams yet">
      <p>
        Programs send rows into a stream, and queries read them. Give the stream a name, and each column a name and a
        type: BIGINT, DOUBLE, DECIMAL(10, 2), TEXT, BOOLEAN, TIMESTAMP or DATE.
      </p>
      <textarea
        class="code"
        aria-label="Statement that creates a stream"
        rows={5}
        spellcheck={false}
        autoCapitalize="off"
        value={statement}
        onInput={(event) => setStatement(event.currentTarget.value)}
      />
      {problem !== "" && (
        <div class="note bad pre" role="alert">
          {problem}
        </div>
      )}
      <p class="row">
        <button type="button" class="main" disabled={busy || statement.trim() === ""} onClick={create}>
          Create stream
        </button>
      </p>
      <p class="quiet small">
        Each row has the time at which it came. If rows bring a time of their own, add a column “at TIMESTAMP NOT NULL”,
        and “TIMESTAMP BY at LATENESS 1 MINUTE” at the end.
      </p>
    </Empty>
  );
}
