/**
 * The address holds what is looked at: input, tab, metric, formulas, filter, search. It can be sent to a colleague with
 * the same viewer, kept as a bookmark, and back and forward go through what was seen.
 *
 * @import { Page, Tabs } from "./page.js"
 */

const STEPS = /** @type {const} */ (["tab", "metric", "filter", "derive"]); // to which back leads

/**
 * Keep the address and the page the same.
 * @param {Page} page
 */
export async function followAddress(page) {
  let busy = false;
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
    if (isStep) history.pushState(null, "", hash);
    else history.replaceState(null, "", hash);
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
  return query;
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
