/** A call that a page repeats while it is seen. */
import { useEffect, useState } from "preact/hooks";
import { ask, words } from "../api/call";

/** What a call says, again after so many milliseconds; 0: once. With it what it said before, and how long ago that was. */
export function useTold<T>(
  method: string,
  request: object,
  every: number,
): [T | null, string, { told: T; seconds: number } | null] {
  const key = JSON.stringify([method, request]);
  const [state, set] = useState<{
    told: T | null;
    at: number;
    of: string;
    problem: string;
    before: { told: T; seconds: number } | null;
  }>({ told: null, at: 0, of: key, problem: "", before: null });
  useEffect(() => {
    const end = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async (): Promise<void> => {
      try {
        const told = document.hidden ? null : await ask<T>(method, request, end.signal);
        const at = performance.now();
        if (told !== null)
          set((now) => ({
            told,
            at,
            of: key,
            problem: "",
            before: now.told === null || now.of !== key ? null : { told: now.told, seconds: (at - now.at) / 1000 },
          }));
      } catch (wrong) {
        if (end.signal.aborted) return;
        set((now) => ({ ...now, of: key, told: now.of === key ? now.told : null, problem: words(wrong) }));
      }
      if (every > 0 && !end.signal.aborted) timer = setTimeout(() => void look(), every);
    };
    void look();
    return () => {
      end.abort();
      clearTimeout(timer);
    };
  }, [key]);
  return state.of === key ? [state.told, state.problem, state.before] : [null, "", null];
}
