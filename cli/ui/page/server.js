// Where the page's data comes from: the server that sent the page, or the page itself if it was saved.

import { merge } from "./view.js";

const element = document.getElementById("saved");
const text = element.textContent.trim();

// The view in a page that `lockstep ui --html` wrote; null: a server answers.
export const saved = text ? JSON.parse(text) : null;

// Tells the server which page asks, so that an ending run waits for this one.
const kId = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(36)).join("");
const kPause = 200; // milliseconds between two polls, so that a fast gang costs little
const kHiddenPause = 2000;
const kLongestPause = 8000;

const token = saved ? "" : takeToken();
// Of a page of many jobs: "NAMESPACE/NAME" of the one that is shown; null: the table of all.
export const job = new URLSearchParams(location.search).get("job");

// The address of a job's page, or of the table; with the token, for a new tab.
export function pageOf(name) {
  return `${location.pathname}${name ? `?job=${encodeURIComponent(name)}` : ""}#${token}`;
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
  const whose = job ? `${path.includes("?") ? "&" : "?"}job=${encodeURIComponent(job)}` : "";
  const answer = await fetch(path + whose, { headers: { Authorization: `Bearer ${token}` }, ...options }).catch((error) => {
    throw error.name === "AbortError" ? error : new Error("lockstep has ended, or can't be reached");
  });
  if (answer.ok) return answer;
  if (answer.status === 401) throw new Error("Open the address that lockstep printed: it holds the key");
  let said = "";
  try {
    said = (await answer.json()).error;
  } catch {
    // A proxy between answers in its own way.
  }
  throw new Error(said || `lockstep answered with code ${answer.status}`);
}

export async function askJson(path, options) {
  return (await ask(path, options)).json();
}

// Calls onView(view) for each change and onLost(sentence) while no answer comes. Returns what ends it.
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
        onLost(error.message);
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
