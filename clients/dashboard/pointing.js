// What a chart says of the place at the pointer, or at the keys, and the part of it that is chosen there to be shown larger.
import { h, say } from "./dom.js";
import { count, score } from "./format.js";
import { s, svgOf } from "./svg.js";
import { styleValue } from "./colours.js";

const DRAGGED = 8; // pixels at least: less is a click
const CLOSE = 12; // pixels from a line within which the pointer means it

const nearest = (points, distance) =>
  points.reduce(([best, least], point) => (distance(point) < least ? [point, distance(point)] : [best, least]), [null, Infinity])[0];

// The chart in an element of the page. `plot.data` and `plot.layout` say what is drawn; layout.unified: whether what is said is of
// all lines at the same place; layout.zoom(from, to): shows this part of the horizontal axis, or all without ends;
// layout.light(name): called with the name of the line that the pointer is on, or null.
export class Pointing {
  constructor(plot) {
    this.plot = plot;
    this.tip = h("div", { class: "tip", hidden: true });
    this.said = h("div", { class: "unseen", role: "status" });
    this.at = null; // pixels: where the pointer or the keys are
    plot.addEventListener("pointermove", (event) => this.move(this.place(event)));
    plot.addEventListener("pointerleave", () => this.begun ?? this.leave());
    plot.addEventListener("pointerdown", (event) => this.begin(event));
    plot.addEventListener("pointerup", (event) => this.end(this.place(event)));
    plot.addEventListener("pointercancel", () => this.cancel());
    plot.addEventListener("dblclick", () => plot.layout?.zoom?.());
    plot.addEventListener("keydown", (event) => this.key(event));
    plot.addEventListener("blur", () => this.leave());
  }

  draw(width, height) {
    const { data, layout } = this.plot;
    this.width = width;
    this.height = height;
    this.svg = svgOf(data, layout, width, height);
    this.cursor = this.svg.appendChild(s("g", { "pointer-events": "none" }));
    this.plot.replaceChildren(this.svg, this.tip, this.said);
    if (this.at) this.show();
  }

  place({ clientX, clientY }) {
    const box = this.plot.getBoundingClientRect();
    return [clientX - box.left, clientY - box.top];
  }

  move(at) {
    if (!this.svg) return;
    this.at = at;
    this.show();
  }

  leave() {
    this.at = null;
    this.tip.hidden = true;
    this.cursor?.replaceChildren();
    this.plot.layout?.light?.(null);
  }

  // The points that something is said of: the last ones of all lines up to the nearest place, or the nearest one.
  get points() {
    const [px, py] = this.at;
    const { lines, frame: { left, right } } = this.svg;
    const all = lines.flat();
    if (!this.plot.layout.unified) return [nearest(all.filter(({ isInside }) => isInside), ({ x, y }) => Math.hypot(x - px, y - py))].filter(Boolean);
    const near = nearest(all.filter(({ x }) => x > left - 1 && x < right + 1), ({ x }) => Math.abs(x - px));
    if (!near) return [];
    const found = lines.map((line) => line.filter(({ x }) => x <= near.x + 0.01).at(-1)).filter(Boolean);
    this.near = near;
    return found;
  }

  show() {
    const { unified, light, xaxis } = this.plot.layout;
    const points = this.points;
    this.tip.hidden = points.length === 0;
    if (!points.length) return;
    const near = unified ? this.near : points[0];
    const [, py] = this.at;
    const own = points.filter(({ isLine, isInside, at }) => isLine && isInside && at === near.at);
    const meant = nearest(own.filter(({ y }) => Math.abs(y - py) < CLOSE), ({ y }) => Math.abs(y - py));
    light?.(meant?.name ?? null);
    const words = points.map(({ said, at }) => (at === near.at || !xaxis.counts ? said : `${said}, at ${count(at)}`));
    const heading = xaxis.counts ? `${count(near.at)} samples` : score(near.at);
    this.tip.replaceChildren(...[unified && h("div", { class: "quiet" }, heading), ...words.map((text, i) =>
      h("div", {}, h("span", { class: "swatch" }), " ", points[i].name === meant?.name ? h("strong", {}, text) : text))].filter(Boolean));
    this.tip.querySelectorAll(".swatch").forEach((swatch, i) => (swatch.style.color = points[i].color));
    this.words = [unified && heading, ...words].filter(Boolean).join("; ");
    this.mark(near, points);
    const { offsetWidth, offsetHeight } = this.tip;
    const left = near.x > this.width / 2 ? near.x - 12 - offsetWidth : near.x + 12;
    Object.assign(this.tip.style, { top: `${Math.max(0, Math.min(py, this.height - offsetHeight))}px`,
      left: `${Math.max(0, Math.min(left, this.width - offsetWidth))}px` });
  }

  // The place, what is chosen there so far, and the points of lines.
  mark(near, points) {
    const { top, bottom } = this.svg.frame;
    const [from, to] = this.begun ? [this.begun, this.at[0]].sort((a, b) => a - b) : [0, 0];
    this.cursor.replaceChildren(...[
      this.plot.layout.unified && s("line", { x1: near.x, x2: near.x, y1: top, y2: bottom, stroke: styleValue("--quiet"), "stroke-dasharray": "2 3" }),
      to - from > DRAGGED && s("rect", { x: from, y: top, width: to - from, height: bottom - top, fill: styleValue("--accent"), opacity: 0.18 }),
      ...points.filter(({ isLine, isInside }) => isLine && isInside).map(({ x, y, color }) =>
        s("circle", { cx: x, cy: y, r: 3.5, fill: color, stroke: styleValue("--card") })),
    ].filter(Boolean));
  }

  begin(event) {
    if (!this.plot.layout?.zoom || event.button !== 0) return;
    [this.begun] = this.place(event);
    this.plot.setPointerCapture(event.pointerId);
  }

  end([px]) {
    const { begun } = this;
    this.cancel();
    if (begun && Math.abs(px - begun) > DRAGGED) this.zoom(...[begun, px].sort((a, b) => a - b));
  }

  cancel() {
    this.begun = null;
    if (this.at && this.svg) this.show();
  }

  // from, to: pixels.
  zoom(from, to) {
    this.plot.layout.zoom(this.svg.valueAt(from), this.svg.valueAt(to));
  }

  key(event) {
    const { frame, lines } = this.svg ?? {};
    if (!frame || event.ctrlKey || event.metaKey || event.altKey) return;
    const places = [...new Set(lines.flat().map(({ x }) => x))].filter((x) => x > frame.left - 1 && x < frame.right + 1).sort((a, b) => a - b);
    const [px] = this.at ?? [places.at(-1)];
    const wide = frame.right - frame.left;
    const step = { ArrowLeft: () => places.findLast((x) => x < px - 0.01), ArrowRight: () => places.find((x) => x > px + 0.01), Home: () => places[0], End: () => places.at(-1) }[event.key];
    const zoom = this.plot.layout.zoom && {
      "+": () => this.zoom(Math.max(frame.left, px - wide / 4), Math.min(frame.right, px + wide / 4)),
      "-": () => this.zoom(px - wide, px + wide), 0: () => this.plot.layout.zoom(), Escape: () => this.plot.layout.zoom(),
    }[event.key];
    if (!step && !zoom) return;
    event.preventDefault();
    if (zoom) zoom();
    else this.move([(this.at && step()) ?? px, frame.top]);
    if (this.at) say(this.said, this.words ?? "");
  }
}
