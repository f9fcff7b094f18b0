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
		for (const [sign, lines, which] of [['-', x, 'old'], ['+', y, 'new']]) {
			for (const l of lines.slice(0, most / 2)) out.push([sign, l]);
			leftOut(out, lines.length - most / 2, which);
		}
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

// script yields the signs that lead from x to y: '-' and '+' for what only one has, ' ' for both.
function* script(x, y) {
	const wide = y.length + 1, best = new Uint32Array((x.length + 1) * wide); // [i, j] is at i * wide + j
	for (let i = x.length - 1; i >= 0; i--) {
		for (let j = y.length - 1; j >= 0; j--) {
			const at = i * wide + j;
			best[at] = x[i] === y[j] ? best[at + wide + 1] + 1 : Math.max(best[at + wide], best[at + 1]);
		}
	}
	for (let i = 0, j = 0; i < x.length || j < y.length;) {
		if (i < x.length && j < y.length && x[i] === y[j]) { i++; j++; yield ' '; }
		else if (i < x.length && (j === y.length || best[(i + 1) * wide + j] >= best[i * wide + j + 1])) { i++; yield '-'; }
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
		return { sign, text, number: sign === '-' ? old : now };
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

const maxWords = 300;

// words marks the words that differ, where as many lines were removed as added after them.
export function words(all) {
	for (let i = 0; i < all.length;) {
		let mid = i;
		while (all[mid]?.sign === '-') mid++;
		let end = mid;
		while (all[end]?.sign === '+') end++;
		if (mid - i === end - mid) for (let n = 0; n < mid - i; n++) mark(all[i + n], all[mid + n]);
		i = Math.max(end, i + 1);
	}
}

function mark(before, after) {
	const [x, y] = [before, after].map((l) => l.text.match(/[\p{L}\p{N}\p{M}_]+|\s+|[^]/gu) || []);
	if (x.length > maxWords || y.length > maxWords) return;
	const signs = [...script(x, y)];
	let i = 0, j = 0, same = 0;
	const a = [], b = [];
	const add = (parts, text, differs) => {
		if (parts.at(-1)?.[1] === differs) parts.at(-1)[0] += text;
		else parts.push([text, differs]);
	};
	for (const sign of signs) {
		if (sign === ' ') { same += x[i].trim().length; add(a, x[i], false); add(b, x[i], false); i++; j++; }
		else if (sign === '-') add(a, x[i++], true);
		else add(b, y[j++], true);
	}
	if (same * 4 < Math.min(before.text.length, after.text.length)) return; // another line, not a changed one
	before.parts = a;
	after.parts = b;
}

export function countLines(from, to) {
	const { lines: all } = compare(lines(from), lines(to), 0, 1e5);
	return { added: all.filter(([s]) => s === '+').length, removed: all.filter(([s]) => s === '-').length };
}
