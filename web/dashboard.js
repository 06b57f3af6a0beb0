// dashboard.js: what the server does now, once a second, from /metrics and /slots.
import { getJson, getText } from "./api.js";
import { BlockPicture, LineChart, stackedBar } from "./charts.js";
import { el } from "./dom.js";
import { Readings, WINDOWS } from "./readings.js";

const EVERY_MS = 1000;
// Where a published study of a serving system found a request's time to go (percent), for comparison.
const PUBLISHED = [["loading", 35], ["memory exchange", 28], ["compute", 22], ["before and after", 15]]
    .map(([name, value]) => ({name, value}));

const count = (x) => (x >= 10_000 ? `${(x / 1000).toFixed(1)} k` : x >= 100 ? x.toFixed(0) : String(Math.round(x * 10) / 10));
const time = (s) => (s >= 1 ? `${Number(s.toFixed(2))} s` : s >= 0.01 ? `${Math.round(s * 1000)} ms` : `${(s * 1000).toFixed(1)} ms`);
const percent = (x) => `${Math.round(x * 100)} %`;
const share = (value, total) => (total > 0 ? `${(100 * value / total).toFixed(1)} %` : "–");
const or = (value, format) => (value === null || value === undefined || Number.isNaN(value) ? "–" : format(value));

function bytes(n) {
    const units = ["B", "kB", "MB", "GB", "TB"];
    const i = n > 0 ? Math.min(Math.floor(Math.log(n) / Math.log(1000)), units.length - 1) : 0;
    return `${(n / 1000 ** i).toFixed(i > 0 && n / 1000 ** i < 100 ? 1 : 0)} ${units[i]}`;
}

function tile(label) {
    const value = el("strong", {}, "–");
    const below = el("small", {}, "\u00a0");
    return {node: el("div", {class: "tile"}, el("h2", {}, label), value, below),
        set(text, note) {
            value.textContent = text;
            below.textContent = note || "\u00a0";
        }};
}

export class Dashboard {
    #root = document.getElementById("view-dashboard");
    #readings = new Readings();
    #timer = 0;
    #isActive = false;

    constructor() {
        this.tiles = {rate: tile("Tokens a second"), first: tile("First token"), between: tile("Between tokens"), batch: tile("Running"),
            load: tile("Load"), slo: tile("Within targets"), requests: tile("Requests"), limits: tile("Bandwidth")};
        this.charts = {
            rate: new LineChart("Tokens a second", ["answers", "prompts"], count),
            between: new LineChart("Between tokens", ["P50", "P99"], time),
            first: new LineChart("First token", ["P50", "P99"], time),
            batch: new LineChart("Batch and queue", ["running", "waiting"], count),
        };
        this.blocks = new BlockPicture("Keys and values");
        this.memory = el("div");
        this.blocks.node.append(this.memory);
        this.stages = el("div");
        this.slots = el("ul", {class: "slots"});
        this.problem = el("p", {class: "error", role: "alert", hidden: true});
        this.#root.append(el("h1", {class: "offscreen"}, "Dashboard"), this.problem,
            el("div", {class: "tiles"}, ...Object.values(this.tiles).map((t) => t.node)),
            el("div", {class: "panels"}, ...Object.values(this.charts).map((c) => c.node), this.blocks.node,
                el("section", {class: "panel"}, el("h2", {}, "Where the time goes"), this.stages, el("h3", {}, "Places in the batch"), this.slots)));
        document.addEventListener("visibilitychange", () => this.#schedule(0));
    }

    setActive(isActive) {
        this.#isActive = isActive;
        this.#schedule(0);
    }

    // Nobody looks: nothing is asked.
    #schedule(ms) {
        clearTimeout(this.#timer);
        if (this.#isActive && !document.hidden) {
            this.#timer = setTimeout(() => this.#poll(), ms);
        }
    }

    async #poll() {
        try {
            const [text, slots] = await Promise.all([getText("/metrics"), getJson("/slots").catch(() => [])]);
            if (!this.#readings.add(text, performance.now())) {
                Object.values(this.charts).forEach((chart) => chart.clear());
            }
            this.problem.hidden = true;
            this.#show(slots);
        } catch (error) {
            this.problem.textContent = `No figures: ${error.message}.`;
            this.problem.hidden = false;
        }
        this.#schedule(EVERY_MS);
    }

    #show(slots) {
        this.#showTiles();
        this.#showCharts();
        this.#showBlocks();
        this.#showStages();
        this.#showSlots(slots);
    }

    #showTiles() {
        const r = this.#readings;
        const pair = (name) => ["P99", r.quantile(name, 0.99, WINDOWS.long), r.quantile(name, 0.5, WINDOWS.long)];
        const {rate, first, between, batch, load, slo, requests, limits} = this.tiles;
        rate.set(or(r.rate("answerTokens", 3000), count), `prompts ${or(r.rate("promptTokens", 3000), count)}`);
        for (const [node, name] of [[first, "firstToken"], [between, "betweenTokens"]]) {
            const [label, p99, p50] = pair(name);
            node.set(or(p50, time), `${label} ${or(p99, time)}`);
        }
        batch.set(or(r.get("running"), count), `waiting ${or(r.get("waiting"), count)}`);
        load.set(or(r.ratio("load"), percent), `cores busy ${or(r.ratio("busy"), percent)}`);
        slo.set(or(r.ratio("sloAttainment"), percent), `goodput ${or(r.get("goodput"), (x) => x.toFixed(2))}/s`);
        const {all, refused, failed} = r.outcomes();
        requests.set(count(all), `${refused} refused, ${failed} failed`);
        limits.set(or(r.ratio("mbu"), percent), `arithmetic ${or(r.ratio("mfu"), percent)}`);
    }

    #showCharts() {
        const r = this.#readings;
        const quantiles = (name) => [r.quantile(name, 0.5, WINDOWS.short), r.quantile(name, 0.99, WINDOWS.short)];
        this.charts.rate.push([r.rate("answerTokens", 3000), r.rate("promptTokens", 3000)]);
        this.charts.between.push(quantiles("betweenTokens"));
        this.charts.first.push(quantiles("firstToken"));
        this.charts.batch.push([r.get("running"), r.get("waiting")]);
    }

    #showBlocks() {
        const kv = this.#readings.kv();
        this.blocks.set([["used", "in use"], ["cached", "prefix cache"], ["free", "free"]]
            .map(([state, name]) => ({name, className: `kv-${state}`, n: kv[state], text: bytes(kv[state])})));
        const pools = [["weights", "weights"], ["kv", "keys and values"], ["responses", "whole answers"], ["host_tier", "blocks put aside"]];
        this.memory.replaceChildren(stackedBar("Memory", pools.map(([pool, name]) =>
            ({name, value: this.#readings.get("memory", {pool}) ?? 0})), bytes));
    }

    #showStages() {
        const stages = this.#readings.stages();
        this.stages.replaceChildren(stackedBar("Here", stages, share),
            stackedBar("A published serving system", PUBLISHED, share));
    }

    #showSlots(slots) {
        this.slots.replaceChildren(...slots.map(({id, is_processing: isBusy}) =>
            el("li", {class: isBusy ? "busy" : null, "aria-label": `${id}: ${isBusy ? "in use" : "free"}`})));
    }
}
