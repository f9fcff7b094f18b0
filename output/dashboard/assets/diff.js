// compare returns the lines by which two texts differ as [sign, line] pairs: the longest
// common subsequence after removing equal heads and tails. Equal lines have the sign ' '.
// Lines beyond most are only counted, with the sign '…'. start is the number of lines before.
function compare(a, b, context, most) {
	let head = 0;
	while (head < a.length && head < b.length && a[head] === b[head]) head++;
	let tail = 0;
	while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
	const x = a.slice(head, a.length - tail), y = b.slice(head, b.length - tail), start = Math.max(0, head - context);
	const out = a.slice(start, head).map((l) => [' ', l]);
	if (x.length * y.length > 4e6) { // too much to compare line by line
		for (const [sign, lines] of [['-', x], ['+', y]]) for (const l of lines.slice(0, most / 2)) out.push([sign, l]);
		leftOut(out, x.length - most / 2, 'old');
		leftOut(out, y.length - most / 2, 'new');
	} else {
		let n = 0, i = 0, j = 0;
		for (const sign of script(x, y)) {
			if (n++ === most) break;
			if (sign === '+') out.push([sign, y[j++]]);
			else {
				out.push([sign, x[i++]]);
				if (sign === ' ') j++;
			}
		}
		leftOut(out, x.length - i, 'old');
		leftOut(out, y.length - j, 'new');
	}
	return { start, lines: out.concat(a.slice(a.length - tail, a.length - tail + context).map((l) => [' ', l])) };
}

// script yields the signs that lead from x to y: '-' and '+' for what only one has, ' ' for both, whose likeness is
// as large as possible in all.
function* script(x, y, like = (a, b) => a === b) {
	const wide = y.length + 1, best = new Uint32Array((x.length + 1) * wide); // [i, j] is at i * wide + j
	for (let i = x.length - 1; i >= 0; i--) {
		for (let j = y.length - 1; j >= 0; j--) {
			const at = i * wide + j, same = like(x[i], y[j]);
			best[at] = Math.max(best[at + wide], best[at + 1], same && same + best[at + wide + 1]);
		}
	}
	for (let i = 0, j = 0; i < x.length || j < y.length;) {
		const at = i * wide + j, same = i < x.length && j < y.length && like(x[i], y[j]);
		if (same && same + best[at + wide + 1] === best[at]) { i++; j++; yield ' '; }
		else if (i < x.length && (j === y.length || best[at + wide] >= best[at + 1])) { i++; yield '-'; }
		else { j++; yield '+'; }
	}
}

function leftOut(out, n, which) {
	if (n > 0) out.push(['…', `${n} more lines of the ${which} text`]);
}

// lines splits a text. A newline at its end ends the last line and begins none.
const lines = (text) => text === '' ? [] : text.replace(/\n$/, '').split('\n');

// diff returns the lines by which two texts differ, with some context. parts, if any, are
// [text, differs] pairs of a line of which only some words differ.
export function diff(from, to, context = 3, most = 2000) {
	const { start, lines: all } = compare(lines(from), lines(to), context, most);
	let old = start, now = start;
	const out = all.map(([sign, text]) => {
		if (sign === '…') return { sign, text, number: '' };
		if (sign !== '+') old++;
		if (sign !== '-') now++;
		return { sign, text, number: sign === '-' ? old : now, was: old };
	});
	words(out);
	return fold(out, context);
}

// fold replaces the middle of a long run of equal lines.
function fold(all, context) {
	const out = [];
	for (let i = 0; i < all.length;) {
		let end = i;
		while (end < all.length && all[end].sign === ' ') end++;
		const middle = end - i - 2 * context;
		if (middle > 2) {
			out.push(...all.slice(i, i + context), { sign: '…', text: `${middle} equal lines`, number: '' }, ...all.slice(end - context, end));
		} else out.push(...all.slice(i, Math.max(end, i + 1)));
		i = Math.max(end, i + 1);
	}
	return out;
}

// rewritten says in a sentence that hardly a line of the old text is in the new one, but for spaces at its end; '' if
// that is not so.
export function rewritten(from, to) {
	const [old, now] = [from, to].map((t) => lines(t).map((l) => l.trimEnd())), known = new Set(old), kept = now.filter((l) => l && known.has(l)).length;
	if (Math.min(old.length, now.length) < 4 || kept * 10 > now.length) return '';
	return `The text was rewritten: ${kept ? `only ${kept.toLocaleString()} of ${now.length.toLocaleString()} lines are old.` : 'no line is as before.'}`;
}

const maxWords = 300, maxPairs = 4e4; // words of a line; pairs of lines that are compared
const wordsOf = (text) => text.match(/[\p{L}\p{N}\p{M}_]+|\s+|[^]/gu) || [];

// runs yields the removed lines and those that were added in their place, with the index after them.
function* runs(all) {
	for (let i = 0; i < all.length;) {
		let mid = i;
		while (all[mid]?.sign === '-') mid++;
		let end = mid;
		while (all[end]?.sign === '+') end++;
		if (end > i) yield [all.slice(i, mid), all.slice(mid, end), end];
		i = Math.max(end, i + 1);
	}
}

// words gives a removed line and the line that it became each other as mate, and marks the words that differ.
export function words(all) {
	for (const [old, now] of runs(all)) {
		for (const [a, b] of mates(old, now)) {
			a.mate = b;
			b.mate = a;
			mark(a, b);
		}
	}
}

// mates pairs lines in their order, so that they have as much as possible in common: at least a quarter.
function mates(old, now) {
	if (old.length * now.length > maxPairs) return old.length === now.length ? old.map((l, i) => [l, now[i]]).filter(([a, b]) => likeness(bag(a), bag(b))) : [];
	const out = [];
	let i = 0, j = 0;
	for (const sign of script(old.map(bag), now.map(bag), likeness)) {
		if (sign === ' ') out.push([old[i++], now[j++]]);
		else if (sign === '-') i++;
		else j++;
	}
	return out;
}

// bag counts the characters of each word of a line; likeness is their common share in the shorter line, in 10,000ths.
function bag({ text }) {
	const words = new Map();
	let size = 0;
	for (const w of wordsOf(text.length > 5000 ? text.slice(0, 5000) : text)) if (w.trim()) { words.set(w, (words.get(w) || 0) + w.length); size += w.length; }
	return { words, size };
}

function likeness(a, b) {
	let same = 0;
	for (const [w, n] of a.words) same += Math.min(n, b.words.get(w) || 0);
	const share = same / Math.max(Math.min(a.size, b.size), 1);
	return share >= .25 && Math.round(share * 1e4);
}

function mark(before, after) {
	const [x, y] = [wordsOf(before.text), wordsOf(after.text)];
	if (x.length > maxWords || y.length > maxWords) return;
	let i = 0, j = 0;
	before.parts = [];
	after.parts = [];
	const add = (parts, text, differs) => {
		if (parts.at(-1)?.[1] === differs) parts.at(-1)[0] += text;
		else parts.push([text, differs]);
	};
	for (const sign of script(x, y)) {
		if (sign !== '+') add(before.parts, x[i++], sign === '-');
		if (sign !== '-') add(after.parts, y[j++], sign === '+');
	}
}

// columns returns pairs of lines to show beside each other: what is equal, a line and what it became, and else what
// was removed and added at the same place. One of a pair may be undefined.
export function columns(all) {
	const out = [];
	let at = 0;
	const equal = (to) => { for (; at < to; at++) out.push([all[at].sign === '…' ? all[at] : { ...all[at], number: all[at].was }, all[at]]); };
	for (const [old, now, end] of runs(all)) {
		equal(end - old.length - now.length);
		for (let i = 0, j = 0; i < old.length || j < now.length;) {
			const apart = Boolean(old[i]?.mate) !== Boolean(now[j]?.mate);
			out.push([apart && old[i]?.mate ? undefined : old[i++], apart && now[j]?.mate ? undefined : now[j++]]);
		}
		at = end;
	}
	equal(all.length);
	return out;
}

export function countLines(from, to) {
	const { lines: all } = compare(lines(from), lines(to), 0, 1e5);
	return { added: all.filter(([s]) => s === '+').length, removed: all.filter(([s]) => s === '-').length };
}
