// The page of a resource: the change from one version to the next, a version, the history.
import { columns, diff, rewritten } from './diff.js';
import { $, note, para, ago, at, button, clock, count, digest, el, line, name, rendered, shortDigest, shown, size, visible } from './dom.js';
import { labelOf, link, resourceOf } from './rail.js';
import { eventOf, isChange } from './feed.js';
import { api, get, go, reason, state } from './state.js';
import { keep, lineCounts, textOf } from './texts.js';
import { causeWords, narrow } from './words.js';

const maxResources = 50, maxVersions = 500, rows = 50; // versions in a request, and more of them in the history after each click
const pages = new Map(); // server and URI → {now, versions, more, error}, the newest last

const key = (server = state.server, uri = state.uri) => server + '\n' + uri;

function page(of = key()) {
	const p = pages.get(of) || { now: null, versions: [], more: false, error: '', listed: rows };
	pages.delete(of);
	pages.set(of, p);
	if (pages.size > maxResources) pages.delete(pages.keys().next().value);
	return p;
}

// loadResource asks for the current content and the versions, and for the texts of the newest change. It returns a
// function that shows them. What is shown stays on a failure.
export async function loadResource(server, uri) {
	const asked = key(server, uri), p = page(asked);
	const [now, log] = await Promise.allSettled([get(api(server, '/content', { uri })), versionsOf(server, uri)]);
	const { versions = [], more } = log.value || {}, next = { error: '', failed: '' };
	if (now.status === 'fulfilled') {
		next.now = now.value;
		if (next.now.text != null) keep(next.now.digest, next.now.text);
		const same = versions.find((v) => v.digest === next.now.digest);
		if (same) same.text ||= next.now.text != null;
		// What is there now has no event if it did not change since the server is followed.
		else if (!next.now.gone) versions.unshift({ digest: next.now.digest || '', mimeType: next.now.mimeType, size: next.now.size, text: next.now.text != null, timestamp: next.now.changed, key: next.now.digest || 'now' });
	} else if (now.reason.status === 404) Object.assign(next, { now: null, error: now.reason.message });
	else if (!p.now) next.failed = reason(now.reason);
	if (log.status === 'fulfilled' || !p.versions.length) {
		const known = p.versions.findIndex((v) => v.key === versions.at(-1)?.key), older = known < 0 ? [] : p.versions.slice(known + 1); // loaded by more
		Object.assign(next, { versions: [...versions, ...older], more: older.length ? p.more : more });
	}
	const texts = versions.filter((v) => v.text).slice(0, 2), asRendered = texts[0] && isMarkdown(next.now ? next : p, uri) && (!texts[1] || state.tab === 'rendered');
	await Promise.allSettled([...texts.map((v) => textOf(server, uri, v.digest)), asRendered && renderedOf(server, uri, texts[0].digest)]);
	return () => { Object.assign(page(asked), next); };
}

// versionsOf returns the newest versions, or those until an event.
async function versionsOf(server, uri, until) {
	const { versions = [], more } = await get('/api/history', { server, uri, limit: maxVersions, versions: 1, ...(until && { until }) });
	for (const v of versions) v.key = v.id || v.digest;
	if (more && !versions.at(-1)?.id) versions.pop(); // the older ones have its event
	return { versions, more };
}

const isMarkdown = (p, uri = state.uri) => /markdown/.test(p.now?.mimeType || p.versions[0]?.mimeType || '') || /\.(md|markdown)$/i.test(uri);

// choice returns the version that is shown and the one before it, among those with a text.
function choice(p) {
	const all = p.versions.filter((v) => v.text);
	if (state.to && !p.versions.some((v) => v.key === state.to)) addOlder(all);
	const found = all.findIndex((v) => v.key === state.to), index = Math.max(found, 0);
	const from = all.find((v) => v.key === state.from) || all.slice(index + 1).find((v) => v.digest === state.from) || all[index + 1];
	return { all, index, to: all[index], from, lost: Boolean(state.to) && found < 0 };
}

// addOlder adds the versions of an event that is in the feed, but not among the loaded versions.
function addOlder(all) {
	const e = eventOf(state.to);
	if (!e || !isChange(e) || e.serverId !== state.server || e.resourceUri !== state.uri) return;
	const before = state.from || e.previousDigest, both = [{ ...e, key: e.id, text: true }, ...(before ? [{ key: before, digest: before, text: true }] : [])];
	all[e.timestamp > all[0]?.timestamp ? 'unshift' : 'push'](...both);
}

export function resourceTabs() {
	const p = page(), { from } = choice(p), change = ['diff', 'Change'];
	const tabs = [...(isMarkdown(p) ? [['rendered', 'Rendered']] : []), ['content', 'Raw'], ['history', 'History']];
	return from || state.tab === 'diff' ? [change, ...tabs] : [...tabs.filter(([t]) => t !== 'history'), change, tabs.at(-1)];
}

export function showResource(tab) {
	const p = page(), { now } = p;
	$('detail-title').replaceChildren(name(labelOf(now || resourceOf(state.server, state.uri) || { uri: state.uri })));
	$('detail-title').title = visible(state.uri);
	$('detail-meta').replaceChildren(line('', link(state.server, { server: state.server }), name(state.uri, 'mono'), now?.mimeType, now && (now.gone ? el('span', 'bad', 'removed') : size(now.size)), now?.changed && el('span', '', 'changed ', ago(now.changed))));
	if (p.failed && !p.versions.length) return [para(visible(p.failed))];
	if (p.error && !p.versions.length) {
		return [para(p.error !== 'no such server' ? 'This resource is not followed: the server does not offer it, or the config does not select it.' : 'There is no server with this name. It was renamed or removed in the config.'),
			note('Select something on the left, or follow the newest change.')];
	}
	if (!now && !p.versions.length) return [note('loading…')];
	const c = choice(p);
	if (tab !== 'history') showCompare(p, c, tab);
	const gone = (now?.gone || p.error) && tab !== 'history' ? [el('p', 'notice', now?.gone ? 'The server has removed this resource; this is the last version.' : 'No longer followed; this is the last version.')] : [];
	const unstored = p.versions.some((v) => v.key === state.to) ? 'This version has no stored text.' : 'The version of this link is no longer stored.';
	const lost = c.lost ? [el('p', 'notice', unstored + (c.to ? ' This is the newest one.' : ''))] : [];
	return [...gone, ...lost, ...{ content: showRaw, rendered: showRendered, diff: showDiff, history: showHistory }[tab](p, c)];
}

// labels names versions by their time, with the digest where that is not enough.
function labels(all) {
	const times = all.map((v) => v.timestamp ? clock(v.timestamp) : 'first');
	return times.map((t, i) => times.indexOf(t) === times.lastIndexOf(t) ? t : `${t} · ${shortDigest(all[i].digest)}`);
}

function showCompare(p, { all, index, from, to }, tab) {
	$('compare').hidden = !to;
	if (!to) return;
	const isDiff = tab === 'diff', names = labels(all);
	$('diff-from').hidden = $('diff-arrow').hidden = $('split').hidden = !isDiff || !from;
	$('split').ariaPressed = Boolean(compared.split);
	$('split').onclick = () => {
		localStorage.setItem('mcptrack-split', compared.split ? 'no' : 'yes');
		go({});
	};
	for (const [id, chosen] of [['diff-from', from], ['diff-to', to]]) {
		const { options } = $(id); // kept if they are the same, as one of them may be open
		if (options.length !== all.length || all.some((v, i) => options[i].value !== v.key || options[i].text !== names[i])) $(id).replaceChildren(...all.map((v, i) => new Option(names[i], v.key)));
		$(id).value = chosen?.key || '';
	}
	$('diff-from').onchange = $('diff-to').onchange = (e) => go({ tab, to: $('diff-to').value, from: e.target.id === 'diff-from' ? $('diff-from').value : '' }, true);
	for (const [id, by] of [['older', 1], ['newer', -1]]) {
		$(id).disabled = !all[index + by + (by > 0 && isDiff)];
		$(id).onclick = () => go({ tab, to: all[index + by].key, from: '' });
	}
	$('place').textContent = `${all.length - index} of ${all.length}${p.more ? '+' : ''}`;
}

const isImage = (v) => v.text == null && !v.gone && /^image\/(png|jpeg|gif)$/.test(v.mimeType || '') && v.size <= 4 << 20;

const renders = new Map(); // server, URI and digest → promise
function renderedOf(server, uri, d) {
	const of = [server, uri, d].join('\n'), known = renders.get(of) || get(api(server, '/content', { uri, digest: d, rendered: 1 }));
	known.catch(() => renders.delete(of));
	renders.set(of, known);
	if (renders.size > 4) renders.delete(renders.keys().next().value);
	return known;
}

let text = {}; // the text that is shown, and its element
function showText(tab, { to }) {
	const what = tab + key() + to.digest;
	if (text.what === what) return [text.out];
	const out = el('div', tab, note('loading…')), mine = text = { what, out };
	const { server, uri } = state, asked = tab === 'raw' ? textOf(server, uri, to.digest).then((t) => ({ text: t })) : renderedOf(server, uri, to.digest);
	asked.then((c) => {
		out.replaceChildren(...(c.rendered ? rendered(c.rendered) : [el('pre', '', shown(c.text || '(empty)'))]));
		mine.copy = c.text;
	}).catch((err) => { out.replaceChildren(unavailable(err)); text = {}; });
	return [out];
}

const unavailable = (err) => para(visible(err.status === 404 ? 'This text is no longer stored.' : reason(err)));

const showRendered = (p, c) => c.to ? showText('rendered', c) : showRaw(p, c);

function showRaw({ now }, c) {
	if (c.to) return showText('raw', c);
	if (!now || now.gone) return [note('No version with a text is stored.')];
	const about = `${visible(now.mimeType || 'unknown type')}, ${size(now.size)}`;
	if (!isImage(now)) return [para(`The content is not text, too large, or cannot be read: ${about}.`)];
	const url = api(state.server, '/image', { uri: state.uri, digest: now.digest || '' });
	const shownNow = $('detail-body').querySelector('img');
	if (shownNow?.getAttribute('src') === url) return [shownNow];
	const image = el('img');
	image.alt = visible(state.uri);
	image.onerror = () => image.replaceWith(para(`The image cannot be shown: ${about}.`));
	image.src = url;
	return [image];
}

let compared = {}; // the versions that are shown, and their difference
const isSplit = (whole) => !narrow.matches && (localStorage.getItem('mcptrack-split') || (whole ? 'yes' : '')) === 'yes';

// The difference is unified until somebody chooses, unless the whole text was rewritten.
function showDiff(p, { from, to }) {
	if (!to || !from) return [para('There is only one version with a stored text.'), note('The difference appears here when the content changes.')];
	const pair = [key(), from.key, to.key, narrow.matches, localStorage.getItem('mcptrack-split')].join();
	if (compared.pair === pair) return [compared.out]; // comparing long texts takes a while
	const out = el('div', 'diff', note('loading…')), mine = compared = { pair, out };
	Promise.all([textOf(state.server, state.uri, from.digest), textOf(state.server, state.uri, to.digest)]).then(([a, b]) => {
		const all = diff(a, b), whole = rewritten(a, b), split = mine.split = isSplit(whole);
		mine.copy = all.map((l) => (l.sign === '…' ? '@@ ' : l.sign) + l.text).join('\n') + '\n';
		out.classList.toggle('split', split);
		if (all.every((l) => l.sign === ' ')) out.replaceChildren(note(a === b ? 'The texts are equal.' : 'Only the newline at the end differs.'));
		else out.replaceChildren(...(whole ? [el('p', 'notice', whole)] : []), ...(split ? columns(all).map(([x, y]) => x?.sign === '…' ? diffLine(x) : el('div', '', ...[x, y].map((l) => l ? diffLine(l) : el('div', 'none')))) : all.map(diffLine)));
		$('split').ariaPressed = split;
	}).catch((err) => { out.replaceChildren(unavailable(err)); compared = {}; });
	return [out];
}

const kinds = { '+': 'add', '-': 'del', '…': 'skip' };
export function diffLine({ sign, text: t, number, parts }) {
	const code = el('span', 'code', ...(parts ? parts.map(([word, differs]) => differs ? el('mark', '', shown(word)) : shown(word)) : [shown(t)]));
	const gutter = el('span', 'gutter');
	gutter.dataset.number = number; // not text, so that it is not copied
	return el('div', kinds[sign] || '', gutter, el('span', 'sign', sign === '-' ? '−' : sign === ' ' ? '' : sign), code);
}

function showHistory(p) {
	if (!p.versions.length) return [para('No version of this resource is stored.'), note('Versions appear here when the content changes.')];
	const list = p.versions.slice(0, p.listed), all = p.versions.length.toLocaleString() + (p.more ? '+' : '');
	const table = el('table', 'history', el('tr', '', ...['Time', 'Change', 'Size', 'How', 'Digest'].map((t) => el('th', '', t))), ...list.map((v, i) => {
		const before = p.versions.slice(i + 1).find((w) => !w.removed), time = v.timestamp ? at(v.timestamp) : 'before the first change';
		const open = () => go({ tab: before?.text ? 'diff' : 'content', to: v.key, from: '' }, true);
		const row = [v.text ? button('link', time, open) : time, v.removed ? el('span', 'bad', 'removed') : v.text ? lineCounts(state.server, state.uri, before?.text && before.digest, v.digest, v.size) : el('span', 'quiet', 'text not stored'),
			v.size == null ? '' : size(v.size), causeWords(v.cause), v.digest ? digest(v.digest) : ''];
		const e = el('tr', v.text ? 'open' : '', ...row.map((cell) => el('td', '', cell)));
		if (v.text) e.onclick = (click) => { if (click.target.tagName !== 'BUTTON') open(); };
		return e;
	}));
	const older = p.listed < p.versions.length || p.more ? [button('', 'Show older', (e) => showOlder(p, e.target))] : [];
	return [table, el('div', 'bar', el('span', 'quiet', older.length ? `${list.length.toLocaleString()} of ${all} versions` : count(list.length, 'version')), ...older)];
}

async function showOlder(p, pressed) {
	const { server, uri } = state;
	pressed.disabled = true;
	try {
		if (p.listed >= p.versions.length) {
			const { versions, more } = await versionsOf(server, uri, p.versions.at(-1).id);
			p.versions.push(...versions);
			p.more = more && versions.length > 0;
		}
		p.listed += rows;
		go({});
	} catch (err) { pressed.replaceWith(el('span', 'bad', visible(reason(err)))); }
}

export const copyText = (tab) => (tab === 'diff' ? compared : text).copy;
