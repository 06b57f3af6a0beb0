// main.js: starts the page: which view is shown, light or dark, what the server is.
import { ApiError, getJson } from "./api.js";
import { Chat } from "./chat.js";
import { Dashboard } from "./dashboard.js";
import { icon } from "./dom.js";
import { Jobs } from "./jobs.js";
import { Settings } from "./settings.js";
import { theme } from "./store.js";

const RETRY_MS = 3000;
const THEMES = ["auto", "light", "dark"];
const THEME_TEXT = {auto: "as the system", light: "light", dark: "dark"};
const VIEWS = ["chat", "jobs", "dashboard"];

const byId = (id) => document.getElementById(id);

function showTheme() {
    const chosen = theme.get();
    document.documentElement.dataset.theme = chosen;
    const label = `Colours: ${THEME_TEXT[chosen]}`;
    byId("theme").setAttribute("aria-label", label);
    byId("theme").title = label;
    byId("theme").replaceChildren(icon(chosen));
}

function nextTheme() {
    theme.set(THEMES[(THEMES.indexOf(theme.get()) + 1) % THEMES.length]);
    showTheme();
}

function setStatus(kind, text) {
    byId("status").className = kind;
    byId("status-text").textContent = text;
    byId("status").title = text;
}

class Page {
    constructor() {
        this.settings = new Settings();
        this.chat = new Chat({
            parameters: () => this.settings.parameters(),
            onKeyNeeded: () => this.settings.open("set-key"),
            onAnswer: (meta) => this.showContext(meta),
        });
        this.jobs = new Jobs({onKeyNeeded: () => this.settings.open("set-key")});
        this.dashboard = new Dashboard();
        this.nContext = 0;
        this.settings.onClose = () => {
            this.connect();
            this.jobs.refresh();
        };
        byId("theme").addEventListener("click", nextTheme);
        byId("menu").addEventListener("click", () => this.toggleHistory());
        window.addEventListener("hashchange", () => this.showView());
        showTheme();
        this.showView();
        this.connect();
    }

    showView() {
        const wanted = location.hash.slice(1);
        const view = VIEWS.includes(wanted) ? wanted : "chat";
        for (const name of VIEWS) {
            byId(`view-${name}`).hidden = name !== view;
            byId(`to-${name}`).ariaCurrent = name === view ? "page" : null;
        }
        document.title = view === "chat" ? "Millrace" : `Millrace – ${view}`;
        byId("menu").hidden = view !== "chat";
        this.jobs.setActive(view === "jobs");
        this.dashboard.setActive(view === "dashboard");
    }

    toggleHistory() {
        const isOpen = document.body.classList.toggle("history-open");
        byId("menu").setAttribute("aria-expanded", String(isOpen));
        if (isOpen) {
            byId("new-chat").focus();
        }
    }

    // Until the server has said which models it has.
    async connect() {
        clearTimeout(this.timer);
        try {
            const models = (await getJson("/v1/models")).data;
            this.settings.setModels(models.map((model) => model.id));
            setStatus("ready", this.settings.parameters().model ?? "no model");
            this.readContext();
        } catch (error) {
            const isLocked = error instanceof ApiError && (error.status === 401 || error.status === 403);
            setStatus(isLocked ? "locked" : "offline", isLocked ? "API key needed" : error.status === 503 ? "loading" : "not connected");
            this.timer = setTimeout(() => this.connect(), RETRY_MS);
        }
    }

    async readContext() {
        try {
            this.nContext = (await getJson("/props")).default_generation_settings?.n_ctx ?? 0;
        } catch {
            this.nContext = 0; // it may not be said to everyone: the count is shown alone
        }
    }

    showContext(meta) {
        if (meta?.used > 0) {
            byId("context").textContent = this.nContext > 0 ? `${meta.used} of ${this.nContext} tokens` : `${meta.used} tokens`;
        }
    }
}

new Page();
