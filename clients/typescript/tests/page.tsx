/** A page on another host than the service: what a test in a browser drives. `?service=URL&token=…&key=…` */
import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";
import { createClient } from "../src/index.js";
import { useQuery } from "../src/react.js";

const parameters = new URLSearchParams(location.search);
const client = createClient({ url: parameters.get("service")!, token: () => parameters.get("token")! });

type Sale = { n: number; shop: string };

function Sales({ name, question }: { name: string; question: Parameters<typeof useQuery>[1] }) {
  const { rows, complete, error, loading, state } = useQuery<Sale>(client, question);
  if (error) return <p id={name}>{`${(error as { code?: string }).code}: ${error.message}`}</p>;
  return (
    <p id={name} data-state={state}>
      {loading ? "loading" : `${complete ? "all" : "some"} ${rows.map(({ n, shop }) => `${n} ${shop}`).join(", ")}`}
    </p>
  );
}

function Page() {
  const [shown, show] = useState(true);
  return (
    <>
      <button onClick={() => show(!shown)}>show or hide</button>
      {shown && <Sales name="one" question={parameters.get("key")!} />}
      <Sales name="two" question={parameters.get("key")!} />
      <Sales name="asked" question={{ sql: "SELECT n, shop FROM sales WHERE n > ? BEGIN (START)", parameters: [1] }} />
      <Sales name="wrong" question={{ sql: "SELECT m FROM sales" }} />
    </>
  );
}

createRoot(document.getElementById("page")!).render(
  <StrictMode>
    <Page />
  </StrictMode>,
);
