// Groups of the list: by the first tag of experiments, or by how their names begin. The browser remembers by which, and which
// of them are folded.
import { Choice } from "./choice.js";
import { h, say } from "./dom.js";
import { count } from "./format.js";
import { stateName } from "./overview-row.js";
import { remember, remembered } from "./remember.js";
import { keep, seen } from "./view.js";

const KEY = "optimist-groups";
const REST = { name: "Other names", tag: "Without a tag" }; // of what no group has

export class Groups {
  constructor(changed) {
    const { by = "", folded = [] } = JSON.parse(remembered(KEY) ?? "{}");
    Object.assign(this, { changed, folded: new Set(folded), heads: new Map() });
    this.choice = new Choice("group", "Group by", () => {
      keep("group", this.choice.value);
      this.kept();
    });
    this.choice.offer([["", "Nothing"], ["name", "Name"], ["tag", "Tag"]], seen("group", by));
  }

  kept() {
    remember(KEY, JSON.stringify({ by: this.choice.value, folded: [...this.folded] }));
    this.changed();
  }

  // Pairs of a heading's element, null without groups, and the experiments below it: none where it is folded.
  of(experiments, columns) {
    const by = this.choice.value;
    if (!by) return [[null, experiments]];
    const titles = by === "tag" ? experiments.map(({ tags }) => tags?.[0]) : beginnings(experiments.map(({ name }) => name));
    const groups = Map.groupBy(experiments, (_, i) => titles[i] ?? "");
    const inOrder = [...groups.keys()].filter(Boolean).concat(groups.has("") ? [""] : []);
    return inOrder.map((title) => {
      const isFolded = this.folded.has(`${by} ${title}`);
      return [this.head(title, by, groups.get(title), isFolded, columns), isFolded ? [] : groups.get(title)];
    });
  }

  // The same element each time, so that it keeps the focus.
  head(title, by, members, isFolded, columns) {
    const key = `${by} ${title}`;
    if (!this.heads.has(key)) {
      const said = h("span", { class: "quiet" });
      const button = h("button", { class: "fold", onclick: () => {
        if (!this.folded.delete(key)) this.folded.add(key);
        this.kept();
      } }, h("span", { class: "name" }, title || REST[by]), said);
      const cell = h("th", { scope: "rowgroup", role: "rowheader", colspan: columns }, button);
      this.heads.set(key, { element: h("tr", { class: "group", role: "row" }, cell), button, said });
    }
    const { element, button, said } = this.heads.get(key);
    const states = Map.groupBy(members, stateName);
    say(said, `${count(members.length)}: ${[...states].map(([state, { length }]) => `${count(length)} ${state}`).join(", ")}`);
    button.setAttribute("aria-expanded", String(!isFolded));
    return element;
  }
}

// How each name begins: without its last part and the numbers before that, such as "sweep-lr" of "sweep-lr-3"; undefined where
// no other name begins so.
function beginnings(names) {
  const found = names.map((name) => {
    const parts = name.split(/(?<=[-_./: ])/);
    do parts.pop(); while (parts.length && /\d/.test(parts.at(-1)));
    return parts.join("").replace(/[-_./: ]+$/, "");
  });
  const number = Map.groupBy(found, (one) => one);
  return found.map((one) => (one && number.get(one).length > 1 ? one : undefined));
}
