// The page with the table of experiments: searched, filtered and sorted here.
import { get } from "./api.js";
import { Choice } from "./choice.js";
import { fill, h, say } from "./dom.js";
import { count } from "./format.js";
import { Groups } from "./groups.js";
import { COLUMNS, details, row, shownOf, stateOf, wordsOf } from "./overview-row.js";
import { poll } from "./poll.js";
import { Selection } from "./selection.js";
import { session } from "./session.js";
import { keep, seen } from "./view.js";
import { savedViews } from "./views.js";

const NEW = 50; // experiments that come with each poll: the newest ones
const PAGE = 200; // those of each further page: the service gives no more at a time
const FIRST = 100; // rows shown before somebody asks for all: a browser takes long to lay out many
const OFTEN = 15; // polls after which all others are asked for again
const STATES = ["running", "idle", "warming up", "cannot be scored", "provisional", "decided", "stopped", "out of budget"];
const NEWEST = "created";
const EXAMPLE = `from optimist_client import Optimist

optimist = Optimist("${location.origin}")
experiment = optimist.create_experiment(
    "my-checkpoints", ["step-10k", "step-20k"], reference=real_features
)
for pick in experiment.picks():
    pick.tell(embed(generate(pick.generator, pick.size, pick.seed)))`;

export function showOverview(main, connection, failed) {
  let pages = []; // the experiments of each page, the newest ones first
  let following = null; // the cursor after the first page
  const rows = new Map(); // name → its rows and the text of what they show
  const opened = new Set(); // names
  let turns = 0;
  let showsAll = false;
  let [sorted, isReversed] = direction(seen("sort", NEWEST));

  const search = h("input", { id: "search", type: "search", value: seen("q"), placeholder: "Name, tag, leader, … ( / )",
    autocomplete: "off", oninput: () => (keep("q", search.value), draw()) });
  const state = new Choice("state", "State", () => (keep("state", state.value), draw()));
  state.offer([["", "All"], ...STATES.map((one) => [one, capitalised(one)])], STATES.find((one) => one === seen("state")) ?? "");
  const tag = new Choice("tag", "Tag", () => (keep("tag", tag.value), draw()));
  const tagged = (wanted) => {
    tag.select.value = wanted;
    keep("tag", wanted);
    draw();
  };
  const order = new Choice("order", "Sort by", () => sortBy(order.value, false));
  order.offer(COLUMNS.filter(([, , , key]) => key).map(([id, text]) => [id, text]), sorted);
  const heads = new Map(COLUMNS.map((column) => [column[0], heading(column)]));
  const body = h("tbody", { role: "rowgroup" });
  const shown = h("p", { class: "quiet", role: "status" });
  const views = savedViews();
  const groups = new Groups(() => draw());
  const selection = new Selection(() => pages.flat(), (name, isSelected) => {
    const box = rows.get(name)?.elements[0].querySelector("input");
    if (box) box.checked = isSelected;
  }, () => {
    turns = 0;
    polling.now();
  });
  const does = {
    tag: tagged,
    select: (name, isSelected) => selection.select(name, isSelected),
    open(name) {
      if (!opened.delete(name)) opened.add(name);
      draw();
    },
  };
  const table = h("table", { class: "overview", role: "table" }, [
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ...heads.values(), h("td", { class: "opens" }))),
    body,
  ]);
  const list = h("section", { class: "card", "aria-label": "Experiments", hidden: true }, [
    h("div", { class: "tools" }, [
      h("h1", {}, "Experiments"),
      h("div", { class: "field" }, h("label", { for: "search" }, "Search"), search), state.element, tag.element,
      groups.choice.element, h("div", { class: "narrow-only" }, order.element), views.element, shown,
    ]),
    selection.problem,
    selection.bar,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Experiments table" }, table),
  ]);
  const more = h("button", { class: "small more", onclick: () => ((showsAll = true), draw()) });
  list.append(more);
  const empty = nothing();
  empty.hidden = true;
  fill(main, list, empty);
  const polling = poll(turn, connection, failed);

  async function turn() {
    const [first] = await Promise.all([get(path(NEW), "list 0"), session()]);
    const isOld = first.next !== following || turns % OFTEN === 0;
    if (pages[0] !== first.experiments) {
      pages = [first.experiments, ...pages.slice(1)];
      draw(); // the others are drawn once all have come
    }
    turns += 1;
    if (!isOld) return;
    following = undefined; // until all have come
    const all = [first.experiments];
    for (let { next } = first; next !== null;) {
      const page = await get(path(PAGE, next), `list ${all.length}`);
      all.push(page.experiments);
      next = page.next;
    }
    pages = all;
    following = first.next;
    draw();
  }

  function draw() {
    if (!pages.length) return;
    const all = [...new Map([...pages].reverse().flat().map((one) => [one.name, one])).values()];
    const number = all.length;
    list.hidden = number === 0;
    empty.hidden = number > 0;
    offerTags(all);
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = all.filter((one) => (!state.value || stateOf(one).startsWith(state.value)) &&
      (!tag.value || one.tags?.includes(tag.value)) && words.every((word) => wordsOf(one).includes(word)));
    const key = COLUMNS.find(([id]) => id === sorted)[3];
    const compared = (a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : b.created - a.created);
    found.sort((a, b) => (isReversed ? compared(b, a) : compared(a, b)));
    table.classList.toggle("free", all.every((one) => one.cost === undefined));
    for (const [id, head] of heads) {
      const way = isReversed ? "descending" : "ascending";
      if (id === sorted) head.setAttribute("aria-sort", way);
      else head.removeAttribute("aria-sort");
    }
    const focused = document.activeElement;
    let room = showsAll ? Infinity : FIRST;
    const elements = groups.of(found, COLUMNS.length + 1).flatMap(([head, members]) => {
      const listed = members.slice(0, Math.max(0, room));
      room -= members.length;
      return [head, ...listed.flatMap(rowsOf)].filter(Boolean);
    });
    say(more, `Show all ${count(found.length)}`);
    more.hidden = room >= 0;
    if (elements.length !== body.children.length || elements.some((one, i) => one !== body.children[i])) {
      body.replaceChildren(...elements);
    }
    if (focused !== document.activeElement && focused.isConnected) focused.focus();
    const names = new Set(all.map(({ name }) => name));
    for (const name of rows.keys()) if (!names.has(name)) rows.delete(name);
    for (const name of selection.names) if (!names.has(name)) selection.select(name, false);
    views.draw();
    say(shown, `${count(found.length)} of ${count(number)} ${number === 1 ? "experiment" : "experiments"}`);
  }

  // The tags in use, and the one that a link asked for.
  function offerTags(all) {
    const first = seen("tag");
    const used = new Set([...all.flatMap(({ tags = [] }) => tags), first].filter(Boolean));
    tag.element.hidden = used.size === 0;
    tag.offer([["", "All"], ...[...used].sort((a, b) => a.localeCompare(b)).map((one) => [one, one])], first);
  }

  // Rows that say what they said are used again; others keep the focus at its place.
  function rowsOf(experiment) {
    const { name } = experiment;
    const isOpen = opened.has(name);
    const text = `${shownOf(experiment)} ${isOpen}`;
    const known = rows.get(name);
    if (known?.text === text) return known.elements;
    const elements = [row(experiment, selection.names.has(name), isOpen, does), ...(isOpen ? [details(experiment, does)] : [])];
    const place = known ? controls(known.elements).indexOf(document.activeElement) : -1;
    rows.set(name, { text, elements });
    if (place >= 0) setTimeout(() => controls(elements)[place]?.focus());
    return elements;
  }

  function heading([id, text, kind, key]) {
    const more = { scope: "col", role: "columnheader", class: kind };
    if (!key) return h("th", more, text);
    return h("th", more, h("button", { class: "sort", onclick: () => sortBy(id, true) }, text));
  }

  // turns: whether the column that is sorted by already changes its direction.
  function sortBy(id, canTurn) {
    isReversed = canTurn && id === sorted ? !isReversed : COLUMNS.find((column) => column[0] === id)[4];
    sorted = id;
    order.select.value = id;
    const standard = COLUMNS.find((column) => column[0] === id)[4] === isReversed;
    keep("sort", standard ? id : `-${id}`, NEWEST);
    draw();
  }

  // "/" leads to the search.
  function typed(event) {
    if (event.key !== "/" || event.target.closest("input, select, textarea, dialog")) return;
    event.preventDefault();
    search.focus();
  }
  document.addEventListener("keydown", typed);

  return {
    now: polling.now,
    stop() {
      document.removeEventListener("keydown", typed);
      polling.stop();
    },
  };
}

const controls = (elements) => elements.flatMap((one) => [...one.querySelectorAll("a, button, input")]);

const path = (limit, cursor) => `v1/experiments?limit=${limit}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`;

// The column of a view and whether its largest comes first: "samples", or "-samples" the other way round.
function direction(text) {
  const id = text.replace(/^-/, "");
  const column = COLUMNS.find(([one, , , key]) => one === id && key);
  return column ? [id, text.startsWith("-") ? !column[4] : column[4]] : [NEWEST, true];
}

const capitalised = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function nothing() {
  return h("div", { class: "empty card" }, [
    h("h1", {}, "No experiments yet"),
    h("p", {}, "An experiment compares generators by one metric. Create the first one in Python:"),
    h("pre", { tabindex: "0" }, h("code", {}, EXAMPLE)),
  ]);
}
