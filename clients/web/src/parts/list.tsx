/** A table of a few lines, whose first column stays in sight while the others are scrolled. */
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { Scrolled } from "./scrolled";
import { Term } from "./terms";

/** `head`: names of columns; those that terms.tsx knows are explained. */
export function List({ head, label, children }: { head: string[]; label: string; children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  return (
    <Scrolled box={box} kind="wide" label={label}>
      <table class="list">
        <thead>
          <tr>
            {head.map((name, at) => (
              <th key={name} scope="col" class={at === 0 ? "" : "num"}>
                <Term name={name} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </Scrolled>
  );
}
