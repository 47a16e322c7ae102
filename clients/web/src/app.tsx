/** The frame of all pages: where one is, whether the service is reached, what is said, and the page itself. */
import { connection, hasToken, setToken, signInWanted } from "./api/call";
import { Answer } from "./pages/answer";
import { Console } from "./pages/console";
import { Mine } from "./pages/mine";
import { NewQuery } from "./pages/new";
import { Plan } from "./pages/plan";
import { SignIn } from "./pages/signin";
import { Zone } from "./parts/zone";
import { kept, newVersion, route, said, storeProblem, to } from "./state";

const PAGES: [string, string][] = [
  ["", "My queries"],
  ["new", "New query"],
  ["console", "Console"],
];

export function App() {
  const page = route.value.page;
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        To the page
      </a>
      <nav class="bar" aria-label="Pages">
        <a class="brand" href="#/" aria-label="PSoup, my queries">
          <img src="/icon.svg" alt="" width="24" height="24" />
          <span>PSoup</span>
        </a>
        <div class="links">
          {PAGES.map(([name, text]) => (
            <a key={name} href={to(name)} aria-current={page === name ? "page" : undefined}>
              {text}
            </a>
          ))}
        </div>
        <Reached />
      </nav>
      <main id="main" tabIndex={-1}>
        {newVersion.value !== null && (
          <div class="note row">
            <span>A new version of this page is available.</span>
            <button type="button" onClick={takeOver}>
              Use it
            </button>
          </div>
        )}
        {storeProblem.value !== "" && <div class="note">{storeProblem.value}</div>}
        {signInWanted.value && <SignIn alone={!readable(page)} />}
        {(!signInWanted.value || readable(page)) && <Page page={page} />}
        <Zone />
      </main>
      <div class={said.value === "" ? "said quiet-said" : "said"} role="status" aria-live="polite">
        {said.value}
      </div>
    </>
  );
}

/** Whether a page has something to read without the service: copies on this device. */
function readable(page: string): boolean {
  const copies = kept.value ?? [];
  if (page === "answer") return copies.some((entry) => entry.queryId === route.value.id);
  return page === "" && copies.length > 0;
}

function Page({ page }: { page: string }) {
  const id = route.value.id;
  if (page === "answer") return <Answer key={id} id={id} />;
  if (page === "plan") return <Plan key={id} id={id} />;
  if (page === "new") return <NewQuery />;
  if (page === "console") return <Console />;
  return <Mine />;
}

function Reached() {
  const lost = connection.value === "lost";
  return (
    <div class="reached">
      {hasToken() && !signInWanted.value && (
        <button type="button" class="plain" onClick={() => (setToken(""), location.reload())}>
          Sign out
        </button>
      )}
      <span class={lost ? "pill off" : "pill on"} hidden={connection.value === "unknown"}>
        {lost ? "Offline" : "Online"}
      </span>
    </div>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function takeOver(): void {
  navigator.serviceWorker.addEventListener("controllerchange", () => location.reload(), { once: true });
  newVersion.value?.postMessage("take over");
}
