// Assigns colours to the drawn generators. A generator keeps its colour, in charts and table, while it is drawn.
import { isDark } from "./theme.js";

export const DRAWN = 8;

// Distinguishable for colour-blind users (based on Okabe and Ito), on light and dark backgrounds.
const LIGHT = ["#0072b2", "#c8500a", "#00805f", "#a3357a", "#8a6d00", "#4a7fb5", "#7a4f2a", "#5b5bd6"];
const DARK = ["#56b4e9", "#f28c4b", "#2fc39a", "#e08bc4", "#e0c341", "#9dbde0", "#c89b72", "#a9a9ff"];
const OTHERS = { light: "#9aa3ad", dark: "#6b7480" };

export const otherColour = () => (isDark() ? OTHERS.dark : OTHERS.light);

export const styleValue = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

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

  colour(name) {
    const slot = this.slots.get(name);
    return slot === undefined ? otherColour() : (isDark() ? DARK : LIGHT)[slot];
  }
}
