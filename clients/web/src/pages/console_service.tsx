/** The console's page of the service: its state, and what takes memory. */
import type {
  CopyStateJson,
  GetServerInfoResponseJson,
  MemoryItemJson,
} from "psoup-client/contract/psoup_proto/v1/server_pb";
import { ago, bytes, counted, microsOf, number } from "../format";
import { Facts, Problem } from "../parts/basics";
import { List } from "../parts/list";
import { Term } from "../parts/terms";
import { tick } from "../state";
import { useTold } from "./told";

export function Service() {
  const [told, problem] = useTold<GetServerInfoResponseJson>("ServerService/GetServerInfo", { withBill: true }, 5_000);
  if (problem !== "") return <Problem>{problem}</Problem>;
  if (told === null) return <p class="quiet">Asking…</p>;
  const bill = told.bill ?? [];
  const own = Object.values(told.memory ?? {});
  const total = (bill.length > 0 ? bill.map((item) => item.bytes) : own).reduce<number>(
    (sum, taken) => sum + Number(taken ?? 0),
    0,
  );
  const calls = Number(told.calls ?? 0); // this one is among them; none is told to a tenant beside others
  const under: [string, string][] = [
    ["Live pages and clients", number(Number(told.watchers ?? 0))],
    ["Calls in progress", number(calls)],
  ];
  return (
    <>
      {told.refusing && <Problem>Changes are refused: {told.refusing}.</Problem>}
      <div class="card">
        <Facts
          facts={[
            ["State", told.state ?? ""],
            ["Version", told.version ?? ""],
            ["Data", `${told.store}, ${told.durable ? "survives a restart" : "lost at a restart"}`],
            ["Started", told.startTime === undefined ? "" : ago(microsOf(told.startTime) / 1000, tick.value)],
            ["events", number(Number(told.sequence ?? 0))],
            ["Memory", `${bytes(total)} of ${bytes(Number(told.memoryBudget ?? 0))}`],
            ...(told.copy === undefined ? [] : [copyFact(told.copy)]),
            ...(calls > 0 ? under : []),
          ]}
        />
      </div>
      {bill.length > 0 && <Bill items={bill} />}
    </>
  );
}

/** The bill of the service: what each structure takes. Only its operator is told. */
function Bill({ items }: { items: MemoryItemJson[] }) {
  return (
    <>
      <h2>What takes memory</h2>
      <List head={["Structure", "Memory", "Can be freed", "Holds", "Each"]} label="What takes memory">
        {items.map((item) => (
          <tr key={item.structure}>
            <th scope="row">
              <Term name={item.structure ?? ""} />
            </th>
            <td class="num">{bytes(Number(item.bytes ?? 0))}</td>
            <td class="num">{bytes(Number(item.reclaimableBytes ?? 0))}</td>
            <td class="num">{counted(Number(item.count ?? 0), ...namesOf(item.per ?? ""))}</td>
            <td class="num">
              {Number(item.count ?? 0) === 0
                ? ""
                : `${number(Math.round((Number(item.bytes ?? 0) / Number(item.count)) * 10) / 10)} B`}
            </td>
          </tr>
        ))}
      </List>
    </>
  );
}

/** One of the things that a structure holds, and several. */
function namesOf(per: string): [string, string] {
  const names: Record<string, [string, string]> = {
    tuple: ["row", "rows"],
    chunk: ["block", "blocks"],
    match: ["match", "matches"],
    query: ["query", "queries"],
    span: ["part", "parts"],
  };
  return names[per] ?? [per, `${per}s`];
}

/** The place of the copy of the events, and how far it is behind. */
function copyFact({ place, lagEvents, lag, problem }: CopyStateJson): [string, string] {
  const events = Number(lagEvents ?? 0);
  const seconds = number(Math.round(Number.parseFloat(lag ?? "0")));
  const state = events > 0 ? `lacks ${counted(events, "event")}, for ${seconds} s` : "has all events";
  return ["Copy", `${place}: ${state}${problem ? ` (${problem})` : ""}`];
}
