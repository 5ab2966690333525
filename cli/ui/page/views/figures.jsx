// The sentence of state, with cause and last words, and the six figures.
import { h } from "preact";
import { median, sentence } from "../model.js";
import { brief, count, lastLine, placeOf, several, short } from "../text.js";

export function Hero({ view, figure, list }) {
  const said = sentence(view, figure, list);
  const last = list[list.length - 1];
  const words = wordsOf(view, last);
  const queue = queueOf(view);
  return (
    <div class="hero">
      <h1>
        <em class={said.tone}>{said.state}</em>
        {said.rest}
      </h1>
      <p>
        <Past view={view} list={list} last={last} />
        {queue ? <span>{` ${queue}`}</span> : null}
      </p>
      {words ? (
        <p class="words">
          last line of stderr: <code>{words}</code>
        </p>
      ) : null}
    </div>
  );
}

// What the page does not show, and why.
export function Notes({ notes }) {
  if (!notes || !notes.length) return null;
  return (
    <ul class="panel notes" aria-live="polite" aria-label="What is not shown">
      {notes.map((note) => (
        <li key={note}>{note}</li>
      ))}
    </ul>
  );
}

// Where a job waits that has a place in a queue.
function queueOf({ queue, live }) {
  const place = queue && live ? placeOf(queue) : "";
  return place && `It waits in queue ${queue.name}, ${place}.`;
}

// The last line on the standard error of what failed last.
function wordsOf({ status }, last) {
  const failure = status.state === "Failed" && status.lastFailure;
  return lastLine((failure && failure.stderr) || "") || (last ? last.stderr : "");
}

function Past({ view, list, last }) {
  if (!last) return <span>{view.live ? "No failure so far." : "No failure."}</span>;
  const { reason, state } = view.status;
  if (view.live && state !== "Running") {
    const so = reason || "all ranks start again";
    return <span>{`${so[0].toUpperCase()}${so.slice(1)}.`}</span>;
  }
  const steps = last.redoneSteps == null ? "" : `, ${several(last.redoneSteps, "step")} done again`;
  const when = view.live ? `Restarted ${list.length === 1 ? "once" : `${list.length} times`}, last ${brief(Math.max(1, Math.round(view.now - last.at)))} ago: ` : "The last restart: ";
  return (
    <span>
      {when}
      <strong>{last.cause}</strong>
      {last.back == null ? "." : "; all ranks ran again after "}
      {last.back == null ? null : <strong>{brief(last.back)}</strong>}
      {last.back == null ? null : `${steps}.`}
    </span>
  );
}

export function Figures({ view, figure, list }) {
  const { step, total, rate, loss, tokens } = figure;
  const { ledger } = view.status;
  const middle = median(list.map((restart) => restart.back));
  const share = total ? (100 * step) / total : null;
  return (
    <dl class="panel figures" aria-label="Figures">
      <Figure name="progress" value={share == null ? count(step) : `${share.toFixed(1)}%`} more={share == null ? "steps" : `${count(step)} / ${count(total)}`}>
        <div class="meter">
          <i style={{ width: `${share || 0}%` }} />
        </div>
      </Figure>
      <Figure name="loss" value={short(loss)} />
      <Figure name="steps/s" value={short(rate)} more={rate ? `${brief(1 / rate)} each` : ""} />
      <Figure name="tokens/s" value={short(tokens)} />
      <Figure name="productive time" value={(ledger && ledger.goodput) || "–"} more={ledger ? `of ${brief((view.job.machines * (ledger.elapsedMilliseconds || 0)) / 1e3)}` : ""} />
      <Figure name="restarts" value={count(Math.max(list.length, (view.status.restarts || {}).total || 0))} more={middle == null ? "" : `median ${brief(middle)}`} />
    </dl>
  );
}

function Figure({ name, value, more, children }) {
  return (
    <div class="figure">
      <dt>{name}</dt>
      <dd>
        {value} <small>{more}</small>
        {children}
      </dd>
    </div>
  );
}
