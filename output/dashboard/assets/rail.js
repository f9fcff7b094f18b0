// The rail: a tree of servers, what they offer by kind, and the folders of URIs. With one server there is only
// what it offers.
import { List } from './list.js';
import { $, note, para, button, count, cut, el, name, readable, visible } from './dom.js';
import { get, go, select, state } from './state.js';
import { badge, fits, narrow, stateWords, tone } from './words.js';

const maxNamed = 50, maxDepth = 12, few = 20; // servers in a request; folders in folders; things in a group that opens by itself
const kinds = ['tools', 'prompts', 'resources', 'templates', 'skills'];
export const natural = new Intl.Collator('en', { numeric: true }).compare; // 2 before 10
let servers = null; // null until they are loaded
const trees = new Map(); // server → nodes, which are items, or groups and folders with kids
const open = new Map(), failing = new Set(); // key → whether somebody opened or closed it

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

export const offersOf = (s) => kinds.filter((k) => s[k]).map((k) => count(s[k], k.slice(0, -1)));
const keyOf = (server, item = '', uri = '') => [server, item, uri].join('\n');
let at = {}; // the group or folder that was chosen, and what was selected then

const railList = new List($('rail-list'), {
	height: 28,
	fill(row, { server: s, node, level = 1, note: text, open: isOpen }) {
		const indent = el('span', 'indent');
		indent.style.width = (level - 1) * .9 + 'em';
		const start = [indent, el('span', 'twist', isOpen === undefined ? '' : isOpen ? '▾' : '▸')];
		if (text) row.replaceChildren(...start, name(text, 'note bad'));
		else if (node?.kids) row.replaceChildren(...start, cut(node.label, 'name', 10), el('span', 'quiet', node.n.toLocaleString()));
		else if (node) row.replaceChildren(...start, cut(node.label, 'name' + (node.gone ? ' gone' : ''), 10), node.more ? cut(node.more, 'quiet more') : '', node.gone ? el('span', 'fixed quiet', 'removed') : '');
		else {
			const offers = tone(s) === 'good' ? offersOf(s) : [];
			row.replaceChildren(...start, cut(s.id, 'name', 10),
				el('span', offers.length ? 'offers quiet' : 'spread', ...offers.map((o) => el('span', '', o))), offers.length ? '' : el('span', 'fixed ' + (tone(s) === 'good' ? 'quiet' : tone(s)), stateWords(s)), el('span', 'dot ' + tone(s)));
		}
		row.title = visible(text ? s.error || text : node ? [node.title, node.called].filter(Boolean).join(', ') : [s.id, stateWords(s), s.error || s.reason, ...offersOf(s)].filter(Boolean).join(', '));
	},
	pick(i) {
		at = i.folds ? { key: i.key, selected: selected() } : {};
		if (!i.folds) go(select({ server: i.server.id, uri: i.node?.uri || '', item: i.node?.item || '', tab: keepTab(i.node) }), true);
	},
	toggle(i) {
		if (i.open === undefined) { this.choose(i); return; }
		open.set(i.key, !i.open);
		if (!trees.has(i.server.id)) load([i.server.id]);
		showRail(true);
	},
});
const fit = () => railList.resize(narrow.matches ? 48 : 28);
narrow.addEventListener('change', fit);
fit();

export function collapseAll() {
	for (const key of [...open.keys(), ...railList.items.filter((i) => i.open).map((i) => i.key)]) open.set(key, false);
	showRail(true);
}
$('collapse-all').onclick = collapseAll;

const selected = () => keyOf(state.server, state.item, state.uri);
const keepTab = (node) => node && (node.uri ? state.uri : state.item && !state.uri) ? state.tab : '';

const segment = (uri) => uri.replace(/\/+$/, '').split('/').pop() || uri;
export const labelOf = (r) => r.label || r.name || segment(r.uri);

function folder(uri, label) {
	const end = uri.lastIndexOf('/') + 1, last = readable(uri.slice(end)).replaceAll('%20', ' ');
	return readable(last === label || last.replace(/\.[^.]*$/, '') === label ? uri.slice(0, end) : uri);
}

// prefixOf returns the folder that all items are in.
function prefixOf(list) {
	let common = list[0].key;
	for (const { key } of list) while (!key.startsWith(common)) common = common.slice(0, -1);
	return common.slice(0, common.lastIndexOf('/') + 1);
}

const byLabel = (a, b) => Boolean(b.kids) - Boolean(a.kids) || natural(a.label, b.label);

// arrange puts items into the folders of their URIs. What is alone in a folder stands in the folder above.
function arrange(leaf, id, list, prefix, depth = 0) {
	const folders = new Map();
	for (const i of list) {
		const dir = depth < maxDepth ? i.key.slice(prefix.length).split('/', 1)[0] : '', is = dir.length + prefix.length < i.key.length ? dir : '';
		if (folders.has(is)) folders.get(is).push(i);
		else folders.set(is, [i]);
	}
	return [...folders].flatMap(([dir, inside]) => {
		if (!dir || inside.length === 1) return inside.map((i) => leaf(i, prefix));
		const path = prefixOf(inside);
		return [{ key: [id, 'in', path, ''].join('\n'), label: readable(path.slice(prefix.length)), title: path, n: inside.length, kids: arrange(leaf, id, inside, path, depth + 1) }];
	}).sort(byLabel);
}

// treeOf returns the nodes of a server. A server with things of one kind has no groups.
function treeOf(id, lists) {
	const groups = kinds.filter((k) => lists[k]?.length).map((k) => {
		const flat = k === 'tools' || k === 'prompts', list = lists[k];
		const leaf = ({ key, name: called = '', gone }, prefix = '') => {
			const label = flat ? key : called || segment(key), more = flat ? '' : folder(key.slice(prefix.length), label);
			const [uri, item] = k === 'resources' ? [key, ''] : ['', k.slice(0, -1) + '/' + key];
			return { key: keyOf(id, item, uri), uri, item, label, more, called, gone, title: key, text: [key, called, gone && 'removed'].join(' ').toLowerCase() };
		};
		const kids = flat ? list.map((i) => leaf(i)).sort(byLabel) : arrange(leaf, id, list, list.length > 1 ? prefixOf(list) : '');
		const label = k[0].toUpperCase() + k.slice(1);
		return { key: [id, k].join('\n'), label, title: label, n: list.length, kids };
	});
	if (groups[0]?.n <= few) groups[0].first = true;
	return groups.length === 1 ? groups[0].kids : groups;
}

// load loads what the servers offer, or all servers if none is named.
async function load(ids) {
	try {
		const { servers: lists } = await get('/api/items', (ids.length <= maxNamed ? ids : []).map((id) => ['server', id]));
		for (const [id, l] of Object.entries(lists)) {
			const first = !trees.has(id);
			trees.set(id, treeOf(id, l));
			if (first && id === state.server && !state.following) reveal();
		}
	} catch { /* what is known is shown */ }
	showRail(ids.length === 1 && open.get(keyOf(ids[0]))); // somebody waits for these rows
}

export function setServers(list) {
	const known = new Set(servers?.map((s) => s.id)), now = new Set(list.map((s) => s.id)), first = !servers;
	servers = list;
	for (const id of trees.keys()) if (!now.has(id)) trees.delete(id);
	const fresh = list.filter((s) => !known.has(s.id)).map((s) => s.id);
	return first || fresh.length ? load(first ? [] : fresh) : undefined;
}

export function reload(ids) {
	const known = ids.filter((id) => trees.has(id));
	return known.length ? load(known) : undefined;
}

// reveal opens what the selection is in. It reports whether any of it was closed.
export function reveal() {
	if (!state.server) return false;
	const way = (nodes) => {
		for (const n of nodes) {
			if (n.key === selected()) return [];
			const inside = n.kids && way(n.kids);
			if (inside) return [n, ...inside];
		}
		return undefined;
	};
	if (servers?.some((s) => s.id === state.server) && !trees.has(state.server)) load([state.server]);
	const closed = [{ key: keyOf(state.server) }, ...(way(trees.get(state.server) || []) || [])].filter((n) => !open.get(n.key));
	for (const n of closed) open.set(n.key, true);
	return closed.length > 0;
}

export function link(text, to) {
	const b = button('link', '', () => go(select(to), true));
	b.append(name(text));
	return b;
}

export const serverOf = (id) => servers?.find((s) => s.id === id);
export const allServers = () => servers;

// homeTab is the tab at which a server's page opens: what it offers if that is no resources, unless it fails.
export const homeTab = (s) => s && tone(s) === 'good' && !s.resources && kinds.find((k) => s[k]) || '';

function* leaves(nodes) {
	for (const n of nodes) if (n.kids) yield* leaves(n.kids); else yield n;
}

export const resourceOf = (server, uri) => [...leaves(trees.get(server) || [])].find((n) => n.uri === uri);

// everything yields the servers and what they offer.
export function* everything() {
	for (const server of servers || []) {
		yield { server };
		for (const node of leaves(trees.get(server.id) || [])) yield { server, node };
	}
}

export function showRail(force = false) {
	if (!servers) return;
	const one = servers.length === 1 && servers[0], text = state.filter.trim().toLowerCase(), rows = [];
	if (one) $('rail-title').replaceChildren(Object.assign(link(one.id, { server: one.id }), { className: 'plain' }), ' ', badge(one));
	else $('rail-title').textContent = count(servers.length, 'server');
	// add adds rows for nodes: with a filter only for what matches, and what that is in.
	const add = (server, nodes, level, parent, filter) => {
		for (const node of nodes) {
			const row = { key: node.key, server, node, level, parent };
			if (!node.kids) {
				if (!filter || node.text.includes(filter)) rows.push(row);
				continue;
			}
			row.folds = true;
			row.open = Boolean(filter) || (open.get(node.key) ?? Boolean(node.first));
			rows.push(row);
			if (row.open) add(server, node.kids, level + 1, node.key, filter);
			if (rows.at(-1) === row && filter) rows.pop();
		}
	};
	const sorted = servers.map((s) => [isFailing(s) ? 0 : 1, s]).sort(([x, a], [y, b]) => x - y || natural(a.id, b.id));
	for (const [fine, s] of sorted) {
		const here = fits(text, s.id, s.state, stateWords(s), s.reason, s.error, s.transport, s.serverName), filter = here && !one ? '' : text;
		const key = keyOf(s.id), tree = trees.get(s.id), level = one ? 1 : 2, parent = one ? undefined : key;
		const row = { key, server: s, level: 1 }, begin = rows.length;
		if (tree ? tree.length : offersOf(s).length) row.open = Boolean(filter || open.get(key));
		if (!one) rows.push(row);
		if (!fine && remedy(s) && here) rows.push({ key: key + '\n', server: s, level, note: remedy(s), parent });
		const head = rows.length;
		if (one || row.open) add(s, tree || [], level, parent, filter);
		if (!here && rows.length === head) rows.length = begin;
	}
	$('collapse-all').disabled = !rows.some((r) => r.open);
	railList.set(rows, at.key && (state.following || at.selected === selected()) ? at.key : selected(), why(one), force);
}

// why says why there are no rows, and what to do.
function why(one) {
	if (state.filter) return [para('Nothing matches “', name(state.filter), '”.'), button('', 'Clear the filter', () => go({ filter: '' }))];
	if (!servers.length) return [para('No server is configured.'), note('Add servers to the config, which is read again when it changes, or run mcptrack init.')];
	if (one.state !== 'Ready') return [para(`The server is not ready (${stateWords(one)}). What it offers appears here when it is.`)];
	return [para('The server offers nothing: no tools, no prompts, and no resources that are followed.')];
}
