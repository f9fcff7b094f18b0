import { follow } from './feed.js';
import { List, text, visible, shown, line } from './list.js';
import { diff } from './diff.js';

const $ = (id) => document.getElementById(id);
const kept = { events: 5000, versions: 30, resources: 200 };
const events = []; // newest first
const perSecond = new Map(); // second → count
let delays = []; // of arrival after the event's time, newest last, in ms
let servers = [], resources = [], server = null, resource = null, tab = 'content', paused = false;
let drawing = false, looking = false, again = false;
const versions = new Map(); // server and uri → [{at, digest, text}], newest first

const tone = (s) => ({ Ready: 'good', Backoff: 'bad', NeedsAuth: 'bad', Unsupported: 'warn' }[s] || '');
const clock = (iso) => iso ? new Date(iso).toLocaleTimeString() : '';
const size = (n) => n < 1024 ? n + ' B' : n < 1048576 ? (n / 1024).toFixed(1) + ' KiB' : (n / 1048576).toFixed(1) + ' MiB';
const count = (n, what) => n + ' ' + what + (n === 1 ? '' : 's');
const fits = (filter, ...texts) => { const f = filter.trim().toLowerCase(); return !f || texts.some((t) => (t || '').toLowerCase().includes(f)); };
const get = async (url) => { const r = await fetch(url); if (!r.ok) throw new Error(r.statusText); return r.json(); };

const serverList = new List($('server-list'), {
  height: 62,
  fill(row, s) {
    const head = text('span', visible(s.id) + ' ');
    const sub = s.error ? visible(s.error) : line(s.transport, s.era, s.serverName, s.serverVersion);
    const more = s.state === 'Backoff' && s.nextRetry ? 'attempt ' + s.attempt + ', next at ' + clock(s.nextRetry)
      : count(s.resources, 'resource') + (s.mode ? ' (' + s.mode + ')' : '') + (s.missing ? ', ' + s.missing + ' polled' : '') + ' · ' + count(s.tools, 'tool') + ' · ' + count(s.updates, 'update');
    row.replaceChildren(head, text('span', visible(s.reason || s.state), 'badge ' + tone(s.state)), text('span', sub, 'sub'), text('span', more, 'sub'));
    row.title = visible(s.error || s.reason || '');
  },
  pick(s) { server = s.id; resource = null; loadResources(); },
});
const resourceList = new List($('resource-list'), {
  height: 44,
  fill(row, r) {
    const note = line(r.name, r.mimeType, r.gone ? 'gone' : size(r.size), r.changed && 'changed ' + clock(r.changed));
    row.replaceChildren(text('span', visible(r.uri), 'mono'), text('span', note, 'sub'));
    row.title = visible(r.uri);
  },
  pick(r) { resource = r.uri; loadContent(); },
});
const feedList = new List($('feed-list'), {
  height: 24,
  fill(row, e) {
    const what = e.resourceUri || e.name || e.reason || e.state || '';
    const places = (n) => (e.details || []).filter((d) => d.key === n).map((d) => ' (' + d.changes.slice(0, 3).map((c) => c.path.slice(1)).join(', ') + (d.changes.length > 3 || d.more ? ', …' : '') + ')').join('');
    const lists = [['added', '+'], ['removed', '−'], ['changed', '~']].flatMap(([k, sign]) => Array.isArray(e[k]) ? e[k].map((n) => sign + n + (k === 'changed' ? places(n) : '')) : []);
    row.replaceChildren(text('span', clock(e.timestamp) + ' ', 'quiet'), text('span', visible(e.serverId || '') + ' '),
      text('span', visible(e.type) + ' ', e.type === 'server.state' ? tone(e.state) : ''),
      text('span', visible([e.state, what === e.state ? '' : what, ...lists, e.error].filter(Boolean).join(' ')), 'mono what'));
    row.title = shown(JSON.stringify(e, null, 1));
  },
});
const narrow = matchMedia('(max-width: 900px)'); // as in app.css: what happened gets a line of its own
const fitFeed = () => feedList.resize(narrow.matches ? 44 : 24);
narrow.addEventListener('change', fitFeed);
fitFeed();

function showServers() {
  serverList.set(servers.filter((s) => fits($('server-filter').value, s.id, s.state, s.serverName)).map((s) => ({ ...s, key: s.id })));
}
function showResources() {
  $('resources-title').textContent = server ? 'Resources of ' + visible(server) : 'Resources';
  resourceList.set(resources.filter((r) => fits($('resource-filter').value, r.uri, r.name)).map((r) => ({ ...r, key: r.uri })));
}
function showFeed() {
  if (paused) return;
  const f = $('feed-filter').value;
  feedList.set(events.filter((e) => fits(f, e.type, e.serverId, e.resourceUri, e.state)).map((e) => ({ ...e, key: e.id })));
}

async function loadServers() {
  try {
    const [status, list] = await Promise.all([get('/api/status'), get('/api/servers')]);
    servers = list;
    $('summary').textContent = `${count(status.servers, 'server')} (${Object.entries(status.states).map(([s, n]) => n + ' ' + s).join(', ') || 'none'}), ${count(status.resources, 'resource')}, ${count(status.updates, 'update')}, ${count(status.clients, 'client')} — mcptrack ${status.version}`;
    showServers();
    if (!server && servers.length) { serverList.choose(0); }
  } catch { $('summary').textContent = 'mcptrack does not answer'; }
}
async function loadResources() {
  if (!server) return;
  const of = server;
  try { const list = await get(`/api/servers/${encodeURIComponent(of)}/resources`); if (of === server) { resources = list; showResources(); } } catch { /* the list that is shown stays */ }
}
async function loadContent() {
  if (!server || !resource) return;
  const of = server, uri = resource, key = of + ' ' + uri;
  try {
    const c = await get(`/api/servers/${encodeURIComponent(of)}/content?uri=${encodeURIComponent(uri)}`);
    const known = versions.get(key) || [];
    if (!known.length || known[0].digest !== c.digest) {
      known.unshift({ at: c.changed || new Date().toISOString(), digest: c.digest, text: c.text, mimeType: c.mimeType, size: c.size, gone: c.gone });
      known.length = Math.min(known.length, kept.versions);
      versions.delete(key);
      versions.set(key, known);
      if (versions.size > kept.resources) versions.delete(versions.keys().next().value);
    }
    if (of === server && uri === resource) showDetail();
  } catch { /* what is shown stays */ }
}

// pictured tells whether a version is an image that this page can show: the newest
// one only, as the server hands out no other.
const pictured = (v) => v.text == null && !v.gone && /^image\/(png|jpeg|gif|webp)$/.test(v.mimeType || '') && v.size <= 4 << 20;
function showDetail() {
  const known = versions.get(server + ' ' + resource) || [], now = known[0], body = $('detail-body');
  $('detail-title').textContent = visible(resource || 'Resource');
  if (!now) return;
  $('detail-meta').textContent = line(server, now.mimeType, now.gone ? 'gone' : size(now.size), (now.digest || '').slice(0, 19), 'as of ' + clock(now.at));
  for (const t of ['content', 'diff', 'history']) $('tab-' + t).setAttribute('aria-selected', String(t === tab));
  const choice = $('versions');
  choice.hidden = tab !== 'diff' || known.length < 2;
  if (!choice.hidden) {
    const old = choice.value;
    choice.replaceChildren(...known.slice(1).map((v, i) => { const o = text('option', 'since ' + clock(v.at)); o.value = String(i + 1); return o; }));
    if (old && known[old]) choice.value = old;
  }
  if (tab === 'content' && pictured(now)) {
    const picture = document.createElement('img');
    picture.alt = visible(resource);
    picture.onerror = () => { body.textContent = `An image that cannot be shown: ${visible(now.mimeType)}, ${size(now.size)}.`; };
    picture.src = `/api/servers/${encodeURIComponent(server)}/image?uri=${encodeURIComponent(resource)}&digest=${encodeURIComponent(now.digest || '')}`;
    if (body.firstChild?.src !== picture.src) body.replaceChildren(picture);
  } else if (tab === 'content') {
    body.textContent = now.gone ? 'The server says that there is no such resource.' : now.text != null ? shown(now.text) : `Not text, or too large to show: ${visible(now.mimeType || 'unknown type')}, ${size(now.size)}.`;
  } else if (tab === 'diff') {
    const old = known[Number(choice.value) || 1];
    body.replaceChildren(...(old && now.text != null && old.text != null
      ? diff(old.text, now.text).map(([sign, l]) => text('span', sign + shown(l) + '\n', { '+': 'add', '-': 'del' }[sign] || ''))
      : [text('span', 'No other version was seen since this page was opened.')]));
  } else {
    const mine = events.filter((e) => e.serverId === server && e.resourceUri === resource);
    body.textContent = shown(mine.map((e) => `${e.timestamp}  ${e.type}  ${e.cause || ''}${e.changed === false ? ' (same content)' : ''}  ${e.digest || ''}`).join('\n')) || 'No event was seen since this page was opened.';
  }
}

function plot() {
  const now = Math.floor(Date.now() / 1000), counts = [];
  for (let s = now - 119; s <= now; s++) counts.push(perSecond.get(s) || 0);
  for (const s of perSecond.keys()) if (s < now - 120) perSecond.delete(s);
  const top = Math.max(1, ...counts);
  const curve = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  curve.setAttribute('d', counts.map((n, i) => `${i ? 'L' : 'M'}${i} ${38 - 36 * n / top}`).join(''));
  $('plot').replaceChildren(curve);
  delays = delays.slice(-1000);
  const sorted = [...delays].sort((a, b) => a - b), at = (q) => sorted[Math.floor(q * (sorted.length - 1))];
  $('plot-text').textContent = `${counts.reduce((a, b) => a + b)} events in two minutes, at most ${top} a second` + (sorted.length ? `; here after ${at(.5)} ms (p50), ${at(.99)} ms (p99)` : '');
}

follow((e) => {
  events.unshift(e);
  if (events.length > kept.events) events.length = kept.events;
  const second = Math.floor(Date.now() / 1000);
  perSecond.set(second, (perSecond.get(second) || 0) + 1);
  const delay = Date.now() - Date.parse(e.timestamp);
  if (delay >= 0 && delay < 60000) delays.push(delay);
  if (!drawing) { drawing = true; setTimeout(draw, 200); } // a flood is drawn five times a second
  look();
  if (e.serverId === server && e.resourceUri === resource) loadContent();
}, (link) => {
  $('link').textContent = link;
  $('link').className = 'badge ' + (link === 'live' ? 'good' : 'bad');
  if (link === 'live') look();
});
function draw() { drawing = false; showFeed(); if (tab === 'history') showDetail(); }

// look asks for what is known now, a little after something happened: once at a
// time, and with many servers and resources seldom enough to leave time for people.
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

$('server-filter').oninput = showServers;
$('resource-filter').oninput = showResources;
$('feed-filter').oninput = showFeed;
$('pause').onclick = () => { paused = !paused; $('pause').setAttribute('aria-pressed', String(paused)); $('pause').textContent = paused ? 'Go on' : 'Pause'; showFeed(); };
for (const t of ['content', 'diff', 'history']) $('tab-' + t).onclick = () => { tab = t; showDetail(); };
$('versions').onchange = showDetail;
setInterval(plot, 1000);
setInterval(loadServers, 5000);
loadServers();
