// Machines × ranks on one canvas, which redraws only if what it shows changed: 32,768 cells take a
// tenth of a second in software. Arrow keys choose a rank, and a live region says it.
import { h } from "preact";
import { brief, count, short } from "../text.js";
import { clamp } from "../model.js";
import { Sized } from "./sized.jsx";

// Colours by what a machine does; the names are those of the gang and of the status.
const STATES = {
  Running: "productive",
  Finished: "productive",
  Succeeded: "productive",
  Starting: "startup",
  Stopping: "stop",
  Stopped: "stop",
  Draining: "stop",
  Lost: "detect",
  Failed: "detect",
};

const COLOURS = {
  state: "state",
  stepMs: "step time, ms",
  waitMs: "wait, ms",
  loss: "loss",
  tokensPerSecond: "tokens/s",
};

// Above either, a row of the page holds many machines, each a column of its ranks.
const kManyMachines = 18;
const kManyRanks = 256;
const kHeight = 236;
const kManyHeight = 420;
const kGap = 4; // between rows of machines

export class Grid extends Sized {
  constructor(props) {
    super(props);
    this.state = { ...this.state, by: "state" };
  }

  shouldComponentUpdate(props, state) {
    const same = ["ranks", "machines", "straggler"].every((name) => props.view[name] === this.props.view[name]);
    return !same || props.chosen !== this.props.chosen || props.theme !== this.props.theme || state !== this.state;
  }

  componentDidMount() {
    super.componentDidMount();
    this.paint();
  }

  componentDidUpdate() {
    this.paint();
  }

  layout(width) {
    const { machines, processes } = this.props.view.job;
    if (machines <= kManyMachines && machines * processes <= kManyRanks) {
      const label = 34;
      const tall = clamp(kHeight / machines, 13, 58);
      const wide = (width - label) / processes;
      return { many: false, wide, tall, height: tall * machines, place: (m, p) => [label + p * wide, m * tall] };
    }
    let side = 24;
    const columns = () => Math.max(1, Math.floor(width / side));
    const height = () => Math.ceil(machines / columns()) * (processes * side + kGap);
    while (side > 1.2 && height() > kManyHeight) side -= 0.1;
    const across = columns();
    const wide = width / across;
    const block = processes * side + kGap;
    return { many: true, wide, tall: side, across, block, height: height(), place: (m, p) => [(m % across) * wide, Math.floor(m / across) * block + p * side] };
  }

  paint() {
    if (!this.canvas || !this.state.width) return;
    const started = performance.now();
    const { view, chosen } = this.props;
    const { machines, processes } = view.job;
    const layout = this.layout(this.state.width);
    const scale = devicePixelRatio || 1;
    this.canvas.width = Math.round(this.state.width * scale);
    this.canvas.height = Math.round(layout.height * scale);
    this.canvas.style.height = `${layout.height}px`;
    const pen = this.canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.textBaseline = "middle";
    const color = colors();
    const shade = this.state.by === "state" ? null : shades(view.ranks[this.state.by], this.state.by, color, layout);
    for (let m = 0; m < machines; m += 1) {
      const state = (view.machines[m] || {}).state || "Absent";
      if (!layout.many) this.paintLabel(pen, color, layout, m);
      for (let p = 0; p < processes; p += 1) {
        const rank = m * processes + p;
        const row = view.rowOf(rank);
        const [x, y] = layout.place(m, p);
        const [fill, text] = shade ? shade(row) : [color[STATES[state] || "wait"], layout.many ? "" : row == null ? state : count(view.ranks.step[row])];
        paintCell(pen, layout, x, y, fill);
        if (!layout.many) paintText(pen, layout, x, y, `r${rank}`, text, shade ? color.ink : STATES[state] ? color.on : color["on-pale"]);
      }
    }
    const late = view.straggler ? view.straggler.machine : -1;
    if (layout.many && late >= 0) {
      const [x, y] = layout.place(late, 0);
      outline(pen, color.bad, x - 1, y - 1, layout.wide + 2, processes * layout.tall + 2);
    }
    if (chosen != null) {
      const [x, y] = layout.place(Math.floor(chosen / processes), chosen % processes);
      outline(pen, color.ink, x + 0.5, y + 0.5, Math.max(layout.wide - 1, 2), Math.max(layout.tall - 1, 2));
    }
    this.canvas.dataset.milliseconds = (performance.now() - started).toFixed(1);
  }

  paintLabel(pen, color, { tall }, m) {
    const { straggler } = this.props.view;
    const late = straggler && straggler.machine === m;
    const middle = m * tall + tall / 2;
    pen.textAlign = "left";
    pen.fillStyle = late ? color.bad : color.dim;
    pen.font = `${late ? 700 : 500} 12px system-ui, sans-serif`;
    pen.fillText(`m${m}`, 0, late && tall > 28 ? middle - 7 : middle);
    if (!late || tall <= 28) return;
    pen.font = "600 10px system-ui, sans-serif";
    pen.fillText("slow", 0, middle + 7);
  }

  rankAt(event) {
    const layout = this.layout(this.state.width);
    const { machines, processes } = this.props.view.job;
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let m = Math.floor(y / layout.tall);
    let p = Math.floor((x - layout.place(0, 0)[0]) / layout.wide);
    if (layout.many) {
      const line = Math.floor(y / layout.block);
      m = line * layout.across + Math.floor(x / layout.wide);
      p = Math.floor((y - line * layout.block) / layout.tall);
    }
    return m >= 0 && m < machines && p >= 0 && p < processes ? m * processes + p : null;
  }

  onKey(event) {
    const { view, chosen, choose } = this.props;
    const { processes, machines } = view.job;
    const layout = this.layout(this.state.width);
    const at = chosen ?? 0;
    const [across, down] = layout.many ? [processes, 1] : [1, processes];
    const line = layout.many ? layout.across * processes : 10 * processes;
    const to = { ArrowRight: at + across, ArrowLeft: at - across, ArrowDown: at + down, ArrowUp: at - down, PageDown: at + line, PageUp: at - line, Home: 0, End: machines * processes - 1 }[event.key];
    if (event.key === "Escape") choose(null);
    else if (to == null) return;
    else choose(chosen == null ? 0 : clamp(to, 0, machines * processes - 1));
    event.preventDefault();
  }

  render(props, state) {
    const { machines, processes } = props.view.job;
    return (
      <section class="panel" aria-labelledby="grid">
        <div class="head">
          <h2 id="grid">Machines × ranks</h2>
          <span class="dim small">{`${count(machines)} × ${processes}`}</span>
          <label class="right">
            colour
            <select aria-label="colour" value={state.by} onChange={(event) => this.setState({ by: event.target.value })}>
              {Object.keys(COLOURS).map((name) => (
                <option value={name}>{COLOURS[name]}</option>
              ))}
            </select>
          </label>
        </div>
        <div class="body">{super.render(props, state)}</div>
      </section>
    );
  }

  draw({ view, chosen, choose }) {
    const { machines, processes } = view.job;
    return (
      <div>
        <canvas ref={(element) => (this.canvas = element)} tabIndex="0" role="application" aria-roledescription="grid of ranks" aria-label={`${count(machines)} machines of ${processes} ranks. Arrow keys choose a rank, Escape none.`} onClick={(event) => choose(this.rankAt(event))} onKeyDown={(event) => this.onKey(event)} />
        <div class="hidden" aria-live="polite">
          {chosen == null ? "" : spoken(view, chosen)}
        </div>
        {chosen == null ? <p class="pick dim">Choose a rank to see its log, stack and CPUs.</p> : <Chosen view={view} rank={chosen} />}
      </div>
    );
  }
}

function spoken(view, rank) {
  const machine = Math.floor(rank / view.job.processes);
  const row = view.rowOf(rank);
  const state = (view.machines[machine] || {}).state || "Absent";
  return `rank ${count(rank)}, machine ${count(machine)}, ${state}${row == null ? "" : `, step ${view.ranks.step[row]}, ${short(view.ranks.stepMs[row])} milliseconds a step`}`;
}

function Chosen({ view, rank }) {
  const index = Math.floor(rank / view.job.processes);
  const machine = view.machines[index] || {};
  const row = view.rowOf(rank);
  const of = (name) => (row == null || !view.ranks[name] ? null : view.ranks[name][row]);
  const node = (view.job.nodes || [])[index];
  const silent = machine.silent > 1 ? `, silent for ${brief(machine.silent)}` : "";
  return (
    <div class="pick">
      <b>{`rank ${rank}`}</b>
      <div>{`machine ${index}${node ? ` on ${node}` : ""}, attempt ${machine.attempt ?? "–"}, ${machine.state || "Absent"}${silent}`}</div>
      <span>progress</span>
      <div>{row == null ? "none reported" : `step ${count(of("step"))}, ${short(of("stepMs"))} ms a step, of which ${short(of("waitMs"))} ms wait, loss ${short(of("loss"))}`}</div>
      <span>CPUs</span>
      <div>{cpusOf(view, rank) || (machine.binding && machine.binding !== "Unknown" ? machine.binding : "not bound")}</div>
    </div>
  );
}

function cpusOf({ bindings }, rank) {
  const at = bindings && bindings.rank ? bindings.rank.indexOf(rank) : -1;
  return at < 0 ? "" : bindings.cpus[at];
}

function colors() {
  const style = getComputedStyle(document.documentElement);
  const names = ["productive", "startup", "spawn", "wait", "detect", "stop", "soft", "ink", "dim", "bad", "on", "on-pale"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

// What fills a row's cell: pale for the least value, full for the greatest; of waits the other way,
// for who waits least keeps the others waiting.
function shades(column, by, color, layout) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of column || []) {
    if (value == null) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const steps = [];
  for (let i = 0; i <= 32; i += 1) steps.push(mix(color.soft, color.productive, 0.1 + (0.75 * i) / 32));
  return (row) => {
    const value = row == null || !column ? null : column[row];
    if (value == null) return [color.soft, ""];
    const share = high - low > 1e-9 ? (value - low) / (high - low) : 0.5;
    return [steps[Math.round(32 * (by === "waitMs" ? 1 - share : share))], layout.many ? "" : short(value)];
  };
}

function mix(from, to, share) {
  const channels = (hex) => (hex.length === 4 ? [1, 2, 3].map((i) => parseInt(hex[i] + hex[i], 16)) : [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
  const [a, b] = [channels(from), channels(to)];
  return `rgb(${a.map((value, i) => Math.round(value + (b[i] - value) * share)).join(" ")})`;
}

function paintCell(pen, { wide, tall }, x, y, fill) {
  pen.fillStyle = fill;
  if (tall > 12 && wide > 12) {
    pen.beginPath();
    pen.roundRect(x + 1, y + 1, wide - 2, tall - 2, 4);
    pen.fill();
  } else {
    const gap = tall > 8 ? 2 : tall > 4 ? 0.6 : 0;
    pen.fillRect(x, y, wide - gap, tall - gap);
  }
}

function paintText(pen, { wide, tall }, x, y, name, text, ink) {
  if (wide < 40 || tall < 20) return;
  pen.fillStyle = ink;
  pen.textAlign = "left";
  pen.font = "600 12px system-ui, sans-serif";
  pen.fillText(name, x + 8, y + tall / 2);
  pen.textAlign = "right";
  pen.font = "500 11.5px system-ui, sans-serif";
  if (wide > 62 + 6 * Math.max(0, text.length - 5)) pen.fillText(text, x + wide - 8, y + tall / 2);
}

function outline(pen, color, x, y, wide, tall) {
  pen.strokeStyle = color;
  pen.lineWidth = 2;
  pen.strokeRect(x, y, wide, tall);
}
