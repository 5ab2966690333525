// Where a viewer gives a token of the cluster. It is kept in this tab alone, and sent with each request.
import { h } from "preact";
import { bearer, logIn, namespace } from "../server.js";

export function Login({ problem }) {
  const onSubmit = (event) => {
    event.preventDefault();
    const { token, where } = event.target.elements;
    if (token.value.trim()) logIn(token.value.trim(), where.value.trim());
  };
  return (
    <main id="main">
      <div class="hero">
        <h1>Log in to the cluster</h1>
        <p role="status">{bearer ? `${problem[0].toUpperCase()}${problem.slice(1)}.` : "You see what your token may see. It stays in this tab."}</p>
      </div>
      <form class="panel login" onSubmit={onSubmit}>
        <label for="token">Token</label>
        <input id="token" name="token" type="password" autocomplete="off" required />
        <label for="where">Namespace</label>
        <input id="where" name="where" placeholder="all that you may list" value={namespace || ""} autocomplete="off" />
        <button class="button" type="submit">
          Log in
        </button>
        <p class="dim small">
          <code>kubectl create token ACCOUNT -n NAMESPACE</code> prints the token of a service account.
        </p>
      </form>
    </main>
  );
}

// Only where a token was given here.
export function LogOut() {
  if (!bearer) return null;
  return (
    <button class="button" onClick={() => logIn("", namespace || "")}>
      Log out
    </button>
  );
}
