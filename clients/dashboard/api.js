// What the page asks of the service. Answers are cached by their ETag, errors are problem details (RFC 9457).

// The service refused: the message says why and what was expected.
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `The service answered ${status}.`);
    this.status = status;
  }
}

// Nobody answered, or something that is not the service.
export class Unreachable extends Error {}

const TIMEOUT = 15000;
const known = new Map(); // kind of request → the newest answer and its tag
let skew = 0; // milliseconds that the service's clock is ahead

// Seconds of the service's clock.
export const serviceTime = () => (Date.now() + skew) / 1000;

// The newest answer to this path. `kind` names what is asked for: one answer of each is remembered.
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

// The key goes into a cookie that no script can read: neither a URL nor this page ever holds it after this.
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
  // To the second: a difference of less says nothing.
  if (!Number.isNaN(date)) skew = Math.abs(date - Date.now()) > 2000 ? date - Date.now() : 0;
  if (reply.ok || reply.status === 304) return reply;
  let problem = {};
  try {
    problem = await reply.json();
  } catch {
    // A proxy's page: the status says enough.
  }
  // While the store is away the service itself answers 503: that passes, like the service's own absence.
  const passes = reply.status >= 500 || reply.status === 429;
  if (passes && problem.action !== "stop") throw new Unreachable(problem.detail || reply.statusText);
  throw new Refused(reply.status, problem);
}

export const experimentPath = (name) => `v1/experiments/${encodeURIComponent(name)}`;
export const generatorPath = (name, generator) =>
  `${experimentPath(name)}/generators/${encodeURIComponent(generator)}`;
