/** My queries: the copies on this device, their age, and an update of all of them. */
import { useState } from "preact/hooks";
import { connection } from "../api/call";
import { bytes, counted, resetWords } from "../format";
import { Age, Certainty, errorWords } from "../parts/certainty";
import { Empty, Head, sure } from "../parts/basics";
import { kept, to } from "../state";
import { cameAndLeft, rechargeAndSay } from "../store/recharging";
import { Statement } from "../parts/statement";
import { type Entry, type Recharged, recharging, store } from "../store/copies";

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
            {recharging.value > 0 ? "Updating…" : "Update"}
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
            onClick={() =>
              sure("Remove all copies from this device? The queries stay at the service.") && store.forgetAll()
            }
          >
            Remove everything from this device
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
    told.full > 0 ? ` All answers in full would have taken about ${bytes(Math.max(told.full, told.received))}.` : "";
  return `${here} The update took ${bytes(took)}.${beside}`;
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
      <Statement text={entry.statement} />
      <p class="meta">
        <Certainty entry={entry} /> <Age entry={entry} />
      </p>
      {last !== null && (
        <p class="meta quiet">
          Last update: {last.came + last.gone === 0 ? "nothing new" : cameAndLeft(last.came, last.gone)},{" "}
          {bytes(last.sent + last.received)}
          {last.full > last.received ? ` of about ${bytes(last.full)} for the whole answer` : ""}
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
        Keep a query, and its answer is here, also without a connection. An update transfers only the rows that have
        changed.
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
        Did you keep some before? A browser may clear the storage of a page, after weeks without a visit for instance.
        The queries are still at the service: keep them again from the console.
      </p>
    </Empty>
  );
}
