/** The zone of the times on a page, with a switch between the reader's own and UTC. */
import { HERE, inUtc, showUtc, zone } from "../zone";

export function Zone() {
  return (
    <footer class="zone quiet small">
      <span>Times are in {zone()}.</span>
      {HERE !== "UTC" && (
        <button type="button" class="plain" onClick={() => showUtc(!inUtc.value)}>
          {inUtc.value ? `Show ${HERE}` : "Show UTC"}
        </button>
      )}
    </footer>
  );
}
