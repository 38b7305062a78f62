// Numbers, sizes and times as people read them, and elements made of text. Nothing here, or anywhere on the page, makes
// markup of what it is told: the page's headers forbid it.

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

/** Sets a text where it is another: what is unchanged is not read out again. */
export function say(node, text) {
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

/** Milliseconds in their largest unit. */
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

// The daemon's clock counts, and a browser's may be off.
let ahead = 0;

/** Takes over the daemon's time. */
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

/** A moment by this browser's clock; the day only where it is not today. */
export function moment(at) {
  const date = new Date(at);
  const time = `${two(date.getHours())}:${two(date.getMinutes())}`;
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return date.toDateString() === new Date(clock()).toDateString() ? time : `${day} ${time}`;
}

/** An element that says how long ago something was, and goes on saying it. */
export function ago(text, none = "never") {
  if (!text) return h("span", { class: "quiet" }, none);
  const at = Date.parse(text);
  return h("time", { datetime: text, title: `${moment(at)} (${text})`, "data-at": at }, when(at));
}

/** Lets every such element say it anew. */
export function tick() {
  for (const node of document.querySelectorAll("time[data-at]")) say(node, when(Number(node.dataset.at)));
}

/** The browser's zone, for people. */
export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
