// The live feed: the newest events, and the words for them.
import { List } from './list.js';
import { clock, element, name, shown, visible } from './dom.js';
import { fits, narrow, tone } from './lists.js';
import { go, state } from './state.js';

const $ = (id) => document.getElementById(id);
const maxEvents = 5000;
const events = []; // newest first
let paused = false;

export const causes = {
  notify: 'notified', trailing: 'end of a burst', resync: 'found after a reconnect', poll: 'found by polling', event: 'named by an event',
};

// summary says in one line what happened.
export function summary(e) {
  const what = e.resourceUri || e.name || e.reason || '';
  const places = (n) => (e.details || []).filter((d) => d.key === n).map((d) => ' (' + d.changes.slice(0, 3).map((c) => c.path.slice(1)).join(', ') + (d.changes.length > 3 || d.more ? ', …' : '') + ')').join('');
  const lists = [['added', '+'], ['removed', '−'], ['changed', '~']].flatMap(([k, sign]) => Array.isArray(e[k]) ? e[k].map((n) => sign + n + (k === 'changed' ? places(n) : '')) : []);
  return [e.state, what === e.state ? '' : what, ...lists, e.changed === false ? '(same content)' : '', e.error].filter(Boolean).join(' ');
}

const feedList = new List($('feed-list'), {
  height: 24,
  fill(row, e) {
    row.replaceChildren(element('span', 'quiet', clock(e.timestamp)), ' ', name(e.serverId || ''), ' ',
      element('span', e.type === 'server.state' ? tone(e.state) : '', visible(e.type)), ' ', name(summary(e), 'mono what'));
  },
  pick(e) { go({ event: e.id, view: 'detail' }, true); },
});

export function startFeed() {
  const fit = () => feedList.resize(narrow.matches ? 48 : 24); // what happened gets a line of its own
  narrow.addEventListener('change', fit);
  fit();
  $('pause').onclick = () => {
    paused = !paused;
    $('pause').setAttribute('aria-pressed', String(paused));
    $('pause').textContent = paused ? 'Resume' : 'Pause';
    showFeed();
  };
}

// addEvents adds events, newest first, before or after those that are there.
export function addEvents(more, older = false) {
  for (const e of more) e.key = e.id; // for the list
  if (older) {
    const known = new Set(events.map((e) => e.id));
    events.push(...more.filter((e) => !known.has(e.id)));
  } else events.unshift(...more);
  events.length = Math.min(events.length, maxEvents);
}

export function showFeed() {
  if (paused) return;
  feedList.set(events.filter((e) => fits(state.efilter, e.type, e.serverId, e.resourceUri, e.state, e.reason)), state.event);
}

// eventOf returns the event with an id, if it is among the newest.
export const eventOf = (id) => events.find((e) => e.id === id);

// eventsOf returns the known events about a resource.
export const eventsOf = (server, uri) => events.filter((e) => e.serverId === server && e.resourceUri === uri);

// eventPage shows one event as it is on the wire.
export function eventPage(e) {
  const { key, ...wire } = e;
  return element('pre', '', shown(JSON.stringify(wire, null, 2)));
}
