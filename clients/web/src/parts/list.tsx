/** A table of a few lines, whose first column stays in sight while the others are scrolled. */
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { Scrolled } from "./scrolled";
import { Term } from "./terms";

type Props = { head: string[]; label: string; words?: string[]; children: ComponentChildren };

/** `head`: names of columns; those that terms.tsx knows are explained. `words`: the columns of words, not numbers. */
export function List({ head, label, words = [], children }: Props) {
  const box = useRef<HTMLDivElement>(null);
  return (
    <Scrolled box={box} kind="wide" label={label}>
      <table class="list">
        <thead>
          <tr>
            {head.map((name, at) => (
              <th key={name} scope="col" class={at === 0 || words.includes(name) ? "" : "num"}>
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
