// Tables and charts as files: CSV, SVG and PNG. They are made here, from what the page shows.
import { styleValue } from "./colours.js";
import { h } from "./dom.js";
import { svgOf } from "./svg.js";

const SIZE = { width: 960, height: 540 };
const SCALE = 2; // pixels of a PNG for each of the SVG's

// Buttons that save a table and a chart. rows: gives the table, its header first; figure: gives traces and layout, or null
// while there is none; what: the part of the file's name that follows the experiment's.
export function downloads(what, title, { rows = null, figure = null }) {
  const one = (kind, act) =>
    h("button", { class: "save", "aria-label": `Download ${title} as ${kind}`, onclick: () => act() }, kind);
  const picture = (save) => () => {
    const found = figure();
    if (found) save(fileName(what), drawn(found));
  };
  return h("span", { class: "saves" }, [
    rows && one("CSV", () => save(`${fileName(what)}.csv`, new Blob([csv(rows())], { type: "text/csv" }))),
    figure && one("SVG", picture((name, svg) => save(`${name}.svg`, new Blob([svg], { type: "image/svg+xml" })))),
    figure && one("PNG", picture(async (name, svg) => save(`${name}.png`, await pixels(svg)))),
  ]);
}

// A chart's traces as a table: the name of the series, and its columns.
export function rowsOf({ data }) {
  const seen = data.filter(({ hoverinfo, y }) => hoverinfo !== "skip" && y);
  const hasErrors = seen.some((trace) => trace.error_y?.array);
  const head = ["series", "x", "y", ...(hasErrors ? ["upper", "lower"] : [])];
  const ends = ({ error_y: errors }, at, i) => {
    if (!errors?.array) return [null, null];
    return [at + errors.array[i], at - (errors.arrayminus ?? errors.array)[i]];
  };
  return [head, ...seen.flatMap((trace) =>
    trace.y.map((at, i) => [trace.name, trace.x[i], at, ...(hasErrors ? ends(trace, at, i) : [])]))];
}

// Users choose names: a spreadsheet would run one that begins as a formula does.
const cell = (value) => {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

export const csv = (rows) => rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");

const fileName = (what) => `${document.title.split(" · ")[0]}-${what}`;

// The chart as an SVG document on the page's background, with its legend.
function drawn({ data, layout }) {
  const svg = svgOf(data, layout, SIZE.width, SIZE.height, { legend: data.length > 1, background: styleValue("--card") });
  return new XMLSerializer().serializeToString(svg);
}

// The page's policy allows pictures at data: addresses.
async function pixels(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = h("canvas", { width: SCALE * SIZE.width, height: SCALE * SIZE.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function save(name, blob) {
  const address = URL.createObjectURL(blob);
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
