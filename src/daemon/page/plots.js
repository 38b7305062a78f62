// The plots. Each replaces the previous one in its box and fills the box's width.

import { byId, clock, count, moment, s, took } from "/text.js";

const drawn = new Map();
const widths = new ResizeObserver((boxes) => {
  for (const { target } of boxes) draw(target);
});

function draw(box) {
  const width = Math.floor(box.clientWidth);
  const plot = drawn.get(box);
  if (!plot || width < 1 || (plot.width === width && plot.node)) return;
  plot.width = width;
  plot.node = plot.make(width);
  box.replaceChildren(plot.node);
}

/** Draws into a box, now and whenever its width changes. */
function into(id, make) {
  const box = byId(id);
  const known = drawn.has(box);
  drawn.set(box, { make });
  draw(box);
  if (!known) widths.observe(box);
}

const image = (width, height, description, ...children) =>
  s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": description }, ...children);

const label = (x, y, text, attributes = {}) => s("text", { x, y, ...attributes }, text);

const titled = (node, text) => {
  node.append(s("title", {}, text));
  return node;
};

/** A number that is short on an axis: 1,500 is 1.5k. */
function short(number) {
  if (number >= 1e6) return `${+(number / 1e6).toFixed(1)}M`;
  if (number >= 1e4) return `${+(number / 1e3).toFixed(1)}k`;
  return count(number);
}

/** RU spent in each of the last windows. */
export function windows({ windows, used, limit, until }) {
  // For the current window the ledger is more complete than the finished runs.
  const bars = windows.map((window, place) => ({
    at: Date.parse(window.since),
    ru: place + 1 === windows.length ? used : window.ru,
  }));
  const days = until - bars.at(-1).at >= 86_400_000;
  const name = (at) => {
    const date = new Date(at);
    return days ? date.toLocaleDateString("en", { weekday: "short", timeZone: "UTC" }) : moment(at).slice(-5);
  };
  const long = (at) => (days ? new Date(at).toISOString().slice(0, 10) : moment(at));
  const top = Math.max(limit, ...bars.map((bar) => bar.ru), 1);
  const description = `RU by window: ${bars.map((bar) => `${long(bar.at)} ${count(bar.ru)}`).join(", ")}`;
  into("windows", (width) => {
    const [height, head, foot] = [170, 22, 20];
    const step = width / bars.length;
    const bar = Math.min(step * 0.6, 44);
    const y = (ru) => height - foot - (ru / top) * (height - head - foot);
    return image(
      width,
      height,
      description,
      s("line", { class: "limit", x1: 0, x2: width, y1: y(limit), y2: y(limit) }),
      bars.map(({ at, ru }, place) => {
        const middle = place * step + step / 2;
        const last = place + 1 === bars.length;
        const tall = ru > 0 ? Math.max(y(0) - y(ru), 1.5) : 0;
        return [
          titled(
            s("rect", { class: last ? "bar this" : "bar", x: middle - bar / 2, y: y(0) - tall, width: bar, height: tall, rx: 1.5 }),
            `${long(at)}: ${count(ru)} RU`,
          ),
          ru > 0 &&
            label(middle, y(0) - tall - 5, short(ru), { class: last ? "value" : "axis", "text-anchor": "middle" }),
          label(middle, height - 5, name(at), { class: "axis", "text-anchor": "middle" }),
        ];
      }),
      s("line", { class: "base", x1: 0, x2: width, y1: y(0), y2: y(0) }),
    );
  });
}

/** The outcome of a run. A run without an end is the running one if it is the newest and a job runs; else it was killed. */
export function outcome(run, place, running) {
  if (run.outcome) return run.outcome;
  return place === 0 && running ? "running" : "interrupted";
}

/** How long a run took, or has taken so far. */
export function lasted(run, word) {
  const end = run.finished_at ? Date.parse(run.finished_at) : word === "running" ? clock() : null;
  return end === null ? null : Math.max(end - Date.parse(run.started_at), 0);
}

/** The last runs, one bar each: the height is the duration on a logarithmic scale, the style is the outcome. */
export function strip({ runs, running }) {
  const bars = runs.map((run, place) => {
    const word = outcome(run, place, running);
    return { run, word, ms: lasted(run, word) };
  });
  bars.reverse();
  const most = Math.max(10_000, ...bars.map((bar) => bar.ms ?? 0));
  // Durations of ten milliseconds or less have the smallest height.
  const part = (ms) => Math.max(Math.log10(Math.max(ms ?? 0, 10)) - 1, 0.15) / (Math.log10(most) - 1);
  const bad = bars.filter((bar) => ["failed", "refused", "interrupted"].includes(bar.word)).length;
  into("strip", (width) => {
    const [height, head, foot] = [74, 12, 4];
    const step = width / Math.max(50, bars.length);
    const first = width - step * bars.length;
    return image(
      width,
      height,
      `The last ${bars.length} runs; ${bad ? `${bad} of them failed or were interrupted` : "none of them failed"}`,
      s("line", { class: "base", x1: 0, x2: width, y1: height - foot, y2: height - foot }),
      bars.map(({ run, word, ms }, place) => {
        const tall = Math.max(part(ms) * (height - head - foot), 3);
        const x = first + place * step + step * 0.15;
        const wide = step * 0.7;
        const tone = word.replace(" ", "-");
        const middle = x + wide / 2;
        const mark = Math.min(wide / 2, 3.5);
        const cross = height - foot - tall - 6;
        return titled(
          s(
            "g",
            { class: `run ${tone}` },
            s("rect", { x: x - step * 0.15, y: 0, width: step, height: height, class: "hit" }),
            s("rect", { x, y: height - foot - tall, width: wide, height: tall, rx: 1 }),
            (tone === "failed" || tone === "refused") &&
              s("path", {
                class: "mark",
                d: `M${middle - mark},${cross - mark} l${2 * mark},${2 * mark} m0,${-2 * mark} l${-2 * mark},${2 * mark}`,
              }),
          ),
          `Run ${run.id}: ${run.kind}, ${moment(Date.parse(run.started_at))}, ${word}` +
            (ms === null ? "" : ` after ${took(ms)}`) +
            `, ${count(run.ru)} RU` +
            (run.error ? `. ${run.error}` : ""),
        );
      }),
    );
  });
}
