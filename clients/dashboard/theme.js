// The colours: those of the system, or light or dark ones that the viewer has chosen, which the browser remembers.
import { Choice } from "./choice.js";

const KEY = "optimist-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const watchers = new Set();
const root = document.documentElement;

export const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

// Call `redraw` whenever the colours change. Returns what ends that.
export function onTheme(redraw) {
  watchers.add(redraw);
  return () => watchers.delete(redraw);
}

// The control for the top of the page.
export function themeChoice() {
  const choice = new Choice("theme", "Theme", () => {
    remember(choice.value);
    use(choice.value);
  });
  choice.offer([["", "System"], ["light", "Light"], ["dark", "Dark"]], root.dataset.theme ?? "");
  return choice.element;
}

function use(theme) {
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
  tell();
}

const tell = () => watchers.forEach((redraw) => redraw());

// A browser may refuse to store anything.
function remember(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // The choice lasts as long as the page.
  }
}

function remembered() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

if (["light", "dark"].includes(remembered())) root.dataset.theme = remembered();
system.addEventListener("change", tell);
