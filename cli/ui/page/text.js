// Numbers and times as people read them. Pure.

const MISSING = "–";

// Seconds: "6.0 ms", "1.3 s", "2m05s", "3h07m", "4d02h".
export function brief(seconds) {
  if (seconds == null) return MISSING;
  if (seconds < 0.00995) return `${(seconds * 1e3).toFixed(1)} ms`;
  if (seconds < 0.9995) return `${Math.round(seconds * 1e3)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)}m${pad(whole % 60)}s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h${pad(Math.floor(whole / 60) % 60)}m`;
  return `${Math.floor(whole / 86400)}d${pad(Math.floor(whole / 3600) % 24)}h`;
}

// Seconds since the start of the run: "01:05", "2:01:05".
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const minutes = `${pad(Math.floor(whole / 60) % 60)}:${pad(whole % 60)}`;
  return whole < 3600 ? minutes : `${Math.floor(whole / 3600)}:${minutes}`;
}

// Three digits that matter: "2.52", "688", "65.8k", "1.20M".
export function short(value) {
  if (value == null || !Number.isFinite(value)) return MISSING;
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toFixed(2)}G`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(2)}M`;
  if (size >= 1e4) return `${(value / 1e3).toFixed(1)}k`;
  if (size >= 100 || Number.isInteger(value)) return `${Math.round(value)}`;
  if (size >= 1) return value.toFixed(size >= 10 ? 1 : 2);
  return size === 0 ? "0" : size < 1e-3 ? value.toExponential(1) : value.toPrecision(3);
}

export function count(value) {
  return value == null ? MISSING : value.toLocaleString("en");
}

export function several(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

export function lastLine(text) {
  return (text || "").trim().split("\n").pop();
}

function pad(number) {
  return String(number).padStart(2, "0");
}

// "place 2", or "place 2 (5 of the ClusterQueue)"; "" where nobody knows.
export function placeOf({ place, placeInClusterQueue: all }) {
  if (!place) return "";
  return `place ${count(place)}${all > place ? ` (${count(all)} of the ClusterQueue)` : ""}`;
}
