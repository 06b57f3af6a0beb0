// chat.js: the conversation: sending, stopping, editing, answering again, and the list of earlier ones.
import { ApiError } from "./api.js";
import { receiveAnswer } from "./answer.js";
import { el, iconButton } from "./dom.js";
import { AssistantMessage, UserMessage } from "./message.js";
import { conversations } from "./store.js";

const TITLE_LENGTH = 60;
const NEAR_END_PX = 80;
const MAX_ROWS = 10;
const SUGGESTIONS = ["Explain how a watermill works.", "Write a haiku about a river.", "Show binary search in C.",
    "Three names for a small boat?"];

const byId = (id) => document.getElementById(id);

function newConversation() {
    return {id: crypto.getRandomValues(new Uint32Array(3)).join("-"), title: "", updated: Date.now(), messages: []};
}

export class Chat {
    #messages = byId("messages");
    #scroll = byId("scroll");
    #prompt = byId("prompt");
    #send = byId("send");
    #history = byId("history-list");
    #current = newConversation();
    #abort = null;

    // options: {parameters(): fields of the request, onKeyNeeded(), onAnswer(meta)}
    constructor(options) {
        this.options = options;
        byId("composer").addEventListener("submit", (event) => {
            event.preventDefault();
            this.#submit();
        });
        this.#prompt.addEventListener("keydown", (event) => {
            if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
                event.preventDefault();
                this.#submit();
            }
        });
        if (!CSS.supports("field-sizing", "content")) { // the field grows by the style sheet alone where the browser knows how
            this.#prompt.addEventListener("input", () => {
                this.#prompt.rows = Math.min(this.#prompt.value.split("\n").length, MAX_ROWS);
            });
        }
        document.addEventListener("keydown", (event) => {
            if (event.key === "Escape" && this.#abort !== null && document.querySelector("dialog[open]") === null) {
                this.stop();
            }
        });
        byId("new-chat").addEventListener("click", () => this.#open(newConversation()));
        byId("clear-history").addEventListener("click", () => this.#clear());
        this.#open(conversations.list()[0] ?? this.#current, false);
    }

    stop() {
        this.#abort?.abort();
    }

    focus() {
        this.#prompt.focus();
    }

    #submit() {
        const text = this.#prompt.value.trim();
        if (this.#abort !== null) {
            this.stop();
        } else if (text !== "") {
            this.#prompt.value = "";
            this.#say(text);
        }
    }

    #say(text) {
        const message = {role: "user", content: text};
        this.#current.messages.push(message);
        this.#current.title ||= text.replace(/\s+/g, " ").slice(0, TITLE_LENGTH);
        this.#current.updated = Date.now();
        conversations.save(this.#current);
        this.#listHistory();
        this.#show(message);
        this.#answer();
    }

    // The conversation goes on from before this message.
    #cutAt(message) {
        this.stop();
        const index = this.#current.messages.indexOf(message);
        if (index >= 0) { // an answer that failed before it began is not among them
            this.#current.messages.length = index;
        }
        this.#render();
    }

    async #answer() {
        const conversation = this.#current;
        const body = this.#request(conversation.messages);
        const message = {role: "assistant", content: ""};
        conversation.messages.push(message);
        const view = this.#show(message);
        const abort = new AbortController();
        this.#setRunning(abort, view);
        this.#scrollToEnd(true);
        try {
            await receiveAnswer(body, abort.signal, message, () => {
                view.update();
                this.#scrollToEnd(false);
            });
            this.#announce("Answer complete.");
        } catch (error) {
            this.#failed(error, message, view);
        }
        this.#finish(conversation, message, view, abort);
    }

    #request(messages) {
        const {system, ...parameters} = this.options.parameters();
        const said = messages.map(({role, content}) => ({role, content}));
        return {...parameters, messages: system ? [{role: "system", content: system}, ...said] : said};
    }

    #failed(error, message, view) {
        message.meta ??= {};
        if (error.name === "AbortError") {
            message.meta.finish = "stopped";
            this.#announce("Stopped.");
            return;
        }
        message.meta.finish = "lost";
        const wait = error.retryAfter > 0 ? ` Try again in ${Math.ceil(error.retryAfter)} s.` : "";
        view.node.append(el("p", {class: "error", role: "alert"}, `${error.message}.${wait}`));
        if (error instanceof ApiError && error.status === 401) {
            this.options.onKeyNeeded();
        } else if (!(error instanceof ApiError)) {
            console.error(error);
        }
    }

    #finish(conversation, message, view, abort) {
        view.setRunning(false);
        if (this.#abort === abort) {
            this.#setRunning(null, null);
        }
        this.options.onAnswer(message.meta);
        const isKept = conversation.messages.includes(message); // not when an edit cut it off
        if (isKept && message.content === "" && !message.reasoning) {
            conversation.messages.pop(); // nothing came: the view says why, the history needs no empty answer
        }
        if (conversations.get(conversation.id) !== null && !conversations.save(conversation)) { // null: deleted meanwhile
            view.node.append(el("p", {class: "error"}, "The browser has no room to keep this conversation."));
        }
        this.#scrollToEnd(false);
    }

    #setRunning(abort, view) {
        this.#abort = abort;
        view?.setRunning(true);
        this.#send.textContent = abort ? "Stop" : "Send";
        this.#send.classList.toggle("stop", abort !== null);
    }

    #announce(text) {
        byId("announce").textContent = text;
    }

    #show(message) {
        const view = message.role === "user"
            ? new UserMessage(message, (text) => {
                this.#cutAt(message);
                this.#say(text);
                this.focus();
            })
            : new AssistantMessage(message, () => {
                this.#cutAt(message);
                this.#answer();
                this.focus();
            });
        byId("welcome")?.remove();
        this.#messages.append(view.node);
        return view;
    }

    #render() {
        this.#messages.replaceChildren();
        this.#current.messages.forEach((message) => this.#show(message));
        if (this.#current.messages.length === 0) {
            this.#messages.append(this.#welcome());
        }
    }

    #welcome() {
        const choose = (text) => {
            this.#prompt.value = text;
            this.#submit();
            this.focus();
        };
        return el("div", {id: "welcome"}, el("h1", {}, "What would you like to know?"), el("div", {class: "suggestions"},
            ...SUGGESTIONS.map((text) => el("button", {type: "button", click: () => choose(text)}, text))));
    }

    #scrollToEnd(always) {
        const {scrollHeight, scrollTop, clientHeight} = this.#scroll;
        if (always || scrollHeight - scrollTop - clientHeight < NEAR_END_PX) {
            requestAnimationFrame(() => this.#scroll.scrollTo({top: this.#scroll.scrollHeight}));
        }
    }

    #open(conversation, takeFocus = true) {
        this.stop();
        this.#current = conversation;
        this.#render();
        this.#listHistory();
        this.#scrollToEnd(true);
        document.body.classList.remove("history-open");
        byId("menu").setAttribute("aria-expanded", "false");
        if (takeFocus) {
            this.focus();
        }
    }

    #clear() {
        conversations.clear();
        this.#open(newConversation());
    }

    #remove(conversation) {
        conversations.remove(conversation.id);
        if (conversation.id === this.#current.id) {
            this.#open(newConversation());
        } else {
            this.#listHistory();
        }
    }

    #listHistory() {
        const list = conversations.list();
        this.#history.replaceChildren(...list.map((conversation) => el("li", {},
            el("button", {
                type: "button", class: "title", "aria-current": conversation.id === this.#current.id ? "true" : null,
                click: () => this.#open(conversations.get(conversation.id) ?? newConversation()),
            }, conversation.title || "Untitled"),
            iconButton("remove", `Delete “${conversation.title}”`, () => this.#remove(conversation)))));
        byId("clear-history").hidden = list.length === 0;
    }
}
