// readings.js: from what /metrics said at several times to the numbers that the dashboard shows. null: not known, or nothing happened.
import { difference, Metrics, quantile } from "./prometheus.js";

export const NAMES = {
    firstToken: "millrace_time_to_first_token_seconds",
    betweenTokens: "millrace_inter_token_latency_seconds",
    answerTokens: "millrace_generation_tokens_total",
    promptTokens: "millrace_prompt_tokens_total",
    requests: "millrace_requests_total",
    stage: "millrace_request_stage_seconds",
    running: "millrace_requests_running",
    waiting: "millrace_requests_waiting",
    load: "millrace_load_ratio",
    sloAttainment: "millrace_slo_attainment_ratio",
    goodput: "millrace_goodput_requests_per_second",
    busy: "millrace_engine_busy_ratio",
    mfu: "millrace_mfu_ratio",
    mbu: "millrace_mbu_ratio",
    memory: "millrace_memory_bytes",
};
const SHORT_MS = 15_000; // what a point of a chart looks back on
const LONG_MS = 60_000;  // what a figure does
const BAD_OUTCOMES = new Set(["error", "out_of_memory", "timeout"]);

function ratio(numerator, denominator) {
    return denominator > 0 ? numerator / denominator : null;
}

export class Readings {
    #scrapes = []; // {at: ms, metrics}, the oldest first

    // at: milliseconds of any clock.
    add(text, at) {
        const metrics = new Metrics(text);
        const last = this.#scrapes.at(-1);
        const isFresh = last && metrics.get(NAMES.answerTokens) < last.metrics.get(NAMES.answerTokens);
        this.#scrapes = isFresh ? [] : this.#scrapes.filter((s) => at - s.at <= LONG_MS + SHORT_MS);
        this.#scrapes.push({at, metrics});
        return !isFresh; // false: counters began anew
    }

    clear() {
        this.#scrapes = [];
    }

    #now() {
        return this.#scrapes.at(-1);
    }

    #before(ms) {
        const now = this.#now();
        return this.#scrapes.find((s) => now.at - s.at <= ms) ?? now;
    }

    // The sum over all models.
    get(name, labels) {
        const value = this.#now()?.metrics.get(NAMES[name], labels) ?? null;
        return Number.isNaN(value) ? null : value;
    }

    // The mean over those models that have one.
    ratio(name) {
        const values = this.all(name).map(({value}) => value).filter((value) => !Number.isNaN(value));
        return ratio(values.reduce((sum, value) => sum + value, 0), values.length);
    }

    all(name) {
        return this.#now()?.metrics.all(NAMES[name]) ?? [];
    }

    // A counter's increase a second over the last ms.
    rate(name, ms, labels) {
        const now = this.#now();
        const before = this.#before(ms);
        const later = now.metrics.get(NAMES[name], labels);
        return later === null ? null : ratio(later - (before.metrics.get(NAMES[name], labels) ?? 0), (now.at - before.at) / 1000);
    }

    quantile(name, q, ms) {
        const now = this.#now();
        const before = this.#before(ms);
        return now === before ? null
            : quantile(difference(now.metrics.histogram(NAMES[name]), before.metrics.histogram(NAMES[name])), q);
    }

    // For each stage the seconds that requests spent there in the last minute, or ever where it saw none.
    stages() {
        const before = this.#before(LONG_MS).metrics;
        const name = `${NAMES.stage}_sum`;
        const stages = this.#now().metrics.all(name).map(({labels, value}) => ({name: labels.stage, value,
            recent: value - (before.get(name, {stage: labels.stage}) ?? 0)}));
        const isBusy = stages.some(({recent}) => recent > 0);
        return stages.map(({name: stage, value, recent}) => ({name: stage, value: isBusy ? recent : value}));
    }

    // Bytes of the key/value memory: {used, cached, free}.
    kv() {
        const [all, used, cached] = ["kv", "kv_in_use", "kv_cached"].map((pool) => this.get("memory", {pool}) ?? 0);
        return {used, cached, free: Math.max(0, all - used - cached)};
    }

    // Requests that ended: {all, refused, failed}, since the server began.
    outcomes() {
        const sums = {all: 0, refused: 0, failed: 0};
        for (const {labels, value} of this.all("requests")) {
            sums.all += value;
            sums.refused += labels.outcome === "refused" ? value : 0;
            sums.failed += BAD_OUTCOMES.has(labels.outcome) ? value : 0;
        }
        return sums;
    }
}

export const WINDOWS = {short: SHORT_MS, long: LONG_MS};
