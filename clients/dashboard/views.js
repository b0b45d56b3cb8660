// Views of the list that somebody has saved under a name: the part of the address that says what is shown. The browser
// remembers them.
import { Choice } from "./choice.js";
import { askFor, h } from "./dom.js";
import { remember, remembered } from "./remember.js";

const KEY = "optimist-views";
const LONGEST = 40; // characters of a name

const present = () => location.hash.split("?")[1] ?? "";

export function savedViews() {
  let views = JSON.parse(remembered(KEY) ?? "{}");
  const choice = new Choice("view", "View", () => (location.hash = `#/?${choice.value}`));
  const save = h("button", { class: "small plain", async onclick() {
    const name = await askFor("Save this view?", "Search, filters and order are kept in this browser under a name.", "Save", "Name", LONGEST);
    if (name) put({ ...views, [name]: present() });
  } }, "Save view");
  const forget = h("button", { class: "small plain", onclick: () =>
    put(Object.fromEntries(Object.entries(views).filter(([, view]) => view !== present()))) }, "Forget view");

  function put(now) {
    views = now;
    remember(KEY, JSON.stringify(views));
    draw();
  }

  // Whenever what is shown may be another view.
  function draw() {
    const known = Object.entries(views).map(([name, view]) => [view, name]);
    const isSaved = known.some(([view]) => view === present());
    choice.element.hidden = known.length === 0;
    choice.offer([...(present() && isSaved ? [] : [[present(), present() ? "Not saved" : "All"]]), ...(present() ? [["", "All"]] : []), ...known]);
    choice.select.value = present();
    save.hidden = isSaved || !present();
    forget.hidden = !isSaved;
  }

  return { element: h("div", { class: "field" }, choice.element, save, forget), draw };
}
