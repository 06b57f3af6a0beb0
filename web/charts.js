// charts.js: small charts, drawn with SVG, canvas and boxes; colours come from the style sheet.
import { el, svg } from "./dom.js";

const HEIGHT = 120;
const TOP = 8;
const BOTTOM = 16;
const MIN_SAMPLES = 60; // one a second
const MAX_SAMPLES = 180;
const MAX_CELLS = 1024;
const BLOCKS_HEIGHT = 140; // about

// A round number at or above x: 1, 2 or 5 times a power of ten.
export function roundUp(x) {
    if (!(x > 0)) {
        return 1;
    }
    const unit = 10 ** Math.floor(Math.log10(x));
    return unit * [1, 2, 5, 10].find((step) => step * unit >= x * 0.999);
}

// Lines over the last samples. A value of null is a gap.
export class LineChart {
    #samples = [];

    // names: of the series. format: a value to text with its unit.
    constructor(title, names, format) {
        this.title = title;
        this.names = names;
        this.format = format;
        this.values = names.map(() => el("b", {}, "–"));
        this.svg = svg("svg", {class: "lines", height: HEIGHT, role: "img"});
        const legend = el("span", {class: "legend"}, ...names.map((name, i) =>
            el("span", {class: `series-${i}`}, el("i", {"aria-hidden": "true"}), el("span", {}, name), " ", this.values[i])));
        this.node = el("figure", {class: "panel"}, el("figcaption", {}, el("h2", {}, title), legend), this.svg);
        this.svg.addEventListener("pointermove", (event) => this.#point(event));
        this.svg.addEventListener("pointerleave", () => this.#label(this.#samples.length - 1));
        new ResizeObserver(() => this.draw()).observe(this.node);
    }

    push(values) {
        this.#samples.push(values);
        this.#samples.splice(0, this.#samples.length - MAX_SAMPLES);
        this.draw();
        this.#label(this.#samples.length - 1);
    }

    clear() {
        this.#samples = [];
        this.draw();
    }

    draw() {
        const width = this.svg.clientWidth;
        if (width === 0) {
            return;
        }
        this.n = Math.max(this.#samples.length, MIN_SAMPLES);
        const most = roundUp(Math.max(0, ...this.#samples.flat().filter((v) => v !== null)));
        this.x = (i) => width - (this.#samples.length - 1 - i) * width / (this.n - 1);
        const y = (v) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - v / most);
        const grid = [0, most / 2, most].map((v) => [
            svg("line", {class: "grid", x1: 0, x2: width, y1: y(v), y2: y(v)}),
            v === 0 ? null : svg("text", {x: 0, y: y(v) + 11}, this.format(v)),
        ]);
        this.cursor = svg("line", {class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden"});
        this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
        this.svg.replaceChildren(...grid.flat().filter((node) => node !== null),
            svg("text", {x: 0, y: HEIGHT - 3}, `${this.n} s ago`),
            svg("text", {x: width, y: HEIGHT - 3, class: "end"}, "now"),
            ...this.names.map((_, i) => svg("path", {class: `line series-${i}`, d: this.#path(i, y)})), this.cursor);
    }

    #path(series, y) {
        let path = "";
        let isOpen = false;
        this.#samples.forEach((values, i) => {
            const value = values[series];
            if (value !== null) {
                path += `${isOpen ? "L" : "M"}${this.x(i).toFixed(1)} ${y(value).toFixed(1)}`;
                path += isOpen ? "" : "h0.01"; // a point alone is seen, too
            }
            isOpen = value !== null;
        });
        return path;
    }

    #point(event) {
        const width = this.svg.clientWidth;
        const fromEnd = Math.round((width - event.offsetX) * (this.n - 1) / width);
        const i = this.#samples.length - 1 - fromEnd;
        if (this.#samples[i]) {
            this.#label(i);
            this.cursor.setAttribute("transform", `translate(${this.x(i)} 0)`);
            this.cursor.setAttribute("visibility", "visible");
        }
    }

    #label(i) {
        const texts = this.names.map((_, k) => {
            const value = this.#samples[i]?.[k] ?? null;
            return value === null ? "–" : this.format(value);
        });
        this.values.forEach((node, k) => node.replaceChildren(texts[k]));
        this.svg.setAttribute("aria-label", `${this.title}: ${this.names.map((name, k) => `${name} ${texts[k]}`).join(", ")}`);
    }
}

// Blocks of memory as cells, each part in its colour, in the order given.
export class BlockPicture {
    constructor(title) {
        this.canvas = el("canvas", {role: "img"});
        this.legend = el("span", {class: "legend"});
        this.node = el("figure", {class: "panel blocks"}, el("figcaption", {}, el("h2", {}, title), this.legend), this.canvas);
        this.parts = [];
        new ResizeObserver(() => this.draw()).observe(this.node);
    }

    // parts: [{name, className, n, text}], n of any unit each.
    set(parts) {
        this.parts = parts;
        this.legend.replaceChildren(...parts.map((part) =>
            el("span", {class: part.className}, el("i", {"aria-hidden": "true"}), el("span", {}, part.name), " ", el("b", {}, part.text))));
        this.canvas.setAttribute("aria-label", parts.map((part) => `${part.name}: ${part.text}`).join(", "));
        this.draw();
    }

    draw() {
        const total = this.parts.reduce((sum, part) => sum + part.n, 0);
        const width = this.canvas.clientWidth;
        if (total === 0 || width === 0) {
            return;
        }
        const perCell = Math.ceil(total / MAX_CELLS);
        const cells = Math.ceil(total / perCell);
        const columns = Math.max(1, Math.round(Math.sqrt(cells * width / BLOCKS_HEIGHT)));
        const size = width / columns;
        const height = Math.ceil(cells / columns) * size;
        const scale = window.devicePixelRatio;
        this.canvas.width = width * scale;
        this.canvas.height = height * scale;
        this.canvas.style.height = `${height}px`;
        const context = this.canvas.getContext("2d");
        context.scale(scale, scale);
        const gap = size > 5 ? 1.5 : 0.5;
        let cell = 0;
        let end = 0;
        this.parts.forEach((part, i) => {
            context.fillStyle = getComputedStyle(this.legend.children[i]).getPropertyValue("color");
            end += part.n;
            for (; cell < cells && (cell + 0.5) * perCell < end; cell++) {
                context.fillRect((cell % columns) * size, Math.floor(cell / columns) * size, size - gap, size - gap);
            }
        });
    }
}

// Shares of a whole as one bar: [{name, value}].
export function stackedBar(label, parts, format) {
    const total = parts.reduce((sum, part) => sum + part.value, 0);
    const boxes = parts.map(({value}, i) => {
        const box = el("i", {class: `part-${i}`});
        box.style.flexGrow = total > 0 ? value / total : 0;
        return box;
    });
    const words = parts.map(({name, value}) => `${name} ${format(value, total)}`);
    return el("div", {class: "stack"}, el("h3", {}, label),
        el("div", {class: "bar", role: "img", "aria-label": `${label}: ${words.join(", ")}`}, ...boxes),
        el("ul", {class: "legend"}, ...parts.map((part, i) =>
            el("li", {class: `part-${i}`}, el("i", {"aria-hidden": "true"}), el("span", {}, part.name), " ",
                el("b", {}, format(part.value, total))))));
}
