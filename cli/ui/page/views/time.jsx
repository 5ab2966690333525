// The time strip: every moment of the run once; and below it each restart, on a scale of its own.
import { Component, h } from "preact";
import { KINDS, PARTS } from "../model.js";
import { brief, clock, several } from "../text.js";
import { Sized } from "./sized.jsx";

const kShownRestarts = 4;
const kLeastWidth = { detect: 1, stop: 1, spawn: 1 }; // pixels: these are milliseconds of minutes
const kTicks = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400, 604800];

export class Time extends Component {
  render({ view, segments, list, pick }, { all }) {
    const kinds = Object.keys(KINDS).filter((kind) => segments.some((segment) => segment.kind === kind));
    const shown = (all ? list : list.slice(-kShownRestarts)).slice().reverse();
    return (
      <section class="panel" aria-labelledby="time">
        <div class="head">
          <h2 id="time">Time</h2>
          <span class="dim small">{`${several(view.generations.length, "generation")} in ${brief(view.now)}`}</span>
          <Legend kinds={kinds} right />
        </div>
        <div class="body">
          <Strip view={view} segments={segments} list={list} />
          {list.length ? <Restarts shown={shown} pick={pick} /> : <p class="none">{view.live ? "No restart so far." : "No restart."}</p>}
          {list.length > kShownRestarts ? (
            <button class="link small" onClick={() => this.setState({ all: !all })}>
              {all ? `Show the last ${kShownRestarts}` : `Show all ${list.length} restarts`}
            </button>
          ) : null}
        </div>
      </section>
    );
  }
}

function Legend({ kinds, right }) {
  return (
    <div class={right ? "legend right" : "legend"}>
      {kinds.map((kind) => (
        <span key={kind}>
          <i class="key" style={{ background: `var(--${kind})` }} />
          {KINDS[kind]}
        </span>
      ))}
    </div>
  );
}

class Strip extends Sized {
  at(event) {
    const t = (event.offsetX / this.state.width) * Math.max(this.props.view.now, 1);
    const distance = (s) => Math.max(s.from - t, t - s.to, 0);
    const near = this.props.segments.reduce((best, s) => (!best || distance(s) < distance(best) ? s : best), null);
    this.setState({ tip: near && { ...near, x: event.offsetX } });
  }

  draw({ view, segments, list }, { width, tip }) {
    const span = Math.max(view.now, 1);
    const x = (t) => (t / span) * width;
    const step = kTicks.find((seconds) => x(seconds) > 74) || kTicks[kTicks.length - 1];
    const ticks = [];
    for (let t = 0; x(t) < width - 20; t += step) ticks.push(t);
    return (
      <div class="strip" onMouseLeave={() => this.setState({ tip: null })}>
        <svg role="img" aria-label={`${several(view.generations.length, "generation")} in ${brief(view.now)}. A table of the restarts follows.`} viewBox={`0 0 ${width} 46`} onMouseMove={(event) => this.at(event)}>
          <defs>
            <pattern id="again" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <rect width="6" height="6" fill="var(--redone)" />
              <rect width="2" height="6" fill="rgb(0 0 0 / 20%)" />
            </pattern>
          </defs>
          <rect x="0" y="8" width={width} height="22" fill="var(--soft)" />
          {segments.map((s) => (
            <rect x={x(s.from)} y="8" width={Math.max(x(s.to) - x(s.from), kLeastWidth[s.kind] || 0.4)} height="22" fill={s.kind === "redone" ? "url(#again)" : `var(--${s.kind})`} />
          ))}
          {list.map((restart) => (
            <path d={`M${x(restart.at)} 7l-4-6.6h8z`} fill="var(--bad)" />
          ))}
          {segments.map((s) =>
            s.kind === "productive" && x(s.to) - x(s.from) > 36 ? (
              <text class="name" x={(x(s.from) + x(s.to)) / 2} y="23" text-anchor="middle">
                {view.generations[s.index].generation}
              </text>
            ) : null,
          )}
          {ticks.map((t) => (
            <text x={x(t)} y="43" text-anchor={t ? "middle" : "start"}>
              {clock(t)}
            </text>
          ))}
        </svg>
        {tip ? <Tip tip={tip} width={width} /> : null}
      </div>
    );
  }
}

function Tip({ tip, width }) {
  const left = Math.min(Math.max(0, tip.x - 60), Math.max(0, width - 200));
  return (
    <div class="chip tip" style={{ left: `${left}px` }}>
      <i style={{ background: `var(--${tip.kind})` }} />
      {`${KINDS[tip.kind]} ${brief(tip.to - tip.from)}${tip.steps ? `, ${several(tip.steps, "step")}` : ""}`}
    </div>
  );
}

function Restarts({ shown, pick }) {
  return (
    <table class="restarts">
      <caption class="hidden">Restarts, the last one first</caption>
      <thead>
        <tr>
          <th class="at">at</th>
          <th class="cause">cause</th>
          <th>from the failure to the next new step</th>
          <th class="total">ranks back</th>
        </tr>
      </thead>
      <tbody>
        {shown.map((restart) => (
          <tr key={restart.generation}>
            <td class="at">
              <button class="link" title="Show the log around it" onClick={() => pick(restart)}>
                {clock(restart.at)}
              </button>
            </td>
            <td class="cause" title={restart.stderr}>
              {restart.cause}
              <span class="dim">{`${restart.redoneSteps ? `, ${several(restart.redoneSteps, "step")} redone` : ""}${restart.warm ? ", warm" : ""}`}</span>
            </td>
            <td class="anatomy">
              <Anatomy parts={restart.parts} />
            </td>
            <td class="total">{restart.back == null ? "…" : brief(restart.back)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

// Bars on this restart's own scale, and each figure printed: 66 ms beside 30 s shows nothing otherwise.
function Anatomy({ parts }) {
  const known = PARTS.filter((part) => parts[part] > 0);
  const all = known.reduce((sum, part) => sum + parts[part], 0) || 1;
  return (
    <div>
      <div class="parts" aria-hidden="true">
        {known.map((part) => (
          <i key={part} style={{ flex: `${Math.max(parts[part] / all, 0.004)} 1 0`, background: `var(--${part})` }} />
        ))}
      </div>
      <div class="legend">
        {known.map((part) => (
          <span key={part}>
            <i class="key" style={{ background: `var(--${part})` }} />
            {`${KINDS[part]} `}
            <b>{brief(parts[part])}</b>
          </span>
        ))}
      </div>
    </div>
  );
}
