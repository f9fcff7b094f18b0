import { draw as drawCharts, interval, loadCharts } from './chart.js';
import { count, element, line, name, ago, refreshTimes } from './dom.js';
import { addEvents, eventOf, eventPage, showFeed, startFeed } from './feed.js';
import { follow } from './stream.js';
import { showResources, showServers } from './lists.js';
import { loadResource, resourceTabs, showResource } from './resource.js';
import { loadLog, loadServer, serverTabs, showServer } from './server.js';
import { showWebhooks } from './webhooks.js';
import { api, get, go, start, state } from './state.js';

const $ = (id) => document.getElementById(id);
let servers = [], resources = [];
let shownServer = '', shownPage = null, drawing = false, looking = false, again = false;

async function loadServers() {
  try {
    const [status, list] = await Promise.all([get('/api/status'), get('/api/servers')]);
    servers = list;
    const states = Object.entries(status.states).map(([s, n]) => n + ' ' + s).join(', ');
    $('summary').textContent = `${count(status.servers, 'server')} (${states || 'none'}), ${count(status.resources, 'resource')}, ${count(status.updates, 'update')}, ${count(status.clients, 'client')} — mcptrack ${status.version}`;
    $('logout').hidden = !status.login;
    $('charts').hidden = $('chart-tools').hidden = !status.history;
    showWebhooks(status);
    const rows = showServers(servers);
    if (!state.server && rows.length) go({ server: rows[0].id });
    else if (!state.uri) showDetail();
  } catch { $('summary').textContent = 'mcptrack does not respond'; }
}

async function loadResources() {
  const { server } = state;
  if (!server) return;
  try {
    const list = await get(api(server, '/resources'));
    if (server === state.server) { resources = list; showResources(resources); }
  } catch { /* the list that is shown stays */ }
}

// showDetail shows the chosen event, resource or server.
function showDetail() {
  let tabs = [], tab = '', body = [];
  $('compare').hidden = true;
  const event = state.event && eventOf(state.event);
  if (state.event && !event) {
    $('detail-title').textContent = 'Event';
    $('detail-meta').replaceChildren(line('', state.event, 'not among the newest events'));
  } else if (event) {
    $('detail-title').replaceChildren('Event ', name(event.type));
    $('detail-meta').replaceChildren(line('', event.id, ago(event.timestamp), event.serverId && link(event.serverId, { server: event.serverId, uri: '' }),
      event.resourceUri && link(event.resourceUri, { server: event.serverId, uri: event.resourceUri })));
    body = [eventPage(event)];
  } else if (state.server) {
    tabs = state.uri ? resourceTabs : serverTabs();
    tab = tabs.some(([t]) => t === state.tab) ? state.tab : tabs[0][0];
    body = state.uri ? showResource(tab) : showServer(tab, servers.find((s) => s.id === state.server));
  }
  showTabs(tabs, tab);
  const root = $('detail-body'), page = [state.server, state.uri, tab, state.event].join('\n');
  const open = page === shownPage ? [...root.querySelectorAll('details[open] > summary')].map((s) => s.textContent) : [];
  const { scrollTop } = root, atEnd = tab === 'log' && (page !== shownPage || root.scrollHeight - scrollTop - root.clientHeight < 8);
  root.replaceChildren(...body);
  for (const s of root.querySelectorAll('details > summary')) if (open.includes(s.textContent)) s.parentElement.open = true;
  if (atEnd) root.scrollTop = root.scrollHeight; // the newest line stays in view
  else root.scrollTop = page === shownPage ? scrollTop : 0;
  shownPage = page;
}

function link(text, to) {
  const button = element('button', 'link', name(text));
  button.type = 'button';
  button.onclick = () => go({ event: '', tab: '', from: '', to: '', ...to }, true);
  return button;
}

function showTabs(tabs, chosen) {
  const root = $('tabs');
  root.hidden = !tabs.length;
  if ([...root.children].map((b) => b.textContent).join('\n') !== tabs.map(([, text]) => text).join('\n')) {
    root.replaceChildren(...tabs.map(([tab, text]) => {
      const button = element('button', '', text);
      button.type = 'button';
      button.id = 'tab-' + tab;
      button.setAttribute('role', 'tab');
      button.setAttribute('aria-controls', 'detail-body');
      button.onclick = () => go({ tab, from: '', to: '' }, true);
      return button;
    }));
  }
  for (const b of root.children) b.setAttribute('aria-selected', String(b.id === 'tab-' + chosen));
}

// render shows the state after a change of it.
function render() {
  document.body.dataset.view = state.view || 'servers';
  for (const b of document.querySelectorAll('nav button')) b.setAttribute('aria-pressed', String(b.dataset.view === document.body.dataset.view));
  for (const [id, member] of inputs) if ($(id).value !== state[member]) $(id).value = state[member];
  showServers(servers);
  if (shownServer !== state.server) {
    shownServer = state.server;
    resources = [];
    loadResources();
  }
  showResources(resources);
  showFeed();
  showDetail();
  loadDetail();
  loadLog(showDetail);
}

// loadDetail loads what is shown if that is another thing than before. reloadDetail loads it
// again, once at a time: what is asked for meanwhile is one more request after it.
let loaded = '', reloading = false, stale = false;
function loadDetail() {
  const what = state.server + '\n' + state.uri;
  if (!state.server || loaded === what) return undefined;
  loaded = what;
  return state.uri ? loadResource(showDetail) : loadServer(showDetail);
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

const inputs = [['server-filter', 'filter'], ['server-state', 'state'], ['server-sort', 'sort'], ['resource-filter', 'rfilter'], ['resource-sort', 'rsort'],
  ['feed-filter', 'efilter'], ['chart-range', 'range'], ['chart-scope', 'scope']];
for (const [id, member] of inputs) {
  $(id).oninput = () => {
    go({ [member]: $(id).value });
    if (id.startsWith('chart')) loadCharts();
  };
}
for (const b of document.querySelectorAll('nav button')) b.onclick = () => go({ view: b.dataset.view }, true);

startFeed();
let lastServer = '';
start(() => {
  render();
  if (state.scope && lastServer !== state.server) loadCharts();
  lastServer = state.server;
});

follow((e) => {
  addEvents([e]);
  if (!drawing) { drawing = true; setTimeout(draw, 200); } // a flood is drawn five times a second
  look();
  if (e.serverId === state.server && (state.uri ? e.resourceUri === state.uri : !e.resourceUri)) outdated = true;
}, (status) => {
  $('link').textContent = status;
  $('link').className = 'badge ' + (status === 'live' ? 'good' : 'bad');
  document.body.classList.toggle('offline', status !== 'live');
  if (status === 'live') look();
});
let outdated = false; // what is shown is older than the newest event about it
function draw() {
  drawing = false;
  showFeed();
  if (outdated) { outdated = false; reloadDetail(); }
}

// look asks for the current lists shortly after something happened: one request at a
// time, and rarely enough to leave the browser time with many servers and resources.
async function look() {
  again = true;
  if (looking) return;
  looking = true;
  for (let wait = 200; again; ) {
    await new Promise((done) => setTimeout(done, wait));
    again = false;
    const began = performance.now();
    await Promise.all([loadServers(), loadResources()]);
    wait = Math.min(Math.max(200, 10 * (performance.now() - began)), 5000);
  }
  looking = false;
}

setInterval(loadServers, 5000);
setInterval(() => loadLog(showDetail), 2000);
setInterval(refreshTimes, 5000);
setInterval(reloadDetail, 60000);
(function charts() { loadCharts().then(() => setTimeout(charts, interval())); })();
addEventListener('load', drawCharts);
get('/api/history').then(({ events }) => { addEvents(events, true); showFeed(); if (state.event) showDetail(); }, () => { /* the feed begins now */ });
render();
loadServers();
