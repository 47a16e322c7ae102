/** Asks for an access token, which is kept as long as this tab is open, and in no other place. */
import { useState } from "preact/hooks";
import { setToken } from "../api/call";

export function SignIn() {
  const [token, change] = useState("");
  const submit = (event: Event): void => {
    event.preventDefault();
    if (token.trim() === "") return;
    setToken(token.trim());
    location.reload();
  };
  return (
    <form class="card signin" onSubmit={submit}>
      <h2>Sign in</h2>
      <p class="quiet">This service wants an access token. It is kept until this tab is closed, and only here.</p>
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
