// Requests to the service. Answers are cached by their ETag, errors are problem details (RFC 9457).

// The service refused: the message says why and what was expected.
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `The service answered ${status}.`);
    this.status = status;
  }
}

// There was no answer, or it did not come from the service.
export class Unreachable extends Error {}

const TIMEOUT = 15000;
const known = new Map(); // kind of request → the newest answer and its tag
let skew = 0; // milliseconds by which the service's clock is ahead

// The time of the service's clock in seconds.
export const serviceTime = () => (Date.now() + skew) / 1000;

// The newest answer to this path. `kind` names the kind of request: one answer of each kind is stored.
export async function get(path, kind = path) {
  const before = known.get(kind);
  const headers = before?.path === path ? { "if-none-match": before.tag } : {};
  const reply = await ask(path, { headers, cache: "no-store" });
  if (reply.status === 304) return before.data;
  const data = await reply.json();
  const tag = reply.headers.get("etag");
  if (tag) known.set(kind, { path, tag, data });
  return data;
}

// Forget the answer to a kind of request.
export const forget = (kind) => known.delete(kind);

export async function change(method, path, body) {
  const reply = await ask(path, {
    method,
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return reply.json();
}

// The service stores the key in a cookie that scripts cannot read; afterwards no URL and no variable contains it.
export async function signIn(key) {
  await ask("v1/session", { method: "POST", headers: { authorization: `Bearer ${key}` } });
}

async function ask(path, options) {
  let reply;
  try {
    reply = await fetch(path, { ...options, signal: AbortSignal.timeout(TIMEOUT) });
  } catch (error) {
    throw new Unreachable(error.message);
  }
  const date = Date.parse(reply.headers.get("date"));
  // Rounded to seconds: the header has no finer resolution.
  if (!Number.isNaN(date)) skew = Math.abs(date - Date.now()) > 2000 ? date - Date.now() : 0;
  if (reply.ok || reply.status === 304) return reply;
  let problem = {};
  try {
    problem = await reply.json();
  } catch {
    // The answer is a page of a proxy: its status is sufficient.
  }
  // While the store is unavailable the service answers 503: this is temporary, as if the service did not answer.
  const passes = reply.status >= 500 || reply.status === 429;
  if (passes && problem.action !== "stop") throw new Unreachable(problem.detail || reply.statusText);
  throw new Refused(reply.status, problem);
}

export const experimentPath = (name) => `v1/experiments/${encodeURIComponent(name)}`;
export const generatorPath = (name, generator) =>
  `${experimentPath(name)}/generators/${encodeURIComponent(generator)}`;
