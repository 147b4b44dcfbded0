/**
 * Commands that print what is seen.
 *
 * @import { Look } from "./documents.js"
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
const PLAIN = ["pop", "summary"]; // verbs that take no filter here

/** @param {string} text */
const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);

/**
 * The command that prints what a tab shows.
 * @param {string} tab
 * @param {string[]} paths  of the input, and of those that it is compared with
 * @param {Look} look
 * @param {Seen} seen
 */
export function commandOf(tab, paths, look, { at, time, named }) {
  const [verb, ...more] = verbOf(tab, at, named);
  const words = ["callgrove", verb, ...paths.map(quoted)];
  if (verb === "timeline") return [...words, ...timelineWords(time, look.filter)].join(" ");
  const defined = look.derive.flatMap((text) => ["--derive", quoted(text)]);
  if (verb === "sql") return [...words, ...(at.query ? [quoted(at.query)] : ["--tables"]), ...defined].join(" ");
  if (PLAIN.includes(verb) || verb === "info") return words.join(" ");
  if (look.metric) words.push("-m", quoted(look.metric));
  if (verb === "model" || verb === "predict") return [...words, ...more].join(" ");
  if (look.filter) defined.push("--query", quoted(look.filter));
  return [...words, ...more, ...defined].join(" ");
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
 * @param {string} filter
 */
function timelineWords(time, filter) {
  const words = ["--exclusive", "--by", "name", "--by", "kind"];
  const window = time?.range ?? time?.window;
  if (window) words.push("--window", window.map((ns) => `@${BigInt(time?.origin ?? "0") + BigInt(ns)}`).join(":"));
  if (time?.depth) words.push("--depth", String(time.depth));
  if (filter) words.push("--query", quoted(filter));
  return words;
}
