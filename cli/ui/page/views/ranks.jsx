// Work and wait of each rank: the straggler hardly waits.
import { h } from "preact";
import { loads } from "../model.js";
import { brief, several } from "../text.js";

const kShown = 16;

export function Ranks({ view, choose }) {
  const rows = loads(view.ranks);
  const many = rows.length > kShown;
  // Of many ranks, those that wait least: the last to come.
  const shown = many ? [...rows].sort((a, b) => a.wait - b.wait).slice(0, kShown) : rows;
  const most = shown.reduce((longest, row) => Math.max(longest, row.step), 1e-9);
  const slow = rows.filter((row) => row.slow);
  return (
    <section class="panel" aria-labelledby="loads">
      <div class="head">
        <h2 id="loads">Step time by {view.ranks.by}</h2>
        <span class="dim small">{many ? `the ${kShown} that wait least` : ""}</span>
        <div class="legend right">
          <span>
            <i class="key" style={{ background: "var(--productive)" }} />
            work
          </span>
          <span>
            <i class="key" style={{ background: "var(--wait)" }} />
            waits for others
          </span>
        </div>
      </div>
      <div class="body">
        {rows.length ? (
          <div class="ranks" role="group" aria-label={slow.length ? `${several(slow.length, view.ranks.by)} hardly waits: ${slow.slice(0, 8).map((row) => row.number).join(", ")}` : "No rank stands out"}>
            {[].concat(...shown.map((row) => bar(row, most, view, choose)))}
          </div>
        ) : (
          <p class="none">{view.live ? "No rank reports how long it waits (collective_wait_seconds) yet." : "No rank reported how long it waited."}</p>
        )}
        <Straggler view={view} slow={slow} />
      </div>
    </section>
  );
}

function bar({ number, step, wait, slow }, most, view, choose) {
  const work = Math.max(0, step - wait);
  const byMachine = view.ranks.by === "machine";
  const name = `${byMachine ? "machine" : "rank"} ${number}`;
  const first = byMachine ? number * view.job.processes : number;
  return [
    <span key={`n${number}`} class={slow ? "name slow" : "name"} onClick={() => choose(first)}>{`${byMachine ? "m" : "r"}${number}`}</span>,
    <div key={`b${number}`} class="track" onClick={() => choose(first)} title={`${name}: ${brief(step / 1e3)} a step, waits ${brief(wait / 1e3)}`}>
      <i class={slow ? "slow" : ""} style={{ width: `${(100 * work) / most}%` }} />
      <i class="waits" style={{ width: `${(100 * wait) / most}%` }} />
    </div>,
    <span key={`t${number}`} class="dim">{`${Math.round(work)} + ${Math.round(wait)} ms`}</span>,
  ];
}

function Straggler({ view, slow }) {
  const { straggler } = view;
  if (!straggler) return null;
  return (
    <p class="straggler">
      <b class="bad">{`Straggler: machine ${straggler.machine}`}</b>
      {slow.length === 1 && view.ranks.by === "rank" ? ` (rank ${slow[0].number})` : ""}
      {`. The others wait ${Math.round((straggler.cost || 0) * 100)}% of each step for it${straggler.because ? `; ${straggler.because}` : ""}.`}
    </p>
  );
}
