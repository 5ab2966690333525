// The output of one rank or of all: searched, stderr alone, followed; the run's events stand in line.
import { Component, h } from "preact";
import { askJson, saved, sleep } from "../server.js";
import { clock, count, several } from "../text.js";

const kMostLines = 2000; // kept in the page
const kShownLines = 1000;
const kLineHeight = 20; // pixels, as in style.css
const kPause = 700;
const kMostRanks = 512; // in the list to choose from

export class Log extends Component {
  constructor(props) {
    super(props);
    this.state = { lines: [], find: "", follow: true, stderr: false, skipped: 0, problem: "" };
    this.reading = 0;
  }

  componentDidMount() {
    this.read();
    this.scroll();
  }

  componentWillUnmount() {
    this.reading += 1;
  }

  shouldComponentUpdate(props, state) {
    return state !== this.state || ["chosen", "jump"].some((name) => props[name] !== this.props[name]) || ["events", "live", "job"].some((name) => props.view[name] !== this.props.view[name]);
  }

  componentDidUpdate(previous) {
    if (previous.chosen !== this.props.chosen) this.read();
    if (previous.jump !== this.props.jump && this.props.jump) this.setState({ follow: false, find: "", stderr: false }, () => this.jump());
    else this.scroll();
  }

  // Reads on until another reading begins, or the run has ended.
  async read() {
    this.reading += 1;
    const mine = this.reading;
    const { chosen } = this.props;
    this.setState({ lines: [], skipped: 0, problem: "" });
    // After the end the view has the lines, and perhaps no server is left.
    if (this.props.view.logs || saved) {
      this.setState({ lines: linesOf(this.props.view.logs || {}, chosen) });
      return;
    }
    for (let after = 0; mine === this.reading; await sleep(document.hidden ? 3 * kPause : kPause)) {
      const ended = !this.props.view.live;
      try {
        const path = `api/log?after=${after}${chosen == null ? "" : `&rank=${chosen}`}`;
        const answer = await askJson(path);
        if (mine !== this.reading) return;
        const skipped = this.state.skipped + (answer.skipped || 0);
        if (answer.lines.length || after === 0) this.setState({ lines: this.state.lines.concat(answer.lines).slice(-kMostLines), skipped, problem: "" });
        after = answer.next;
        if (ended) return;
      } catch (error) {
        if (mine === this.reading) this.setState({ problem: error.message });
        if (ended) return;
      }
    }
  }

  shown({ view, chosen }, { lines, find, stderr }) {
    const wanted = find.toLowerCase();
    const has = (text) => !wanted || text.toLowerCase().includes(wanted);
    const events = view.events.filter((event) => has(event.text)).map((event) => ({ t: event.t, event: event.text }));
    const said = lines.filter((line) => (chosen == null || line.r === chosen || line.s == null) && (!stderr || line.s === "err") && has(line.m));
    // Both are in the order of time; lines of other ranks may come a little late.
    return said
      .concat(events)
      .sort((a, b) => a.t - b.t)
      .slice(-kShownLines);
  }

  scroll() {
    if (this.state.follow && this.box) this.box.scrollTop = this.box.scrollHeight;
  }

  jump() {
    const at = this.shown(this.props, this.state).findIndex((line) => line.t >= this.props.jump.at - 0.02);
    if (at >= 0 && this.box) this.box.scrollTop = Math.max(0, (at - 6) * kLineHeight);
  }

  // Who scrolls up reads; who comes back to the end follows.
  onScroll() {
    const { box } = this;
    const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 2 * kLineHeight;
    if (atEnd !== this.state.follow) this.setState({ follow: atEnd });
  }

  render(props, state) {
    const { view, chosen, choose } = props;
    const shown = this.shown(props, state);
    const ranks = view.job.machines * view.job.processes;
    const options = Array.from({ length: Math.min(kMostRanks, ranks) }, (_, rank) => rank);
    if (chosen != null && chosen >= kMostRanks) options.push(chosen);
    const said = shown.filter((line) => line.event == null).length;
    return (
      <div>
        <div class="tools">
          <label>
            rank
            <select aria-label="rank" value={chosen ?? ""} onChange={(event) => choose(event.target.value === "" ? null : Number(event.target.value))}>
              <option value="">all</option>
              {options.map((rank) => (
                <option value={rank}>{rank}</option>
              ))}
            </select>
          </label>
          <input id="find" type="search" placeholder="Search (/)" aria-label="Search in the log" value={state.find} onInput={(event) => this.setState({ find: event.target.value })} />
          <label>
            <input type="checkbox" checked={state.stderr} onChange={(event) => this.setState({ stderr: event.target.checked })} />
            stderr only
          </label>
          <label>
            <input type="checkbox" checked={state.follow} onChange={(event) => this.setState({ follow: event.target.checked })} />
            follow
          </label>
          <span class="right">{`${several(said, "line")}${state.skipped ? `; ${count(state.skipped)} earlier ones are not kept` : ""}`}</span>
        </div>
        {state.problem ? <p class="tools bad">{state.problem}</p> : null}
        {view.job.logNote ? <p class="tools">{view.job.logNote}</p> : null}
        <div class="log" ref={(element) => (this.box = element)} tabIndex="0" role="log" aria-live="off" aria-label="Output of the ranks" onScroll={() => this.onScroll()}>
          <div>{shown.map((line) => lineOf(line, state.find))}</div>
        </div>
      </div>
    );
  }
}

function linesOf(logs, chosen) {
  const lists = chosen == null ? Object.values(logs) : [logs[chosen] || []];
  return [].concat(...lists).sort((a, b) => a.n - b.n);
}

// Texts of the job are text nodes, whatever they hold.
function lineOf(line, find) {
  if (line.event != null) {
    return (
      <div key={`e${line.t}${line.event}`} class="line event">
        <span class="time">{clock(line.t)}</span>
        <span>{marked(line.event, find)}</span>
      </div>
    );
  }
  return (
    <div key={line.n} class="line">
      <span class="time">{`${clock(line.t)}.${Math.floor((line.t % 1) * 10)}`}</span>
      <span class="rank">{`r${line.r}`}</span>
      <span class={line.s === "err" ? "stderr" : ""}>{marked(line.m, find)}</span>
    </div>
  );
}

function marked(text, find) {
  const at = find ? text.toLowerCase().indexOf(find.toLowerCase()) : -1;
  return at < 0 ? text : [text.slice(0, at), <mark>{text.slice(at, at + find.length)}</mark>, text.slice(at + find.length)];
}
