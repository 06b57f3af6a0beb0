// clipboard.js: buttons that copy.
import { el, icon, iconButton } from "./dom.js";

const SHOWN_MS = 1500;

async function copyText(text) {
    try {
        await navigator.clipboard.writeText(text);
    } catch { // only secure origins have a clipboard; a server in the local network is none
        const area = el("textarea", {class: "offscreen", "aria-hidden": "true"});
        area.value = text;
        document.body.append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
    }
}

export function copyButton(label, text) {
    const button = iconButton("copy", label, async () => {
        await copyText(text());
        button.replaceChildren(icon("check"));
        button.focus();
        setTimeout(() => button.replaceChildren(icon("copy")), SHOWN_MS);
    });
    return button;
}
