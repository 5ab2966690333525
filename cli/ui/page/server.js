// Where the page's data comes from: the server that sent the page, or the page itself if it was saved.

import { merge } from "./view.js";

const element = document.getElementById("saved");
const text = element.textContent.trim();

// The view in a page that `lockstep ui --html` wrote; null: a server answers.
export const saved = text ? JSON.parse(text) : null;

// Tells the server which page asks, so that an ending run waits for this one.
const kId = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(36)).join("");
const kPause = 80; // milliseconds between two polls, so that a fast gang costs little
const kHiddenPause = 2000;
const kLongestPause = 8000;

const kBearer = "bearer"; // where a token of the cluster is kept, for this tab alone

const key = saved ? "" : takeToken();
// What this viewer has logged in with; a proxy in front may send another one.
export const bearer = key || saved ? "" : sessionStorage.getItem(kBearer) || "";
const token = key || bearer;
const query = new URLSearchParams(location.search);
// Of a page of many jobs: "NAMESPACE/NAME" of the one that is shown; null: the table of all.
export const job = query.get("job");
export const namespace = query.get("namespace");

function queryOf(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value);
  return given.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
}

// The address of a job's page, or of the table; with the server's own key, for a new tab.
export function pageOf(name) {
  const given = queryOf({ job: name, namespace });
  return `${location.pathname}${given && `?${given}`}${key && `#${key}`}`;
}

// Begins anew with a token of the cluster; "" forgets it.
export function logIn(given, where) {
  if (given) sessionStorage.setItem(kBearer, given);
  else sessionStorage.removeItem(kBearer);
  if (where === (namespace || "")) return location.reload();
  const next = queryOf({ job, namespace: where });
  return location.assign(`${location.pathname}${next && `?${next}`}`);
}

// The token comes in the fragment, which browsers send to nobody. It leaves the address at once, and
// stays in this tab for a reload.
function takeToken() {
  const given = location.hash.slice(1);
  if (!given) return sessionStorage.getItem("token") || "";
  sessionStorage.setItem("token", given);
  history.replaceState(null, "", location.pathname + location.search);
  return given;
}

// A relative path, so that the page works below any path of a proxy.
export async function ask(path, options = {}) {
  const whose = queryOf({ job, namespace });
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path + (whose && (path.includes("?") ? "&" : "?") + whose), { headers, ...options }).catch((error) => {
    throw error.name === "AbortError" ? error : new Error("lockstep has ended, or can't be reached");
  });
  if (answer.ok) return answer;
  let said = {};
  try {
    said = await answer.json();
  } catch {
    // A proxy between answers in its own way.
  }
  if (answer.status === 401 && !said.login) throw new Error("Open the address that lockstep printed: it holds the key");
  const error = new Error(said.error || `lockstep answered with code ${answer.status}`);
  error.login = Boolean(said.login);
  throw error;
}

export async function askJson(path, options) {
  return (await ask(path, options)).json();
}

// Calls onView(view) for each change and onLost(error) while no answer comes; error.login: until somebody
// logs in. Returns what ends it.
export function follow(onView, onLost) {
  if (saved) {
    onView(merge(null, saved));
    return () => {};
  }
  const end = new AbortController();
  (async () => {
    let after = 0;
    let view = null;
    let pause = kPause;
    while (!end.signal.aborted) {
      try {
        const answer = await askJson(`api/view?after=${after}&id=${kId}`, { signal: end.signal });
        view = merge(after ? view : null, answer);
        after = answer.version;
        pause = kPause;
        onView(view);
        if (!view.live) return;
        await sleep(document.hidden ? kHiddenPause : kPause);
      } catch (error) {
        if (end.signal.aborted) return;
        onLost(error);
        if (error.login) return;
        pause = Math.min(kLongestPause, pause * 2);
        await sleep(pause);
      }
    }
  })();
  return () => end.abort();
}

export function sleep(milliseconds) {
  return new Promise((done) => setTimeout(done, milliseconds));
}
