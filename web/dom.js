// dom.js: builds elements. There is no way from a string to markup here: text becomes text nodes.
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
        if (typeof value === "function") {
            node.addEventListener(name, value);
        } else if (value === true) {
            node.setAttribute(name, "");
        } else if (value !== false && value !== null && value !== undefined) {
            node.setAttribute(name, value);
        }
    }
    node.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return node;
}

// el("button", {type: "button", click: f}, "Stop"): functions are listeners, true is an attribute without a value.
export function el(name, attributes = {}, ...children) {
    return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
    return fill(document.createElementNS(SVG, name), attributes, children);
}

const ICONS = {
    copy: "M9 9h10v10H9zM5 15V5h10",
    check: "M5 12.5l4.5 4.5L19 7.5",
    edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
    retry: "M19 12a7 7 0 1 1-2.2-5.1M19 4v4h-4",
    remove: "M6 6l12 12M18 6L6 18",
    auto: "M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16",
    light: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M19 5l-2 2M7 17l-2 2",
    dark: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z",
};

export function icon(name) {
    return svg("svg", {class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true"}, svg("path", {d: ICONS[name]}));
}

// A button of one icon; its label is what a screen reader says and what hovering shows.
export function iconButton(name, label, click) {
    return el("button", {type: "button", class: "quiet", "aria-label": label, title: label, click}, icon(name));
}
