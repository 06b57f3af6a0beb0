// sse.js: server-sent events out of pieces of text, however they are cut (HTML standard, section 9.2.6).
export class EventParser {
    #rest = "";
    #data = [];
    #type = "";
    #afterReturn = false;
    #onEvent;

    // onEvent({type, data}) for every event that has data.
    constructor(onEvent) {
        this.#onEvent = onEvent;
    }

    feed(text) {
        if (this.#afterReturn && text.startsWith("\n")) {
            text = text.slice(1); // the second half of a line end
            this.#afterReturn = false;
        }
        if (text !== "") {
            this.#afterReturn = text.endsWith("\r");
        }
        const lines = (this.#rest + text).split(/\r\n|\n|\r/);
        this.#rest = lines.pop();
        lines.forEach((line) => this.#line(line));
    }

    #line(line) {
        if (line === "") {
            if (this.#data.length > 0) {
                this.#onEvent({type: this.#type || "message", data: this.#data.join("\n")});
            }
            this.#data = [];
            this.#type = "";
            return;
        }
        const colon = line.indexOf(":");
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (field === "data") {
            this.#data.push(value);
        } else if (field === "event") {
            this.#type = value;
        }
    }
}
