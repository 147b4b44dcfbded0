/**
 * Commands that print what is seen.
 *
 * @import { Look, SectionOutline } from "./documents.js"
 * @import { TimeView } from "./store.js"
 *
 * @typedef {Object} Seen  where in a view somebody is
 * @property {Readonly<Record<string, string>>} at
 * @property {TimeView | null} time  what of the timeline is seen
 * @property {string} named  the function that a flame graph is of
 */

/** @type {Record<string, string>} */
const VERBS = {
  Overview: "top",
  Explore: "tree",
  "Flame graph": "tree",
  Spread: "imbalance",
  Efficiency: "pop",
  Timeline: "timeline",
  GPU: "summary",
  Calls: "summary",
  Scaling: "model",
  SQL: "sql",
  Compare: "diff",
};
const IN_FULL = "# the page counts operations that overlap on a stream in full";
const WITHOUT_METRIC = ["info", "timeline", "sql"];

/** @param {string} text */
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);

/**
 * The command that prints what a tab shows. What its verb cannot be told stands behind it as a remark.
 * @param {string} tab
 * @param {SectionOutline} section
 * @param {SectionOutline[]} others  those that it is compared with
 * @param {Look} look
 * @param {Seen} seen
 */
export function commandOf(tab, section, others, look, { at, time, named }) {
  const [verb, ...more] = verbOf(tab, at, named);
  const words = ["callgrove", verb, ...[section, ...others].flatMap((one) => one.inputs.map(quoted))];
  if (verb === "timeline") words.push(...timelineWords(time));
  else if (verb === "sql") words.push(at.query ? quoted(at.query) : "--tables");
  if (look.metric && !WITHOUT_METRIC.includes(verb)) words.push("-m", quoted(look.metric));
  const typed = [...look.derive.map((text) => ["--derive", text]), ...(look.filter ? [["--query", look.filter]] : [])];
  const refused = section.refused[verb] ?? [];
  const told = [...(section.options[verb] ?? []), ...typed.filter(([flag]) => !refused.includes(flag))];
  words.push(...more, ...told.flatMap(([flag, text]) => [flag, ...(text ? [quoted(text)] : [])]));
  const untold = refused.filter((flag) => flag !== "--derive" && (flag !== "--query" || look.filter));
  if (verb === "timeline" && section.tabs.some(({ title }) => title === "GPU")) words.push(IN_FULL);
  if (untold.length) words.push(`# of everything: ${verb} has no ${untold.join(" and no ")}`);
  return words.join(" ");
}

/**
 * The verb of a tab, with the options that say which rows it shows.
 * @param {string} tab
 * @param {Seen["at"]} at
 * @param {string} name  of a function
 */
function verbOf(tab, { shows = "", shape = "", part = "", point = "" }, name) {
  const verb = VERBS[tab] ?? "info";
  if (tab === "Scaling" && point) return ["predict", "--at", quoted(point)];
  if (tab === "Explore" && shows.startsWith("flat")) return ["top", "--by", shows.split(".")[1] ?? "function"];
  if (tab === "Explore" && shows === "callers") return [verb, "--bottom-up"];
  if (tab === "Flame graph" && shape === "callers") return [verb, "--bottom-up"];
  if (tab === "Flame graph" && shape === "sandwich" && name)
    return [verb, "--query", quoted(`** -> '${name.replaceAll("'", "''")}' -> **`)];
  return tab === "Compare" && part === "Side by side" ? [verb, "--flat"] : [verb];
}

/**
 * The options with which `timeline` prints the sums of what is selected, or in sight.
 * @param {TimeView | null} time
 */
function timelineWords(time) {
  const words = ["--exclusive", "--by", "name", "--by", "kind"];
  const window = time?.range ?? time?.window;
  if (window) words.push("--window", window.map((ns) => `@${BigInt(time?.origin ?? "0") + BigInt(ns)}`).join(":"));
  if (time?.depth) words.push("--depth", String(time.depth));
  return words;
}
