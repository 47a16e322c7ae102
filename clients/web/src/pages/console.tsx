/** The console: what queries cost, how streams do, and what the service is. */
import { Choice, Head } from "../parts/basics";
import { place, route } from "../state";
import { Queries } from "./console_queries";
import { Service } from "./console_service";
import { Streams } from "./console_streams";

export function Console() {
  const tab = route.value.query.get("tab") ?? "queries";
  return (
    <>
      <Head title="Console" />
      <div class="tools">
        <Choice
          label="Show"
          value={tab}
          options={[
            ["queries", "Queries"],
            ["streams", "Streams"],
            ["service", "Service"],
          ]}
          onChange={(next) => place({ tab: next === "queries" ? "" : next })}
        />
      </div>
      {tab === "streams" ? <Streams /> : tab === "service" ? <Service /> : <Queries />}
    </>
  );
}
