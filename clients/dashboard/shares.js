// Shares of generators drawn as filled bars, and the square, or line, in a generator's colour beside its name.
import { h } from "./dom.js";

export function swatch(color, dash = "solid") {
  const square = h("span", { class: dash === "solid" ? "swatch" : "swatch dashed", "aria-hidden": "true" });
  square.style.color = color;
  return square;
}

export const labelled = (generator, color, dash) =>
  h("span", { class: "label" }, swatch(color, dash), h("span", { class: "name" }, generator));

// part: of the width, 0 to 1.
export function filled(part, color) {
  const inner = h("span", { class: "filled" });
  inner.style.cssText = `width:${100 * part}%;background:${color}`;
  return h("span", { class: "filling", "aria-hidden": "true" }, inner);
}
