// The menu that makes links to an experiment: keys of viewers, which expire and can be revoked.
import { change, experimentPath, get } from "./api.js";
import { Choice, Toggle } from "./choice.js";
import { fill, h, say } from "./dom.js";
import { date } from "./format.js";

const DAY = 86400; // seconds
const LASTS = [[DAY, "1 day"], [7 * DAY, "7 days"], [30 * DAY, "30 days"]];

export function share({ name, previews }) {
  const path = `${experimentPath(name)}/shares`;
  const lasts = new Choice("share-lasts", "For", () => {});
  lasts.offer(LASTS, 7 * DAY);
  const samples = new Toggle("share-samples", "With samples", false, () => {});
  const link = h("input", { id: "share-link", readonly: true, "aria-label": "Link", hidden: true, onfocus: () => link.select() });
  const note = h("p", { class: "quiet", role: "status" });
  const problem = h("p", { class: "problem", role: "alert" });
  const list = h("ul", { class: "shares" });
  const menu = h("details", { class: "menu admin" }, h("summary", { class: "button" }, "Share"), h("form", { class: "card", onsubmit: make }, [
    h("p", { class: "quiet" }, "Whoever has the link can look at this experiment alone, without signing in."),
    h("div", { class: "field wrapping" }, lasts.element, previews ? samples.element : null, h("button", {}, "Make a link")),
    link, note, problem, list,
  ]));
  menu.addEventListener("toggle", () => menu.open && run(async () => {}));

  // Do something and list the shares; say why where it is refused.
  async function run(act) {
    say(problem, "");
    try {
      await act();
      const { shares } = await get(path, "shares");
      fill(list, shares.map((one) => h("li", {}, [
        h("span", { class: "quiet" }, `Until ${date(one.expires)}${one.previews ? ", with samples" : ""}`),
        h("button", { type: "button", class: "small", "aria-label": `Revoke the link until ${date(one.expires)}`,
          onclick: () => run(() => change("DELETE", `${path}/${one.id}`)) }, "Revoke"),
      ])));
    } catch (error) {
      say(problem, error.message);
    }
  }

  function make(event) {
    event.preventDefault();
    run(async () => {
      const { key } = await change("POST", path, { seconds: Number(lasts.value), previews: samples.isOn });
      link.value = `${location.origin}${location.pathname}#/e/${encodeURIComponent(name)}?key=${key}`;
      link.hidden = false;
      link.focus();
      say(note, "Copy it now: it is shown once.");
    });
  }

  return menu;
}
