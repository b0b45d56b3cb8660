// Tags as chips, and the tags and the note of an experiment, which are edited here.
import { change, experimentPath } from "./api.js";
import { fill, h, say } from "./dom.js";

const LONGEST = 10000; // characters of a note

// Each tag as a chip; `chosen(tag)` is called when one is clicked, or without it they link to the list of what has the tag.
export const chips = (tags, chosen = null) =>
  h("span", { class: "chips" }, tags.map((tag) => (chosen
    ? h("button", { class: "chip", title: `Show only experiments tagged ${tag}`, onclick: () => chosen(tag) }, tag)
    : h("a", { class: "chip", href: `#/?${new URLSearchParams({ tag })}`, title: `All experiments tagged ${tag}` }, tag))));

export function labels(name, refresh) {
  const shown = h("span", {});
  const note = h("p", { class: "note", tabindex: "0", role: "note", "aria-label": "Note" });
  const edit = h("button", { class: "small plain admin", onclick: () => open(true) });
  const tags = h("input", { id: "tags", type: "text", autocomplete: "off", placeholder: "paper, checkpoints" });
  const text = h("textarea", { id: "note", rows: "4", maxlength: String(LONGEST) });
  const problem = h("p", { class: "problem", role: "alert" });
  const form = h("form", { class: "card labelling", hidden: true, "aria-label": "Tags and note", onsubmit: save }, [
    h("div", {}, h("label", { for: "tags" }, "Tags, separated by commas"), tags),
    h("div", {}, h("label", { for: "note" }, "Note"), text),
    problem,
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => open(false) }, "Cancel"), h("button", {}, "Save")),
  ]);
  let latest = { tags: [], note: "" };
  let drawn = null;

  function open(isOpen) {
    form.hidden = !isOpen;
    say(problem, "");
    if (!isOpen) return edit.focus();
    tags.value = latest.tags.join(", ");
    text.value = latest.note;
    tags.focus();
  }

  async function save(event) {
    event.preventDefault();
    const wanted = tags.value.split(",").map((tag) => tag.trim()).filter(Boolean);
    try {
      await change("PATCH", experimentPath(name), { tags: wanted, note: text.value.trim() });
      open(false);
    } catch (error) {
      say(problem, error.message);
    }
    refresh();
  }

  return {
    element: h("div", { class: "labels" }, h("span", { class: "chip-line" }, shown, edit), note, form),
    // They are left out while there are none.
    draw({ tags: now = [], note: said = "" }) {
      latest = { tags: now, note: said };
      if (drawn === JSON.stringify(latest)) return; // drawing it again would take the focus from a chip
      drawn = JSON.stringify(latest);
      fill(shown, now.length ? chips(now) : null);
      say(note, said);
      note.hidden = !said;
      say(edit, now.length || said ? "Edit tags and note" : "Add tags or a note");
    },
  };
}
