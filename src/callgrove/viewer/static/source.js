/**
 * Lines of source around the place of a row, with what each costs in the whole run.
 *
 * @import { Look, Provider, SourceData, View } from "./documents.js"
 */

import { element } from "./dom.js";
import { amountOf, basename, percent } from "./format.js";

/**
 * @param {HTMLElement} place
 * @param {Provider} provider
 * @param {(Look & View & { node: string }) | null} parameters  null where no row is chosen
 */
export async function drawSource(place, provider, parameters) {
  const asked = JSON.stringify(parameters);
  place.dataset.shows = asked;
  if (!parameters) {
    place.replaceChildren(
      element("h2", { text: "Source" }),
      element("p", { class: "reason", text: "Choose a row to see its lines." }),
    );
    return;
  }
  try {
    const data = await provider.get("source", parameters);
    if (place.dataset.shows === asked) drawLines(place, data);
  } catch (error) {
    if (place.dataset.shows !== asked) return;
    place.replaceChildren(element("p", { class: "reason", text: error instanceof Error ? error.message : `${error}` }));
  }
}

/**
 * @param {HTMLElement} place
 * @param {SourceData} data
 */
function drawLines(place, { file, line, first, text, missing, metric, exclusive }) {
  const title = element("h2", { text: file ? `${basename(file)}:${line}` : "Source", attributes: { title: file } });
  if (missing) {
    place.replaceChildren(title, element("p", { class: "reason", text: missing }));
    return;
  }
  const amount = amountOf(metric.unit, metric.derived !== "");
  const most = Math.max(...Array.from(exclusive).filter(Number.isFinite), 0);
  const rows = text.map((words, k) => {
    const cost = exclusive[k];
    const bar = element("span", { class: "line-bar" });
    bar.style.width = `${most > 0 && cost > 0 ? (cost / most) * 100 : 0}%`;
    const share = metric.whole && Number.isFinite(cost) ? percent(cost / metric.whole) : "";
    return element("div", { class: first + k === line ? "line here" : "line" }, [
      element("span", { class: "line-number", text: String(first + k) }),
      element("span", { class: "line-cost", attributes: { title: `${share} of ${metric.name}` } }, [
        bar,
        element("span", { text: Number.isFinite(cost) && cost ? amount(cost) : "" }),
      ]),
      element("code", { text: words }),
    ]);
  });
  const lines = element("div", { class: "lines", attributes: { tabindex: "0" } }, rows);
  place.replaceChildren(title, lines);
  const here = /** @type {HTMLElement | null} */ (lines.querySelector(".here"));
  if (here) lines.scrollTop = here.offsetTop - lines.offsetTop - lines.clientHeight / 2;
}
