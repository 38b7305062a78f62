// Formats numbers, sizes and times, and builds elements from text. Nothing on the page turns data into markup; the
// page's headers forbid it.

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child instanceof Node || typeof child === "string"));
  return node;
}

/** An element. Children are elements and texts. */
export const h = (name, attributes = {}, ...children) => filled(document.createElement(name), attributes, children);

/** An element of a drawing. */
export const s = (name, attributes = {}, ...children) => filled(document.createElementNS(SVG, name), attributes, children);

export const byId = (id) => document.getElementById(id);

/** Sets a node's text if it differs, so that screen readers do not announce unchanged text. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export const count = (number) => number.toLocaleString("en");

export function bytes(size) {
  const units = ["KiB", "MiB", "GiB", "TiB"];
  if (size < 1024) return `${size} B`;
  let unit = -1;
  while (size >= 1023.95 && unit + 1 < units.length) {
    size /= 1024;
    unit += 1;
  }
  return `${size.toFixed(1)} ${units[unit]}`;
}

/** A duration in its largest unit. */
function rough(ms) {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** How long something took. */
export function took(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${(ms / 1000).toFixed(ms < 10000 ? 1 : 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

// Times are relative to the daemon's clock; the browser's may be wrong.
let ahead = 0;

/** Synchronizes with the daemon's clock. */
export function setClock(now) {
  ahead = Date.parse(now) - Date.now();
}

/** The daemon's time, in milliseconds. */
export const clock = () => Date.now() + ahead;

/** When something happened or will: "just now", "4 min ago", "in 20 s". */
export function when(at) {
  const passed = clock() - at;
  if (Math.abs(passed) < 2000) return passed >= 0 ? "just now" : "now";
  return passed >= 0 ? `${rough(passed)} ago` : `in ${rough(-passed)}`;
}

const two = (number) => String(number).padStart(2, "0");

/** A time in the browser's time zone; with the day if it is not today. */
export function moment(at) {
  const date = new Date(at);
  const time = `${two(date.getHours())}:${two(date.getMinutes())}`;
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return date.toDateString() === new Date(clock()).toDateString() ? time : `${day} ${time}`;
}

/** An element that shows how long ago something happened; `tick` keeps it current. */
export function ago(text, none = "never") {
  if (!text) return h("span", { class: "muted" }, none);
  const at = Date.parse(text);
  return h("time", { datetime: text, title: `${moment(at)} (${text})`, "data-at": at }, when(at));
}

/** Updates every element made by `ago`. */
export function tick() {
  for (const node of document.querySelectorAll("time[data-at]")) setText(node, when(Number(node.dataset.at)));
}

/** The name of the browser's time zone. */
export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
