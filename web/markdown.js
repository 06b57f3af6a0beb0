// markdown.js: Markdown to nodes, block by block: paragraphs, headings, fenced code, lists, quotes, tables, rules. Markup stays text.
import { copyButton } from "./clipboard.js";
import { el } from "./dom.js";
import { highlight } from "./highlight.js";
import { inline } from "./inline.js";

const MAX_DEPTH = 12; // of lists and quotes in each other; what is deeper is text
const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const RULE = /^ {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$/;
const HEADING = /^ {0,3}(#{1,6})(?=[ \t]|$)/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?: +|$)/;
const TABLE_RULE = /^ {0,3}\|?[ :|-]*-[ :|-]*$/;

function indentOf(line) {
    return line.length - line.trimStart().length;
}

function cells(line) {
    const found = [""];
    for (let i = 0; i < line.length; i++) {
        if (line[i] === "\\" && line[i + 1] === "|") {
            found.push(found.pop() + "|");
            i++;
        } else if (line[i] === "|") {
            found.push("");
        } else {
            found.push(found.pop() + line[i]);
        }
    }
    const trimmed = found.map((cell) => cell.trim());
    const begin = trimmed[0] === "" ? 1 : 0;
    return trimmed.slice(begin, trimmed.length > 1 && trimmed.at(-1) === "" ? -1 : undefined);
}

function isTable(lines, i) {
    return lines[i].includes("|") && i + 1 < lines.length && TABLE_RULE.test(lines[i + 1]) && lines[i + 1].includes("|") &&
        cells(lines[i]).length === cells(lines[i + 1]).length;
}

function beginsBlock(lines, i) {
    const line = lines[i];
    return FENCE.test(line) || RULE.test(line) || HEADING.test(line) || QUOTE.test(line) || ITEM.test(line) || isTable(lines, i);
}

// A line of prose that happens to begin with a year and a full stop begins no list.
function interrupts(lines, i) {
    const item = ITEM.exec(lines[i]);
    return item === null || RULE.test(lines[i]) ? beginsBlock(lines, i) : item[2].length === 1 || item[2].slice(0, -1) === "1";
}

// Each reads one block at line i and returns it with the line behind it; null: no such block begins there.
function readCode(lines, i) {
    const found = FENCE.exec(lines[i]);
    if (found === null) {
        return null;
    }
    const [, fence, info] = found;
    const indent = indentOf(lines[i]);
    let end = i + 1;
    const isEnd = (line) => line.trim().startsWith(fence) && line.trim() === fence[0].repeat(line.trim().length) && indentOf(line) < 4;
    while (end < lines.length && !isEnd(lines[end])) {
        end++;
    }
    const body = lines.slice(i + 1, end).map((line) => line.slice(Math.min(indent, indentOf(line))));
    return {kind: "code", language: info.trim().split(/\s/)[0].slice(0, 30), text: body.join("\n"), isClosed: end < lines.length,
        end: Math.min(end + 1, lines.length)};
}

function readHeading(lines, i) {
    const found = HEADING.exec(lines[i]);
    if (found === null) {
        return null;
    }
    const words = lines[i].slice(found[0].length).trim().split(" ");
    if (/^#+$/.test(words.at(-1))) {
        words.pop(); // a closing run of #
    }
    return {kind: "heading", level: found[1].length, text: words.join(" ").trim(), end: i + 1};
}

function readQuote(lines, i) {
    let end = i;
    while (end < lines.length && QUOTE.test(lines[end])) {
        end++;
    }
    return end === i ? null : {kind: "quote", lines: lines.slice(i, end).map((line) => line.replace(QUOTE, "")), end};
}

function readItem(lines, i, offset) {
    const body = [lines[i].slice(offset)];
    let end = i + 1;
    for (; end < lines.length; end++) {
        const line = lines[end];
        if (line.trim() === "") {
            const next = lines.slice(end, end + 3).find((later) => later.trim() !== "");
            if (next === undefined || indentOf(next) < 2) {
                break;
            }
        } else if (indentOf(line) < 2 && (body.at(-1).trim() === "" || beginsBlock(lines, end))) {
            break;
        }
        body.push(line.slice(Math.min(offset, indentOf(line))));
    }
    return {body, end};
}

function readList(lines, i) {
    const first = ITEM.exec(lines[i]);
    if (first === null) {
        return null;
    }
    const isOrdered = first[2].length > 1;
    const items = [];
    let end = i;
    while (end < lines.length) {
        const found = ITEM.exec(lines[end]);
        if (found === null || found[2].at(-1) !== first[2].at(-1) || RULE.test(lines[end])) {
            break;
        }
        const item = readItem(lines, end, Math.min(found[0].length, found[1].length + found[2].length + 4));
        items.push(item.body);
        end = item.end;
        let next = end;
        while (next < lines.length && lines[next].trim() === "") {
            next++;
        }
        if (next < lines.length && ITEM.test(lines[next])) {
            end = next;
        }
    }
    return {kind: "list", isOrdered, start: isOrdered ? Number.parseInt(first[2], 10) : 1, items, end};
}

function readTable(lines, i) {
    if (!isTable(lines, i)) {
        return null;
    }
    const header = cells(lines[i]);
    const align = cells(lines[i + 1]).map((c) => (c.endsWith(":") ? (c.startsWith(":") ? "center" : "right") : "left"));
    let end = i + 2;
    while (end < lines.length && lines[end].includes("|")) {
        end++;
    }
    const rows = lines.slice(i + 2, end).map((line) => cells(line).slice(0, header.length));
    return {kind: "table", header, align, rows, end};
}

function readRule(lines, i) {
    return RULE.test(lines[i]) ? {kind: "rule", end: i + 1} : null;
}

function readParagraph(lines, i) {
    let end = i + 1;
    while (end < lines.length && lines[end].trim() !== "" && !interrupts(lines, end)) {
        end++;
    }
    return {kind: "paragraph", text: lines.slice(i, end).map((line) => line.trim()).join("\n"), end};
}

const READERS = [readCode, readRule, readHeading, readQuote, readList, readTable, readParagraph];

// The blocks of some lines, each with its source, by which an unchanged one is known.
export function parseBlocks(lines) {
    const blocks = [];
    for (let i = 0; i < lines.length;) {
        if (lines[i].trim() === "") {
            i++;
            continue;
        }
        let block = null;
        for (const read of READERS) {
            block ??= read(lines, i);
        }
        block.source = lines.slice(i, block.end).join("\n");
        blocks.push(block);
        i = block.end;
    }
    return blocks;
}

function codeNode(block) {
    const code = el("code", {}, ...(block.isClosed ? highlight(block.text, block.language) : [document.createTextNode(block.text)]));
    return el("figure", {class: "code"},
        el("figcaption", {}, el("span", {}, block.language || "text"), copyButton("Copy code", () => code.textContent)),
        el("pre", {tabindex: "0"}, code));
}

function listNode(block, depth) {
    const items = block.items.map((body) => {
        const task = /^\[([ xX])\] /.exec(body[0]);
        const lines = task ? [body[0].slice(4), ...body.slice(1)] : body;
        const box = task ? el("input", {type: "checkbox", disabled: true, checked: task[1] !== " ", "aria-label": "done"}) : null;
        const blocks = parseBlocks(lines);
        const isTight = blocks[0]?.kind === "paragraph" && !body.includes("");
        const nodes = isTight ? [...inline(blocks[0].text), ...buildBlocks(blocks.slice(1), depth + 1)] : buildBlocks(blocks, depth + 1);
        return el("li", {class: task ? "task" : null}, box, ...nodes);
    });
    return block.isOrdered ? el("ol", {start: block.start}, ...items) : el("ul", {}, ...items);
}

function tableNode(block) {
    const row = (name, line) => el("tr", {}, ...line.map((cell, i) => el(name, {class: block.align[i]}, ...inline(cell))));
    return el("div", {class: "table", tabindex: "0"}, el("table", {}, el("thead", {}, row("th", block.header)),
        el("tbody", {}, ...block.rows.map((line) => row("td", line)))));
}

const BUILDERS = {
    code: codeNode,
    rule: () => el("hr"),
    heading: (block) => el(`h${Math.min(block.level + 2, 6)}`, {}, ...inline(block.text)), // below the page's own headings
    quote: (block, depth) => el("blockquote", {}, ...buildBlocks(parseBlocks(block.lines), depth + 1)),
    list: listNode,
    table: tableNode,
    paragraph: (block) => el("p", {}, ...inline(block.text)),
};

function buildBlocks(blocks, depth) {
    return blocks.map((block) => (depth > MAX_DEPTH ? el("p", {}, block.source) : BUILDERS[block.kind](block, depth)));
}

function linesOf(text) {
    return text.replaceAll("\r\n", "\n").replaceAll("\t", "    ").split("\n");
}

export function markdown(text) {
    return buildBlocks(parseBlocks(linesOf(text)), 0);
}

// A growing text: only blocks that changed are built again, and code that goes on is appended to; it gets its colours when it ends.
export class MarkdownView {
    #root;
    #shown = [];

    constructor(root) {
        this.#root = root;
    }

    update(text) {
        const blocks = parseBlocks(linesOf(text));
        let same = 0;
        while (same < blocks.length && same < this.#shown.length && blocks[same].source === this.#shown[same].source) {
            same++;
        }
        const last = this.#shown[same];
        const next = blocks[same];
        if (last?.kind === "code" && next?.kind === "code" && !next.isClosed && same === this.#shown.length - 1 && last.language === next.language &&
            next.text.startsWith(last.text)) {
            last.node.querySelector("code").firstChild.appendData(next.text.slice(last.text.length));
            this.#shown[same] = {...next, node: last.node};
            same++;
        }
        this.#shown.splice(same).forEach((block) => block.node.remove());
        const nodes = buildBlocks(blocks.slice(same), 0);
        this.#root.append(...nodes);
        this.#shown.push(...blocks.slice(same).map((block, i) => ({...block, node: nodes[i]})));
    }
}
