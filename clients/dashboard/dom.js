// Elements from data. Text becomes text nodes and nothing is ever parsed as HTML: names and URIs are whatever users say.

// h("td", {class: "number", onclick: f}, "text", child): null and false children, and such attributes, are left out.
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

// Put these in place of what an element holds.
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

// Set an element's text, only where it changed: live regions are read out again otherwise, and selections are lost.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function append(element, children) {
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

// Asks before something that cannot be undone; resolves to whether it is wanted.
export function confirm(title, text, yes) {
  const dialog = document.getElementById("confirm");
  say(document.getElementById("confirm-title"), title);
  say(document.getElementById("confirm-text"), text);
  say(document.getElementById("confirm-yes"), yes);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
