import { loadCalls, showCalls, startCalls } from './calls.js';
import { draw as drawChart, interval, loadChart, showFilter } from './chart.js';
import { learnActions } from './act.js';
import { $, para, ago, button, clipboard, clock, el, line, name, place, refreshTimes, visible } from './dom.js';
import { startDrawer } from './drawer.js';
import { addEvents, eventOf, eventPage, setOneServer, showFeed, startFeed, updatesPerMinute } from './feed.js';
import { itemTabs, loadItem, loadItemCalls, showItem } from './item.js';
import { startKeys } from './keys.js';
import { arrived, isRead, showNewest, startNewest } from './newest.js';
import { allServers, homeTab, link, reload, reveal, serverOf, setServers, showRail } from './rail.js';
import { copyText, loadResource, resourceTabs, showResource } from './resource.js';
import { loadLog, loadServer, serverTabs, showServer } from './server.js';
import { loadReview, showReview, whenDecided } from './review.js';
import { get, go, reason, select, show, start, state } from './state.js';
import { follow } from './stream.js';
import { whenCounted } from './texts.js';
import { toast } from './toasts.js';
import { showWebhooks } from './webhooks.js';
import { learnWords, narrow, said } from './words.js';

let shownPage = null, drawing = false, looking = false, again = false, tab = '';
const touched = new Set(); // servers with news since their resources were loaded

async function loadServers() {
	try {
		const [status, list] = await Promise.all([get('/api/status'), get('/api/servers')]);
		learnWords(status);
		learnActions(status);
		setOneServer(list.length === 1);
		showTiles(status);
		$('version').textContent = 'mcptrack ' + status.version;
		$('logout').hidden = !status.login;
		$('open-calls').hidden = !status.calls;
		showWebhooks(status);
		const first = allServers() === null;
		const loaded = setServers(list);
		showRail();
		if (first) { drawSoon(); await loaded; showNewest(); }
		if (!state.uri) showDetail();
	} catch (err) { $('tiles').replaceChildren(el('li', 'bad', visible(reason(err)))); }
}

let waiting; // changes to review
function showTiles({ states = {}, servers, resources, tools = 0, unstored, undecided }) {
	const tile = (n, what, mood) => el('li', mood, el('b', '', n.toLocaleString()), ' ' + what), things = (n, what) => n ? [tile(n, what + (n === 1 ? '' : 's'))] : [];
	const ready = states.Ready || 0, wanted = servers - (states.Disabled || 0);
	$('tiles').replaceChildren(tile(ready, `of ${wanted.toLocaleString()} ready`, ready < wanted ? 'bad' : ''), ...(unstored ? [el('li', 'bad', 'events are not stored')] : []), ...things(tools, 'tool'), ...things(resources, 'resource'), tile(updatesPerMinute(), 'updates/min'));
	if (unstored) $('tiles').children[1].title = unstored;
	$('review').hidden = undecided === undefined;
	if (undecided === waiting) return;
	waiting = undecided;
	$('review').replaceChildren(el('b', undecided ? 'warn' : '', undecided || 'None'), ' to review');
	if (state.review) reloadDetail();
}

function showDetail() {
	let tabs = [], body = [];
	tab = '';
	$('compare').hidden = true;
	$('detail-title').title = '';
	$('follow').ariaPressed = state.following;
	$('follow').textContent = state.following ? 'Following newest' : 'Follow newest';
	const event = state.event && eventOf(state.event);
	if (state.review) body = showReview();
	else if (state.event && !event) {
		$('detail-title').textContent = 'Event';
		$('detail-meta').replaceChildren(line('', state.event));
		body = [para('This event is not among the newest ones.'), el('p', 'quiet', 'Older events: mcptrack watch --since, or the history of a resource.')];
	} else if (event) {
		$('detail-title').replaceChildren('Event: ', name(said(event).verb));
		$('detail-meta').replaceChildren(line('', event.type, event.id, ago(event.timestamp), event.serverId && link(event.serverId, { server: event.serverId }),
			event.resourceUri && link(event.resourceUri, { server: event.serverId, uri: event.resourceUri })));
		body = [eventPage(event)];
	} else if (state.server) {
		const now = serverOf(state.server);
		tabs = state.uri ? resourceTabs() : state.item ? itemTabs() : serverTabs();
		tab = [state.tab, state.uri || state.item ? '' : homeTab(now)].find((t) => tabs.some(([known]) => known === t)) || tabs[0][0];
		body = state.uri ? showResource(tab) : state.item ? showItem(tab) : showServer(tab, now);
	} else body = welcome();
	showTabs(tabs, tab);
	const root = $('detail-body'), page = [state.review, state.server, state.uri, state.item, tab, state.event, state.to].join('\n');
	const opened = page === shownPage ? [...root.querySelectorAll('details[open] > summary')].map((s) => s.textContent) : [];
	const { scrollTop } = root, atEnd = tab === 'log' && (page !== shownPage || root.scrollHeight - scrollTop - root.clientHeight < 8);
	place(root, body); // a selection of text in it stays, and the focus
	for (const s of root.querySelectorAll('details > summary')) if (opened.includes(s.textContent)) s.parentElement.open = true;
	if (atEnd) root.scrollTop = root.scrollHeight; // the newest line stays in view
	else root.scrollTop = page === shownPage ? scrollTop : 0;
	shownPage = page;
}

function welcome() {
	$('detail-title').textContent = 'Newest change';
	const servers = allServers();
	$('detail-meta').textContent = servers ? 'none in the last 15 minutes' : 'loading…';
	if (!servers) return [];
	return [para(servers.length ? 'Nothing has changed yet. The next change of a resource appears here.' : 'No server is configured yet. Add one to the config, or run mcptrack init.')];
}

function showTabs(tabs, chosen) {
	const root = $('tabs');
	root.hidden = !tabs.length;
	$('detail-tools').hidden = !tabs.length;
	if ([...root.children].map((b) => b.textContent).join('\n') !== tabs.map(([, text]) => text).join('\n')) {
		root.replaceChildren(...tabs.map(([t, text]) => {
			const b = button('', text, () => go({ tab: t }, true));
			b.id = 'tab-' + t;
			b.role = 'tab';
			b.setAttribute('aria-controls', 'detail-body');
			return b;
		}));
	}
	for (const b of root.children) b.ariaSelected = b.id === 'tab-' + chosen;
}

let shownFilter = '', shownSpan = '', shownSelection = '';
function render() {
	document.body.dataset.view = state.view || 'detail';
	for (const b of document.querySelectorAll('nav button')) b.ariaPressed = b.dataset.view === document.body.dataset.view;
	for (const [id, member] of inputs) if ($(id).value !== state[member]) $(id).value = state[member];
	const selection = state.following ? '' : state.server + '\n' + state.uri;
	const opened = selection !== shownSelection && selection && reveal();
	shownSelection = selection;
	const asked = state.filter + '\n' + state.efilter, force = asked !== shownFilter || opened;
	shownFilter = asked;
	const span = state.after + '-' + state.before;
	if (span !== shownSpan && state.after) loadSpan();
	const moved = force || span !== shownSpan;
	shownSpan = span;
	showRail(force);
	showFeed(moved);
	showCalls(force);
	showFilter();
	showDetail();
	loadDetail();
	loadLog(showDetail);
	showNewest();
}

async function loadSpan() {
	try {
		addEvents((await get('/api/history', { after: state.after, before: state.before, limit: 500, described: 1 })).events, true);
		showFeed(true);
	} catch { /* what is known is shown */ }
}

// loadDetail loads what is shown if it is new. reloadDetail loads it again, once at a time.
const selection = () => [state.review, state.server, state.uri, state.item].join('\n');
let loaded = '', reloading = false, stale = false;
function loadDetail() {
	const what = selection();
	if (!state.server && !state.review || loaded === what) return undefined;
	loaded = what;
	if (state.review) return loadReview(showDetail);
	if (state.uri) return loadResource(state.server, state.uri).then((done) => { done(); showDetail(); });
	return state.item ? loadItem(showDetail) : loadServer(showDetail);
}

// showLoaded shows a resource that has been loaded because it has changed.
function showLoaded(server, uri) {
	const first = !state.server;
	if (!state.following) { showDetail(); return; }
	loaded = ['', server, uri, ''].join('\n');
	show(server, uri);
	if (first) { reveal(); showRail(); }
}

async function reloadDetail() {
	stale = true;
	if (reloading) return;
	reloading = true;
	try {
		while (stale) {
			stale = false;
			loaded = '';
			await loadDetail();
		}
	} finally { reloading = false; }
}

const inputs = [['rail-filter', 'filter'], ['feed-filter', 'efilter'], ['chart-range', 'range']];
for (const [id, member] of inputs) {
	$(id).oninput = () => {
		go({ [member]: $(id).value });
		if (id === 'chart-range') loadChart().then(drawChart);
	};
}
for (const b of document.querySelectorAll('nav button')) b.onclick = () => go({ view: b.dataset.view }, true);
$('follow').onclick = () => {
	$('detail-body').scrollTop = 0;
	go(state.following ? { server: state.server, uri: state.uri } : select({}), true);
};
$('review').onclick = () => go(select({ review: '1' }), true);
$('copy').onclick = () => clipboard($('copy'), copyText(tab), $('detail-body'));

startFeed();
startDrawer();
startCalls();
startKeys();
startNewest(showLoaded);
narrow.addEventListener('change', showDetail);
whenDecided(() => { reloadDetail(); look(); });
whenCounted(() => { counted = true; drawSoon(); });
let counted = false;
start(render);

// drawSoon draws what came in: a flood is drawn five times a second.
function drawSoon() {
	if (!drawing) { drawing = true; setTimeout(draw, 200); }
}

follow((e) => {
	addEvents([e]);
	if (e.serverId) touched.add(e.serverId);
	drawSoon();
	look();
	arrived(e);
	if (state.review ? e.type === 'lock.drift' : e.serverId === state.server && (state.uri ? state.to && e.resourceUri === state.uri : !e.resourceUri)) outdated = true;
}, (status) => {
	$('link').textContent = status;
	$('link').className = 'badge ' + (status === 'live' ? 'good' : 'bad');
	document.body.classList.toggle('offline', status !== 'live');
	if (status !== 'live') gone();
	else if (away) {
		away.remove();
		away = null;
		if (!state.uri || !isRead()) reloadDetail();
		loadChart();
	}
	if (status === 'live') look();
});
let away = null; // the message that mcptrack is gone
function gone() {
	away ||= toast(`No connection to mcptrack since ${clock(new Date().toISOString())}. What is shown is from then; it continues as soon as mcptrack is back.`);
}
let outdated = false; // what is shown is older than the newest event about it
function draw() {
	drawing = false;
	showFeed();
	showNewest();
	if (counted && tab === 'history') showDetail();
	counted = false;
	if (outdated) { outdated = false; reloadDetail(); }
}

// look asks for the current lists after something happened, once at a time and not too often.
async function look() {
	again = true;
	if (looking) return;
	looking = true;
	for (let wait = 200; again; ) {
		await new Promise((done) => setTimeout(done, wait));
		again = false;
		const began = performance.now(), news = [...touched];
		touched.clear();
		await Promise.all([loadServers(), reload(news)]);
		wait = Math.min(Math.max(200, 10 * (performance.now() - began)), 5000);
	}
	looking = false;
}

setInterval(loadServers, 5000);
setInterval(() => loadLog(showDetail), 2000);
setInterval(() => loadItemCalls(showDetail), 5000);
setInterval(refreshTimes, 5000);
setInterval(() => { if (!state.uri || !isRead()) reloadDetail(); }, 60000);
(function chart() { loadChart().then(() => setTimeout(chart, interval())); })();
addEventListener('load', drawChart);
get('/api/history?limit=500&described=1').then(({ events }) => { addEvents(events, true); showFeed(); showNewest(); if (state.event) showDetail(); }, () => { /* the feed begins now */ });
render();
loadCalls();
loadServers();
