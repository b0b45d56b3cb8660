// What the browser remembers for the viewer. It may refuse to store anything: a choice then lasts as long as the page.

export function remember(key, text) {
  try {
    localStorage.setItem(key, text);
  } catch {
    // nothing is kept
  }
}

export function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}
