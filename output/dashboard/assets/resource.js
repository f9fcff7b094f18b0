// The page of a resource: the change from one version to the next, a version, the history.
import { diff } from './diff.js';
import { $, note, para, ago, at, button, clock, digest, el, line, name, rendered, shortDigest, shown, size, visible } from './dom.js';
import { labelOf, link } from './rail.js';
import { eventOf, isChange } from './feed.js';
import { api, get, go, reason, state } from './state.js';
import { keep, lineCounts, textOf } from './texts.js';
import { causeWords } from './words.js';

const maxResources = 50, maxVersions = 500;
const pages = new Map(); // server and URI → {now, versions, more, error}, the newest last

const key = () => state.server + '\n' + state.uri;

function page() {
	const p = pages.get(key()) || { now: null, versions: [], more: false, error: '' };
	pages.delete(key());
	pages.set(key(), p);
	if (pages.size > maxResources) pages.delete(pages.keys().next().value);
	return p;
}

// loadResource asks for the current content and the versions. What is shown stays on a failure.
export async function loadResource(changed) {
	const here = key(), p = page(), { server, uri } = state;
	const [now, log] = await Promise.allSettled([get(api(server, '/content', { uri })), get('/api/history', { server, uri, limit: maxVersions })]);
	const { versions = [], more } = log.value || {};
	p.error = '';
	p.failed = '';
	if (now.status === 'fulfilled') {
		p.now = now.value;
		if (p.now.text != null) keep(p.now.digest, p.now.text);
		const same = versions.find((v) => v.digest === p.now.digest);
		if (same) same.text ||= p.now.text != null;
		// What is there now has no event if it did not change since the server is followed.
		else if (!p.now.gone) versions.unshift({ digest: p.now.digest || '', mimeType: p.now.mimeType, size: p.now.size, text: p.now.text != null, timestamp: p.now.changed });
	} else if (now.reason.status === 404) {
		p.now = null;
		p.error = now.reason.message;
	} else if (!p.now) p.failed = reason(now.reason);
	for (const v of versions) v.key = v.id || v.digest || 'now';
	if (log.status === 'fulfilled' || !p.versions.length) Object.assign(p, { versions, more });
	if (here === key()) changed();
}

const isMarkdown = (p) => /markdown/.test(p.now?.mimeType || p.versions[0]?.mimeType || '') || /\.(md|markdown)$/i.test(state.uri);

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
	$('detail-title').replaceChildren(name(now ? labelOf(now) : state.uri));
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
	$('diff-from').hidden = $('diff-arrow').hidden = !isDiff || !from;
	for (const [id, chosen] of [['diff-from', from], ['diff-to', to]]) {
		const { options } = $(id); // kept if they are the same, as one of them may be open
		if (options.length !== all.length || all.some((v, i) => options[i].value !== v.key || options[i].text !== names[i])) $(id).replaceChildren(...all.map((v, i) => new Option(names[i], v.key)));
		$(id).value = chosen?.key || '';
	}
	$('diff-from').onchange = $('diff-to').onchange = (e) => go({ tab, to: $('diff-to').value, from: e.target.id === 'diff-from' ? $('diff-from').value : '' }, true);
	const last = all.length - (isDiff ? 2 : 1);
	$('older').disabled = index >= last;
	$('newer').disabled = index === 0;
	$('older').onclick = () => go({ tab, to: all[index + 1].key, from: '' });
	$('newer').onclick = () => go({ tab, to: all[index - 1].key, from: '' });
	$('place').textContent = `${all.length - index} of ${all.length}${p.more ? '+' : ''}`;
}

const isImage = (v) => v.text == null && !v.gone && /^image\/(png|jpeg|gif)$/.test(v.mimeType || '') && v.size <= 4 << 20;

let text = {}; // the text that is shown, and its element
function showText(tab, { to }) {
	const what = tab + key() + to.digest;
	if (text.what === what) return [text.out];
	const out = el('div', tab, note('loading…')), mine = text = { what, out };
	get(api(state.server, '/content', { uri: state.uri, digest: to.digest, ...(tab === 'rendered' && { rendered: 1 }) })).then((c) => {
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
function showDiff(p, { from, to }) {
	if (!to || !from) return [para('There is only one version with a stored text.'), note('The difference appears here when the content changes.')];
	const pair = key() + from.key + to.key;
	if (compared.pair === pair) return [compared.out]; // comparing long texts takes a while
	const out = el('div', 'diff', note('loading…')), mine = compared = { pair, out };
	Promise.all([textOf(state.server, state.uri, from.digest), textOf(state.server, state.uri, to.digest)]).then(([a, b]) => {
		const all = diff(a, b);
		mine.copy = all.map((l) => (l.sign === '…' ? '@@ ' : l.sign) + l.text).join('\n') + '\n';
		out.replaceChildren(...(all.some((l) => l.sign !== ' ') ? all.map(diffLine)
			: [note(a === b ? 'The texts are equal.' : 'Only the newline at the end differs.')]));
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
	return [el('ol', 'history', ...p.versions.map((v, i) => {
		const before = p.versions.slice(i + 1).find((w) => !w.removed);
		const what = [v.timestamp ? at(v.timestamp, 'quiet') : el('span', 'quiet', 'before the first change'),
			el('span', 'lines', v.removed ? el('span', 'bad', 'removed') : lineCounts(state.server, state.uri, before?.text && before.digest, v.text && v.digest, v.size)),
			el('span', 'size', v.size == null ? '' : size(v.size)), el('span', 'how', causeWords(v.cause)), v.digest ? digest(v.digest) : ''];
		if (!v.text) return el('li', '', ...what, el('span', 'quiet', v.removed ? '' : 'text not stored'));
		const open = button('row-button', '', () => go({ tab: before?.text ? 'diff' : 'content', to: v.key, from: '' }, true));
		open.append(...what);
		return el('li', '', open);
	})), ...(p.more ? [note('Older versions: mcptrack history.')] : [])];
}

export const copyText = (tab) => (tab === 'diff' ? compared : text).copy;
