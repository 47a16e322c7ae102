/** A statement, from its WHERE on; on touch it is shown whole. */
import { telling } from "./telling";

export function Statement({ text }: { text: string }) {
  return (
    <details class="statement">
      <summary class="sql" dir="auto" title={text}>
        {telling(text)}
      </summary>
      <code dir="auto">{text}</code>
    </details>
  );
}
