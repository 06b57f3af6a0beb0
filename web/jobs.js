// jobs.js: the view of batches: files of requests are sent, watched and cancelled, their answers saved.
import { cancelBatch, download, hasEnded, inputNames, listBatches } from "./batches.js";
import { el } from "./dom.js";
import { Job } from "./job.js";
import { Upload } from "./upload.js";

const EVERY_MS = 1000; // while something runs
const IDLE_MS = 10_000; // others may make batches, too
const RETRY_MS = 3000;
const PAGE = 20;

// What 403 says of a server that has no folder for jobs, not of a key that may not.
const isWithoutFolder = (error) => error.status === 403 && error.message.includes("--state-dir");

export class Jobs {
    #root = document.getElementById("view-jobs");
    #rows = new Map(); // of what is shown, by id
    #names = new Map(); // of inputs, by id
    #pages = [""]; // the batch before each page, up to the one that is shown
    #timer = 0;
    #turn = 0;
    #isActive = false;

    constructor({onKeyNeeded}) {
        this.upload = new Upload({
            area: this.#root,
            onBatch: () => this.#goTo([""]),
            onError: (error, file) => this.#tell(error, `${file.name} was not taken`),
        });
        this.list = el("ul", {class: "jobs"});
        this.empty = el("p", {class: "note", hidden: true}, "No jobs yet.");
        this.absent = el("p", {class: "note", hidden: true}, "This server keeps no jobs: it was started without ",
            el("code", {}, "--state-dir DIR"), ", the folder in which files and batches outlast it.");
        this.problem = el("p", {class: "error", role: "alert", hidden: true});
        this.key = el("button", {type: "button", hidden: true, click: onKeyNeeded}, "Enter the API key");
        this.newer = el("button", {type: "button", hidden: true, click: () => this.#goTo(this.#pages.slice(0, -1))}, "Newer");
        this.older = el("button", {type: "button", hidden: true, click: () => this.#goTo([...this.#pages, this.last])}, "Older");
        this.content = el("div", {hidden: true}, this.upload.node, this.empty, this.list, el("div", {class: "row"}, this.newer, this.older));
        this.#root.append(el("h1", {class: "offscreen"}, "Jobs"), this.problem, this.key, this.absent, this.content);
        document.addEventListener("visibilitychange", () => this.refresh());
    }

    setActive(isActive) {
        this.#isActive = isActive;
        this.refresh();
    }

    refresh() {
        this.#schedule(0);
    }

    #goTo(pages) {
        this.#pages = pages;
        this.refresh();
    }

    // Nobody looks: nothing is asked.
    #schedule(ms) {
        clearTimeout(this.#timer);
        if (this.#isActive && !document.hidden) {
            this.#timer = setTimeout(() => this.#poll(), ms);
        }
    }

    async #poll() {
        const turn = ++this.#turn;
        try {
            const page = await listBatches(PAGE, this.#pages.at(-1));
            await this.#findNames(page.data);
            if (turn === this.#turn) { // else a later one shows what is newer
                this.#show(page);
                this.#schedule(page.data.every(hasEnded) ? IDLE_MS : EVERY_MS);
            }
        } catch (error) {
            if (turn === this.#turn) {
                this.#failed(error);
            }
        }
    }

    async #findNames(batches) {
        const unknown = batches.map((batch) => batch.input_file_id).filter((id) => !this.#names.has(id));
        if (unknown.length > 0) {
            const names = await inputNames();
            unknown.forEach((id) => this.#names.set(id, names.get(id) ?? id));
        }
    }

    #show({data, last_id: last, has_more: hasMore}) {
        const rows = new Map(data.map((batch) => [batch.id, this.#rows.get(batch.id) ?? this.#makeRow()]));
        const nodes = [...rows.values()].map((row) => row.node);
        data.forEach((batch) => rows.get(batch.id).show(batch, this.#names.get(batch.input_file_id), Date.now() / 1000));
        if (nodes.length !== this.list.children.length || nodes.some((node, i) => node !== this.list.children[i])) {
            this.list.replaceChildren(...nodes); // only then: what has the focus would lose it
        }
        this.#rows = rows;
        this.last = last;
        this.newer.hidden = this.#pages.length === 1;
        this.older.hidden = !hasMore;
        this.empty.hidden = data.length > 0;
        this.content.hidden = false;
        this.absent.hidden = true;
        this.key.hidden = true;
        if (this.problem.classList.contains("passing")) {
            this.problem.hidden = true;
        }
    }

    #makeRow() {
        const attempt = async (promise, what) => {
            try {
                await promise;
                this.problem.hidden = true;
            } catch (error) {
                this.#tell(error, what);
            }
        };
        return new Job({
            cancel: (batch) => attempt(cancelBatch(batch.id).finally(() => this.refresh()), "It was not cancelled"),
            download: (fileId, name) => attempt(download(fileId, name), `${name} was not saved`),
        });
    }

    // The list could not be read: told until it can.
    #failed(error) {
        const isAbsent = isWithoutFolder(error);
        this.absent.hidden = !isAbsent;
        this.key.hidden = error.status !== 401;
        this.content.hidden = isAbsent || error.status === 401;
        this.#tell(error, "No jobs");
        this.problem.classList.add("passing");
        this.problem.hidden = isAbsent;
        if (error.status === 400) {
            this.#pages = [""]; // what the page begins behind was forgotten
        }
        if (!this.content.hidden) {
            this.#schedule(RETRY_MS);
        }
    }

    #tell(error, what) {
        const when = error.retryAfter > 0 ? ` Try again in ${error.retryAfter} s.` : "";
        this.problem.textContent = `${what}: ${error.message}.${when}`;
        this.problem.classList.remove("passing");
        this.problem.hidden = false;
    }
}
