/**
 * Who draws which kind of panel. A new kind is a module, its data in documents.d.ts, and a line here.
 *
 * @import { ReportKind } from "./documents.js"
 * @import { Drawers } from "./page.js"
 */

import { drawCallTree } from "./calltree.js";
import { drawComparedFlame } from "./compare_flame.js";
import { drawComparison } from "./compare_overview.js";
import { drawComparedTables } from "./compare_tables.js";
import { drawComparedTime } from "./compare_time.js";
import { drawEfficiency } from "./efficiency.js";
import { drawFlame } from "./flame.js";
import { drawDevices, drawGpu } from "./gpu.js";
import { drawGrowth } from "./growth.js";
import { drawHotspots } from "./hotspots.js";
import { drawMetrics } from "./metrics.js";
import { drawScaling } from "./scaling.js";
import { drawSpread } from "./spread.js";
import { drawTimeline } from "./timeline.js";
import { drawUnavailable } from "./unavailable.js";

/** @type {Drawers<ReportKind>} */
export const PANELS = {
  hotspots: drawHotspots,
  flame: drawFlame,
  calltree: drawCallTree,
  spread: drawSpread,
  metrictree: drawMetrics,
  efficiency: drawEfficiency,
  timeline: drawTimeline,
  devices: drawDevices,
  gpu: drawGpu,
  growth: drawGrowth,
  scaling: drawScaling,
  comparison: drawComparison,
  compareflame: drawComparedFlame,
  comparetree: drawComparedTables,
  comparetime: drawComparedTime,
  unavailable: drawUnavailable,
};
