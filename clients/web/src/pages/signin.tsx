/** Asks for an access token, which is kept as long as this tab is open, and in no other place. */
import { useState } from "preact/hooks";
import { hasToken, setToken } from "../api/call";
import { Head } from "../parts/basics";

/** `alone`: there is nothing else on the page. */
export function SignIn({ alone }: { alone: boolean }) {
  const [token, change] = useState("");
  const submit = (event: Event): void => {
    event.preventDefault();
    if (token.trim() === "") return;
    setToken(token.trim());
    location.reload();
  };
  return (
    <form class="card signin" onSubmit={submit}>
      {alone ? <Head title="Sign in" /> : <h2>Sign in</h2>}
      {hasToken() ? (
        <p class="badtext" role="alert">
          The service does not accept this token. It may be mistyped, expired or revoked.
        </p>
      ) : (
        <p>This service needs an access token. The operator of the service issues tokens.</p>
      )}
      <p class="quiet">The token is stored only in this tab, until you close it.</p>
      <label for="token">Access token</label>
      <div class="row">
        <input
          id="token"
          type="password"
          autoComplete="off"
          spellcheck={false}
          value={token}
          onInput={(event) => change(event.currentTarget.value)}
        />
        <button type="submit" class="main">
          Sign in
        </button>
      </div>
    </form>
  );
}
