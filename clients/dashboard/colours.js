// Assigns colours to the drawn generators. A generator keeps its colour, in charts and table, while it is drawn.
import { isDark, onTheme } from "./theme.js";

export const DRAWN = 10;

// Each two differ by 0.1 or more in Oklab, of which lightness counts 1.3 times, for normal sight and for each kind of colour
// blindness; each has a contrast of 3 or more on its background.
const LIGHT = ["#173fa4", "#a38f36", "#2098db", "#894c06", "#33035e", "#8254c4", "#d65da1", "#004508", "#762366", "#068665"];
const DARK = ["#0a7bda", "#f3f056", "#d9856e", "#b54ba0", "#f1a4f7", "#817f24", "#2eb4b0", "#a4c025", "#7defda", "#9b8ff0"];
const OTHERS = { light: "#9aa3ad", dark: "#6b7480" };

export const otherColour = () => (isDark() ? OTHERS.dark : OTHERS.light);

const values = new Map(); // of the present colours: to ask for one makes the browser work out all styles

export function styleValue(name) {
  if (!values.has(name)) values.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return values.get(name);
}

onTheme(() => values.clear()); // before any chart is drawn again: this one watches first

export class Palette {
  constructor() {
    this.slots = new Map();
  }

  // Assign a colour to each of these generators (at most `DRAWN`). Generators that have a colour keep it.
  give(names) {
    for (const known of [...this.slots.keys()]) if (!names.includes(known)) this.slots.delete(known);
    const taken = new Set(this.slots.values());
    const free = LIGHT.map((_, slot) => slot).filter((slot) => !taken.has(slot));
    for (const name of names) if (!this.slots.has(name)) this.slots.set(name, free.shift());
  }

  has(name) {
    return this.slots.has(name);
  }

  // The second half of the lines is dashed.
  dash(name) {
    return this.slots.get(name) >= DRAWN / 2 ? "dash" : "solid";
  }

  colour(name) {
    const slot = this.slots.get(name);
    return slot === undefined ? otherColour() : (isDark() ? DARK : LIGHT)[slot];
  }
}
