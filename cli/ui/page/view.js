// The view: what the server sends (docs/internals/page.md), put together from its changes, in the form
// that the views of this page read. Pure.

const kFormat = 1;

// `view` with the changes of `answer`; null: nothing is there yet. A member that did not change stays
// the same object, so that a view can tell whether to draw again.
export function merge(view, answer) {
  if (answer.format !== kFormat) {
    throw new Error(`This page reads format ${kFormat}, and lockstep sent format ${answer.format}: reload the page`);
  }
  const old = view || {};
  const next = { ...old, ...answer };
  next.dropped = { ...old.dropped };
  for (const name of ["generations", "events"]) {
    next[name] = old[name] || [];
    if (!answer[name]) continue;
    const { from, dropped, items } = answer[name];
    // `from` counts in the list that the server has now, without those that it has dropped since.
    const gone = (dropped || 0) - ((old.dropped || {})[name] || 0);
    next[name] = next[name].slice(gone, gone + from).concat(items);
    next.dropped[name] = dropped || 0;
  }
  next.series = answer.series ? mergeSeries(old.series, answer.series) : old.series || { t: [], step: [] };
  if (answer.ranks || !next.ranks) Object.assign(next, ranksOf(answer.ranks || {}));
  if (answer.machines || !next.machines) next.machines = machinesOf(answer.machines || {});
  next.job = next.job || { machines: 0, processes: 0, name: "", command: [] };
  next.status = next.status || { state: "Pending", reason: "" };
  next.straggler = (next.gang && next.gang.straggler) || null;
  const rows = next.rows;
  const byMachine = next.ranks.by === "machine";
  const { processes } = next.job;
  next.rowOf = (rank) => rows.get(byMachine ? Math.floor(rank / processes) : rank);
  return next;
}

function mergeSeries(old, { from, ...columns }) {
  const series = {};
  const length = from + (columns.t || []).length;
  for (const name of new Set([...Object.keys(old || {}), ...Object.keys(columns)])) {
    const kept = ((old || {})[name] || []).slice(0, from);
    while (kept.length < from) kept.push(null);
    const column = kept.concat(columns[name] || []);
    while (column.length < length) column.push(null);
    series[name] = column;
  }
  return { t: [], step: [], ...series };
}

// Columns by rank, or by machine; with milliseconds, and the row of each number.
function ranksOf(columns) {
  const by = columns.by === "machine" ? "machine" : "rank";
  const number = columns[by] || [];
  const milliseconds = (column) => number.map((_, i) => (column && column[i] != null ? column[i] * 1e3 : null));
  const ranks = {
    ...columns,
    by,
    number,
    step: columns.step || number.map(() => null),
    stepMs: milliseconds(columns.stepSeconds),
    waitMs: milliseconds(columns.waitSeconds),
  };
  return { ranks, rows: new Map(number.map((each, i) => [each, i])) };
}

function machinesOf(columns) {
  const cell = (name, i) => (columns[name] || [])[i];
  return (columns.state || []).map((state, i) => ({ state, attempt: cell("attempt", i), silent: cell("silent", i), binding: cell("binding", i), note: cell("note", i) }));
}
