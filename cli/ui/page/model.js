// What the page says, out of what the server sends (docs/internals/page.md). Pure.
import { brief, count, lastLine, several } from "./text.js";

// The parts of a generation's life, in its order.
export const KINDS = {
  productive: "productive",
  redone: "steps redone",
  startup: "start-up",
  spawn: "spawn",
  wait: "wait",
  detect: "detect",
  stop: "stop",
};

// The parts of a restart, in their order.
export const PARTS = ["detect", "stop", "wait", "spawn", "startup", "redone"];

const failed = (generation) => generation.failure && generation.failure.cause !== "None";
// When nothing came of a generation any more; undefined: it still runs.
const fate = (g) => g.halted ?? g.died ?? g.stopSent ?? g.ended;

// Steps of generations[i] that an earlier generation had done, and all of its steps.
function redone(generations, i, step) {
  const g = generations[i];
  if (g.firstStep == null || !g.resumedAt) return { again: 0, all: 0 };
  const furthest = Math.max(0, ...generations.slice(0, i).map((before) => before.lastStep || 0));
  const last = Math.max(g.lastStep || 0, i === generations.length - 1 ? step : 0, g.resumedAt);
  return { again: clamp(furthest - g.resumedAt + 1, 0, last - g.resumedAt + 1), all: last - g.resumedAt + 1 };
}

// Every moment of the run once: [{kind, from, to, index, steps}]. `step`: the newest of a live run.
export function timeline({ generations, now, live, step }) {
  const segments = [];
  const add = (kind, from, to, index, steps) => {
    if (from != null && to != null && to > from) segments.push({ kind, from, to, index, steps });
  };
  let at = 0;
  generations.forEach((g, i) => {
    const over = fate(g) ?? now;
    add("wait", at, g.announced, i);
    add("spawn", g.announced, Math.min(g.spawned ?? over, over), i);
    if (g.spawned != null) add("startup", g.spawned, Math.min(g.firstStep ?? over, over), i);
    if (g.firstStep != null) {
      const { again, all } = redone(generations, i, live ? step : 0);
      const cut = g.firstStep + (all ? ((over - g.firstStep) * again) / all : 0);
      add("redone", g.firstStep, cut, i, again);
      add("productive", cut, over, i, all - again);
    }
    if (failed(g)) add("detect", over, g.stopSent ?? g.allStopped ?? g.ended, i);
    add("stop", g.stopSent, g.allStopped ?? g.ended ?? (live ? now : null), i);
    at = g.allStopped ?? g.ended ?? now;
  });
  if (live && at < now) add("wait", at, now, generations.length);
  return segments;
}

// One for each generation that failed or was stopped: when, why, and the parts of what followed, in
// seconds; null: that part has not ended. `history`: of the status, which knows some of it, too.
export function restarts(generations, history = []) {
  const list = [];
  const stored = new Map(history.map((record) => [record.generation, record]));
  generations.forEach((g, i) => {
    const next = generations[i + 1];
    const at = fate(g);
    if (at == null || !(failed(g) || next)) return;
    const parts = g.respawn || {};
    const { lostSteps, reason } = stored.get(g.generation) || {};
    list.push({
      at,
      generation: g.generation,
      cause: failed(g) ? g.failure.message || g.failure.cause : `stopped on request${reason || g.stopReason ? ` (${reason || g.stopReason})` : ""}`,
      stderr: failed(g) ? lastLine(g.failure.stderr) : "",
      warm: Boolean(next && next.warm),
      redoneSteps: parts.redoneSteps ?? lostSteps ?? null,
      parts: { ...parts, startup: parts.firstStep ?? null },
      back: parts.seconds ?? null,
    });
  });
  return list;
}

// The six figures: of the ranks that run; after the end, the last ones known.
export function figures(view) {
  const { ranks, series, status } = view;
  const progress = status.progress || {};
  const steps = present(ranks.step);
  const step = view.live && steps.length ? least(steps) : progress.step || 0;
  const total = progress.totalSteps || ranks.totalSteps || 0;
  const rate = lastOf(series.stepsPerSecond);
  const loss = view.live ? lastOf(series.loss) ?? metric(progress, "loss") : metric(progress, "loss") ?? lastOf(series.loss);
  const tokens = ranks.tokensPerSecond ? sum(present(ranks.tokensPerSecond)) : metric(progress, "tokensPerSecond") ?? lastOf(series.tokensPerSecond);
  const eta = !view.live || !total ? null : rate ? (total - step) / rate : progress.etaSeconds ?? null;
  return { step, total, rate, loss, tokens: tokens || null, eta };
}

function metric(progress, name) {
  const found = (progress.metrics || []).find((each) => each.name === name);
  return found ? Number(found.value) : null;
}

const TONES = { Running: "good", Succeeded: "good", Failed: "bad" };

// {tone, state, rest}: "Running" + " at step 774 of 1,150, done in about 1m11s."
export function sentence(view, figure, list) {
  const { status } = view;
  const state = status.state;
  const last = list[list.length - 1];
  const failure = status.lastFailure && status.lastFailure.message;
  const reason = status.reason ? `: ${status.reason}.` : ".";
  let rest = reason;
  if (state === "Running") {
    rest = !figure.step ? "." : ` at step ${count(figure.step)}${figure.total ? ` of ${count(figure.total)}` : ""}${figure.eta ? `, done in about ${brief(figure.eta)}` : ""}.`;
  } else if (state === "Succeeded") {
    rest = ` after ${brief(view.now)}${list.length ? `, in spite of ${several(list.length, "restart")}` : ""}.`;
  } else if (state === "Restarting" && (last || failure)) {
    rest = `: ${last ? last.cause : failure}.`;
  } else if (state === "Failed" && (failure || last)) {
    rest = `: ${failure || last.cause}.`;
  }
  return { tone: TONES[state] || "warn", state, rest: rest.replace(/\.\.$/, ".") };
}

const ACTIVITIES = {
  Productive: ["productive", "productive"],
  WaitingForNodes: ["wait", "waiting for nodes"],
  WaitingForMachines: ["wait", "waiting for machines"],
  Spawn: ["spawn", "spawn"],
  StartUp: ["startup", "start-up"],
  WarmStartUp: ["startup", "start-up, warm"],
  CheckpointLoad: ["load", "loading the checkpoint"],
  Redone: ["redone", "steps redone"],
  Hang: ["hang", "hang"],
  Detect: ["detect", "detecting failures"],
  Stop: ["stop", "stopping"],
};

// The rows of status.ledger, largest first, in seconds of machine time.
export function ledgerRows(ledger) {
  const entries = Object.entries((ledger && ledger.machineMilliseconds) || {});
  const all = sum(entries.map(([, milliseconds]) => milliseconds));
  const rows = entries.map(([name, milliseconds]) => {
    const [color, text] = ACTIVITIES[name] || ["wait", name];
    return { color, text, seconds: milliseconds / 1e3, share: milliseconds / (all || 1) };
  });
  return { rows: rows.sort((a, b) => b.seconds - a.seconds), seconds: all / 1e3 };
}

// Work and wait of each rank, or machine, in milliseconds a step, and whether it keeps the others waiting: it
// hardly waits while the median rank waits a good part of a step.
export function loads(ranks) {
  const rows = [];
  for (let i = 0; i < ranks.number.length; i += 1) {
    const step = ranks.stepMs[i];
    const wait = ranks.waitMs[i];
    if (step != null && wait != null) rows.push({ number: ranks.number[i], step, wait: Math.min(wait, step) });
  }
  const waits = rows.map((row) => row.wait).sort((a, b) => a - b);
  const median = waits[waits.length >> 1] || 0;
  for (const row of rows) row.slow = median > 0.08 * row.step && row.wait < 0.35 * median;
  return rows;
}

export function present(list) {
  return (list || []).filter((value) => value != null);
}

export function median(list) {
  const sorted = present(list).sort((a, b) => a - b);
  return sorted.length ? sorted[sorted.length >> 1] : null;
}

export function clamp(value, least, most) {
  return Math.min(most, Math.max(least, value));
}

function least(list) {
  return list.reduce((a, b) => Math.min(a, b), Infinity);
}

function lastOf(list) {
  for (let i = (list || []).length - 1; i >= 0; i -= 1) if (list[i] != null) return list[i];
  return null;
}

function sum(list) {
  return list.reduce((total, value) => total + value, 0);
}
