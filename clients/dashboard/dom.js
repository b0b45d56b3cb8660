// Makes elements from data. Text becomes text nodes; nothing is parsed as HTML, because users choose names and URIs.

// h("td", {class: "number", onclick: f}, "text", child): children and attributes that are null or false are omitted.
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

// Set an element's text only if it changed: otherwise live regions are read out again and selections are lost.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function append(element, children) {
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

// Asks for confirmation of something that cannot be undone; resolves to true or false.
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
