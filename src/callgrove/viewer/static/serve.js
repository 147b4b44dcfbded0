/** Where the page of the viewer begins: shows how far opening is, then draws what the server gives. */

import { followAddress } from "./address.js";
import { drawCompare } from "./compare_pane.js";
import { button, element } from "./dom.js";
import { drawExplore } from "./explore.js";
import { drawLiveFlame } from "./flame_pane.js";
import { drawLiveTimeline } from "./live_timeline.js";
import { lookBar } from "./lookbar.js";
import { drawPage } from "./page.js";
import { PANELS } from "./panels.js";
import { ServedProvider } from "./served.js";
import { drawSql } from "./sql.js";

/** @import { InputStatus } from "./served.js" */

const AGAIN_MS = 300; // between two looks at how far opening is

/** The token came with the address once; the cookie has it now, and nobody needs to read it over a shoulder. */
function hideToken() {
  const address = new URL(location.href);
  if (!address.searchParams.has("token")) return;
  address.searchParams.delete("token");
  history.replaceState(history.state, "", address);
}

/** @param {InputStatus[]} inputs */
function progressOf(inputs) {
  return inputs.map(({ name, state, doing, done, total }) => {
    const bar = element("progress", { attributes: { "aria-label": `Opening ${name}` } });
    if (state !== "opening") bar.value = 1;
    else if (total) bar.value = done / total;
    const count = total ? ` ${done} of ${total}` : "";
    const text = state === "opening" ? `${doing}${count}` : state === "failed" ? "could not be opened" : "is open";
    return element("li", {}, [element("strong", { text: name }), element("span", { text }), bar]);
  });
}

/** @param {ServedProvider} provider */
async function opened(provider) {
  const list = element("ul", { class: "progress" });
  const place = element("main", { class: "opening-page", attributes: { role: "status" } }, [
    element("h1", { text: "Opening" }),
    list,
  ]);
  for (;;) {
    const inputs = await provider.status();
    if (inputs.every(({ state }) => state !== "opening")) break;
    if (!place.isConnected) document.body.append(place);
    list.replaceChildren(...progressOf(inputs));
    await new Promise((done) => setTimeout(done, AGAIN_MS));
  }
  place.remove();
}

/**
 * Say that an input is not what it was, and offer to open it again.
 * @param {ServedProvider} provider
 * @param {number} input
 * @param {string} message
 */
function sayStale(provider, input, message) {
  const again = async () => {
    await provider.open(input);
    location.reload();
  };
  document.body.querySelector(".stale")?.remove();
  document.body.prepend(
    element("div", { class: "stale", attributes: { role: "alert" } }, [
      element("span", { text: message }),
      button("Open again", "Read the files anew", again),
    ]),
  );
}

async function start() {
  hideToken();
  const provider = new ServedProvider();
  provider.onStale = (input, message) => sayStale(provider, input, message);
  try {
    await opened(provider);
    const live = { explore: drawExplore, liveflame: drawLiveFlame, livetimeline: drawLiveTimeline };
    const drawers = { ...PANELS, ...live, sql: drawSql, compare: drawCompare };
    const page = await drawPage(document.body, provider, drawers, (section) => lookBar(section, provider));
    await followAddress(page);
    document.documentElement.dataset.ready = "true";
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    document.body.append(element("p", { class: "reason", text, attributes: { role: "alert" } }));
    throw error;
  }
}

start();
