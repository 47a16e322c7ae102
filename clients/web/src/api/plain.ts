/** Messages of the service without what only programs and terminals can do: the page cannot follow such advice. */

const ADVICE =
  /\bpsoup [a-z]|\bPSOUP_|(^|[\s(])--[a-z]|=True\b|=False\b|\b(client|soup)\.|\b(streams|describe|queries|push|watch|invoke|register|explain)\([^)]*\)|\bquery\.\w+\(/;

/** A message for the page: sentences with advice for programs are left out. Lines of a statement stay. */
export function plain(message: string): string {
  const lines = message.split("\n");
  const caret = lines.findIndex((line) => /^ *\^$/.test(line));
  return lines
    .map((line, at) => (at === caret - 1 ? line : withoutAdvice(line)))
    .filter((line, at) => line !== "" || lines[at] === "")
    .join("\n");
}

function withoutAdvice(line: string): string {
  if (!ADVICE.test(line)) return line;
  const parts = line.split(/(?<=[;:.]) (?!\d)/).filter((part) => !ADVICE.test(part));
  const rest = parts.join(" ").replace(/[;:,]$/, "");
  return rest === "hint" ? "" : rest;
}
