// The page: the list of runs on one side, the run that was chosen on the other; both are asked for again every two seconds.
"use strict";

const EVERY = 2000;
const FIGURES = {
  weighted: { name: "weighted by samples", scored: true, scale: 100, unit: "%" },
  mean: { name: "mean over clients", scored: true, scale: 100, unit: "%" },
  std: { name: "deviation over clients", scale: 100, unit: "%" },
  loss: { name: "loss", scale: 1, unit: "" },
};
const seen = { runs: null, group: null, marks: {}, hidden: new Set(), figure: "weighted", series: "test", client: null, first: "", at: null };

const byId = (id) => document.getElementById(id);
const chosen = () => decodeURIComponent(location.hash.slice(1)) || (seen.first ||= seen.runs?.groups[0]?.id ?? "");
const begun = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const percent = (value) => `${(100 * value).toFixed(1)} %`;

function spoken(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return seconds < 86400 * 2 ? `${(seconds / 3600).toFixed(1)} h` : `${Math.round(seconds / 86400)} days`;
}

/** Ask for values; what has not changed since the last answer comes back as null. */
async function ask(path) {
  const headers = seen.marks[path] ? { "If-None-Match": seen.marks[path] } : {};
  const answer = await fetch(path, { headers, signal: AbortSignal.timeout(30000) });
  if (answer.status === 304) return null;
  if (!answer.ok) throw new Error(answer.status === 404 ? "gone" : "refused");
  seen.marks[path] = answer.headers.get("ETag");
  return answer.json();
}

function bar(done, planned) {
  const inner = el("i");
  inner.style.width = `${planned ? Math.min(100, (100 * done) / planned) : 0}%`;
  return el("div", { class: "bar" }, inner);
}

function card(group) {
  const how = group.error && !group.runs.length ? group.error : `${group.done} of ${group.planned} rounds`;
  const rest = group.state === "running" && group.left ? `about ${spoken(group.left)} left` : group.state;
  const best = group.best ? `${group.compared ? `${group.best.title} ` : ""}${group.best.scored === "accuracy" ? "" : `${group.best.scored} `}${percent(group.best.score)}` : "";
  const made = el("a", { href: `#${encodeURIComponent(group.id)}`, class: group.state, "data-id": group.id },
    el("div", { class: "name" }, group.title), el("div", { class: "where" }, group.id), bar(group.done, group.planned),
    el("div", { class: "how" }, el("span", {}, how), el("span", {}, rest)), el("div", { class: "how" }, el("span", {}, best)));
  if (group.missing.length) made.append(el("div", { class: "how" }, `⚠ ${group.missing[0]}`));
  return made;
}

function showList() {
  const focused = document.activeElement?.dataset?.id;
  const { groups } = seen.runs;
  byId("groups").replaceChildren(...groups.map(card));
  mark();
  if (focused) [...byId("groups").children].find((one) => one.dataset.id === focused)?.focus();
  byId("folder").textContent = seen.runs.folder;
  const count = (state) => groups.filter((group) => group.state === state).length;
  const words = ["running", "stopped", "waiting", "damaged", "finished"].filter(count).map((state) => `${count(state)} ${state}`);
  byId("status").textContent = seen.runs.error || words.join(" · ") || "nothing here yet";
  byId("status").className = "";
  document.title = count("running") ? `(${count("running")}) perfed` : "perfed";
}

function mark() {
  for (const one of byId("groups").children) one.setAttribute("aria-current", String(one.dataset.id === chosen()));
}

/** A labelled choice that keeps its value while the page is drawn again. */
function choice(label, key, entries) {
  const made = el("select", { onchange: (event) => { seen[key] = event.target.value; showGroup(true); } });
  for (const [value, text] of entries) made.append(el("option", { value }, text));
  if (entries.some(([value]) => value === seen[key])) made.value = seen[key];
  else seen[key] = made.value;
  return el("label", {}, `${label} `, made);
}

function states(group) {
  const list = el("ul", { class: "chips" });
  for (const run of group.runs) {
    const done = run.seeds.reduce((sum, seed) => sum + seed.round + 1, 0);
    const all = run.seeds.reduce((sum, seed) => sum + seed.planned + 1, 0);
    const at = [...new Set(run.seeds.map((seed) => Math.max(0, seed.round)))].join(", ");
    const text = `${group.compared ? run.title : "round"} ${at} of ${run.seeds[0]?.planned ?? 0}`;
    const tag = run.state === group.state ? [] : [" ", el("span", { class: `tag ${run.state}` }, run.state)];
    list.append(el("li", { class: run.state }, text, ...tag, bar(done, all)));
  }
  return list;
}

function curves(whole, planned) {
  const series = ["test", "validation", "after"].filter((one) => whole.runs.some((run) => run.curves[one].round.length));
  const names = { test: "test data", validation: "validation data", after: "right after local training" };
  const figure = choice("figure", "figure", Object.entries(FIGURES).map(([key, entry]) => [key, entry.scored ? `${whole.score}, ${entry.name}` : entry.name]));
  const data = choice("on", "series", series.map((one) => [one, names[one]]));
  const { scale, unit } = FIGURES[seen.figure];
  const read = el("p", { class: "read", role: "status" });
  const box = el("div", { class: "chart" });
  const all = whole.runs.map((run) => ({ ...run, points: averaged(run.curves[seen.series], seen.figure, scale) }));
  const lines = all.filter((run) => run.points.length && !seen.hidden.has(run.name));
  const guess = ["weighted", "mean"].includes(seen.figure) && whole.majority !== null ? 100 * whole.majority : null;
  const legend = el("ul", { class: "legend" });
  const ended = (run) => run.points.at(-1)?.mean ?? -1;
  for (const run of [...all].sort((a, b) => (unit ? ended(b) - ended(a) : ended(a) - ended(b)))) {
    const sample = shape("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" });
    sample.append(shape("line", { x1: 1, x2: 25, y1: 5, y2: 5, stroke: run.colour, "stroke-width": 3, "stroke-dasharray": run.dash }));
    const value = run.points.length ? ended(run).toFixed(unit ? 1 : 3) : "–";
    legend.append(el("li", {}, el("button", { type: "button", "aria-pressed": String(!seen.hidden.has(run.name)), "data-key": run.name,
      onclick: () => { seen.hidden.delete(run.name) || seen.hidden.add(run.name); showGroup(true); } },
    sample, run.label, el("span", { class: "value" }, value))));
  }
  const told = (text, round) => { read.textContent = text; seen.at = round; };
  const draw = () => (lines.length ? drawCurves(box, lines, { unit, planned, guess, at: seen.at, read: told })
    : box.replaceChildren(el("p", { class: "soft" }, "Nothing to draw: every line is switched off, or no round was tested yet.")));
  return { parts: [el("h3", {}, "Curves", figure, data), box, read, legend], draw };
}

function table(whole) {
  const head = el("tr", {}, el("th", { scope: "col" }, "Method"));
  for (const column of whole.table.columns) head.append(el("th", { scope: "col" }, el("small", {}, column.above), column.title));
  const body = el("tbody");
  for (const row of whole.table.rows) {
    const line = el("tr", {}, el("td", {}, row.name));
    for (const cell of row.cells) {
      line.append(el("td", { class: cell.mark }, cell.text, ...(cell.plus ? [" ", el("small", {}, `± ${cell.plus}`)] : [])));
    }
    body.append(line);
  }
  return [el("h3", {}, "Table"), el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Table" }, el("table", {}, el("thead", {}, head), body)),
    el("p", { class: "soft" }, `${begun(whole.score)} on test data, in per cent; the best round is chosen on test data, the validated one on validation data.`),
    ...whole.notes.map((text) => el("p", { class: "soft" }, text))];
}

function clients(whole) {
  const known = (run) => run.clients.score.filter((value) => value !== null);
  const mean = (run) => known(run).reduce((sum, value) => sum + value, 0) / (known(run).length || 1);
  if (!whole.runs.some((run) => run.name === seen.client)) seen.client = whole.runs.reduce((a, b) => (mean(b) > mean(a) ? b : a)).name;
  const pick = choice("of", "client", whole.runs.map((run) => [run.name, run.label]));
  const run = whole.runs.find((one) => one.name === seen.client) || whole.runs[0];
  const local = whole.runs.find((one) => one.method === "local" && one !== run);
  const box = el("div", { class: "clients" });
  drawClients(box, run.clients.names, run.clients.score, run.colour, local && local.clients.score);
  const text = `${begun(whole.score)} on test data in the last round of seed ${run.clients.seed}, in per cent${local ? "; the black mark is the same client with Local" : ""}.`;
  return [el("h3", {}, "Every client", pick), el("p", { class: "soft" }, text), box];
}

/** Draw the chosen group; again where it, the window or a choice has changed. */
function showGroup(again = false) {
  const main = byId("detail");
  const group = seen.runs?.groups.find((one) => one.id === chosen());
  if (!group) {
    const text = seen.runs?.groups.length ? "This run is no longer in the folder." : "No runs here yet. `perfed run` and `perfed compare` write theirs to the folder runs; this page shows them as soon as they begin.";
    main.replaceChildren(el("p", { class: "none" }, text));
    return;
  }
  const key = document.activeElement?.dataset?.key;
  const focused = again && !key && main.contains(document.activeElement) ? [...main.querySelectorAll("select, svg[tabindex]")].indexOf(document.activeElement) : -1;
  const rest = group.state === "running" && group.left ? `, about ${spoken(group.left)} left` : "";
  const parts = [el("h2", {}, group.title), el("p", { class: "soft" }, `${group.id} `, el("span", { class: `tag ${group.state}` }, group.state + rest)), states(group)];
  const whole = seen.group?.id === group.id ? seen.group : null;
  if (whole?.lead) parts.splice(2, 0, el("p", { class: "lead" }, whole.lead));
  const warnings = [...group.missing, ...(group.error ? [group.error] : []), ...(whole && !whole.table ? whole.notes : []), ...(whole?.runs ?? []).flatMap((run) => run.refused.map((text) => `refused: ${text}`))];
  if (warnings.length) parts.push(el("ul", { class: "warn" }, ...[...new Set(warnings)].map((text) => el("li", {}, text))));
  const further = group.deployed ? "perfed deploy run SERVER" : `perfed resume ${whole?.folder ?? group.id}`;
  if (group.state === "stopped") parts.push(el("p", { class: "soft" }, "Nobody is at work on it. This goes on with it:"), el("pre", {}, further));
  let draw = () => {};
  if (whole?.table) {
    const made = curves(whole, group.runs[0]?.seeds[0]?.planned ?? 0);
    draw = made.draw;
    parts.push(...made.parts, ...table(whole), ...clients(whole));
    const facts = el("dl");
    for (const [name, value] of whole.facts) facts.append(el("div", {}, el("dt", {}, name), el("dd", {}, value)));
    parts.push(el("h3", {}, "What was asked for"), facts, el("pre", {}, whole.commands.join("\n")));
  } else if (!warnings.length) parts.push(el("p", { class: "none" }, whole ? "No round is finished yet." : "…"));
  main.replaceChildren(...parts);
  draw();
  if (key) [...main.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key)?.focus();
  if (focused >= 0) main.querySelectorAll("select, svg[tabindex]")[focused]?.focus();
}

async function refresh() {
  try {
    const runs = await ask("runs.json");
    if (runs) seen.runs = { groups: [], ...runs };
    const id = chosen();
    if (id && seen.group?.id !== id) delete seen.marks[`group.json?id=${encodeURIComponent(id)}`];
    const group = id ? await ask(`group.json?id=${encodeURIComponent(id)}`).catch((error) => { if (error.message === "gone") return null; throw error; }) : null;
    if (group) seen.group = group;
    if (runs) showList();
    if (runs || group) showGroup(true);
    byId("status").classList.remove("lost");
  } catch {
    seen.marks = {};
    byId("status").textContent = "perfed watch does not answer; trying again";
    byId("status").className = "lost";
  }
}

function move(step) {
  const ids = seen.runs.groups.map((group) => group.id);
  const next = Math.min(ids.length - 1, Math.max(0, ids.indexOf(chosen()) + step));
  if (ids[next] !== undefined) location.hash = encodeURIComponent(ids[next]);
}

addEventListener("hashchange", () => {
  seen.at = seen.client = null;
  mark();
  document.querySelector("nav [aria-current=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  showGroup();
  refresh();
});
addEventListener("resize", () => showGroup(true));
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(SELECT|INPUT)$/.test(document.activeElement?.tagName)) return;
  if (event.key === "j") move(1);
  if (event.key === "k") move(-1);
});
refresh();
setInterval(() => { if (!document.hidden) refresh(); }, EVERY);
