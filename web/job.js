// job.js: one batch in the list: how far it is, what was wrong, its files.
import { canCancel, hasEnded } from "./batches.js";
import { el } from "./dom.js";

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
const ENDS = ["completed_at", "failed_at", "expired_at", "cancelled_at"];

// Seconds as the two largest units: "2 h 5 min".
export function duration(seconds) {
    let left = Math.max(0, Math.round(seconds));
    const first = UNITS.findIndex(([, size]) => left >= size);
    const parts = UNITS.slice(first, first + 2).map(([unit, size]) => {
        const n = Math.floor(left / size);
        left -= n * size;
        return n > 0 ? `${n} ${unit}` : "";
    });
    return first < 0 ? "0 s" : parts.join(" ").trim();
}

const lines = (n) => (n === 1 ? "1 line" : `${n} lines`);

function countsText(status, {total, completed, failed}) {
    if (total === 0) {
        return status === "validating" ? "lines are being checked" : "no line was run";
    }
    return `${completed + failed} of ${lines(total)}${failed > 0 ? `, ${failed} failed` : ""}`;
}

function timesText(batch, now) {
    const end = ENDS.map((name) => batch[name]).find((at) => at > 0);
    const age = `${duration(now - batch.created_at)} ago`;
    return end > 0 ? `${age}, took ${duration(end - batch.created_at)}` : age;
}

// "in.jsonl" -> "in"
const stem = (name) => name.replace(/\.[^.]+$/, "") || name;

export class Job {
    // actions: cancel(batch), download(fileId, name); both give promises.
    constructor(actions) {
        this.actions = actions;
        this.title = el("h2", {tabindex: "-1"});
        this.state = el("span", {class: "state"});
        this.parts = ["done", "failed", "rest"].map((name) => el("i", {class: name}));
        this.bar = el("div", {class: "bar", role: "progressbar", "aria-valuemin": 0}, ...this.parts);
        this.counts = el("span");
        this.about = el("span", {class: "about"});
        this.faults = el("ol", {class: "faults", tabindex: "0", hidden: true});
        this.cancel = this.#button("Cancel", (batch) => actions.cancel(batch));
        this.output = this.#button("Answers", (batch) => this.#save(batch.output_file_id, "answers"));
        this.errors = this.#button("Errors", (batch) => this.#save(batch.error_file_id, "errors"));
        this.node = el("li", {class: "panel job"}, el("div", {class: "row"}, this.title, this.state), this.bar,
            el("div", {class: "row"}, el("p", {}, this.counts, this.about), el("div", {class: "actions"}, this.output, this.errors, this.cancel)),
            this.faults);
    }

    // name: of its input. now: seconds since 1970.
    show(batch, name, now) {
        this.batch = batch;
        this.name = name;
        this.title.textContent = name;
        this.title.title = batch.id;
        this.state.textContent = batch.status.replace("_", " ");
        this.state.className = `state ${batch.status}`;
        this.counts.textContent = countsText(batch.status, batch.request_counts);
        this.about.textContent = ` · ${batch.endpoint} · ${timesText(batch, now)}`;
        this.#showBar(batch.request_counts);
        this.#showFaults(batch.errors?.data ?? []);
        this.#offer(this.cancel, canCancel(batch), "Cancel");
        this.#offer(this.output, hasEnded(batch) && batch.output_file_id, "Download answers of");
        this.#offer(this.errors, hasEnded(batch) && batch.error_file_id, "Download errors of");
    }

    #showBar({total, completed, failed}) {
        [completed, failed, total - completed - failed].forEach((n, i) => {
            this.parts[i].style.flexGrow = total > 0 ? n / total : 0;
        });
        this.bar.setAttribute("aria-label", `Lines of ${this.name}`);
        this.bar.setAttribute("aria-valuemax", total);
        this.bar.setAttribute("aria-valuenow", completed + failed);
    }

    #showFaults(faults) {
        if (faults.length !== this.faults.children.length) {
            const byLine = [...faults].sort((a, b) => (a.line ?? 0) - (b.line ?? 0)); // they come as they were found
            this.faults.replaceChildren(...byLine.map(({line, message}) =>
                el("li", {}, line > 0 ? el("b", {}, `Line ${line}: `) : null, message)));
        }
        this.faults.setAttribute("aria-label", `What is wrong in ${this.name}`);
        this.faults.hidden = faults.length === 0;
    }

    #button(text, act) {
        const click = async () => {
            if (button.ariaBusy !== "true") { // disabled, it would lose the focus
                button.ariaBusy = "true";
                await act(this.batch);
                button.ariaBusy = null;
            }
        };
        const button = el("button", {type: "button", click}, text);
        return button;
    }

    // Who works with the keyboard stays in the row when a button goes.
    #offer(button, isOffered, words) {
        if (!isOffered && button === document.activeElement) {
            this.title.focus();
        }
        button.hidden = !isOffered;
        button.setAttribute("aria-label", `${words} ${this.name}`);
    }

    #save(fileId, kind) {
        return this.actions.download(fileId, `${stem(this.name)}.${kind}.jsonl`);
    }
}
