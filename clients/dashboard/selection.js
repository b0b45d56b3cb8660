// The selected experiments of the list, and what can be done with them, in a bar that stays in sight.
import { change, experimentPath } from "./api.js";
import { comparisonPath } from "./compare.js";
import { askFor, confirm, h, say } from "./dom.js";
import { count, samples } from "./format.js";

const LONGEST_TAG = 40; // characters
const NAMED = 5; // experiments that a question names

export class Selection {
  // known: gives all experiments; shown(name, isSelected): marks a row; done: called after something was changed.
  constructor(known, shown, done) {
    Object.assign(this, { known, shown, done, names: new Set() });
    this.number = h("span", { role: "status" });
    this.compare = h("a", { class: "button" }, "Compare");
    this.problem = h("p", { class: "problem", role: "alert" });
    this.bar = h("div", { class: "chosen card", role: "group", "aria-label": "Selected experiments", hidden: true }, [
      this.number, this.compare,
      h("button", { class: "small admin", onclick: () => this.tag() }, "Add a tag …"),
      h("button", { class: "small danger admin", onclick: () => this.remove() }, "Delete …"),
      h("button", { class: "small plain", onclick: () => [...this.names].forEach((name) => this.select(name, false)) }, "Clear"),
    ]);
  }

  select(name, isSelected) {
    if (isSelected) this.names.add(name);
    else this.names.delete(name);
    this.shown(name, isSelected);
    this.bar.hidden = this.names.size === 0;
    say(this.number, `${count(this.names.size)} selected`);
    this.compare.hidden = this.names.size < 2;
    this.compare.href = comparisonPath([...this.names]);
  }

  // Do something to all that are selected; what is refused is said, and stays selected.
  async each(act) {
    say(this.problem, "");
    for (const name of [...this.names]) {
      try {
        await act(experimentPath(name), this.known().find((one) => one.name === name));
        this.select(name, false);
      } catch (error) {
        say(this.problem, `${name}: ${error.message}`);
      }
    }
    this.done();
  }

  get listed() {
    const names = [...this.names];
    return names.length > NAMED ? `${names.slice(0, NAMED).join(", ")} and ${count(names.length - NAMED)} more` : names.join(", ");
  }

  async tag() {
    const text = `${this.listed} get this tag besides those that they have.`;
    const wanted = await askFor("Add a tag?", text, "Add", "Tag", LONGEST_TAG);
    if (wanted) this.each((path, { tags = [] }) => change("PATCH", path, { tags: [...new Set([...tags, wanted.trim()])] }));
  }

  async remove() {
    const { size } = this.names;
    const lost = this.known().filter(({ name }) => this.names.has(name)).reduce((sum, one) => sum + one.samples, 0);
    const text = `${this.listed} and ${size === 1 ? "its" : "their"} ${samples(lost)} are deleted from the service. ` +
      "This cannot be undone; `optimist export` writes an archive first.";
    const title = size === 1 ? "Delete this experiment?" : `Delete ${count(size)} experiments?`;
    if (await confirm(title, text, "Delete")) this.each((path) => change("DELETE", path));
  }
}
