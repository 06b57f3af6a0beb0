// settings.js: the dialog of settings, which become fields of each request. An empty field is not sent: the server decides.
import { el } from "./dom.js";
import { apiKey, settings } from "./store.js";

const MAX_SAFE_SEED = 2 ** 53 - 1;
const NUMBERS = [
    {name: "temperature", label: "Temperature", hint: "0: always the likeliest token", min: 0, max: 100, step: "any"},
    {name: "top_p", label: "Top P", hint: "share of probability to choose from", min: 0, max: 1, step: "any"},
    {name: "top_k", label: "Top K", hint: "likeliest tokens to choose from, 0: all", min: 0, max: 1_000_000, step: 1},
    {name: "min_p", label: "Min P", hint: "least share of the likeliest one's probability", min: 0, max: 1, step: "any"},
    {name: "max_tokens", label: "Max tokens", hint: "of an answer", min: 1, max: 10_000_000, step: 1},
    {name: "seed", label: "Seed", hint: "the same seed, the same answer", min: 0, max: MAX_SAFE_SEED, step: 1},
];

const byId = (id) => document.getElementById(id);

function numberField({name, label, hint, min, max, step}, value, onChange) {
    const problem = el("small", {class: "error", role: "alert"});
    const input = el("input", {
        id: `set-${name}`, type: "number", min, max, step, inputmode: "decimal", placeholder: "server’s default", value,
        "aria-describedby": `hint-${name}`,
        input: () => {
            problem.textContent = input.validationMessage;
            if (input.validity.valid) {
                onChange(name, input.value === "" ? undefined : Number(input.value));
            }
        },
    });
    return el("div", {class: "field"}, el("label", {for: input.id}, label), input,
        el("small", {id: `hint-${name}`}, hint), problem);
}

export class Settings {
    #dialog = byId("settings");
    #values = settings.get();

    constructor() {
        byId("open-settings").addEventListener("click", () => this.open());
        byId("close-settings").addEventListener("click", () => this.#dialog.close());
        this.#dialog.addEventListener("click", (event) => {
            if (event.target === this.#dialog) { // the backdrop
                this.#dialog.close();
            }
        });
        this.#dialog.querySelector("form").addEventListener("submit", (event) => {
            event.preventDefault();
            this.#dialog.close();
        });
        this.#dialog.addEventListener("close", () => this.onClose());
        byId("reset-settings").addEventListener("click", () => {
            this.#values = {model: this.#values.model};
            settings.set(this.#values);
            this.#fill();
        });
        this.#text("set-system", "system", (text) => text);
        this.#text("set-stop", "stop", (text) => text.split("\n").filter((line) => line !== ""));
        byId("set-model").addEventListener("change", (event) => this.#set("model", event.target.value));
        byId("set-key").addEventListener("input", () => this.#setKey());
        byId("set-remember").addEventListener("change", () => this.#setKey());
        this.#fill();
    }

    // focusId: the field to begin with.
    open(focusId) {
        if (!this.#dialog.open) {
            this.#dialog.showModal();
        }
        byId(focusId ?? "set-system").focus();
    }

    // names: what the server offers; the first is taken unless one was chosen.
    setModels(names) {
        const chosen = names.includes(this.#values.model) ? this.#values.model : names[0];
        this.#values.model = chosen;
        byId("set-model").replaceChildren(...names.map((name) => el("option", {value: name, selected: name === chosen}, name)));
        byId("field-model").hidden = names.length < 2;
    }

    // Fields of the request, and system.
    parameters() {
        const {stop, ...values} = this.#values;
        return stop?.length > 0 ? {...values, stop} : values;
    }

    // The key, or the model, may have changed.
    onClose = () => {};

    #set(name, value) {
        this.#values[name] = value;
        settings.set(this.#values);
    }

    #text(id, name, read) {
        byId(id).addEventListener("input", (event) => this.#set(name, read(event.target.value)));
    }

    #setKey() {
        apiKey.set(byId("set-key").value.trim(), byId("set-remember").checked);
    }

    #fill() {
        byId("set-system").value = this.#values.system ?? "";
        byId("set-stop").value = (this.#values.stop ?? []).join("\n");
        byId("set-key").value = apiKey.get();
        byId("set-remember").checked = apiKey.isRemembered();
        byId("numbers").replaceChildren(...NUMBERS.map((field) =>
            numberField(field, this.#values[field.name] ?? "", (name, value) => this.#set(name, value))));
    }
}
