/** The rows of a statement that is not registered. */
import { useEffect, useRef, useState } from "preact/hooks";
import { type Asked, askOnce } from "../api/asked";
import { words } from "../api/call";
import { counted, instant, microsOf } from "../format";
import { Problem } from "../parts/basics";
import { lackWords } from "../parts/derived";
import { Table } from "../parts/table";

export type OnceState = { asked: Asked | null; problem: string; busy: boolean; ask: () => void };
type Known = Omit<OnceState, "ask">;

const NOTHING: Known = { asked: null, problem: "", busy: false };

/** `eager`: ask when the statement has been checked, without being told. */
export function useOnce(statement: string, eager: boolean): OnceState {
  const [known, set] = useState<Known>(NOTHING);
  const under = useRef<AbortController | null>(null);
  const ask = (): void => {
    under.current?.abort();
    const mine = (under.current = new AbortController());
    set((now) => ({ ...now, busy: true, problem: "" }));
    askOnce(statement, mine.signal).then(
      (asked) => mine.signal.aborted || set({ asked, problem: "", busy: false }),
      (wrong) => mine.signal.aborted || set({ asked: null, problem: words(wrong), busy: false }),
    );
  };
  useEffect(() => {
    set(NOTHING);
    if (eager) ask();
    return () => under.current?.abort();
  }, [statement, eager]);
  return { ...known, ask };
}

export function Once({ once: { asked, problem } }: { once: OnceState }) {
  if (problem !== "") return <Problem>{problem}</Problem>;
  if (asked === null) return null;
  const { rows, more, completeness } = asked;
  const now = completeness.now === undefined ? "" : `, as of ${instant(microsOf(completeness.now))}`;
  return (
    <section class="preview" aria-label="Rows now">
      <p class="quiet small" aria-live="polite">
        {more ? `The first ${counted(rows.order.length, "row")}` : counted(rows.order.length, "row")} now{now}. Not
        registered yet{lackWords(completeness)}.
      </p>
      {rows.order.length > 0 && <Table rows={rows} label="Rows now" />}
    </section>
  );
}
