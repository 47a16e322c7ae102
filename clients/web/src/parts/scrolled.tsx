/** A box whose content may be wider than it is: its edge shows that there is more to the right. */
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";

type Props = {
  box: RefObject<HTMLDivElement | null>;
  kind: string;
  label: string;
  onScroll?: () => void;
  children: ComponentChildren;
};

export function Scrolled({ box, kind, label, onScroll, children }: Props) {
  const [more, setMore] = useState(false);
  const look = (): void => {
    const node = box.current;
    if (node !== null) setMore(node.scrollWidth - node.clientWidth - node.scrollLeft > 8);
  };
  useEffect(() => {
    const seen = new ResizeObserver(look);
    seen.observe(box.current!);
    for (const child of box.current!.children) seen.observe(child);
    return () => seen.disconnect();
  }, []);
  const scrolled = (): void => {
    look();
    onScroll?.();
  };
  return (
    <div class={more ? "edge more-right" : "edge"}>
      <div class={kind} ref={box} onScroll={scrolled} tabIndex={0} role="region" aria-label={label}>
        {children}
      </div>
    </div>
  );
}
