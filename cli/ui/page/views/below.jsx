// The tabs below: stacks, ledger, bindings and events.
import { Component, h } from "preact";
import { ledgerRows } from "../model.js";
import { askJson } from "../server.js";
import { brief, clock, count } from "../text.js";

const kShownMachines = 200;

// Where each rank stands, asked for by a click: an agent looks up to 15 s, and stops no process.
export class Stacks extends Component {
  async ask() {
    const { chosen } = this.props;
    this.setState({ busy: true, problem: "" });
    try {
      this.setState({ answer: await askJson(`api/stacks${chosen == null ? "" : `?rank=${chosen}`}`), at: this.props.view.now });
    } catch (error) {
      this.setState({ problem: error.message });
    }
    this.setState({ busy: false });
  }

  render({ view, chosen }, { answer, at, busy, problem }) {
    return (
      <div>
        <div class="tools">
          <button class="button" disabled={!view.live || busy} onClick={() => this.ask()}>
            {busy ? "Asking the agents…" : chosen == null ? "Where does each rank stand?" : `Where does rank ${chosen} stand?`}
          </button>
          <span>{view.live ? "No process is stopped." : "The run has ended, so no rank stands anywhere."}</span>
        </div>
        {problem ? <p class="tools bad">{problem}</p> : null}
        {answer ? <Places answer={answer} at={at} /> : null}
      </div>
    );
  }
}

function Places({ answer, at }) {
  return (
    <div aria-live="polite">
      <p class="tools">
        <b>{clock(at)}</b> {answer.sentence}
      </p>
      {(answer.problems || []).map((problem) => (
        <p class="tools bad">{problem}</p>
      ))}
      {(answer.ranks || []).map((each) => (
        <details open={answer.ranks.length <= 2}>
          <summary class="tools">{`rank ${each.rank}, machine ${each.machine}: ${each.place}`}</summary>
          <pre class="stacks" tabIndex="0">
            {each.evidence}
          </pre>
        </details>
      ))}
    </div>
  );
}

export function LedgerTable({ view }) {
  const { ledger } = view.status;
  const { rows, seconds } = ledgerRows(ledger);
  if (!rows.length) return <p class="body none">No machine has run yet.</p>;
  const lost = Object.entries(ledger.lostTo || {}).sort((a, b) => b[1] - a[1]);
  return (
    <div class="body">
      <div class="share" aria-hidden="true">
        {rows.map((row) => (
          <i title={row.text} style={{ flex: `${row.share} 1 0`, background: `var(--${row.color})` }} />
        ))}
      </div>
      <div class="two">
        <table class="list">
          <thead>
            <tr>
              <th>machine time</th>
              <th class="number">{brief(seconds)}</th>
              <th class="number">share</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.text}>
                <td>
                  <i class="key" style={{ background: `var(--${row.color})` }} />
                  {row.text}
                </td>
                <td class="number">{brief(row.seconds)}</td>
                <td class="number">{`${(100 * row.share).toFixed(row.share < 0.1 ? 2 : 1)}%`}</td>
              </tr>
            ))}
          </tbody>
        </table>
        {lost.length ? (
          <table class="list">
            <thead>
              <tr>
                <th>lost to</th>
                <th class="number">machine time</th>
              </tr>
            </thead>
            <tbody>
              {lost.map(([cause, milliseconds]) => (
                <tr key={cause}>
                  <td>{cause === "None" ? "the first start" : cause}</td>
                  <td class="number">{brief(milliseconds / 1e3)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        ) : null}
      </div>
    </div>
  );
}

// Machines with their binding, the CPUs of each rank, and the picture of one machine's computer.
export class Bindings extends Component {
  componentDidMount() {
    this.ask(0);
  }

  async ask(machine) {
    this.setState({ machine, answer: null, problem: "" });
    const { topology } = this.props.view;
    try {
      const answer = this.props.view.live ? await askJson(`api/topology?machine=${machine}`) : (topology || {})[machine];
      if (this.state.machine === machine) this.setState({ answer });
    } catch (error) {
      if (this.state.machine === machine) this.setState({ problem: error.message });
    }
  }

  render({ view }, { machine, answer, problem }) {
    const shown = view.machines.slice(0, kShownMachines);
    return (
      <div class="body">
        <div class="scroll" tabIndex="0" role="group" aria-label="Machines">
          <table class="list">
            <thead>
              <tr>
                <th>machine</th>
                <th>state</th>
                <th class="number">attempt</th>
                <th>bound</th>
                <th>note</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((each, index) => (
                <tr key={index}>
                  <td>
                    <button class="link" aria-pressed={index === machine} onClick={() => this.ask(index)}>{`machine ${index}`}</button>
                  </td>
                  <td>{each.state}</td>
                  <td class="number">{each.attempt}</td>
                  <td>{each.binding || "–"}</td>
                  <td class="wrap dim">{each.note || ""}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        {view.machines.length > kShownMachines ? <p class="none">{`The first ${kShownMachines} of ${count(view.machines.length)} machines.`}</p> : null}
        {problem ? <p class="none">{problem}</p> : null}
        {answer ? <Computer machine={machine} answer={answer} /> : null}
      </div>
    );
  }
}

function Computer({ machine, answer }) {
  return (
    <div>
      {(answer.notes || []).map((note) => (
        <p class="none">{note}</p>
      ))}
      {(answer.ranks || []).length ? <Bound ranks={answer.ranks} /> : null}
      {answer.svg ? (
        <div class="picture">
          <img alt={`The computer of machine ${machine}, with its ranks`} src={`data:image/svg+xml;charset=utf-8,${encodeURIComponent(answer.svg)}`} />
        </div>
      ) : null}
    </div>
  );
}

function Bound({ ranks }) {
  const list = (values) => (values || []).join(", ");
  return (
    <div class="scroll" tabIndex="0" role="group" aria-label="Ranks and their CPUs">
      <table class="list">
        <thead>
          <tr>
            <th>rank</th>
            <th>CPUs</th>
            <th>memory</th>
            <th>GPUs</th>
            <th>NICs</th>
            <th>why</th>
          </tr>
        </thead>
        <tbody>
          {ranks.map((each) => (
            <tr key={each.rank}>
              <td>{each.rank}</td>
              <td>{each.cpus || "not bound"}</td>
              <td>{each.memory}</td>
              <td>{list(each.gpus)}</td>
              <td>{list(each.nics)}</td>
              <td class="wrap dim">{each.why}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Events({ view }) {
  return (
    <div class="body scroll" tabIndex="0" role="group" aria-label="Events, the last one first">
      {view.events.length ? (
        <table class="list">
          <tbody>
            {[...view.events].reverse().map((event) => (
              <tr>
                <td class="number dim">{clock(event.t)}</td>
                <td class="wrap">{event.text}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <p class="none">Nothing has happened yet.</p>
      )}
      {view.dropped.events ? <p class="none">{`${count(view.dropped.events)} earlier ones are not kept.`}</p> : null}
    </div>
  );
}
