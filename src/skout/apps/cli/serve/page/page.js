"use strict";
// The page of `skout serve`. Texts of models and requests enter as text nodes, never as HTML.

const MOST_FIELDS = 30; // columns that have a field each
const MOST_SHOWN = 25; // rows that are shown; the CSV has all
const FEW = 3; // spectra that are shown without an overview
const MOST_OPTIONS = 60; // values of a column that are in a list; of more, some are suggested
const MOST_BARS = 12; // classes or labels whose probability is drawn
const EXPLAINED = 3; // hits whose peaks are explained
const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);
let about = null;
let last = null; // the request whose answer is shown

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function say(text, bad = false) {
  byId("status").textContent = text;
  byId("status").classList.toggle("bad", bad);
}

async function ask(path, body, accept = "application/json") {
  const answer = await fetch(path, {
    method: body ? "POST" : "GET",
    headers: body ? { "Content-Type": "application/json", Accept: accept } : {},
    body: body ? JSON.stringify(body) : undefined,
  });
  if (answer.ok) return accept === "text/csv" ? answer.blob() : answer.json();
  let text = `The server answers ${answer.status}.`;
  try {
    text = (await answer.json()).error.message;
  } catch {
    // no JSON: the status says enough
  }
  throw new Error(text);
}

// The form ---------------------------------------------------------------------------------------

function fileInput(id, label, accept, use) {
  const input = el("input", { type: "file", id, accept });
  input.addEventListener("change", () => {
    if (input.files.length) use(input.files[0]);
  });
  return el("label", { for: id }, label, input);
}

function dropZone(use, ...children) {
  const zone = el("div", { class: "drop" }, ...children);
  zone.addEventListener("dragover", (event) => {
    event.preventDefault();
    zone.classList.add("over");
  });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    const file = event.dataTransfer.files[0];
    const text = event.dataTransfer.getData("text/plain");
    if (file) use(file);
    else if (text) use(new Blob([text]));
  });
  return zone;
}

async function readInto(id, file) {
  if (file.size > about.limits.megabytes * 1e6) {
    say(`The file is larger than ${about.limits.megabytes} MB.`, true);
    return;
  }
  byId(id).value = await file.text();
  byId(id).closest("details")?.setAttribute("open", "");
  say(`Read ${file.name || "the text"}.`);
}

function textArea(id, label, hint, accept, fileLabel) {
  const use = (file) => readInto(id, file);
  return dropZone(
    use,
    el("label", { for: id }, label, " ", el("span", { class: "hint" }, hint)),
    el("textarea", { id, spellcheck: "false" }),
    fileInput(`${id}-file`, fileLabel, accept, use),
  );
}

function numberOption(id, label, value, attributes) {
  const input = el("input", { id, type: "number", value, ...attributes });
  return el("label", { for: id }, label, input);
}

function tableArea(open) {
  const names = about.inputs.columns;
  const shown = names.slice(0, 8).join(",") + (names.length > 8 ? ",…" : "");
  const hint = `first line: ${shown} (${names.length} columns)`;
  const area = textArea("table", "Rows as CSV", hint, ".csv,.tsv,.txt", "or a CSV file, here or dropped");
  if (open) return area;
  return el("details", {}, el("summary", {}, "Many rows"), area);
}

// A name that may be broken after _ and -, and not inside of words.
function breakable(name) {
  return name.split(/(?<=[_\-./])/).flatMap((part) => [part, el("wbr")]);
}

// What a column is entered with: a list of its values, a number, or text.
function inputOf({ number, values, example }, id) {
  if (number) {
    return [el("input", { id, type: "number", step: "any", inputmode: "decimal", value: example })];
  }
  if (!values.length) return [el("input", { id, type: "text", value: example })];
  if (values.length > MOST_OPTIONS) {
    const list = el("datalist", { id: `${id}-values` }, ...values.map((value) => el("option", { value })));
    return [el("input", { id, type: "text", list: `${id}-values`, value: example }), list];
  }
  const options = values.map((value) => el("option", { value, selected: value === example ? "" : null }, value));
  return [el("select", { id }, el("option", { value: "" }, "(missing)"), ...options)];
}

function buildTableForm() {
  const { columns, text, image } = about.inputs;
  const fields = byId("fields");
  if (image) {
    fields.append(buildCanvas(image), tableArea(false));
  } else if (text) {
    const label = el("label", { for: "text" }, columns[0]);
    fields.append(label, el("textarea", { id: "text" }), tableArea(false));
  } else if (columns.length <= MOST_FIELDS) {
    const grid = el("div", { class: "grid" });
    about.inputs.fields.forEach((field, j) => {
      const name = el("span", { class: "column" }, ...breakable(field.name));
      grid.append(el("label", { for: `x${j}` }, name, ...inputOf(field, `x${j}`)));
    });
    const typical = about.inputs.fields.some((field) => field.example !== null);
    const hint = "Filled with typical values of the training rows: change what you know.";
    fields.append(...(typical ? [el("p", { class: "hint" }, hint)] : []), grid, tableArea(false));
  } else {
    fields.append(tableArea(true));
  }
  if (about.candidates) {
    const most = Math.min(about.candidates, about.limits.candidates);
    byId("options").append(numberOption("top", "Candidates to show", Math.min(10, most), { min: 1, max: most }));
  }
}

function buildSpectraForm() {
  byId("fields").append(
    textArea("spectra", "Spectra", "MGF, MSP, MassBank, .ms or JSON of GNPS", ".mgf,.msp,.txt,.ms,.json", "or a file, here or dropped"),
  );
  const most = about.limits.candidates;
  byId("options").append(
    numberOption("top", "Candidates to show", Math.min(10, most), { min: 1, max: most }),
    numberOption("ppm", "Mass error (ppm)", 10, { min: 0.1, max: 100, step: "any" }),
    el("label", { for: "adduct" }, "Adduct ", el("span", { class: "hint" }, "if not given"),
      el("input", { id: "adduct", type: "text", placeholder: "[M+H]+,[M-H]-" })),
  );
}

// An image as input: drawn with a pointer, or from a file.
function buildCanvas({ height, width }) {
  const canvas = el("canvas", {
    id: "canvas", width, height, role: "img", "aria-label": `Drawing, ${height} by ${width} pixels`,
  });
  const scale = Math.max(1, Math.floor(280 / Math.max(height, width)));
  canvas.style.width = `${width * scale}px`;
  const paint = canvas.getContext("2d", { willReadFrequently: true });
  const clear = () => {
    paint.fillStyle = "#000";
    paint.fillRect(0, 0, width, height);
  };
  clear();
  canvas.addEventListener("pointermove", (event) => {
    if (!event.buttons) return;
    const box = canvas.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * width;
    const y = ((event.clientY - box.top) / box.height) * height;
    const thick = Math.max(1, Math.min(height, width) / 8);
    paint.fillStyle = "#fff";
    paint.fillRect(Math.round(x - thick / 2), Math.round(y - thick / 2), Math.ceil(thick), Math.ceil(thick));
  });
  const use = async (file) => {
    try {
      const picture = await createImageBitmap(file);
      paint.drawImage(picture, 0, 0, width, height);
      say("Read the image.");
    } catch {
      say("This is no image that the browser can read.", true);
    }
  };
  const wipe = el("button", { type: "button", class: "second small" }, "Clear");
  wipe.addEventListener("click", clear);
  return dropZone(
    use,
    el("p", { class: "hint" }, "Draw, or drop an image; white on black."),
    canvas,
    el("div", {}, wipe),
    fileInput("image-file", "or an image file", "image/*", use),
  );
}

function pixels({ height, width, low, high }) {
  const data = byId("canvas").getContext("2d").getImageData(0, 0, width, height).data;
  const values = [];
  for (let i = 0; i < data.length; i += 4) {
    const grey = (0.299 * data[i] + 0.587 * data[i + 1] + 0.114 * data[i + 2]) / 255;
    values.push(low + grey * (high - low));
  }
  return values;
}

// What the form says, as the body of a request.
function request() {
  if (about.kind === "spectra") {
    const body = { spectra: byId("spectra").value, top: Number(byId("top").value) };
    body.ppm = Number(byId("ppm").value);
    if (byId("adduct").value.trim()) body.adduct = byId("adduct").value.trim();
    return body;
  }
  if (byId("table")?.value.trim()) return { table: byId("table").value };
  const { columns, text, image } = about.inputs;
  if (text) return { rows: [{ [columns[0]]: byId("text").value }] };
  const row = {};
  if (image) {
    pixels(image).forEach((value, j) => { row[columns[j]] = value; });
  } else {
    about.inputs.fields.forEach(({ name, number }, j) => {
      const value = byId(`x${j}`)?.value ?? "";
      row[name] = value === "" ? null : number ? Number(value) : value;
    });
  }
  return { rows: [row] };
}

// Results ----------------------------------------------------------------------------------------

// Three digits: 0.170, 1, 1,240.
function short(x) {
  if (x === null) return "–";
  const shown = Number(x.toPrecision(3));
  if (Number.isInteger(shown)) return shown.toLocaleString("en-US");
  return Math.abs(shown) < 1e-3 ? shown.toString() : x.toPrecision(3);
}

// A predicted number: four digits, or all of those before its point; 1987 and 60,067.
function written(x) {
  if (x === null) return "–";
  const large = Math.abs(x) >= 9999.5;
  return large ? Math.round(x).toLocaleString("en-US") : Number(x.toPrecision(4)).toString();
}

function bar(value, low, high, name = null) {
  const share = value === null || high <= low ? 1 : (value - low) / (high - low);
  const fill = el("span", { class: "fill" });
  fill.style.width = `${100 * Math.max(0.005, share)}%`;
  return el("div", { class: "bar" },
    name === null ? null : el("span", { class: "name" }, name),
    el("span", { class: "track", "aria-hidden": "true" }, fill),
    el("span", { class: "number" }, short(value)));
}

// Numbers of either sign: zero lies between the largest and the smallest.
function signedBars(values) {
  const numbers = values.map(([, value]) => value);
  const low = Math.min(0, ...numbers);
  const high = Math.max(0, ...numbers);
  const width = high - low || 1;
  return values.map(([name, value]) => {
    const line = bar(value, low, high, name);
    line.querySelector(".number").textContent = written(value);
    const fill = line.querySelector(".fill");
    line.querySelector(".track").classList.add("signed");
    fill.style.left = `${(100 * (Math.min(0, value) - low)) / width}%`;
    fill.style.width = `${(100 * Math.abs(value)) / width}%`;
    return line;
  });
}

function pictureOf({ height, width, low, high }, values) {
  const canvas = el("canvas", { width, height, role: "img", "aria-label": "Predicted image" });
  canvas.style.width = `${width * Math.max(1, Math.floor(160 / Math.max(height, width)))}px`;
  const paint = canvas.getContext("2d");
  const data = paint.createImageData(width, height);
  values.forEach((value, i) => {
    const grey = (255 * (value - low)) / (high - low || 1);
    data.data.set([grey, grey, grey, 255], 4 * i);
  });
  paint.putImageData(data, 0, 0);
  return canvas;
}

function molecule(smiles, drawing) {
  if (!drawing) return el("code", {}, smiles);
  const source = `data:image/svg+xml,${encodeURIComponent(drawing)}`;
  return el("img", { class: "molecule", src: source, alt: `Structure of ${smiles}`, width: 260, height: 190 });
}

function chips(names) {
  if (!names.length) return el("p", { class: "soft" }, "no label");
  return el("ul", { class: "chips", "aria-label": "labels" }, ...names.map((name) => el("li", {}, name)));
}

function order(names) {
  return el("ol", { class: "order" }, ...names.map((name) => el("li", {}, name)));
}

// A candidate, or a predicted cell, in the style of its kind.
function shown(text, drawing, { kind, style, separator } = about.outputs) {
  if (kind === "classes") return el("p", { class: "class" }, text);
  const words = text.split(separator).filter(Boolean);
  return style === "chips" ? chips(words) : style === "order" ? order(words) : molecule(text, drawing);
}

function prediction(row) {
  if (about.targets.length === 1) return predictionOf(about.targets[0], row);
  return about.targets.flatMap((target) => [
    el("h3", {}, target.target), ...predictionOf(target, row),
    ...(target.probabilities ? probabilityBars(row.probabilities[target.target]) : []),
  ]);
}

function predictionOf(target, row) {
  const { style, columns, text, image } = target;
  if (image) return [pictureOf(image, columns.map((name) => row[name]))];
  if (text) return [shown(String(row[columns[0]]), null, target)];
  if (style === "chips") return [chips(columns.filter((name) => row[name]))];
  if (style === "order") return [order([...columns].sort((a, b) => row[a] - row[b]))]; // of ranks
  if (columns.length === 1) return [el("p", { class: "class" }, written(row[columns[0]]))];
  return signedBars(columns.map((name) => [name, row[name]]));
}

// Probabilities, the greatest first; the axis is from 0 to 1.
function probabilityBars(probabilities) {
  const sorted = Object.entries(probabilities).sort((a, b) => b[1] - a[1]);
  const bars = sorted.slice(0, MOST_BARS).map(([name, value]) => bar(value, 0, 1, name));
  const more = sorted.length - bars.length;
  return [el("h3", {}, "Probabilities"), ...bars,
    ...(more ? [el("p", { class: "soft" }, `and ${more} more in the CSV`)] : [])];
}

function candidateList(candidates) {
  const drawn = candidates.some((one) => one.svg);
  const list = el("ol", { class: `candidates ${drawn ? "drawn" : "plain"}` });
  for (const one of candidates) {
    list.append(el("li", {},
      el("span", { class: "rank" }, `${one.rank}.`),
      shown(one.candidate, one.svg),
      one.svg ? el("code", {}, one.candidate) : null,
      el("div", { class: "bar soft" }, "score", el("span", { class: "number" }, short(one.score)))));
  }
  return list;
}

function showRows(predicted, ranked) {
  const total = predicted.rows.length;
  const cards = predicted.rows.slice(0, MOST_SHOWN).map((row, i) => {
    const card = el("article", {}, el("h2", {}, total > 1 ? `Row ${i + 1}` : "Prediction"));
    card.append(...prediction(row));
    if (row.probabilities && about.targets.length === 1) card.append(...probabilityBars(row.probabilities));
    if (ranked) {
      const what = { chips: "set", order: "ranking" }[about.outputs.style];
      const other = ` The predicted ${what} may differ from the first of these, if the model searches all ${what}s.`;
      const hint = `Scores only rank; they are no probabilities.${what ? other : ""}`;
      card.append(el("h3", {}, "Best candidates"), el("p", { class: "soft" }, hint), candidateList(ranked.rows[i].candidates));
    }
    return card;
  });
  const notes = predicted.unseen.map((value) => el("li", {}, value.note));
  if (notes.length) cards.unshift(el("ul", { class: "notes", role: "note" }, ...notes));
  byId("results").replaceChildren(...cards);
  say(total > MOST_SHOWN ? `${total} rows; the first ${MOST_SHOWN} are shown, the CSV has all.` : done(total, "row"));
}

function done(n, what) {
  return `${n} ${what}${n === 1 ? "" : "s"} predicted.`;
}

// Spectra ----------------------------------------------------------------------------------------

function hitCard(hit, explain) {
  const facts = el("dl", {});
  const known = [["name", hit.name], ["formula", hit.formula], ["mass", hit.mass && hit.mass.toFixed(4)]];
  for (const [name, value] of known) {
    if (value) facts.append(el("dt", {}, name), el("dd", {}, value));
  }
  const card = el("li", { class: hit.in_set ? "in-set" : null },
    el("span", { class: "rank" }, `${hit.rank}. `),
    hit.in_set ? el("span", { class: "badge" }, `in the ${100 * about.coverage} % set`) : null,
    molecule(hit.smiles, hit.svg),
    hit.svg ? el("code", {}, hit.smiles) : null,
    facts,
    bar(hit.confidence, 0, 1, "confidence"),
    el("div", { class: "soft" }, `score ${short(hit.score)}`));
  if (explain) {
    const button = el("button", { type: "button", class: "second small", "aria-pressed": "false" }, "Peaks");
    button.setAttribute("aria-label", `Show the peaks that candidate ${hit.rank} explains`);
    button.addEventListener("click", () => explain(button));
    card.append(button);
  }
  return card;
}

// Above the axis all peaks; below it those that fragments of the candidate explain.
function peaksPlot({ peaks, share }, width) {
  const [height, left, middle] = [300, 10, 150];
  const largest = Math.max(1, ...peaks.map((peak) => peak.mz)) * 1.05;
  const tallest = Math.max(1e-300, ...peaks.map((peak) => peak.intensity));
  const tall = (intensity) => 110 * Math.sqrt(intensity / tallest); // small peaks tell too
  const x = (mz) => left + ((width - 2 * left) * mz) / largest;
  const said = `${Math.round(100 * share)} % of the intensity explained`;
  const label = `${peaks.length} peaks, ${said}`;
  const plot = svg("svg", {
    class: "peaks", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label,
  });
  const line = (kind, { mz, intensity, formula, error_ppm: error, fragment }, way) => {
    const part = fragment ? `${fragment.smiles}, ` : "";
    const name = formula ? `${formula}, ${error.toFixed(1)} ppm, ${part}` : "";
    const end = middle + way * tall(intensity);
    const ends = { x1: x(mz), x2: x(mz), y1: middle, y2: end };
    const title = svg("title", {}, `${name}m/z ${mz.toFixed(4)}`);
    return svg("line", { class: kind, "stroke-width": 2, ...ends }, title);
  };
  const explained = peaks.filter((peak) => peak.formula);
  plot.append(...peaks.map((peak) => line(peak.formula ? "explained" : "other", peak, -1)));
  plot.append(...explained.map((peak) => line("explained", peak, 1)));
  const axis = { class: "axis", x1: left, x2: width - left, y1: middle, y2: middle };
  const named = explained.map((peak) => [tall(peak.intensity), peak.mz, peak.formula]);
  plot.append(svg("line", axis), ...labels(named, x, middle, width));
  plot.append(svg("text", { x: left, y: 14 }, `${peaks.length} peaks, heights are square roots`));
  plot.append(svg("text", { x: left, y: height - 6 }, said));
  return plot;
}

// The names of the tallest explained peaks, where they do not cover each other.
function labels(named, x, middle, width) {
  const taken = [];
  const made = [];
  for (const [length, mz, formula] of named.sort((a, b) => b[0] - a[0])) {
    const text = `${formula} ${mz.toFixed(3)}`;
    const half = 3.7 * text.length;
    const at = Math.min(Math.max(x(mz), half), width - half);
    if (made.length >= 8 || taken.some(([other, size]) => Math.abs(other - at) < size + half)) continue;
    taken.push([at, half]);
    made.push(svg("text", { x: at, y: middle + length + 13, "text-anchor": "middle" }, text));
  }
  return made;
}

function titleOf(found) {
  return /^\d+$/.test(found.query) ? `Spectrum ${found.query}` : found.query;
}

function best(found) {
  const [hit] = found.hits;
  return hit ? hit.name || hit.formula || hit.smiles : found.note;
}

// All spectra, the surest first, with links to those that are shown.
function overview(all) {
  const sure = (found) => (found.hits.length ? found.hits[0].confidence : -1);
  const order = all.map((found, i) => [found, i]).sort((a, b) => sure(b[0]) - sure(a[0]));
  const head = ["spectrum", "best candidate", "confidence", "candidates"];
  const rows = order.map(([found, i]) => {
    const link = el("a", { href: `#spectrum-${i}` }, titleOf(found));
    link.addEventListener("click", () => { byId(`spectrum-${i}`).querySelector("details").open = true; });
    return el("tr", {},
      el("td", {}, i < MOST_SHOWN ? link : titleOf(found)),
      el("td", {}, best(found)),
      el("td", {}, found.hits.length ? bar(sure(found), 0, 1) : ""),
      el("td", { class: "wide" }, String(found.n_candidates)));
  });
  const names = head.map((name) => el("th", { class: name === "candidates" ? "wide" : null }, name));
  return el("article", {}, el("h2", {}, "Overview"),
    el("table", { class: "overview" }, el("thead", {}, el("tr", {}, ...names)), el("tbody", {}, ...rows)));
}

// Among many spectra a card is folded up, and its peaks are drawn when it is opened.
function spectrumCard(found, number, all) {
  const card = all.length > FEW ? el("details", {},
    el("summary", {}, el("h2", {}, titleOf(found)), el("span", { class: "soft" }, best(found)))) :
    el("div", {}, el("h2", {}, titleOf(found)));
  card.addEventListener("toggle", () => {
    if (card.open && !place.hasChildNodes()) list.querySelector("button")?.click();
  });
  const facts = [
    found.precursor_mz === null ? null : `m/z ${found.precursor_mz.toFixed(4)}`,
    found.adduct, `${found.n_candidates} candidates`,
    `${found.n_in_set} in the ${100 * about.coverage} % prediction set`,
  ];
  card.append(el("p", { class: "soft" }, facts.filter(Boolean).join(" · ")));
  if (found.note) card.append(el("p", {}, found.note));
  const place = el("div", {});
  const list = el("ol", { class: "candidates drawn" });
  found.hits.forEach((hit, i) => {
    const explanation = found.explanations[i];
    const show = explanation && ((button) => {
      for (const other of list.querySelectorAll("button")) other.setAttribute("aria-pressed", "false");
      button.setAttribute("aria-pressed", "true");
      const width = Math.min(640, Math.max(260, place.clientWidth || card.clientWidth || 640));
      const head = el("h3", {}, `Peaks and candidate ${hit.rank}`);
      place.replaceChildren(head, peaksPlot(explanation, width));
    });
    list.append(hitCard(hit, show));
  });
  card.append(place, list);
  return el("article", { id: `spectrum-${number}` }, card);
}

function showSpectra(answer) {
  const all = answer.spectra;
  const cards = all.slice(0, MOST_SHOWN).map((found, i) => spectrumCard(found, i, all));
  byId("results").replaceChildren(...(all.length > FEW ? [overview(all)] : []), ...cards);
  for (const list of all.length > FEW ? [] : byId("results").querySelectorAll(".candidates")) {
    list.querySelector("button")?.click(); // now that it has a width
  }
  say(all.length > MOST_SHOWN
    ? `${all.length} spectra; the first ${MOST_SHOWN} are shown, the CSV has all.`
    : `${all.length} spectr${all.length === 1 ? "um" : "a"} searched.`);
}

// Go ---------------------------------------------------------------------------------------------

// The model may have been replaced since the page was opened.
async function follow(answer) {
  if (answer.model === about.model) return;
  about = await ask("api/model");
  byId("model").textContent = about.model;
}

async function predict(body) {
  if (about.kind === "spectra") {
    const found = await ask("api/identify", { ...body, draw: true, explain: EXPLAINED });
    last = ["api/identify", body];
    await follow(found);
    showSpectra(found);
    return;
  }
  const wanted = about.targets.some((target) => target.probabilities) ? { ...body, proba: true } : body;
  const predicted = await ask("api/predict", wanted);
  last = ["api/predict", wanted];
  await follow(predicted);
  let ranked = null;
  if (about.candidates) {
    const asked = { ...body, top: Number(byId("top").value) };
    ranked = await ask("api/rank", { ...asked, draw: true });
    last = ["api/rank", asked];
  }
  showRows(predicted, ranked);
}

async function submit(event) {
  event.preventDefault();
  byId("go").disabled = true;
  say("Working …");
  try {
    await predict(request());
    byId("csv").hidden = false;
    byId("results").focus({ preventScroll: false });
  } catch (error) {
    say(error.message, true);
  } finally {
    byId("go").disabled = false;
  }
}

async function download() {
  try {
    const blob = await ask(...last, "text/csv");
    const link = el("a", { href: URL.createObjectURL(blob), download: "skout.csv" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    say("The CSV is downloaded.");
  } catch (error) {
    say(error.message, true);
  }
}

async function start() {
  try {
    about = await ask("api/model");
  } catch (error) {
    say(error.message, true);
    return;
  }
  const targets = (about.targets || []).map(({ target, name }) => `${target} (${name})`);
  byId("what").textContent = about.kind === "spectra" ? "names molecules" : `predicts ${targets.join(", ")}`;
  byId("summary").textContent = about.summary;
  byId("model").textContent = about.model;
  (about.kind === "spectra" ? buildSpectraForm : buildTableForm)();
  if (about.kind === "spectra") byId("go").textContent = "Identify";
  byId("form").addEventListener("submit", submit);
  byId("csv").addEventListener("click", download);
  byId("go").disabled = false;
  say("");
}

start();
