import { unpressed } from './dom.js';

// What the page shows is in the URL, so that it can be reloaded, shared and left with
// the back button. Members with their default value are left out.
const members = ['review', 'server', 'uri', 'item', 'event', 'tab', 'from', 'to', 'view', 'filter', 'efilter', 'range', 'after', 'before', 'drawer'];
const chosen = ['review', 'server', 'uri', 'item', 'event', 'tab', 'from', 'to']; // what a user selects

// state also has following: nothing is selected, so server and uri are those of the newest
// change, and not in the URL.
export const state = { following: false };
let changed = () => {};

function read() {
	const query = new URLSearchParams(location.search);
	for (const m of members) state[m] = query.get(m) || '';
	const seconds = /^\d{1,11}$/;
	if (!seconds.test(state.after) || !seconds.test(state.before)) state.after = state.before = '';
	if (!seconds.test(state.range)) state.range = '';
	if (!['rail', 'feed'].includes(state.view)) state.view = '';
	follows();
}

const follows = () => { state.following = !state.server && !state.event && !state.review; };

export function start(onChange) {
	changed = () => unpressed(start, onChange);
	read();
	addEventListener('popstate', () => { read(); changed(); });
}

// go changes members. With push, the back button leads to what was shown before.
export function go(patch, push = false) {
	Object.assign(state, patch);
	if (chosen.some((m) => m in patch)) follows();
	const query = new URLSearchParams(members.filter((m) => state[m] && !(state.following && chosen.includes(m))).map((m) => [m, state[m]]));
	const url = query.size ? '/?' + query : '/';
	if (url !== location.pathname + location.search) {
		if (push) history.pushState(null, '', url);
		else history.replaceState(null, '', url);
	}
	changed();
}

// show shows a resource because it has changed, not because somebody selected it.
export function show(server, uri) {
	Object.assign(state, select({ server, uri }), { view: state.view });
	changed();
}

export const select = (to) => ({ ...Object.fromEntries(chosen.map((m) => [m, ''])), view: '', ...to });

const patience = 30000; // ms until a request has failed

const failure = (message, status) => Object.assign(new Error(message), { status });
const silence = () => { throw failure('mcptrack does not respond', 0); };

// get reads JSON, and post sends it. A login that has expired leads to the login page. An error has
// the reason of the server and the HTTP status, which is 0 if there is no response.
export const get = (url, query) => request(query ? url + '?' + new URLSearchParams(query) : url);
export const post = (url, body, options) => request(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: typeof body === 'string' ? body : JSON.stringify(body), ...options });

async function request(url, options) {
	const response = await fetch(url, { signal: AbortSignal.timeout(patience), ...options }).catch(silence);
	if (response.status === 401) location.assign('/login?next=' + encodeURIComponent('/' + location.search));
	if (!response.ok) {
		const { error } = await response.json().catch(() => ({}));
		throw failure(error || `mcptrack responds with HTTP status ${response.status}`, response.status);
	}
	return response.json().catch(silence);
}

// reason says what failed: a request, or else the page itself.
export const reason = (err) => err.status === undefined ? `This page has an error, reload it: ${err.message}` : err.message;

export const api = (server, what, query) => `/api/servers/${encodeURIComponent(server)}${what}${query ? '?' + new URLSearchParams(query) : ''}`;
