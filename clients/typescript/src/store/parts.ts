/** The database of the copies, and rows in it as records of 1,000 rows: what makes or reads one is short, so that pages
 * draw in between.
 *
 *     rows   [7, 0] → columns of rows 0 to 999      [7, 1] → of rows 1,000 to 1,999 ...
 */
import { type DBSchema, type IDBPDatabase, type IDBPObjectStore, openDB } from "idb";
import type { Column } from "../sync/values.js";
import type { Entry } from "./entry.js";

const ROWS = 1000;

export interface Tables extends DBSchema {
  entries: { key: number; value: Entry; indexes: { queryId: string } };
  /** By the number of the entry and the place of the part. */
  rows: { key: [number, number]; value: Column[] };
}

type Stores = ("entries" | "rows")[];
type Reads = IDBPObjectStore<Tables, Stores, "rows", IDBTransactionMode>;
type Writes = IDBPObjectStore<Tables, Stores, "rows", "readwrite" | "versionchange">;

/** A database, which is opened when it is first used, and again after a newer tab has closed it. */
export class Database {
  private opened: Promise<IDBPDatabase<Tables>> | null = null;

  constructor(private readonly name: string) {}

  open(): Promise<IDBPDatabase<Tables>> {
    if (this.opened !== null) return this.opened;
    const opened = openDB<Tables>(this.name, 2, {
      async upgrade(db, version, _new, transaction) {
        if (version < 1) {
          db.createObjectStore("entries", { keyPath: "number", autoIncrement: true }).createIndex("queryId", "queryId");
          db.createObjectStore("rows");
          return;
        }
        // Rows were one record, by the number alone.
        const lines = transaction.objectStore("rows");
        for (const number of (await lines.getAllKeys()) as unknown as number[]) {
          const columns = (await lines.get(number as never))!;
          await lines.delete(number as never);
          await writeParts(lines as unknown as Writes, number, columns, 0);
        }
      },
      blocking: () => void this.close(),
      terminated: () => void (this.opened = null),
    });
    this.opened = opened;
    opened.catch(() => (this.opened = null));
    return opened;
  }

  async close(): Promise<void> {
    const db = await this.opened;
    this.opened = null;
    db?.close();
  }
}

/** The keys of the parts of an entry, from one of them on. */
export function partsOf(number: number, from = 0): IDBKeyRange {
  return IDBKeyRange.bound([number, from], [number, Infinity]);
}

/** The parts of an entry in order, one after the other: each is a task of its own. */
export async function readParts(lines: Reads, number: number): Promise<Column[][]> {
  const parts: Column[][] = [];
  for (let part = await lines.get([number, 0]); part !== undefined; part = await lines.get([number, parts.length]))
    parts.push(part);
  return parts;
}

/** Write rows, of which the first `same` are there already. An answer without rows is a part without rows. */
export async function writeParts(
  lines: Writes,
  number: number,
  columns: readonly Column[],
  same: number,
): Promise<void> {
  const rows = columns[0]?.length ?? 0;
  const first = Math.floor(same / ROWS);
  const parts = Math.max(Math.ceil(rows / ROWS), 1);
  for (let part = first; part < parts; part++) {
    await lines.put(
      columns.map((column) => column.slice(part * ROWS, (part + 1) * ROWS)),
      [number, part],
    );
  }
  await lines.delete(partsOf(number, parts));
}
