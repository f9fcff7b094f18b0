// The texts of versions, by digest, and how many lines differ between them.
import { countLines } from './diff.js';
import { el } from './dom.js';
import { api, get } from './state.js';

const maxChars = 20e6, maxCounts = 2000, maxQueue = 40, maxCounted = 256 << 10; // bytes of a text whose lines are counted
const texts = new Map(); // digest → promise, the newest last
let chars = 0;

export function textOf(server, uri, digest) {
	let text = texts.get(digest);
	if (text) return text;
	text = get(api(server, '/content', { uri, digest })).then(({ text: t }) => {
		if (t == null) throw Object.assign(new Error('the content is not text'), { status: 404 });
		keep(digest, t);
		return t;
	});
	texts.set(digest, text);
	text.catch(() => texts.delete(digest));
	return text;
}

export function keep(digest, text) {
	if (!digest || texts.get(digest)?.known != null) return;
	texts.delete(digest);
	texts.set(digest, Object.assign(Promise.resolve(text), { known: text.length }));
	chars += text.length;
	for (const [old, t] of texts) {
		if (chars <= maxChars || old === digest) break;
		chars -= t.known || 0;
		texts.delete(old);
	}
}

const counts = new Map(); // digests → {added, removed}, null if unknown
let queue = [], busy = 0, onCount = () => {};

export const whenCounted = (f) => { onCount = f; };

// lineCounts returns an element such as “+3 −3”, or '' if the numbers are not known, or not yet:
// then they are asked for, two at a time, the newest requests first.
export function lineCounts(server, uri, from, to, size) {
	if (!from || !to || size > maxCounted) return '';
	const key = from + to, known = counts.get(key);
	if (known) return el('span', 'counts', known.added && el('span', 'good', '+' + known.added), known.added && known.removed && ' ', known.removed && el('span', 'bad', '−' + known.removed));
	if (known === undefined && !queue.some((q) => q.key === key)) {
		queue.push({ key, server, uri, from, to });
		queue = queue.slice(-maxQueue);
		work();
	}
	return '';
}

async function work() {
	if (busy >= 2) return;
	busy++;
	for (let next; (next = queue.pop());) {
		counts.set(next.key, null);
		try {
			const [a, b] = await Promise.all([textOf(next.server, next.uri, next.from), textOf(next.server, next.uri, next.to)]);
			counts.set(next.key, countLines(a, b));
			onCount();
		} catch { /* a text that is not stored has no lines to count */ }
		if (counts.size > maxCounts) counts.delete(counts.keys().next().value);
	}
	busy--;
}
