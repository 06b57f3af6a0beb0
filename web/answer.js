// answer.js: one streamed answer: its text as it grows, and its times.
import { streamChat } from "./api.js";

// Fills message.content, .reasoning and .meta; onChange after every piece. Throws what streamChat throws; what had come stays.
export async function receiveAnswer(body, signal, message, onChange) {
    const begin = performance.now();
    let firstAt = 0;
    let lastAt = 0;
    let pieces = 0;
    const meta = {tokens: 0, isExact: false, rate: 0, firstMs: 0, finish: ""};
    message.meta = meta;
    for await (const chunk of streamChat(body, signal)) {
        const choice = chunk.choices?.[0];
        const text = choice?.delta?.content ?? "";
        const thought = choice?.delta?.reasoning_content ?? choice?.delta?.reasoning ?? "";
        if (text !== "" || thought !== "") {
            lastAt = performance.now();
            firstAt ||= lastAt;
            pieces++;
            message.content += text;
            message.reasoning = (message.reasoning ?? "") + thought;
            meta.tokens = meta.isExact ? meta.tokens : pieces;
            meta.firstMs = firstAt - begin;
            meta.rate = rate(pieces, firstAt, lastAt);
        }
        meta.finish = choice?.finish_reason ?? meta.finish;
        if (chunk.usage) {
            meta.isExact = true;
            meta.tokens = chunk.usage.completion_tokens;
            meta.used = chunk.usage.prompt_tokens + chunk.usage.completion_tokens;
            meta.rate = rate(meta.tokens, firstAt, lastAt);
        }
        if (chunk.timings?.predicted_per_second > 0 && chunk.timings.predicted_n > 1) {
            meta.rate = chunk.timings.predicted_per_second;
        }
        onChange();
    }
}

// Tokens behind the first, over the time that they took.
function rate(tokens, firstAt, lastAt) {
    return tokens > 1 && lastAt > firstAt ? (tokens - 1) * 1000 / (lastAt - firstAt) : 0;
}
