// The review: what differs from the lock, to approve or reject. Only what is shown can be decided.
import { words } from './diff.js';
import { $, button, count, el, line, name, note, para, place, visible } from './dom.js';
import { link } from './rail.js';
import { diffLine } from './resource.js';
import { get, post, reason, state } from './state.js';

const settleTime = 500; // ms after something has moved in which no button works
const root = el('div');
const decided = new Map(); // fingerprint → what was decided, until the list says so
const cards = new Map(); // key → its element, and what it shows
let list = null, shown = '', problem = '', message = '', over = false, held = false, force = false, settling = 0;

root.addEventListener('pointerenter', (e) => { over = e.pointerType === 'mouse'; });
root.addEventListener('pointerleave', () => { over = false; if (held) draw(); });

const asked = () => state.server + '\n' + state.item;

// loadReview asks for the changes. While the mouse is over them they stay as they are.
export async function loadReview(changed) {
	const what = asked(), other = shown !== what;
	try {
		const next = await get('/api/lock', { server: state.server, item: state.item });
		if (what !== asked()) return;
		list = next;
		problem = '';
		const open = new Map(list.changes.map((c) => [c.fingerprint, c]));
		for (const [f, result] of decided) if (!open.has(f) || result === 'rejected' && open.get(f).rejected) decided.delete(f);
	} catch (err) { problem = reason(err); }
	held = over && !other && !force;
	force = false;
	shown = what;
	if (!held) draw();
	changed();
}

export function showReview() {
	$('detail-title').textContent = 'Review';
	const where = state.server && line('', link(state.server, { server: state.server }), state.item, link('all changes', { review: '1' }));
	$('detail-meta').replaceChildren(line('', where, held && 'newer changes are shown when the pointer leaves', 'what differs from the lock'));
	return [shown === asked() ? root : note('loading…')];
}

// draw puts the cards in place, without moving those that stay.
function draw() {
	held = false;
	const now = [...contents()], at = [...root.querySelectorAll('.card')].findIndex((c) => c.contains(document.activeElement));
	if (now.length === root.children.length && now.every((e, i) => e === root.children[i])) return;
	for (const [key, c] of cards) if (!now.includes(c.e)) cards.delete(key);
	place(root, now);
	if (at >= 0 && !root.contains(document.activeElement)) (root.querySelectorAll('.card')[at]?.querySelector('button') || $('detail-body')).focus();
	root.classList.add('settling');
	clearTimeout(settling);
	settling = setTimeout(() => root.classList.remove('settling'), settleTime);
}

function* contents() {
	if (message || problem) yield card('message', message || problem, () => { const p = el('p', 'notice bad', visible(message || problem)); p.role = 'alert'; return p; });
	if (!list) return;
	const changes = list.changes.filter((c) => decided.get(c.fingerprint) !== 'approved').map((c) => ({ ...c, rejected: c.rejected || decided.has(c.fingerprint) }));
	if (!changes.length) yield card('empty', [list.lock, state.server].join(), nothing);
	for (const [i, c] of changes.entries()) {
		if (c.serverId !== changes[i - 1]?.serverId) {
			const all = changes.filter((o) => o.serverId === c.serverId), open = all.filter((o) => o.fingerprint && !o.advice && !o.rejected).map((o) => o.fingerprint);
			yield card('server ' + c.serverId, all.length + open.join(), () => head(c.serverId, all.length, open));
		}
		yield card(c.fingerprint || c.serverId + '\n' + c.item, JSON.stringify(c), () => change(c));
	}
	if (list.more) yield card('more', list.more, () => note(count(list.more, 'more change') + ': decide about these first, or run mcptrack review.'));
}

function card(key, what, make) {
	if (cards.get(key)?.what !== what) cards.set(key, { what, e: make() });
	return cards.get(key).e;
}

function nothing() {
	if (!list.lock) return para('There is no lock. mcptrack lock writes what the servers offer now into it.');
	return para(state.server ? 'This is as in the lock: it was approved, or the server has taken the change back.' : 'Nothing differs from the lock.');
}

function head(server, all, open) {
	const title = el('div', 'bar', el('h3', '', link(server, { review: '1', server })), el('span', 'quiet', count(all, 'change')));
	if (open.length > 1) title.append(el('span', 'spread'), twice(`Approve all ${open.length}`, () => decide('approve', server, open)), twice(`Reject all ${open.length}`, () => decide('reject', server, open)));
	return title;
}

// twice is a button that asks once more.
function twice(label, act) {
	const b = button('', label, () => {
		if (b.textContent === label) b.textContent = label + ': sure?';
		else act();
	});
	b.onblur = () => { b.textContent = label; };
	return b;
}

const tones = { note: 'quiet', warning: 'warn', error: 'bad' };
const effects = { audit: 'served', hold: 'held back by gateways', block: 'the server is blocked by gateways' };

function change(c) {
	const title = el('div', 'bar', el('h4', '', name(c.item || c.serverId, 'mono')), el('span', 'badge ' + tones[c.severity], c.classes.join(', ') || 'lock'),
		c.rejected && el('span', 'badge bad', 'rejected'), el('span', 'quiet', line('', c.kind, effects[c.action])), el('span', 'spread'), el('span', 'both'));
	const act = (label, verb) => {
		const b = button('', label, () => decide(verb, c.serverId, [c.fingerprint]));
		b.setAttribute('aria-label', `${label} ${visible(c.item)} of ${visible(c.serverId)}`);
		return b;
	};
	if (c.fingerprint && !c.advice) title.lastChild.append(act('Approve', 'approve'));
	if (c.fingerprint && !c.rejected) title.lastChild.append(act('Reject', 'reject'));
	const diff = c.diff && el('div', 'diff', ...unified(c.diff).map(diffLine));
	if (diff) { diff.tabIndex = 0; diff.role = 'group'; diff.ariaLabel = 'Difference'; }
	const e = el('article', 'card', title,
		...[...(c.reasons || []).map((r) => r.kind + ': ' + r.text), c.reason, c.problem && 'cannot be approved: ' + c.problem, c.advice,
			c.variants && 'for clients that are ' + c.variants.join(', ')].filter(Boolean).map((text) => el('p', 'warn', visible(text))), diff);
	e.ariaLabel = visible(c.serverId + ' ' + c.item);
	return e;
}

// unified returns the lines of a unified diff, without its head.
function unified(text) {
	const all = text.split('\n').slice(3, -1).map((l) => ({ sign: l[0] === '@' ? '…' : l[0], text: l[0] === '@' ? '' : l.slice(1), number: '' }));
	words(all);
	return all;
}

let changedAgain = () => {};
export const whenDecided = (f) => { changedAgain = f; };

async function decide(verb, serverId, changes) {
	if (root.classList.contains('settling')) return;
	root.classList.add('settling'); // one decision at a time
	message = '';
	try {
		await post('/api/lock/' + verb, { serverId, changes });
		for (const f of changes) decided.set(f, verb === 'approve' ? 'approved' : 'rejected');
	} catch (err) { message = reason(err); }
	root.classList.remove('settling');
	force = true;
	draw();
	changedAgain();
}
