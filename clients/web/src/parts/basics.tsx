/** Small parts of all pages. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Term } from "./terms";

let begun = false;

/** The head of a page. The heading takes the focus when another page comes, so that a screen reader begins there. */
export function Head({ title, children, back }: { title: string; children?: ComponentChildren; back?: string }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · PSoup`;
    if (begun && document.activeElement === document.body) heading.current?.focus({ preventScroll: true });
    begun = true;
  }, [title]);
  return (
    <header class="head">
      <div>
        {back !== undefined && (
          <a class="back" href={back}>
            ← My queries
          </a>
        )}
        <h1 ref={heading} tabIndex={-1}>
          <bdi>{title}</bdi>
        </h1>
      </div>
      {children !== undefined && <div class="actions">{children}</div>}
    </header>
  );
}

export function Problem({ children }: { children: ComponentChildren }) {
  return (
    <div class="note bad" role="alert">
      {children}
    </div>
  );
}

export function Note({ children }: { children: ComponentChildren }) {
  return <div class="note">{children}</div>;
}

/** What is there when nothing is there. */
export function Empty({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section class="empty">
      <h2>{title}</h2>
      {children}
    </section>
  );
}

/** A choice of few, as buttons of which one is pressed. */
export function Choice({
  label,
  value,
  options,
  onChange,
}: {
  label: string;
  value: string;
  options: [string, string][];
  onChange: (value: string) => void;
}) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {options.map(([name, text]) => (
        <button type="button" key={name} aria-pressed={name === value} onClick={() => onChange(name)}>
          {text}
        </button>
      ))}
    </div>
  );
}

/** Names and values. Names that terms.tsx knows are explained. */
export function Facts({ facts }: { facts: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>
            <Term name={name} />
          </dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Ask before what cannot be undone. */
export function sure(question: string): boolean {
  return confirm(question);
}
