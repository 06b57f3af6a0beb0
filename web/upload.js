// upload.js: where files of requests are chosen or dropped, and sent one after another.
import { createBatch, ENDPOINTS, endpointOf } from "./batches.js";
import { el } from "./dom.js";

const WINDOWS = [["24h", "24 hours"], ["7d", "7 days"], ["30d", "30 days"]];

function choice(label, options) {
    const select = el("select", {}, ...options.map(([value, text]) => el("option", {value}, text)));
    return {select, node: el("label", {}, `${label} `, select)};
}

export class Upload {
    #queue = [];

    // area: where files may be dropped. onBatch: one was made. onError(error, file): one was not.
    constructor({area, onBatch, onError}) {
        this.onBatch = onBatch;
        this.onError = onError;
        this.input = el("input", {type: "file", multiple: true, class: "offscreen", change: () => this.#take(this.input.files)});
        this.endpoint = choice("Endpoint", [["", "as the file says"], ...ENDPOINTS.map((url) => [url, url])]);
        this.window = choice("Time limit", WINDOWS);
        this.told = el("span", {role: "status"});
        this.stop = el("button", {type: "button", hidden: true, click: () => this.sending.abort()}, "Stop");
        this.node = el("div", {class: "upload"},
            el("label", {class: "drop"}, this.input, el("b", {}, "Choose files"), " or drop them here: a request a line, as JSON"),
            el("div", {class: "row"}, this.endpoint.node, this.window.node, this.told, this.stop));
        for (const [name, isOver] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
            area.addEventListener(name, (event) => this.#drag(event, isOver));
        }
    }

    #drag(event, isOver) {
        event.preventDefault();
        this.node.classList.toggle("over", isOver);
        if (event.type === "drop") {
            this.#take(event.dataTransfer.files);
        }
    }

    // The first that fails ends it: the others would, too, or would come out of order.
    async #take(list) {
        this.#queue.push(...list);
        this.input.value = ""; // the same file may be chosen again
        if (!this.stop.hidden) {
            return; // those before it are being sent
        }
        this.sending = new AbortController();
        this.stop.hidden = false;
        while (this.#queue.length > 0) {
            if (!await this.#send(this.#queue.shift())) {
                this.#queue = [];
            }
        }
        if (document.activeElement === this.stop) {
            this.input.focus();
        }
        this.stop.hidden = true;
    }

    async #send(file) {
        const tell = (share) => { this.told.textContent = `${file.name}: ${Math.floor(share * 100)} % sent`; };
        try {
            const endpoint = this.endpoint.select.value || await endpointOf(file);
            tell(0);
            await createBatch(file, endpoint, this.window.select.value, tell, this.sending.signal);
            this.told.textContent = `${file.name}: sent`;
            this.onBatch();
            return true;
        } catch (error) {
            const isStopped = error.name === "AbortError";
            this.told.textContent = isStopped ? `${file.name}: stopped` : "";
            if (!isStopped) {
                this.onError(error, file);
            }
            return false;
        }
    }
}
