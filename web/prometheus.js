// prometheus.js: reads the Prometheus text format (version 0.0.4), and takes quantiles from histograms' differences.
const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*$/;
const LABEL = /\s*([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"\s*,?/y;
const ESCAPES = {n: "\n", "\\": "\\", '"': '"'};

function number(text) {
    const names = {"+Inf": Infinity, "-Inf": -Infinity, Inf: Infinity};
    return names[text] ?? Number(text);
}

function labelsOf(text) {
    const labels = {};
    LABEL.lastIndex = 0;
    for (let found = LABEL.exec(text); found !== null; found = LABEL.exec(text)) {
        labels[found[1]] = found[2].replace(/\\(.)/g, (whole, c) => ESCAPES[c] ?? whole);
    }
    return labels;
}

function matches(labels, wanted) {
    return Object.entries(wanted).every(([name, value]) => labels[name] === value);
}

// What one scrape said.
export class Metrics {
    #samples = new Map();

    constructor(text) {
        for (const line of text.split("\n")) {
            const found = line.startsWith("#") ? null : LINE.exec(line);
            if (found !== null) {
                const sample = {labels: labelsOf(found[2] ?? ""), value: number(found[3])};
                this.#samples.set(found[1], [...(this.#samples.get(found[1]) ?? []), sample]);
            }
        }
    }

    has(name) {
        return this.#samples.has(name);
    }

    // [{labels, value}] of those that have the wanted labels.
    all(name, wanted = {}) {
        return (this.#samples.get(name) ?? []).filter((s) => matches(s.labels, wanted));
    }

    // The sum over those; null: there is none.
    get(name, wanted = {}) {
        const found = this.all(name, wanted);
        return found.length === 0 ? null : found.reduce((sum, s) => sum + s.value, 0);
    }

    // {bounds, counts, sum, count}: counts are cumulative, the last bound is Infinity; null: no such histogram.
    histogram(name, wanted = {}) {
        const byBound = new Map();
        for (const {labels, value} of this.all(`${name}_bucket`, wanted)) {
            const bound = number(labels.le);
            byBound.set(bound, (byBound.get(bound) ?? 0) + value);
        }
        const bounds = [...byBound.keys()].sort((a, b) => a - b);
        return bounds.length === 0 ? null : {bounds, counts: bounds.map((bound) => byBound.get(bound)),
            sum: this.get(`${name}_sum`, wanted) ?? 0, count: this.get(`${name}_count`, wanted) ?? 0};
    }
}

// What was observed between two scrapes.
export function difference(later, earlier) {
    if (later === null || earlier === null) {
        return later;
    }
    const before = new Map(earlier.bounds.map((bound, i) => [bound, earlier.counts[i]]));
    return {bounds: later.bounds, counts: later.counts.map((count, i) => count - (before.get(later.bounds[i]) ?? 0)),
        sum: later.sum - earlier.sum, count: later.count - earlier.count};
}

// As histogram_quantile: linear inside a bucket, and the last finite bound for what lies above it. null: nothing observed.
export function quantile(histogram, q) {
    const {bounds, counts} = histogram ?? {counts: []};
    const total = counts.at(-1);
    if (!(total > 0)) {
        return null;
    }
    const i = counts.findIndex((count) => count >= q * total);
    if (bounds[i] === Infinity) {
        return i > 0 ? bounds[i - 1] : null;
    }
    const [low, below] = i > 0 ? [bounds[i - 1], counts[i - 1]] : [0, 0];
    return low + (bounds[i] - low) * (q * total - below) / (counts[i] - below);
}
