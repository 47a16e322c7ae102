/** Begins the application. */
import { render } from "preact";
import { beginHealth } from "./api/health";
import { App } from "./app";
import "./app.css";
import { begin, newVersion } from "./state";

begin();
beginHealth();
render(<App />, document.getElementById("app")!);

if ("serviceWorker" in navigator) {
  void navigator.serviceWorker.register("/sw.js").then(
    (registration) => {
      const offer = (): void => {
        if (registration.waiting !== null && navigator.serviceWorker.controller !== null)
          newVersion.value = registration.waiting;
      };
      offer();
      registration.addEventListener("updatefound", () =>
        registration.installing?.addEventListener("statechange", offer),
      );
    },
    () => undefined,
  );
}
