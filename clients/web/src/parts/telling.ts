/** The part of a statement that tells it from others. */

/** The statement from its WHERE on, without line breaks; from FROM on if it has no WHERE. Queries in brackets and
 * quoted names and texts are passed over. */
export function telling(statement: string): string {
  const text = statement.replace(/\s+/g, " ").trim();
  let [depth, from] = [0, 0];
  for (const { 0: part, index } of text.matchAll(/'(?:[^']|'')*'|"(?:[^"]|"")*"|[()]|\b[a-z_]\w*/gi)) {
    if (part === "(") depth++;
    else if (part === ")") depth--;
    else if (depth === 0 && /^where$/i.test(part)) return text.slice(index);
    else if (depth === 0 && from === 0 && /^from$/i.test(part)) from = index;
  }
  return text.slice(from);
}
