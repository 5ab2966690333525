// The jobs of a cluster: one row each, those that need somebody first. A click opens a job.
import { Component, h } from "preact";
import { pageOf } from "../server.js";
import { brief, count, placeOf, several } from "../text.js";
import { Notes } from "./figures.jsx";

// What a state means for the reader: its tone, and its place in the table.
const STATES = {
  Failed: ["bad", 0],
  Restarting: ["warn", 1],
  Stopping: ["warn", 2],
  Pending: ["warn", 3],
  Starting: ["warn", 3],
  Queued: ["warn", 4],
  Running: ["good", 5],
  Suspended: ["dim", 6],
  Succeeded: ["dim", 7],
};
const UNREADABLE = ["bad", 0];

export class Fleet extends Component {
  render({ view }, { find }) {
    const has = (job) => !find || [job.namespace, job.name, job.state, job.reason, job.queue].some((text) => (text || "").toLowerCase().includes(find.toLowerCase()));
    const place = (job) => (STATES[job.state] || UNREADABLE)[1];
    const jobs = view.fleet.filter(has).sort((a, b) => place(a) - place(b) || (a.created < b.created ? 1 : -1));
    const running = view.fleet.filter((job) => job.state === "Running").length;
    return (
      <main id="main">
        <div class="hero">
          <h1>
            {several(view.fleet.length, "job")}, {count(running)} running
          </h1>
        </div>
        <Notes notes={view.notes} />
        <section class="panel" aria-label="Jobs">
          <div class="tools">
            <input id="find" type="search" placeholder="Search (/)" aria-label="Search jobs" value={find || ""} onInput={(event) => this.setState({ find: event.target.value })} />
            <span class="right">{several(jobs.length, "job")}</span>
          </div>
          <div class="body scroll fleet" tabIndex="0" role="group" aria-label="Jobs">
            {jobs.length ? <Table jobs={jobs} at={view.at} /> : <p class="none">{view.fleet.length ? "No job matches." : "There is no TrainingJob that you may see."}</p>}
          </div>
        </section>
      </main>
    );
  }
}

function Table({ jobs, at }) {
  return (
    <table class="list">
      <thead>
        <tr>
          <th>job</th>
          <th>namespace</th>
          <th>state</th>
          <th>reason</th>
          <th class="number">progress</th>
          <th class="number">ready</th>
          <th>queue</th>
          <th class="number">restarts</th>
          <th class="number">productive</th>
          <th class="number">time lost</th>
          <th class="number">age</th>
        </tr>
      </thead>
      <tbody>
        {jobs.map((job) => (
          <Row key={`${job.namespace}/${job.name}`} job={job} at={at} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ job, at }) {
  const [tone] = STATES[job.state] || UNREADABLE;
  return (
    <tr>
      <td>
        <a class="link" href={pageOf(`${job.namespace}/${job.name}`)}>
          {job.name}
        </a>
      </td>
      <td>{job.namespace}</td>
      <td class={tone}>{stateOf(job)}</td>
      <td class="wrap dim">{job.problem || job.reason}</td>
      <td class="number">{progressOf(job)}</td>
      <td class="number">{job.ready || "–"}</td>
      <td>{[job.queue, placeOf(job)].filter(Boolean).join(", ")}</td>
      <td class="number">{count(job.restarts)}</td>
      <td class="number">{job.productive || "–"}</td>
      <td class="number">{brief(job.lostSeconds)}</td>
      <td class="number">{brief(Math.max(0, (Date.parse(at) - Date.parse(job.created)) / 1e3))}</td>
    </tr>
  );
}

function stateOf(job) {
  if (job.deleted) return "being deleted";
  return (job.state || "unreadable") + (job.kept ? ", deleted" : "");
}

function progressOf({ step, totalSteps }) {
  if (!step) return "–";
  return totalSteps ? `${((100 * step) / totalSteps).toFixed(1)}%` : `step ${count(step)}`;
}
