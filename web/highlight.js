// highlight.js: colours for code: comments, strings, numbers and words of the language. What it does not know stays plain.
import { el } from "./dom.js";

const MAX_LENGTH = 20_000; // characters; longer code stays plain
const C_WORDS = `auto bool break case char class const constexpr continue default delete do double else enum export extends extern false
    final float fn for from func function if impl implements import in instanceof int interface let long match mod mut namespace new nil
    null nullptr package private protected public return self short signed sizeof static struct super switch template this throw true try
    type typedef typeof undefined union unsigned use using var virtual void volatile while async await yield catch finally defer go pub`;
const SCRIPT_WORDS = `and as assert async await break class continue def del do done elif else end except export False fi finally for from
    function global if import in is lambda local None nonlocal not or pass raise return self then True try while with yield`;
const SQL_WORDS = `add alter and as asc begin between by case commit create delete desc distinct drop else end exists from group having in
    index inner insert into is join key left like limit local not null on or order outer primary function return select set table then
    union update values view when where if for do while repeat until nil true false`;

// A family's comments and words.
const FAMILIES = [
    {names: "c cc cpp h hpp java js javascript jsx ts typescript tsx go rust rs swift kotlin cs csharp php css scss zig dart",
        comment: String.raw`\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`, words: C_WORDS},
    {names: "py python sh bash shell zsh ruby rb yaml yml toml make makefile dockerfile r perl", comment: "#[^\\n]*", words: SCRIPT_WORDS},
    {names: "sql lua haskell", comment: "--[^\\n]*", words: SQL_WORDS, ignoresCase: true},
    {names: "json", comment: "(?!)", words: "true false null"},
].map(({names, comment, words, ignoresCase}) => ({
    names: new Set(names.split(/\s+/)),
    words: new Set(words.split(/\s+/)),
    ignoresCase,
    pattern: new RegExp(String.raw`(?<comment>${comment})|(?<string>"""[\s\S]*?(?:"""|$)|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|` +
        "`(?:[^`\\\\]|\\\\[\\s\\S])*`?)" + String.raw`|(?<number>\b\d[\w.]*)|(?<word>[A-Za-z_]\w*)`, "g"),
}));

// Text and spans, to be appended.
export function highlight(text, language) {
    const family = FAMILIES.find(({names}) => names.has(language.toLowerCase()));
    if (family === undefined || text.length > MAX_LENGTH) {
        return [text];
    }
    const nodes = [];
    let plain = 0;
    for (const found of text.matchAll(family.pattern)) {
        const {word, ...kinds} = found.groups;
        const isWord = word !== undefined && family.words.has(family.ignoresCase ? word.toLowerCase() : word);
        const kind = isWord ? "word" : Object.keys(kinds).find((name) => kinds[name] !== undefined);
        if (kind !== undefined) {
            nodes.push(text.slice(plain, found.index), el("span", {class: `code-${kind}`}, found[0]));
            plain = found.index + found[0].length;
        }
    }
    return [...nodes, text.slice(plain)];
}
