// The colours: those of the system, or light or dark ones that the viewer has chosen, which the browser remembers.
import { Choice } from "./choice.js";
import { remember, remembered } from "./remember.js";

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
    remember(KEY, choice.value);
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

if (["light", "dark"].includes(remembered(KEY))) root.dataset.theme = remembered(KEY);
system.addEventListener("change", tell);
