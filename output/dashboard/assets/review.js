// The review: what differs from the lock, to approve or reject. Only what is shown can be decided. No card moves
// while the mouse is over them, nor for a second after a decision, which can be undone for 10 s. To approve what is
// suspicious, its button is held.
import { words } from './diff.js';
import { $, button, count, el, line, name, note, para, place, unpressed, visible } from './dom.js';
import { link } from './rail.js';
import { diffLine } from './resource.js';
import { get, post, reason, state } from './state.js';
import { toast } from './toasts.js';

const settleTime = 500; // ms after something has moved in which no button works
const stillTime = 1000, holdTime = 1500, undoTime = 10000, staleTime = 5000; // ms; the last is when the list has a decision
const root = el('div');
const decided = new Map(); // fingerprint → what was decided, until the list says so
const cards = new Map(); // key → its element, and what it shows
let list = null, shown = '', problem = '', message = '', over = false, held = false, busy = false, still = 0, settling = 0;

root.addEventListener('pointerenter', (e) => { over = e.pointerType === 'mouse'; });
root.addEventListener('pointerleave', () => { over = false; redraw(); });
// A key that is still pressed decides nothing else.
root.addEventListener('keydown', (e) => { if (e.repeat && e.target.matches('button')) e.preventDefault(); });

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
	shown = what;
	held = true;
	redraw(other);
	changed();
}

export function showReview() {
	$('detail-title').textContent = 'Review';
	const where = state.server && line('', link(state.server, { server: state.server }), state.item, link('all changes', { review: '1' }));
	$('detail-meta').replaceChildren(line('', where, held && over && 'newer changes are shown when the pointer leaves', 'what differs from the lock'));
	return [shown === asked() ? root : note('loading…')];
}

// redraw draws what is new as soon as nobody is about to press a button.
function redraw(now = false) {
	unpressed(root, () => { if (held && (now || !over && !still)) draw(); });
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
	if (message || problem) yield card('message', message || problem, () => Object.assign(el('p', 'notice bad', visible(message || problem)), { role: 'alert' }));
	if (!list) return;
	const changes = list.changes.filter((c) => decided.get(c.fingerprint) !== 'approved').map((c) => ({ ...c, rejected: c.rejected || decided.has(c.fingerprint) }));
	if (!changes.length) yield card('empty', [list.lock, state.server].join(), nothing);
	for (const [i, c] of changes.entries()) {
		if (c.serverId !== changes[i - 1]?.serverId) {
			const all = changes.filter((o) => o.serverId === c.serverId), open = all.filter((o) => o.fingerprint && !o.advice && !o.rejected), plain = open.filter((o) => !isSuspicious(o));
			yield card('server ' + c.serverId, JSON.stringify([all.length, open.map((o) => o.fingerprint)]), () => head(c.serverId, all.length, open, plain));
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

const isSuspicious = (c) => c.classes.includes('suspicious');

function head(server, all, open, plain) {
	const title = el('div', 'bar', el('h3', '', link(server, { review: '1', server })), el('span', 'quiet', count(all, 'change')));
	if (open.length > 1) title.append(el('span', 'spread'), plain.length > 0 && twice(plain.length < open.length ? `Approve ${plain.length} not suspicious` : `Approve all ${open.length}`, () => decide('approve', plain)),
		twice(`Reject all ${open.length}`, () => decide('reject', open)));
	return title;
}

// twice is a button that asks once more. A double click does not answer.
function twice(label, act) {
	const b = button('', label, (e) => {
		if (b.textContent === label) b.textContent += ': sure?';
		else if (e.detail < 2) act();
	});
	b.onblur = () => { b.textContent = label; };
	return b;
}

// heldButton is a button that acts when it was held for holdTime, with the pointer or with a key.
function heldButton(_, label, act) {
	const b = button('hold', label);
	let timer = 0;
	const end = () => { clearTimeout(timer); b.classList.remove('holding'); };
	const begin = () => {
		end();
		if (!mayAct(b)) return;
		b.classList.add('holding');
		timer = setTimeout(() => { end(); if (b.isConnected) act(); }, holdTime);
	};
	b.title = 'It is suspicious: hold the button, or Enter, for 1.5 s';
	b.onpointerdown = (e) => { if (e.isPrimary && !e.button) begin(); };
	b.onkeydown = (e) => { if (!e.repeat && ['Enter', ' '].includes(e.key)) begin(); };
	b.onpointerup = b.onpointerleave = b.onpointercancel = b.onkeyup = b.onblur = end;
	b.oncontextmenu = (e) => e.preventDefault(); // of a long touch
	return b;
}

const tones = { note: 'quiet', warning: 'warn', error: 'bad' };
const effects = { audit: 'served', hold: 'held back by gateways', block: 'the server is blocked by gateways' };

function change(c) {
	const title = el('div', 'bar', el('h4', '', name(c.item || c.serverId, 'mono')), el('span', 'badge ' + tones[c.severity], c.classes.join(', ') || 'lock'),
		c.rejected && el('span', 'badge bad', 'rejected'), el('span', 'quiet', line('', c.kind, effects[c.action])), el('span', 'spread'), el('span', 'both'));
	const act = (label, verb, make = button) => title.lastChild.append(Object.assign(make('', label, () => decide(verb, [c])), { ariaLabel: `${label} ${visible(c.item)} of ${visible(c.serverId)}` }));
	if (c.fingerprint && !c.advice) act(...isSuspicious(c) ? ['Hold to approve', 'approve', heldButton] : ['Approve', 'approve']);
	if (c.fingerprint && !c.rejected) act('Reject', 'reject');
	const diff = c.diff && Object.assign(el('div', 'diff', ...unified(c.diff).map(diffLine)), { tabIndex: 0, role: 'group', ariaLabel: 'Difference' });
	const why = [...(c.reasons || []).map((r) => r.kind + ': ' + r.text), c.reason, c.problem && 'cannot be approved: ' + c.problem, c.advice];
	return Object.assign(el('article', 'card', title, ...why.map((text) => text && el('p', 'warn', visible(text))), diff), { ariaLabel: visible(c.serverId + ' ' + c.item) });
}

// unified returns the lines of a unified diff, without its head.
function unified(text) {
	const all = text.split('\n').slice(3, -1).map((l) => ({ sign: l[0] === '@' ? '…' : l[0], text: l[0] === '@' ? '' : l.slice(1), number: '' }));
	words(all);
	return all;
}

let changedAgain = () => {};
export const whenDecided = (f) => { changedAgain = f; };

const mayAct = (...all) => !busy && !root.classList.contains('settling') && !all.some((e) => e?.closest('.done'));

async function decide(verb, changes) {
	const of = changes.map((c) => cards.get(c.fingerprint)?.e);
	if (!mayAct(...of)) return;
	busy = true; // one decision at a time
	message = '';
	try {
		const { undo } = await post('/api/lock/' + verb, { serverId: changes[0].serverId, changes: changes.map((c) => c.fingerprint) });
		const result = verb === 'approve' ? 'approved' : 'rejected', what = changes.length > 1 ? count(changes.length, 'change') : visible(changes[0].item);
		for (const c of changes) decided.set(c.fingerprint, result);
		setTimeout(() => forget(changes), staleTime);
		const shownToast = toast(`${what} of ${visible(changes[0].serverId)} ${result}`, undoTime, 'Undo', () => takeBack(undo, changes, what, shownToast));
		for (const e of of) e?.classList.add('done');
		clearTimeout(still);
		still = setTimeout(settle, stillTime);
	} catch (err) {
		message = reason(err);
		settle();
	}
	busy = false;
	changedAgain();
}

// settle shows what has become of a decision.
function settle() {
	still = 0;
	held = true;
	redraw(true);
}

// forget leaves it to the list what is decided.
function forget(changes) {
	for (const c of changes) decided.delete(c.fingerprint);
	changedAgain();
}

async function takeBack(undo, changes, what, e) {
	let says = what + ': undone';
	try {
		await post('/api/lock/undo', { undo });
		for (const c of changes) cards.delete(c.fingerprint); // it is made anew
	} catch (err) { says = `${what}: not undone: ${reason(err)}`; }
	e.remove();
	toast(says, 5000);
	forget(changes);
}
