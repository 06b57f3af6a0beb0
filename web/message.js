// message.js: one message of a conversation, as it stands on the page.
import { copyButton } from "./clipboard.js";
import { el, iconButton } from "./dom.js";
import { MarkdownView } from "./markdown.js";

const FINISH = {length: "cut: the limit of tokens", stopped: "stopped", lost: "incomplete"};

function seconds(ms) {
    return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

// "42 tokens · 151.0 tokens/s · first token after 84 ms"
export function describe(meta) {
    const parts = [];
    if (meta?.tokens > 0) {
        parts.push(`${meta.isExact ? "" : "about "}${meta.tokens} tokens`);
    }
    if (meta?.rate > 0) {
        parts.push(`${meta.rate.toFixed(1)} tokens/s`);
    }
    if (meta?.firstMs > 0) {
        parts.push(`first token after ${seconds(meta.firstMs)}`);
    }
    if (FINISH[meta?.finish]) {
        parts.push(FINISH[meta.finish]);
    }
    return parts.join(" · ");
}

export class UserMessage {
    constructor(message, onEdit) {
        this.message = message;
        this.onEdit = onEdit;
        this.body = el("div", {class: "text"}, message.content);
        this.tools = el("div", {class: "tools"}, copyButton("Copy message", () => message.content),
            iconButton("edit", "Edit and send again", () => this.edit()));
        this.node = el("article", {class: "message user", "aria-label": "You"}, this.body, this.tools);
    }

    edit() {
        const area = el("textarea", {"aria-label": "Edit message", rows: 3});
        area.value = this.message.content;
        const close = () => {
            this.node.replaceChildren(this.body, this.tools);
            this.tools.lastChild.focus();
        };
        const send = () => {
            const text = area.value.trim();
            if (text !== "") {
                this.onEdit(text);
            }
        };
        area.addEventListener("keydown", (event) => {
            if (event.key === "Escape") {
                event.stopPropagation();
                close();
            } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
                event.preventDefault();
                send();
            }
        });
        this.node.replaceChildren(el("div", {class: "editor"}, area, el("div", {class: "row"},
            el("button", {type: "button", class: "primary", click: send}, "Send"),
            el("button", {type: "button", click: close}, "Cancel"))));
        area.focus();
    }
}

export class AssistantMessage {
    constructor(message, onRetry) {
        this.message = message;
        this.body = el("div", {class: "markdown"});
        this.view = new MarkdownView(this.body);
        this.thought = el("div", {class: "markdown"});
        this.thoughtView = new MarkdownView(this.thought);
        this.summary = el("summary", {}, "Reasoning");
        this.reasoning = el("details", {class: "reasoning", hidden: true}, this.summary, this.thought);
        this.meta = el("span", {class: "meta"});
        this.tools = el("div", {class: "tools"}, copyButton("Copy answer", () => message.content),
            iconButton("retry", "Answer again", onRetry), this.meta);
        this.node = el("article", {class: "message assistant", "aria-label": "Millrace"}, this.reasoning, this.body, this.tools);
        this.isWanted = false;
        this.show();
    }

    // The message has grown: once a frame is enough.
    update() {
        if (!this.isWanted) {
            this.isWanted = true;
            requestAnimationFrame(() => this.show());
        }
    }

    show() {
        this.isWanted = false;
        const {content, reasoning, meta} = this.message;
        if (reasoning) {
            this.reasoning.hidden = false;
            this.thoughtView.update(reasoning);
            this.summary.textContent = content === "" && this.isRunning ? "Reasoning…" : "Reasoning";
        }
        this.view.update(content);
        this.meta.textContent = describe(meta);
    }

    // While an answer streams, it has a caret instead of tools.
    setRunning(isRunning) {
        this.isRunning = isRunning;
        this.node.classList.toggle("running", isRunning);
        this.node.setAttribute("aria-busy", String(isRunning));
        this.show();
    }
}
