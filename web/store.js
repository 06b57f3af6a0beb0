// store.js: what stays in the browser: conversations, settings, the theme, the key. All of it is bounded.
const CONVERSATION = "millrace.conversation.";
const SETTINGS = "millrace.settings";
const THEME = "millrace.theme";
const KEY = "millrace.key";
export const MAX_CONVERSATIONS = 50;
export const MAX_CHARACTERS = 2_000_000; // of all conversations; browsers give a site about five million

// Storage that works for this page alone where the browser gives none (private windows, blocked site data).
class MemoryStorage {
    #map = new Map();
    get length() { return this.#map.size; }
    key(i) { return [...this.#map.keys()][i] ?? null; }
    getItem(key) { return this.#map.get(key) ?? null; }
    setItem(key, value) { this.#map.set(key, value); }
    removeItem(key) { this.#map.delete(key); }
}

function open(name) {
    try {
        const storage = window[name];
        storage.setItem("millrace.probe", "1");
        storage.removeItem("millrace.probe");
        return storage;
    } catch {
        return new MemoryStorage();
    }
}

const local = open("localStorage");
const session = open("sessionStorage");

function parse(text, fallback) {
    try {
        return JSON.parse(text) ?? fallback;
    } catch {
        return fallback;
    }
}

function keys() {
    return Array.from({length: local.length}, (_, i) => local.key(i)).filter((key) => key.startsWith(CONVERSATION));
}

function isConversation(c) {
    return typeof c?.id === "string" && typeof c.title === "string" && Number.isFinite(c.updated) && Array.isArray(c.messages) &&
        c.messages.every((m) => (m?.role === "user" || m?.role === "assistant") && typeof m.content === "string");
}

export const conversations = {
    // The newest first. What is damaged is left out.
    list() {
        return keys().map((key) => parse(local.getItem(key), null)).filter(isConversation).sort((a, b) => b.updated - a.updated);
    },

    get(id) {
        const found = parse(local.getItem(CONVERSATION + id), null);
        return isConversation(found) ? found : null;
    },

    // Keeps it; the oldest others make room. false: there was none even so.
    save(conversation) {
        const text = JSON.stringify(conversation);
        const others = this.list().filter((c) => c.id !== conversation.id);
        let size = others.reduce((sum, c) => sum + local.getItem(CONVERSATION + c.id).length, text.length);
        while (others.length > 0 && (others.length >= MAX_CONVERSATIONS || size > MAX_CHARACTERS)) {
            const oldest = others.pop();
            size -= local.getItem(CONVERSATION + oldest.id).length;
            this.remove(oldest.id);
        }
        for (;;) {
            try {
                local.setItem(CONVERSATION + conversation.id, text);
                return true;
            } catch {
                if (others.length === 0) {
                    return false;
                }
                this.remove(others.pop().id);
            }
        }
    },

    remove(id) {
        local.removeItem(CONVERSATION + id);
    },

    clear() {
        keys().forEach((key) => local.removeItem(key));
    },
};

function set(storage, key, value) {
    try {
        storage.setItem(key, value);
    } catch {
        // full: it holds until the page is closed, no longer
    }
}

export const settings = {
    get() {
        const found = parse(local.getItem(SETTINGS), {});
        return typeof found === "object" ? found : {};
    },
    set(value) {
        set(local, SETTINGS, JSON.stringify(value));
    },
};

export const theme = {
    get() {
        const found = local.getItem(THEME);
        return found === "light" || found === "dark" ? found : "auto";
    },
    set(value) {
        set(local, THEME, value);
    },
};

// The API key stays in this tab unless its owner asks to have it remembered.
export const apiKey = {
    get() {
        return session.getItem(KEY) ?? local.getItem(KEY) ?? "";
    },
    isRemembered() {
        return local.getItem(KEY) !== null;
    },
    set(value, remember) {
        session.removeItem(KEY);
        local.removeItem(KEY);
        if (value) {
            set(remember ? local : session, KEY, value);
        }
    },
};
