// The feed: the newest events, in the columns and verbs of watch.
import { List } from './list.js';
import { $, para, at, button, cut, el, name, readable, shown, visible } from './dom.js';
import { go, select, state } from './state.js';
import { lineCounts } from './texts.js';
import { fits, narrow, said } from './words.js';

const maxEvents = 5000, burst = 5000, longest = 60000; // ms between two events of a burst, and from the first to the last
const events = []; // newest first
let frozen = null; // the events that were there when the feed was paused
let one = true; // there is one server, so its name says nothing

export const isChange = (e) => e.type === 'resource.updated' && e.changed !== false && Boolean(e.digest);
export const isPaused = () => frozen !== null;

const feedList = new List($('feed-list'), {
	height: 26,
	fill(row, r) {
		const { e, n, oldest } = r, d = said(e);
		const start = [at(e.timestamp, 'quiet'), one ? '' : name(e.serverId || '', 'server'), el('span', 'verb ' + d.tone, visible(d.verb))];
		const times = n > 1 ? '×' + n : '';
		if (d.subject && d.subject === e.resourceUri) {
			row.replaceChildren(...start.filter(Boolean), cut(readable(d.subject), 'what mono'), el('span', 'count', lineCounts(e.serverId, e.resourceUri, oldest.previousDigest, e.digest, e.size)),
				el('span', 'times', times), el('span', 'more quiet', visible(d.details[0] || '')));
		} else row.replaceChildren(...start.filter(Boolean), el('bdi', 'what wide', [visible(d.subject || ''), ...d.details.map(visible), times].filter(Boolean).join(' · ')));
		row.title = visible([d.subject, ...d.details].filter(Boolean).join(', '));
	},
	pick(r) { go(select(pageOf(r)), true); },
	held(n) { sayHeld(n); },
});

let heldRows = 0;
function sayHeld(n) {
	heldRows = n;
	const text = frozen ? '' : n ? n + ' new, shown when the pointer leaves' : '';
	if ($('held').textContent !== text) $('held').textContent = text;
}

// pageOf returns what a row opens. A burst opens as one change, the one whose lines the row counts.
function pageOf({ e, oldest, n }) {
	if (isChange(e)) return { server: e.serverId, uri: e.resourceUri, to: e.id, from: n > 1 ? oldest.previousDigest || '' : '', tab: 'diff' };
	if (e.type.startsWith('skill.')) return { server: e.serverId, tab: 'skills' };
	if (e.resourceUri && e.serverId) return { server: e.serverId, uri: e.resourceUri };
	if (e.type === 'server.state') return { server: e.serverId, tab: 'timeline' };
	if (e.type === 'lock.drift') return { review: '1', server: e.serverId, item: e.item || '' };
	const tab = e.type.endsWith('.list_changed') && e.type !== 'resources.list_changed' && e.type.slice(0, -13), only = tab && [...(e.added || []), ...(e.changed || []), ...(e.removed || [])];
	if (only?.length === 1) return { server: e.serverId, item: tab.slice(0, -1) + '/' + only[0], tab: 'changes' };
	return tab ? { server: e.serverId, tab } : { event: e.id, server: e.serverId || '' };
}

export function startFeed() {
	const fit = () => feedList.resize(narrow.matches ? 48 : 26); // what happened gets a line of its own
	narrow.addEventListener('change', fit);
	fit();
	$('pause').onclick = pause;
}

export function pause() {
	frozen = frozen ? null : [...events];
	$('pause').ariaPressed = isPaused();
	showFeed(true);
}

export const stepFeed = (n) => feedList.step(n);

export function addEvents(more, stored = false) {
	if (stored) {
		const known = new Set(events.map((e) => e.id));
		events.push(...more.filter((e) => !known.has(e.id)));
		events.sort((a, b) => b.timestamp.localeCompare(a.timestamp));
	} else events.unshift(...more);
	events.length = Math.min(events.length, maxEvents);
}

// isSame reports whether an event is part of a row: the same state again, or the same burst.
function isSame({ e: newest, oldest }, e) {
	if (e.type === 'server.state') return newest.state === e.state;
	const at = Date.parse(e.timestamp);
	return Date.parse(oldest.timestamp) - at < burst && Date.parse(newest.timestamp) - at < longest;
}

const transitional = ['Pending', 'Connecting', 'Stopping'];

// fold returns the rows for events: bursts are one row, and a state on the way to another one,
// an announcement without a change, and the end of a burst have none.
function fold(all) {
	const rows = [], open = new Map(), newer = new Set(), named = new Set();
	const from = state.after && new Date(state.after * 1000).toISOString(), until = state.before && new Date(state.before * 1000).toISOString();
	let chosen = '';
	for (const e of all) {
		if (from && (e.timestamp < from || e.timestamp >= until)) continue;
		if (e.type === 'server.state') {
			const over = newer.has(e.serverId);
			newer.add(e.serverId);
			if (over && transitional.includes(e.state)) continue;
		} else if (e.changed === false) continue;
		if (e.type === 'resource.added' || e.type === 'resource.removed') named.add(e.serverId + '\n' + e.resourceUri);
		if (e.type === 'skills.list_changed' && !e.error) continue;
		// A changed list of resources and the events of these resources are one fact.
		if (e.type === 'resources.list_changed' && !e.error && !e.changed?.length && [...(e.added || []), ...(e.removed || [])].every((uri) => named.has(e.serverId + '\n' + uri))) continue;
		const d = said(e);
		if (!fits(state.efilter, e.type, e.serverId, d.verb, d.subject, ...d.details)) continue;
		const key = e.type === 'resource.updated' || e.type === 'server.state' ? [e.serverId, e.resourceUri].join('\n') : '';
		let row = key && open.get(key);
		if (row && isSame(row, e)) {
			row.n++;
			row.oldest = e;
		} else {
			row = { key: e.id, e, oldest: e, n: 1 };
			if (key) open.set(key, row);
			rows.push(row);
		}
		if (e.id === state.to || e.id === state.event) chosen = row.key;
	}
	return { rows, chosen };
}

export function showFeed(force = false) {
	const all = frozen || events, missed = frozen ? (frozen.length ? events.findIndex((e) => e.id === frozen[0].id) : events.length) : 0;
	const label = frozen ? `Resume (${missed < 0 ? maxEvents + '+' : missed} new)` : 'Pause';
	if ($('pause').textContent !== label) $('pause').textContent = label;
	const { rows, chosen } = fold(all);
	feedList.set(rows, chosen, why(all), force);
	sayHeld(heldRows);
}

// why says why the feed is empty, and what to do.
function why(all) {
	if (state.after) return [para('No event is known from this time.'), button('', 'Show all times', () => go({ after: '', before: '' }))];
	if (state.efilter) return [para('No event matches “', name(state.efilter), '”.'), button('', 'Clear the filter', () => go({ efilter: '' }))];
	return [para(all.length ? 'The newest events changed nothing.' : 'Nothing happened in the last 15 minutes. Changes appear here as soon as a server announces them.')];
}

export function setOneServer(is) {
	one = is;
	$('feed-list').classList.toggle('one', is);
}

export const newestChange = () => events.find(isChange);

export function updatesPerMinute() {
	const since = new Date(Date.now() - 60000).toISOString();
	let n = 0;
	for (const e of events) {
		if (e.timestamp < since) return n.toLocaleString();
		if (isChange(e)) n++;
	}
	return n.toLocaleString() + (events.length === maxEvents ? '+' : '');
}

export const eventOf = (id) => events.find((e) => e.id === id);

export function eventPage(e) {
	return el('pre', '', shown(JSON.stringify({ ...e, description: undefined }, null, 2)));
}
