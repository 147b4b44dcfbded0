/**
 * The document of a page, as modules see it: what the makers beside this folder give to encoding.py, with typed arrays
 * in place of NumPy's and arrays of strings in place of `Texts`. Names of properties are those of Python.
 */

/** A column of numbers: a typed array. */
export type Numbers = ArrayLike<number> & Iterable<number>;

/** A single number; null where Python had one that is not finite. */
export type Finite = number | null;

/** A word and a text. */
export type Fact = [word: string, text: string];

export interface Report {
  title: string;
  by: string;
  sections: Section[];
}

/** One input (section.py, report.py). Warnings begin with their severity. */
export interface Section {
  title: string;
  facts: Fact[];
  warnings: Fact[];
  commands: string[];
  /** What `explain` or `why` says: sentences, each with the command that shows more. */
  explained: Fact[];
  /** The options that chose a part of the input; empty where all of it is seen. */
  part: string;
  panels: Panel[];
}

// -- the contract between a page and its data -------------------------------------------------------------------------
// A page asks a provider by name, with parameters. That of a report has everything at hand (provider.js), that of the
// viewer asks its server for a little at a time (server/answers.py). Names of properties are those of Python.

/** A page before anything of it is drawn. */
export interface Outline {
  title: string;
  by: string;
  sections: SectionOutline[];
}

/** One input, and the names of its tabs. */
export interface SectionOutline extends Omit<Section, "panels"> {
  tabs: TabOutline[];
  /** Names of the metrics to choose from, and the one shown first. */
  metrics: string[];
  first_metric: string;
  /** How commands see the same: what they call the input, and options with their values by verb. */
  inputs: string[];
  options: Record<string, Fact[]>;
  /** Of each verb, the flags that it does not take. */
  refused: Record<string, string[]>;
  /** Whether formulas and patterns can be typed. */
  has_contexts: boolean;
}

export interface TabOutline {
  title: string;
  /** Whether what it shows depends on the metric. */
  has_metric: boolean;
}

/** What of an input is looked at: a metric, metrics that the user defined, and a pattern of call paths. */
export interface Look {
  input: number;
  metric: string;
  derive: string[];
  filter: string;
  /** Costs of this time only, as --window has it; without it, of the whole run. */
  window?: string;
}

/** What can be asked for, with its parameters and its answer. */
export interface Requests {
  /** Whether a look makes sense, and the metrics that it has. */
  look: { parameters: Look; answer: { metrics: string[] } };
  tab: { parameters: Look & { tab: string }; answer: { panels: Panel[] } };
  /** What `explain` says of a look. */
  explained: { parameters: Look; answer: { explained: Fact[] } };
  /** Rows right below one, in order; the empty node stands above all. */
  rows: {
    parameters: Look &
      View & { node: string; down: number; first: number; count: number; columns: string[]; sort?: string };
    answer: RowsData;
  };
  /** The rows above one of the call tree, and itself. */
  path: { parameters: Look & { node: string }; answer: RowsData };
  /** The costliest rows of the call tree whose names have a text. */
  search: { parameters: Look & { text: string }; answer: HitsData };
  /** A flame graph around a call or a chain of functions, without what is too narrow to be seen there. */
  flame: { parameters: Look & FlamePlace; answer: LiveFlameData };
  spread: { parameters: Look & View & { node: string; over: string }; answer: EntitiesData };
  grid: { parameters: Look & View & { node: string }; answer: CellsData };
  /** A view of the comparison with another input. */
  compare: { parameters: Look & { with: number; part: string }; answer: { panels: Panel[] } };
  /** What functions cost in several inputs. */
  columns: { parameters: Look & { others: number[] }; answer: SideBySide };
  /** The first rows of the answer to a query. */
  sql: { parameters: Look & { query: string }; answer: SqlAnswer };
  topology: { parameters: Look & View & { node: string; topology: number }; answer: TopologyData };
  source: { parameters: Look & View & { node: string }; answer: SourceData };
  /** Judgements of all models of the page at a point, and more about some of them. */
  judged: {
    parameters: Look & { point: string; models: number[] };
    answer: Judgements & { near: NearEquals; repeated: Repetitions };
  };
  /** The interval of a model along a parameter. */
  band: {
    parameters: Look & { model: number; along: number; point: string; from: number; to: number };
    answer: { x: Numbers; low: Numbers; high: Numbers };
  };
  timeline: { parameters: Look & TimeRows & { width: number; rows: number }; answer: TimePicture };
  /** The time of each name; with exact 0 at once, but for what `missing_ns` says. */
  timelegend: { parameters: Look & TimeRows & { exact: number; most: number }; answer: TimeLegend };
  timedurations: { parameters: Look & TimeRows; answer: TimeDurations };
  timecurves: { parameters: Look & TimeRows & { width: number }; answer: TimeCurves };
  timestack: { parameters: Look & TimeRows & { row: number; time: number }; answer: TimeStack };
  timefind: { parameters: Look & TimeRows & { text: string; time: number; forward: number }; answer: TimeHits };
  timespan: {
    parameters: Look & TimeRows & { span: number; profile: number; time: number };
    answer: { facts: Fact[]; links: TimeLink[] };
  };
  /** Calls and the operations that they launched, by the numbers of spans. */
  timelinks: { parameters: Look & TimeRows; answer: { n: number; call: Numbers; operation: Numbers } };
}

/** Part of a timeline: ns since it begins, rows among the first so many lines, calls down to a depth (0: all). */
export interface TimeRows {
  depth: number;
  from?: number;
  to?: number;
  lines?: number;
  top?: number;
  bottom?: number;
}

/** Some of the names of a timeline, by their numbers. */
export interface TimeNames {
  number: Numbers;
  text: string[];
  kind: string[];
}

/** What dominates in cells of time. Row r stands for those from bounds[r] to bounds[r + 1]. */
export interface TimePicture {
  progress: {
    /** The trace is read for the first time: the picture is of what was read so far, and nothing else is known. */
    reading: boolean;
    done: number;
    total: number;
    tracks_done: number;
    tracks: number;
    error: string;
    complete: boolean;
  };
  /** When it begins, by the clock of the traces. */
  origin: string;
  length_ns: number;
  n_left_out: number;
  /** That are complete. */
  n_lines: number;
  n_rows: number;
  top: number;
  bottom: number;
  bounds: Numbers;
  group: string[];
  name: string[];
  /** By row, 1 where it is not complete: what was innermost at some moments, as far as it was read. */
  pending: Numbers;
  start_ns: number;
  cell_ns: number;
  n_cells: number;
  is_merged: boolean;
  /** By row, of how many cells each is the same. */
  coarse: Numbers;
  /** Rows x cells: a number among `names` from 1 on, 0 where nothing went on. */
  cell: Numbers;
  /** 16 times the share of the name, and the share of all names, both of 15. */
  weight: Numbers;
  names: TimeNames;
  /** Each by itself, where few are in sight. */
  spans: TimeSpans | null;
}

export interface TimeSpans {
  row: Numbers;
  start: Numbers;
  end: Numbers;
  name: Numbers;
  depth: Numbers;
  /** Its number in the trace, -1 for a sample. */
  span: Numbers;
  names: TimeNames;
}

export interface TimeLegend {
  n: number;
  names: TimeNames;
  time_ns: string[];
  kinds: string[];
  kinds_ns: string[];
  total_ns: string;
  missing_ns: string;
  /** Of the window, on all rows that are the application's. */
  window_ns: string;
  n_rows: number;
}

/** How long spans were that begin in a window, by name; histograms have 64 numbers for each, by binary digits. */
export interface TimeDurations {
  n: number;
  n_names: number;
  names: TimeNames;
  count: Numbers;
  total_ns: string[];
  min_ns: Numbers;
  median_ns: Numbers;
  max_ns: Numbers;
  histogram: Numbers;
}

/** A counter in columns of time, NaN where nothing was measured. */
export interface TimeCurve {
  name: string;
  where: string;
  minimum: Numbers;
  maximum: Numbers;
  mean: Numbers;
  last: Numbers;
  before: Finite;
}

/** The first of `n` counters, from one time to another, in ns since the timeline begins. */
export interface TimeCurves {
  start_ns: number;
  end_ns: number;
  n: number;
  curves: TimeCurve[];
}

/** What was open, from the outside in; `path` has the keys of rows of the call tree, where it is known. */
export interface TimeStack {
  where: string;
  profile: number;
  text: string[];
  kind: string[];
  start: Numbers;
  end: Numbers;
  span: Numbers;
  path: string[];
}

export interface TimeHits {
  n_names: number;
  /** Of which the next one is looked for. */
  n_sought: number;
  time_ns: string;
  total_ns: string;
  next: { row: number; start: number; end: number } | null;
}

/** The other end of a launch. */
export interface TimeLink {
  row: number;
  start: number;
  end: number;
  text: string;
  span: number;
}

/** What the pane of the timeline begins with. */
export interface LiveTimelineData {
  deepest: number;
  n_events: number;
  has_counters: boolean;
  has_spans: boolean;
  has_tree: boolean;
}

/** Which rows there are: contexts, functions with their callers, or groups of contexts. */
export interface View {
  view: "tree" | "callers" | "flat";
  by: string;
}

/** Rows with their costs; the first metric is the one that is looked at. */
export interface RowsData {
  key: string[];
  name: string[];
  kind: string[];
  file: string[];
  line: Numbers;
  module: string[];
  opens: Numbers;
  /** How many siblings there are. */
  n: number;
  metrics: (Metric & { exclusive: Numbers; inclusive: Numbers })[];
}

export interface HitsData extends RowsData {
  /** Of the whole cost; null where nothing is a part of it. */
  share: Finite;
  /** Keys from the outermost row on. */
  paths: string[][];
}

/** Costs by rank, thread, ...; those of neighbours together where there are too many. NaN is no value. */
export interface EntitiesData {
  /** Why nobody knows them; empty where they are known. */
  reason: string;
  over: string;
  /** Of which there are several. */
  kinds: string[];
  n: number;
  scope: string;
  metric: Metric;
  name: string[];
  mean: Numbers;
  low: Numbers;
  high: Numbers;
  n_joined: number;
  /** Of all of them; null where nothing has a value. */
  statistics: {
    min: Finite;
    p25: number;
    median: number;
    p75: number;
    max: Finite;
    mean: Finite;
    std: Finite;
    sum: number;
    imbalance: Finite;
    none: number;
  } | null;
}

/** Costs by rank and thread. */
export interface CellsData {
  metric: Metric;
  grid: GridData;
  mean: Numbers;
  low: Numbers;
  high: Numbers;
}

/** Costs in the places of a Cartesian arrangement; those of neighbours in the first dimension may be one cell. */
export interface TopologyData {
  metric: Metric;
  name: string;
  sizes: number[];
  dimensions: string[];
  /** Of every cell, by dimension. */
  coordinates: Numbers[];
  /** What the system tree calls it, or the first of several. */
  place: string[];
  n_joined: number;
  mean: Numbers;
  low: Numbers;
  high: Numbers;
}

/** Lines around a place, and what they cost in the whole run; NaN is no cost. */
export interface SourceData {
  file: string;
  line: number;
  first: number;
  text: string[];
  /** Why there are none. */
  missing: string;
  metric: Metric;
  exclusive: Numbers;
}

/** A flame graph without its narrowest boxes, which are asked for when somebody zooms there. */
export interface LiveFlameData extends FlameData {
  n_folded: number;
  /** The function of each call that is kept, by its number among functions. */
  function: Numbers;
  /** Whether calls can be put into the order of time. */
  has_times: boolean;
}

/**
 * Which flame graph: of call paths; of functions with their callers; of one function, with its callers or with what it
 * calls. Nodes are contexts, or functions from the first on joined by dots.
 */
export interface FlamePlace {
  shape: "calls" | "callers" | "above" | "below";
  node: string;
  /** Its number among functions; there where the shape is of one. */
  function?: string;
  order: "cost" | "time";
}

/** Functions with what they cost in each of several inputs; NaN is no value. */
export interface SideBySide {
  metric: { name: string; unit: string; derived: string };
  sides: string[];
  /** None where costs do not add up. */
  totals: Finite[];
  name: string[];
  exclusive: Numbers[];
  inclusive: Numbers[];
  /** How many functions are not listed. */
  left: number;
  notes: string[];
}

/** Tables that can be asked by SQL, with their columns, and queries to begin with. */
export interface SqlData {
  tables: { name: string; kind: string; meaning: string; columns: [name: string, type: string][] }[];
  examples: string[];
}

/** Columns of an answer: every cell as the command line writes it, and as a number, NaN where it is none. */
export interface SqlAnswer {
  columns: { name: string; text: string[]; number: Numbers }[];
  n: number;
  notes: string[];
}

/** What the coupled panes begin with. */
export interface ExploreData {
  metric_tree: MetricTreeData;
  has_callers: boolean;
  /** Names of Cartesian arrangements of processes or threads. */
  topologies: string[];
}

export interface Provider {
  /** Whether data come from a server, so that looks can be typed. */
  readonly live: boolean;
  outline(): Promise<Outline>;
  /** Answers what was asked, or throws an error whose message is a sentence for the reader. */
  get<N extends keyof Requests>(
    name: N,
    parameters: Requests[N]["parameters"],
    signal?: AbortSignal,
  ): Promise<Requests[N]["answer"]>;
}

/** The views of a comparison of two inputs. */
export interface CompareData {
  parts: string[];
}

/** The data of every kind of panel. */
export interface PanelData extends ReportPanels {
  explore: ExploreData;
  liveflame: LiveFlameData;
  sql: SqlData;
  compare: CompareData;
  livetimeline: LiveTimelineData;
}

/** Those whose data may lie in the page. */
export interface ReportPanels {
  hotspots: HotspotsData;
  flame: FlameData;
  calltree: CallTreeData;
  spread: SpreadData;
  metrictree: MetricTreeData;
  efficiency: EfficiencyData;
  timeline: TimelineData;
  devices: GpuData;
  gpu: GpuData;
  growth: ScalingData;
  scaling: ScalingData;
  comparison: ComparisonData;
  compareflame: ComparedFlameData;
  comparetree: ComparedTablesData;
  comparetime: ComparedTimeData;
  unavailable: { reason: string };
}

export type Kind = keyof PanelData;

export type ReportKind = keyof ReportPanels;

export type Panel<K extends Kind = Kind> = {
  [P in K]: { kind: P; title: string; data: PanelData[P]; notes: string[] };
}[K];

// -- profiles (profile/) ----------------------------------------------------------------------------------------------

/** What rows are called, each combination once. A line below 0 is unknown. */
export interface Labels {
  name: string[];
  kind: string[];
  file: string[];
  line: Numbers;
  module: string[];
}

export interface Metric {
  name: string;
  unit: string;
  description: string;
  additive: boolean;
  /** Some contexts have no value, so that parts do not make up the whole. */
  missing: boolean;
  /** The formula of a derived metric, empty for others. */
  derived: string;
  total: Finite;
  /** What shares are of: the total; of signed costs the sizes of all of them together. */
  whole: Finite;
  /** Costs are differences, and some lie below zero. */
  signed: boolean;
  /** What all costs above zero add up to. */
  gain: Finite;
  /** What all costs below zero add up to. */
  loss: Finite;
}

/** Kept contexts, then rows that stand for folded subtrees. */
export interface TreeData {
  /** Ids of kept contexts, as `export` gives them. */
  context: Numbers;
  parent: Numbers;
  label: Numbers;
  /** When contexts were first seen, where that was asked for. */
  first?: Numbers;
  /** How many contexts each folded row stands for. */
  more: Numbers;
  metrics: (Metric & {
    exclusive: Numbers;
    /** There where it is not the sum of exclusive cost over the subtree. */
    inclusive?: Numbers;
    /** What signed costs are as large as. */
    weight?: Numbers;
  })[];
}

/** Rows in preorder with their depths, such as those of a hot path. */
export interface PathData {
  label: Numbers;
  depth: Numbers;
  exclusive: Numbers;
  inclusive: Numbers;
}

/** Functions with their callers below them. */
export interface CallersData extends PathData {
  /** How many rows are not in the page. */
  left: number;
  /** How many of these are functions; the others are callers of functions. */
  functions_left: number;
  /** What functions that are not in the page cost; null where costs do not add up. */
  rest: Finite;
}

/** A flat table: columns of costs by metric. */
export interface FlatData {
  by: string;
  label: Numbers;
  left: number;
  /** What rows that are not in the page cost; null where costs do not add up. */
  rest: Finite[];
  exclusive: Numbers[];
  inclusive: Numbers[];
}

interface ProfileData {
  labels: Labels;
  metrics: Metric[];
}

export interface HotspotsData extends ProfileData {
  /** Of each metric; null where nothing is a share of what called it. */
  paths: (PathData | null)[];
  top: FlatData;
  /** By name of a metric. */
  imbalance: Record<string, Finite>;
  n_runs: number;
  has_spread: boolean;
}

export interface FlameData extends ProfileData {
  tree: TreeData;
}

export interface CallTreeData extends FlameData {
  flat: FlatData[];
  /** Of each metric; null where costs cannot be divided among callers. */
  callers: (CallersData | null)[];
}

/** Cells of a heat map with at least one profile each. */
export interface GridData {
  column: Numbers;
  lane: Numbers;
  n_profiles: Numbers;
  columns: string[];
  lanes: string[];
  /** How many neighbouring columns are one. */
  n_joined: number;
}

/** The cost of everything or of a function, by cell; `all_` is over all profiles, `run_` over those of each run. */
export interface SpreadRow {
  metric: string;
  /** -1 for everything. */
  label: number;
  mean: Numbers;
  /** There where cells stand for several profiles. */
  low?: Numbers;
  high?: Numbers;
  all_min: Finite;
  all_mean: Finite;
  all_max: Finite;
  all_std: Finite;
  all_imbalance: Finite;
  /** How many profiles have no cost. */
  all_none: number;
  run_sum?: Numbers;
  run_mean?: Numbers;
  run_max?: Numbers;
  run_imbalance?: Numbers;
}

export interface SpreadData extends ProfileData {
  grid: GridData;
  rows: SpreadRow[];
  n_profiles: number;
  /** Names of runs, where there are several. */
  runs?: string[];
}

/** Metrics in preorder of their tree. NaN is no value. */
export interface MetricTreeData {
  name: string[];
  depth: Numbers;
  unit: string[];
  value: Numbers;
  without_children: Numbers;
  /** Of the metric at the root. */
  percent: Numbers;
  kind: string[];
}

// -- traces (timeline/, gpu/) -----------------------------------------------------------------------------------------

/** Names with the largest shares of all time, `n` with any, and the share of those that are not listed. */
export interface LegendData {
  text: string[];
  share: Numbers;
  n: number;
  rest: number;
}

interface Legends {
  legend: LegendData;
  kinds: LegendData;
}

/** Tracks of rows, and their boxes by the gap before each and its length, in ticks. */
export interface LayerData {
  start_ns: number;
  end_ns: number;
  base_ns: number;
  tick_ns: number;
  /** Boxes are events. */
  exact: boolean;
  shows: "all" | "line" | "levels";
  row: Numbers;
  level: Numbers;
  line: Numbers;
  count: Numbers;
  gap: Numbers;
  length: Numbers;
  name: Numbers;
  share: Numbers;
  busy: Numbers;
}

export interface TimelineData extends Legends {
  /** ns by the clock of the traces, in more digits than numbers of a page have. */
  origin: string;
  length_ns: number;
  rows: { group: string[]; name: string[]; profile: Numbers };
  sampled: Numbers;
  names: { text: string[]; kind: string[] };
  /** Where calls are cut at each depth. */
  depths: Legends[];
  overhead_ns: number;
  /** That of the whole time first. */
  layers: LayerData[];
  /** Names or kinds that have strong colours, where that is not for one timeline to say. */
  order?: (deepest: number, by: "name" | "kind") => string[];
}

/** A section of the summary; texts are numbers of which a page would lose digits. */
export interface SummaryData {
  name: string;
  rows: string[];
  columns: SummaryColumn[];
  left: number;
}

export interface SummaryColumn {
  name: string;
  values: Numbers | string[];
}

export interface Doing {
  name: string;
  /** Of each device. */
  ns: Numbers;
  total_ns: number;
}

export interface DevicesData {
  /** Below 0 where there is one run. */
  run: Numbers;
  rank: Numbers;
  agent: Numbers;
  busy_ns: Numbers;
  span_ns: Numbers;
  most_at_once: Numbers;
  doing: Doing[];
  total_span_ns: number;
  total_busy_ns: number;
}

export interface GpuData {
  sections: SummaryData[];
  devices: DevicesData;
  n_devices: number;
}

// -- efficiencies -----------------------------------------------------------------------------------------------------

/** How good an efficiency is. */
export type Grade = "good" | "fair" | "poor";

export interface EfficiencyFigure {
  name: string;
  depth: number;
  kind: "efficiency" | "share" | "count" | "amount";
  unit: string;
  /** Why some run lacks it. */
  missing: string;
}

/** Figures by run: values are null where one is missing, grades are empty but for efficiencies. */
export interface EfficiencyData {
  figures: EfficiencyFigure[];
  runs: { name: string; values: Finite[]; grades: (Grade | "")[] }[];
  /** From here on efficiencies are good, and fair. */
  good: number;
  fair: number;
}

// -- models (scaling/) ------------------------------------------------------------------------------------------------

/** Fitted functions: sums of terms, each a coefficient times a factor for each parameter that takes part. */
export interface Functions {
  constant: Numbers;
  /** Function m has the terms bounds[m] to bounds[m + 1]. */
  bounds: Numbers;
  coefficient: Numbers;
  /** Terms x parameters: number among factors, -1 for none. */
  factor: Numbers;
  factors: (Exponents | Piece[])[];
}

export type Exponents = [power: number, logarithm: number];

export interface Piece {
  from: Finite;
  to: Finite;
  constant: number;
  terms: [coefficient: number, power: number, logarithm: number][];
}

/** What to think of models at points: their intervals of 90%, how far to trust them and why, what stands apart. */
export interface Judgements {
  low: Numbers;
  high: Numbers;
  trust: string[];
  reason: string[];
  apart: Numbers;
}

/** Functions that fit nearly as well as some models: those of models[k] are bounds[k] .. bounds[k + 1]. */
export interface NearEquals {
  models: Numbers;
  bounds: Numbers;
  smape: Numbers;
  short: string[];
  functions: Functions;
}

/** Values of some models, where several were measured: those of models[k] at point j from bounds[k * points + j]. */
export interface Repetitions {
  models: Numbers;
  bounds: Numbers;
  values: Numbers;
}

export interface SurfaceRules {
  /** Points of a grid along each parameter. */
  side: number;
  contours: number;
  /** Values that span more are told apart by their logarithms. */
  span: number;
  /** Parameters that span more lie by ratios. */
  wide: number;
  /** Functions that are drawn together. */
  most: number;
}

/** Columns of models, and of points: those of a model at [model * points, (model + 1) * points). */
export interface ScalingData {
  parameters: string[];
  /** Points x parameters. */
  points: Numbers;
  target: Numbers;
  /** By metric, what the models that are not in the page predict at the target. */
  rest: Numbers;
  far: number;
  measure: string;
  metric_names: string[];
  /** By metric; what does not add up has no shares. */
  adds_up: boolean[];
  units: string[];
  first_metric: string;
  callpath: string[];
  metric: Numbers;
  function: string[];
  short: string[];
  order: string[];
  smape: Numbers;
  ar2: Numbers;
  re: Numbers;
  noise: Numbers;
  cautions: { text: string; models: Numbers }[];
  functions: Functions;
  /** How far to trust each model at the target: good, fair or poor, and why. */
  trust: string[];
  reason: string[];
  /** Models that nothing should be concluded from, at the target: they have no share, and come last. */
  apart: Numbers | boolean[];
  /** Percent of the metric at the largest point measured. */
  run_share: Numbers;
  /** Where the curve lies at the target, with a probability of 90%; not a number where that is unknown. */
  interval_low: Numbers;
  interval_high: Numbers;
  /** How curves and surfaces are drawn (modeling/surfaces.py). */
  rules: SurfaceRules;
  /** Judgements of some models at some points: points is [K, P], columns are [models, K]. */
  stops: Judgements & { points: Numbers; models: Numbers };
  near: NearEquals;
  repeated: Repetitions;
  value: Numbers;
  low: Numbers;
  high: Numbers;
}

// -- comparisons (comparison.py) --------------------------------------------------------------------------------------

/** What the left and the right side have. */
export type Both<T> = [left: T, right: T];

export interface ComparedMetric {
  name: string;
  /** What each side calls it. */
  names: Both<string>;
  unit: string;
  description: string;
  derived: string;
  additive: boolean;
  missing: boolean;
  totals: Both<Finite>;
  /** What the change comes to; empty where there is no total. */
  sentence: string;
  /** How many rows of `diff` each side has alone, and what these cost. */
  only: Both<[n: number, cost: Finite]>;
}

/** Call paths or functions that are kept, then rows that stand for folded ones. */
export interface ComparedTreeData {
  parent: Numbers;
  label: Numbers;
  more: Numbers;
  metrics: {
    exclusive: Both<Numbers>;
    /** There where it is not the sum of exclusive cost over the subtree. */
    inclusive?: Both<Numbers>;
    /** Who has a cost there or below: 1 the left side, 2 the right one, 3 both. */
    present: Numbers;
  }[];
}

/** How losses are computed (analysis/comparison/scaling.py). */
export interface ScalingQuestion {
  kind: "weak" | "strong";
  processes: Both<number>;
}

export interface ComparedData {
  labels: Labels;
  metrics: ComparedMetric[];
  sides: Both<string>;
  scaling: ScalingQuestion | null;
}

export interface ComparisonData extends ComparedData {
  functions: ComparedTreeData;
  has_tree: boolean;
}

export interface ComparedFlameData extends ComparedData {
  tree: ComparedTreeData;
}

export interface ComparedTablesData extends ComparedData {
  /** Null where functions are compared, whoever called them. */
  tree: ComparedTreeData | null;
  functions: ComparedTreeData;
}

export interface ComparedTimeData {
  pair: Both<{ name: string; timeline: TimelineData | null }>;
}
