// Curves as SVG: axes with round numbers, a band of seeds, a cursor that pointer and arrow keys move.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; text is always text. */
function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function shape(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

/** Round numbers between low and high, about as many as asked for. */
function ticks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) || power;
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + 1e-9 * step; value += step) found.push(value);
  return { found, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
}

/** The mean over the seeds that have reached each round, and how they spread. */
function averaged(curve, figure, scale) {
  const seeds = Object.values(curve.seeds).map((own) => own[figure]);
  return curve.round.map((round, place) => {
    const known = seeds.map((own) => own[place]).filter((value) => value !== null);
    if (!known.length) return { round, mean: null, low: null, high: null };
    const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
    const spread = Math.sqrt(known.reduce((sum, value) => sum + (value - mean) ** 2, 0) / known.length);
    return { round, mean: mean * scale, low: (mean - spread) * scale, high: (mean + spread) * scale };
  }).filter((point) => point.mean !== null);
}

/** The range of values once a tenth of the rounds is over: the first climb would squeeze everything else. */
function span(lines, last, guess) {
  const late = lines.flatMap((line) => line.points.filter((p) => line.points.length < 12 || p.round >= last / 10));
  const values = late.flatMap((p) => [p.low, p.high]).concat(guess === null ? [] : [guess]);
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (!(high > low)) [low, high] = [low - 1, high + 1];
  return [low - 0.05 * (high - low), high + 0.06 * (high - low)];
}

/** Draw lines {label, colour, dash, points} into a box; read(text) hears what is under the cursor. */
function drawCurves(box, lines, { unit, planned, guess, at, read }) {
  box.replaceChildren();
  const narrow = box.clientWidth < 560;
  const [wide, high, left, right, top, bottom] = narrow ? [520, 340, 46, 12, 8, 34] : [1000, 380, 48, 14, 8, 34];
  const svg = shape("svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", tabindex: "0" });
  svg.setAttribute("aria-label", `curves of ${lines.map((line) => line.label).join(", ")}; left and right move the cursor`);
  const last = Math.max(1, planned, ...lines.flatMap((line) => line.points.map((p) => p.round)));
  const [low, up] = span(lines, Math.max(...lines.flatMap((line) => line.points.map((p) => p.round))), guess);
  const x = (round) => left + (round / last) * (wide - left - right);
  const y = (value) => Math.min(high - bottom + 60, top + ((up - value) / (up - low)) * (high - top - bottom));
  const clip = shape("clipPath", { id: "inside" });
  clip.append(shape("rect", { x: left, y: 0, width: wide - left, height: high - bottom }));
  svg.append(clip);
  const across = ticks(low, up, narrow ? 5 : 7);
  for (const value of across.found) {
    svg.append(shape("line", { class: "grid", x1: left, x2: wide - right, y1: y(value), y2: y(value) }));
    svg.append(shape("text", { x: left - 7, y: y(value) + 4, "text-anchor": "end" }, value.toFixed(across.digits)));
  }
  const along = ticks(0, last, narrow ? 5 : 10);
  for (const value of along.found.filter((v) => Number.isInteger(v))) {
    svg.append(shape("text", { x: x(value), y: high - bottom + 18, "text-anchor": "middle" }, String(value)));
  }
  svg.append(shape("line", { class: "axis", x1: left, x2: wide - right, y1: high - bottom, y2: high - bottom }));
  svg.append(shape("text", { x: wide - right, y: high - 3, "text-anchor": "end" }, "round"));
  const inside = shape("g", { "clip-path": "url(#inside)" });
  svg.append(inside);
  for (const line of lines) {
    if (line.points.some((p) => p.high > p.low)) {
      const there = line.points.map((p) => `${x(p.round)},${y(p.high)}`);
      const back = line.points.toReversed().map((p) => `${x(p.round)},${y(p.low)}`);
      inside.append(shape("polygon", { points: [...there, ...back].join(" "), fill: line.colour, "fill-opacity": "0.13" }));
    }
  }
  if (guess !== null) {
    inside.append(shape("line", { x1: left, x2: wide - right, y1: y(guess), y2: y(guess), stroke: "#444", "stroke-dasharray": "1.5 3" }));
    inside.append(shape("text", { x: wide - right - 6, y: y(guess) - 5, "text-anchor": "end" }, "majority class"));
  }
  for (const line of lines) {
    const points = line.points.map((p) => `${x(p.round)},${y(p.mean)}`).join(" ");
    inside.append(shape("polyline", { points, fill: "none", stroke: line.colour, "stroke-width": narrow ? 2.6 : 2, "stroke-dasharray": line.dash }));
    const end = line.points.at(-1);
    if (end) inside.append(shape("circle", { cx: x(end.round), cy: y(end.mean), r: 3.4, fill: line.colour }));
  }
  const cursor = shape("line", { class: "cursor", y1: top, y2: high - bottom, x1: -9, x2: -9 });
  svg.append(cursor);
  follow(svg, cursor, lines, { x, wide, left, right, last, unit, at, read });
  box.append(svg);
}

/** Let pointer and arrow keys choose a round, and say what every line has there. */
function follow(svg, cursor, lines, { x, wide, left, right, last, unit, at, read }) {
  const rounds = [...new Set(lines.flatMap((line) => line.points.map((p) => p.round)))].sort((a, b) => a - b);
  let place = rounds.length - 1;
  const show = () => {
    if (!rounds.length) return;
    const round = rounds[place];
    cursor.setAttribute("x1", x(round));
    cursor.setAttribute("x2", x(round));
    const said = lines.map((line) => [line.label, line.points.find((p) => p.round === round)]).filter((pair) => pair[1]);
    said.sort((a, b) => b[1].mean - a[1].mean);
    read(`round ${round}: ${said.map(([label, p]) => `${label} ${p.mean.toFixed(unit === "%" ? 1 : 3)}`).join(" · ")}`, round);
  };
  if (at !== null && rounds.includes(at)) {
    place = rounds.indexOf(at);
    show();
  }
  const nearest = (event) => {
    const at = ((event.clientX - svg.getBoundingClientRect().left) / svg.clientWidth) * wide;
    const round = ((at - left) / (wide - left - right)) * last;
    place = rounds.reduce((best, one, n) => (Math.abs(one - round) < Math.abs(rounds[best] - round) ? n : best), 0);
    show();
  };
  svg.addEventListener("pointermove", nearest);
  svg.addEventListener("pointerdown", nearest);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 }[event.key];
    if (!step) return;
    event.preventDefault();
    place = Math.min(rounds.length - 1, Math.max(0, place + step));
    show();
  });
}

/** Draw one bar per client, with a mark where another method stands. */
function drawClients(box, names, values, colour, others) {
  box.replaceChildren();
  names.forEach((name, place) => {
    const value = values[place];
    const track = el("div", { class: "track" });
    if (value !== null && value !== undefined) {
      const bar = el("i");
      bar.style.width = `${100 * value}%`;
      bar.style.background = colour;
      track.append(bar);
    }
    const other = others ? others[place] : null;
    if (other !== null && other !== undefined) {
      const mark = el("b");
      mark.style.left = `calc(${100 * other}% - 1px)`;
      track.append(mark);
    }
    box.append(el("span", { class: "who" }, name), track, el("span", {}, value === null || value === undefined ? "–" : (100 * value).toFixed(1)));
  });
}
