// The page: a form that the model's schema draws, and the answer with every class's probability.
"use strict";

const SHOWN = 10; // classes of one answer
const seen = { schema: null, token: "" };
const byId = (id) => document.getElementById(id);
const percent = (value) => `${(100 * value).toFixed(1)}\u00a0%`;

function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

async function ask(path, options = {}) {
  const headers = { ...(options.headers ?? {}), ...(seen.token ? { Authorization: `Bearer ${seen.token}` } : {}) };
  let answer;
  try {
    answer = await fetch(path, { ...options, headers, signal: AbortSignal.timeout(60000) });
  } catch {
    throw new Error("the server does not answer");
  }
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

function say(text, lost = false) {
  byId("status").textContent = text;
  byId("status").className = lost ? "lost" : "";
}

/** A field with its label; wide ones take a whole line. */
function field(name, input, whole = false) {
  input.id = `field-${byId("fields").children.length}`;
  input.dataset.name = name;
  byId("fields").append(el("div", whole ? { class: "whole" } : {}, el("label", { for: input.id }, name), input));
}

function drawForm(item) {
  if (item.contentEncoding) field("pictures", el("input", { type: "file", accept: "image/*", multiple: "", required: "" }), true);
  else if (item.type === "string") field("text", el("textarea", { required: "" }), true);
  else if (item.type === "array") field(item.description, el("textarea", { required: "", placeholder: "[0.1, 2.5, …]", spellcheck: "false" }), true);
  else for (const [name, kind] of Object.entries(item.properties)) field(name, cell(kind));
}

function cell(kind) {
  const free = kind.type.includes("null") ? {} : { required: "" };
  const choices = kind.type.includes("boolean") ? ["yes", "no"] : kind.examples ? [...kind.examples, "other"] : null;
  if (!choices) return el("input", { type: "number", step: "any", inputmode: "decimal", autocomplete: "off", ...free });
  const first = el("option", { value: "" }, kind.type.includes("null") ? "not known" : "choose …");
  const made = el("select", free, first, ...choices.map((level) => el("option", { value: level }, level)));
  made.dataset.kind = kind.type[0];
  return made;
}

/** What a field says: a number, yes or no, a level, or nothing. */
function told(one) {
  if (one.value === "") return null;
  if (one.dataset.kind === "boolean") return one.value === "yes";
  return one.type === "number" ? one.valueAsNumber : one.value;
}

function read(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(new Error(`${file.name} cannot be read`));
    reader.readAsDataURL(file);
  });
}

/** The question's inputs, and a picture and a name beside each where there is one. */
async function inputs(item) {
  const fields = [...document.querySelectorAll("#fields [data-name]")];
  if (item.contentEncoding) {
    const files = [...fields[0].files];
    const told = await Promise.all(files.map(read));
    return { inputs: told.map((url) => url.slice(url.indexOf(",") + 1)), shown: files.map((file, at) => ({ name: file.name, url: told[at] })) };
  }
  if (item.type === "string") return { inputs: [fields[0].value], shown: [{}] };
  if (item.type === "array") {
    let found;
    try {
      found = JSON.parse(fields[0].value);
    } catch {
      throw new Error("these are no numbers in brackets, such as [0.1, 2.5]");
    }
    return { inputs: [found], shown: [{}] };
  }
  const row = {};
  for (const one of fields) row[one.dataset.name] = told(one);
  return { inputs: [row], shown: [{}] };
}

function drawAnswer(answer, { name, url }) {
  const number = answer.value ?? answer.risk;
  if (number !== undefined) return el("div", { class: "one" }, el("h2", {}, String(Number(number.toPrecision(5)))));
  const bars = el("div", { class: "bars" });
  const ranked = Object.entries(answer.probabilities).sort((a, b) => b[1] - a[1]);
  for (const [who, share] of ranked.slice(0, SHOWN)) {
    const bar = el("i");
    bar.style.width = `${100 * share}%`;
    bars.append(el("span", { class: "who" }, who), el("div", { class: "track", "aria-hidden": "true" }, bar), el("span", { class: "share" }, percent(share)));
  }
  const head = answer.labels ? el("h2", {}, answer.labels.join(", ") || "none of them") : el("h2", {}, answer.class, " ", el("small", {}, percent(answer.probability)));
  const rest = ranked.length > SHOWN ? [el("p", { class: "soft" }, `and ${ranked.length - SHOWN} more classes`)] : [];
  const told = el("div", {}, ...(name ? [el("p", { class: "soft" }, name)] : []), head, bars, ...rest);
  return el("div", { class: "one" }, ...(url ? [el("img", { src: url, alt: name })] : []), told);
}

function taken({ kind, columns, shape, what }) {
  if (columns) return `${columns.length} columns of a table`;
  if (kind === "image") return `${shape[1] === 1 ? "grey" : "colour"} pictures, as they were stored in training: ${shape[3]}×${shape[2]} pixels`;
  return kind === "tokens" ? "texts" : what;
}

function about({ model }) {
  byId("name").textContent = `${model.client}, ${model.method} after round ${model.round}`;
  document.title = `${model.client} · perfed`;
  const scores = model.scores;
  const said = scores ? `${scores.right} of ${scores.count} of its own test samples were right: ${percent(scores.accuracy)}, ${percent(scores.interval[0])} to ${percent(scores.interval[1])} with 95 % certainty. It was tried on no other data.` : "";
  byId("about").textContent = `Takes ${taken(model.input)}; ${model.task === "classification" ? `tells ${model.classes.length} classes apart` : `for ${model.task}`}. ${said}`;
}

function example(item) {
  const one = item.contentEncoding ? "BASE64" : item.type === "string" ? "a text" : item.type === "array" ? [0]
    : Object.fromEntries(Object.entries(item.properties).map(([name, kind]) => [name, kind.examples ? kind.examples[0] : kind.type.includes("boolean") ? true : 0]));
  const secret = seen.token ? ' -H "Authorization: Bearer TOKEN"' : "";
  const body = JSON.stringify({ inputs: [one] }).replaceAll("'", "\\u0027"); // inside the shell's quotes
  return `curl ${location.origin}/predict -H "Content-Type: application/json"${secret} -d '${body}'`;
}

async function begin() {
  try {
    const health = await ask("health");
    if (health.token && !seen.token) {
      byId("token").hidden = false;
      say("this model asks for a token");
      byId("secret").focus();
      return;
    }
    seen.schema = await ask("schema");
  } catch (error) {
    seen.token = "";
    say(error.message, true);
    return;
  }
  byId("token").hidden = true;
  const item = seen.schema.body.properties.inputs.items;
  about(seen.schema);
  byId("fields").replaceChildren();
  drawForm(item);
  byId("command").textContent = example(item);
  byId("links").hidden = Boolean(seen.token); // a browser that follows a link brings no token
  byId("ask").hidden = byId("how").hidden = false;
  say("ready");
}

byId("token").addEventListener("submit", (event) => {
  event.preventDefault();
  seen.token = byId("secret").value.trim();
  begin();
});

byId("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = byId("ask").querySelector("button");
  button.disabled = true;
  try {
    const asked = await inputs(seen.schema.body.properties.inputs.items);
    const body = JSON.stringify({ inputs: asked.inputs });
    const found = await ask("predict", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    byId("answer").replaceChildren(...found.predictions.map((one, at) => drawAnswer(one, asked.shown[at])));
    byId("answer").focus();
    say("ready");
  } catch (error) {
    byId("answer").replaceChildren(el("p", { class: "wrong" }, error.message));
  }
  button.disabled = false;
});

begin();
