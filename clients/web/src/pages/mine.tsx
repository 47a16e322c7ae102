/** My queries: what this device keeps, how old it is, and a recharge of all of it. */
import { useState } from "preact/hooks";
import { connection } from "../api/call";
import { bytes, counted, number, resetWords } from "../format";
import { Age, Certainty, errorWords } from "../parts/certainty";
import { Empty, Head, sure } from "../parts/basics";
import { kept, to } from "../state";
import { rechargeAndSay } from "../store/recharging";
import { recharging } from "../store/recharge";
import { type Entry, forgetAll } from "../store/store";
import type { Recharged } from "../store/recharge";

export function Mine() {
  const [told, setTold] = useState<Recharged | null>(null);
  const all = kept.value;
  if (all === null) return <Head title="My queries" />;
  const run = async (): Promise<void> => setTold(await rechargeAndSay());
  return (
    <>
      <Head title="My queries">
        {all.length > 0 && (
          <button type="button" class="main" onClick={run} disabled={recharging.value > 0}>
            {recharging.value > 0 ? "Recharging…" : "Recharge"}
          </button>
        )}
      </Head>
      {all.length === 0 ? <Nothing /> : <p class="quiet">{summary(all, told)}</p>}
      <ul class="cards">
        {all.map((entry) => (
          <Card key={entry.number} entry={entry} />
        ))}
      </ul>
      {all.length > 0 && (
        <p class="foot">
          <button
            type="button"
            class="plain"
            onClick={() => sure("Forget all copies on this device? The queries stay registered.") && forgetAll()}
          >
            Forget everything on this device
          </button>
        </p>
      )}
    </>
  );
}

function summary(all: Entry[], told: Recharged | null): string {
  const rows = all.reduce((sum, entry) => sum + entry.rows, 0);
  const here = `${counted(all.length, "query", "queries")}, ${counted(rows, "row")} on this device.`;
  if (told === null) return here;
  const took = told.sent + told.received;
  const beside =
    told.full > 0 ? ` A full answer of each would have taken about ${bytes(Math.max(told.full, told.received))}.` : "";
  return `${here} The recharge took ${bytes(took)}.${beside}`;
}

function Card({ entry }: { entry: Entry }) {
  const problem = errorWords(entry);
  const last = entry.last;
  return (
    <li class="card">
      <div class="cardhead">
        <h2>
          <a href={to("answer", entry.queryId)}>
            <bdi>{entry.name}</bdi>
          </a>
        </h2>
        <span class="count">{counted(entry.rows, "row")}</span>
      </div>
      <p class="sql" dir="auto">
        {entry.statement}
      </p>
      <p class="meta">
        <Certainty entry={entry} /> <Age entry={entry} />
      </p>
      {last !== null && (
        <p class="meta quiet">
          {last.came + last.gone === 0 ? "Nothing new" : `${number(last.came)} came, ${number(last.gone)} left`} for{" "}
          {bytes(last.sent + last.received)}
          {last.full > last.received ? `; a full answer takes about ${bytes(last.full)}` : ""}
        </p>
      )}
      {problem !== "" && <p class="meta badtext">{problem}</p>}
      {problem === "" && last !== null && resetWords(last.reset) !== "" && <p class="meta">{resetWords(last.reset)}</p>}
    </li>
  );
}

function Nothing() {
  return (
    <Empty title="Nothing is kept on this device yet">
      <p>
        A query that you keep has its answer here, also without a connection. A recharge brings what has changed, and no
        more.
      </p>
      <p class="row">
        <a class="button main" href={to("new")}>
          New query
        </a>
        <a class="button" href={to("console")}>
          Queries of the service
        </a>
      </p>
      {connection.value === "lost" && <p class="quiet">The service cannot be reached right now.</p>}
      <p class="quiet">
        Had you kept some? Browsers clear what pages keep, after weeks without a visit, say. The queries stand at the
        service: keep them again from there.
      </p>
    </Empty>
  );
}
