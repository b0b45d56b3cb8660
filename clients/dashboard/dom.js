// Creates DOM elements. Text becomes text nodes and is never parsed as HTML, because names and URIs come from users.

// h("td", {class: "number", onclick: f}, "text", child). Children and attributes that are null or false are omitted.
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

// Replace the children of an element.
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

// Set an element's text only if it changed: screen readers would repeat live regions, and selections would be lost.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function append(element, children) {
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

// Ask the user to confirm an action. Resolves to true if it was confirmed.
export const confirm = async (title, text, yes) => (await askFor(title, text, yes)) !== null;

// Ask the user to confirm an action, with a text of at most `longest` characters if there is a `label` for it.
// Resolves to the text, or to null if it was not confirmed. then: a promise of elements that say what would follow, which
// are shown once they are there.
export function askFor(title, text, yes, label = "", longest = 0, then = null) {
  const part = (name) => document.getElementById(`confirm-${name}`);
  const dialog = document.getElementById("confirm");
  const input = part("input");
  say(part("title"), title);
  say(part("text"), text);
  say(part("label"), label);
  say(part("yes"), yes);
  part("label").hidden = input.hidden = !label;
  input.required = Boolean(label);
  input.maxLength = longest;
  input.value = "";
  part("no").onclick = () => dialog.close();
  fill(part("then"), then && h("p", { class: "quiet" }, "Working out what the report would then say …"));
  const asked = (dialog.asked = {});
  then?.then((shown) => dialog.asked === asked && fill(part("then"), shown));
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes" ? input.value : null), { once: true });
  });
}
