// What a page shows is kept in the part of the URL's hash behind "?", so that a link brings the same view.

const parameters = () => new URLSearchParams(location.hash.split("?")[1] ?? "");

// A value of the view, or the `standard` one.
export const seen = (name, standard = "") => parameters().get(name) ?? standard;

// Keep a value of the view; the standard one is left out of the URL. No page is added to the browser's history.
export function keep(name, value, standard = "") {
  const kept = parameters();
  if (value === standard) kept.delete(name);
  else kept.set(name, value);
  const [page] = (location.hash || "#/").split("?");
  history.replaceState(null, "", [page, kept.toString()].filter(Boolean).join("?"));
}
