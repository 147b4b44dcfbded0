/**
 * The address holds what is looked at: input, tab, metric, formulas, filter, search, and where in a view: rows, zoom,
 * the time in sight. It can be sent to a colleague with the same viewer and kept as a bookmark; back and forward go
 * through what was seen.
 *
 * @import { Page, Tabs } from "./page.js"
 * @import { TimeView } from "./store.js"
 */

/** To which back leads. */
const STEPS = /** @type {const} */ (["tab", "metric", "filter", "derive", "time", "columns", "at"]);
const TOGETHER_MS = 700; // changes that follow each other so soon are one step
const OF_TIME = ["time", "rows", "range", "at", "depth", "origin"];
const WORDS = ["input", "tab", "metric", "derive", "filter", "search", "column", ...OF_TIME]; // others: where in a view

/**
 * Keep the address and the page the same.
 * @param {Page} page
 */
export async function followAddress(page) {
  let busy = false;
  let last = -Infinity; // when a step was taken
  const apply = async () => {
    busy = true;
    try {
      await shown(page, new URLSearchParams(location.hash.slice(1)));
    } finally {
      busy = false;
    }
  };
  /** @param {boolean} isStep */
  const write = (isStep) => {
    const hash = `#${queryOf(page)}`;
    if (busy || hash === location.hash) return;
    const now = performance.now();
    if (isStep && now - last > TOGETHER_MS) history.pushState(null, "", hash);
    else history.replaceState(null, "", hash);
    if (isStep) last = now;
  };
  if (location.hash.length > 1) await apply();
  for (const section of page.sections) {
    for (const name of STEPS) section.view.watch(name, () => write(true));
    section.view.watch("search", () => write(false));
  }
  page.onShow = () => write(true);
  write(false);
  window.addEventListener("popstate", apply);
}

/** @param {Page} page */
function queryOf({ sections, shown: input }) {
  const { view } = sections[input];
  const query = new URLSearchParams();
  if (input) query.set("input", String(input));
  query.set("tab", view.get("tab"));
  query.set("metric", view.get("metric"));
  for (const text of view.get("derive")) query.append("derive", text);
  for (const name of /** @type {const} */ (["filter", "search"])) if (view.get(name)) query.set(name, view.get(name));
  for (const name of view.get("columns")) query.append("column", name);
  for (const [name, text] of Object.entries(view.get("at"))) if (!WORDS.includes(name)) query.set(name, text);
  for (const [name, text] of writeTime(view.get("time"))) query.set(name, text);
  return query;
}

/**
 * What of a timeline is seen, as parts of an address.
 * @param {TimeView | null} time
 * @returns {[string, string][]}
 */
function writeTime(time) {
  if (!time) return [];
  const { window, rows, depth, range, cursor, origin } = time;
  const parts = { time: window, rows, range, at: cursor && [cursor.row, cursor.time] };
  const pairs = Object.entries(parts).flatMap(([name, pair]) =>
    pair ? [/** @type {[string, string]} */ ([name, pair.join("-")])] : [],
  );
  return [...pairs, ...(depth ? [/** @type {[string, string]} */ (["depth", String(depth)])] : []), ["origin", origin]];
}

/**
 * The same from an address; what is not a pair of numbers is left out.
 * @param {URLSearchParams} query
 * @returns {TimeView | null}
 */
function readTime(query) {
  /** @param {string} name */
  const pair = (name) => {
    const match = /^(\d{1,16})-(\d{1,16})$/.exec(query.get(name) ?? "");
    return match && /** @type {[number, number]} */ ([Number(match[1]), Number(match[2])]);
  };
  /** @param {string} name */
  const span = (name) => {
    const both = pair(name);
    return both && both[0] < both[1] ? both : null;
  };
  const [window, rows, range, at] = [span("time"), span("rows"), span("range"), pair("at")];
  const depth = Math.min(Math.max(Math.floor(Number(query.get("depth")) || 0), 0), 64);
  if (!window && !rows && !range && !at && !depth) return null;
  const cursor = at && { row: at[0], time: at[1] };
  return { window, rows, depth, range, cursor, origin: /^\d{1,20}$/.exec(query.get("origin") ?? "")?.[0] ?? "0" };
}

/**
 * Show what an address says; what it does not say is as at the beginning.
 * @param {Page} page
 * @param {URLSearchParams} query
 */
async function shown(page, query) {
  const input = Number(query.get("input") ?? 0);
  const section = page.sections[input] ?? page.sections[0];
  await look(section, query.getAll("derive"), query.get("filter") ?? "", query.get("metric") ?? "");
  section.view.set("search", query.get("search") ?? "");
  const columns = query.getAll("column");
  if (columns.join("\n") !== section.view.get("columns").join("\n")) section.view.set("columns", columns);
  const at = Object.fromEntries([...query].filter(([name]) => !WORDS.includes(name)));
  const gone = Object.keys(section.view.get("at")).map((name) => [name, ""]);
  section.view.mark({ ...Object.fromEntries(gone), ...at });
  section.view.set("time", readTime(query));
  const number = section.tabs.findIndex(({ name }) => name === query.get("tab"));
  await page.show(page.sections.indexOf(section));
  await section.open(Math.max(number, 0));
}

/**
 * @param {Tabs} section
 * @param {string[]} derive
 * @param {string} filter
 * @param {string} metric
 */
async function look(section, derive, filter, metric) {
  const { view, provider, input } = section;
  const same = JSON.stringify([view.get("derive"), view.get("filter")]) === JSON.stringify([derive, filter]);
  let names = view.get("metrics");
  if (!same) {
    ({ metrics: names } = await provider.get("look", { input, metric: "", derive, filter }));
    view.set("derive", derive);
    view.set("filter", filter);
  }
  if (names.length) section.setMetrics(names, names.includes(metric) ? metric : section.section.first_metric);
}
