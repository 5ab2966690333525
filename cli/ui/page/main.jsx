// The page of a gang. It changes nothing: it shows what its server, or its own file, holds.
import { Component, h, render } from "preact";
import { figures, restarts, timeline } from "./model.js";
import { follow, job, pageOf, saved } from "./server.js";
import { brief, several } from "./text.js";
import { Bindings, Events, LedgerTable, Stacks } from "./views/below.jsx";
import { Curves } from "./views/curves.jsx";
import { Figures, Hero, Notes } from "./views/figures.jsx";
import { Fleet } from "./views/fleet.jsx";
import { Grid } from "./views/grid.jsx";
import { Log } from "./views/log.jsx";
import { Login, LogOut } from "./views/login.jsx";
import { Ranks } from "./views/ranks.jsx";
import { Time } from "./views/time.jsx";

const kTabs = ["Log", "Stacks", "Ledger", "Bindings", "Events"];
const kBeat = 1000; // milliseconds: the clock of the page goes on between two answers
const kMostAhead = 5; // seconds that the clock runs ahead of the last answer
const kSilent = 3; // seconds without a word from machine 0
const kWide = 256; // ranks: from here on the grid has the page's whole width
const MARKS = { Running: "●", Succeeded: "✓", Failed: "✕" };

class App extends Component {
  constructor() {
    super();
    const dark = matchMedia("(prefers-color-scheme: dark)");
    this.state = { view: null, got: 0, lost: "", chosen: null, tab: kTabs[0], jump: null, theme: dark.matches ? "dark" : "light" };
    dark.addEventListener("change", () => this.setTheme(dark.matches ? "dark" : "light"));
    document.documentElement.dataset.theme = this.state.theme;
    this.choose = (chosen) => this.setState({ chosen });
    this.pick = (restart) => {
      this.setState({ tab: "Log", jump: { at: restart.at } });
      document.getElementById("panel").scrollIntoView({ block: "nearest" });
    };
  }

  componentDidMount() {
    follow(
      (view) => this.setState({ view, got: performance.now(), lost: "" }),
      (error) => this.setState({ lost: error.message, login: error.login }),
    );
    setInterval(() => this.state.view && this.state.view.live && this.setState({}), kBeat);
    addEventListener("keydown", (event) => this.onKey(event));
  }

  setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    this.setState({ theme });
  }

  flip() {
    this.setTheme(this.state.theme === "dark" ? "light" : "dark");
  }

  onKey(event) {
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      event.preventDefault();
      this.setState({ tab: "Log" }, () => document.getElementById("find").focus());
    } else if (event.key === "t") this.flip();
    else if (this.state.view && this.state.view.fleet) return;
    else if (event.key === "g") document.querySelector("canvas").focus();
    else if (kTabs[event.key - 1]) this.setState({ tab: kTabs[event.key - 1] });
  }

  renderFleet(view, lost, theme) {
    document.title = "Jobs · Lockstep";
    return (
      <div>
        <a class="skip" href="#main">
          Skip to the content
        </a>
        <header>
          <div class="bar">
            <Mark />
            <b>Jobs</b>
            <span class="dim where">{view.where}</span>
            <span class={`chip ${lost ? "late" : "on"}`} role="status">
              <i />
              {lost || "live"}
            </span>
            <LogOut />
            <Theme theme={theme} flip={() => this.flip()} />
          </div>
        </header>
        <Fleet view={view} />
      </div>
    );
  }

  render(_, { view, got, lost, login, chosen, tab, jump, theme }) {
    if (login) return <Login problem={lost} />;
    if (!view) return <Waiting lost={lost} />;
    if (view.fleet) return this.renderFleet(view, lost, theme);
    const age = view.live ? (performance.now() - got) / 1e3 : 0;
    const shown = { ...view, now: view.now + Math.min(age, lost ? 0 : kMostAhead) };
    const figure = figures(shown);
    const segments = timeline({ generations: view.generations, now: shown.now, live: view.live, step: figure.step });
    const list = restarts(view.generations, view.status.history);
    document.title = titleOf(view, figure);
    const wide = view.job.machines * view.job.processes > kWide;
    return (
      <div>
        <a class="skip" href="#main">
          Skip to the content
        </a>
        <Header view={view} lost={lost} age={age} theme={theme} flip={() => this.flip()} />
        <main id="main">
          <Hero view={shown} figure={figure} list={list} />
          <Notes notes={view.notes} />
          <Figures view={view} figure={figure} list={list} />
          <Time view={shown} segments={segments} list={list} pick={this.pick} />
          <div class={wide ? "columns wide" : "columns"}>
            <Grid view={view} theme={theme} chosen={chosen} choose={this.choose} />
            <Ranks view={view} choose={this.choose} />
            <Curves view={view} list={list} />
          </div>
          <section class="panel">
            <Tabs tab={tab} setTab={(to) => this.setState({ tab: to })} />
            <div role="tabpanel" id="panel" aria-labelledby={`tab-${tab}`}>
              {tab === "Log" ? <Log view={view} chosen={chosen} choose={this.choose} jump={jump} /> : null}
              {tab === "Stacks" ? <Stacks view={view} chosen={chosen} /> : null}
              {tab === "Ledger" ? <LedgerTable view={view} /> : null}
              {tab === "Bindings" ? <Bindings view={view} /> : null}
              {tab === "Events" ? <Events view={view} /> : null}
            </div>
          </section>
        </main>
      </div>
    );
  }
}

function Waiting({ lost }) {
  return (
    <main id="main">
      <div class="hero">
        <h1>{lost ? "No answer from lockstep" : "Connecting…"}</h1>
        <p role="status">{lost ? `${lost}.` : ""}</p>
      </div>
    </main>
  );
}

function Header({ view, lost, age, theme, flip }) {
  const { name, machines, processes, where } = view.job;
  const silence = view.live && view.heard != null ? Math.max(0, view.now - view.heard) + age : 0;
  const [kind, said] = linkOf(view, lost, silence);
  return (
    <header>
      <div class="bar">
        <Mark />
        {job ? (
          <a class="link" href={pageOf("")}>
            All jobs
          </a>
        ) : null}
        <b>{name}</b>
        <span class="dim where">{`${several(machines, "machine")} × ${processes} · ${where || ""}`}</span>
        <span class={`chip ${kind}`} role="status">
          <i />
          {said}
        </span>
        <LogOut />
        <Theme theme={theme} flip={flip} />
      </div>
    </header>
  );
}

function Mark() {
  return (
    <svg class="mark" viewBox="0 0 22 22" aria-hidden="true">
      {[1, 6.4, 11.8, 17.2].map((x) => (
        <rect x={x} y="3" width="4" height="16" rx="2" fill={x > 17 ? "var(--redone)" : "var(--productive)"} />
      ))}
    </svg>
  );
}

function Theme({ theme, flip }) {
  return (
    <button class="button square" onClick={flip} title="Light or dark (t)" aria-label="Light or dark">
      {theme === "dark" ? "☀" : "☾"}
    </button>
  );
}

function linkOf(view, lost, silence) {
  if (saved) return ["", "recorded, not live"];
  if (!view.live) return ["", "ended"];
  if (lost || silence > kSilent) return ["late", `last heard ${brief(Math.max(1, Math.round(silence)))} ago`];
  return ["on", "live"];
}

function Tabs({ tab, setTab }) {
  const onKey = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const to = kTabs[(kTabs.indexOf(tab) + step + kTabs.length) % kTabs.length];
    setTab(to);
    document.getElementById(`tab-${to}`).focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Details" onKeyDown={onKey}>
      {kTabs.map((name) => (
        <button key={name} role="tab" id={`tab-${name}`} aria-selected={String(name === tab)} aria-controls="panel" tabIndex={name === tab ? 0 : -1} onClick={() => setTab(name)}>
          {name}
        </button>
      ))}
    </div>
  );
}

function titleOf(view, { step, total }) {
  const share = total ? `${Math.floor((100 * step) / total)}% ` : "";
  return `${MARKS[view.status.state] || "◌"} ${share}${view.job.name} · Lockstep`;
}

render(<App />, document.getElementById("app"));
