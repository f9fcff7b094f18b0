// Elements are made from text, never from markup: servers choose names and contents.

// asText is the text of any JSON value, whatever members it has.
export const asText = (v) => typeof v === 'string' ? v : JSON.stringify(v) ?? '';

// visible escapes the characters of a name that are invisible or reorder the text
// around them.
export function visible(name) {
	return asText(name).replace(/[\p{Cc}\p{Cf}\u2028\u2029\u115f\u1160\u3164\uffa0]/gu, escape);
}

// shown is visible for contents: it leaves lines, tabs, and the marks that scripts and
// emoji need.
export function shown(content) {
	return content.replace(/[\u202a-\u202e\u2066-\u2069]|(?![\n\r\t])\p{Cc}/gu, escape);
}

const escape = (c) => '\\u' + (c.codePointAt(0) > 0xffff ? '{' + c.codePointAt(0).toString(16) + '}' : c.codePointAt(0).toString(16).padStart(4, '0'));

// el makes an element with a class and with children, which are texts or elements.
export function el(tag, className, ...children) {
	const e = document.createElement(tag);
	if (className) e.className = className;
	e.append(...children.filter((c) => c !== '' && c !== 0 && c != null && c !== false));
	return e;
}

// unpressed calls draw, the last one of an owner, but not while a pointer is pressed: a browser drops the
// click on an element that is replaced between press and release.
export function unpressed(owner, draw) {
	if (pressed) held.set(owner, draw);
	else draw();
}

let pressed = false;
const held = new Map();
const release = () => setTimeout(() => { // after the click
	pressed = false;
	const draws = [...held.values()];
	held.clear();
	draws.forEach((draw) => draw());
});
addEventListener('pointerdown', () => { pressed = true; }, true);
for (const end of ['pointerup', 'pointercancel']) addEventListener(end, release, true);
addEventListener('blur', release); // of the window

export const $ = (id) => document.getElementById(id);
// note and para make paragraphs.
export const note = (...children) => el('p', 'quiet', ...children);
export const para = (...children) => el('p', '', ...children);

// name shows a name that a server chose. <bdi> keeps its writing direction to itself.
export const name = (text, className) => el('bdi', className, visible(text));

// readable decodes the letters of other alphabets in a URI. What is ASCII stays encoded.
export const readable = (uri) => uri.replace(/(?:%[89a-f][0-9a-f])+/gi, (bytes) => { try { return decodeURIComponent(bytes); } catch { return bytes; } });

// cut shows a name that loses its middle where it is too long. A name with right-to-left
// letters loses its end, because its parts would change places.
export function cut(text, className, most = 16) {
	const all = Array.from(visible(text)), keep = Math.min(most, all.length >> 1);
	if (all.length < 1.5 * most || /[\u0590-\u08ff\ufb1d-\ufefc]/.test(text)) return el('bdi', 'cut ' + className, el('span', 'head', all.join('')));
	return el('bdi', 'cut ' + className, el('span', 'head', all.slice(0, -keep).join('')), el('span', 'tail', all.slice(-keep).join('')));
}

export function button(className, label, act) {
	const e = el('button', className, label);
	e.onclick = act;
	return e;
}

// clipboard copies a text, or what an element shows, and says so on the button.
export async function clipboard(from, text, root) {
	const label = from.textContent;
	try { await navigator.clipboard.writeText(text ?? ''); } catch { // without TLS there is no clipboard
		getSelection().selectAllChildren(root);
		document.execCommand('copy');
		getSelection().removeAllRanges();
	}
	if (label === 'Copied') return;
	from.textContent = 'Copied';
	setTimeout(() => { from.textContent = label; }, 1500);
}

// place gives root these children, and leaves those in place that it has.
export function place(root, now) {
	for (const e of [...root.childNodes]) if (!now.includes(e)) e.remove();
	now.forEach((e, i) => { if (root.childNodes[i] !== e) root.insertBefore(e, root.childNodes[i] || null); });
}

export function line(className, ...parts) {
	const e = el('span', className);
	for (const part of parts) {
		if (!part) continue;
		if (e.hasChildNodes()) e.append(' · ');
		e.append(part instanceof Node ? part : name(part));
	}
	return e;
}

export const size = (n) => n < 1024 ? n + ' B' : n < 1048576 ? (n / 1024).toFixed(1) + ' KiB' : (n / 1048576).toFixed(1) + ' MiB';
export const count = (n, what) => n.toLocaleString() + ' ' + what + (n === 1 ? '' : 's');
const hours = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' };
// clock shows a local time as watch does, with the date if that is not today.
export function clock(iso) {
	if (!iso) return '';
	const at = new Date(iso);
	const day = at.toDateString() === new Date().toDateString() ? '' : at.toLocaleDateString(undefined, { month: 'short', day: 'numeric' }) + ' ';
	return day + at.toLocaleTimeString(undefined, hours);
}

// at is clock as an element, with the exact time on hover.
export function at(iso, className) {
	const e = el('time', className, clock(iso));
	e.title = iso;
	return e;
}

export const shortDigest = (digest) => (digest || '').replace(/^sha256:/, '').slice(0, 8);

export function digest(text) {
	const e = el('span', 'mono', shortDigest(text));
	e.title = text;
	return e;
}

// ago shows a time relative to now, with the exact one on hover. refreshTimes keeps all
// of them up to date.
export function ago(iso) {
	if (!iso) return '';
	const e = el('time');
	e.dateTime = iso;
	e.title = iso;
	e.textContent = relative(iso);
	return e;
}

export function refreshTimes() {
	for (const e of document.querySelectorAll('time[datetime]')) {
		const text = relative(e.dateTime);
		if (e.textContent !== text) e.textContent = text;
	}
}

const units = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];
function relative(iso) {
	const seconds = Math.round((Date.now() - Date.parse(iso)) / 1000);
	if (Math.abs(seconds) < 2) return 'now';
	const [unit, length] = units.find(([, n]) => Math.abs(seconds) >= n);
	const n = Math.floor(Math.abs(seconds) / length);
	return seconds < 0 ? `in ${n} ${unit}` : `${n} ${unit} ago`;
}

export function facts(entries) {
	const list = el('dl');
	for (const [what, value] of entries) {
		if (value === '' || value == null || value === false) continue;
		list.append(el('dt', '', what), el('dd', '', value instanceof Node ? value : name(value)));
	}
	return list;
}

const tags = new Set(['h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'p', 'ul', 'ol', 'li', 'pre', 'code', 'strong', 'em', 'blockquote', 'hr', 'br', 'table', 'tr', 'th', 'td']);

// rendered makes the elements of a Markdown text, as the server parsed it. Links do not lead
// anywhere: their address is shown on hover.
export function rendered(nodes) {
	return nodes.map(({ tag, text, link, children = [] }) => {
		if (!tag) return document.createTextNode(shown(text || ''));
		const e = el(tags.has(tag) ? tag : 'span', tag === 'a' ? 'address' : '', ...rendered(children));
		if (link) e.title = visible(link);
		return e;
	});
}
