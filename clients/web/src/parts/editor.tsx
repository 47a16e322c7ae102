/** A text area for a statement, with the place of an error marked behind the text. */
import { useRef } from "preact/hooks";

export type Mark = { line: number; column: number };

type Props = { value: string; onInput: (value: string) => void; mark: Mark | null; describedBy: string };

export function Editor({ value, onInput, mark, describedBy }: Props) {
  const overlay = useRef<HTMLPreElement>(null);
  const [before, wrong, after] = split(value, mark);
  return (
    <div class="editor">
      <pre ref={overlay} aria-hidden="true" class="overlay">
        {before}
        {mark !== null && <mark>{wrong === "" || wrong === "\n" ? ` ${wrong}` : wrong}</mark>}
        {after + "\n"}
      </pre>
      <textarea
        id="statement"
        rows={5}
        spellcheck={false}
        autoCapitalize="off"
        autoComplete="off"
        wrap="soft"
        value={value}
        aria-describedby={describedBy}
        aria-invalid={mark !== null}
        onInput={(event) => onInput(event.currentTarget.value)}
        onScroll={(event) => (overlay.current!.scrollTop = event.currentTarget.scrollTop)}
      />
    </div>
  );
}

/** The text before an error, the word that is wrong, and the text after it. Lines and columns count from 1, by characters. */
export function split(text: string, mark: Mark | null): [string, string, string] {
  if (mark === null) return [text, "", ""];
  const lines = text.split("\n").slice(0, mark.line - 1);
  const start = lines.reduce((sum, line) => sum + line.length + 1, 0);
  const column = [...(text.slice(start).split("\n")[0] ?? "")].slice(0, Math.max(mark.column - 1, 0)).join("").length;
  const from = Math.min(start + column, text.length);
  const word = /^(\w+|'[^'\n]*'?|.)?/u.exec(text.slice(from))?.[0] ?? "";
  return [text.slice(0, from), word, text.slice(from + word.length)];
}
