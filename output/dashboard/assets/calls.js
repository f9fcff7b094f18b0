// The calls of tools that clients made, beside the feed: the last ones, and what they took by tool.
import { List } from './list.js';
import { $, at, el, name, note, para, size, visible } from './dom.js';
import { link } from './rail.js';
import { get, go, reason, select, state } from './state.js';
import { fits, narrow } from './words.js';

const maxCalls = 200;
export const outcomes = { ok: ['ok', 'good'], toolError: ['tool error', 'warn'], error: ['error', 'bad'] };
let calls = [], missing = 'loading…'; // newest first; why there are none

const list = new List($('calls-list'), {
	height: 26,
	fill(row, { call: c }) {
		const [what, mood] = outcomes[c.outcome] || [c.outcome, ''];
		row.replaceChildren(at(c.time, 'quiet'), name(c.serverId, 'server'), name(c.tool, 'mono'), el('span', 'verb ' + mood, what), el('span', 'count', ms(c.ms)), name(c.client, 'quiet client'));
		row.title = visible([c.serverId, c.tool, what + (c.code ? ' ' + c.code : ''), size(c.bytes), c.client && c.client + ' in session ' + c.session].filter(Boolean).join(', '));
	},
	pick({ call: c }) { if (c.serverId) go(select({ server: c.serverId, item: 'tool/' + c.tool, tab: 'calls' }), true); },
});

export const ms = (n) => n < 10 ? n.toFixed(1) + ' ms' : n < 1000 ? Math.round(n) + ' ms' : (n / 1000).toFixed(1) + ' s';

function showTools(tools) {
	const head = el('tr', '', ...['Tool', 'Calls', 'p50', 'p95', 'Errors'].map((h) => el('th', '', h)));
	const rows = tools.map((t) => {
		const wrong = t.errors + t.toolErrors, cell = el('td', wrong ? 'bad' : 'quiet', wrong.toLocaleString());
		cell.title = `${t.toolErrors} answered with an error, ${t.errors} without a result`;
		return el('tr', '', el('td', '', name(t.serverId, 'server'), t.serverId && ' ', t.serverId ? link(t.tool, { server: t.serverId, item: 'tool/' + t.tool, tab: 'calls' }) : name(t.tool)), el('td', '', t.calls.toLocaleString()), el('td', '', ms(t.p50Ms)), el('td', '', ms(t.p95Ms)), cell);
	});
	$('calls-tools').replaceChildren(...(rows.length ? [el('table', '', head, ...rows)] : []));
}

// loadCalls asks for the calls while they are shown.
export async function loadCalls() {
	if (state.drawer !== 'calls') return;
	try {
		const found = await get('/api/calls', { tools: 1, newest: maxCalls });
		calls = found.calls.reverse();
		missing = calls.length ? '' : 'No client has called a tool yet, through the daemon or a gateway of this machine.';
		showTools(found.tools || []);
	} catch (err) { missing = reason(err); }
	showCalls();
}

// showCalls shows the calls in place of the feed, or the feed.
export function showCalls(force = false) {
	const on = state.drawer === 'calls';
	$('feed').classList.toggle('with-calls', on);
	$('open-calls').ariaPressed = on;
	$('pause').hidden = on;
	if (!on) return;
	list.resize(narrow.matches ? 48 : 26);
	const rows = calls.filter((c) => fits(state.efilter, c.serverId, c.tool, c.client, outcomes[c.outcome]?.[0])).map((call) => ({ key: String(call.id), call }));
	list.set(rows, undefined, [missing ? note(missing) : para('No call matches “', name(state.efilter), '”.')], force);
}

export function startCalls() {
	$('open-calls').onclick = () => { go({ drawer: state.drawer ? '' : 'calls' }); loadCalls(); };
	setInterval(loadCalls, 2000);
}
