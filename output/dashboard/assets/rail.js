// The rail: servers as a tree with their resources. With one server there are only its resources.
import { List } from './list.js';
import { $, note, para, button, count, cut, el, name, readable, visible } from './dom.js';
import { api, get, go, select, state } from './state.js';
import { badge, fits, narrow, stateWords, tone } from './words.js';

const maxLoaded = 30; // servers whose resources are loaded before somebody opens them
let servers = null; // null until they are loaded
const resources = new Map(); // server → {list, prefix}
const open = new Set(), failing = new Set(), loading = new Map();

// isFailing reports whether a server has failed since it was last ready: one that connects once
// more is still failing.
function isFailing(s) {
	if (tone(s) === 'bad' || s.state === 'Connecting' && s.attempt) failing.add(s.id);
	else if (!['Connecting', 'Pending'].includes(s.state)) failing.delete(s.id);
	return failing.has(s.id);
}

// remedy is the part of an error that says what to do, or else all of it.
function remedy(s) {
	const at = s.state === 'NeedsAuth' ? (s.error || '').lastIndexOf('run mcptrack login ') : -1;
	return at >= 0 ? s.error.slice(at) : s.error || s.reason || '';
}

const railList = new List($('rail-list'), {
	height: 28,
	fill(row, i) {
		const indent = 'indent' + (i.level || 1);
		if (i.note) {
			row.replaceChildren(el('span', indent), name(i.note, 'note bad'));
			row.title = visible(i.server.error || i.note);
		} else if (i.resource) {
			const r = i.resource, label = labelOf(r), rest = folder(i.rest, label);
			row.replaceChildren(el('span', indent), name(label, 'name' + (r.gone ? ' gone' : '')), rest ? cut(rest, 'quiet mono') : '', r.gone ? el('span', 'quiet', 'removed') : '');
			row.title = visible(r.uri);
		} else {
			const s = i.server;
			row.replaceChildren(el('span', 'twist', i.open ? '▾' : '▸'), name(s.id, 'name'), el('span', 'spread'),
				el('span', tone(s) === 'good' ? 'quiet' : tone(s), stateWords(s)), el('span', 'dot ' + tone(s), ''));
			row.title = visible([s.id, stateWords(s), s.error || s.reason, count(s.resources, 'resource')].filter(Boolean).join(', '));
		}
	},
	pick(i) { go(select({ server: i.server.id, uri: i.resource?.uri || '', tab: keepTab(i) }), true); },
	toggle(i) {
		if (i.open === undefined) { this.choose(i); return; }
		if (i.open) open.delete(i.server.id);
		else open.add(i.server.id);
		loadResources(i.server.id);
		showRail(true);
	},
});
const fit = () => railList.resize(narrow.matches ? 48 : 28);
narrow.addEventListener('change', fit);
fit();

const keepTab = (i) => i.resource && ['diff', 'content', 'rendered', 'history'].includes(state.tab) ? state.tab : '';

const segment = (uri) => uri.replace(/\/+$/, '').split('/').pop() || uri;
export const labelOf = (r) => r.name || segment(r.uri);

function folder(uri, label) {
	const at = uri.lastIndexOf('/') + 1, last = readable(uri.slice(at)).replaceAll('%20', ' ');
	return readable(last === label || last.replace(/\.[^.]*$/, '') === label ? uri.slice(0, at) : uri);
}

function prefixOf(list) {
	if (list.length < 2) return '';
	let common = list[0].uri;
	for (const { uri } of list) while (!uri.startsWith(common)) common = common.slice(0, -1);
	return common.slice(0, common.lastIndexOf('/') + 1);
}

// loadResources loads the resources of a server; once at a time.
export async function loadResources(server) {
	if (!server || loading.has(server)) return loading.get(server);
	const first = !resources.has(server);
	const request = get(api(server, '/resources')).then((list) => {
		resources.set(server, { list, prefix: prefixOf(list) });
	}, (err) => { if (err.status === 404) resources.delete(server); }).finally(() => loading.delete(server));
	loading.set(server, request);
	await request;
	showRail(first && open.has(server)); // somebody waits for these rows
}

export function setServers(list) {
	servers = list;
	if (!list.some((s) => s.id === state.server)) open.delete(state.server);
	return Promise.all(list.filter((s) => !resources.has(s.id) && (list.length <= maxLoaded || open.has(s.id) || s.id === state.server)).map((s) => loadResources(s.id)));
}

export const reload = (ids) => Promise.all([...ids].filter((id) => resources.has(id)).map(loadResources));

// reveal opens the server that is selected. It reports whether it was closed.
export function reveal() {
	if (!state.server || open.has(state.server)) return false;
	open.add(state.server);
	if (servers?.some((s) => s.id === state.server)) loadResources(state.server);
	return true;
}

export function link(text, to) {
	const b = button('link', '', () => go(select(to), true));
	b.append(name(text));
	return b;
}

export const serverOf = (id) => servers?.find((s) => s.id === id);
export const allServers = () => servers;

export const resourceOf = (server, uri) => resources.get(server)?.list.find((r) => r.uri === uri);
export const everything = () => (servers || []).flatMap((s) => [{ server: s }, ...(resources.get(s.id)?.list || []).map((resource) => ({ server: s, resource }))]);

export function showRail(force = false) {
	if (!servers) return;
	const one = servers.length === 1 && servers[0];
	if (one) $('rail-title').replaceChildren(...railTitle(one));
	else $('rail-title').textContent = count(servers.length, 'server');
	const rows = [];
	const sorted = servers.map((s) => [isFailing(s) ? 0 : 1, s]).sort(([x, a], [y, b]) => x - y || (a.id < b.id ? -1 : 1));
	for (const [fine, s] of sorted) {
		const here = fits(state.filter, s.id, s.state, stateWords(s), s.reason, s.error, s.transport, s.serverName);
		const loaded = resources.get(s.id), prefix = loaded?.prefix || '';
		const shown = (loaded?.list || []).filter((r) => here && !one || fits(state.filter, r.uri, r.name, r.mimeType, r.gone ? 'removed' : ''));
		const found = Boolean(state.filter) && !here && shown.length > 0;
		if (!here && !found) continue;
		const expanded = one || found || open.has(s.id);
		const key = s.id + '\n', level = one ? 1 : 2;
		if (!one) rows.push({ key, server: s, level: 1, open: Boolean(expanded) });
		if (!fine && remedy(s)) rows.push({ key: key + '\n', server: s, level, note: remedy(s), parent: one ? undefined : key });
		if (expanded) for (const r of shown) rows.push({ key: key + r.uri, server: s, resource: r, level, rest: r.uri.slice(prefix.length), parent: one ? undefined : key });
	}
	railList.set(rows, state.server + '\n' + state.uri, why(one), force);
}

function railTitle(s) {
	const title = link(s.id, { server: s.id });
	title.className = 'plain';
	return [title, ' ', badge(s)];
}

// why says why there are no rows, and what to do.
function why(one) {
	if (state.filter) return [para('Nothing matches “', name(state.filter), '”.'), button('', 'Clear the filter', () => go({ filter: '' }))];
	if (!servers.length) return [para('No server is configured.'), note('Add servers to the config, which is read again when it changes, or run mcptrack init.')];
	if (one.state !== 'Ready') return [para(`The server is not ready (${stateWords(one)}). Its resources appear here when it is.`)];
	return [para('The server offers no resources that are followed.'), note('Its tools and prompts are on the page of the server.')];
}
