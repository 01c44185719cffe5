"use strict";
// Opens what a link leads to, and draws graphs: the list of a graph's operations is all that a drawing is made of.

const root = document.documentElement;
document.getElementById("theme").onclick = () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
};

/** Text that was deflated: long parts of the page are, until somebody looks. */
async function inflate(packed) {
  const bytes = Uint8Array.from(atob(packed.textContent.trim()), (each) => each.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
}

async function unpack(details) {
  const packed = details.querySelector(":scope > script.packed");
  if (!packed) return;
  const made = document.createElement("template");
  made.innerHTML = await inflate(packed);
  if (packed.isConnected) packed.replaceWith(made.content);
}
addEventListener("toggle", (event) => event.target.open && unpack(event.target), true);

async function open(target) {
  for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  const first = target.classList.contains("segment") && target.querySelector(".sub");
  if (first) first.open = true;
  await unpack(target);
  target.scrollIntoView();
  const graph = target.querySelector(":scope > .graph");
  if (graph) await draw(graph);
}
const follow = () => {
  const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  if (target && target.tagName === "DETAILS") open(target);
};
addEventListener("hashchange", follow);
addEventListener("DOMContentLoaded", follow);

async function unfold(part) {
  for (const each of part.querySelectorAll("details:not([open])")) {
    await unpack(each);
    each.open = true;
    await unfold(each);
  }
}
document.getElementById("unfold").onclick = () => unfold(document.getElementById("source"));

document.getElementById("source").addEventListener("click", (event) => {
  const line = event.target.closest(".ln[data-s]");
  if (!line || event.target.closest("a") || String(getSelection())) return;
  const target = document.getElementById("s" + line.dataset.s);
  if (location.hash === "#" + target.id) open(target);
  else location.hash = target.id;
});

let library;
async function layout() {
  library ??= inflate(document.getElementById("dagre"))
    .then((text) => import(URL.createObjectURL(new Blob([text], { type: "text/javascript" }))));
  return library;
}

const SVG = "http://www.w3.org/2000/svg";
function element(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (parent) parent.append(made);
  return made;
}

/** What a box says: the operation's last name and the shape of its result. */
function box(row, index) {
  const call = row.querySelector("code").textContent;
  const made = call.split(" = ").slice(1).join(" = ");
  const target = row.classList.contains("output") ? "output" : (made.match(/^[\w.]+/) || [row.dataset.n])[0];
  const operator = target.match(/^aten\.(\w+)/);
  const words = row.classList.contains("input") ? row.dataset.n : operator ? operator[1] : target.split(".").slice(-1)[0];
  const shape = row.querySelector("u") ? row.querySelector("u").textContent : "";
  const label = words.length > 30 ? words.slice(0, 29) + "…" : words;
  const below = shape.length > 34 ? shape.slice(0, 33) + "…" : shape;
  return { v: String(index), label, shape: below, row, width: Math.max(label.length * 7.2, below.length * 6.6) + 16, height: below ? 36 : 24 };
}

async function draw(graph) {
  const canvas = graph.querySelector(".canvas");
  const rows = [...graph.querySelectorAll(".code > li")];
  const inputs = graph.querySelector(".inputs").checked;
  const shown = new Set(rows.keys());
  if (!inputs) rows.forEach((row, index) => row.classList.contains("input") && shown.delete(index));
  const nodes = [...shown].map((index) => box(rows[index], index));
  const edges = [];
  rows.forEach((row, index) => {
    for (const from of (row.dataset.i || "").split(" ").filter(Boolean))
      if (shown.has(index) && shown.has(Number(from)))
        edges.push({ v: from, w: String(index), minlen: 1, weight: 1, width: 0, height: 0, labeloffset: 10, labelpos: "r" });
  });
  canvas.hidden = false;
  canvas.textContent = "Laying out " + nodes.length + " operations …";
  const { layout: place } = await layout();
  await new Promise((done) => setTimeout(done));
  const by = Object.fromEntries(nodes.map((node) => [node.v, node]));
  const sized = nodes.map(({ v, width, height }) => ({ v, width, height, parent: null }));
  place(sized, edges, { nodesep: 18, ranksep: 26, ranker: nodes.length > 600 ? "longest-path" : undefined }, {});
  const svg = element("svg", {});
  const all = element("g", {}, svg);
  let right = 0, bottom = 0;
  for (const edge of edges) {
    const points = (edge.points || []).map((point) => point.x.toFixed(1) + "," + point.y.toFixed(1));
    element("path", { d: "M" + points.join("L") }, all);
  }
  for (const { v, x, y } of sized) {
    const { label, shape, row, width, height } = by[v];
    const node = element("g", { class: "node " + row.className, transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`, "data-v": v }, all);
    element("rect", { x: -width / 2, y: -height / 2, width, height, rx: 5 }, node);
    element("text", { y: shape ? -3 : 4 }, node).textContent = label;
    if (shape) element("text", { y: 12, class: "shape" }, node).textContent = shape;
    element("title", {}, node).textContent = row.textContent;
    node.onclick = () => {
      for (const lit of graph.querySelectorAll(".lit")) lit.classList.remove("lit");
      node.classList.add("lit");
      row.classList.add("lit");
      row.scrollIntoView({ block: "nearest" });
    };
    right = Math.max(right, x + width / 2);
    bottom = Math.max(bottom, y + height / 2);
  }
  canvas.replaceChildren(svg);
  canvas.dataset.nodes = nodes.length;
  move(svg, right, bottom, canvas);
}

/** Wheel and buttons zoom, dragging moves; two fingers do both. */
function move(svg, right, bottom, canvas) {
  const scale = Math.max(0.35, Math.min(1, canvas.clientWidth / (right + 24)));
  const view = { w: canvas.clientWidth / scale, h: canvas.clientHeight / scale };
  view.x = (right - view.w) / 2;
  view.y = -12;
  const show = () => svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.w} ${view.h}`);
  const zoom = (by, x, y) => {
    view.x += x * view.w * (1 - by);
    view.y += y * view.h * (1 - by);
    view.w *= by;
    view.h *= by;
    show();
  };
  const held = new Map();
  svg.onwheel = (event) => {
    event.preventDefault();
    const at = svg.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, (event.clientX - at.left) / at.width, (event.clientY - at.top) / at.height);
  };
  svg.onpointerdown = (event) => held.set(event.pointerId, event);
  addEventListener("pointerup", (event) => held.delete(event.pointerId));
  addEventListener("pointercancel", (event) => held.delete(event.pointerId));
  svg.onpointermove = (event) => {
    const before = held.get(event.pointerId);
    if (!before) return;
    const spread = () => {
      const [a, b] = [...held.values()];
      return Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY) || 1;
    };
    const was = held.size === 2 ? spread() : 0;
    held.set(event.pointerId, event);
    if (was) return zoom(was / spread(), 0.5, 0.5);
    view.x -= (event.clientX - before.clientX) * (view.w / svg.clientWidth);
    view.y -= (event.clientY - before.clientY) * (view.h / svg.clientHeight);
    show();
  };
  show();
}

document.getElementById("segments").addEventListener("click", (event) => {
  const graph = event.target.closest(".graph");
  if (!graph) return;
  const drawn = !graph.querySelector(".canvas").hidden;
  if (event.target.closest(".draw") || (drawn && event.target.closest(".inputs"))) draw(graph);
});
