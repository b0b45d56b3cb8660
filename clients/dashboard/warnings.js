// Warnings as one line, cut where it is too long; a click or tap shows them in full.
import { fill, h, say } from "./dom.js";

export function warningLine() {
  const number = h("span", {});
  const first = h("span", { class: "first" });
  const list = h("ul", {});
  const element = h("details", { class: "warnings", hidden: true }, h("summary", {}, number, first), list);
  let drawn = "[]";
  return {
    element,
    draw(texts) {
      if (JSON.stringify(texts) === drawn) return; // what is open stays open
      drawn = JSON.stringify(texts);
      element.hidden = texts.length === 0;
      say(number, texts.length > 1 ? `${texts.length} warnings` : "Warning");
      say(first, texts.length ? `: ${texts[0]}` : "");
      fill(list, texts.map((text) => h("li", {}, text)));
    },
  };
}
