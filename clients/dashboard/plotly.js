// plotly.js, from the service itself.
import { h } from "./dom.js";

const SCRIPT = new URL("plotly-basic.min.js", import.meta.url).href; // all of its traces that are used here
let library = null;

// Load it when the first chart is drawn: it is large, and the list of experiments does not need it.
export function plotly() {
  library ??= new Promise((resolve, reject) => {
    document.head.append(h("script", {
      src: SCRIPT,
      onload: () => resolve(window.Plotly),
      onerror: () => {
        library = null;
        reject(new Error("The chart library could not be loaded."));
      },
    }));
  });
  return library;
}
