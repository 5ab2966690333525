// Curves of any reported figure over the time of the run; a dashed line is a restart.
import { h } from "preact";
import { clock, short } from "../text.js";
import { clamp, present } from "../model.js";
import { Sized } from "./sized.jsx";

const NAMES = {
  loss: "loss",
  tokensPerSecond: "tokens/s",
  step: "step",
  stepsPerSecond: "steps/s",
  teraflops: "TFLOP/s",
  mfu: "MFU",
  scalingEfficiency: "scaling efficiency",
};
const kHeight = 272;
const [kLeft, kTop, kBottom] = [46, 8, 20];
const kTicks = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400, 604800];

export class Curves extends Sized {
  names() {
    const { series } = this.props.view;
    return Object.keys(series).filter((name) => name !== "t" && present(series[name]).length);
  }

  shown() {
    const names = this.names();
    const preferred = this.state.of || "loss";
    return names.includes(preferred) ? preferred : names[0];
  }

  shouldComponentUpdate(props, state) {
    const [view, old] = [props.view, this.props.view];
    return view.series !== old.series || props.list.length !== this.props.list.length || state !== this.state;
  }

  render(props, state) {
    const of = this.shown();
    const { t } = props.view.series;
    const values = of ? props.view.series[of] : [];
    const at = state.at == null ? t.length - 1 : Math.min(state.at, t.length - 1);
    return (
      <section class="panel" aria-labelledby="curves">
        <div class="head">
          <h2 id="curves">Curves</h2>
          <span class="dim small" aria-live={state.at == null ? "off" : "polite"}>
            {of && at >= 0 ? `${clock(t[at])}: ${NAMES[of] || of} ${short(values[at])}` : ""}
          </span>
          <label class="right">
            <span class="hidden">figure</span>
            <select value={of} onChange={(event) => this.setState({ of: event.target.value })}>
              {this.names().map((name) => (
                <option value={name}>{NAMES[name] || name}</option>
              ))}
            </select>
          </label>
        </div>
        <div class="body">{of ? super.render(props, state) : <div ref={this.hold} class="none">No rank has reported a figure yet.</div>}</div>
      </section>
    );
  }

  draw({ view, list }, { width, at }) {
    const { t } = view.series;
    const of = this.shown();
    const values = view.series[of];
    const [low, high, step] = scaleOf(present(values), 5);
    const from = t[0];
    const span = Math.max(t[t.length - 1] - from, 1e-3);
    const x = (time) => kLeft + ((time - from) / span) * (width - kLeft - 6);
    const y = (value) => kTop + (1 - (value - low) / (high - low)) * (kHeight - kTop - kBottom);
    const rows = [];
    for (let value = low; value <= high + step / 2; value += step) rows.push(value);
    const every = kTicks.find((seconds) => (seconds / span) * width > 70) || kTicks[kTicks.length - 1];
    const columns = [];
    for (let time = Math.ceil(from / every) * every; time <= from + span; time += every) columns.push(time);
    const cuts = list.map((restart) => restart.at).filter((time) => time > from && time < from + span);
    const runs = linesOf(view.series, values, cuts);
    const label = `${NAMES[of] || of} over time, now ${short(present(values).pop())}. Arrow keys move along it.`;
    return (
      <div class="curve">
        <svg height={kHeight} viewBox={`0 0 ${width} ${kHeight}`} tabIndex="0" role="img" aria-label={label} onMouseMove={(event) => this.move(event, x)} onMouseLeave={() => this.setState({ at: null })} onKeyDown={(event) => this.onKey(event)}>
          {rows.map((value) => (
            <g>
              <path d={`M${kLeft} ${y(value)}H${width - 6}`} stroke="var(--line)" />
              <text x={kLeft - 7} y={y(value) + 4} text-anchor="end">
                {short(Math.abs(value) < step / 1e3 ? 0 : value)}
              </text>
            </g>
          ))}
          {columns.map((time) =>
            x(time) < width - 22 ? (
              <text x={x(time)} y={kHeight - 4} text-anchor="middle">
                {clock(time)}
              </text>
            ) : null,
          )}
          {cuts.map((time) => (
            <path d={`M${x(time)} ${kTop}V${kHeight - kBottom}`} stroke="var(--bad)" stroke-dasharray="4 4" opacity=".75" />
          ))}
          {runs.map((run) => {
            const line = run.map((i) => `${x(t[i]).toFixed(1)} ${y(values[i]).toFixed(1)}`).join("L");
            return (
              <g>
                <path d={`M${line}L${x(t[run[run.length - 1]])} ${y(low)}L${x(t[run[0]])} ${y(low)}Z`} fill="var(--productive)" opacity=".1" />
                <path d={`M${line}`} fill="none" stroke="var(--productive)" stroke-width="1.8" stroke-linejoin="round" stroke-linecap="round" />
              </g>
            );
          })}
          {at != null && values[at] != null ? (
            <g>
              <path d={`M${x(t[at])} ${kTop}V${kHeight - kBottom}`} stroke="var(--dim)" opacity=".6" />
              <circle cx={x(t[at])} cy={y(values[at])} r="3.5" fill="var(--productive)" stroke="var(--panel)" stroke-width="1.5" />
            </g>
          ) : null}
        </svg>
      </div>
    );
  }

  move(event, x) {
    const { t } = this.props.view.series;
    const left = event.clientX - event.currentTarget.getBoundingClientRect().left;
    // The points are in the order of time.
    let [low, high] = [0, t.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (x(t[middle]) < left) low = middle;
      else high = middle;
    }
    this.setState({ at: left - x(t[low]) < x(t[high]) - left ? low : high });
  }

  onKey(event) {
    const last = this.props.view.series.t.length - 1;
    const at = this.state.at ?? last;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, PageUp: at - 20, PageDown: at + 20, Home: 0, End: last }[event.key];
    if (to == null) return;
    event.preventDefault();
    this.setState({ at: clamp(to, 0, last) });
  }
}

// [low, high, step] of an axis: about `parts` round steps around all values.
function scaleOf(values, parts) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (!(high > low)) [low, high] = [low - Math.abs(low || 1) / 2, low + Math.abs(low || 1) / 2];
  const rough = (high - low) / parts;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * [1, 2, 5, 10].find((factor) => factor * size >= rough);
  return [Math.floor(low / step) * step, Math.ceil(high / step) * step, step];
}

// Runs of indices that a line joins: missing values, restarts and steps done again cut it.
function linesOf({ t, step }, values, cuts) {
  const runs = [];
  let run = null;
  let cut = 0;
  for (let i = 0; i < t.length; i += 1) {
    while (cut < cuts.length && cuts[cut] <= t[i]) {
      run = null;
      cut += 1;
    }
    if (i > 0 && step[i] < step[i - 1]) run = null;
    if (values[i] == null) run = null;
    else if (run) run.push(i);
    else runs.push((run = [i]));
  }
  return runs;
}
