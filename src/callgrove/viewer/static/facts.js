/**
 * What was opened: facts, warnings, and commands to go on with.
 *
 * @import { Fact, SectionOutline } from "./documents.js"
 */

import { breakable, button, element } from "./dom.js";

const BEHIND_FOLDERS = /(?<=\S\/)/;

/**
 * @param {HTMLElement} place
 * @param {SectionOutline} section
 */
export function drawFacts(place, section) {
  const rows = section.facts.flatMap(([word, text]) => [
    element("dt", { text: word }),
    element("dd", { attributes: { title: text } }, breakable(text, BEHIND_FOLDERS)),
  ]);
  if (section.explained.length) place.append(explanation(section.explained));
  place.append(
    element("section", { class: "card facts" }, [
      element("h2", { text: "What was opened" }),
      element("dl", {}, rows),
      section.warnings.length
        ? element("ul", { class: "warnings", attributes: { "aria-label": "Warnings" } }, section.warnings.map(warning))
        : null,
      section.commands.length
        ? element("div", { class: "commands" }, [
            element("h3", { text: "Go on with" }),
            ...section.commands.map(command),
          ])
        : null,
    ]),
  );
}

/**
 * Sentences, each with the command that shows more.
 * @param {Fact[]} explained
 */
export function explanation(explained) {
  const items = explained.map(([sentence, more]) =>
    element("li", {}, [element("p", { text: sentence }), command(more)]),
  );
  return element("section", { class: "card explained" }, [
    element("h2", { text: "In a few sentences" }),
    element("ul", {}, items),
  ]);
}

/** @param {Fact} fact */
function warning([severity, text]) {
  return element("li", { class: `warning ${severity}` }, [
    element("span", { class: "badge", text: severity }),
    element("span", { text }),
  ]);
}

/** @param {string} text */
function command(text) {
  const copy = button("copy", `Copy: ${text}`, async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "copied";
    } catch {
      copy.textContent = "select it"; // pages from disk may not write to the clipboard
    }
  });
  return element("div", { class: "command" }, [element("code", {}, breakable(text, BEHIND_FOLDERS)), copy]);
}
