// The page of a server: its state, timeline, log, tools and prompts.
import { restart } from './act.js';
import { $, para, ago, at, button, clock, count, el, facts, line, name, note, shown, size } from './dom.js';
import { api, get, go, state } from './state.js';
import { lineOf } from './item.js';
import { link, natural, offersOf, serverOf } from './rail.js';
import { badge, modes, summary } from './words.js';

let detail = null, timeline = [], log = null, missing = false;

export async function loadServer(changed) {
	const { server } = state;
	if (detail?.id !== server) { detail = log = null; timeline = []; missing = false; }
	try {
		const [d, h] = await Promise.all([get(api(server, '')), get('/api/history', { server, described: 1 }).catch(() => ({ events: [] }))]);
		if (server !== state.server) return;
		detail = d;
		timeline = h.events;
		missing = false;
		changed();
	} catch (err) { // tried again at the next event, or a minute later
		if (server !== state.server || err.status !== 404) return;
		missing = true;
		changed();
	}
}

let asking = false;
export async function loadLog(changed) {
	const { server } = state, shown = JSON.stringify(log);
	if (asking || !server || state.uri || state.event || !['', 'overview', 'log'].includes(state.tab) || document.hidden) return;
	asking = true;
	try {
		const next = await get(api(server, '/log'));
		if (server !== state.server) return;
		log = next;
		if (JSON.stringify(log) !== shown) changed();
	} catch { /* what is shown stays */ } finally { asking = false; }
}

export function serverTabs() {
	const s = serverOf(state.server) || detail || {};
	return [['overview', 'Overview'], ['timeline', 'Timeline'], ['log', 'Log'],
		...['tools', 'prompts', 'templates', 'skills'].filter((k) => s[k]).map((k) => [k, `${k[0].toUpperCase() + k.slice(1)} (${s[k]})`])];
}

export function showServer(tab, now) {
	$('detail-title').replaceChildren(name(state.server));
	if (missing && !now) {
		$('detail-meta').textContent = 'not configured';
		return [para('There is no server with this name. It was renamed or removed in the config, or the link is from another mcptrack.'),
			el('p', 'quiet', 'Select a server on the left, or follow the newest change.')];
	}
	const s = now || detail;
	$('detail-meta').replaceChildren(s ? line('', badge(s), s.since && el('span', '', 'since ', ago(s.since)), ...offersOf(s), count(s.updates, 'update'), count(s.failures, 'failure')) : 'loading…');
	if (!detail) return [];
	const what = tab.slice(0, -1); // of tabs that list items
	return ({ overview: () => showOverview({ ...detail, ...now }), timeline: showTimeline, log: showLog }[tab] || (() => showItems(what + 'List', tab, what)))();
}

function showOverview(s) {
	const last = log?.lines?.slice(-8);
	return [
		s.error && el('pre', 'bad', shown(s.error)),
		s.error && s.fix && el('p', 'notice', 'To fix: ', name(s.fix)),
		restart(s),
		facts([
			['Reason', s.reason], ['Failed attempts', s.attempt || ''], ['Next attempt', s.nextRetry && ago(s.nextRetry)],
			[s.transport === 'stdio' ? 'Command' : 'Address', s.start && name(s.start, 'mono')], ['Process', s.pid && line('', 'pid ' + s.pid, s.memoryBytes && size(s.memoryBytes) + ' with its children')],
			['Transport', s.transport], ['Protocol', s.protocolVersion],
			['Server', [s.serverName, s.serverVersion].filter(Boolean).join(' ')], ['Changes are', modes[s.mode] || s.mode], ['Followed by', s.followedBy],
			['Notifications', String(s.signals)], ['Updates', String(s.updates)], ['Failures', String(s.failures)],
		]),
		s.polled && el('details', '', el('summary', '', `${count(s.missing, 'resource')} polled because the server does not push their updates`), el('ul', '', ...s.polled.map((uri) => el('li', '', name(uri, 'mono'))))),
		last?.length && el('h3', '', 'Last log lines ', button('link', 'all', () => go({ tab: 'log' }, true))), last?.length && logLines(last),
	].filter(Boolean);
}

function showTimeline() {
	if (!timeline.length) return [para('No event about this server is stored.')];
	return [el('ol', 'history', ...timeline.map((e) => el('li', '',
		at(e.timestamp, 'quiet'), summary(e))))];
}

const levels = { stderr: 'quiet', WARN: 'warn', ERROR: 'bad' };

function showLog() {
	if (!log) return [para('loading…')];
	if (log.followedBy) return [para('Only the process that follows the server has its log: ', name(log.followedBy))];
	if (!log.lines.length) return [para('Nothing was logged about this server, and it wrote nothing to stderr.')];
	return [logLines(log.lines)];
}

const logLines = (lines) => el('pre', 'log', ...lines.map((l) => el('div', '', el('span', 'quiet', clock(l.timestamp)), ' ',
		el('span', levels[l.level] || '', l.level.padEnd(6)), ' ', name(l.text))));

function showItems(member, list, what) {
	const changes = timeline.filter((e) => e.type === list + '.list_changed' || e.type.startsWith(what + '.')).slice(0, 20);
	return [
		changes.length && el('details', '', el('summary', '', count(changes.length, 'change') + ', the last ', ago(changes[0].timestamp)),
			el('ol', 'history', ...changes.map((e) => el('li', '', at(e.timestamp, 'quiet'), ' ', summary(e))))),
		!detail[member].length && para(`The descriptors of the ${what}s are only available in the process that follows the server.`),
		el('dl', 'items', ...detail[member].map((item) => lineOf(what, item)).sort((a, b) => natural(a.label, b.label))
			.flatMap((i) => [el('dt', '', link(i.label, { server: state.server, item: i.item })), el('dd', '', name(i.text))])),
		detail[what + 's'] > detail[member].length && detail[member].length && note(`${count(detail[what + 's'] - detail[member].length, what)} more: the tree on the left has all of them.`),
	].filter(Boolean);
}
